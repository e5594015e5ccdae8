#include "tune/parts/nest.h"

#include <algorithm>
#include <set>

#include "cost/predict/machine_costs.h"
#include "ir/visit.h"
#include "schedule/dataflow/dataflow.h"
#include "schedule/primitives.h"
#include "tune/parts/copies.h"
#include "tune/parts/loops.h"
#include "tune/parts/preferences.h"
#include "tune/parts/straight_runs.h"
#include "tune/parts/threads.h"
#include "tune/parts/transposing.h"

namespace fettle {
namespace {

/// Shorter loops are no vectors.
constexpr int64_t kFewestLanes = 4;

using Loops = std::vector<LoopRef>;

// One nest, as it is made.
struct Making {
  Schedule& s;
  const Target& target;
  Decider& decider;
  int threads = 1;
  Finished finished = {};

  int64_t lanes(DType dtype) const { return lanes_of(target, dtype); }
  Result<int64_t> pick(const char* name, const std::vector<int64_t>& candidates, size_t preferred = 0) const {
    return decider.pick(s, {name, candidates, preferred});
  }
  Result<> in_parallel(const Loops& outer, bool a_piece_each = false, double alone_ns = 0) const {
    return parallelize(s, outer, {.threads = threads, .a_piece_each = a_piece_each, .alone_ns = alone_ns});
  }
  // Where what takes so long is worth it: in a piece for each thread, where it takes little.
  Result<> share(const Loops& outer, double ns) const {
    FETTLE_TRY(const bool shared, worth_threads(s, decider, threads, ns));
    return shared ? in_parallel(outer, ns < preferences::kPieceEachNs, ns) : Result<>();
  }
};

// Tiles that are read row by row and written column by column.
Result<> in_transposed_tiles(Making& m, const BlockStructure& block, const TransposedTile& tile, const Loops& loops,
                             double ns) {
  FETTLE_TRY(const int64_t read_on, m.pick("read_on", {0, 1}));
  FETTLE_TRY(const Loops around, cut_into_transposed_tiles(m.s, block, tile, loops, read_on != 0));
  FETTLE_TRY(const bool shared, worth_threads(m.s, m.decider, m.threads, around.empty() ? 0 : ns));
  return shared ? m.in_parallel(around, false, ns) : Result<>();
}

// A reduction of several states at once (the greatest and where it is): lanes along its last spatial loop, each with
// states of its own, even if that means to gather.
//   for i in 300: for k: A[i], M[i] = …   →   for i_0: A, M begin; for k: for i_1 in 16 vectorized: A[…], M[…] = …
Result<> in_lanes_of_states(Making& m, BlockRef ref, const BlockNode& block, const Loops& loops) {
  Schedule& s = m.s;
  Loops order, reduce;
  for (const LoopRef& loop : loops) {
    FETTLE_TRY(const Var var, s.loop_var(loop));
    const auto owner = std::ranges::find(block.iters, var.get(), [](const IterVar& i) { return i.binding.get(); });
    if (owner == block.iters.end()) return fail(ErrorCode::E230, block.name + " has loops that are no iterators");
    (owner->kind == IterKind::kSpatial ? order : reduce).push_back(loop);
  }
  if (order.empty() || reduce.empty()) return fail(ErrorCode::E230, block.name + " has no loop for lanes");
  FETTLE_TRY(const Loops parts,
             split(s, {.loop = order.back(), .factors = {kInfer, m.lanes(kF32)}, .tail = Tail::kMask}));
  order.back() = parts[0];
  Loops all = order;
  all.insert(all.end(), reduce.begin(), reduce.end());
  all.push_back(parts[1]);
  FETTLE_TRY_VOID(reorder(s, {.loops = all}));
  FETTLE_TRY_VOID(vectorize(s, {.loop = parts[1]}));
  FETTLE_TRY_VOID(decompose_reduction(s, {.block = ref, .loop = reduce.front()}).map([](BlockRef) {}));
  m.finished.push_back(block.name + "_init");
  return m.in_parallel(order);
}

// The one store of a block, under names and conditions of its own.
const StoreNode* guarded_store(const BlockNode& block) {
  for (const Stmt* s = &block.body;;) {
    if (const auto* n = s->as<LetNode>())
      s = &n->body;
    else if (const auto* n = s->as<IfNode>(); n && !n->else_body)
      s = &n->then_body;
    else
      return s->as<StoreNode>();
  }
}

// Where memory decides what is read or written (rows that are gathered, or scattered): lanes along what is written, if
// its last loop is that.
Result<> in_lanes_of_last(Making& m, const BlockNode& block, const Loops& loops) {
  const StoreNode* store = guarded_store(block);
  if (!store || block.init || loops.size() < 2) return fail(ErrorCode::E230, block.name + " has no loop for lanes");
  Schedule& s = m.s;
  const int64_t lanes = m.lanes(store->buffer->dtype);
  FETTLE_TRY(const auto parts, split(s, {.loop = loops.back(), .factors = {kInfer, lanes}, .tail = Tail::kMask}));
  FETTLE_TRY_VOID(vectorize(s, {.loop = parts[1]}));
  return m.in_parallel({loops.front()});
}

// Whole vectors alone, of a loop of constant extent that is no shorter: the last overlaps.
Result<Loops> cut_into_whole(Schedule& s, LoopRef loop, int64_t extent, int64_t width) {
  const Tail tail = extent % width == 0 ? Tail::kExact : Tail::kShift;
  return split(s, {.loop = loop, .factors = {kInfer, width}, .tail = tail});
}

// Whole vectors suit it better than masks: lanes that do not lie side by side are read together only where it is known
// which of them count, and nothing is lost where no load could lie where the store does (what is computed twice cannot
// be written over what it reads).
bool suits_whole_vectors(const BlockStructure& block, size_t vector) {
  const auto apart = [&](const AccessPattern& load) { return load.strides[vector] != 0 && load.strides[vector] != 1; };
  const auto alike = [&](const AccessPattern& load) { return load.strides == block.store.strides; };
  return std::ranges::any_of(block.loads, apart) || std::ranges::none_of(block.loads, alike);
}

/// Of more vectors at once too much of a few registers' worth is shuffled.
constexpr int64_t kLongestPeriod = 8;

// Lanes of one step along a loop that is read as quotient or remainder of a constant: as many periods as are whole
// vectors, so that all steps read alike. Others: as many as a vector has.
//   A[w // 3]: 48 lanes that read 16 elements, each thrice
int64_t lanes_of_step(const BlockStructure& block, size_t vector, const Extent& extent, int64_t lanes) {
  for (const Phase& phase : phases_of(block)) {
    if (phase.loop != vector || lanes % phase.factor == 0 || phase.factor > kLongestPeriod) continue;
    while (lanes > 1 && lanes * phase.factor > extent.value) lanes /= 2;
    return lanes * phase.factor;
  }
  while (extent.constant && lanes / 2 >= extent.value) lanes /= 2;
  return lanes;
}

// The last loop is shorter than a vector, and what is written goes on with the loop around it.
bool writes_on(const BlockStructure& block, int64_t lanes) {
  const size_t n = block.n_iters();
  if (n < 2 || block.reduce[n - 1] || block.reduce[n - 2] || block.store.strides[n - 1] != 1) return false;
  const int64_t few = block.extents[n - 1];
  if (block.open[n - 1] || block.open[n - 2]) return false;
  if (few < 2 || few >= kFewestLanes || block.store.strides[n - 2] != few || block.extents[n - 2] < lanes) return false;
  return std::ranges::all_of(block.loads, [&](const AccessPattern& load) {
    return load.strides[n - 2] != AccessPattern::kIrregular && load.strides[n - 1] != AccessPattern::kIrregular;
  });
}

// Lanes along both loops, as many vectors as the shorter has iterations.
//   for w in 224: for c in 3: O[w, c] = A[c, w]
//   →  for w_0 in 14: for l in 48 (lanes): O[w_0*16 + l // 3, l % 3] = A[l % 3, w_0*16 + l // 3]
Result<> in_lanes_of_two_loops(Making& m, const BlockStructure& block, Loops loops, double ns) {
  Schedule& s = m.s;
  const size_t n = block.n_iters();
  const int64_t lanes = m.lanes(block.store.buffer->dtype);
  const LoopRef few = loops[n - 1];
  loops.pop_back();
  FETTLE_TRY(const auto parts, cut_into_whole(s, loops.back(), block.extents[n - 2], lanes));
  loops.back() = parts[0];
  FETTLE_TRY(const LoopRef both, fuse(s, {.loops = {parts[1], few}}));
  FETTLE_TRY_VOID(vectorize(s, {.loop = both}));
  return m.share(loops, ns);
}

// What bends is cut where it does: lanes along each part that fills a vector.
//   for w in 62: O[w] = A[min(|w - 3|, 110 - |w - 3|)]
//   →  for w_0 in 4: …; for w_1 in 55 (lanes): O[w_1 + 4] = A[w_1 + 1]; for w_2 in 3: …
Result<> in_straight_runs(Making& m, const BlockStructure& block, const std::vector<int64_t>& runs, const Loops& loops,
                          double ns) {
  Schedule& s = m.s;
  const int64_t lanes = m.lanes(block.store.buffer->dtype);
  std::set<std::string> known;
  for (const BlockNode* other : blocks_of(s.func().root())) known.insert(other->name);
  const std::vector<IntRef> sizes(runs.begin(), runs.end());
  FETTLE_TRY(const Loops parts, loop_partition(s, {.loop = loops.back(), .sizes = sizes}));
  for (const BlockNode* part : blocks_of(s.func().root()))
    if (!known.contains(part->name)) m.finished.push_back(part->name);
  for (size_t k = 0; k < parts.size(); ++k) {
    if (runs[k] < kFewestLanes) continue;
    // Beyond its end a run bends.
    int64_t width = lanes;
    while (width > runs[k]) width /= 2;
    LoopRef lane = parts[k];
    if (runs[k] != width) {
      FETTLE_TRY(const auto cut, cut_into_whole(s, lane, runs[k], width));
      lane = cut.back();
    }
    FETTLE_TRY_VOID(vectorize(s, {.loop = lane}));
  }
  return m.share({loops.begin(), loops.end() - 1}, loops.size() > 1 ? ns : 0);
}

// Steps, innermost, that write over states element by element.
bool writes_over_states(const BlockNode& block, const Var& innermost) {
  const auto is_steps = [&](const IterVar& iter) { return iter.binding.get() == innermost.get(); };
  for (const IterVar& iter : block.iters)
    if (iter.kind != (is_steps(iter) ? IterKind::kScan : IterKind::kSpatial)) return false;
  const auto is_own = [&](const Range& range) {
    return is_one(range.extent) && (range.min.kind() == ExprKind::kVar || as_int(range.min));
  };
  return std::ranges::any_of(block.iters, is_steps) && std::ranges::any_of(block.writes, [&](const Region& write) {
           return read_region(block, write.buffer.get()) && std::ranges::all_of(write.ranges, is_own);
         });
}

// How long all steps take one thread, ns: in vectors, of what is in the caches.
double steps_ns(const Making& m, const BlockNode& block, int64_t lanes) {
  const IntEnv typical = typical_values(m.s.func());
  double points = 1, operations = 0;
  for (const IterVar& iter : block.iters) points *= static_cast<double>(extent_of(iter.extent, typical).value);
  walk(
      block.body, [](const Stmt&) { return true; },
      [&](const Expr& e) {
        operations += e.kind() == ExprKind::kBinary || e.kind() == ExprKind::kSelect ? 1 : 0;
        return true;
      });
  const double vectors = points / static_cast<double>(lanes);
  return rough_ns(
      {.multiply_adds = vectors * operations, .function_calls = vectors * static_cast<double>(calls_of(block))},
      describe_costs(m.target));
}

// Lanes are elements, and a few vectors of them go through all steps together: their states stay in registers, and no
// vector waits for its step before.
//   for i in 64: for t: S[i] = f(S[i], X[t, i])
//   →  for i_0: for t: for i_1 in 4 (unrolled): for i_2 in 16 (vectorized): S[…] = f(S[…], X[t, …])
Result<> in_lanes_of_steps(Making& m, BlockRef ref, const BlockNode& block, Loops loops) {
  Schedule& s = m.s;
  int64_t lanes = 1;
  for (const Region& write : block.writes)
    lanes = std::max(lanes, std::min(m.lanes(write.buffer->dtype), m.lanes(kF32)));
  const double ns = steps_ns(m, block, lanes);
  const LoopRef steps = loops.back();
  loops.pop_back();
  if (loops.empty()) return {};  // one element
  FETTLE_TRY(const Extent extent, extent_of_loop(s, loops.back()));
  if (extent.value < kFewestLanes) return m.share(loops, ns);
  if (extent.constant) lanes = std::min(lanes, extent.value);
  std::vector<int64_t> candidates;
  for (const int64_t vectors : {4, 8, 2, 1})
    if (vectors == 1 || vectors * lanes <= extent.value) candidates.push_back(vectors);
  FETTLE_TRY(const int64_t vectors, m.pick("vectors", candidates));
  const bool divides = extent.constant && extent.value % (vectors * lanes) == 0;
  const Tail tail = divides ? Tail::kExact : Tail::kPartition;
  FETTLE_TRY(const Loops parts, split(s, {.loop = loops.back(), .factors = {kInfer, vectors, lanes}, .tail = tail}));
  loops.back() = parts[0];
  Loops order = loops;
  order.insert(order.end(), {steps, parts[1], parts[2]});
  FETTLE_TRY_VOID(reorder(s, {.loops = order}));
  for (size_t k = 0; k < block.writes.size(); ++k) {
    if (!read_region(block, block.writes[k].buffer.get())) continue;  // rows
    const auto copies = cache_inplace(s, {.block = ref, .write_index = static_cast<int64_t>(k), .loop = parts[0]});
    FETTLE_TRY(const std::vector<BlockRef> both, copies);
    for (const BlockRef& copy : both) {
      FETTLE_TRY(const BlockNode* node, block_node(s, copy));
      m.finished.push_back(node->name);
      FETTLE_TRY_VOID(vectorize_copy(s, copy, loops.size(), lanes));
    }
  }
  FETTLE_TRY_VOID(unroll(s, {.loop = parts[1]}));
  FETTLE_TRY_VOID(vectorize(s, {.loop = parts[2]}));
  return m.share(loops, ns);
}

Result<> without_structure(Making& m, BlockRef ref, const BlockNode& block, const Loops& loops) {
  const Schedule start = m.s;
  const Finished finished = m.finished;
  FETTLE_TRY(const Var innermost, m.s.loop_var(loops.back()));
  if (writes_over_states(block, innermost)) {
    if (in_lanes_of_steps(m, ref, block, loops)) return {};
    m.s = start;
    m.finished = finished;
  }
  const bool has_states = block.init && !single_store(block);
  if (has_states ? in_lanes_of_states(m, ref, block, loops) : in_lanes_of_last(m, block, loops)) return {};
  m.s = start;
  m.finished = finished;
  return m.in_parallel({loops.front()});
}

Result<> make(Making& m, BlockRef block) {
  Schedule& s = m.s;
  FETTLE_TRY(const BlockNode* node, block_node(s, block));
  const Func func = s.func();
  m.finished.push_back(node->name);
  FETTLE_TRY(Loops loops, get_loops(s, {.block = block}));
  if (loops.empty()) return {};
  const auto structure = block_structure(func, *node, Extents::kOpen);
  if (!structure) return without_structure(m, block, *node, loops);

  const DType dtype = structure->store.buffer->dtype;
  const int64_t lanes = m.lanes(dtype);
  const double ns = alone_ns(m.target, *structure, calls_of(*node));
  // Spatial loops: the one that walks through what is written goes innermost.
  size_t vector = structure->n_iters();
  for (size_t i = 0; i < structure->n_iters(); ++i)
    if (!structure->reduce[i] && structure->store.strides[i] == 1 && structure->extents[i] > 1) vector = i;

  if (const auto tile = transposed_tile(*structure, lanes)) {
    Schedule before = s;
    if (in_transposed_tiles(m, *structure, *tile, loops, ns)) return {};
    s = std::move(before);
  }

  const size_t tail = contiguous_tail(*structure);
  if (tail == 1 && writes_on(*structure, lanes)) {
    Schedule before = s;
    if (in_lanes_of_two_loops(m, *structure, loops, ns)) return {};
    s = std::move(before);
  }
  if (vector + 1 == structure->n_iters() && !structure->open[vector]) {
    const std::vector<int64_t> runs = straight_runs(*structure, vector);
    if (!runs.empty() && std::ranges::max(runs) >= kFewestLanes) {
      FETTLE_TRY(const int64_t cut, m.pick("straight_runs", {0, 1}, 1));
      Schedule before = s;
      if (cut != 0 && in_straight_runs(m, *structure, runs, loops, ns)) return {};
      s = std::move(before);
    }
  }

  LoopRef inner;
  Extent extent = {.value = 0};
  Loops outer(loops);
  if (vector + 1 == structure->n_iters() && tail > 1 && structure->extents[vector] < 8 * lanes) {
    Schedule trial = s;
    const Loops group(loops.end() - static_cast<std::ptrdiff_t>(tail), loops.end());
    if (auto fused = fuse(trial, {.loops = group})) {
      s = std::move(trial);
      outer.resize(outer.size() - tail);
      inner = *fused;
      FETTLE_TRY(extent, extent_of_loop(s, inner));
    }
  }
  if (extent.value == 0 && vector < structure->n_iters()) {
    inner = loops[vector];
    extent = {.value = structure->extents[vector], .constant = !structure->open[vector]};
    outer.erase(outer.begin() + static_cast<std::ptrdiff_t>(vector));
  }
  if (extent.value >= kFewestLanes) {
    FETTLE_TRY(const int64_t vectors, m.pick("vectors", {1, 2, 4}));
    const int64_t width = lanes_of_step(*structure, vector, extent, lanes);
    // A long loop without others gets one to be dealt out to threads.
    Loops order;
    LoopRef lane = inner, unrolled;
    bool has_unrolled = false;
    if (!extent.constant || extent.value > width) {
      const bool several = vectors > 1 && extent.value >= 2 * vectors * width;
      SplitArgs args{.loop = inner, .factors = {kInfer, width}, .tail = several ? Tail::kPartition : Tail::kMask};
      if (several) args.factors = {kInfer, vectors, width};
      auto cut = vector < structure->n_iters() && !several && extent.constant && suits_whole_vectors(*structure, vector)
                     ? cut_into_whole(s, inner, extent.value, width)
                     : split(s, args);
      FETTLE_TRY(const Loops parts, cut ? std::move(cut) : split(s, args));
      outer.push_back(parts[0]);
      lane = parts.back();
      if (several) {
        unrolled = parts[1];
        has_unrolled = true;
      }
    }
    order = outer;
    if (has_unrolled) order.push_back(unrolled);
    order.push_back(lane);
    if (order.size() > 1) {
      Schedule trial = s;
      if (reorder(trial, {.loops = order})) s = std::move(trial);
    }
    Schedule trial = s;
    if (vectorize(trial, {.loop = lane})) s = trial;
    if (has_unrolled && unroll(trial, {.loop = unrolled})) s = std::move(trial);
  }
  return m.share(outer, ns);
}

}  // namespace

Result<Finished> loop_nest(Schedule& s, const Target& target, Decider& decider, BlockRef block,
                           const NestOptions& options) {
  Making making{.s = s, .target = target, .decider = decider, .threads = options.threads};
  FETTLE_TRY_VOID(make(making, block));
  return std::move(making.finished);
}

}  // namespace fettle
