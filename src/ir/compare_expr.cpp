#include "base/check.h"
#include "ir/compare.h"

#include <bit>

namespace fettle {
namespace {

bool equal_lists(const std::vector<Expr>& a, const std::vector<Expr>& b) {
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); ++i)
    if (!structural_equal(a[i], b[i])) return false;
  return true;
}

uint64_t hash_list(uint64_t seed, const std::vector<Expr>& list) {
  for (const Expr& e : list) seed = hash_combine(seed, structural_hash(e));
  return seed;
}

uint64_t address(const void* p) { return reinterpret_cast<uintptr_t>(p); }

}  // namespace

bool structural_equal(const Expr& a, const Expr& b) {
  if (a == b) return true;
  if (!a || !b || a.kind() != b.kind() || a.dtype() != b.dtype()) return false;
  if (a->cached_hash && b->cached_hash && a->cached_hash != b->cached_hash) return false;
  switch (a.kind()) {
    case ExprKind::kIntImm:
      return a.as<IntImmNode>()->value == b.as<IntImmNode>()->value;
    case ExprKind::kFloatImm:
      return std::bit_cast<uint64_t>(a.as<FloatImmNode>()->value) ==
             std::bit_cast<uint64_t>(b.as<FloatImmNode>()->value);
    case ExprKind::kVar:
      return false;
    case ExprKind::kBinary: {
      const auto *x = a.as<BinaryNode>(), *y = b.as<BinaryNode>();
      return x->op == y->op && structural_equal(x->a, y->a) && structural_equal(x->b, y->b);
    }
    case ExprKind::kNot:
      return structural_equal(a.as<NotNode>()->a, b.as<NotNode>()->a);
    case ExprKind::kSelect: {
      const auto *x = a.as<SelectNode>(), *y = b.as<SelectNode>();
      return structural_equal(x->condition, y->condition) && structural_equal(x->if_true, y->if_true) &&
             structural_equal(x->if_false, y->if_false);
    }
    case ExprKind::kCast:
      return structural_equal(a.as<CastNode>()->a, b.as<CastNode>()->a);
    case ExprKind::kLoad: {
      const auto *x = a.as<LoadNode>(), *y = b.as<LoadNode>();
      return x->buffer == y->buffer && equal_lists(x->indices, y->indices) && structural_equal(x->mask, y->mask);
    }
    case ExprKind::kAddress: {
      const auto *x = a.as<AddressNode>(), *y = b.as<AddressNode>();
      return x->buffer == y->buffer && equal_lists(x->indices, y->indices);
    }
    case ExprKind::kCall: {
      const auto *x = a.as<CallNode>(), *y = b.as<CallNode>();
      return x->name == y->name && equal_lists(x->args, y->args);
    }
    case ExprKind::kRamp: {
      const auto *x = a.as<RampNode>(), *y = b.as<RampNode>();
      return structural_equal(x->base, y->base) && structural_equal(x->stride, y->stride);
    }
    case ExprKind::kBroadcast:
      return structural_equal(a.as<BroadcastNode>()->value, b.as<BroadcastNode>()->value);
    case ExprKind::kShuffle: {
      const auto *x = a.as<ShuffleNode>(), *y = b.as<ShuffleNode>();
      return x->lanes == y->lanes && equal_lists(x->vectors, y->vectors);
    }
  }
  FETTLE_UNREACHABLE();
}

uint64_t structural_hash(const Expr& e) {
  if (!e) return 1;
  if (e->cached_hash) return e->cached_hash;
  const DType t = e.dtype();
  uint64_t h = hash_combine(static_cast<uint64_t>(e.kind()) + 2,
                            static_cast<uint64_t>(t.code) << 32 | static_cast<uint64_t>(t.bits) << 16 | t.lanes);
  switch (e.kind()) {
    case ExprKind::kIntImm:
      h = hash_combine(h, static_cast<uint64_t>(e.as<IntImmNode>()->value));
      break;
    case ExprKind::kFloatImm:
      h = hash_combine(h, std::bit_cast<uint64_t>(e.as<FloatImmNode>()->value));
      break;
    case ExprKind::kVar:
      h = hash_combine(h, address(e.get()));
      break;
    case ExprKind::kBinary: {
      const auto* n = e.as<BinaryNode>();
      h = hash_combine(hash_combine(hash_combine(h, static_cast<uint64_t>(n->op)), structural_hash(n->a)),
                       structural_hash(n->b));
      break;
    }
    case ExprKind::kNot:
      h = hash_combine(h, structural_hash(e.as<NotNode>()->a));
      break;
    case ExprKind::kSelect: {
      const auto* n = e.as<SelectNode>();
      h = hash_list(h, {n->condition, n->if_true, n->if_false});
      break;
    }
    case ExprKind::kCast:
      h = hash_combine(h, structural_hash(e.as<CastNode>()->a));
      break;
    case ExprKind::kLoad: {
      const auto* n = e.as<LoadNode>();
      h = hash_combine(hash_list(hash_combine(h, address(n->buffer.get())), n->indices), structural_hash(n->mask));
      break;
    }
    case ExprKind::kAddress: {
      const auto* n = e.as<AddressNode>();
      h = hash_list(hash_combine(h, address(n->buffer.get())), n->indices);
      break;
    }
    case ExprKind::kCall: {
      const auto* n = e.as<CallNode>();
      h = hash_list(hash_combine(h, hash_bytes(n->name)), n->args);
      break;
    }
    case ExprKind::kRamp: {
      const auto* n = e.as<RampNode>();
      h = hash_combine(hash_combine(h, structural_hash(n->base)), structural_hash(n->stride));
      break;
    }
    case ExprKind::kBroadcast:
      h = hash_combine(h, structural_hash(e.as<BroadcastNode>()->value));
      break;
    case ExprKind::kShuffle: {
      const auto* n = e.as<ShuffleNode>();
      h = hash_list(h, n->vectors);
      for (int lane : n->lanes) h = hash_combine(h, static_cast<uint64_t>(lane));
      break;
    }
  }
  if (h == 0) h = 1;
  e->cached_hash = h;
  return h;
}

}  // namespace fettle
