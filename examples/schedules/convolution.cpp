// A 3x3 convolution, 56 x 56, 64 to 64 channels: direct, then by Winograd's algorithm.

#include <fmt/format.h>

#include "schedules/steps.h"
#include "te/create_func.h"
#include "te/tensor.h"

namespace fettle::examples {
namespace {

constexpr int64_t kChannels = 64, kExtent = 56;
constexpr const char* kChannelsLast = "(n, c, h, w) -> (n, h, w, c)";

Func program() {
  const te::Tensor image = te::placeholder({1, kChannels, kExtent, kExtent}, kF32, "I");
  const te::Tensor weights = te::placeholder({kChannels, kChannels, 3, 3}, kF32, "W");
  const std::vector<Expr> around = {0, 0, 1, 1};
  const te::Tensor padded = te::pad(image, around, around, float_imm(0), "padded");
  const te::ReduceAxis c = te::reduce_axis(kChannels, "c"), kh = te::reduce_axis(3, "kh"),
                       kw = te::reduce_axis(3, "kw");
  const te::Tensor out =
      te::compute({1, kChannels, kExtent, kExtent},
                  [&](const std::vector<Var>& i) {
                    return te::sum(padded(i[0], c, i[2] + kh, i[3] + kw) * weights(i[1], c, kh, kw), {c, kh, kw});
                  },
                  "O", {"n", "o", "h", "w"});
  return te::create_func(
      "convolution", {image, weights}, {out},
      {.input_kinds = {ParamKind::kInput, ParamKind::kConstant}, .free_layout = {true, false, true}});
}

// for o0, h, w0: for kh, kw, c: 14 pixels x 32 channels in registers
Result<> direct(Schedule& s, bool packed) {
  const int64_t lanes = lanes_of(s), width = 2 * lanes;
  FETTLE_TRY(const BlockRef o, get_block(s, {.name = "O"}));
  FETTLE_TRY(const BlockRef padded, get_block(s, {.name = "padded"}));
  if (packed) {
    FETTLE_TRY(const BlockRef w, cache_read(s, {.block = o, .read_index = 1}));
    FETTLE_TRY_VOID(transform_layout(
        s, {.block = w, .index_map = index_map(fmt::format("(o, c, h, w) -> (o // {0}, h, w, c, o % {0})", width))}));
  }
  FETTLE_TRY_VOID(
      transform_layout(s, {.block = padded, .buffer_index_type = "read", .index_map = index_map(kChannelsLast)}));
  FETTLE_TRY_VOID(compute_inline(s, {.block = padded}));
  FETTLE_TRY_VOID(transform_layout(s, {.block = o, .index_map = index_map(kChannelsLast)}));
  FETTLE_TRY(const BlockRef back, cache_write(s, {.block = o, .scope = kScopeRegister}));

  FETTLE_TRY(const Loops l, get_loops(s, {.block = o}));  // n o h w c kh kw
  FETTLE_TRY(const Loops out, split(s, {.loop = l[1], .factors = {kInfer, 2, lanes}}));
  FETTLE_TRY(const Loops w, split(s, {.loop = l[3], .factors = {kInfer, 14}}));
  FETTLE_TRY_VOID(reorder(s, {.loops = {l[0], out[0], l[2], w[0], l[5], l[6], l[4], w[1], out[1], out[2]}}));
  FETTLE_TRY_VOID(unroll_all(s, {l[6], w[1], out[1]}));
  FETTLE_TRY_VOID(vectorize(s, {.loop = out[2]}));
  FETTLE_TRY_VOID(reverse_compute_at(s, {.block = back, .loop = w[0], .preserve_unit_loops = false}));
  FETTLE_TRY(const Loops all, get_loops(s, {.block = back}));
  const LoopRef channels = all[all.size() - 2], pixels = all.back();
  FETTLE_TRY_VOID(reorder(s, {.loops = {pixels, channels}}));
  FETTLE_TRY_VOID(unroll(s, {.loop = pixels}));
  FETTLE_TRY_VOID(as_vectors(s, channels));
  return decompose_reduction(s, {.block = o, .loop = l[5]}).map([](BlockRef) {});
}

// The whole image goes through the transforms, two rows of tiles at a time.
Result<> winograd(Schedule& s, int64_t m) {
  const int64_t lanes = lanes_of(s);
  FETTLE_TRY(const BlockRef o, get_block(s, {.name = "O"}));
  FETTLE_TRY(const Blocks parts, reformulate(s, {.block = o, .kind = "winograd", .numbers = {m}}));
  const BlockRef rows = parts[1], tiles = parts[2], product = parts[3], columns = parts[4], out = parts[5];
  FETTLE_TRY(const BlockRef padded, get_block(s, {.name = "padded"}));
  FETTLE_TRY_VOID(
      transform_layout(s, {.block = padded, .buffer_index_type = "read", .index_map = index_map(kChannelsLast)}));
  FETTLE_TRY_VOID(transform_layout(s, {.block = out, .index_map = index_map(kChannelsLast)}));
  FETTLE_TRY(const BlockRef back, cache_write(s, {.block = product, .scope = kScopeRegister}));

  // The outputs: for p0: for p1, q, o0: m x m pixels of one vector of channels, each from its column.
  FETTLE_TRY(const Loops l, get_loops(s, {.block = out}));  // n o h w
  FETTLE_TRY(const Loops h, split(s, {.loop = l[2], .factors = {kInfer, 2, m}, .tail = Tail::kMask}));
  FETTLE_TRY(const Loops w, split(s, {.loop = l[3], .factors = {kInfer, m}, .tail = Tail::kMask}));
  FETTLE_TRY(const Loops c, split(s, {.loop = l[1], .factors = {kInfer, lanes}}));
  FETTLE_TRY_VOID(reorder(s, {.loops = {l[0], h[0], h[1], w[0], c[0], h[2], w[1], c[1]}}));
  FETTLE_TRY_VOID(unroll_all(s, {h[2], w[1]}));
  FETTLE_TRY_VOID(vectorize(s, {.loop = c[1]}));
  FETTLE_TRY_VOID(compute_at(s, {.block = columns, .loop = c[0], .preserve_unit_loops = false}));
  FETTLE_TRY(const Loops of_columns, get_loops(s, {.block = columns}));  // n p0 p1 q o0 | o a y
  FETTLE_TRY_VOID(reorder(s, {.loops = {of_columns[7], of_columns[6], of_columns[5]}}));
  FETTLE_TRY_VOID(unroll_all(s, {of_columns[7], of_columns[6]}));
  FETTLE_TRY_VOID(vectorize(s, {.loop = of_columns[5]}));
  FETTLE_TRY_VOID(in_registers(s, columns));

  // The products, one matrix product for each of the (m + 2)² points: 14 tiles x 32 channels in registers.
  FETTLE_TRY_VOID(compute_at(s, {.block = back, .loop = h[0], .preserve_unit_loops = false}));
  FETTLE_TRY(const Loops b, get_loops(s, {.block = back}));  // n p0 | x y p q o
  FETTLE_TRY(const Loops wide, split(s, {.loop = b[6], .factors = {kInfer, 2 * lanes}}));
  FETTLE_TRY(const Loops q, split(s, {.loop = b[5], .factors = {kInfer, 14}, .tail = Tail::kBalance}));
  FETTLE_TRY_VOID(reorder(s, {.loops = {b[2], b[3], wide[0], b[4], q[0], q[1], wide[1]}}));
  FETTLE_TRY_VOID(compute_at(s, {.block = product, .loop = q[0], .preserve_unit_loops = false}));
  FETTLE_TRY_VOID(unroll(s, {.loop = q[1]}));
  FETTLE_TRY_VOID(as_vectors(s, wide[1]));
  FETTLE_TRY(const Loops g, get_loops(s, {.block = product}));  // n p0 x y o0 p q0 | q o c
  const LoopRef reduce = g.back(), channels = g[g.size() - 2], pixels = g[g.size() - 3];
  FETTLE_TRY_VOID(reorder(s, {.loops = {reduce, pixels, channels}}));
  FETTLE_TRY_VOID(unroll(s, {.loop = pixels}));
  FETTLE_TRY_VOID(as_vectors(s, channels));
  FETTLE_TRY_VOID(decompose_reduction(s, {.block = product, .loop = reduce}).map([](BlockRef) {}));

  // The inputs: a tile of one vector of channels, its rows transformed in registers, then its columns.
  FETTLE_TRY_VOID(compute_at(s, {.block = tiles, .loop = h[0], .preserve_unit_loops = false}));
  FETTLE_TRY(const Loops t, get_loops(s, {.block = tiles}));  // n p0 | p q c x y
  FETTLE_TRY(const Loops tc, split(s, {.loop = t[4], .factors = {kInfer, lanes}}));
  FETTLE_TRY_VOID(reorder(s, {.loops = {t[2], t[3], tc[0], t[5], t[6], tc[1]}}));
  FETTLE_TRY_VOID(compute_at(s, {.block = rows, .loop = tc[0], .preserve_unit_loops = false}));
  FETTLE_TRY_VOID(unroll_all(s, {t[5], t[6]}));
  FETTLE_TRY_VOID(vectorize(s, {.loop = tc[1]}));
  FETTLE_TRY(const Loops r, get_loops(s, {.block = rows}));  // n p0 p q c0 | c x j
  FETTLE_TRY_VOID(reorder(s, {.loops = {r[7], r[6], r[5]}}));
  FETTLE_TRY_VOID(unroll_all(s, {r[7], r[6]}));
  FETTLE_TRY_VOID(vectorize(s, {.loop = r[5]}));
  FETTLE_TRY_VOID(in_registers(s, rows));
  return compute_inline(s, {.block = padded});
}

}  // namespace

Subject convolution() {
  return {"convolution",
          fmt::format("3x3, {0} x {0}, {1} to {1} channels, f32, weights constant", kExtent, kChannels),
          program(),
          2.0 * 9 * kChannels * kChannels * kExtent * kExtent,
          1e-4,  // F(6x6, 3x3) reaches 1e-5
          {{"direct, channels last",
            "14 pixels x 32 channels in registers; for each tap and input channel 2 vectors of weights and 14 pixels. "
            "The taps of a\n"
            "    row are unrolled, so padding becomes tiles of their own at the borders, without a test inside.",
            [](Schedule& s) { return direct(s, false); }},
           {"weights in panels", "The weights of 32 output channels lie in the order in which they are read.",
            [](Schedule& s) { return direct(s, true); }},
           {"Winograd F(2x2, 3x3)", "16 instead of 36 multiplications for 4 outputs; errors grow little.",
            [](Schedule& s) { return winograd(s, 2); }},
           {"Winograd F(6x6, 3x3)",
            "64 instead of 324 multiplications for 36 outputs; but larger transforms and constants, 56 is no multiple "
            "of 6, and\n"
            "    errors are larger.",
            [](Schedule& s) { return winograd(s, 6); }},
           {"Winograd F(4x4, 3x3)",
            "36 instead of 144 multiplications for 16 outputs. Two rows of tiles go through all steps, so that what is "
            "between\n"
            "    them (36 x 28 x 64 numbers each way) stays in L2.",
            [](Schedule& s) { return winograd(s, 4); }}}};
}

}  // namespace fettle::examples
