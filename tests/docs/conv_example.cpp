#include "conv_example.h"

#include "schedule/primitives/cache_write.h"
#include "schedule/primitives/compute_inline.h"
#include "schedule/primitives/decompose_reduction.h"
#include "schedule/primitives/get_block.h"
#include "schedule/primitives/get_loops.h"
#include "schedule/primitives/reorder.h"
#include "schedule/primitives/reverse_compute_at.h"
#include "schedule/primitives/split.h"
#include "schedule/primitives/unroll.h"
#include "schedule/primitives/vectorize.h"
#include "te/create_func.h"
#include "te/tensor.h"

namespace fettle::docs {

Func conv_program(int64_t size, int64_t channels) {
  te::Tensor image = te::placeholder({size, size, channels}, kF32, "I");
  te::Tensor weights = te::placeholder({3, 3, channels, 16}, kF32, "W");
  te::Tensor padded = te::pad(image, {1, 1, 0}, {1, 1, 0}, float_imm(0), "padded");
  te::ReduceAxis kh = te::reduce_axis(3, "kh"), kw = te::reduce_axis(3, "kw"), c = te::reduce_axis(channels, "c");
  te::Tensor out =
      te::compute({size, size, 16},
                  [&](const std::vector<Var>& i) {
                    return te::sum(padded(i[0] + kh, i[1] + kw, c) * weights(kh, kw, c, i[2]), {kh, kw, c});
                  },
                  "O", {"h", "w", "o"});
  return te::create_func("conv", {image, weights}, {out}, {.input_kinds = {ParamKind::kInput, ParamKind::kConstant}});
}

Result<> conv_schedule(Schedule& s) {
  FETTLE_TRY(BlockRef padded, get_block(s, {.name = "padded"}));
  FETTLE_TRY_VOID(compute_inline(s, {.block = padded}));
  FETTLE_TRY(BlockRef o, get_block(s, {.name = "O"}));
  FETTLE_TRY(BlockRef back, cache_write(s, {.block = o, .write_index = 0, .scope = kScopeRegister}));
  FETTLE_TRY(std::vector<LoopRef> loops, get_loops(s, {.block = o}));  // h w o kh kw c
  FETTLE_TRY(std::vector<LoopRef> w, split(s, {.loop = loops[1], .factors = {kInfer, 7}}));
  FETTLE_TRY_VOID(reorder(s, {.loops = {loops[0], w[0], loops[3], loops[5], loops[4], w[1], loops[2]}}));
  FETTLE_TRY_VOID(unroll(s, {.loop = loops[4]}));
  FETTLE_TRY_VOID(unroll(s, {.loop = w[1]}));
  FETTLE_TRY_VOID(vectorize(s, {.loop = loops[2]}));
  FETTLE_TRY_VOID(reverse_compute_at(s, {.block = back, .loop = w[0]}));
  FETTLE_TRY(std::vector<LoopRef> own, get_loops(s, {.block = back}));
  FETTLE_TRY_VOID(unroll(s, {.loop = own[own.size() - 2]}));
  FETTLE_TRY_VOID(vectorize(s, {.loop = own.back()}));
  FETTLE_TRY_VOID(decompose_reduction(s, {.block = o, .loop = loops[3]}).map([](BlockRef) {}));
  return {};
}

}  // namespace fettle::docs
