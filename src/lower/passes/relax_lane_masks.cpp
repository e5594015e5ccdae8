#include <map>
#include <optional>
#include <unordered_set>

#include "ir/compare.h"
#include "ir/rewrite.h"
#include "lower/passes/passes.h"

namespace fettle {
std::optional<int64_t> lane_value(const Expr& e, int64_t lane) {
  if (const auto* spread = e.as<BroadcastNode>()) {
    const int64_t* value = as_int(spread->value);
    return value ? std::optional(*value) : std::nullopt;
  }
  if (const auto* steps = e.as<RampNode>()) {
    const int64_t* base = as_int(steps->base);
    const int64_t* stride = as_int(steps->stride);
    return base && stride ? std::optional(*base + *stride * lane) : std::nullopt;
  }
  const auto* two = e.as<BinaryNode>();
  if (!two) return {};
  const auto a = lane_value(two->a, lane), b = lane_value(two->b, lane);
  if (two->op == BinaryOp::kAnd && ((a && !*a) || (b && !*b))) return 0;
  if (!a || !b) return {};
  switch (two->op) {
    case BinaryOp::kAnd:
      return *a && *b;
    case BinaryOp::kLt:
      return *a < *b;
    case BinaryOp::kLe:
      return *a <= *b;
    default:
      return {};
  }
}

namespace {

bool some_lane_is_on(const Expr& mask) {
  for (int64_t lane = 0; lane < mask.dtype().lanes; ++lane)
    if (const auto on = lane_value(mask, lane); on && *on) return true;
  return false;
}

bool is_constant(const Expr& mask) {
  for (int64_t lane = 0; lane < mask.dtype().lanes; ++lane)
    if (!lane_value(mask, lane)) return false;
  return true;
}

bool is_masked(const StoreNode& target) { return target.mask && target.mask.dtype().is_vector(); }

bool has_masked_store(const Stmt& body) { return contains<StoreNode>(body, is_masked); }

// Lanes of a register buffer, by the first of them: buffers are read and written in whole vectors of one size.
struct Slot {
  const BufferNode* buffer;
  int64_t base;
  friend auto operator<=>(const Slot&, const Slot&) = default;
};

// Under which mask each vector of the register buffers is read.
class RegisterReads : public Visitor {
 public:
  using Visitor::visit;
  void visit(const Stmt& s) override {
    const auto* target = s.as<StoreNode>();
    if (!target) return Visitor::visit(s);
    if (target->buffer->scope == kScopeRegister) slot(*target->buffer, target->indices);
    for (const Expr& index : target->indices) visit(index);
    if (target->mask) visit(target->mask);
    mask_ = target->mask;
    visit(target->value);
    mask_ = Expr();
  }
  void visit(const Expr& e) override {
    if (!e) return;
    const auto* source = e.as<LoadNode>();
    if (source && source->buffer->scope == kScopeRegister) return read(*source);
    if (const auto* pointer = e.as<AddressNode>()) spoilt_.insert(pointer->buffer.get());
    const bool by_lane = e.kind() == ExprKind::kBinary || e.kind() == ExprKind::kCast || e.kind() == ExprKind::kSelect;
    const Expr outer = mask_;
    if (!by_lane) mask_ = Expr();
    Visitor::visit(e);
    mask_ = outer;
  }

  // Nobody reads a lane that this mask switches off.
  bool only_under(const BufferNode& buffer, const std::vector<Expr>& indices, const Expr& mask) {
    const auto at = slot(buffer, indices);
    if (!at || spoilt_.contains(&buffer)) return false;
    const auto found = masks_.find(*at);
    return found == masks_.end() || (found->second && structural_equal(found->second, mask));
  }

 private:
  std::optional<Slot> slot(const BufferNode& buffer, const std::vector<Expr>& indices) {
    const auto* lanes = indices.size() == 1 ? indices[0].as<RampNode>() : nullptr;
    const int64_t* base = lanes ? as_int(lanes->base) : nullptr;
    const int64_t n = lanes ? indices[0].dtype().lanes : 0;
    const auto known = lanes_.try_emplace(&buffer, n).first;
    if (!base || !is_one(lanes->stride) || known->second != n || *base % n != 0) {
      spoilt_.insert(&buffer);
      return {};
    }
    return Slot{&buffer, *base};
  }

  void read(const LoadNode& source) {
    const auto at = slot(*source.buffer, source.indices);
    if (!at) return;
    const bool plain = mask_ && mask_.dtype().lanes == source.dtype.lanes && is_constant(mask_);
    const auto [known, first] = masks_.try_emplace(*at, plain ? mask_ : Expr());
    if (!first && (!plain || !known->second || !structural_equal(known->second, mask_))) known->second = Expr();
  }

  Expr mask_;  // of the store that reads; null where lanes that are off matter all the same: they move, or decide
  std::map<Slot, Expr> masks_;  // null: of no one mask
  std::map<const BufferNode*, int64_t> lanes_;
  std::unordered_set<const BufferNode*> spoilt_;
};

// Elements that a value kept under `mask` alone reads for all of its lanes.
class ElementReader : public Mutator {
 public:
  explicit ElementReader(const Expr& mask) : mask_(mask) {}
  using Mutator::rewrite;
  Stmt rewrite(const Stmt& s) override { return s; }
  Expr rewrite(const Expr& e) override {
    const Expr result = Mutator::rewrite(e);
    const auto* source = result.as<LoadNode>();
    if (!source || !source->mask || source->indices.size() != 1 || !structural_equal(source->mask, mask_))
      return result;
    const auto* spread = source->indices[0].as<BroadcastNode>();
    return spread ? broadcast(load(source->buffer, {spread->value}), result.dtype().lanes) : result;
  }

 private:
  const Expr& mask_;
};

}  // namespace

Stmt relax_lane_masks(const Stmt& body) {
  if (!has_masked_store(body)) return body;
  RegisterReads reads;
  reads.visit(body);
  return rewrite_each<StoreNode>(body, [&](const StoreNode& target) -> Stmt {
    if (!is_masked(target)) return nullptr;
    const Expr value = some_lane_is_on(target.mask) ? ElementReader(target.mask).rewrite(target.value) : target.value;
    const bool free = target.buffer->scope == kScopeRegister && value.dtype().is_float() && is_constant(target.mask) &&
                      reads.only_under(*target.buffer, target.indices, target.mask);
    return store(target.buffer, target.indices, value, free ? Expr() : target.mask);
  });
}

}  // namespace fettle
