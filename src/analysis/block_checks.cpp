#include "analysis/block_checks.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "analysis/sites.h"
#include "arith/affine_map.h"
#include "arith/plain_map.h"
#include "base/checks.h"
#include "ir/fields.h"
#include "ir/text.h"
#include "ir/visit.h"

namespace fettle {
namespace {

// Walks statements and expressions with all that is known at each place.
class GuardedWalk {
 public:
  explicit GuardedWalk(Analyzer& analyzer) : analyzer_(analyzer) {}
  virtual ~GuardedWalk() = default;

  void visit(const Stmt& s) {
    if (!s || stopped_ || s.kind() == StmtKind::kBlock) return;  // a block has its own
    const auto scope = analyzer_.enter();
    if (const auto* loop = s.as<ForNode>()) {
      analyzer_.bind(loop->var, loop->min, loop->extent);
      return visit(loop->body);
    }
    if (const auto* n = s.as<LetNode>()) {
      visit(n->value);
      analyzer_.bind(n->var, n->value);
      return visit(n->body);
    }
    if (const auto* n = s.as<IfNode>()) return visit_both(n->condition, n->then_body, n->else_body);
    each_child(s, [&](const auto& child) { visit(child); });
    if (const auto* n = s.as<StoreNode>(); n && !stopped_) on_store(*n);
  }

  void visit(const Expr& e) {
    if (!e || stopped_) return;
    if (const auto* n = e.as<BinaryNode>(); n && (n->op == BinaryOp::kAnd || n->op == BinaryOp::kOr)) {
      visit(n->a);
      const auto scope = analyzer_.assume(n->op == BinaryOp::kAnd ? n->a : logical_not(n->a));
      return visit(n->b);
    }
    if (const auto* n = e.as<SelectNode>()) return visit_both(n->condition, n->if_true, n->if_false);
    each_child(e, [&](const Expr& child) { visit(child); });
    if (const auto* n = e.as<LoadNode>()) on_access(n->buffer, n->indices);
    if (const auto* n = e.as<AddressNode>()) on_access(n->buffer, n->indices);
  }

 protected:
  virtual void on_access(const Buffer&, const std::vector<Expr>&) {}
  virtual void on_store(const StoreNode&) {}

 private:
  template <class Tree>
  void visit_both(const Expr& condition, const Tree& if_true, const Tree& if_false) {
    visit(condition);
    {
      const auto scope = analyzer_.assume(analyzer_.simplify(condition));
      visit(if_true);
    }
    const auto scope = analyzer_.assume(analyzer_.simplify(logical_not(condition)));
    visit(if_false);
  }

 protected:
  Analyzer& analyzer_;
  bool stopped_ = false;
};

class AccessCheck : public GuardedWalk {
 public:
  using GuardedWalk::GuardedWalk;
  std::string problem;

 protected:
  void on_access(const Buffer& buffer, const std::vector<Expr>& indices) override {
    for (size_t d = 0; d < indices.size(); ++d) {
      if (indices[d].dtype() != kI64) continue;
      const Interval bounds = analyzer_.int_bounds(indices[d]);
      const int64_t* extent = as_int(buffer->shape[d]);
      if (bounds.min >= 0 && extent && bounds.max < *extent) continue;
      if (analyzer_.can_prove(logical_and(le(0, indices[d]), lt(indices[d], buffer->shape[d])))) continue;
      problem = fmt::format("index {} of dimension {} of {} may be outside [0, {})", to_text(indices[d]), d,
                            buffer->name, to_text(buffer->shape[d]));
      stopped_ = true;
      return;
    }
  }
  void on_store(const StoreNode& n) override { on_access(n.buffer, n.indices); }
};

// Where a physical index tuple is that of a logical element; null: everywhere. False in `known` if it cannot be told.
Expr valid_at(const BufferNode& buffer, const std::vector<Expr>& indices, bool* known) {
  *known = true;
  if (!buffer.layout) return nullptr;
  Analyzer analyzer;
  auto inverse = invert(buffer.layout->to_physical, buffer.layout->logical_shape, analyzer);
  if (!inverse) inverse = invert_rounded(buffer.layout->to_physical, buffer.layout->logical_shape, analyzer);
  if (!inverse || inverse->physical_shape.size() != indices.size()) {
    *known = false;
    return nullptr;
  }
  if (!inverse->valid) return nullptr;
  VarMap map;
  for (size_t d = 0; d < indices.size(); ++d) map[inverse->inverse.inputs[d].get()] = indices[d];
  return substitute(inverse->valid, map);
}

class PadLaneCheck : public GuardedWalk {
 public:
  using GuardedWalk::GuardedWalk;
  std::string problem;

 protected:
  void on_store(const StoreNode& n) override {
    if (!has_pad_lanes(*n.buffer)) return;
    bool known;
    const Expr valid = valid_at(*n.buffer, n.indices, &known);
    if (known && (!valid || analyzer_.can_prove(valid))) return;  // no pad lane is touched
    if (known) {
      const auto scope = analyzer_.assume(analyzer_.simplify(logical_not(valid)));
      store_ = &n;
      if (is_zero_there(n.value)) return;
    }
    problem =
        fmt::format("a value stored to {} is not shown to be zero in the pad lanes of its layout", n.buffer->name);
    stopped_ = true;
  }

 private:
  bool is_zero_there(const Expr& e) {
    if (is_const_zero(e)) return true;
    switch (e.kind()) {
      case ExprKind::kLoad: {
        const auto* n = e.as<LoadNode>();
        if (n->buffer == store_->buffer && n->indices.size() == store_->indices.size()) {
          bool same = true;
          for (size_t d = 0; d < n->indices.size(); ++d)
            same &= structural_equal(n->indices[d], store_->indices[d]) ||
                    analyzer_.can_prove_equal(n->indices[d], store_->indices[d]);
          if (same) return true;  // by induction
        }
        if (!has_pad_lanes(*n->buffer)) return false;
        bool known;
        const Expr valid = valid_at(*n->buffer, n->indices, &known);
        return known && valid && analyzer_.can_prove(logical_not(valid));
      }
      case ExprKind::kBinary: {
        const auto* n = e.as<BinaryNode>();
        switch (n->op) {
          case BinaryOp::kMul:
            return is_zero_there(n->a) || is_zero_there(n->b);
          case BinaryOp::kAdd:
          case BinaryOp::kSub:
          case BinaryOp::kMin:
          case BinaryOp::kMax:
          case BinaryOp::kOrderedMax:
            return is_zero_there(n->a) && is_zero_there(n->b);
          case BinaryOp::kDiv:
            return is_zero_there(n->a) && n->b.kind() == ExprKind::kFloatImm && !is_const_zero(n->b);
          default:
            return false;
        }
      }
      case ExprKind::kSelect: {
        const auto* n = e.as<SelectNode>();
        const Expr c = analyzer_.simplify(n->condition);
        if (const int64_t* value = as_int(c)) return is_zero_there(*value ? n->if_true : n->if_false);
        return is_zero_there(n->if_true) && is_zero_there(n->if_false);
      }
      case ExprKind::kCast:
        return is_zero_there(e.as<CastNode>()->a);
      case ExprKind::kCall: {
        const auto* n = e.as<CallNode>();
        if (n->name == "fma" && n->args.size() == 3)
          return (is_zero_there(n->args[0]) || is_zero_there(n->args[1])) && is_zero_there(n->args[2]);
        static constexpr std::array<std::string_view, 9> kZeroAtZero = {"sqrt", "sin",   "tanh",  "erf", "floor",
                                                                        "ceil", "round", "trunc", "abs"};
        return std::find(kZeroAtZero.begin(), kZeroAtZero.end(), n->name) != kZeroAtZero.end() &&
               is_zero_there(n->args[0]);
      }
      default:
        return false;
    }
  }

  const StoreNode* store_ = nullptr;
};

// By a look: an iterator, a part of one, or a sum of iterators, whose values are all in [0, extent).
bool plainly_inside(const Expr& index, const Expr& extent, const PlainLoops& iters) {
  const int64_t* limit = as_int(extent);
  if (!limit) return false;
  if (index.kind() == ExprKind::kVar)
    return std::ranges::any_of(iters, [&](const PlainLoop& iter) {
      return iter.var == index.get() && iter.min >= 0 && iter.min + iter.extent <= *limit;
    });
  const Expr* whole = &index;
  const auto* n = index.as<BinaryNode>();
  const int64_t* by = n ? as_int(n->b) : nullptr;
  if (by && *by > 0 && n->op == BinaryOp::kFloorMod && *by <= *limit) return true;
  const bool divides = by && *by > 0 && n->op == BinaryOp::kFloorDiv;
  if (divides) whole = &n->a;
  PlainSum sum;
  if (!add_plain(sum, *whole, 1, {}, iters)) return false;
  const PlainRange range = plain_range(std::move(sum), iters);
  return range.outer.terms.empty() && range.low >= 0 && (divides ? range.high / *by : range.high) < *limit;
}

bool plainly_inside(const Buffer& buffer, const std::vector<Expr>& indices, const PlainLoops& iters) {
  for (size_t d = 0; d < indices.size(); ++d)
    if (!plainly_inside(indices[d], buffer->shape[d], iters)) return false;
  return true;
}

bool loads_plainly_inside(const Expr& e, const PlainLoops& iters) {
  bool inside = true;
  walk(e, [&](const Expr& x) {
    const auto* access = x.as<LoadNode>();
    if (x.kind() == ExprKind::kAddress || (access && !plainly_inside(access->buffer, access->indices, iters)))
      inside = false;
    return inside && !access;
  });
  return inside;
}

}  // namespace

bool accesses_plainly_inside(const BlockNode& block) {
  PlainLoops iters;
  for (const IterVar& iter : block.iters)
    if (!add_plain_loop(iters, iter.var.get(), 0, iter.extent)) return false;
  for (const Stmt& s : {block.init, block.body}) {
    if (!s) continue;
    const auto* target = s.as<StoreNode>();
    if (!target || target->mask || !plainly_inside(target->buffer, target->indices, iters) ||
        !loads_plainly_inside(target->value, iters))
      return false;
  }
  return true;
}

Result<> check_accesses(const Func& func, const BlockNode& block) {
  Analyzer analyzer = analyzer_in(func, block);
  AccessCheck check(analyzer);
  check.visit(block.init);
  check.visit(block.body);
  if (!check.problem.empty() && checks("verify.accesses"))
    return fail(ErrorCode::E230, std::move(check.problem), "block " + block.name);
  return {};
}

bool has_pad_lanes(const BufferNode& buffer) {
  if (!buffer.layout) return false;
  const auto elements = [](const std::vector<Expr>& shape) -> std::optional<int64_t> {
    int64_t product = 1;
    for (const Expr& e : shape)
      if (const int64_t* n = as_int(e); !n || __builtin_mul_overflow(product, *n, &product)) return std::nullopt;
    return product;
  };
  const auto x = elements(buffer.layout->logical_shape), y = elements(buffer.shape);
  if (x && y) return *x != *y;
  Expr logical = 1, physical = 1;
  for (const Expr& e : buffer.layout->logical_shape) logical = logical * e;
  for (const Expr& e : buffer.shape) physical = physical * e;
  Analyzer analyzer;
  return !analyzer.can_prove_equal(logical, physical);
}

Result<> check_pad_lanes(const Func& func, const BlockNode& block) {
  bool any = false;
  for (const Region& w : block.writes) any |= has_pad_lanes(*w.buffer);
  if (!any) return {};
  Analyzer analyzer = analyzer_in(func, block);
  PadLaneCheck check(analyzer);
  check.visit(block.init);
  check.visit(block.body);
  if (!check.problem.empty() && checks("verify.pad_lanes"))
    return fail(ErrorCode::E230, std::move(check.problem), "block " + block.name);
  return {};
}

}  // namespace fettle
