#include "tune/parts/gpu_sums.h"

#include <algorithm>

#include "ir/query.h"
#include "ir/visit.h"
#include "schedule/dataflow/dataflow.h"
#include "schedule/primitives.h"
#include "tune/parts/gpu_grid.h"
#include "tune/parts/gpu_width.h"
#include "tune/parts/structure.h"

namespace fettle {
namespace {

constexpr int64_t kMostUnrolled = 64;    // terms of a thread whose loads are in flight together
constexpr int64_t kMostAccesses = 16;    // of several elements each, in registers
constexpr int64_t kTermsInFlight = 8;    // where a loop is longer
constexpr int64_t kFewestThreads = 128;  // of a multiprocessor, where each has neighbours

// The block that reads what `node` writes, if it is one, does so element by element, and nobody else may see it.
std::optional<std::string> epilogue_of(const Func& func, const BlockNode& node, int64_t results) {
  if (node.writes.size() != 1 || is_param(func, node.writes.front().buffer.get())) return {};
  const Buffer& buffer = node.writes.front().buffer;
  const auto readers = consumers_of(func.root(), buffer.get());
  if (readers.size() != 1 || readers.front()->init) return {};
  const auto reader = block_structure(func, *readers.front(), Extents::kOpen);
  if (!reader || reader->points() != results) return {};
  size_t found = 0;
  for (const AccessPattern& load : reader->loads) {
    if (load.buffer != buffer) continue;
    ++found;
    for (size_t i = 0; i < reader->n_iters(); ++i)
      if (load.guarded || (reader->extents[i] > 1 && !load.touches(i))) return {};
  }
  if (found != 1) return {};
  return readers.front()->name;
}

class Sums {
 public:
  Sums(Schedule& s, const Target& target, Decider& decider, BlockRef block)
      : s_(s), target_(target), decider_(decider), block_(block) {}

  Result<Finished> run(const Loops& outside, bool takes_epilogue) {
    FETTLE_TRY(const BlockNode* node, block_node(s_, block_));
    finished_ = {node->name};
    const auto structure = block_structure(s_.func(), *node, Extents::kOpen);
    std::optional<std::string> epilogue;
    if (structure) {
      int64_t results = 1;
      for (size_t i = 0; i < structure->n_iters(); ++i)
        if (!structure->reduce[i]) results *= structure->extents[i];
      if (takes_epilogue) epilogue = epilogue_of(s_.func(), *node, results);
      if (takes_epilogue && !epilogue) return fail(ErrorCode::E230, node->name + " has no epilogue");
      FETTLE_TRY(lanes_, pick_lanes(*structure, outside.back(), results));
    } else if (takes_epilogue) {
      return fail(ErrorCode::E230, node->name + " has no epilogue");
    }
    if (lanes_ > 1) FETTLE_TRY_VOID(turn_weights());
    std::vector<BlockRef> behind;  // what follows the last term
    if (epilogue) {
      FETTLE_TRY_VOID(set_scope(s_, {.block = block_, .index = 0, .scope = "local"}));
      FETTLE_TRY(const BlockRef reader, get_block(s_, {.name = *epilogue}));
      behind.push_back(reader);
    } else {
      behind = add_up_in_own_memory();
    }
    int64_t iterations = 1;
    for (const LoopRef& loop : outside) {
      FETTLE_TRY(const Extent extent, extent_of_loop(s_, loop));
      iterations = extent.value > INT64_MAX / 2 / iterations ? INT64_MAX / 2 : iterations * extent.value;
    }
    const int64_t fitting = threads_for(target_, iterations / lanes_, kThreadsOfBlock);
    FETTLE_TRY(const int64_t threads, decider_.pick(s_, {"threads", first_of(fitting, {64, 128, 256, 512})}));
    FETTLE_TRY(const Grid grid, deal_out(s_, target_, outside, {.threads = threads, .lanes = lanes_, .flat = false}));
    for (const BlockRef copy : behind) {
      FETTLE_TRY_VOID(reverse_compute_at(s_, {.block = copy, .loop = grid.thread}));
      FETTLE_TRY(const BlockNode* made, block_node(s_, copy));
      finished_.push_back(made->name);
      if (lanes_ == 1) continue;
      FETTLE_TRY(const Loops loops, get_loops(s_, {.block = copy}));
      FETTLE_TRY(const int64_t extent, loop_extent(s_, loops.back()));
      if (extent == lanes_) FETTLE_TRY_VOID(vectorize(s_, {.loop = loops.back()}));
    }
    FETTLE_TRY_VOID(several_terms(grid));
    return finished_;
  }

 private:
  // Neighbours of a result, where their loads are accesses of several elements, and threads remain enough.
  Result<int64_t> pick_lanes(const BlockStructure& structure, LoopRef last, int64_t results) {
    FETTLE_TRY(const Var var, s_.loop_var(last));
    const auto at = std::ranges::find(structure.vars, var);
    int64_t lanes = 1;
    if (at != structure.vars.end()) {
      const auto i = static_cast<size_t>(at - structure.vars.begin());
      BlockStructure others = structure;
      std::erase_if(others.loads, [&](const AccessPattern& load) {
        const bool turns = load.strides[i] != 1 && load.touches(i) && is_constant(s_.func(), load.buffer);
        if (turns) weights_.emplace_back(load.buffer, var);
        return turns;
      });
      const bool reads_along =
          std::ranges::all_of(others.loads, [&](const AccessPattern& load) { return load.strides[i] == 1; });
      const int64_t units = target_.gpu ? target_.gpu->multiprocessors : 1;
      const int64_t wide = width_of(target_, others, i, Guards::kOfRows).lanes;
      if (reads_along && !others.loads.empty() && results / wide >= kFewestThreads * units) lanes = wide;
    }
    return decider_.pick(s_, {"lanes", first_of(lanes, {1})});
  }

  // Constants whose elements for neighbouring results lie apart are stored in another order.
  //   O[w, c] += X[w + k, c] * W[c, k]   →   O[w, c] += X[w + k, c] * W_global[k, c]
  Result<> turn_weights() {
    for (const auto& [buffer, along] : weights_) {
      FETTLE_TRY(const BlockNode* node, block_node(s_, block_));
      const StoreNode* store = single_store(*node);
      if (!store) return fail(ErrorCode::E230, node->name + " is not one store");
      const auto uses = [&](const Var& iter) {
        return contains<LoadNode>(store->value, [&](const LoadNode& load) {
          return load.buffer == buffer &&
                 std::ranges::any_of(load.indices, [&](const Expr& index) { return uses_var(index, iter.get()); });
        });
      };
      IndexMap order;
      std::optional<Expr> last;
      for (const IterVar& iter : node->iters) {
        const Var input = make_var(iter.var->name, kI64);
        order.inputs.push_back(input);
        if (iter.binding.as<VarNode>() == along.get())
          last = input;
        else if (uses(iter.var))
          order.outputs.push_back(input);
      }
      if (!last) return fail(ErrorCode::E230, "no iterator is the loop over neighbours");
      order.outputs.push_back(*last);
      FETTLE_TRY(const int64_t read, read_index_of(s_, block_, buffer));
      FETTLE_TRY(const BlockRef copy,
                 reindex_cache_read(
                     s_, {.block = block_, .read_index = read, .scope = kScopeGlobal, .index_map = std::move(order)}));
      FETTLE_TRY(const BlockNode* made, block_node(s_, copy));
      finished_.push_back(made->name);
    }
    return {};
  }

  // What a thread adds up is its own; where a step is refused, sums stay where they are.
  std::vector<BlockRef> add_up_in_own_memory() {
    const Schedule before = s_;
    std::vector<BlockRef> copies;
    const size_t n_writes = (*block_node(s_, block_))->writes.size();
    for (size_t w = 0; w < n_writes; ++w) {
      const auto copy = cache_write(s_, {.block = block_, .write_index = static_cast<int64_t>(w), .scope = "local"});
      if (!copy) {
        s_ = before;
        return {};
      }
      copies.push_back(*copy);
    }
    return copies;
  }

  // Terms unrolled: all of few, or some of many, a number that divides them. Lanes inside.
  Result<> several_terms(const Grid& grid) {
    FETTLE_TRY(LoopsByKind kinds, loops_by_kind(s_, block_));
    Loops& terms = kinds.reduction;
    if (terms.empty()) return {};
    if (grid.lane) {
      Loops order = terms;
      order.push_back(*grid.lane);
      FETTLE_TRY_VOID(reorder(s_, {.loops = order}));
    }
    Loops unrolled;
    int64_t at_once = 1;
    while (!terms.empty()) {
      FETTLE_TRY(const int64_t extent, loop_extent(s_, terms.back()));
      if (extent == 0) break;
      const int64_t most = lanes_ > 1 ? kMostAccesses : kMostUnrolled;
      if (at_once * extent <= most) {
        at_once *= extent;
        unrolled.insert(unrolled.begin(), terms.back());
        terms.pop_back();
        continue;
      }
      int64_t part = at_once < kTermsInFlight ? kTermsInFlight : 1;
      while (part > 1 && (extent % part != 0 || at_once * part > most)) part /= 2;
      if (part > 1) {
        FETTLE_TRY(const Loops cut, split(s_, {.loop = terms.back(), .factors = {kInfer, part}, .tail = Tail::kExact}));
        terms.back() = cut[0];
        unrolled.insert(unrolled.begin(), cut[1]);
      }
      break;
    }
    FETTLE_TRY_VOID(begin_before_terms());
    if (grid.lane) FETTLE_TRY_VOID(load_rows(terms.empty() ? grid.thread : terms.back()));
    for (const LoopRef& loop : unrolled) FETTLE_TRY_VOID(unroll(s_, {.loop = loop}));
    return grid.lane ? unroll(s_, {.loop = *grid.lane}) : Result<>();
  }

  // Sums begin before the first term, not with a question at each.
  Result<> begin_before_terms() {
    Schedule trial = s_;
    FETTLE_TRY(const LoopsByKind kinds, loops_by_kind(trial, block_));
    const auto init = decompose_reduction(trial, {.block = block_, .loop = kinds.reduction.front()});
    if (!init) return {};
    FETTLE_TRY(const BlockNode* made, block_node(trial, *init));
    finished_.push_back(made->name);
    s_ = std::move(trial);
    if (lanes_ == 1) return {};
    FETTLE_TRY(const Loops loops, get_loops(s_, {.block = *init}));
    return unroll(s_, {.loop = loops.back()});
  }

  // What the terms of one iteration of `at` read, each row in one access.
  Result<> load_rows(LoopRef at) {
    FETTLE_TRY(const BlockNode* node, block_node(s_, block_));
    std::vector<Buffer> buffers;
    for (const Region& read : node->reads)
      if (!read_write(*node, read.buffer)) buffers.push_back(read.buffer);
    for (const Buffer& buffer : buffers) {
      FETTLE_TRY(const int64_t index, read_index_of(s_, block_, buffer));
      FETTLE_TRY(const BlockRef copy,
                 cache_read(s_, {.block = block_, .read_index = index, .scope = "local", .consumer_blocks = {}}));
      FETTLE_TRY_VOID(compute_at(s_, {.block = copy, .loop = at, .preserve_unit_loops = false}));
      FETTLE_TRY(const Loops all, get_loops(s_, {.block = copy}));
      FETTLE_TRY(const Var outside, s_.loop_var(at));
      for (size_t i = all.size() - 1; i-- > 0;) {
        FETTLE_TRY(const Var var, s_.loop_var(all[i]));
        if (var == outside) break;
        FETTLE_TRY_VOID(unroll(s_, {.loop = all[i]}));
      }
      FETTLE_TRY(const int64_t width, loop_extent(s_, all.back()));
      if (width != lanes_) return fail(ErrorCode::E230, "a row of what is read is no access");
      FETTLE_TRY_VOID(vectorize(s_, {.loop = all.back()}));
      FETTLE_TRY(const BlockNode* made, block_node(s_, copy));
      finished_.push_back(made->name);
    }
    return {};
  }

  static bool read_write(const BlockNode& node, const Buffer& buffer) {
    return std::ranges::find(node.writes, buffer, &Region::buffer) != node.writes.end();
  }

  Schedule& s_;
  const Target& target_;
  Decider& decider_;
  const BlockRef block_;
  int64_t lanes_ = 1;
  std::vector<std::pair<Buffer, Var>> weights_;  // to be turned, along this loop
  Finished finished_;
};

}  // namespace

Result<Finished> gpu_sums(Schedule& s, const Target& target, Decider& decider, BlockRef block, const Loops& outside,
                          bool takes_epilogue) {
  return Sums(s, target, decider, block).run(outside, takes_epilogue);
}

}  // namespace fettle
