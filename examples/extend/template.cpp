// A template of one's own: a schedule by hand with named knobs, searched by a genetic algorithm.

#include "generations/autotvm/template/template.h"
#include "database/database.h"
#include "generations/registry.h"
#include "matmul.h"
#include "measure/local_measurer.h"
#include "schedule/primitives/get_block.h"
#include "schedule/primitives/get_loops.h"
#include "schedule/primitives/reorder.h"
#include "tune/describe.h"
#include "tune/tuner.h"

using namespace fettle;

Result<> body(TemplateContext& t) {
  FETTLE_TRY(const BlockRef c, get_block(t.schedule(), {.name = "C"}));
  FETTLE_TRY(const std::vector<LoopRef> loops, get_loops(t.schedule(), {.block = c}));
  FETTLE_TRY(const std::vector<LoopRef> y, t.define_split("tile_y", loops[0]));
  FETTLE_TRY(const std::vector<LoopRef> x, t.define_split("tile_x", loops[1]));
  FETTLE_TRY_VOID(reorder(t.schedule(), {.loops = {y[0], x[0], loops[2], y[1], x[1]}}));
  FETTLE_TRY_VOID(t.define_annotate("inner", {y[1], x[1]}, {.policy = AnnotateOptions::Policy::kTryVectorize}));
  t.constrain("tiles of at most 256 elements",
              [](const ConfigView& v) { return v["tile_y"][1] * v["tile_x"][1] <= 256; });
  return {};
}

Result<std::string> example() {
  const Func program = matmul(64);
  const Target target = detect_host(1);
  FETTLE_TRY(const ConfigSpace configs, config_space({"mine", body}, program));
  FETTLE_TRY(const auto runner, LocalMeasurer::start({.target = target, .worker_path = FETTLE_WORKER}));
  const auto model = make_prediction_only();
  const auto database = make_memory_database();
  const auto space = template_space({"mine", body});
  TuneOptions options{.max_trials = 8};
  options.space = space.get();
  options.strategy = find_strategy("genetic");
  options.describe = describe_by_lowering(std::make_shared<const Target>(target), 1);
  FETTLE_TRY(const TaskReport report, tune_task(program, target, 1, *database, *runner, *model, options));
  if (report.failed > 0 || report.trials < 8)
    return fail(ErrorCode::E407, "not all of eight configurations were timed");
  return std::to_string(configs.size()) + " configurations, " + std::to_string(configs.count()) + " of them allowed; " +
         std::to_string(report.trials) + " timed, the best " + std::to_string(report.best_s * 1e6) + " us";
}

int main() { return tell(example()); }
