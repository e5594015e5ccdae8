// A convolution as a matrix product: its windows become rows of a matrix (reformulate im2col).

#include <algorithm>

#include "generations/autotvm/template/template_def.h"
#include "generations/autotvm/template/tiling_knobs.h"
#include "generations/autotvm/template/workload_kind.h"
#include "schedule/dataflow/dataflow.h"
#include "schedule/primitives.h"

namespace fettle {
namespace {

// The number of the block's read whose index mixes the output and the reduction, and is under no condition; or -1.
int64_t image_of(const Func& func, const ReductionKind& kind) {
  for (const AccessPattern& load : kind.structure.loads) {
    const bool windows =
        std::ranges::all_of(kind.windows, [&](size_t w) { return load.touches(w); }) &&
        std::ranges::any_of(kind.windows, [&](size_t w) {
          for (size_t i = 0; i < kind.structure.n_iters(); ++i)
            if (!kind.structure.reduce[i] && load.shares_dimension(kind.structure.vars[w], kind.structure.vars[i]))
              return true;
          return false;
        });
    if (!windows || load.guarded) continue;
    for (const BlockNode* block : blocks_of(func.root()))
      if (block->name == kind.block)
        for (size_t r = 0; r < block->reads.size(); ++r)
          if (block->reads[r].buffer == load.buffer) return static_cast<int64_t>(r);
  }
  return -1;
}

bool matches(const Func& workload) {
  const auto kind = reduction_kind(workload);
  return kind && kind->product && kind->windows.size() == 2 && !kind->channels.empty() && kind->shared.empty() &&
         kind->grouped.empty() && kind->phased.empty() && image_of(workload, *kind) >= 0;
}

Result<> body(TemplateContext& t) {
  Schedule& s = t.schedule();
  const auto kind = reduction_kind(s.func());
  const int64_t image = kind ? image_of(s.func(), *kind) : -1;
  if (image < 0) return fail(ErrorCode::E230, "no convolution");
  FETTLE_TRY(const BlockRef block, get_block(s, {.name = kind->block}));
  FETTLE_TRY(const std::vector<BlockRef> parts, reformulate(s, {.block = block, .kind = "im2col", .numbers = {image}}));
  FETTLE_TRY(const Stmt columns, s.block(parts[0]));
  const std::string matrix = columns.as<BlockNode>()->name;
  inline_producers(s, matrix);  // the padding becomes part of the copy
  FETTLE_TRY_VOID(nest_with_knobs(t, matrix));
  return tile_with_knobs(t, kind->block, {.pack = false, .unroll_windows = false});
}

}  // namespace

extern constinit const TemplateDef conv2d_im2col_template{"conv2d_im2col", "a convolution as a product of matrices", 5,
                                                          matches, body};

}  // namespace fettle
