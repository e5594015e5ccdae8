#include "schedule/primitives/relabel.h"

#include "ir/visit.h"
#include "schedule/edit/edit.h"

namespace fettle {
namespace {

Result<Applied> apply_relabel(const Schedule& s, const RelabelArgs& args) {
  FETTLE_TRY(const Stmt stmt, s.loop(args.loop));
  const auto& loop = *stmt.as<ForNode>();
  if (args.name.empty()) return fail_at(ErrorCode::E206, s.func(), &loop, "a loop without a name", {});
  const Stmt renamed = with(loop, [&](ForNode& f) {
    f.var = make_var(args.name, loop.var->dtype);
    f.body = substitute(loop.body, {{loop.var.get(), f.var}});
  });
  return Applied{replace_in(s.func(), &loop, renamed), {}};
}

}  // namespace

constinit const PrimitiveDef relabel_def = define_primitive<RelabelArgs, apply_relabel>("relabel", 1);

Result<> relabel(Schedule& s, const RelabelArgs& args) {
  FETTLE_TRY_VOID(s.step(relabel_def, args));
  return {};
}

}  // namespace fettle
