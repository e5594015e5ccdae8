// A depthwise 3x3 convolution: 96 channels of 112 x 112, each by itself. Nine multiply-adds for an element: memory
// decides.

#include "schedules/steps.h"
#include "te/create_func.h"
#include "te/tensor.h"

namespace fettle::examples {
namespace {

constexpr int64_t kChannels = 96, kExtent = 112;

Func program() {
  const te::Tensor image = te::placeholder({kChannels, kExtent, kExtent}, kF32, "I");
  const te::Tensor weights = te::placeholder({kChannels, 3, 3}, kF32, "W");
  const std::vector<Expr> around = {0, 1, 1};
  const te::Tensor padded = te::pad(image, around, around, float_imm(0), "padded");
  const te::ReduceAxis kh = te::reduce_axis(3, "kh"), kw = te::reduce_axis(3, "kw");
  const te::Tensor out =
      te::compute({kChannels, kExtent, kExtent},
                  [&](const std::vector<Var>& i) {
                    return te::sum(padded(i[0], i[1] + kh, i[2] + kw) * weights(i[0], kh, kw), {kh, kw});
                  },
                  "O", {"c", "h", "w"});
  return te::create_func("depthwise", {image, weights}, {out},
                         {.input_kinds = {ParamKind::kInput, ParamKind::kConstant}});
}

Result<> inlined(Schedule& s) {
  FETTLE_TRY(const BlockRef padded, get_block(s, {.name = "padded"}));
  return compute_inline(s, {.block = padded});
}

// for c: for h0: for w0: `rows` x 16 pixels in registers; for kh, kw: …
Result<> tile(Schedule& s, int64_t rows, bool all_taps) {
  FETTLE_TRY_VOID(inlined(s));
  FETTLE_TRY(const BlockRef o, get_block(s, {.name = "O"}));
  FETTLE_TRY(const BlockRef back, cache_write(s, {.block = o, .scope = kScopeRegister}));
  FETTLE_TRY(const Loops l, get_loops(s, {.block = o}));  // c h w kh kw
  FETTLE_TRY(const Loops h, split(s, {.loop = l[1], .factors = {kInfer, rows}, .tail = Tail::kBalance}));
  FETTLE_TRY(const Loops w, split(s, {.loop = l[2], .factors = {kInfer, lanes_of(s)}, .tail = Tail::kPartition}));
  FETTLE_TRY_VOID(reorder(s, {.loops = {l[0], h[0], w[0], l[3], l[4], h[1], w[1]}}));
  FETTLE_TRY_VOID(unroll_all(s, {l[3], h[1]}));
  if (all_taps) FETTLE_TRY_VOID(unroll(s, {.loop = l[4]}));
  FETTLE_TRY_VOID(vectorize(s, {.loop = w[1]}));
  FETTLE_TRY_VOID(reverse_compute_at(s, {.block = back, .loop = w[0], .preserve_unit_loops = false}));
  FETTLE_TRY(const Loops own, get_loops(s, {.block = back}));
  FETTLE_TRY_VOID(unroll(s, {.loop = own[own.size() - 2]}));
  FETTLE_TRY_VOID(vectorize(s, {.loop = own.back()}));
  return decompose_reduction(s, {.block = o, .loop = l[3]}).map([](BlockRef) {});
}

}  // namespace

Subject depthwise() {
  return {"depthwise",
          "3x3 on 112 x 112 x 96, channels first, f32",
          program(),
          2.0 * 9 * kChannels * kExtent * kExtent,
          1e-5,
          {{"padding read in place",
            "No padded copy of the image is made; instead every tap asks whether it lies inside.", inlined},
           {"7 rows x 16 pixels",
            "Vectors along the row. The nine rows that seven rows of outputs need are read three times each, from L1. "
            "Whether a\n"
            "    column lies inside is still asked for each lane, since it depends on the tap.",
            [](Schedule& s) { return tile(s, 7, false); }},
           {"all nine taps unrolled",
            "Now each tap's columns are known: tiles inside the image have no mask at all, those at the borders are "
            "kernels of\n"
            "    their own. What is left is reading the image once and writing the result once.",
            [](Schedule& s) { return tile(s, 7, true); }}}};
}

}  // namespace fettle::examples
