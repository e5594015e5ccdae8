// What tuning some programs teaches about others: trains the correction of the prediction that ships, from rows of
// `bench-search --training --write-rows`, and reports what it is worth on tasks, families and machines that it has not
// seen.

#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "search/learning.h"

using namespace fettle;
using namespace fettle::bench;

int main(int argc, char** argv) {
  std::vector<std::string> files;
  std::string write_to, out = "build/bench";
  CLI::App app("Trains what corrects the prediction, and says how well it ranks what it has not seen.");
  app.add_option("rows", files, "files of bench-search --training --write-rows FILE; each machine's in its own")
      ->required()
      ->check(CLI::ExistingFile);
  app.add_option("--write", write_to, "the file to write: src/cost/learned/learned_correction.txt");
  app.add_option("--out", out, "folder of learning.json")->capture_default_str();
  CLI11_PARSE(app, argc, argv);

  const auto fail_with = [](const Diagnostic& error) {
    fmt::print(stderr, "{}\n", error.to_string());
    return 1;
  };
  std::vector<MeasuredSearch> searches;
  for (const std::string& file : files) {
    auto read = read_rows(file);
    if (!read) return fail_with(read.error());
    for (MeasuredSearch& search : *read) searches.push_back(std::move(search));
  }
  Report report("learning");
  add_rankings(report, searches);
  fmt::print("{}", report.table());
  if (const auto written = report.write(out); !written) return fail_with(written.error());
  if (write_to.empty()) return 0;
  std::vector<const MeasuredSearch*> all;
  for (const MeasuredSearch& search : searches) all.push_back(&search);
  if (const auto written = write_correction(train_correction(all), write_to); !written)
    return fail_with(written.error());
  return 0;
}
