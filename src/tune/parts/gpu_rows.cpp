#include "tune/parts/gpu_rows.h"

#include <algorithm>

#include "analysis/sites.h"
#include "ir/compare.h"
#include "ir/visit.h"
#include "schedule/dataflow/dataflow.h"
#include "schedule/primitives.h"
#include "tune/parts/structure.h"

namespace fettle {
namespace {

using Loops = std::vector<LoopRef>;

constexpr int64_t kMostKept = 64;  // elements of a row that a thread keeps in registers

// A block of a group on its way.
struct Part {
  BlockRef ref{};
  std::string name;
  bool reduces = false;
  size_t depth = 0;  // loops around that are the rows'
};

// Loops of the block below those of the rows: those of its result, and those of its reduction.
struct OwnLoops {
  Loops spatial, reduction;
};
Result<OwnLoops> own_loops(Schedule& s, const Part& part) {
  FETTLE_TRY(const BlockNode* node, block_node(s, part.ref));
  FETTLE_TRY(const Loops all, get_loops(s, {.block = part.ref}));
  OwnLoops own;
  for (size_t i = part.depth; i < all.size(); ++i) {
    FETTLE_TRY(const Var var, s.loop_var(all[i]));
    const bool reduces = std::ranges::any_of(node->iters, [&](const IterVar& iter) {
      return iter.kind == IterKind::kReduce && uses_var(iter.binding, var.get());
    });
    (reduces ? own.reduction : own.spatial).push_back(all[i]);
  }
  return own;
}

Result<> unroll_short(Schedule& s, const Loops& loops) {
  for (const LoopRef& loop : loops) {
    FETTLE_TRY(const Extent extent, extent_of_loop(s, loop));
    if (extent.constant && extent.value <= kMostKept) FETTLE_TRY_VOID(unroll(s, {.loop = loop}));
  }
  return {};
}

// [turn, thread, lane] of a row's elements → thread outside, turns unrolled, and the lanes. `kept`: each thread has all
// of its elements in registers.
Result<> deal_out_elements(Schedule& s, const Loops& elements, const RowThreads& by, bool lanes_are_accesses,
                           bool kept) {
  FETTLE_TRY(const LoopRef all, fuse(s, {.loops = elements}));
  FETTLE_TRY(const Extent extent, extent_of_loop(s, all));
  const int64_t at_once = by.threads * by.lanes;
  if (kept && (!extent.constant || extent.value > kMostKept * by.threads))
    return fail(ErrorCode::E230, "the row is too long for registers");
  const bool exact = extent.constant && extent.value % at_once == 0;
  Loops parts, lanes;
  LoopRef rest = all;
  if (by.lanes > 1) {
    FETTLE_TRY(parts, split(s, {.loop = rest, .factors = {kInfer, by.lanes}}));
    rest = parts[0];
    lanes = {parts[1]};
  }
  FETTLE_TRY(parts,
             split(s, {.loop = rest, .factors = {kInfer, by.threads}, .tail = exact ? Tail::kExact : Tail::kGuard}));
  Loops order = {parts[1], parts[0]};
  order.insert(order.end(), lanes.begin(), lanes.end());
  FETTLE_TRY_VOID(reorder(s, {.loops = order}));
  FETTLE_TRY_VOID(bind(s, {.loop = parts[1], .thread_axis = "threadIdx.x"}));
  if (extent.constant && extent.value <= kMostKept * by.threads) FETTLE_TRY_VOID(unroll(s, {.loop = parts[0]}));
  for (const LoopRef& lane : lanes)
    FETTLE_TRY_VOID(lanes_are_accesses ? vectorize(s, {.loop = lane}) : unroll(s, {.loop = lane}));
  return {};
}

class Rows {
 public:
  Rows(Schedule& s, const Target& target, const RowGroup& group, bool keeps)
      : s_(s), target_(target), group_(group), keeps_(keeps) {}

  Result<Finished> run() {
    FETTLE_TRY_VOID(read_row());
    FETTLE_TRY_VOID(join());
    if (keeps_) FETTLE_TRY_VOID(keep_inputs());
    for (const Part& part : parts_) FETTLE_TRY_VOID(schedule(part));
    return finished_;
  }

 private:
  // Threads and lanes of a row: those among which the first reduction in parts has been split.
  Result<> read_row() {
    std::vector<std::pair<int64_t, int64_t>> parts;  // of each reduction in parts: how many, of how many terms
    for (size_t b = 0; b < group_.blocks.size(); ++b) {
      const auto structure = block_structure(s_.func(), *find_block(s_.func()->body, group_.blocks[b]), Extents::kOpen);
      if (!structure) return fail(ErrorCode::E230, group_.blocks[b] + " is not one store");
      int64_t spatial = 1, terms = 1;
      bool open = false;
      for (size_t i = 0; i < structure->n_iters(); ++i) {
        if (std::ranges::find(group_.rows_of[b], i) != group_.rows_of[b].end()) continue;
        (structure->reduce[i] ? terms : spatial) *= structure->extents[i];
        open |= !structure->reduce[i] && structure->open[i];
      }
      const bool reduces = static_cast<bool>(find_block(s_.func()->body, group_.blocks[b])->init);
      if (reduces && spatial > 1 && !open) parts.emplace_back(spatial, terms);
      finished_.push_back(group_.blocks[b]);
      parts_.push_back({.name = group_.blocks[b], .reduces = reduces});
    }
    if (parts.empty()) return fail(ErrorCode::E230, "no reduction of the rows has been split among threads");
    threads_ = {.threads = parts.front().first, .lanes = 1};
    const bool in_lanes = std::ranges::any_of(parts, [&](const auto& part) {
      return part.first * kLanesOfRows == threads_.threads && part.second == kLanesOfRows;
    });
    if (in_lanes) threads_ = {.threads = threads_.threads / kLanesOfRows, .lanes = kLanesOfRows};
    if (threads_.threads > target_.max_threads_per_block) return fail(ErrorCode::E230, "more threads than a block has");
    return {};
  }

  // One loop over blocks of threads around all blocks of the group.
  Result<> join() {
    Loops outer;
    for (size_t b = 0; b < parts_.size(); ++b) {
      Part& part = parts_[b];
      FETTLE_TRY(part.ref, get_block(s_, {.name = part.name}));
      FETTLE_TRY(const Loops all, get_loops(s_, {.block = part.ref}));
      Loops rows, order;
      for (const size_t r : group_.rows_of[b]) rows.push_back(all[r]);
      order = rows;
      for (const LoopRef& loop : all)
        if (std::ranges::find(rows, loop) == rows.end()) order.push_back(loop);
      if (order != all && order.size() > 1) FETTLE_TRY_VOID(reorder(s_, {.loops = order}));
      LoopRef row{};
      if (rows.empty()) {
        if (all.empty()) {
          FETTLE_TRY(row, add_unit_loop(s_, {.target = part.ref}));
        } else {
          FETTLE_TRY(row, add_unit_loop(s_, {.target = order.front()}));
        }
      } else {
        FETTLE_TRY(row, fuse(s_, {.loops = rows}));
      }
      outer.push_back(row);
      part.depth = 1;
    }
    LoopRef blocks = outer.front();
    if (outer.size() > 1) {
      FETTLE_TRY(blocks, merge(s_, {.loops = outer}));
    }
    blocks_ = blocks;
    return bind(s_, {.loop = blocks, .thread_axis = "blockIdx.x"});
  }

  // What blocks of the group read of memory along the row, and more than once.
  Result<> keep_inputs() {
    std::vector<Buffer> seen;
    for (size_t b = 0; b < parts_.size(); ++b) {
      FETTLE_TRY(const BlockNode* node, block_node(s_, parts_[b].ref));
      const std::vector<Region> reads = node->reads;
      for (const Region& read : reads) {
        if (made_here(read.buffer) || std::ranges::find(seen, read.buffer) != seen.end()) continue;
        if (!walks(parts_[b], read.buffer)) continue;
        seen.push_back(read.buffer);
        FETTLE_TRY(const Buffer kept, keep(b, read.buffer));
        seen.push_back(kept);
      }
    }
    return {};
  }

  bool made_here(const Buffer& buffer) const {
    return std::ranges::any_of(parts_, [&](const Part& part) {
      const BlockNode* node = find_block(s_.func()->body, part.name);
      return node && std::ranges::find(node->writes, buffer, &Region::buffer) != node->writes.end();
    });
  }

  // Whether each row, and each element of it, is another place of the buffer, and the only one.
  bool walks(const Part& part, const Buffer& buffer) const {
    const auto structure = structure_of(part);
    if (!structure) return false;
    const AccessPattern* found = nullptr;
    for (const auto& [load, vars] : *structure) {
      if (load.buffer != buffer) continue;
      if (found && !std::ranges::equal(found->indices, load.indices, structural_equal_exprs)) return false;
      found = &load;
      for (const int64_t stride : load.strides)
        if (stride == 0) return false;
    }
    return found != nullptr;
  }
  static bool structural_equal_exprs(const Expr& a, const Expr& b) { return structural_equal(a, b); }

  std::optional<std::vector<std::pair<AccessPattern, size_t>>> structure_of(const Part& part) const {
    const BlockNode* node = find_block(s_.func()->body, part.name);
    const StoreNode* store = node ? single_store(*node) : nullptr;
    if (!store) return {};
    const VarMap bindings = binding_map(*node);
    std::vector<Var> vars;
    for (const ForNode* loop : loops_around(s_.func(), node))
      if (!is_one(loop->extent)) vars.push_back(loop->var);
    std::vector<std::pair<AccessPattern, size_t>> found;
    walk(store->value, [&](const Expr& e) {
      const auto* load = e.as<LoadNode>();
      if (!load) return true;
      std::vector<Expr> indices;
      for (const Expr& index : load->indices) indices.push_back(simplify(substitute(index, bindings)));
      AccessPattern access{load->buffer, indices, {}, false};
      access.strides = access_strides(*load->buffer, indices, vars, typical_values(s_.func()));
      found.emplace_back(std::move(access), vars.size());
      return false;
    });
    return found;
  }

  // Returns the copy in registers.
  Result<Buffer> keep(size_t first, const Buffer& buffer) {
    FETTLE_TRY(const BlockNode* node, block_node(s_, parts_[first].ref));
    const auto at = std::ranges::find(node->reads, buffer, &Region::buffer);
    std::vector<BlockRef> others;
    for (size_t b = first + 1; b < parts_.size(); ++b) {
      FETTLE_TRY(const BlockNode* other, block_node(s_, parts_[b].ref));
      if (read_region(*other, buffer.get()) && walks(parts_[b], buffer)) others.push_back(parts_[b].ref);
    }
    FETTLE_TRY(const BlockRef copy, cache_read(s_, {.block = parts_[first].ref,
                                                    .read_index = at - node->reads.begin(),
                                                    .scope = "local",
                                                    .consumer_blocks = others}));
    FETTLE_TRY(const BlockNode* made, block_node(s_, copy));
    const std::string name = made->name;
    const Buffer kept = made->writes.front().buffer;
    finished_.push_back(name);
    FETTLE_TRY(const Loops all, get_loops(s_, {.block = copy}));
    size_t around = 0;
    for (const LoopRef& loop : all) {
      FETTLE_TRY(const Var var, s_.loop_var(loop));
      FETTLE_TRY(const Var blocks, s_.loop_var(blocks_));
      if (var == blocks) around = 1;
    }
    if (around == 0) FETTLE_TRY_VOID(compute_at(s_, {.block = copy, .loop = blocks_}));
    Part part{.ref = copy, .name = name, .depth = 1};
    FETTLE_TRY(const OwnLoops own, own_loops(s_, part));
    FETTLE_TRY_VOID(deal_out_elements(s_, own.spatial, threads_, true, true));
    return kept;
  }

  Result<> schedule(const Part& part) {
    FETTLE_TRY(const BlockNode* node, block_node(s_, part.ref));
    const bool is_output = is_param(s_.func(), node->writes.front().buffer.get()) || read_later(*node);
    FETTLE_TRY(const OwnLoops own, own_loops(s_, part));
    const auto in = [&](const char* scope) -> Result<> {
      if (is_output) return {};
      return set_scope(s_, {.block = part.ref, .index = 0, .scope = scope});
    };
    int64_t elements = 1;
    for (const LoopRef& loop : own.spatial) {
      FETTLE_TRY(const Extent extent, extent_of_loop(s_, loop));
      elements *= extent.value;
    }
    const RowThreads& by = threads_;
    if (!part.reduces) {
      if (own.spatial.empty()) return in("local");
      FETTLE_TRY_VOID(in("local"));
      return deal_out_elements(s_, own.spatial, by, is_output, !is_output);
    }
    if (own.spatial.empty()) {  // by all threads, each for itself
      if (is_output) {
        FETTLE_TRY(const BlockRef back, cache_write(s_, {.block = part.ref, .write_index = 0, .scope = "local"}));
        FETTLE_TRY(const BlockNode* copy, block_node(s_, back));
        finished_.push_back(copy->name);
        FETTLE_TRY_VOID(unroll_short(s_, own.reduction));
        const auto moved = reverse_compute_at(s_, {.block = back, .loop = blocks_});
        return moved || moved.error().code == ErrorCode::E207 ? Result<>() : moved;
      }
      FETTLE_TRY_VOID(in("local"));
      return unroll_short(s_, own.reduction);
    }
    FETTLE_TRY(const LoopRef all, fuse(s_, {.loops = own.spatial}));
    LoopRef thread = all;
    Loops lanes;
    if (elements == by.threads * by.lanes && by.lanes > 1) {
      FETTLE_TRY(const Loops cut, split(s_, {.loop = all, .factors = {kInfer, by.lanes}}));
      thread = cut[0];
      lanes = {cut[1]};
      Loops order = {thread};
      order.insert(order.end(), own.reduction.begin(), own.reduction.end());
      order.push_back(cut[1]);
      FETTLE_TRY_VOID(reorder(s_, {.loops = order}));
    }
    FETTLE_TRY_VOID(in(lanes.empty() ? "shared" : "local"));
    FETTLE_TRY_VOID(bind(s_, {.loop = thread, .thread_axis = "threadIdx.x"}));
    FETTLE_TRY_VOID(unroll_short(s_, own.reduction));
    return unroll_short(s_, lanes);
  }

  bool read_later(const BlockNode& node) const {
    const auto readers = consumers_of(s_.func().root(), node.writes.front().buffer.get());
    return std::ranges::any_of(readers, [&](const BlockNode* reader) {
      return std::ranges::find(finished_, reader->name) == finished_.end();
    });
  }

  Schedule& s_;
  const Target& target_;
  const RowGroup& group_;
  const bool keeps_;
  RowThreads threads_;
  std::vector<Part> parts_;
  LoopRef blocks_{};
  Finished finished_;
};

}  // namespace

bool splits_rows(const Func& func, const RowGroup& group) {
  for (size_t b = 0; b < group.blocks.size(); ++b) {
    const BlockNode* block = find_block(func->body, group.blocks[b]);
    const auto structure = block->init ? block_structure(func, *block, Extents::kOpen) : std::nullopt;
    for (size_t i = 0; structure && i < structure->n_iters(); ++i)
      if (!structure->reduce[i] && structure->extents[i] > 1 &&
          std::ranges::find(group.rows_of[b], i) == group.rows_of[b].end())
        return true;
  }
  return false;
}

Result<Finished> gpu_rows(Schedule& s, const Target& target, const RowGroup& group, bool keeps) {
  return Rows(s, target, group, keeps).run();
}

}  // namespace fettle
