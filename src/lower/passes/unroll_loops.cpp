#include <optional>

#include "base/check.h"
#include "ir/compare.h"
#include "ir/rewrite.h"
#include "lower/passes/passes.h"
#include "schedule/dataflow/dataflow.h"

namespace fettle {
namespace {

// All lanes on, all off, or neither.
std::optional<bool> mask_value(const Expr& mask) {
  const auto first = lane_value(mask, 0);
  if (!first) return {};
  for (int64_t lane = 1; lane < mask.dtype().lanes; ++lane)
    if (const auto other = lane_value(mask, lane); !other || !*other != !*first) return {};
  return *first != 0;
}

class Folder : public Mutator {
 public:
  using Mutator::rewrite;
  Expr rewrite(const Expr& e) override {
    if (const auto* var = e.as<VarNode>()) {
      const auto found = values_.find(var);
      return found == values_.end() ? e : found->second;
    }
    const Expr result = Mutator::rewrite(e);
    if (const auto* source = result.as<LoadNode>(); source && source->mask && mask_value(source->mask) == true)
      return load(source->buffer, source->indices);
    if (const auto* choice = result.as<SelectNode>(); choice && choice->condition.dtype().is_vector())
      if (const auto known = mask_value(choice->condition)) return *known ? choice->if_true : choice->if_false;
    // Lanes that are off read zero as it is.
    if (const auto* choice = result.as<SelectNode>(); choice && is_const_zero(choice->if_false))
      if (const auto* source = choice->if_true.as<LoadNode>();
          source && source->mask && structural_equal(source->mask, choice->condition))
        return choice->if_true;
    return result;
  }
  Stmt rewrite(const Stmt& s) override {
    if (!s) return s;
    if (const auto* choice = s.as<IfNode>()) {
      Expr condition = rewrite(choice->condition);
      if (const int64_t* known = as_int(condition)) return rewrite(*known ? choice->then_body : choice->else_body);
      return Mutator::rewrite(s);
    }
    if (const auto* loop = s.as<ForNode>()) {
      Expr extent = rewrite(loop->extent);
      if (const int64_t* known = as_int(extent)) {
        if (*known <= 0) return nullptr;
        if (*known == 1 && loop->loop_kind != ForKind::kThreadBinding) {
          values_[loop->var.get()] = rewrite(loop->min);
          return rewrite(loop->body);
        }
      }
      return Mutator::rewrite(s);
    }
    if (const auto* target = s.as<StoreNode>(); target && target->mask) {
      const Expr mask = rewrite(target->mask);
      const auto known = mask_value(mask);
      if (is_zero(mask) || known == false) return nullptr;
      if (known == true) return store(target->buffer, {rewrite(target->indices[0])}, rewrite(target->value));
    }
    return Mutator::rewrite(s);
  }

 private:
  VarMap values_;  // of loops of one iteration
};

}  // namespace

Stmt copies_of(const ForNode& loop, const Stmt& body) {
  std::vector<Stmt> copies;
  for (int64_t i = 0; i < *as_int(loop.extent); ++i) {
    Stmt copy = substitute(body, {{loop.var.get(), loop.min + i}});
    copies.push_back(i == 0 ? copy : rename_bound(copy));
  }
  return seq(std::move(copies));
}

void split_conjuncts(const Expr& condition, std::vector<Expr>& conjuncts) {
  const std::vector<Expr> more = fettle::conjuncts(condition);
  conjuncts.insert(conjuncts.end(), more.begin(), more.end());
}

Stmt fold_control(const Stmt& body) { return Folder().rewrite(body); }

Stmt unroll_loops(const Stmt& body) {
  return fold_control(rewrite_each<ForNode>(body, [](const ForNode& loop) {
    if (loop.loop_kind != ForKind::kUnrolled) return Stmt();
    return as_int(loop.extent) ? copies_of(loop, loop.body) : serialized(loop);
  }));
}

}  // namespace fettle
