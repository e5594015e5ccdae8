// A convolution of stride 1 by Winograd (reformulate winograd), in tiles of 4 x 4 outputs, or of 2
// x 2 where there are fewer than 8 rows or columns.

#include <algorithm>
#include <set>

#include "generations/autotvm/template/template_def.h"
#include "generations/autotvm/template/tiling_knobs.h"
#include "generations/autotvm/template/workload_kind.h"
#include "schedule/dataflow/dataflow.h"
#include "schedule/primitives.h"
#include "target/caches.h"
#include "tune/parts/auto_inline.h"
#include "tune/parts/winograd.h"

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

// Any layout, few channels or weights that are no constants: each part is a nest by itself.
Result<> part_by_part(TemplateContext& t, const ReductionKind& kind) {
  Schedule& s = t.schedule();
  FETTLE_TRY(const std::vector<BlockRef> parts, transformed(s, kind));
  if (parts.size() != 6) return fail(ErrorCode::E230, "the reformulation has other parts");
  std::vector<std::string> names;
  for (const BlockRef& part : parts) {
    FETTLE_TRY(const Stmt stmt, s.block(part));
    names.push_back(stmt.as<BlockNode>()->name);
  }
  inline_producers(s, names[1]);
  FETTLE_TRY_VOID(tile_with_knobs(t, names[3], {.pack = false}));  // the products, one for each point
  return nests_of_others(t, {names[0], names[3], names[3] + "_init"});
}

// Tiles of outputs along one dimension.
int64_t tiles_of(int64_t extent, int64_t outputs) { return (extent + outputs - 1) / outputs; }

// What the knobs are, and which of them go together.
struct Choices {
  int64_t height = 0, width = 0;           // of the output
  int64_t channels = 1;                    // in times out
  std::vector<int64_t> strips, tile_rows;  // rows of tiles; tiles in the product's register tile

  static Choices of(int64_t height, int64_t width);
  void constrain(TemplateContext& t) const;
  // Those of F(4x4), beyond the second-level cache.
  bool weights_are_far(const Schedule& s) const { return 36 * 4 * channels > cache_bytes(*target_or_usual(s), 1); }
};

Choices Choices::of(int64_t height, int64_t width) {
  Choices found{.height = height, .width = width};
  std::set<int64_t> strips = {0};
  for (const int64_t m : kWinogradOutputs)
    for (int64_t strip = 1; strip < tiles_of(height, m); ++strip)
      if (tiles_of(height, m) % strip == 0) strips.insert(strip);
  found.strips.assign(strips.begin(), strips.end());
  constexpr int64_t kMostRows = 16, m = kWinogradOutputs[0];
  for (int64_t rows = 1; rows <= std::min(kMostRows, tiles_of(height, m) * tiles_of(width, m)); ++rows)
    found.tile_rows.push_back(rows);
  return found;
}

void Choices::constrain(TemplateContext& t) const {
  const int64_t h = height, w = width;
  t.constrain("strips have as many rows of tiles each", [h](const ConfigView& v) {
    const int64_t rows = tiles_of(h, v["outputs"][0]), strip = v["strip"][0];
    return strip == 0 || (strip < rows && rows % strip == 0);
  });
  t.constrain("register tiles are as low as their number allows", [h, w](const ConfigView& v) {
    const int64_t m = v["outputs"][0], rows = v["rows"][0];
    const int64_t tiles = tiles_of(w, m) * (v["strip"][0] == 0 ? tiles_of(h, m) : 1);
    return rows <= tiles && tiles_of(tiles, tiles_of(tiles, rows)) == rows;
  });
}

// Strips of tiles go through all parts one after the other, so that what lies between them stays in the second-level
// cache; or each part through the whole image.
Result<> in_strips(TemplateContext& t, const std::string& convolution, const Choices& choices) {
  Schedule& s = t.schedule();
  FETTLE_TRY(const int64_t outputs, t.define_knob("outputs", {4, 2}));
  FETTLE_TRY(const int64_t strip, t.define_knob("strip", choices.strips));
  FETTLE_TRY(const int64_t threads, t.define_knob("parallel", {1, 0}));
  const std::shared_ptr<const Target> target = target_or_usual(s);
  SamplingDecider decider;
  FETTLE_TRY(const WinogradParts parts, replace_by_winograd(s, convolution, outputs));
  FETTLE_TRY_VOID(auto_inline(s, *target, decider));
  FETTLE_TRY(const PlacedTransforms placed,
             place_transforms(s, *target, parts, strip > 0 ? std::optional<IntRef>(strip) : std::nullopt));
  s.set_address_prefix("");
  FETTLE_TRY_VOID(tile_with_knobs(t, parts.product,
                                  {.most_parallel = 0,
                                   .prefetch = choices.weights_are_far(s),
                                   .rows = choices.tile_rows,
                                   .shared = placed.around.size()}));
  choices.constrain(t);
  if (!threads) return {};
  if (strip > 0) return parallel_together(s, placed.around, static_cast<int>(placed.around.size()));
  FETTLE_TRY(const BlockRef product, get_block(s, {.name = parts.product}));
  FETTLE_TRY(const std::vector<LoopRef> points, get_loops(s, {.block = product}));
  for (const std::vector<LoopRef>& loops : {placed.inputs, points, placed.outputs})
    FETTLE_TRY_VOID(parallel_together(s, loops, 2));
  return {};
}

Result<> body(TemplateContext& t) {
  const Func func = t.schedule().func();
  const auto kind = reduction_kind(func);
  if (!kind) return fail(ErrorCode::E230, "no convolution");
  const auto convolution = winograd_convolution(func);
  if (!convolution) return part_by_part(t, *kind);
  Schedule trial(func);
  FETTLE_TRY(const WinogradParts tried, replace_by_winograd(trial, *convolution, kWinogradOutputs[0]));
  const std::vector<Expr>& shape = kind->structure.store.buffer->shape;
  const int64_t *height = as_int(shape[tried.height]), *width = as_int(shape[tried.width]);
  if (!height || !width) return fail(ErrorCode::E230, "an image of no constant size");
  Choices choices = Choices::of(*height, *width);
  const int64_t* out = as_int(shape.back());
  choices.channels = out ? *out : 1;
  for (const size_t channel : kind->channels) choices.channels *= kind->structure.extents[channel];
  return in_strips(t, *convolution, choices);
}

}  // namespace

extern constinit const TemplateDef conv2d_winograd_template{"conv2d_winograd", "a 3x3 convolution by Winograd", 4,
                                                            matches, body};

}  // namespace fettle
