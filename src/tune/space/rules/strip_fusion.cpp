// Reductions that hand an image on to each other, strip by strip: a few rows of pixels go through all of them before
// the next ones, so that what lies between stays in the caches.
//
//   for h, w, c: for kh, kw: D[h, w, c] += X[h + kh, w + kw, c] * K[kh, kw, c]       (depthwise)
//   for h, w, c: E[h, w, c] = max(D[h, w, c], 0)
//   for h, w, o: for c: P[h, w, o] += E[h, w, c] * W[c, o]                            (1x1)
//   →
//   for h0 (parallel):
//     register tiles of D for the rows h0*r … h0*r + r - 1, written back as E
//     register tiles of P for the same rows
//
// Each reduction multiplies data with weights, and reads of what the one before it has made its own rows only.

#include <algorithm>

#include "schedule/dataflow/dataflow.h"
#include "schedule/primitives.h"
#include "target/caches.h"
#include "tune/parts/copies.h"
#include "tune/parts/threads.h"
#include "tune/parts/tiling.h"
#include "tune/space/rule.h"
#include "tune/space/rules/register_tiling.h"

namespace fettle {
namespace {

using Loops = std::vector<LoopRef>;

// A chain of reductions and what is done element by element with what they make.
struct Chain {
  std::vector<std::string> blocks;      // in program order; the last one writes the output
  std::vector<std::string> reductions;  // of these
  size_t row = 0;                       // the loop of the last block that walks through rows of pixels
  int64_t rows = 1;
  bool open = false;      // their number is none that is known
  int64_t row_bytes = 0;  // of a row of all that lies between the blocks
};

std::optional<Chain> chain_of(const RuleContext& ctx) {
  const Func& func = ctx.schedule.func();
  const std::vector<const BlockNode*> blocks = blocks_of(func.root());
  Chain chain;
  std::optional<BlockStructure> last, last_reduction;
  int64_t between_bytes = 0;
  for (const BlockNode* block : blocks) {
    const auto structure = block_structure(func, *block, Extents::kOpen);
    if (!structure) return {};
    const bool is_last = block == blocks.back();
    if (is_param(func, structure->store.buffer.get()) != is_last) return {};
    chain.blocks.push_back(block->name);
    if (block->init) {
      if (!structure->multiplies_two_loads) return {};
      if (is_constant(func, structure->loads[0].buffer) == is_constant(func, structure->loads[1].buffer)) return {};
      // Rows that several strips need would be made several times.
      for (const AccessPattern& load : structure->loads)
        if (!is_param(func, load.buffer.get()) && !chain.reductions.empty())
          for (size_t i = 0; i < structure->n_iters(); ++i)
            for (size_t j = 0; j < structure->n_iters(); ++j)
              if (structure->reduce[i] && !structure->reduce[j] &&
                  load.shares_dimension(structure->vars[i], structure->vars[j]))
                return {};
      if (!tiling_roles(func, *structure)) return {};
      chain.reductions.push_back(block->name);
      last_reduction = structure;
    }
    if (!is_last) {
      int64_t bytes = structure->store.buffer->dtype.element_bytes();
      for (size_t i = 0; i < structure->n_iters(); ++i)
        if (!structure->reduce[i]) bytes *= structure->extents[i];
      between_bytes = std::max(between_bytes, bytes);
    }
    last = structure;
  }
  if (chain.reductions.size() < 2 || last->store.indices.size() < 2) return {};
  // Images in batches have one more dimension in front.
  chain.row = last->store.indices.size() > 3 ? 1 : 0;
  if (chain.row >= last->n_iters() || last->reduce[chain.row] || last->extents[chain.row] < 2) return {};
  // Channels last: what walks through weights is no row of pixels.
  for (const AccessPattern& load : last_reduction->loads)
    if (is_constant(func, load.buffer) && load.touches(chain.row)) return {};
  chain.rows = last->extents[chain.row];
  chain.open = last->open[chain.row];
  const int64_t images = chain.row == 1 ? last->extents[0] : 1;
  chain.row_bytes = between_bytes / (chain.rows * images);
  return chain;
}

// Divisors of the number of rows, ascending: 1 alone where that is open. The preferred one has as many rows as take an
// eighth of the second-level cache, and gives each thread as much as the others.
std::pair<std::vector<int64_t>, size_t> strip_heights(const RuleContext& ctx, const Chain& chain) {
  const int64_t l2 = cache_bytes(*ctx.target, 1);
  std::vector<int64_t> heights;
  size_t preferred = 0;
  if (chain.open) return {{1}, 0};
  for (int64_t height = 1; height <= chain.rows; ++height) {
    if (chain.rows % height != 0) continue;
    const int64_t strips = chain.rows / height;
    const bool shared_well = strips % ctx.threads == 0 || strips >= int64_t{8} * ctx.threads;
    if (height == 1 || (height * chain.row_bytes <= l2 / 8 && shared_well)) preferred = heights.size();
    heights.push_back(height);
  }
  return {heights, preferred};
}

bool applies(const RuleContext& ctx, const BlockNode&) { return ctx.done.empty() && chain_of(ctx).has_value(); }

Result<> apply(RuleContext& ctx, BlockRef) {
  Schedule& s = ctx.schedule;
  const auto chain = chain_of(ctx);
  if (!chain) return fail(ErrorCode::E230, "the blocks are no chain of reductions");
  const std::string& last = chain->blocks.back();
  s.set_address_prefix("strip_fusion/" + last);
  const auto [heights, preferred] = strip_heights(ctx, *chain);
  FETTLE_TRY(const int64_t height, choose(ctx, "height", heights, preferred));
  FETTLE_TRY(const BlockRef block, get_block(s, {.name = last}));
  FETTLE_TRY(const Loops loops, get_loops(s, {.block = block}));
  FETTLE_TRY(const Loops strips, split(s, {.loop = loops[chain->row], .factors = {kInfer, height}}));
  Loops shared(loops.begin(), loops.begin() + static_cast<std::ptrdiff_t>(chain->row));
  shared.push_back(strips[0]);
  for (size_t b = chain->blocks.size() - 1; b-- > 0;) {
    FETTLE_TRY(const BlockRef part, get_block(s, {.name = chain->blocks[b]}));
    FETTLE_TRY_VOID(compute_at(s, {.block = part, .loop = shared.back()}));
  }
  for (const std::string& name : chain->reductions) {
    FETTLE_TRY(const BlockRef part, get_block(s, {.name = name}));
    FETTLE_TRY_VOID(tile_in_registers(ctx, part, shared.size()));
  }
  // Padding that is a copy of its own, and what else is left.
  std::vector<std::string> left;
  for (const BlockNode* node : blocks_of(s.func().root()))
    if (!ctx.is_done(*node)) left.push_back(node->name);
  for (const std::string& name : left) {
    FETTLE_TRY(const BlockRef part, get_block(s, {.name = name}));
    FETTLE_TRY(const BlockNode* node, block_node(s, part));
    const StoreNode* store = single_store(*node);
    if (!store || node->init) return fail(ErrorCode::E230, name + " cannot join the strips");
    FETTLE_TRY_VOID(vectorize_copy(s, part, shared.size(), ctx.lanes(store->buffer->dtype), false));
    ctx.done.insert(name);
  }
  return parallelize(s, shared, {.threads = ctx.threads});
}

}  // namespace

extern constinit const Rule strip_fusion_def = {"strip_fusion", applies, apply};

}  // namespace fettle
