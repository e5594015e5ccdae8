#include "tune/parts/lane_reductions.h"

#include <algorithm>

#include "ir/visit.h"
#include "schedule/dataflow/dataflow.h"
#include "schedule/primitives.h"
#include "schedule/reformulation.h"
#include "tune/parts/loops.h"
#include "tune/parts/preferences.h"
#include "tune/parts/structure.h"

namespace fettle {
namespace {

// The last of the reduction's iterators, where it moves a load along memory that every spatial iterator moves, too, all
// by steps of their own (the channels of a group read the same ones), and none along memory.
std::optional<size_t> reduced_along_memory(const Func& func, const BlockStructure& block) {
  std::optional<size_t> r;
  for (size_t i = 0; i < block.n_iters(); ++i)
    if (block.reduce[i]) r = i;
  if (!r) return {};
  const bool has_load = std::any_of(block.loads.begin(), block.loads.end(), [&](const AccessPattern& load) {
    if (load.strides[*r] != 1 || is_constant(func, load.buffer)) return false;
    for (size_t i = 0; i < block.n_iters(); ++i) {
      const int64_t stride = load.strides[i];
      if (i != *r && block.extents[i] > 1 && (stride == 0 || stride == 1 || stride == AccessPattern::kIrregular))
        return false;
    }
    return true;
  });
  return has_load ? r : std::nullopt;
}

// A division by what the program itself has computed for several elements.
bool shares_divisor(const Func& func, const BlockNode& block) {
  const StoreNode* store = single_store(block);
  bool shares = false;
  if (store && !block.init)
    walk(store->value, [&](const Expr& e) {
      const auto* division = e.as<BinaryNode>();
      if (division && division->op == BinaryOp::kDiv)
        walk(division->b, [&](const Expr& x) {
          const auto* load = x.as<LoadNode>();
          shares |= load && !is_param(func, load->buffer.get());
          return !shares;
        });
      return !shares;
    });
  return shares;
}

Result<> split_into_lanes(Schedule& s, const Target& target, Decider& decider, const std::string& name) {
  const Func func = s.func();
  const auto structure = block_structure(func, *find_block(func->body, name), Extents::kOpen);
  const auto reduced = structure ? reduced_along_memory(func, *structure) : std::nullopt;
  if (!reduced) return {};
  int64_t lanes = lanes_of(target, structure->store.buffer->dtype);
  const int64_t total = structure->extents[*reduced];
  int64_t rows = 1;
  for (size_t i = 0; i < structure->n_iters(); ++i)
    if (!structure->reduce[i]) rows *= structure->extents[i];
  // Short sums of products with constants have something better to fill vectors with.
  const bool weighs = std::any_of(structure->loads.begin(), structure->loads.end(),
                                  [&](const AccessPattern& load) { return is_constant(func, load.buffer); });
  if (weighs && total < 2 * lanes) return {};
  while (!structure->open[*reduced] && lanes > total) lanes /= 2;
  if (lanes < 4) return {};
  // Rows hide the latency of adding; where there are few, or long ones, more parts do.
  std::vector<int64_t> vectors = {1};
  size_t preferred = 0;
  for (int64_t k : {2, 4})
    if (k * lanes * 2 <= total) {
      vectors.push_back(k);
      if (rows * k <= preferences::kFewSums || 2 * k * k * lanes <= total) preferred = vectors.size() - 1;
    }
  // Rows from memory are read several at once, which hide it.
  if (streams_rows(*structure, target)) preferred = 0;
  // One chain of additions over a long row is slower than several in any case.
  if (preferred == 2 && rows > preferences::kFewSums) {
    vectors.erase(vectors.begin());
    --preferred;
  }
  s.set_address_prefix("lane_reductions/" + name);
  FETTLE_TRY(const int64_t k, decider.pick(s, {"vectors", vectors, preferred}));
  Schedule trial = s;
  FETTLE_TRY(const BlockRef block, get_block(trial, {.name = name}));
  if (reduce_in_lanes(trial, block, k * lanes)) s = std::move(trial);
  return {};
}

}  // namespace

Result<> reduce_in_lanes(Schedule& s, BlockRef block, int64_t parts) {
  FETTLE_TRY(const std::vector<BlockRef> made,
             reformulate(s, {.block = block, .kind = "split_reduction", .numbers = {parts, 1}}));
  return reformulate(s, {.block = made.back(), .kind = "pairwise_reduction"}).map([](const std::vector<BlockRef>&) {});
}

bool try_shared_reciprocal(Schedule& s, const std::string& block) {
  Schedule trial = s;
  const auto ref = get_block(trial, {.name = block});
  if (!ref || !reformulate(trial, {.block = *ref, .kind = "shared_reciprocal"})) return false;
  s = std::move(trial);
  return true;
}

Result<> lane_reductions(Schedule& s, const Target& target, Decider& decider) {
  std::vector<std::string> reductions, divisions;
  const Func func = s.func();
  for (const BlockNode* block : blocks_of(func.root())) {
    const std::string_view role = role_of(*block);  // what has one of these two is scheduled with the product
    if (block->init && role != kDataRole && role != kOutputsRole) reductions.push_back(block->name);
    if (shares_divisor(func, *block)) divisions.push_back(block->name);
  }
  for (const std::string& name : reductions) FETTLE_TRY_VOID(split_into_lanes(s, target, decider, name));
  for (const std::string& name : divisions) try_shared_reciprocal(s, name);
  return {};
}

}  // namespace fettle
