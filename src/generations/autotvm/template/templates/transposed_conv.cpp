// A transposed convolution whose windows lie side by side: O[h, w, c] += I[h // 2, w // 2, i] * W[i, c, h % 2, w % 2].

#include "generations/autotvm/template/template_def.h"
#include "generations/autotvm/template/tiling_knobs.h"
#include "generations/autotvm/template/workload_kind.h"
#include "schedule/primitives/get_block.h"
#include "schedule/primitives/get_loops.h"
#include "schedule/primitives/split.h"

namespace fettle {
namespace {

bool matches(const Func& workload) {
  const auto kind = reduction_kind(workload);
  return kind && kind->product && !kind->phased.empty();
}

Result<> body(TemplateContext& t) {
  Schedule& s = t.schedule();
  const auto kind = reduction_kind(s.func());
  if (!kind) return fail(ErrorCode::E230, "no reduction");
  inline_producers(s, kind->block);
  FETTLE_TRY(const BlockRef block, get_block(s, {.name = kind->block}));
  FETTLE_TRY(const std::vector<LoopRef> loops, get_loops(s, {.block = block}));
  // Each phase is a product of its own: pixels apart from where they lie within a window.
  for (const Phase& phase : phases_of(kind->structure))
    if (kind->structure.store.strides[phase.loop] != 1)
      FETTLE_TRY_VOID(split(s, {.loop = loops[phase.loop], .factors = {kInfer, phase.factor}}).map([](const auto&) {}));
  return tile_with_knobs(t, kind->block, {.pack = false});
}

}  // namespace

extern constinit const TemplateDef transposed_conv_template{
    "transposed_conv", "a transposed convolution whose windows lie side by side", 20, matches, body};

}  // namespace fettle
