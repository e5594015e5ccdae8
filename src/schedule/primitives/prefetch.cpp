#include "schedule/primitives/prefetch.h"

#include "ir/annotations.h"
#include "schedule/edit/steps.h"

namespace fettle {
namespace {

Result<Applied> apply_prefetch(const Schedule& s, const PrefetchArgs& args) {
  FETTLE_TRY(const Stmt stmt, s.loop(args.loop));
  const auto& loop = *stmt.as<ForNode>();
  if (loop.loop_kind != ForKind::kSerial && !(args.near && loop.loop_kind == ForKind::kUnrolled))
    return refused(ErrorCode::E201, s.func(), &loop, "loop {} is not serial", loop.var->name);
  if (args.distance < 1)
    return refused(ErrorCode::E202, s.func(), &loop, "the distance is {}", std::to_string(args.distance));
  const Stmt annotated =
      with(loop, [&](ForNode& f) { f.annotations.set(args.near ? kPrefetchNearKey : kPrefetchKey, args.distance); });
  return Applied{replace_in(s.func(), &loop, annotated), {}};
}

}  // namespace

extern constinit const PrimitiveDef prefetch_def = define_primitive<PrefetchArgs, apply_prefetch>("prefetch", 1);

Result<> prefetch(Schedule& s, const PrefetchArgs& args) { return run<void>(s, prefetch_def, args); }

}  // namespace fettle
