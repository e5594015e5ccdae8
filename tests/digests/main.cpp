// fettle-digests: what the spaces of Fettle make, against what tests/digests/*.txt says that they made. README.md.
// Exit status 0: as recorded, or written · 1: something is otherwise, or failed · others: wrong usage.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <filesystem>

#include "target/target.h"
#include "tests/digests/against.h"
#include "tests/digests/tables.h"

namespace {

using namespace fettle::digests;

struct Options {
  Selection selection;
  std::string tables = FETTLE_DIGESTS_FOLDER, write, against;
  bool update = false, complete = false;
  int threads = fettle::available_threads();
};

int failed(const fettle::Diagnostic& diagnostic) {
  fmt::print(stderr, "fettle-digests: {}\n", diagnostic.to_string());
  return 1;
}

int check(const Options& options) {
  const auto recorded = read_tables(options.tables);
  if (!recorded) return failed(recorded.error());
  const auto rows = make_rows(options.selection, !options.complete, options.threads);
  if (!rows) return failed(rows.error());
  const std::vector<Difference> found = compare(*recorded, options.selection, *rows);
  std::string shown;  // the row whose points were shown last
  for (const Difference& difference : found) {
    fmt::print("{}, {}, {}: {}\n", difference.row.space, difference.row.target, difference.row.subject,
               difference.what);
    if (options.against.empty() || shown == difference.row.key()) continue;
    shown = difference.row.key();
    const auto where = show_against(difference.row, options.against);
    if (!where) return failed(where.error());
    fmt::print("  {}\n", where->empty() ? "both programs make the same points" : *where);
  }
  fmt::print("{} rows, {} differences\n", rows->size(), found.size());
  return found.empty() ? 0 : 1;
}

int update(const Options& options) {
  const auto rows = make_rows(options.selection, false, options.threads);
  if (!rows) return failed(rows.error());
  const auto done = update_tables(options.tables, options.selection, *rows);
  return done ? 0 : failed(done.error());
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  CLI::App app("What the spaces of Fettle make, against what tests/digests/*.txt says that they made.");
  app.add_flag("--complete", options.complete, "all points of each row, not the first alone");
  app.add_flag("--all", options.selection.models, "the tasks of all models, too (make models), and all points");
  app.add_option("--space", options.selection.space,
                 "one space alone: default, rules, template/NAME, sketches, metaschedule");
  app.add_option("--target", options.selection.target, "one target alone: avx2, avx512, neon, sm_80");
  app.add_option("--task", options.selection.task, "tasks whose name contains this");
  app.add_option("--threads", options.threads, "threads to work with")->check(CLI::PositiveNumber);
  app.add_option("--tables", options.tables, "folder of the tables");
  auto* update_flag = app.add_flag("--update", options.update, "record what is made now");
  app.add_option("--write", options.write, "write the points of the selection to this folder, and check nothing")
      ->excludes(update_flag);
  app.add_option("--against", options.against,
                 "another fettle-digests: for each row that differs, where the points of both part")
      ->check(CLI::ExistingFile)
      ->excludes(update_flag);
  CLI11_PARSE(app, argc, argv);
  options.complete |= options.selection.models;
  if (!options.write.empty()) {
    const auto written = write_points(options.selection, options.write, options.threads);
    return written ? 0 : failed(written.error());
  }
  return options.update ? update(options) : check(options);
}
