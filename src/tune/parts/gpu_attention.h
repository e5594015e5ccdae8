#pragma once
// Attention in one pass over keys and values on tensor cores (schedule/reformulate/online_reduction.cpp, with the size
// of a block). (Dao: FlashAttention-2, 2023, section 3.) Scores and shares never leave the registers of their warp.
//
//   blocks: a head, and a tile of queries; warps: 16 of these queries each
//   Q of the tile in the registers of the warps
//   for blocks of keys, whose K and V are copied to shared memory while the one before is worked on:
//     X = Q K                                    tiles of sums, in registers
//     their maxima, of each lane, then of the 4 lanes that have a row; what the states are corrected by
//     E = exp(X - …), its sums, likewise         each lane what it has
//     P = E, rounded                             where the tiles of left factors have these elements
//     O = O * correction + P V                   some columns a time
//   O divided by the sums

#include <optional>

#include "tune/parts/attention.h"

namespace fettle {

/// What a block of threads works on.
struct WarpAttentionTile {
  int64_t warps = 4;     // each has 16 queries
  int64_t keys = 64;     // of a block of keys
  int64_t columns = 32;  // of a value, that are summed up at a time
  int64_t stages = 2;    // blocks of keys in shared memory
};

/// The type of the factors, where tensor cores multiply them: f16 or bf16, and extents that tiles divide.
std::optional<DType> tensor_attention_type(const Func& func, const AttentionParts& parts, const Target& target);

/// Computes it so. Returns all of the program's blocks.
/// Errors: E228 the pattern differs · E230 no tile fits · those of the primitives
Result<Finished> gpu_attention(Schedule& s, const Target& target, const AttentionParts& parts);

}  // namespace fettle
