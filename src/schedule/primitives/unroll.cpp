#include "schedule/primitives/unroll.h"

#include "schedule/edit/nest.h"
#include "schedule/edit/steps.h"

namespace fettle {
namespace {

Result<Applied> apply_unroll(const Schedule& s, const UnrollArgs& args) {
  return with_loop_kind(s, args.loop, ForKind::kUnrolled, /*constant=*/true, /*independent=*/false);
}

}  // namespace

extern constinit const PrimitiveDef unroll_def = define_primitive<UnrollArgs, apply_unroll>("unroll", 1);

Result<> unroll(Schedule& s, const UnrollArgs& args) { return run<void>(s, unroll_def, args); }

}  // namespace fettle
