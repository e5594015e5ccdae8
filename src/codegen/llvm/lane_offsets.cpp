#include "codegen/llvm/lane_offsets.h"

#include <algorithm>
#include <bit>
#include <cstdlib>

namespace fettle::llvm_backend {
namespace {

/// Lanes further apart, in elements, are none that lie near each other.
constexpr int64_t kFar = int64_t{1} << 40;

bool is_far(int64_t x) { return x > kFar || x < -kFar; }

bool all_equal(const LaneOffsets& lanes) {
  return std::ranges::all_of(lanes.at, [&](int64_t at) { return at == lanes.at.front(); });
}

// What is left of a scalar divided by a positive constant, where that is the same whatever its variables are.
std::optional<int64_t> remainder(const Expr& e, int64_t by) {
  if (const int64_t* constant = as_int(e)) return floormod_int(*constant, by);
  const auto* binary = e.as<BinaryNode>();
  if (!binary) return {};
  if (binary->op == BinaryOp::kMul)
    for (const Expr& factor : {binary->a, binary->b})
      if (const int64_t* constant = as_int(factor); constant && *constant % by == 0) return 0;
  const auto a = remainder(binary->a, by), b = remainder(binary->b, by);
  if (!a || !b) return {};
  switch (binary->op) {
    case BinaryOp::kAdd:
      return floormod_int(*a + *b, by);
    case BinaryOp::kSub:
      return floormod_int(*a - *b, by);
    case BinaryOp::kMin:
    case BinaryOp::kMax:
      return *a == *b ? a : std::nullopt;
    default:
      return {};
  }
}

// Quotients or remainders by a positive constant. What is left of the base by that constant has to be known.
std::optional<LaneOffsets> divided(const LaneOffsets& a, int64_t by, bool quotient) {
  const auto left = remainder(a.base, by);
  if (!left) return {};
  LaneOffsets out{quotient ? floordiv(a.base, Expr(by)) : Expr(0), {}};
  for (const int64_t at : a.at)
    out.at.push_back(quotient ? floordiv_int(*left + at, by) : floormod_int(*left + at, by));
  return out;
}

}  // namespace

std::optional<LaneOffsets> lane_offsets(const Expr& index) {
  const auto lanes = static_cast<size_t>(index.dtype().lanes);
  if (index.dtype().element() != kI64) return {};
  LaneOffsets out;
  out.at.assign(lanes, 0);
  if (const auto* node = index.as<BroadcastNode>()) {
    out.base = node->value;
    if (out.base.dtype().lanes != 1) return {};
    return out;
  }
  if (const auto* node = index.as<RampNode>()) {
    const int64_t* stride = as_int(node->stride);
    if (!stride || is_far(*stride) || node->base.dtype().lanes != 1) return {};
    out.base = node->base;
    for (size_t i = 0; i < lanes; ++i) out.at[i] = static_cast<int64_t>(i) * *stride;
    return out;
  }
  const auto* binary = index.as<BinaryNode>();
  if (!binary) return {};
  auto a = lane_offsets(binary->a), b = lane_offsets(binary->b);
  if (!a || !b || std::ranges::any_of(a->at, is_far) || std::ranges::any_of(b->at, is_far)) return {};
  switch (binary->op) {
    case BinaryOp::kAdd:
    case BinaryOp::kSub: {
      const bool add = binary->op == BinaryOp::kAdd;
      out.base = add ? a->base + b->base : a->base - b->base;
      for (size_t i = 0; i < lanes; ++i) out.at[i] = add ? a->at[i] + b->at[i] : a->at[i] - b->at[i];
      return out;
    }
    case BinaryOp::kMul: {
      if (all_equal(*a)) std::swap(a, b);
      const int64_t* factor = as_int(b->base);
      if (!factor || is_far(*factor) || !all_equal(*b)) return {};
      const int64_t times = *factor + b->at[0];
      // Their products have to stay numbers.
      if (std::abs(times) > 1 << 20 && !all_equal(*a)) return {};
      out.base = a->base * Expr(times);
      for (size_t i = 0; i < lanes; ++i) out.at[i] = a->at[i] * times;
      return out;
    }
    case BinaryOp::kFloorDiv:
    case BinaryOp::kFloorMod: {
      const int64_t* by = as_int(b->base);
      if (!by || is_far(*by) || !all_equal(*b) || *by + b->at[0] < 1) return {};
      return divided(*a, *by + b->at[0], binary->op == BinaryOp::kFloorDiv);
    }
    default:
      return {};
  }
}

LaneWindows lane_windows(llvm::ArrayRef<int64_t> offsets, int64_t widest, const std::vector<bool>* on) {
  LaneWindows out;
  llvm::SmallVector<int64_t, 16> places;
  for (size_t i = 0; i < offsets.size(); ++i)
    if (!on || (*on)[i]) places.push_back(offsets[i]);
  if (places.empty()) return out;
  std::ranges::sort(places);
  const int64_t end = places.back() + 1, span = end - places.front();
  out.size = std::min(widest, static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(span))));
  for (const int64_t place : places)
    if (out.first.empty() || place >= out.first.back() + out.size) out.first.push_back(std::min(place, end - out.size));
  for (size_t i = 0; i < offsets.size(); ++i) {
    out.window.push_back(-1);
    out.place.push_back(0);
    if (on && !(*on)[i]) continue;
    const auto after = std::ranges::upper_bound(out.first, offsets[i]);
    out.window.back() = static_cast<int>(after - out.first.begin()) - 1;
    out.place.back() = static_cast<int>(offsets[i] - *(after - 1));
  }
  return out;
}

}  // namespace fettle::llvm_backend
