#pragma once
// A product of single precision by a matrix unit for bf16 (schedule/reformulate/split_product.cpp): when it may pay,
// and where its parts go.
//
//   for i, k: data      for k, j: weights      for i, j, t, k: product      for i, j: total, extremes, doubt, written, C
//   →
//   for i, k (parallel): the parts of one operand, in panels of tiles
//   (once)               those of the other one, where it is constant
//   for i00 (parallel): for c: for j0: for i0:
//     for k0: for t, i1, j1 (unrolled): a tile of the product, by the unit; its sums in tile registers
//     the tile's sums to the total
//   for i00: for i0, j0: whether the tile is in doubt, then what it is as written; C and what is done with it

#include <optional>
#include <string>
#include <string_view>

#include "schedule/schedule.h"
#include "target/target.h"
#include "tune/parts/decider.h"
#include "tune/parts/loops.h"

namespace fettle {

/// Products that a sum of parts may have.
inline constexpr int64_t kSplitTerms[] = {6, 3};

/// The program's only reduction, by name, if splitting its operands may pay: a product with a constant, on a target
/// whose matrix unit multiplies bf16, with enough rows, columns and steps to fill tiles. Its pattern shows when it is
/// replaced.
std::optional<std::string> splittable_product(const Func& func, const Target& target);

/// The blocks that stand for a product.
struct SplitParts {
  std::string block;                                                    // the product, and its last part
  std::string data, weights, product, total, extremes, doubt, written;  // total: empty where one sum has all steps
};
/// Replaces the product by sums of so many products of parts. Errors: E228 its pattern does not fit · E234 another edit
/// came before
Result<SplitParts> replace_by_split_product(Schedule& s, const std::string& product, int64_t terms);
/// What it has made of the product, by the annotations of the blocks.
std::optional<SplitParts> split_parts(const Func& func, std::string_view product);

/// Schedules all parts. Errors: E230, and what the primitives refuse
Result<Finished> split_product_tiles(Schedule& s, const Target& target, Decider& decider, const SplitParts& parts,
                                     int threads);

}  // namespace fettle
