// Rule 7, where tiles are bound to threads: what a tiled node alone reads is copied to memory that the threads of a
// block share, below the first level of the reduction. The node stays the working one.
//   (S, i) → (AddCacheRead(S, i), i)

#include <algorithm>

#include "generations/ansor/sketch/conditions.h"
#include "generations/ansor/sketch/sketch.h"
#include "ir/visit.h"
#include "schedule/dataflow/dataflow.h"
#include "schedule/edit/edit.h"
#include "schedule/primitives/cache_read.h"
#include "schedule/primitives/compute_at.h"
#include "schedule/primitives/get_block.h"
#include "schedule/primitives/get_loops.h"

namespace fettle {
namespace {

// What the working node is: a parameter of that name, or what its block writes.
const BufferNode* buffer_of(const SketchState& state) {
  if (const BlockNode* block = state.block())
    return block->writes.size() == 1 ? block->writes[0].buffer.get() : nullptr;
  for (const Param& param : state.schedule.func()->params)
    if (param.buffer->name == state.nodes[state.working - 1]) return param.buffer.get();
  return nullptr;
}

// The number of loops down to the last one of the first level of the block's reduction; 0 where there is none.
size_t depth_of_first_reduction(const Func& func, const BlockNode& block) {
  const auto reduces = std::ranges::count(block.iters, IterKind::kReduce, &IterVar::kind);
  const auto loops = loops_around(func, &block);
  const auto first = std::ranges::find_if(loops, [&](const auto& loop) {
    return std::ranges::any_of(block.iters, [&](const IterVar& iter) {
      return iter.kind == IterKind::kReduce && uses_var(iter.binding, loop->var.get());
    });
  });
  return first == loops.end() ? 0 : static_cast<size_t>(first - loops.begin() + reduces);
}

// The only reader, where it is tiled.
const BlockNode* tiled_reader(const SketchState& state) {
  const BufferNode* buffer = buffer_of(state);
  const Func& func = state.schedule.func();
  if (!buffer) return nullptr;
  const auto readers = consumers_of(func.root(), buffer);
  if (readers.size() != 1 || !has_data_reuse(func, *readers[0])) return nullptr;
  if (loops_around(func, readers[0]).size() == readers[0]->iters.size()) return nullptr;
  return depth_of_first_reduction(func, *readers[0]) > 0 ? readers[0] : nullptr;
}

bool applies(const SketchState& state) { return !state.options->tiling.tile_binds.empty() && tiled_reader(state); }

Result<std::vector<SketchState>> apply(const SketchState& state) {
  SketchState next = state;
  const BlockNode& reader = *tiled_reader(state);
  const BufferNode* buffer = buffer_of(state);
  const auto read = std::ranges::find_if(reader.reads, [&](const Region& r) { return r.buffer.get() == buffer; });
  const size_t depth = depth_of_first_reduction(state.schedule.func(), reader);
  FETTLE_TRY(const BlockRef block, get_block(next.schedule, {.name = reader.name}));
  FETTLE_TRY(const BlockRef copy,
             cache_read(next.schedule, {.block = block, .read_index = read - reader.reads.begin(), .scope = "shared"}));
  FETTLE_TRY(const std::vector<LoopRef> loops, get_loops(next.schedule, {block}));
  FETTLE_TRY_VOID(compute_at(next.schedule, {.block = copy, .loop = loops.at(depth - 1)}));
  FETTLE_TRY(const Stmt node, next.schedule.block(copy));
  next.nodes.insert(next.nodes.begin() + static_cast<std::ptrdiff_t>(next.working), node.as<BlockNode>()->name);
  return std::vector{std::move(next)};
}

}  // namespace

extern constinit const DerivationRule add_cache_read_rule{"add_cache_read", 7, applies, apply};

}  // namespace fettle
