#include <algorithm>
#include <bit>

#include "ir/fields.h"
#include "ir/query.h"

namespace fettle {
namespace {

template <class T>
bool equal(const T& a, const T& b) {
  if constexpr (std::is_same_v<T, Expr> || std::is_same_v<T, std::vector<Expr>>)
    return structural_equal(a, b);
  else if constexpr (std::is_same_v<T, double>)
    return std::bit_cast<uint64_t>(a) == std::bit_cast<uint64_t>(b);
  else
    return a == b;
}

template <class T>
uint64_t hash(uint64_t seed, const T& field) {
  if constexpr (is_list<T>) {
    for (const auto& item : field) seed = hash(seed, item);
    return seed;
  } else if constexpr (std::is_same_v<T, Expr>) {
    return hash_combine(seed, structural_hash(field));
  } else if constexpr (std::is_same_v<T, Buffer>) {
    return hash_combine(seed, reinterpret_cast<uintptr_t>(field.get()));
  } else if constexpr (std::is_same_v<T, std::string>) {
    return hash_combine(seed, hash_bytes(field));
  } else if constexpr (std::is_same_v<T, double>) {
    return hash_combine(seed, std::bit_cast<uint64_t>(field));
  } else {
    return hash_combine(seed, static_cast<uint64_t>(field));
  }
}

}  // namespace

bool structural_equal(const Expr& a, const Expr& b) {
  if (a == b) return true;
  if (!a || !b || a.kind() != b.kind() || a.dtype() != b.dtype() || a.kind() == ExprKind::kVar) return false;
  if (a->cached_hash && b->cached_hash && a->cached_hash != b->cached_hash) return false;
  return with_node(a, [&]<class Node>(const Node& x) {
    const auto& y = static_cast<const Node&>(*b);
    return all_fields<Node>([&](auto member) { return equal(x.*member, y.*member); });
  });
}

bool structural_equal(const std::vector<Expr>& a, const std::vector<Expr>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), ExprEqual());
}

bool structural_equal(const Range& a, const Range& b) {
  return structural_equal(a.min, b.min) && structural_equal(a.extent, b.extent);
}

uint64_t structural_hash(const Expr& e) {
  if (!e) return 1;
  if (e->cached_hash) return e->cached_hash;
  const DType t = e.dtype();
  uint64_t h = hash_combine(static_cast<uint64_t>(e.kind()) + 2,
                            static_cast<uint64_t>(t.code) << 32 | static_cast<uint64_t>(t.bits) << 16 | t.lanes);
  if (e.kind() == ExprKind::kVar) h = hash_combine(h, reinterpret_cast<uintptr_t>(e.get()));
  with_node(e,
            [&]<class Node>(const Node& node) { each_field<Node>([&](auto member) { h = hash(h, node.*member); }); });
  if (h == 0) h = 1;
  e->cached_hash = h;
  return h;
}

}  // namespace fettle
