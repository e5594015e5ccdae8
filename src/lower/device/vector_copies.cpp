#include "arith/analyzer.h"
#include "arith/linear.h"
#include "ir/annotations.h"
#include "ir/rewrite.h"
#include "lower/device/passes.h"
#include "lower/passes/passes.h"
#include "lower/passes/range_mutator.h"

namespace fettle {
namespace {

constexpr int64_t kMostBytes = 16;  // of one access

class Copier : public RangeMutator {
 public:
  Copier(const Func& func, bool may_be_async) : RangeMutator(func), may_be_async_(may_be_async) {}
  std::vector<Buffer> swizzled;
  Stmt rewrite(const Stmt& s) override {
    const auto* loop = s.as<ForNode>();
    if (!loop || !loop->annotations.find(kLanesKey)) return RangeMutator::rewrite(s);
    if (Stmt copy = in_one_access(*loop, loop->body)) return copy;
    if (Stmt made = in_one_store(*loop, loop->body)) return made;
    return with(*loop, [](ForNode& f) { f.annotations = {}; });
  }

 private:
  // The loop's body, all iterations at once; null where one access does not do.
  Stmt in_one_access(const ForNode& loop, const Stmt& body) {
    if (const auto* choice = body.as<IfNode>(); choice && !choice->else_body) {
      if (uses_var(choice->condition, loop.var.get()) || reads_memory(choice->condition)) return nullptr;
      const Stmt inside = in_one_access(loop, choice->then_body);
      return inside ? if_then(choice->condition, inside) : Stmt();
    }
    const auto* target = body.as<StoreNode>();
    const int64_t* lanes = as_int(loop.extent);
    if (!target || !lanes) return nullptr;
    // Where it does not hold, zeros take the place of what is read; null: it always holds.
    Expr reads, value = target->value;
    while (const auto* choice = value.as<SelectNode>()) {
      if (!is_zero_value(choice->if_false) || reads_memory(choice->condition)) return nullptr;
      const Expr also = of_all_lanes(choice->condition, loop, *lanes);
      if (!also) return nullptr;
      reads = reads ? logical_and(reads, also) : also;
      value = Expr(choice->if_true);
    }
    const auto* source = value.as<LoadNode>();
    if (!source || target->mask || source->mask || !is_zero(loop.min)) return nullptr;
    if (!(source->buffer->dtype == target->buffer->dtype) || source->dtype.is_bool()) return nullptr;
    const int64_t bytes = *lanes * source->dtype.element_bytes();
    if ((bytes != 4 && bytes != 8 && bytes != kMostBytes) || *lanes < 2) return nullptr;
    const Expr to = first_of(target->indices, loop, *lanes), from = first_of(source->indices, loop, *lanes);
    if (!to || !from) return nullptr;
    if (loop.annotations.find(kSwizzleKey)) swizzled.push_back(target->buffer);
    if (may_be_async_ && loop.annotations.find(kAsyncCopyKey) && target->buffer->scope == "shared" &&
        source->buffer->scope == kScopeGlobal) {
      // What is not read has an address all the same, of the buffer's.
      std::vector<Expr> args = {address_of(target->buffer, {to}),
                                address_of(source->buffer, {reads ? select(reads, from, Expr(0)) : from}), Expr(bytes)};
      if (reads) args.push_back(reads);
      return evaluate(call(kAsyncCopyCall, std::move(args), kI32));
    }
    if (reads) return nullptr;  // zeros are no copy: element by element
    const int n = static_cast<int>(*lanes);
    return store(target->buffer, {ramp(to, 1, n)}, load(source->buffer, {ramp(from, 1, n)}));
  }

  static bool is_zero_value(const Expr& e) {
    if (const auto* converted = e.as<CastNode>()) return is_zero_value(converted->a);
    const auto* number = e.as<FloatImmNode>();
    return is_zero(e) || (number && number->value == 0 && !std::signbit(number->value));
  }

  // The condition as it is for all lanes alike; null where they may differ.
  //   8*x + v < 48   →   8*x < 48, v in 8
  Expr of_all_lanes(const Expr& condition, const ForNode& loop, int64_t lanes) {
    const auto scope = analyzer_.enter();
    analyzer_.bind(loop.var, 0, loop.extent);
    return same_for_lanes(analyzer_.simplify(condition), loop.var, lanes);
  }
  Expr same_for_lanes(const Expr& condition, const Var& lane, int64_t lanes) {
    if (!uses_var(condition, lane.get())) return condition;
    const auto* op = condition.as<BinaryNode>();
    if (!op) return nullptr;
    if (op->op == BinaryOp::kAnd) {
      const Expr a = same_for_lanes(op->a, lane, lanes), b = same_for_lanes(op->b, lane, lanes);
      return a && b ? logical_and(a, b) : Expr();
    }
    // d >= 0, where d changes by less than the step between its values without the lane.
    if (op->op != BinaryOp::kLt && op->op != BinaryOp::kLe) return nullptr;
    const auto d = split_linear(op->op == BinaryOp::kLe ? op->b - op->a : op->b - op->a - 1, lane.get());
    const Expr slope = d ? analyzer_.simplify(d->coeff) : Expr();
    if (!slope || (!is_one(slope) && !is_int(slope, -1))) return nullptr;
    const Modular rest = analyzer_.modular(d->rest);
    const int64_t least = is_one(slope) ? 0 : lanes - 1;
    if (rest.coeff % lanes != 0 || floormod_int(rest.base - least, lanes) != 0) return nullptr;
    return substitute(condition, {{lane.get(), Expr(0)}});
  }

  // What each iteration computes, stored at once: elements of 16 bits, whose stores by themselves are dear.
  //   for v in 2 {lanes}: S[2*t + v] = f16(x[v])   →   S[ramp(2*t, 1, 2)] = [f16(x[0]), f16(x[1])]
  Stmt in_one_store(const ForNode& loop, const Stmt& body) {
    if (const auto* choice = body.as<IfNode>(); choice && !choice->else_body) {
      if (uses_var(choice->condition, loop.var.get()) || reads_memory(choice->condition)) return nullptr;
      const Stmt inside = in_one_store(loop, choice->then_body);
      return inside ? if_then(choice->condition, inside) : Stmt();
    }
    const auto* target = body.as<StoreNode>();
    const int64_t* lanes = as_int(loop.extent);
    if (!target || target->mask || !lanes || !is_zero(loop.min) || accesses_other_lanes(*target)) return nullptr;
    const DType type = target->buffer->dtype;
    const int64_t bytes = *lanes * type.element_bytes();
    if ((!(type == kF16) && !(type == kBF16)) || (bytes != 4 && bytes != 8 && bytes != kMostBytes)) return nullptr;
    const Expr to = first_of(target->indices, loop, *lanes);
    if (!to) return nullptr;
    std::vector<Expr> values;
    std::vector<int> order;
    for (int64_t lane = 0; lane < *lanes; ++lane) {
      values.push_back(substitute(target->value, {{loop.var.get(), Expr(lane)}}));
      order.push_back(static_cast<int>(lane));
    }
    return store(target->buffer, {ramp(to, 1, static_cast<int>(*lanes))}, shuffle(std::move(values), std::move(order)));
  }
  static bool accesses_other_lanes(const StoreNode& target) {
    return contains<LoadNode>(target.value, [&](const LoadNode& read) { return read.buffer == target.buffer; });
  }

  // Where the lanes begin, if they are neighbours that begin at a multiple of their number; else null.
  Expr first_of(const std::vector<Expr>& indices, const ForNode& loop, int64_t lanes) {
    const auto split = indices.size() == 1 ? split_linear(indices[0], loop.var.get()) : std::nullopt;
    if (!split || !is_one(analyzer_.simplify(split->coeff))) return nullptr;
    const Modular at = analyzer_.modular(split->rest);
    return at.coeff % lanes == 0 && at.base % lanes == 0 ? analyzer_.simplify(split->rest) : Expr();
  }

  bool may_be_async_;
};

}  // namespace

Func vector_copies(const Func& func, const ThreadShape& shape, std::vector<Buffer>& swizzled) {
  const bool several = shape.extents[0] * shape.extents[1] * shape.extents[2] > 1;  // else there are no barriers
  Copier copier(func, several);
  const Stmt body = copier.rewrite(func->body);
  swizzled = std::move(copier.swizzled);
  return with_body(func, body);
}

}  // namespace fettle
