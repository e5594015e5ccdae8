#pragma once
// What Resize is asked for: the extents of the output and the scales, known or not.

#include <optional>
#include <vector>

#include "graph/passes/lowering.h"

namespace fettle::ops {

/// A scale, of output over input: a number, a ratio of whole numbers, or both. Of an open extent that keeps the aspect
/// ratio it is the least or the greatest of several ratios.
struct Scale {
  struct Ratio {
    Dim out, in;
  };
  std::optional<double> number;
  std::vector<Ratio> ratios;  // one: the scale is that, exactly
  bool is_least = false;      // of several ratios, or the greatest

  bool is_one() const { return number ? *number == 1 : ratios.size() == 1 && ratios[0].out == ratios[0].in; }
  Expr expr() const {
    if (number) return constant(*number, kF32);
    Expr scale;
    for (const Ratio& ratio : ratios) {
      const Expr next = cast(kF32, size_expr(ratio.out)) / cast(kF32, divisor_expr(ratio.in));
      scale = !scale ? next : is_least ? min(scale, next) : max(scale, next);
    }
    return scale;
  }
};

struct Resized {
  Shape output;
  std::vector<Scale> scales;  // one a dim
};

inline constexpr ParamInput kResizeParams[] = {{1, "roi", kFloats}, {2, "scales", kFloats}, {3, "sizes", kDims}};

/// Resize(x, roi, scales, sizes): what its parameters say. E604 · E606
Result<Resized> resized(const Node& node);

/// Whether scales are data, or their products with open extents no whole numbers tell.
bool scales_are_data(const Node& node);

/// Scales in memory are in a range where the rest can be computed.
void require_scales(passes::Lowering& g, const Node& node, Value* scales);
/// The extents of these axes of x times scales in memory, products in f32, rounded down: sizes.
std::vector<Dim> scaled_extents(passes::Lowering& g, Value* x, const std::vector<int64_t>& axes, Value* scales);

}  // namespace fettle::ops
