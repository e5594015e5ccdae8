#include "ir/fold.h"

#include <algorithm>

#include "ir/query.h"

namespace fettle {
namespace {

// index = base + offset, where base has no constant at the top of its sum (null: no base).
Expr split_offset(const Expr& index, int64_t* offset) {
  if (const int64_t* value = as_int(index)) return *offset += *value, nullptr;
  if (const auto* n = index.as<BinaryNode>()) {
    if (n->op == BinaryOp::kAdd) {
      Expr a = split_offset(n->a, offset);
      Expr b = split_offset(n->b, offset);
      if (!a || !b) return a ? a : b;
      return a == n->a && b == n->b ? index : a + b;
    }
    if (n->op == BinaryOp::kSub && as_int(n->b)) {
      *offset -= *as_int(n->b);
      return split_offset(n->a, offset);
    }
  }
  return index;
}

Expr folded_sum(const Expr& base, int64_t offset) {
  if (!base) return offset;
  return offset < 0 ? base - Expr(-offset) : base + Expr(offset);
}

}  // namespace

Expr shifted(const Expr& e, int64_t by) {
  if (e.dtype() != kI64) return e + int_imm(by, e.dtype());
  Expr base = split_offset(e, &by);
  return folded_sum(base, by);
}

Expr Folder::rewrite(const Expr& e) {
  const auto* n = e.as<BinaryNode>();
  if (!n) return Mutator::rewrite(e);
  const Expr folded = binary(n->op, rewrite(n->a), rewrite(n->b));
  const bool sum = n->op == BinaryOp::kAdd || n->op == BinaryOp::kSub;
  return sum && folded.dtype() == kI64 ? shifted(folded, 0) : folded;
}

void RegionUnion::add(const Buffer& buffer, const std::vector<Expr>& indices) {
  std::vector<Dimension> fresh;
  for (const Expr& index : indices) {
    bool data = false;
    walk(index, [&](const Expr& e) {
      data |= e.kind() == ExprKind::kLoad || (e.kind() == ExprKind::kVar && bound_.contains(e.as<VarNode>()));
      return !data;
    });
    int64_t offset = 0;
    Expr base = data ? Expr() : split_offset(index, &offset);
    fresh.push_back({std::move(base), offset, offset, data});
  }
  for (Entry& entry : entries_) {
    if (entry.buffer != buffer) continue;
    bool fits = true;
    for (size_t d = 0; d < fresh.size(); ++d) {
      const bool whole = entry.dimensions[d].whole || fresh[d].whole;
      fits &= whole || structural_equal(entry.dimensions[d].base, fresh[d].base);
    }
    if (!fits) continue;
    for (size_t d = 0; d < fresh.size(); ++d) {
      entry.dimensions[d].whole |= fresh[d].whole;
      entry.dimensions[d].low = std::min(entry.dimensions[d].low, fresh[d].low);
      entry.dimensions[d].high = std::max(entry.dimensions[d].high, fresh[d].high);
    }
    return;
  }
  entries_.push_back({buffer, std::move(fresh)});
}

void RegionUnion::bind(const Stmt& statement) {
  each_node<ForNode>(statement, [&](const ForNode& loop) { bound_.insert(loop.var.get()); });
  each_node<LetNode>(statement, [&](const LetNode& n) { bound_.insert(n.var.get()); });
}

std::vector<Region> RegionUnion::take() {
  std::vector<Region> regions;
  for (const Entry& entry : entries_) {
    Region region{entry.buffer, {}};
    for (size_t d = 0; d < entry.dimensions.size(); ++d) {
      const Dimension& dim = entry.dimensions[d];
      region.ranges.push_back(dim.whole ? Range{0, entry.buffer->shape[d]}
                                        : Range{folded_sum(dim.base, dim.low), Expr(dim.high - dim.low + 1)});
    }
    regions.push_back(std::move(region));
  }
  entries_.clear();
  return regions;
}

}  // namespace fettle
