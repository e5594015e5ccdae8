#include "codegen/device/host_walk.h"

namespace fettle {

Result<> HostWalk::run(const Stmt& s) {
  if (!s) return {};
  if (const auto* all = s.as<SeqNode>()) {
    for (const Stmt& child : all->stmts) FETTLE_TRY_VOID(run(child));
    return {};
  }
  if (const auto* loop = s.as<ForNode>()) {
    FETTLE_TRY(const int64_t min, value(loop->min));
    FETTLE_TRY(const int64_t extent, value(loop->extent));
    for (int64_t i = 0; i < extent; ++i) {
      ints_.set(loop->var.get(), min + i);
      FETTLE_TRY_VOID(run(loop->body));
    }
    return {};
  }
  if (const auto* choice = s.as<IfNode>()) {
    FETTLE_TRY(const int64_t holds, value(choice->condition));
    return run(holds ? choice->then_body : choice->else_body);
  }
  if (const auto* name = s.as<LetNode>()) {
    FETTLE_TRY(const int64_t known, value(name->value));
    ints_.set(name->var.get(), known);
    return run(name->body);
  }
  return leaf(s);
}

}  // namespace fettle
