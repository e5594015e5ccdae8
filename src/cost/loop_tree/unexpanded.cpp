#include "cost/loop_tree/unexpanded.h"

#include "ir/visit.h"

namespace fettle {
namespace {

// No value is chosen, and no element masked, by `var`. Sums and loads, which most are, without a general walk.
bool values_are_alike(const Expr& e, const VarNode* var) {
  switch (e.kind()) {
    case ExprKind::kIntImm:
    case ExprKind::kFloatImm:
    case ExprKind::kVar:
      return true;
    case ExprKind::kBinary:
      return values_are_alike(e.as<BinaryNode>()->a, var) && values_are_alike(e.as<BinaryNode>()->b, var);
    case ExprKind::kLoad: {
      const auto* source = e.as<LoadNode>();
      return !source->mask && source->indices.size() == 1 && values_are_alike(source->indices[0], var);
    }
    default:
      break;
  }
  bool alike = true;
  walk(e, [&](const Expr& x) {
    if (const auto* choice = x.as<SelectNode>()) alike &= !uses_var(choice->condition, var);
    if (const auto* source = x.as<LoadNode>()) alike &= !source->mask && source->indices.size() == 1;
    return alike;
  });
  return alike;
}

bool has_no_vectors(const Expr& e) {
  if (e.dtype().lanes != 1) return false;
  switch (e.kind()) {
    case ExprKind::kIntImm:
    case ExprKind::kFloatImm:
    case ExprKind::kVar:
      return true;
    case ExprKind::kBinary:
      return has_no_vectors(e.as<BinaryNode>()->a) && has_no_vectors(e.as<BinaryNode>()->b);
    default:
      break;
  }
  bool none = true;
  walk(e, [&](const Expr& x) {
    none &= x.dtype().lanes == 1 && x.kind() != ExprKind::kAddress;
    return none;
  });
  return none;
}

bool lanes_of_body_are_alike(const Stmt& s, const VarNode* lane) {
  switch (s.kind()) {
    case StmtKind::kFor: {
      const auto& loop = *s.as<ForNode>();
      return loop.loop_kind != ForKind::kVectorized && loop.loop_kind != ForKind::kParallel &&
             !uses_var(loop.min, lane) && !uses_var(loop.extent, lane) && lanes_of_body_are_alike(loop.body, lane);
    }
    case StmtKind::kSeq:
      for (const Stmt& child : s.as<SeqNode>()->stmts)
        if (!lanes_of_body_are_alike(child, lane)) return false;
      return true;
    case StmtKind::kStore: {
      const auto& store = *s.as<StoreNode>();
      return !store.mask && store.indices.size() == 1 && has_no_vectors(store.value) &&
             (uses_var(store.indices[0], lane) || !uses_var(store.value, lane)) && values_are_alike(store.value, lane);
    }
    default:
      return false;
  }
}

bool copies_of_body_are_alike(const Stmt& s, const VarNode* copy) {
  switch (s.kind()) {
    case StmtKind::kFor: {
      const auto& loop = *s.as<ForNode>();
      if (!as_int(loop.min) || !as_int(loop.extent)) return false;
      if (loop.loop_kind == ForKind::kVectorized) {
        if (*as_int(loop.extent) > 1 && !lanes_are_alike(loop)) return false;
      } else if (loop.loop_kind != ForKind::kUnrolled) {
        return false;
      }
      return *as_int(loop.extent) > 0 && copies_of_body_are_alike(loop.body, copy);
    }
    case StmtKind::kSeq:
      for (const Stmt& child : s.as<SeqNode>()->stmts)
        if (!copies_of_body_are_alike(child, copy)) return false;
      return true;
    case StmtKind::kStore: {
      const auto& store = *s.as<StoreNode>();
      return !store.mask && values_are_alike(store.value, copy);
    }
    case StmtKind::kEvaluate:
      return values_are_alike(s.as<EvaluateNode>()->value, copy);
    default:
      return false;
  }
}

}  // namespace

bool copies_are_alike(const ForNode& unrolled) {
  return as_int(unrolled.min) && copies_of_body_are_alike(unrolled.body, unrolled.var.get());
}

bool lanes_are_alike(const ForNode& vectorized) {
  const int64_t* lanes = as_int(vectorized.extent);
  return lanes && *lanes > 1 && *lanes <= 4096 && as_int(vectorized.min) &&
         lanes_of_body_are_alike(vectorized.body, vectorized.var.get());
}

}  // namespace fettle
