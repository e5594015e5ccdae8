#include "schedule/primitives/annotate.h"

#include "schedule/edit/steps.h"

namespace fettle {
namespace {

Result<Applied> apply_annotate(const Schedule& s, const AnnotateArgs& args) {
  FETTLE_TRY(const Stmt stmt, resolve(s, args.target));
  const auto set = [&](auto& node) { node.annotations.set(args.key, args.value); };
  const auto* loop = stmt.as<ForNode>();
  const Stmt annotated = loop ? with(*loop, set) : with(*stmt.as<BlockNode>(), set);
  return Applied{replace_in(s.func(), stmt.get(), annotated), {}};
}

}  // namespace

extern constinit const PrimitiveDef annotate_def = define_primitive<AnnotateArgs, apply_annotate>("annotate", 1);

Result<> annotate(Schedule& s, const AnnotateArgs& args) { return run<void>(s, annotate_def, args); }

}  // namespace fettle
