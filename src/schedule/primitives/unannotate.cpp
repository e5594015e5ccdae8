#include "schedule/primitives/unannotate.h"

#include "schedule/edit/steps.h"

namespace fettle {
namespace {

Result<Applied> apply_unannotate(const Schedule& s, const UnannotateArgs& args) {
  FETTLE_TRY(const Stmt stmt, resolve(s, args.target));
  bool erased = false;
  const auto remove = [&](auto& node) { erased = node.annotations.erase(args.key); };
  const auto* loop = stmt.as<ForNode>();
  const Stmt plain = loop ? with(*loop, remove) : with(*stmt.as<BlockNode>(), remove);
  if (!erased) return refused(ErrorCode::E232, s.func(), stmt.get(), "no annotation named {}", args.key);
  return Applied{replace_in(s.func(), stmt.get(), plain), {}};
}

}  // namespace

extern constinit const PrimitiveDef unannotate_def =
    define_primitive<UnannotateArgs, apply_unannotate>("unannotate", 1);

Result<> unannotate(Schedule& s, const UnannotateArgs& args) { return run<void>(s, unannotate_def, args); }

}  // namespace fettle
