// Attention: softmax(Q K^T / 8) V for 12 heads of 512 tokens, 64 wide, in one pass: the scores never are in memory as a
// whole.

#include <fmt/format.h>

#include "schedules/steps.h"
#include "te/create_func.h"
#include "te/tensor.h"

namespace fettle::examples {
namespace {

constexpr int64_t kHeads = 12, kTokens = 512, kWidth = 64;

Func program() {
  const te::Tensor q = te::placeholder({kHeads, kTokens, kWidth}, kF32, "Q");
  const te::Tensor k = te::placeholder({kHeads, kTokens, kWidth}, kF32, "K");
  const te::Tensor v = te::placeholder({kHeads, kTokens, kWidth}, kF32, "V");
  const te::ReduceAxis d = te::reduce_axis(kWidth, "d"), highest = te::reduce_axis(kTokens, "j");
  const te::ReduceAxis all = te::reduce_axis(kTokens, "j"), keys = te::reduce_axis(kTokens, "j");
  const Expr scale = constant(0.125, kF32);
  const std::vector<Expr> scores = {kHeads, kTokens, kTokens}, rows = {kHeads, kTokens};
  const te::Tensor x =
      te::compute(scores, [&](const std::vector<Var>& i) { return te::sum(q(i[0], i[1], d) * k(i[0], i[2], d), {d}); },
                  "X", {"h", "i", "j"});
  const te::Tensor m =
      te::compute(rows, [&](const std::vector<Var>& i) { return te::max(x(i[0], i[1], highest) * scale, {highest}); },
                  "M", {"h", "i"});
  const te::Tensor e = te::compute(
      scores, [&](const std::vector<Var>& i) { return math("exp", {x(i[0], i[1], i[2]) * scale - m(i[0], i[1])}); },
      "E", {"h", "i", "j"});
  const te::Tensor s =
      te::compute(rows, [&](const std::vector<Var>& i) { return te::sum(e(i[0], i[1], all), {all}); }, "S", {"h", "i"});
  const te::Tensor p = te::compute(
      scores, [&](const std::vector<Var>& i) { return e(i[0], i[1], i[2]) / s(i[0], i[1]); }, "P", {"h", "i", "j"});
  const te::Tensor o =
      te::compute({kHeads, kTokens, kWidth},
                  [&](const std::vector<Var>& i) { return te::sum(p(i[0], i[1], keys) * v(i[0], keys, i[2]), {keys}); },
                  "O", {"h", "i", "e"});
  return te::create_func("attention", {q, k, v}, {o});
}

// A scan's loops (b, h, i, …) in the order h, i0, b, …, i1, vectors innermost: what all of them are joined at.
struct Nest {
  LoopRef queries, keys;  // i0 and b
  Loops rest;
};
Result<Nest> by_blocks(Schedule& s, BlockRef block, int64_t queries) {
  FETTLE_TRY(const Loops l, get_loops(s, {.block = block}));  // b h i …
  FETTLE_TRY(const Loops i, split(s, {.loop = l[2], .factors = {kInfer, queries}}));
  Nest nest{i[0], l[0], Loops(l.begin() + 3, l.end())};
  Loops order = {l[1], i[0], l[0]};
  order.insert(order.end(), nest.rest.begin(), nest.rest.end());
  order.push_back(i[1]);
  FETTLE_TRY_VOID(reorder(s, {.loops = order}));
  nest.rest.push_back(i[1]);
  return nest;
}

// keys and queries: of a block; register tiles have queries / 16 vectors in rows_of_tile rows. All vectors lie along
// queries, so that maxima and sums over keys need nothing across lanes.
Result<> one_pass(Schedule& s, int64_t keys, int64_t queries, int64_t rows_of_tile) {
  FETTLE_TRY(const BlockRef written, get_block(s, {.name = "O"}));
  FETTLE_TRY(const Blocks parts, reformulate(s, {.block = written, .kind = "online_reduction", .numbers = {keys}}));
  const BlockRef block_max = parts[0], run_max = parts[1], powers = parts[2], block_sum = parts[3], run_sum = parts[4];
  const BlockRef block_out = parts[5], run_out = parts[6];
  FETTLE_TRY(const Blocks last, reformulate(s, {.block = parts[7], .kind = "shared_reciprocal"}));
  const BlockRef inverse = last[0], out = last[1];
  FETTLE_TRY(const BlockRef scores, get_block(s, {.name = "X"}));
  FETTLE_TRY(const BlockRef packed, cache_read(s, {.block = scores, .read_index = 0}));  // Q

  // Queries innermost in everything that is between.
  const IndexMap rows = index_map(fmt::format("(h, i, j) -> (h, i // {0}, j, i % {0})", queries));
  const IndexMap blocks = index_map(fmt::format("(b, h, i, j) -> (b, h, i // {0}, j, i % {0})", queries));
  for (const BlockRef block : {packed, scores, run_out})
    FETTLE_TRY_VOID(transform_layout(s, {.block = block, .index_map = rows}));
  for (const BlockRef block : {powers, block_out})
    FETTLE_TRY_VOID(transform_layout(s, {.block = block, .index_map = blocks}));
  FETTLE_TRY(const BlockRef back, cache_write(s, {.block = scores, .scope = kScopeRegister}));

  // What a block of keys adds to the output: a tile in registers, added to what there is so far.
  FETTLE_TRY(const Nest of_out, by_blocks(s, run_out, queries));
  FETTLE_TRY(const Loops e, split(s, {.loop = of_out.rest[0], .factors = {kInfer, rows_of_tile}}));
  FETTLE_TRY_VOID(compute_at(s, {.block = block_out, .loop = e[0], .preserve_unit_loops = false}));
  FETTLE_TRY_VOID(unroll(s, {.loop = e[1]}));
  FETTLE_TRY_VOID(as_vectors(s, of_out.rest[1]));
  FETTLE_TRY(const Loops p, get_loops(s, {.block = block_out}));  // h i0 b e0 | i e k
  FETTLE_TRY_VOID(reorder(s, {.loops = {p[6], p[5], p[4]}}));
  FETTLE_TRY_VOID(unroll(s, {.loop = p[5]}));
  FETTLE_TRY_VOID(as_vectors(s, p[4]));
  FETTLE_TRY_VOID(in_registers(s, block_out));
  FETTLE_TRY_VOID(decompose_reduction(s, {.block = block_out, .loop = p[6]}).map([](BlockRef) {}));

  // Running maximum, exponentials, their sum: all under the same block of keys.
  FETTLE_TRY(const Nest of_max, by_blocks(s, run_max, queries));
  FETTLE_TRY_VOID(as_vectors(s, of_max.rest[0]));
  FETTLE_TRY(const Loops x, get_loops(s, {.block = powers}));  // b h i0 k i1, as its layout has them
  FETTLE_TRY_VOID(reorder(s, {.loops = {x[1], x[2], x[0], x[3], x[4]}}));
  FETTLE_TRY_VOID(as_vectors(s, x[4]));
  FETTLE_TRY(const Nest of_part, by_blocks(s, block_sum, queries));
  FETTLE_TRY_VOID(as_vectors(s, of_part.rest[1]));
  FETTLE_TRY_VOID(in_registers(s, block_sum));
  FETTLE_TRY(const Nest of_sum, by_blocks(s, run_sum, queries));
  FETTLE_TRY_VOID(as_vectors(s, of_sum.rest[0]));
  FETTLE_TRY(const LoopRef b, merge(s, {.loops = {of_max.keys, x[0], of_part.keys, of_sum.keys, of_out.keys}}));
  FETTLE_TRY_VOID(decompose_reduction(s, {.block = block_sum, .loop = of_part.rest[0]}).map([](BlockRef) {}));

  FETTLE_TRY_VOID(compute_at(s, {.block = block_max, .loop = b, .preserve_unit_loops = false}));
  FETTLE_TRY(const Loops h, get_loops(s, {.block = block_max}));  // h i0 b | i k
  FETTLE_TRY_VOID(reorder(s, {.loops = {h[4], h[3]}}));
  FETTLE_TRY_VOID(as_vectors(s, h[3]));
  FETTLE_TRY_VOID(in_registers(s, block_max));
  FETTLE_TRY_VOID(decompose_reduction(s, {.block = block_max, .loop = h[4]}).map([](BlockRef) {}));

  // The scores of a block: a tile of keys x queries in registers.
  FETTLE_TRY_VOID(compute_at(s, {.block = back, .loop = b, .preserve_unit_loops = false}));
  FETTLE_TRY(const Loops c, get_loops(s, {.block = back}));  // h i0 b | i j
  FETTLE_TRY(const Loops j, split(s, {.loop = c[4], .factors = {kInfer, rows_of_tile}}));
  FETTLE_TRY_VOID(reorder(s, {.loops = {j[0], j[1], c[3]}}));
  FETTLE_TRY_VOID(compute_at(s, {.block = scores, .loop = j[0], .preserve_unit_loops = false}));
  FETTLE_TRY_VOID(unroll(s, {.loop = j[1]}));
  FETTLE_TRY_VOID(as_vectors(s, c[3]));
  FETTLE_TRY(const Loops g, get_loops(s, {.block = scores}));  // h i0 b j0 | i j d
  FETTLE_TRY_VOID(reorder(s, {.loops = {g[6], g[5], g[4]}}));
  FETTLE_TRY_VOID(unroll(s, {.loop = g[5]}));
  FETTLE_TRY_VOID(as_vectors(s, g[4]));
  FETTLE_TRY_VOID(decompose_reduction(s, {.block = scores, .loop = g[6]}).map([](BlockRef) {}));

  // Once for each block of queries: Q turned over before, the output turned back and divided after.
  FETTLE_TRY_VOID(compute_at(s, {.block = packed, .loop = of_max.queries, .preserve_unit_loops = false}));
  for (const BlockRef block : {inverse, out})
    FETTLE_TRY_VOID(reverse_compute_at(s, {.block = block, .loop = of_max.queries, .preserve_unit_loops = false}));
  for (const BlockRef block : {packed, inverse, out}) {
    FETTLE_TRY(const Loops l, get_loops(s, {.block = block}));
    FETTLE_TRY_VOID(as_vectors(s, l.back()));
  }
  return {};
}

}  // namespace

Subject attention() {
  return {"attention",
          fmt::format("{} heads, {} tokens, {} wide, f32", kHeads, kTokens, kWidth),
          program(),
          4.0 * kHeads * kTokens * kTokens * kWidth,
          1e-5,
          {{"one pass: 128 keys, 32 queries",
            "As written, scores, maxima, exponentials, sums, weights and product are each a pass over 12 x 512 x 512 "
            "numbers. Now for 32 queries, blocks of keys go by: scores, the highest so far, exponentials, and what "
            "they add to sum "
            "and output,\n"
            "    both corrected once a block. 128 x 32 scores stay in L1.",
            [](Schedule& s) { return one_pass(s, 128, 32, 8); }},
           {"64 keys, 64 queries",
            "Keys and values come from L2: twice as many queries share them while a block of either is in L1.",
            [](Schedule& s) { return one_pass(s, 64, 64, 4); }}}};
}

}  // namespace fettle::examples
