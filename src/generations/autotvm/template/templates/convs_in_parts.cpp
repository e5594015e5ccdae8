// Convolutions of which a loop is two: each part is then one like any other.

#include "generations/autotvm/template/template_def.h"
#include "generations/autotvm/template/tiling_knobs.h"
#include "generations/autotvm/template/workload_kind.h"
#include "ir/visit.h"
#include "schedule/primitives.h"

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

// A loop over groups, and one over the channels of each.
std::vector<Phase> groups_of(const ReductionKind& kind) {
  std::vector<Phase> groups;
  for (const size_t iter : kind.grouped) groups.push_back({iter, group_size(kind, iter)});
  return groups;
}

// Each phase is a product of its own: pixels apart from where they lie within a window.
std::vector<Phase> pixels_of(const ReductionKind& kind) {
  std::vector<Phase> phases = phases_of(kind.structure);
  std::erase_if(phases, [&](const Phase& phase) { return kind.structure.store.strides[phase.loop] == 1; });
  return phases;
}

template <std::vector<Phase> (*parts_of)(const ReductionKind&)>
Result<> in_parts(TemplateContext& t) {
  Schedule& s = t.schedule();
  const auto kind = reduction_kind(s.func());
  if (!kind) return fail(ErrorCode::E230, "no reduction");
  inline_producers(s, kind->block);
  FETTLE_TRY(const BlockRef block, get_block(s, {.name = kind->block}));
  FETTLE_TRY(const std::vector<LoopRef> loops, get_loops(s, {.block = block}));
  for (const Phase& part : parts_of(*kind))
    FETTLE_TRY_VOID(split(s, {.loop = loops[part.loop], .factors = {kInfer, part.factor}}).map([](const auto&) {}));
  return tile_with_knobs(t, kind->block, {.pack = false});
}

}  // namespace

// O[o, h, w] += I[o // 4 * 8 + c, h + r, w + q] * W[o, c, r, q], or with a loop over groups.
extern constinit const TemplateDef grouped_conv_template{"grouped_conv", "a convolution in groups of channels", 10,
                                                         [](const Func& workload) {
                                                           const auto kind = reduction_kind(workload);
                                                           return kind && kind->product && !kind->windows.empty() &&
                                                                  !kind->channels.empty() && kind->phased.empty() &&
                                                                  (!kind->grouped.empty() || !kind->shared.empty());
                                                         },
                                                         in_parts<groups_of>};

// Windows lie side by side: O[h, w, c] += I[h // 2, w // 2, i] * W[i, c, h % 2, w % 2].
extern constinit const TemplateDef transposed_conv_template{
    "transposed_conv", "a transposed convolution whose windows lie side by side", 20,
    [](const Func& workload) {
      const auto kind = reduction_kind(workload);
      return kind && kind->product && !kind->phased.empty();
    },
    in_parts<pixels_of>};

}  // namespace fettle
