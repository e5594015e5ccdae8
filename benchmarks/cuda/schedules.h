#pragma once
// Schedules by hand for NVIDIA's GPUs, and the programs that they are for.

#include <cstdint>
#include <string>
#include <vector>

#include "schedule/schedule.h"

namespace fettle::bench {

/// C[m, n] += A[m, k] * B[k, n] in f32; or with factors in f16, whose products and sums are f32.
Func gemm_program(int64_t m, int64_t n, int64_t k, bool half);

/// A block of threads makes block_m x block_n elements, block_k products at a time; each thread `thread_m` x `thread_n`
/// of them, in groups of 4 x 4 that lie apart.
struct GemmTiles {
  int64_t block_m = 128, block_n = 128, block_k = 16;
  int64_t thread_m = 8, thread_n = 8;
  int64_t vector_k = 4;    // elements of a row of A that a thread takes to its registers at once
  int64_t min_blocks = 0;  // on a multiprocessor at once; 0: as many as registers allow
};
/// A and B go to shared memory by 16-byte asynchronous copies, one step of k ahead; from there to registers by 16
/// bytes. Extents are multiples of the tiles.
Result<> schedule_gemm_f32(Schedule& s, const GemmTiles& tiles);

/// A block of warps makes block_m x block_n elements; each warp warp_m x warp_n.
struct TensorGemmTiles {
  int64_t block_m = 128, block_n = 128, block_k = 32;
  int64_t warp_m = 64, warp_n = 64;
  int64_t stages = 2;   // steps of k that are in shared memory at once
  bool swizzle = true;  // pieces of rows in shared memory in orders of their own; else rows lie apart
  int64_t min_blocks = 0;
};
/// The same with mma_m16n8k16_f16; sums and factors are in the registers of warps.
Result<> schedule_gemm_f16(Schedule& s, const TensorGemmTiles& tiles);

/// C[m, n] += A[m, k] * B[k, n], or B[n, k] with `transposed`, with factors of a type of 16 bits, sums in f32, and
/// results of `result`'s type.
Func tensor_gemm_program(int64_t m, int64_t n, int64_t k, const std::string& type, const std::string& result,
                         bool transposed = false);

/// B[i, j] = 0.25 * (A[i, j] + A[i, j + 2] + A[i + 2, j + 1] + …): five points of a plane of rows x columns.
Func stencil_program(int64_t rows, int64_t columns);
/// Each thread `rows` rows of one column, a block 256 columns.
Result<> schedule_stencil(Schedule& s, int64_t rows);

/// Softmax, or layer norm without its factors, of each of `rows` rows.
Func softmax_program(int64_t rows, int64_t columns);
Func layer_norm_program(int64_t rows, int64_t columns);
/// A row a block, kept in registers: `threads` threads, each of which has 4 neighbours at a time.
Result<> schedule_rows(Schedule& s, int64_t threads);

}  // namespace fettle::bench
