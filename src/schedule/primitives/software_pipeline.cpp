#include "schedule/primitives/software_pipeline.h"

#include "ir/annotations.h"
#include "schedule/edit/nest.h"
#include "schedule/edit/pipelining.h"
#include "schedule/edit/steps.h"

namespace fettle {
namespace {

Result<Applied> apply_software_pipeline(const Schedule& s, const SoftwarePipelineArgs& args) {
  FETTLE_TRY(const Stmt stmt, s.loop(args.loop));
  const Func& func = s.func();
  const auto& loop = *stmt.as<ForNode>();
  FETTLE_TRY_VOID(check_plain(func, loop));
  const std::vector<Stmt> parts = pipeline_parts(loop);
  const auto wrong = [&](std::string why) { return refused(ErrorCode::E241, func, &loop, "{}", why); };
  if (args.stages.size() != parts.size() || args.order.size() != parts.size())
    return wrong(fmt::format("the body has {} parts; {} stages and {} places are given", parts.size(),
                             args.stages.size(), args.order.size()));
  std::vector<bool> taken(parts.size(), false);
  for (const int64_t place : args.order) {
    if (place < 0 || static_cast<size_t>(place) >= parts.size() || taken[static_cast<size_t>(place)])
      return wrong("order is no permutation of the parts");
    taken[static_cast<size_t>(place)] = true;
  }
  for (const int64_t stage : args.stages)
    if (stage < 0 || stage > kMaxPipelineStage)
      return wrong(fmt::format("a stage is not in 0 to {}", kMaxPipelineStage));

  FETTLE_TRY_VOID(check_pipeline(func, loop, args.stages, args.order));
  const Stmt annotated = with(loop, [&](ForNode& f) {
    f.annotations.set(kPipelineStagesKey, args.stages);
    f.annotations.set(kPipelineOrderKey, args.order);
  });
  return Applied{replace_in(func, &loop, annotated), {}};
}

}  // namespace

extern constinit const PrimitiveDef software_pipeline_def =
    define_primitive<SoftwarePipelineArgs, apply_software_pipeline>("software_pipeline", 1);

Result<> software_pipeline(Schedule& s, const SoftwarePipelineArgs& args) {
  return run<void>(s, software_pipeline_def, args);
}

}  // namespace fettle
