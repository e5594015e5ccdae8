#include "search/loop_template.h"

#include <algorithm>

#include "ir/visit.h"
#include "schedule/dataflow.h"
#include "schedule/primitives/compute_inline.h"
#include "schedule/primitives/get_block.h"
#include "schedule/primitives/get_loops.h"
#include "schedule/primitives/parallel.h"
#include "schedule/primitives/pragma.h"
#include "schedule/primitives/reorder.h"
#include "schedule/primitives/reverse_compute_at.h"
#include "schedule/primitives/split.h"
#include "schedule/primitives/vectorize.h"
#include "tune/sketch/conditions.h"
#include "tune/sketch/loop_annotation.h"
#include "tune/space/structure.h"

namespace fettle::bench {
namespace {

Result<> inline_all(Schedule& s) {
  for (bool again = true; again;) {
    again = false;
    const Func before = s.func();
    for (const BlockNode* block : blocks_of(before.root())) {
      if (block->writes.size() != 1 || is_param(before, block->writes[0].buffer.get())) continue;
      const bool pads = single_store(*block) && only_moves(single_store(*block)->value);
      if (!pads && !is_strict_inlinable(before, *block)) continue;
      FETTLE_TRY(const BlockRef ref, get_block(s, {.name = block->name}));
      if (compute_inline(s, {.block = ref})) {
        again = true;
        break;
      }
    }
  }
  return {};
}

// The block with most points; reductions first.
std::string main_block(const Func& func) {
  std::string name;
  double most = -1;
  for (const BlockNode* block : blocks_of(func.root())) {
    double points = block->init ? 1e12 : 1;
    for (const IterVar& iter : block->iters)
      if (const int64_t* extent = as_int(iter.extent)) points *= static_cast<double>(*extent);
    if (points <= most) continue;
    most = points;
    name = block->name;
  }
  return name;
}

// Lanes and threads for a nest without knobs.
Result<> plain_nest(Schedule& s, const std::string& name, int threads) {
  FETTLE_TRY(const BlockRef block, get_block(s, {.name = name}));
  FETTLE_TRY(const std::vector<LoopRef> inner, inner_spatial_loops(s, block));
  if (!inner.empty()) {
    FETTLE_TRY(const int64_t extent, extent_of_loops(s, {inner.back()}));
    LoopRef lanes = inner.back();
    if (extent > 64) {
      FETTLE_TRY(const auto parts, split(s, {.loop = lanes, .factors = {kInfer, 16}, .tail = Tail::kGuard}));
      lanes = parts[1];
    }
    (void)vectorize(s, {.loop = lanes});
  }
  FETTLE_TRY(const std::vector<LoopRef> outer, outer_spatial_loops(s, block));
  if (threads > 1 && !outer.empty()) (void)parallel(s, {.loop = outer.front()});
  return {};
}

Result<> body(TemplateContext& t, int threads) {
  Schedule& s = t.schedule();
  FETTLE_TRY_VOID(inline_all(s));
  const std::string name = main_block(s.func());
  FETTLE_TRY(const BlockRef block, get_block(s, {.name = name}));
  const Func before = s.func();
  const BlockNode* node = find_block(before->body, name);
  const BlockNode* consumer = fusible_consumer(before, *node);
  const std::string consumer_name = consumer ? consumer->name : "";
  FETTLE_TRY(const std::vector<LoopRef> loops, get_loops(s, {block}));
  std::vector<LoopRef> spatial_0, spatial_1, reduce_0, reduce_1;
  for (const LoopRef& loop : loops) {
    FETTLE_TRY(const Var var, s.loop_var(loop));
    const bool reduces = std::ranges::any_of(node->iters, [&](const IterVar& iter) {
      return iter.kind == IterKind::kReduce && uses_var(iter.binding, var.get());
    });
    FETTLE_TRY(const auto parts,
               t.define_split("tile_" + var->name, loop, {.n = 2, .max_factor = 64, .no_tail = true}));
    (reduces ? reduce_0 : spatial_0).push_back(parts[0]);
    (reduces ? reduce_1 : spatial_1).push_back(parts[1]);
  }
  std::vector<LoopRef> order = spatial_0;
  FETTLE_TRY(const int64_t rows_first, t.define_knob("order", {0, 1}));
  order.insert(order.end(), reduce_0.begin(), reduce_0.end());
  std::vector<LoopRef> rows(spatial_1.begin(), spatial_1.empty() ? spatial_1.end() : spatial_1.end() - 1);
  if (rows_first != 0) order.insert(order.end(), rows.begin(), rows.end());
  order.insert(order.end(), reduce_1.begin(), reduce_1.end());
  if (rows_first == 0) order.insert(order.end(), rows.begin(), rows.end());
  if (!spatial_1.empty()) order.push_back(spatial_1.back());
  if (order.size() > 1) FETTLE_TRY_VOID(reorder(s, {.loops = order}));
  if (!consumer_name.empty() && !spatial_0.empty()) {
    FETTLE_TRY(const BlockRef after, get_block(s, {.name = consumer_name}));
    FETTLE_TRY_VOID(reverse_compute_at(s, {.block = after, .loop = spatial_0.back()}));
    FETTLE_TRY(const auto inner, inner_spatial_loops(s, after));
    if (!inner.empty()) (void)vectorize(s, {.loop = inner.back()});
  }
  FETTLE_TRY(const int64_t vector, t.define_knob("vector", {0, 1}));
  if (vector != 0 && !spatial_1.empty()) FETTLE_TRY_VOID(vectorize(s, {.loop = spatial_1.back()}));
  std::vector<int64_t> counts{0};
  for (size_t n = 1; threads > 1 && n <= spatial_0.size(); ++n) counts.push_back(static_cast<int64_t>(n));
  FETTLE_TRY(const int64_t fused, t.define_knob("parallel", counts));
  LoopRef outermost = order.front();
  if (fused > 0) {
    FETTLE_TRY(outermost, fused_loop(s, {spatial_0.begin(), spatial_0.begin() + fused}));
    FETTLE_TRY_VOID(parallel(s, {.loop = outermost}));
  }
  FETTLE_TRY(const int64_t unroll, t.define_knob("unroll", {0, 16, 64, 512}));
  if (unroll > 0) FETTLE_TRY_VOID(pragma(s, {.loop = outermost, .name = "auto_unroll_max_step", .value = unroll}));
  for (const std::string& other : nest_blocks(s.func()))
    if (other != name && other != consumer_name) FETTLE_TRY_VOID(plain_nest(s, other, threads));
  return decompose_reductions(s);
}

}  // namespace

Template loop_template(int threads) {
  return {"loops", [threads](TemplateContext& t) { return body(t, threads); }};
}

}  // namespace fettle::bench
