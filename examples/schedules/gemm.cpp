// GEMM, from three loops to the peak of the machine. C[i, j] += A[i, k] B[k, j], row-major, B known when the program is
// compiled.

#include <fmt/format.h>

#include "schedules/steps.h"
#include "te/create_func.h"
#include "te/tensor.h"

namespace fettle::examples {
namespace {

constexpr int64_t kSize = 512;

Func program() {
  const te::Tensor a = te::placeholder({kSize, kSize}, kF32, "A"), b = te::placeholder({kSize, kSize}, kF32, "B");
  const te::ReduceAxis k = te::reduce_axis(kSize, "k");
  const te::Tensor c =
      te::compute({kSize, kSize}, [&](const std::vector<Var>& i) { return te::sum(a(i[0], k) * b(k, i[1]), {k}); }, "C",
                  {"i", "j"});
  return te::create_func("gemm", {a, b}, {c}, {.input_kinds = {ParamKind::kInput, ParamKind::kConstant}});
}

// for i: for k: for j: C[i, j] += A[i, k] B[k, j]
Result<> order(Schedule& s) {
  FETTLE_TRY(const BlockRef c, get_block(s, {.name = "C"}));
  FETTLE_TRY(const Loops l, get_loops(s, {.block = c}));  // i j k
  return reorder(s, {.loops = {l[0], l[2], l[1]}});
}

// As before, 16 columns at once.
Result<> vectors(Schedule& s) {
  FETTLE_TRY(const BlockRef c, get_block(s, {.name = "C"}));
  FETTLE_TRY(const Loops l, get_loops(s, {.block = c}));
  FETTLE_TRY(const Loops j, split(s, {.loop = l[1], .factors = {kInfer, lanes_of(s)}}));
  FETTLE_TRY_VOID(reorder(s, {.loops = {l[0], l[2], j[0], j[1]}}));
  return vectorize(s, {.loop = j[1]});
}

// for i0, j0: for k: for i1 in rows, j1 in vectors: registers += …       then the tile is stored
Result<> tile(Schedule& s, int64_t rows, int64_t vectors, bool panels) {
  const int64_t lanes = lanes_of(s), width = vectors * lanes;
  FETTLE_TRY(const BlockRef c, get_block(s, {.name = "C"}));
  if (panels) {
    FETTLE_TRY(const BlockRef b, cache_read(s, {.block = c, .read_index = 1}));
    FETTLE_TRY_VOID(transform_layout(
        s, {.block = b, .index_map = index_map(fmt::format("(k, j) -> (j // {0}, k, j % {0})", width))}));
  }
  FETTLE_TRY(const BlockRef back, cache_write(s, {.block = c, .scope = kScopeRegister}));
  FETTLE_TRY(const Loops l, get_loops(s, {.block = c}));  // i j k
  FETTLE_TRY(const Loops i, split(s, {.loop = l[0], .factors = {kInfer, rows}, .tail = Tail::kBalance}));
  FETTLE_TRY(const Loops j, split(s, {.loop = l[1], .factors = {kInfer, vectors, lanes}, .tail = Tail::kPad}));
  FETTLE_TRY_VOID(reorder(s, {.loops = {j[0], i[0], l[2], i[1], j[1], j[2]}}));
  FETTLE_TRY_VOID(unroll_all(s, {i[1], j[1]}));
  FETTLE_TRY_VOID(vectorize(s, {.loop = j[2]}));
  // The accumulators go to memory when the reduction over k is done.
  FETTLE_TRY_VOID(reverse_compute_at(s, {.block = back, .loop = i[0]}));
  FETTLE_TRY(const Loops own, get_loops(s, {.block = back}));
  FETTLE_TRY_VOID(unroll(s, {.loop = own[own.size() - 2]}));
  FETTLE_TRY_VOID(as_vectors(s, own.back(), Tail::kMask));
  return decompose_reduction(s, {.block = c, .loop = l[2]}).map([](BlockRef) {});
}

}  // namespace

Subject gemm() {
  return {
      "gemm",
      fmt::format("C = A B, {0} x {0} x {0}, f32, B constant", kSize),
      program(),
      2.0 * kSize * kSize * kSize,
      1e-5,
      {{"k outside of j",
        "As written, each element of C is one long sum: every addition waits for the one before, and B is read down "
        "its columns, a\n"
        "    cache line for each element. Now j runs innermost: neighbouring elements of B and C follow one another in "
        "memory, and additions are "
        "independent.",
        order},
       {"vectors of columns",
        "One instruction for 16 elements. What remains is traffic: each multiply-add loads and stores its element "
        "of C.",
        vectors},
       {"a tile of C in registers",
        "6 x 64 elements of C stay in 24 registers while k runs. Each step of k loads 4 vectors of B and 6 "
        "elements of A for\n"
        "    24 multiply-adds, enough of them to hide their latency (at least 8 to 10 must be under way).",
        [](Schedule& s) { return tile(s, 6, 4, false); }},
       {"B in panels",
        "The 64 columns of a tile lie together in memory, in the order in which they are read: one stream instead "
        "of rows that\n"
        "    are 2 KiB apart and fall into the same few sets of the cache. B is constant, so this costs nothing at "
        "run time.",
        [](Schedule& s) { return tile(s, 6, 4, true); }},
       {"9 x 48 elements in registers",
        "27 of the 32 registers hold sums: 3 vectors of B and 9 elements of A are loaded for 27 multiply-adds, instead "
        "of 4 and\n"
        "    6 for 24. 512 is no multiple of either: rows are dealt out evenly, and the last panel is padded with "
        "zeros.",
        [](Schedule& s) { return tile(s, 9, 3, true); }}}};
}

}  // namespace fettle::examples
