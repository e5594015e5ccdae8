#pragma once
// A convolution by Winograd (schedule/reformulate/winograd.cpp): when it may pay, and where its transforms go. Strips
// of tiles go through all parts one after the other, so that what lies between them stays in the second-level cache.
//
//   for p, q, c: rows, tiles      for x, y, p, q, o, c: product      for p, q, o: columns, O
//   →
//   for p0 (parallel):
//     for p1, q, c0: an input tile of one vector of channels, transformed in registers
//     for x, y: register tiles of the product, a matrix product for each point
//     for p1, q, o0: m x m pixels of one vector of channels, and what is done with them element by element
//
// or each part over the whole image, parallel by itself. The weights' transform, and their panels, are made once.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "schedule/schedule.h"

namespace fettle {

/// The outputs of a tile, in each direction, that are worth a try.
inline constexpr int64_t kWinogradOutputs[] = {2, 4};

/// The program's only reduction, by name, if Winograd may pay for it: of 3x3 taps and constant weights, channels last,
/// of at least 16 channels each way and, typically, 4 x 4 pixels. Batch, height and width may be open. Strides and
/// dilation show when it is replaced.
std::optional<std::string> winograd_convolution(const Func& func);

/// The blocks that stand for a convolution.
struct WinogradParts {
  std::string block;                                   // the convolution, and its last part
  std::string weights, rows, tiles, product, columns;  // the other parts, in program order
  size_t height = 0, width = 0;                        // dimensions of the output
  int64_t outputs = 0;                                 // of a tile in each direction
};
/// Replaces the convolution by the parts of F(m x m, 3 x 3). Errors: E228 strides, dilation · E234 another edit came
/// before
Result<WinogradParts> replace_by_winograd(Schedule& s, const std::string& convolution, int64_t m);
/// What it has made of the convolution, by the annotations of the blocks.
std::optional<WinogradParts> winograd_parts(const Func& func, std::string_view convolution);

/// Heights of a strip in rows of tiles, ascending: what does not divide their number would leave conditions on the
/// products. Of an open number that is 1 alone.
std::vector<int64_t> winograd_strips(const Func& func, const WinogradParts& parts);

/// The loops of parts that are placed, none of them parallel.
struct PlacedTransforms {
  std::string last;              // the block that writes the output
  std::vector<LoopRef> around;   // the product: those of strips; none where there are none
  std::vector<LoopRef> outputs;  // that walk through the output's tiles, outermost first: those around as well
  std::vector<LoopRef> inputs;   // that walk through the input's tiles, where there are no strips
};
/// Schedules all parts but the product, in strips as high as `strip` rows of tiles, or over the whole image. The first
/// transform of the data is computed where the second reads it, one tile at a time; so is the first of the outputs. The
/// selections among rows of the constant matrices are unrolled away. On a target with vectors these are channels; on
/// one with threads each thread has one channel of a tile. E230, and what the primitives refuse
Result<PlacedTransforms> place_transforms(Schedule& s, const Target& target, const WinogradParts& parts,
                                          std::optional<IntRef> strip);

/// Of the multiplications of a workload as it is written, the least share that one of its algorithms does.
///   F(4x4, 3x3): 36 instead of 144 for each tile and pair of channels, 0.25
double least_share_of_products(const Func& workload, double max_error_bound);

}  // namespace fettle
