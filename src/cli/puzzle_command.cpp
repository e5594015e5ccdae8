#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <memory>

#include "cli/command.h"
#include "cli/puzzles.h"
#include "cli/steps_file.h"
#include "driver/untuned.h"
#include "ir/text.h"
#include "measure/compare.h"
#include "measure/local_kernel.h"
#include "measure/timing.h"
#include "schedule/reformulation.h"
#include "schedule/trace/explain.h"
#include "schedule/trace/trace.h"

namespace fettle::cli {
namespace {

struct Options {
  std::string puzzle, trace;
  bool json = false;
};

Report list() {
  Report report;
  for (const Puzzle& puzzle : puzzles())
    report.text += fmt::format("{:2}  {:<16} {}\n", puzzle.number, puzzle.name, puzzle.title);
  report.text += "\n`fettle puzzle N` shows one, `fettle puzzle N --trace FILE` tries your schedule.\n";
  report.json["puzzles"] = json_list(puzzles(), [](const Puzzle& puzzle) -> nlohmann::json {
    return {{"number", puzzle.number}, {"name", puzzle.name}, {"title", puzzle.title}, {"bar", puzzle.bar}};
  });
  return report;
}

Report show(const Puzzle& puzzle) {
  Report report;
  report.text = puzzle.text;
  report.json = {{"number", puzzle.number},
                 {"name", puzzle.name},
                 {"title", puzzle.title},
                 {"bar", puzzle.bar},
                 {"program", puzzle.program}};
  return report;
}

/// E405 an output differs from that of the program as it is written.
Result<> check_outputs(const Func& program, const Schedule& schedule, const LocalKernel& plain,
                       const LocalKernel& kernel) {
  const double error_bound = error_bound_of(schedule.func());
  for (int p = 0; p < plain.n_params(); ++p) {
    const Param& param = plain.param(p);
    if (param.kind != ParamKind::kOutput) continue;
    const DType dtype = param.buffer->dtype;
    const std::vector<std::byte> expected = plain.logical_bytes(p), found = kernel.logical_bytes(p);
    if (const auto difference = find_difference(param.buffer->name, plain.logical_shape(p), dtype, found.data(),
                                                expected.data(), tolerance_of_scale(program, dtype, error_bound)))
      return fail(ErrorCode::E405, *difference);
  }
  return {};
}

/// The time of one call in times of Fettle's own schedule, timed in turn with it: at best of a few looks, since others
/// use the machine, too.
Result<double> times_of_own(LocalKernel& kernel, LocalKernel& own, double* own_s) {
  TimingOptions options;
  options.max_seconds = 0.5;
  const Timing alone = time_call([&] { return own.call(); }, options);
  *own_s = alone.min_s;
  options.reference_s = 1;
  double best = std::numeric_limits<double>::infinity();
  for (int look = 0; look < 3; ++look) {
    const Timing timing = time_beside([&] { return kernel.call(); }, [&] { return own.call(); }, options);
    if (timing.status != 0) return fail(ErrorCode::E710, "the kernel failed while it was timed");
    best = std::min(best, timing.median_s);
  }
  return best;
}

Result<Report> attempt(const Puzzle& puzzle, const std::string& file) {
  FETTLE_TRY(const std::string text, read_text(file));
  FETTLE_TRY(const ParsedTrace trace, parse_steps(text, file));
  const auto target = std::make_shared<const Target>(detect_host(1));
  FETTLE_TRY(const Func program, parse_func(puzzle.program));
  Schedule schedule(program);
  schedule.set_target(target);
  if (auto done = replay(schedule, trace); !done) {
    fmt::print(stderr, "{}\n", explain(done.error()));
    return fail(in_file(std::move(done).error(), file));
  }
  FETTLE_TRY(const Schedule own_schedule, untuned_schedule(program, target, 1));
  FETTLE_TRY(LocalKernel plain, LocalKernel::build(program, *target, {.plain = true}));
  FETTLE_TRY(LocalKernel own, LocalKernel::build(own_schedule.func(), *target));
  FETTLE_TRY(LocalKernel kernel, LocalKernel::build(schedule.func(), *target));
  FETTLE_TRY_VOID(plain.run());
  FETTLE_TRY_VOID(kernel.run());
  FETTLE_TRY_VOID(check_outputs(program, schedule, plain, kernel));
  double own_s = 0;
  FETTLE_TRY(const double times, times_of_own(kernel, own, &own_s));
  const bool solved = times <= puzzle.bar;
  Report report;
  report.text = fmt::format(
      "{:.3f} ms; Fettle's own schedule takes {:.3f} ms. {:.2f} times as long, and {:g} times are allowed: {}\n",
      times * own_s * 1e3, own_s * 1e3, times, puzzle.bar, solved ? "solved." : "not yet.");
  report.json = {{"number", puzzle.number}, {"name", puzzle.name}, {"seconds", times * own_s}, {"own_seconds", own_s},
                 {"times_of_own", times},   {"bar", puzzle.bar},   {"solved", solved}};
  report.status = solved ? kDone : kCouldNot;
  return report;
}

Result<Report> puzzle(const Options& options) {
  if (options.puzzle.empty()) return list();
  FETTLE_TRY(const Puzzle* const chosen, find_puzzle(options.puzzle));
  if (options.trace.empty()) return show(*chosen);
  return attempt(*chosen, options.trace);
}

}  // namespace

Command add_puzzle_command(App& app) {
  auto options = std::make_shared<Options>();
  App* made = add_subcommand(app, "puzzle", "Learn to schedule: a program, and how fast it has to become",
                             "fettle puzzle 3\n  fettle puzzle 3 --trace mine.txt", &options->json);
  std::vector<std::string> names;
  for (const Puzzle& puzzle : puzzles()) names.emplace_back(puzzle.name);
  auto* number = made->add_option("puzzle", options->puzzle, "its number or name; without one, all are listed")
                     ->type_name("PUZZLE")
                     ->such_as(std::move(names));
  made->add_option("--trace", options->trace, "your schedule's steps, as text or JSON")
      ->type_name("FILE")
      ->needs(number);
  return {made, [options] { return puzzle(*options); }, &options->json};
}

}  // namespace fettle::cli
