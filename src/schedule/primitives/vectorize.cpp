#include "schedule/primitives/vectorize.h"

#include "schedule/edit/nest.h"
#include "schedule/edit/steps.h"

namespace fettle {
namespace {

Result<Applied> apply_vectorize(const Schedule& s, const VectorizeArgs& args) {
  return with_loop_kind(s, args.loop, ForKind::kVectorized, /*constant=*/true, /*independent=*/true);
}

}  // namespace

extern constinit const PrimitiveDef vectorize_def = define_primitive<VectorizeArgs, apply_vectorize>("vectorize", 1);

Result<> vectorize(Schedule& s, const VectorizeArgs& args) { return run<void>(s, vectorize_def, args); }

}  // namespace fettle
