#pragma once

#include "schedule/schedule.h"

namespace fettle {

/// Says that a tile is what a tensor intrinsic of the target computes.
///   block C_o(…): for i in 2, j in 4, k in 4: block C(…): C[vi, vj] += A[vi, vk] * B[vk, vj]
///   →   block C_o(…) {tensorize = "scalar_matmul_f32"}: the same
/// The tile is compared with the intrinsic's meaning. Both have the same statement, up to names and the order of
/// factors and terms. Each iterator of the intrinsic is an iterator of the tile of the same kind and extent. An index
/// follows it step by step, from a place that the loops outside decide: A[h + kh, w + kw, ic], or B[n // 16, k // 4, n
/// % 16, k % 4] in tiles of 16 x 4 (64 x 16 where it takes rows of B in fours). Other indices choose the tile. The
/// meaning of the program does not change. Lowering puts the implementation where the target has it and memory is so (B
/// packed as above, say). Elsewhere it leaves the loops. target:    a loop, which is blockized first, or a block that
/// blockize made intrinsic: a name of tensor_intrinsics() (src/target/intrinsics/)
/// Returns the block of the tile.
/// Errors: E206 no such loop or block · E207, E209 as for blockize · E241 no such intrinsic · E225 `target` is neither
///         E230 the target lacks the intrinsic, or the tile computes something else: an init inside (decompose it
///         first), a guard (pad first), another extent, statement or type
struct TensorizeArgs {
  StepRef target;  // a LoopRef or a BlockRef
  std::string intrinsic;
  static constexpr auto fields =
      std::tuple{field("target", &TensorizeArgs::target), field("intrinsic", &TensorizeArgs::intrinsic)};
};
Result<BlockRef> tensorize(Schedule& s, const TensorizeArgs& args);

}  // namespace fettle
