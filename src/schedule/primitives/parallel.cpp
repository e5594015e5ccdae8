#include "schedule/primitives/parallel.h"

#include "schedule/edit/nest.h"

namespace fettle {
namespace {

Result<Applied> apply_parallel(const Schedule& s, const ParallelArgs& args) {
  return with_loop_kind(s, args.loop, ForKind::kParallel, /*constant=*/false, /*independent=*/true);
}

}  // namespace

constinit const PrimitiveDef parallel_def = define_primitive<ParallelArgs, apply_parallel>("parallel", 1);

Result<> parallel(Schedule& s, const ParallelArgs& args) {
  FETTLE_TRY_VOID(s.step(parallel_def, args));
  return {};
}

}  // namespace fettle
