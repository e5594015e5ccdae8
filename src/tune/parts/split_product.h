#pragma once
// A product of single precision by a matrix unit for bf16 (schedule/reformulate/split_product.cpp): when it may pay,
// and where its parts go.
//
//   for i, k: data, peaks   for k, j: weights   for i, j, t, k: product   for i, j: total, least, doubt, written, C
//   →
//   for i (parallel): the largest numbers of one operand, and its parts, in panels of tiles
//   (once)            those of the other one, which is constant
//   for c: for j0, i0 (parallel): a tile of the product, of one sum, to the total
//   for j0, i0 (parallel): whether the tile is in doubt, then what it is as written; C and what is done with it
// and where one sum has all steps, or the parts of all sums stay in the second-level cache, the product and the total
// in the last of these nests, tile by tile. A tile of the product:
//     for k0: for t, i1, j1 (unrolled): 16 x 16 x 32, by the unit; sums in tile registers

#include <optional>
#include <string>
#include <string_view>

#include "schedule/schedule.h"
#include "target/target.h"
#include "tune/parts/decider.h"
#include "tune/parts/loops.h"

namespace fettle {

/// Products that a sum of parts may have; of so many it is as exact as a sum of products of singles.
inline constexpr int64_t kSplitTerms[] = {6, 3}, kExactTerms = 6;

/// The program's only reduction, by name, if splitting its operands may pay: a product with a constant, on a target
/// whose matrix unit multiplies bf16, with enough rows, columns and steps to fill tiles. Its pattern shows when it is
/// replaced.
std::optional<std::string> splittable_product(const Func& func, const Target& target);

/// Whether its time is predicted well enough for the constructed default: of matrices, and of windows along long rows.
/// (Rows of tiles are pixels of one image row then: 14 of 16 in late layers of ResNet-50, which took 1.15 of the plain
/// time; 508 of 512 in the convolution of Magika, which took 0.4 of it.)
bool splits_by_default(const Func& func, const Target& target);

/// The blocks that stand for a product.
struct SplitParts {
  std::string block;                                  // the product, and its last part
  std::string data, weights, product, total;          // total: empty where one sum has all steps
  std::string peaks, peak_lanes, peak, weights_peak;  // largest numbers of the operands
  std::string least, doubt, written;                  // what is computed as it was written, and whether
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
