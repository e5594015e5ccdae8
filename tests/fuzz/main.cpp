// fuzz [--seed S] [--traces N] [--backend llvm|c|…] [--programs all|affine] [--case I] [--findings K]
// [--batch B] [--processes P] [--disable CHECK]…: what `make fuzz` runs; --examine FILE shows what became of a finding,
// as it was printed. Exit status 0: nothing found · 1: something was · 2: wrong usage.
#include <fmt/format.h>
#include <unistd.h>

#include <charconv>
#include <cstring>
#include <fstream>
#include <iterator>
#include <optional>

#include "tests/fuzz/fuzz.h"

int main(int argc, char** argv) {
  using namespace fettle::fuzz;
  FuzzOptions options;
  options.backend = find_backend("llvm");
  options.processes = fettle::available_threads();
  std::optional<std::string> examined;
  const auto wrong = [](const std::string& what) {
    fmt::print(stderr,
               "fuzz: {}\nusage: fuzz [--seed S] [--traces N] [--backend NAME] [--case I] [--findings K] [--batch B] "
               "[--processes P] [--programs all|affine] "
               "[--disable CHECK]… [--examine FILE]\n",
               what);
    return 2;
  };
  for (int i = 1; i < argc; ++i) {
    const std::string_view name = argv[i];
    if (i + 1 == argc) return wrong(fmt::format("{} needs a value", name));
    const std::string_view value = argv[++i];
    int64_t number = 0;
    const bool is_number =
        std::from_chars(value.data(), value.data() + value.size(), number).ptr == value.data() + value.size() &&
        number >= 0;
    if (name == "--backend") {
      options.backend = find_backend(value);
      if (!options.backend) {
        std::string known;
        for (const Backend& backend : backends()) known += fmt::format(" {}", backend.name);
        return wrong(fmt::format("no back end {}; there are{}", value, known));
      }
      if (!options.backend->available())
        return wrong(fmt::format("{} needs {}", value, options.backend->requires_what));
    } else if (name == "--examine") {
      std::ifstream file{std::string(value)};
      if (!file) return wrong(fmt::format("there is no file {}", value));
      examined.emplace(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
    } else if (name == "--programs" && (value == "all" || value == "affine")) {
      options.affine = value == "affine";
    } else if (name == "--disable") {
      options.disabled_checks.emplace_back(value);
    } else if (!is_number) {
      return wrong(fmt::format("{} takes a number, not {}", name, value));
    } else if (name == "--seed") {
      options.seed = static_cast<uint64_t>(number);
    } else if (name == "--traces") {
      options.traces = number;
    } else if (name == "--case") {
      options.first_case = number;
    } else if (name == "--findings") {
      options.max_findings = static_cast<int>(number);
    } else if (name == "--processes" && number > 0) {
      options.processes = static_cast<int>(number);
    } else if (name == "--batch" && number > 0 && number <= 256) {
      options.batch = static_cast<int>(number);
    } else {
      return wrong(fmt::format("no option {}", name));
    }
  }
  if (examined) {
    fmt::print("{}", examine(options, *examined));
    return 0;
  }
  options.progress = [&](int64_t traces, const Finding* found) {
    if (found)
      fmt::print(stderr, "case {}: {}\n", found->case_number, found->what);
    else if (isatty(STDERR_FILENO))
      fmt::print(stderr, "\r{} of {} traces", traces, options.traces);
  };
  const FuzzReport report = fuzz(options);
  fmt::print("{}", report.to_text());
  if (report.findings.empty()) return 0;
  fmt::print("\nseed {}, back end {}: {} found\n", options.seed, options.backend->name, report.findings.size());
  return 1;
}
