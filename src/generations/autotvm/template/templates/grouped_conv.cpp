// A convolution in groups of channels: O[o, h, w] += I[o // 4 * 8 + c, h + r, w + q] * W[o, c, r, q], or with a loop
// over groups.

#include "generations/autotvm/template/template_def.h"
#include "generations/autotvm/template/tiling_knobs.h"
#include "generations/autotvm/template/workload_kind.h"
#include "ir/visit.h"
#include "schedule/primitives/get_block.h"
#include "schedule/primitives/get_loops.h"
#include "schedule/primitives/split.h"

namespace fettle {
namespace {

// The constant that the loop's quotient is by: channels of a group.
int64_t group_size(const ReductionKind& kind, size_t iter) {
  int64_t size = 0;
  for (const AccessPattern& load : kind.structure.loads)
    for (const Expr& index : load.indices)
      walk(index, [&](const Expr& e) {
        const auto* part = e.as<BinaryNode>();
        if (part && part->op == BinaryOp::kFloorDiv && part->a.get() == kind.structure.vars[iter].get() &&
            as_int(part->b))
          size = *as_int(part->b);
        return size == 0;
      });
  return size;
}

bool matches(const Func& workload) {
  const auto kind = reduction_kind(workload);
  return kind && kind->product && !kind->windows.empty() && !kind->channels.empty() && kind->phased.empty() &&
         (!kind->grouped.empty() || !kind->shared.empty());
}

Result<> body(TemplateContext& t) {
  Schedule& s = t.schedule();
  const auto kind = reduction_kind(s.func());
  if (!kind) return fail(ErrorCode::E230, "no reduction");
  inline_producers(s, kind->block);
  FETTLE_TRY(const BlockRef block, get_block(s, {.name = kind->block}));
  FETTLE_TRY(const std::vector<LoopRef> loops, get_loops(s, {.block = block}));
  for (size_t iter : kind->grouped)  // a loop over groups, and one over the channels of each
    FETTLE_TRY_VOID(
        split(s, {.loop = loops[iter], .factors = {kInfer, group_size(*kind, iter)}}).map([](const auto&) {}));
  return tile_with_knobs(t, kind->block, {.pack = false});
}

}  // namespace

extern constinit const TemplateDef grouped_conv_template{"grouped_conv", "a convolution in groups of channels", 10,
                                                         matches, body};

}  // namespace fettle
