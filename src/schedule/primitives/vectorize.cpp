#include "schedule/primitives/vectorize.h"

#include "schedule/edit/nest.h"

namespace fettle {
namespace {

Result<Applied> apply_vectorize(const Schedule& s, const VectorizeArgs& args) {
  return with_loop_kind(s, args.loop, ForKind::kVectorized, /*constant=*/true, /*independent=*/true);
}

}  // namespace

constinit const PrimitiveDef vectorize_def = define_primitive<VectorizeArgs, apply_vectorize>("vectorize", 1);

Result<> vectorize(Schedule& s, const VectorizeArgs& args) {
  FETTLE_TRY_VOID(s.step(vectorize_def, args));
  return {};
}

}  // namespace fettle
