#include "generations/tensor_comprehensions/device_mapping.h"

#include <algorithm>
#include <optional>

#include "analysis/sites.h"
#include "ir/query.h"
#include "schedule/dataflow/dataflow.h"
#include "schedule/edit/nest.h"
#include "schedule/primitives.h"
#include "tune/parts/gpu_grid.h"
#include "tune/parts/loops.h"

namespace fettle {
namespace {

using Loops = std::vector<LoopRef>;

// Threads of a block along the last two loops that are dealt out, and how many elements each has of its own.
struct Tile {
  int64_t threads_y = 1, threads_x = 1, turns_y = 1, turns_x = 1;
};

struct Options {
  Tile tile;
  int64_t steps = 1;  // of a loop in order, between copies to shared memory
  bool shared = false, own = false;
  bool inner_threads = false;
};

Result<Options> pick_options(Schedule& s, const Target& target, Decider& decider) {
  Options o;
  FETTLE_TRY(o.tile.threads_x, decider.pick(s, {"threads_x", {32, 64, 128, 256}}));
  FETTLE_TRY(o.tile.threads_y, decider.pick(s, {"threads_y", {1, 2, 4, 8, 16}}));
  FETTLE_TRY(o.tile.turns_x, decider.pick(s, {"turns_x", {1, 2, 4}}));
  FETTLE_TRY(o.tile.turns_y, decider.pick(s, {"turns_y", {1, 2, 4, 8}}));
  FETTLE_TRY(o.steps, decider.pick(s, {"steps", {4, 8, 16, 32}}));
  const auto whether = [&](const char* name) {
    return decider.pick_place(s, {.name = name, .candidates = std::vector<std::string>{"used", "none"}});
  };
  FETTLE_TRY(const size_t shared, whether("shared_memory"));
  FETTLE_TRY(const size_t own, whether("private_memory"));
  FETTLE_TRY(const size_t inner,
             decider.pick_place(
                 s, {.name = "threads_of", .candidates = std::vector<std::string>{"outer_loops", "inner_loops"}}));
  o.shared = shared == 0;
  o.own = own == 0;
  o.inner_threads = inner == 1;
  while (o.tile.threads_y > 1 && o.tile.threads_x * o.tile.threads_y > target.max_threads_per_block)
    o.tile.threads_y /= 2;
  return o;
}

// What `make` does stays where the program keeps the target's rules.
template <class Make>
bool attempt(Schedule& s, const Target& target, const Make& make) {
  Schedule tried = s;
  if (!make(tried) || !check_on_device(tried.func(), target)) return false;
  s = std::move(tried);
  return true;
}

const ForNode* loop_node(const Schedule& s, LoopRef loop) {
  const auto stmt = s.loop(loop);
  return stmt ? stmt->as<ForNode>() : nullptr;
}

// As many loops as stand directly in one another.
Loops adjacent(const Schedule& s, const Loops& loops) {
  Loops taken;
  for (const LoopRef& loop : loops) {
    if (!taken.empty() && loop_node(s, taken.back())->body.get() != loop_node(s, loop)) break;
    taken.push_back(loop);
  }
  return taken;
}

// Loops whose extents depend on others of `loops` run as far as they may at most.
//   for i in n: for j in i + 1: S   →   for i in n: for j in n: S where j < i + 1
Result<> make_rectangular(Schedule& s, Loops& loops) {
  std::vector<Var> vars;
  for (LoopRef& loop : loops) {
    FETTLE_TRY(const Stmt stmt, s.loop(loop));
    const auto* node = stmt.as<ForNode>();
    const bool depends = std::ranges::any_of(vars, [&](const Var& var) { return uses_var(node->extent, var.get()); });
    if (depends) {
      const int64_t most = analyzer_at(s.func(), node).int_bounds(node->extent).max;
      FETTLE_TRY(const Loops made, split(s, {.loop = loop, .factors = {most}, .tail = Tail::kGuard}));
      loop = made.front();
    }
    FETTLE_TRY(const Var var, s.loop_var(loop));
    vars.push_back(var);
  }
  return {};
}

class NestMapping {
 public:
  NestMapping(const Target& target, const Options& options, std::string block)
      : target_(target), options_(options), block_(std::move(block)) {}

  // Deals out the run of independent loops around the block.
  Result<> run(Schedule& s) {
    FETTLE_TRY(const BlockRef block, get_block(s, {block_}));
    FETTLE_TRY(const Loops loops, get_loops(s, {block}));
    FETTLE_TRY(const std::vector<bool> are, independent_loops(s, loops));
    Loops run = adjacent(s, first_run(loops, are));
    if (run.empty()) return fail(ErrorCode::E230, "no loop around " + block_ + " has independent iterations");
    const auto within = blocks_under(loop_node(s, run.front())->body);
    if (within.size() == 1) return one_block(s, block, run);
    return options_.inner_threads && attempt(s, target_, [&](Schedule& t) { return blocks_then_threads(t, run); })
               ? Result<>()
               : several_blocks(s, run);
  }

 private:
  Result<> several_blocks(Schedule& s, Loops run) {
    FETTLE_TRY_VOID(make_rectangular(s, run));
    return deal_out(s, target_, run, {.threads = options_.tile.threads_x, .flat = false}).map([](const Grid&) {});
  }

  // The run goes to blocks, and what is independent in each nest inside to threads.
  Result<> blocks_then_threads(Schedule& s, Loops run) {
    std::vector<std::string> names;
    for (const BlockNode* inner : blocks_under(loop_node(s, run.front())->body)) names.push_back(inner->name);
    FETTLE_TRY_VOID(make_rectangular(s, run));
    FETTLE_TRY_VOID(bind_blocks(s, target_, run, false).map([](const Loops&) {}));
    bool any = false;
    for (const std::string& name : names) {
      FETTLE_TRY(const BlockRef block, get_block(s, {name}));
      FETTLE_TRY(const Loops loops, get_loops(s, {block}));
      FETTLE_TRY(const std::vector<bool> are, independent_loops(s, loops));
      const auto last = std::ranges::find(are.rbegin(), are.rend(), true);
      if (last == are.rend()) continue;
      const size_t at = are.size() - 1 - static_cast<size_t>(last - are.rbegin());
      const IntRef threads = options_.tile.threads_x;
      FETTLE_TRY(const Loops parts, split(s, {.loop = loops[at], .factors = {kInfer, threads}, .tail = Tail::kGuard}));
      FETTLE_TRY_VOID(bind(s, {.loop = parts[1], .thread_axis = "threadIdx.x"}));
      any = true;
    }
    return any ? Result<>() : fail(ErrorCode::E230, "no inner loop has independent iterations");
  }

  Result<> one_block(Schedule& s, BlockRef block, Loops run) {
    FETTLE_TRY_VOID(make_rectangular(s, run));
    FETTLE_TRY_VOID(cut(s, run));
    FETTLE_TRY(in_order_, loops_below(s, block, threads_.back()));
    in_order_.erase(in_order_.begin(), in_order_.begin() + static_cast<std::ptrdiff_t>(turns_.size()));
    std::erase_if(in_order_, [&](LoopRef loop) { return loop_node(s, loop)->loop_kind != ForKind::kSerial; });
    if (options_.own && !in_order_.empty()) promote_updates(s, block);
    cut_steps(s);
    put_turns_innermost(s);
    if (options_.shared) promote_reads(s, block);
    for (const LoopRef& turn : turns_) attempt(s, target_, [&](Schedule& t) { return unroll(t, {turn}).has_value(); });
    return check_on_device(s.func(), target_);
  }

  // Blocks, threads and turns of the last two loops of the run.
  Result<> cut(Schedule& s, const Loops& run) {
    const Tile& tile = options_.tile;
    Loops blocks(run.begin(), run.end() - 1);
    if (!blocks.empty()) {
      FETTLE_TRY(blocks.back(), cut_loop(s, blocks.back(), tile.turns_y, tile.threads_y));
    }
    FETTLE_TRY(const LoopRef last, cut_loop(s, run.back(), tile.turns_x, tile.threads_x));
    blocks.push_back(last);
    Loops order = blocks;
    for (const Loops* loops : {&threads_, &turns_}) order.insert(order.end(), loops->begin(), loops->end());
    FETTLE_TRY_VOID(reorder(s, {.loops = order}));
    FETTLE_TRY_VOID(bind_blocks(s, target_, blocks, false).map([](const Loops&) {}));
    FETTLE_TRY_VOID(bind(s, {.loop = threads_.back(), .thread_axis = "threadIdx.x"}));
    if (threads_.size() > 1) FETTLE_TRY_VOID(bind(s, {.loop = threads_.front(), .thread_axis = "threadIdx.y"}));
    return {};
  }

  // The part that is left for blocks. Neighbours are of different threads.
  Result<LoopRef> cut_loop(Schedule& s, LoopRef loop, int64_t turns, int64_t threads) {
    std::vector<IntRef> factors = {kInfer, threads};
    if (turns > 1) factors.insert(factors.begin() + 1, turns);
    FETTLE_TRY(const Loops parts, split(s, {.loop = loop, .factors = factors, .tail = Tail::kGuard}));
    if (turns > 1) turns_.push_back(parts[1]);
    threads_.push_back(parts.back());
    return parts[0];
  }

  // What a thread updates is its own while its loops in order run.
  void promote_updates(Schedule& s, BlockRef block) {
    attempt(s, target_, [&](Schedule& t) {
      const auto copies =
          cache_inplace(t, {.block = block, .write_index = 0, .loop = threads_.back(), .scope = "local"});
      return copies.has_value();
    });
  }

  // The innermost loop in order, in tiles.
  void cut_steps(Schedule& s) {
    if (in_order_.empty() || options_.steps < 2) return;
    const auto parts = split(s, {.loop = in_order_.back(), .factors = {kInfer, options_.steps}, .tail = Tail::kGuard});
    if (!parts) return;
    in_order_.back() = (*parts)[0];
    step_ = (*parts)[1];
  }

  void put_turns_innermost(Schedule& s) {
    if (turns_.empty() || in_order_.empty()) return;
    Loops order = in_order_;
    if (step_) order.push_back(*step_);
    order.insert(order.end(), turns_.begin(), turns_.end());
    attempt(s, target_, [&](Schedule& t) { return reorder(t, {.loops = order}).has_value(); });
  }

  // Reads that several threads share, or neighbours overlap in, are of copies that all threads of a block make.
  void promote_reads(Schedule& s, BlockRef block) {
    const LoopRef at = step_ ? in_order_.back() : threads_.back();
    for (int64_t read = 0;; ++read) {
      const auto node = block_node(s, block);
      if (!node || read >= static_cast<int64_t>((*node)->reads.size())) return;
      if (!is_shared(s, **node, (*node)->reads[static_cast<size_t>(read)].buffer)) continue;
      attempt(s, target_, [&](Schedule& t) -> bool {
        const auto copy = cache_read(t, {.block = block, .read_index = read, .scope = "shared"});
        return copy && compute_at(t, {.block = *copy, .loop = at}) && share_copying(t, *copy, at);
      });
    }
  }

  // Several loads of the buffer by one instance, or a loop over threads that its indices do not move with.
  bool is_shared(const Schedule& s, const BlockNode& block, const Buffer& buffer) const {
    if (buffer->scope != kScopeGlobal) return false;
    const VarMap bindings = binding_map(block);
    const auto loads = loads_of(block.body, buffer.get());
    if (loads.size() > 1) return true;
    for (const LoopRef& thread : threads_) {
      const auto var = s.loop_var(thread);
      if (!var || loop_node(s, thread) == nullptr || is_one(loop_node(s, thread)->extent)) continue;
      for (const auto& indices : loads)
        if (std::ranges::none_of(indices, [&](const Expr& i) { return uses_var(substitute(i, bindings), var->get()); }))
          return true;
    }
    return false;
  }

  bool share_copying(Schedule& s, BlockRef copy, LoopRef at) const {
    const auto loops = loops_below(s, copy, at);
    if (!loops || loops->empty()) return false;
    const auto flat = fuse(s, {.loops = *loops});
    if (!flat) return false;
    std::vector<IntRef> factors = {kInfer};
    if (threads_.size() > 1) factors.emplace_back(options_.tile.threads_y);
    factors.emplace_back(options_.tile.threads_x);
    const auto parts = split(s, {.loop = *flat, .factors = factors, .tail = Tail::kGuard});
    if (!parts || !bind(s, {.loop = parts->back(), .thread_axis = "threadIdx.x"})) return false;
    return threads_.size() == 1 || bind(s, {.loop = (*parts)[1], .thread_axis = "threadIdx.y"}).has_value();
  }

  const Target& target_;
  const Options& options_;
  std::string block_;
  Loops threads_, turns_, in_order_;
  std::optional<LoopRef> step_;
};

bool is_bound(const Func& func, const BlockNode* block) {
  return std::ranges::any_of(loops_around(func, block),
                             [](const ForNode* loop) { return loop->loop_kind == ForKind::kThreadBinding; });
}

}  // namespace

Result<> map_to_device(Schedule& s, const Target& target, Decider& decider) {
  FETTLE_TRY(const Options options, pick_options(s, target, decider));
  std::vector<std::string> names;
  for (const BlockNode* block : blocks_of(s.func().root())) names.push_back(block->name);
  for (const std::string& name : names) {
    const BlockNode* block = find_block(s.func()->body, name);
    if (!block || is_bound(s.func(), block)) continue;
    attempt(s, target, [&](Schedule& t) { return NestMapping(target, options, name).run(t).has_value(); });
  }
  return check_on_device(s.func(), target);
}

}  // namespace fettle
