#pragma once
// Tensor intrinsics: pieces of work that a machine does in one instruction, or a few. Meaning and implementation are
// both loop programs, in intrinsics/.

#include <span>
#include <string_view>

#include "ir/func.h"
#include "target/target.h"

namespace fettle {

/// `meaning` is a nest around one block without init, over buffers of the tile's shape:
///   for i in 2: for j in 4: for k in 4: block C(…): C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]
/// `implementation` computes the same as lowered code: flat indices from each buffer's first element in the tile,
/// vectors, and machine intrinsics by LLVM's names. It takes the same buffers, whose strides (but the innermost, which
/// is 1) are its integer parameters in the buffers' order. A parameter whose range is one number asks for tiles with
/// that stride:
///   B[vj, vk] with `sb: i64 in 4..4`: rows of four elements, densely
/// Code for the tile unit names LLVM's intrinsics, each tile by its address and the stride of its rows, in elements;
/// `place_tiles` (lower/passes) gives them registers.
struct TensorIntrinsicDef {
  std::string_view name;
  std::string_view meaning;         // in the text form
  std::string_view implementation;  // in the text form
  bool (*available)(const Target&);
  int instructions = 1;  // that a tile takes beside loads and what the tiles of a register tile share
  /// So many threads along threadIdx.x, all that there are, run it together: a warp of 32, or a warp group of 128. The
  /// lanes of a warp may lie along threadIdx.x and threadIdx.y, too. The tile stands outside of loops over these axes.
  /// 0: each thread by itself.
  int threads = 0;
  /// Bit p: parameter p must lie in the registers of these threads (scope "fragment"); the others of an intrinsic that
  /// sets a bit must not.
  unsigned in_fragments = 0;
  /// Units that take neighbours of a reduction together want parameter 1, the right factor B[k, n], in groups of so
  /// many rows: B[k / row_group][n][k % row_group]. Its stride is that between groups. 1: rows as they are.
  int row_group = 1;
};

/// The scope of what lies in the registers of Intel's tile unit (AMX): each is 16 rows of 64 bytes.
inline constexpr const char* kScopeTile = "tile";
inline constexpr int kTileRegisters = 8, kTileRows = 16, kTileRowBytes = 64, kTileBytes = kTileRows * kTileRowBytes;
/// Code that owns such a buffer, or vectors, is a micro-kernel.
inline bool is_in_registers(const BufferNode& buffer) {
  return buffer.scope == kScopeRegister || buffer.scope == kScopeTile;
}
/// Annotation of functions and of parallel loops in lowered code, 1: what they run themselves uses the tile unit.
inline constexpr const char* kHoldsTilesKey = "holds_tiles";

/// Every intrinsic, from the sources in target/intrinsics/.
std::span<const TensorIntrinsicDef* const> tensor_intrinsics();
/// The intrinsic named `name`, or null.
const TensorIntrinsicDef* find_tensor_intrinsic(std::string_view name);
/// Its programs, parsed once a thread.
Func meaning_of(const TensorIntrinsicDef& intrinsic);
Func implementation_of(const TensorIntrinsicDef& intrinsic);

/// The nest of a tile or of a meaning: the loops straight down to one block (or, in lowered code, one store).
struct TileNest {
  std::vector<const ForNode*> loops;
  const BlockNode* block = nullptr;  // null: none, or several
  const StoreNode* store = nullptr;  // the block's, or the innermost loop's, one statement
};
TileNest tile_nest(const Stmt& body);

}  // namespace fettle
