#include "tune/template/templates/conv2d_winograd.h"

#include <algorithm>

#include "schedule/primitives/get_block.h"
#include "schedule/primitives/reformulate.h"
#include "tune/template/tiling_knobs.h"
#include "tune/template/workload_kind.h"

namespace fettle {
namespace {

Result<std::vector<BlockRef>> transformed(Schedule& s, const ReductionKind& kind) {
  int64_t smallest = INT64_MAX;
  for (size_t w : kind.windows)
    for (size_t i = 0; i < kind.structure.n_iters(); ++i)
      for (const AccessPattern& load : kind.structure.loads)
        if (!kind.structure.reduce[i] && load.shares_dimension(kind.structure.vars[w], kind.structure.vars[i]))
          smallest = std::min(smallest, kind.structure.extents[i]);
  FETTLE_TRY(const BlockRef block, get_block(s, {.name = kind.block}));
  return reformulate(s, {.block = block, .kind = "winograd", .numbers = {smallest >= 8 ? 4 : 2}});
}

bool matches(const Func& workload) {
  const auto kind = reduction_kind(workload);
  if (!kind || !kind->product || kind->windows.size() != 2 || kind->channels.empty() || !kind->shared.empty() ||
      !kind->grouped.empty() || !kind->phased.empty() || kind->structure.extents[kind->windows[0]] < 2)
    return false;
  Schedule trial(workload);
  return transformed(trial, *kind).has_value();
}

Result<> body(TemplateContext& t) {
  Schedule& s = t.schedule();
  const auto kind = reduction_kind(s.func());
  if (!kind) return fail(ErrorCode::E230, "no convolution");
  FETTLE_TRY(const std::vector<BlockRef> parts, transformed(s, *kind));
  if (parts.size() != 6) return fail(ErrorCode::E230, "the reformulation has other parts");
  std::vector<std::string> names;
  for (const BlockRef& part : parts) {
    FETTLE_TRY(const Stmt stmt, s.block(part));
    names.push_back(stmt.as<BlockNode>()->name);
  }
  FETTLE_TRY_VOID(inline_producers(s, names[1]));
  FETTLE_TRY_VOID(tile_with_knobs(t, names[3], {.pack = false}));  // the products, one for each point
  return nests_of_others(t, {names[0], names[3], names[3] + "_init"});
}

}  // namespace

constinit const TemplateDef conv2d_winograd_template{"conv2d_winograd", "a 3x3 convolution by minimal filtering", 4,
                                                     matches, body};

}  // namespace fettle
