#include "generations/ansor/sketch/sketch_space.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include <fmt/format.h>

#include "analysis/verify.h"
#include "generations/ansor/sketch/conditions.h"
#include "generations/ansor/sketch/layout_rewrite.h"
#include "generations/ansor/sketch/loop_annotation.h"
#include "generations/ansor/sketch/register_sums.h"
#include "generations/ansor/sketch/row_lanes.h"
#include "generations/ansor/sketch/scheduled.h"
#include "generations/ansor/sketch/thread_binding.h"
#include "generations/ansor/sketch/unrolled_size.h"
#include "ir/compare.h"
#include "ir/visit.h"
#include "schedule/dataflow/dataflow.h"
#include "schedule/primitives.h"
#include "tune/parts/decider.h"

namespace fettle {
namespace {

using Places = std::vector<int64_t>;
using PlaceWeights = std::map<int64_t, double>;

/// A sketch with all its blocks' places: what is left open are sizes and annotations.
struct Structure {
  size_t sketch = 0;
  Places places;      // one for each movable block, in order
  double points = 0;  // how many there are; a share, where there are several computations
};

struct Derived {
  Func workload;
  int threads = 1;
  bool bound = false;      // to the threads of a GPU
  bool by_number = false;  // how sizes are drawn that are tried
  std::vector<Sketch> sketches;
  std::vector<Structure> structures;
};

Result<int64_t> choose(Schedule& s, const std::string& name, const std::vector<int64_t>& candidates,
                       std::vector<double> weights = {}) {
  return sampling_decider().pick(s, {name, candidates, 0, std::move(weights)});
}

std::vector<int64_t> from_to(int64_t first, size_t last) {
  std::vector<int64_t> result;
  for (int64_t i = first; i <= static_cast<int64_t>(last); ++i) result.push_back(i);
  return result;
}

/// How many choices a sampling step had.
double choices_of(const Step& step) {
  if (step.def == &sample_categorical_def) {
    const auto& args = *static_cast<const SampleCategoricalArgs*>(step.args.get());
    return static_cast<double>(std::ranges::count_if(args.probabilities, [](double p) { return p > 0; }));
  }
  if (step.def == &sample_perfect_tile_def) {
    const auto& args = *static_cast<const SamplePerfectTileArgs*>(step.args.get());
    int64_t extent = 1;
    for (const int64_t factor : step.decision.list()) extent *= factor;
    return perfect_tile_count(extent, args.n, args.max_innermost);
  }
  return 1;
}

/// Pads what a tiled block reads, or is its consumer: what it takes is little beside the tiles, and how many lanes it
/// has and whether it is unrolled would make most points of a space, all but alike. Both are given.
bool is_beside_tiles(const Func& func, const BlockNode& block) {
  if (block.init || block.writes.size() != 1 || !single_store(block)) return false;
  const auto is_tiled = [&](const BlockNode* other) { return other->init && has_data_reuse(func, *other); };
  if (is_padding(block)) return std::ranges::any_of(consumers_of(func.root(), block.writes[0].buffer.get()), is_tiled);
  return std::ranges::any_of(blocks_of(func.root()), [&](const BlockNode* other) {
    return is_tiled(other) && fusible_consumer(func, *other) == &block;
  });
}

/// The largest divisor of `extent`, at most `most`, that fills vectors of that many lanes; the largest where none does.
int64_t widest_part(int64_t extent, int64_t lanes, int64_t most) {
  int64_t widest = 1;
  for (int64_t d = 1; d <= std::min(extent, most); ++d)
    if (extent % d == 0 && (d % lanes == 0 || widest % lanes != 0)) widest = d;
  return widest;
}

constexpr const char* kSketchAddress = "sketch_space/sketch";

class SketchSpace : public Space {
 public:
  explicit SketchSpace(SketchSpaceOptions options) : options_(std::move(options)) {}
  std::string name() const override { return "sketches"; }
  std::unique_ptr<Space> clone() const override { return std::make_unique<SketchSpace>(options_); }
  std::optional<uint64_t> seed_of_first_drawing(uint64_t seed) const override {
    return source_of_attempt(seed, 0).seed();
  }

  Result<Schedule> generate(const Func& workload, std::shared_ptr<const Target> target, int threads,
                            DecisionSource source, std::shared_ptr<const DecisionMap> decisions) const override {
    FETTLE_TRY(const Derived* derived, derive(workload, target, threads, source));
    // What is not legal is drawn anew, as far as it was drawn.
    const int attempts = decisions && !decisions->empty() ? 3 : 100;
    constexpr int kSameSketch = 20;  // attempts; where that is too few, it may have no program at all
    const std::shared_ptr<const DecisionMap> asked = decisions;
    for (int attempt = 0;; ++attempt) {
      Schedule s(derived->workload, source_of_attempt(source, attempt), decisions);
      s.set_target(target);
      Result<> done = complete(s, *derived, target);
      if (done) return s;
      if (attempt + 1 == attempts || !is_drawn(s, done.error())) return tl::unexpected(std::move(done).error());
      // A sketch many of whose programs are refused is as likely as any other, where sketches are.
      if (options_.equally_likely != EquallyLikely::kChoices) continue;
      const DecisionMap drawn = s.decisions();
      const auto sketch = drawn.find(kSketchAddress);
      auto kept = asked ? std::make_shared<DecisionMap>(*asked) : std::make_shared<DecisionMap>();
      if (attempt < kSameSketch && sketch != drawn.end()) kept->insert(*sketch);
      decisions = std::move(kept);
    }
  }

 private:
  static DecisionSource source_of_attempt(DecisionSource source, int attempt) {
    return source.another(static_cast<uint64_t>(attempt));
  }

  /// Whether another seed may lead elsewhere than to this refusal: unless all decisions before it were known ones.
  static bool is_drawn(const Schedule& s, const Diagnostic& refusal) {
    const auto* refused = dynamic_cast<const RefusedStep*>(refusal.program.get());
    if (refused ? refused->def->samples : refusal.where.starts_with("step ")) return true;
    const Trace& steps = refused ? refused->before : s.trace();  // a sketch's are replayed on a copy
    return std::ranges::any_of(steps.steps, [&](const auto& step) {
      if (!step->def->samples) return false;
      const Decision* known = s.remembered(step->address);
      return !known || *known != step->decision;
    });
  }

  /// The steps of a point.
  Result<> complete(Schedule& s, const Derived& derived, const std::shared_ptr<const Target>& target) const {
    if (!derived.bound) FETTLE_TRY_VOID(split_rows_into_lanes(s));
    std::vector<int64_t> numbers;
    std::vector<double> weights(derived.sketches.size(), 0.0);
    for (size_t i = 0; i < weights.size(); ++i) numbers.push_back(static_cast<int64_t>(i));
    for (const Structure& structure : derived.structures) weights[structure.sketch] += structure.points;
    s.set_address_prefix("sketch_space");  // kSketchAddress
    FETTLE_TRY(const int64_t sketch, choose(s, "sketch", numbers, weights));
    FETTLE_TRY_VOID(cut(s, derived.sketches[static_cast<size_t>(sketch)], derived.bound));
    if (!derived.bound) FETTLE_TRY_VOID(has_lanes(s.func()));
    Places places;
    std::set<std::string> placed;
    while (const auto movable = next_movable(s.func(), placed)) {
      const std::string& block = *movable;
      FETTLE_TRY(const PlaceWeights likely, weights_of_places(s, derived, static_cast<size_t>(sketch), places, block));
      std::vector<int64_t> candidates;
      std::vector<double> place_weights;
      for (const auto& [place, weight] : likely) {
        candidates.push_back(place);
        place_weights.push_back(weight);
      }
      s.set_address_prefix("location");
      FETTLE_TRY(const int64_t place, choose(s, block, candidates, place_weights));
      places.push_back(place);
      placed.insert(block);
      FETTLE_TRY_VOID(move(s, block, place));
    }
    if (derived.bound) {
      FETTLE_TRY_VOID(bind_threads(s, *target));
      FETTLE_TRY_VOID(fits_threads(s.func(), *target));
      return {};
    }
    FETTLE_TRY_VOID(rewrite_constant_layouts(s));
    FETTLE_TRY_VOID(insert_transform_stages(s, derived.threads));
    FETTLE_TRY_VOID(annotate(s, derived.threads));
    FETTLE_TRY_VOID(accumulate_in_registers(s, *target));
    FETTLE_TRY_VOID(decompose_reductions(s));
    FETTLE_TRY_VOID(verify_unrolled_size(s.func()));
    FETTLE_TRY_VOID(verify(s.func(), *target, {.races = false}));
    return {};
  }

  // The sketch's steps; then, for lanes, blocks that no rule tiled are cut once.
  //   for i: for j: for k: S   →   for i: for j_0: for k: for j_1: S
  Result<> cut(Schedule& s, const Sketch& sketch, bool bound) const {
    FETTLE_TRY_VOID(replay(s, sketch.steps));
    if (bound) return {};
    const Func before = s.func();
    for (const BlockNode* node : blocks_of(before.root())) {
      const std::string name = node->name;
      if (is_in_row_lanes(*node) || is_scheduled(*node)) continue;
      s.set_address_prefix("cut");
      FETTLE_TRY(const BlockRef block, get_block(s, {.name = name}));
      FETTLE_TRY(const std::vector<LoopRef> loops, get_loops(s, {block}));
      if (loops.size() != node->iters.size()) continue;  // tiled
      std::vector<LoopRef> spatial, reduction;
      bool plain = true;
      for (size_t i = 0; i < loops.size() && plain; ++i) {
        FETTLE_TRY(const Var var, s.loop_var(loops[i]));
        const auto owner =
            std::ranges::find_if(node->iters, [&](const IterVar& iter) { return iter.binding.get() == var.get(); });
        plain = owner != node->iters.end() && (owner->kind == IterKind::kSpatial || owner->kind == IterKind::kReduce);
        if (plain) (owner->kind == IterKind::kSpatial ? spatial : reduction).push_back(loops[i]);
      }
      if (!plain || spatial.empty()) continue;
      // Lanes that walk through memory in strides are worth nothing.
      if (!reduction.empty() && loops.back() != spatial.back() && !wants_lanes_inside(s.func(), *node)) continue;
      FETTLE_TRY(const Stmt last, s.loop(spatial.back()));
      const auto& loop = *last.as<ForNode>();
      if (loop.loop_kind != ForKind::kSerial || !as_int(loop.extent)) continue;
      FETTLE_TRY(const int64_t register_lanes, lanes_of(s, block));
      const int64_t extent = *as_int(loop.extent), rounded = suitable_extent(extent, register_lanes);
      std::vector<LoopRef> unit;
      if (rounded != extent) {
        FETTLE_TRY(unit, split(s, {.loop = spatial.back(), .factors = {1, rounded}, .tail = Tail::kMask}));
        spatial.back() = unit.back();
        unit.pop_back();
      }
      std::vector<LoopRef> parts;
      if (is_beside_tiles(before, *node)) {
        const int64_t inner = widest_part(rounded, register_lanes, options_.max_vector_lanes);
        FETTLE_TRY(parts, split(s, {.loop = spatial.back(), .factors = {rounded / inner, inner}}));
      } else {
        FETTLE_TRY(parts, draw_lanes(s, spatial.back(), name, rounded, register_lanes));
      }
      if (!unit.empty()) {
        FETTLE_TRY(parts[0], fuse(s, {.loops = {unit[0], parts[0]}}));
      }
      std::vector<LoopRef> order(spatial.begin(), spatial.end() - 1);
      order.push_back(parts[0]);
      order.insert(order.end(), reduction.begin(), reduction.end());
      order.push_back(parts[1]);
      FETTLE_TRY_VOID(reorder(s, {.loops = order}));
    }
    return {};
  }

  // Two parts of a block's last loop, the inner one for lanes: a number of whole vectors, where those divide the loop.
  Result<std::vector<LoopRef>> draw_lanes(Schedule& s, LoopRef loop, const std::string& name, int64_t extent,
                                          int64_t lanes) const {
    if (extent <= lanes || extent % lanes != 0 || lanes > options_.max_vector_lanes) {
      FETTLE_TRY(
          const auto drawn,
          sample_perfect_tile(s, {.loop = loop, .n = 2, .max_innermost = options_.max_vector_lanes, .name = name}));
      return split(s, {.loop = loop, .factors = {drawn[0], drawn[1]}});
    }
    FETTLE_TRY(const std::vector<LoopRef> vectors, split(s, {.loop = loop, .factors = {extent / lanes, lanes}}));
    FETTLE_TRY(const auto drawn,
               sample_perfect_tile(
                   s, {.loop = vectors[0], .n = 2, .max_innermost = options_.max_vector_lanes / lanes, .name = name}));
    FETTLE_TRY(std::vector<LoopRef> parts, split(s, {.loop = vectors[0], .factors = {drawn[0], drawn[1]}}));
    FETTLE_TRY(parts[1], fuse(s, {.loops = {parts[1], vectors[1]}}));
    return parts;
  }

  // The innermost loop of a tile becomes lanes: known before the steps that follow.
  static Result<> has_lanes(const Func& func) {
    for (const BlockNode* block : blocks_of(func.root())) {
      if (!has_data_reuse(func, *block)) continue;
      const auto loops = loops_around(func, block);
      if (loops.size() <= block->iters.size()) continue;  // not tiled
      if (const int64_t* extent = as_int(loops.back()->extent); extent && *extent == 1)
        return fail(ErrorCode::E235, "no lanes: one iteration", "sketch_space");
    }
    return {};
  }

  // From the output backwards, so that what a moved block reads can follow it.
  static std::optional<std::string> next_movable(const Func& func, const std::set<std::string>& placed) {
    const std::vector<const BlockNode*> blocks = blocks_of(func.root());
    for (auto block = blocks.rbegin(); block != blocks.rend(); ++block)
      if (!placed.contains((*block)->name) && may_move(func, **block) && !has_data_reuse(func, **block))
        return (*block)->name;
    return std::nullopt;
  }

  // Numbers of loops, those of the first reader, that all readers stand in and under which the block may be computed:
  // no loop of one iteration, and none from the reader's reduction on.
  static Places places_of(const Func& func, const std::string& name) {
    const auto readers = consumers_of(func.root(), find_block(func->body, name)->writes[0].buffer.get());
    std::vector<const ForNode*> common = loops_around(func, readers.front());
    for (const BlockNode* reader : readers) {
      const auto loops = loops_around(func, reader);
      common.erase(std::ranges::mismatch(common, loops).in1, common.end());
    }
    Places places;
    for (size_t i = 0; i < common.size(); ++i) {
      const bool reduces = std::ranges::any_of(readers.front()->iters, [&](const IterVar& iter) {
        return iter.kind == IterKind::kReduce && uses_var(iter.binding, common[i]->var.get());
      });
      if (reduces) break;
      const int64_t* extent = as_int(common[i]->extent);
      if (!extent || *extent != 1) places.push_back(static_cast<int64_t>(i));
    }
    return places;
  }

  // The places of a block: those that structures have where `before` are chosen, by how many points each leads to; or,
  // where choices are equally likely, all that it may have.
  Result<PlaceWeights> weights_of_places(const Schedule& s, const Derived& derived, size_t sketch, const Places& before,
                                         const std::string& block) const {
    if (options_.equally_likely == EquallyLikely::kChoices) return likely_places(s.func(), block);
    PlaceWeights points;
    for (const Structure& structure : derived.structures)
      if (structure.sketch == sketch && structure.places.size() > before.size() &&
          std::equal(before.begin(), before.end(), structure.places.begin()))
        points[structure.places[before.size()]] += structure.points;
    if (points.empty()) return fail(ErrorCode::E235, "no place for " + block, "sketch_space");
    return points;
  }

  // Each is as likely; of what a product reads, being inlined is, staying, and being under a loop.
  static PlaceWeights likely_places(const Func& func, const std::string& name) {
    const BlockNode& block = *find_block(func->body, name);
    const Places loops = places_of(func, name);
    PlaceWeights places{{kStay, 1.0}};
    if (!block.init && !is_row_total(block)) places[kInline] = 1.0;
    const bool operand = is_padding(block) || is_operand_of_product(func, block);
    for (const int64_t loop : loops) places[loop] = operand ? 1.0 / static_cast<double>(loops.size()) : 1.0;
    return places;
  }

  static Result<> move(Schedule& s, const std::string& name, int64_t place) {
    FETTLE_TRY(const BlockRef block, get_block(s, {.name = name}));
    return move_to(s, block, place);
  }

  // `decide_only`: nothing is done; the choices are those of a point all the same.
  Result<> annotate(Schedule& s, int threads, bool decide_only = false) const {
    constexpr size_t kInner = 2;
    for (const std::string& name : nest_blocks(s.func())) {
      if (is_scheduled(*find_block(s.func()->body, name))) continue;
      FETTLE_TRY(const BlockRef block, get_block(s, {.name = name}));
      FETTLE_TRY(const std::vector<LoopRef> all, get_loops(s, {block}));
      FETTLE_TRY(const Stmt outermost, s.loop(all.front()));
      if (outermost.as<ForNode>()->loop_kind != ForKind::kSerial) continue;
      FETTLE_TRY(std::vector<LoopRef> inner, inner_spatial_loops(s, block));
      FETTLE_TRY(std::vector<LoopRef> outer, outer_spatial_loops(s, block));
      if (inner.size() > kInner) inner.erase(inner.begin(), inner.end() - kInner);
      if (inner.size() == kInner && all.size() == outer.size() + 1) inner.erase(inner.begin());
      // Of a tile, what its two innermost loops walk through together is not contiguous.
      const bool tiled = has_data_reuse(s.func(), *find_block(s.func()->body, name));
      if (tiled && !inner.empty()) inner.erase(inner.begin(), inner.end() - 1);
      // Whole vectors need no further loop: the cut had all the sizes that there are.
      if (inner.size() > 1) {
        FETTLE_TRY(const int64_t extent, extent_of_loops(s, {inner.back()}));
        FETTLE_TRY(const int64_t register_lanes, lanes_of(s, block));
        if (extent % register_lanes == 0) inner.erase(inner.begin(), inner.end() - 1);
      }
      s.set_address_prefix("parallel");
      const int64_t least = threads > 1 && !outer.empty() ? 1 : 0;
      FETTLE_TRY(const int64_t fused, choose(s, name, from_to(least, threads > 1 ? outer.size() : 0)));
      s.set_address_prefix("vector");
      FETTLE_TRY(const int64_t lanes, choose(s, name, from_to(inner.empty() ? 0 : 1, inner.size())));
      s.set_address_prefix("unroll");
      const bool beside = is_beside_tiles(s.func(), *find_block(s.func()->body, name));
      FETTLE_TRY(const int64_t steps, choose(s, name, beside ? std::vector<int64_t>{0} : options_.unroll_steps));
      if (decide_only) continue;
      const size_t own = first_loop_to_unroll(s.func(), *find_block(s.func()->body, name));
      LoopRef first = all[own];
      if (lanes > 0) {
        const std::vector<LoopRef> taken(inner.end() - lanes, inner.end());
        FETTLE_TRY(const int64_t extent, extent_of_loops(s, taken));
        FETTLE_TRY(const int64_t register_lanes, lanes_of(s, block));
        if (extent > options_.max_vector_lanes && taken.size() == 1 && !tiled) {  // a whole row, moved here
          const Tail tail = extent % register_lanes == 0 ? Tail::kExact : Tail::kMask;
          FETTLE_TRY(const std::vector<LoopRef> parts,
                     split(s, {.loop = taken[0], .factors = {kInfer, register_lanes}, .tail = tail}));
          FETTLE_TRY_VOID(vectorize(s, {.loop = parts[1]}));
          if (all.size() == 1) first = parts[0];
        } else {
          if (extent > options_.max_vector_lanes) return fail(ErrorCode::E235, "too many lanes", "sketch_space");
          FETTLE_TRY(const LoopRef loop, fused_loop(s, taken));
          FETTLE_TRY_VOID(vectorize_in_registers(s, loop, register_lanes));
          if (all.size() == static_cast<size_t>(lanes)) continue;
        }
      }
      FETTLE_TRY_VOID(vectorize_companions(s, block));
      if (fused > 0) {
        FETTLE_TRY(const LoopRef loop, fused_loop(s, {outer.begin(), outer.begin() + fused}));
        FETTLE_TRY_VOID(parallel(s, {.loop = loop}));
        if (own == 0) first = loop;
      }
      if (steps > 0) FETTLE_TRY_VOID(pragma(s, {.loop = first, .name = "auto_unroll_max_step", .value = steps}));
    }
    return {};
  }

  // Nests that no rule bound get threads, and copies to shared memory are made by all threads of a block.
  Result<> bind_threads(Schedule& s, const Target& target, bool decide_only = false) const {
    std::vector<int64_t> extents;
    for (const int64_t extent : options_.thread_extents)
      if (extent <= target.max_threads_per_block) extents.push_back(extent);
    if (extents.empty()) extents = {target.max_threads_per_block};
    for (const std::string& name : nest_blocks(s.func())) {
      FETTLE_TRY(const BlockRef block, get_block(s, {.name = name}));
      if (is_unbound(s.func(), *find_block(s.func()->body, name))) {
        s.set_address_prefix("thread_binding");
        FETTLE_TRY(const int64_t threads, choose(s, name, extents));
        if (!decide_only) FETTLE_TRY_VOID(bind_outer_loops(s, block, IntRef(threads)));
      }
      s.set_address_prefix("unroll");
      FETTLE_TRY(const int64_t steps, choose(s, name, options_.unroll_steps));
      if (decide_only) continue;
      FETTLE_TRY(const std::vector<LoopRef> loops, get_loops(s, {block}));
      FETTLE_TRY(const Stmt outermost, s.loop(loops.front()));
      for (const BlockNode* inner : blocks_under(outermost)) {
        if (inner->writes[0].buffer->scope != "shared") continue;
        FETTLE_TRY(const BlockRef copy, get_block(s, {.name = std::string(inner->name)}));
        FETTLE_TRY_VOID(share_among_threads(s, copy));
      }
      if (steps > 0)
        FETTLE_TRY_VOID(pragma(s, {.loop = loops.front(), .name = "auto_unroll_max_step", .value = steps}));
    }
    return {};
  }

  Result<const Derived*> derive(const Func& workload, const std::shared_ptr<const Target>& target, int threads,
                                DecisionSource source) const {
    const auto is_for_it = [&](const Derived& known) {
      return known.threads == threads && known.bound == target->has_threads() &&
             known.by_number == source.is_by_number();
    };
    if (latest_ && latest_->workload == workload && is_for_it(*latest_)) return latest_;
    const Digest hash = canonical_hash(workload);
    auto [known, end] = derived_.equal_range(hash);
    for (; known != end; ++known)
      if (is_for_it(known->second) && structural_equal(known->second.workload, workload))
        return latest_ = &known->second;
    Derived made{
        .workload = workload, .threads = threads, .bound = target->has_threads(), .by_number = source.is_by_number()};
    DeriveOptions derive = options_.derive;
    derive.cores = threads;
    derive.target = target;
    if (made.bound) {
      constexpr int kBlocksToFill = 64;  // a GPU has so many at least
      derive.cores = kBlocksToFill;
      if (derive.tiling.tile_binds.empty()) derive.tiling = tiling_for_threads();
    }
    Schedule start(workload);
    start.set_target(target);
    if (!made.bound) FETTLE_TRY_VOID(split_rows_into_lanes(start));
    FETTLE_TRY(Derivation derivation, derive_sketches(start.func(), derive));
    made.sketches = std::move(derivation.sketches);
    for (size_t sketch = 0; sketch < made.sketches.size(); ++sketch) find_structures(made, target, sketch, source);
    if (options_.equally_likely == EquallyLikely::kChoices) weigh_sketches_alike(made);
    weigh_computations_alike(made);
    if (made.structures.empty()) return fail(ErrorCode::E235, "no sketch has a program", "sketch_space");
    return latest_ = &derived_.emplace(hash, std::move(made))->second;
  }

  // Each sketch counts as one point.
  static void weigh_sketches_alike(Derived& derived) {
    std::set<size_t> seen;
    for (Structure& s : derived.structures) s.points = seen.insert(s.sketch).second ? 1 : 0;
  }

  // Points become shares of their computation's.
  static void weigh_computations_alike(Derived& derived) {
    std::map<size_t, double> points;  // by the computation
    for (const Structure& structure : derived.structures)
      points[derived.sketches[structure.sketch].computation] += structure.points;
    if (points.size() == 1) return;
    for (Structure& structure : derived.structures)
      structure.points /= points[derived.sketches[structure.sketch].computation];
  }

  // Every combination of places, each counted at one of its points. What depends on the sizes alone is tried with a
  // few.
  void find_structures(Derived& derived, const std::shared_ptr<const Target>& target, size_t sketch,
                       DecisionSource source) const {
    constexpr uint64_t kSizes = 6;
    // Structures, from which on further sizes find few that are new. Where choices are drawn one will do.
    const size_t many = options_.equally_likely == EquallyLikely::kChoices ? 1 : 32;
    std::set<Places> seen;
    for (uint64_t seed = 0; seed < kSizes && seen.size() < many; ++seed) {
      Schedule s(derived.workload, source.with_seed(seed));
      s.set_target(target);
      if (!derived.bound && !split_rows_into_lanes(s)) continue;
      if (cut(s, derived.sketches[sketch], derived.bound)) find_places(derived, *target, sketch, std::move(s), seen);
    }
  }

  void find_places(Derived& derived, const Target& target, size_t sketch, Schedule start,
                   std::set<Places>& seen) const {
    struct State {
      Schedule schedule;
      Places places;
      std::set<std::string> placed;
    };
    std::vector<State> open;
    open.push_back({std::move(start), {}, {}});
    const bool one = options_.equally_likely == EquallyLikely::kChoices;
    // What a sketch leaves of its share is for those that follow.
    const size_t most = std::max<size_t>(1, options_.max_structures * (sketch + 1) / derived.sketches.size());
    while (!open.empty() && derived.structures.size() < most && !(one && !seen.empty())) {
      auto [s, places, placed] = std::move(open.back());
      open.pop_back();
      if (const auto movable = next_movable(s.func(), placed)) {
        Places choices = {kInline, kStay};
        const Places loops = places_of(s.func(), *movable);
        choices.insert(choices.end(), loops.begin(), loops.end());
        placed.insert(*movable);
        for (const int64_t place : choices) {
          State moved{s, places, placed};
          moved.places.push_back(place);
          if (open.size() < 8 * options_.max_structures && move(moved.schedule, *movable, place))
            open.push_back(std::move(moved));
        }
        continue;
      }
      if (!seen.insert(places).second) continue;
      if (!(derived.bound ? bind_threads(s, target, true) : annotate(s, derived.threads, true))) continue;
      double points = 1;
      for (const auto& step : s.trace().steps)
        if (step->def->samples) points *= choices_of(*step);
      derived.structures.push_back({sketch, places, points});
    }
  }

  SketchSpaceOptions options_;
  mutable std::unordered_multimap<Digest, Derived> derived_;
  mutable const Derived* latest_ = nullptr;  // that was asked for
};

}  // namespace

std::unique_ptr<Space> make_sketch_space(SketchSpaceOptions options) {
  return std::make_unique<SketchSpace>(std::move(options));
}

}  // namespace fettle
