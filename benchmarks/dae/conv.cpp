#include "dae/conv.h"

#include <memory>

#include <fmt/format.h>

#include "base/check.h"
#include "codegen/dae/dae_codegen.h"
#include "ir/text.h"
#include "schedule/primitives/bind.h"
#include "schedule/primitives/cache_read.h"
#include "schedule/primitives/compute_at.h"
#include "schedule/primitives/decompose_reduction.h"
#include "schedule/primitives/get_block.h"
#include "schedule/primitives/get_loops.h"
#include "schedule/primitives/reorder.h"
#include "schedule/primitives/reverse_compute_at.h"
#include "schedule/primitives/set_scope.h"
#include "schedule/primitives/split.h"
#include "schedule/primitives/tensorize.h"
#include "target/accelerator.h"

namespace fettle::bench {

Func dae_conv(const DaeLayer& layer) {
  const std::string text = fmt::format(
      R"(func dae_conv(I: i8[{ci}, {hp}, {hp}, 16], W: i8[{co}, {ci}, {kk}, {kk}, 16, 16], O: i8[{co}, {h}, {h}, 16] output):
  alloc S: i32[{co}, {h}, {h}, 16]
  alloc Q: i32[{co}, {h}, {h}, 16]
  for co in {co}:
    for h in {h}:
      for w in {h}:
        for j in 16:
          for ci in {ci}:
            for kh in {kk}:
              for kw in {kk}:
                for k in 16:
                  block S(vco: spatial[{co}] = co, vh: spatial[{h}] = h, vw: spatial[{h}] = w, vj: spatial[16] = j, vci: reduce[{ci}] = ci, vkh: reduce[{kk}] = kh, vkw: reduce[{kk}] = kw, vk: reduce[16] = k):
                    reads I[vci, vh * {s} + vkh, vw * {s} + vkw, vk], W[vco, vci, vkh, vkw, vj, vk]
                    writes S[vco, vh, vw, vj]
                    init:
                      S[vco, vh, vw, vj] = 0i32
                    S[vco, vh, vw, vj] = S[vco, vh, vw, vj] + i32(I[vci, vh * {s} + vkh, vw * {s} + vkw, vk]) * i32(W[vco, vci, vkh, vkw, vj, vk])
  for co in {co}:
    for h in {h}:
      for w in {h}:
        for j in 16:
          block Q(vco: spatial[{co}] = co, vh: spatial[{h}] = h, vw: spatial[{h}] = w, vj: spatial[16] = j):
            reads S[vco, vh, vw, vj]
            writes Q[vco, vh, vw, vj]
            Q[vco, vh, vw, vj] = min(max(S[vco, vh, vw, vj] >> 8i32, -128i32), 127i32)
  for co in {co}:
    for h in {h}:
      for w in {h}:
        for j in 16:
          block O(vco: spatial[{co}] = co, vh: spatial[{h}] = h, vw: spatial[{h}] = w, vj: spatial[16] = j):
            reads Q[vco, vh, vw, vj]
            writes O[vco, vh, vw, vj]
            O[vco, vh, vw, vj] = i8(Q[vco, vh, vw, vj])
)",
      fmt::arg("ci", layer.in / 16), fmt::arg("co", layer.out / 16), fmt::arg("h", layer.out_size()),
      fmt::arg("hp", (layer.out_size() - 1) * layer.stride + layer.kernel), fmt::arg("kk", layer.kernel),
      fmt::arg("s", layer.stride));
  const Result<Func> func = parse_func(text);
  FETTLE_CHECK_MSG(func.has_value(), func ? "" : func.error().to_string());
  return *func;
}

Result<> schedule_dae_conv(Schedule& s, const DaeTiles& t, int64_t threads, bool bound) {
  FETTLE_TRY(const BlockRef sums, get_block(s, {"S"}));
  FETTLE_TRY(const BlockRef clip, get_block(s, {"Q"}));
  FETTLE_TRY(const BlockRef back, get_block(s, {"O"}));
  FETTLE_TRY_VOID(set_scope(s, {sums, 0, "acc"}));
  FETTLE_TRY_VOID(set_scope(s, {clip, 0, "acc"}));
  FETTLE_TRY(const auto l, get_loops(s, {sums}));  // co h w j ci kh kw k
  const int64_t in_rows = t.threads_in_rows ? threads : 1, in_out = t.threads_in_rows ? 1 : threads;
  FETTLE_TRY(const auto co, split(s, {l[0], {kInfer, in_out, t.out}}));
  FETTLE_TRY(const auto h, split(s, {l[1], {kInfer, in_rows, t.rows}}));
  FETTLE_TRY(const auto w, split(s, {l[2], {kInfer, t.columns}}));
  FETTLE_TRY(const auto ci, split(s, {l[4], {kInfer, t.in}}));
  const LoopRef thread = t.threads_in_rows ? h[1] : co[1];
  FETTLE_TRY_VOID(
      reorder(s, {{co[0], h[0], w[0], co[1], h[1], ci[0], co[2], h[2], w[1], ci[1], l[5], l[6], l[3], l[7]}}));
  const LoopRef tile = h[1];  // the inner one of the two: the other runs once
  FETTLE_TRY_VOID(reverse_compute_at(s, {clip, tile}));
  FETTLE_TRY_VOID(reverse_compute_at(s, {back, tile}));
  FETTLE_TRY(const BlockRef inp, cache_read(s, {sums, 0, "inp"}));
  FETTLE_TRY_VOID(compute_at(s, {inp, ci[0]}));
  FETTLE_TRY(const BlockRef wgt, cache_read(s, {sums, 1, "wgt"}));
  FETTLE_TRY_VOID(compute_at(s, {wgt, ci[0]}));
  FETTLE_TRY_VOID(decompose_reduction(s, {sums, ci[0]}));
  FETTLE_TRY_VOID(tensorize(s, {l[3], "dae_gemm_16x16"}));
  if (threads > 1 && bound) FETTLE_TRY_VOID(bind(s, {thread, "vthread"}));
  return {};
}

Result<dae::Program> compile_dae_conv(const DaeLayer& layer, const DaeTiles& tiles, int64_t threads, bool bound) {
  Schedule s(dae_conv(layer));
  const auto target = std::make_shared<const Target>(accelerator_target());
  s.set_target(target);
  FETTLE_TRY_VOID(schedule_dae_conv(s, tiles, threads, bound));
  return dae::compile(s.func(), *target);
}

}  // namespace fettle::bench
