#include "schedule/primitives/parallel.h"

#include "schedule/edit/nest.h"
#include "schedule/edit/steps.h"

namespace fettle {
namespace {

Result<Applied> apply_parallel(const Schedule& s, const ParallelArgs& args) {
  return with_loop_kind(s, args.loop, ForKind::kParallel, /*constant=*/false, /*independent=*/true);
}

}  // namespace

extern constinit const PrimitiveDef parallel_def = define_primitive<ParallelArgs, apply_parallel>("parallel", 1);

Result<> parallel(Schedule& s, const ParallelArgs& args) { return run<void>(s, parallel_def, args); }

}  // namespace fettle
