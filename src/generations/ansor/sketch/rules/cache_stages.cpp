// Copies of what a node writes or is. It stays the working one.
//   rule 5: a node with data reuse and without a fusible consumer gets one: it writes to a cache, which a node of
//           its own copies back.  (S, i) → (AddCacheWrite(S, i), i)
//   rule 7, where tiles are bound to threads: what a tiled node alone reads is copied to memory that the threads of a
//           block share, below the first level of the reduction.  (S, i) → (AddCacheRead(S, i), i)

#include <algorithm>

#include "generations/ansor/sketch/conditions.h"
#include "generations/ansor/sketch/scheduled.h"
#include "generations/ansor/sketch/sketch.h"
#include "ir/visit.h"
#include "schedule/dataflow/dataflow.h"
#include "schedule/edit/edit.h"
#include "schedule/primitives.h"

namespace fettle {
namespace {

// The copy is the node behind the working one.
Result<std::vector<SketchState>> with_copy(SketchState next, BlockRef copy) {
  FETTLE_TRY(const Stmt node, next.schedule.block(copy));
  next.nodes.insert(next.nodes.begin() + static_cast<std::ptrdiff_t>(next.working), node.as<BlockNode>()->name);
  return std::vector{std::move(next)};
}

bool wants_stage(const SketchState& state) {
  const BlockNode* block = state.block();
  const Func& func = state.schedule.func();
  if (!block || !has_data_reuse(func, *block) || has_fusible_consumer(func, *block)) return false;
  if (state.has_cache_stage()) return false;  // whose copy cannot be fused: another one could not, either
  // The transform of Winograd's outputs reads columns of it at once: a copy would only come between.
  const auto readers = consumers_of(func.root(), block->writes[0].buffer.get());
  return std::ranges::none_of(readers, [](const BlockNode* reader) { return is_scheduled(*reader); });
}

Result<std::vector<SketchState>> add_stage(const SketchState& state) {
  SketchState next = state;
  FETTLE_TRY(const BlockRef block, next.working_block());
  FETTLE_TRY(const BlockRef copy, cache_write(next.schedule, {.block = block}));
  return with_copy(std::move(next), copy);
}

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

Result<std::vector<SketchState>> add_read(const SketchState& state) {
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
  return with_copy(std::move(next), copy);
}

}  // namespace

extern constinit const DerivationRule add_cache_stage_rule{"add_cache_stage", 5, wants_stage, add_stage};

extern constinit const DerivationRule add_cache_read_rule{
    "add_cache_read", 7,
    [](const SketchState& state) { return !state.options->tiling.tile_binds.empty() && tiled_reader(state); },
    add_read};

}  // namespace fettle
