#include "schedule/primitives/add_unit_loop.h"

#include "schedule/edit/steps.h"

namespace fettle {
namespace {

Result<Applied> apply_add_unit_loop(const Schedule& s, const AddUnitLoopArgs& args) {
  FETTLE_TRY(const Stmt stmt, resolve(s, args.target));
  if (stmt == s.func()->body) return refused(ErrorCode::E207, s.func(), stmt.get(), "the root block stands in no loop");
  const Var unit = make_var("u");
  return Applied{replace_in(s.func(), stmt.get(), make_for(unit, 0, 1, stmt)), {unit}};
}

}  // namespace

extern constinit const PrimitiveDef add_unit_loop_def =
    define_primitive<AddUnitLoopArgs, apply_add_unit_loop>("add_unit_loop", 1);

Result<LoopRef> add_unit_loop(Schedule& s, const AddUnitLoopArgs& args) {
  return run<LoopRef>(s, add_unit_loop_def, args);
}

}  // namespace fettle
