#include "tune/parts/gpu_reductions.h"

#include <algorithm>

#include "analysis/verify.h"
#include "schedule/dataflow/dataflow.h"
#include "schedule/primitives.h"
#include "tune/parts/gpu_width.h"
#include "tune/parts/loops.h"
#include "tune/parts/structure.h"

namespace fettle {
namespace {

constexpr int64_t kFewestElements = 32;  // of a row; shorter ones are a thread's
constexpr int64_t kTurns = 4;            // that a thread has of a row, if it is so long
constexpr int64_t kMostTurns = 8;        // with up to 1024 threads
constexpr int64_t kWarp = 32;
constexpr int64_t kUsualThreads = 256, kMostThreads = 1024;
constexpr int64_t kGroups = 16;              // of threads, whose parts are reduced first
constexpr int64_t kThreadsOfUnit = 1024;     // of a multiprocessor, where all threads reduce one thing
constexpr int64_t kBlocksOfUnit = 16;        // of a multiprocessor, where blocks share one thing
constexpr int64_t kFewestOfChunk = 4096;     // elements of such a block
constexpr int64_t kThreadsOfColumns = 4096;  // of a multiprocessor, where each adds up terms of one result
constexpr int64_t kFewestTerms = 16;         // of a part of a column

// The last iterator of a reduction along memory, where no iterator of the result moves along what is reduced. What a
// row has once, such as its mean, does not count.
std::optional<size_t> along_memory(const BlockStructure& block) {
  std::optional<size_t> last;
  for (size_t i = 0; i < block.n_iters(); ++i)
    if (block.reduce[i]) last = i;
  if (!last) return {};
  bool reads_along = false;
  for (const AccessPattern& load : block.loads) {
    bool is_reduced = false;
    for (size_t i = 0; i < block.n_iters(); ++i) is_reduced |= block.reduce[i] && load.touches(i);
    if (!is_reduced) continue;
    reads_along |= load.strides[*last] == 1;
    for (size_t i = 0; i < block.n_iters(); ++i)
      if (!block.reduce[i] && block.extents[i] > 1 && load.strides[i] == 1) return {};
  }
  return reads_along ? last : std::nullopt;
}

int64_t threads_of(const Target& target, int64_t of_unit) {
  return (target.gpu ? target.gpu->multiprocessors : 1) * of_unit;
}

// Where neighbouring results lie side by side, each thread has one; where these are too few for all threads, several
// have parts of it, and a further launch reduces these.
Result<> split_columns(Schedule& s, const Target& target, Decider& decider, const BlockStructure& structure,
                       const std::string& name) {
  std::optional<size_t> last;
  for (size_t i = 0; i < structure.n_iters(); ++i)
    if (structure.reduce[i]) last = i;
  if (!last || structure.open[*last]) return {};
  const int64_t terms = structure.extents[*last], results = structure.points() / terms;
  const int64_t wanted = threads_of(target, kThreadsOfColumns) / std::max<int64_t>(results, 1);
  int64_t parts = 1;
  while (2 * parts <= wanted && 2 * parts * kFewestTerms <= terms) parts *= 2;
  while (parts > 1 && terms % parts != 0) --parts;  // of one length
  if (parts == 1) return {};
  std::vector<int64_t> others;
  for (const int64_t other : {parts / 2, 2 * parts})
    if (other > 1 && other < terms && terms % other == 0) others.push_back(other);
  FETTLE_TRY(parts, decider.pick(s, {"parts", first_of(parts, others)}));
  FETTLE_TRY(const BlockRef block, get_block(s, {.name = name}));
  return reformulate(s, {.block = block, .kind = "split_reduction", .numbers = {parts}})
      .map([](const std::vector<BlockRef>&) {});
}

// Where few results are sums of very many terms: blocks of threads that share one, each having neighbours. Powers of
// two, such that accesses of several elements go on.
int64_t chunks_of(const Target& target, int64_t results, const Extent& terms) {
  if (!terms.constant || terms.value <= kMostElementsOfBlock) return 1;
  const int64_t wanted = threads_of(target, kBlocksOfUnit) / std::max<int64_t>(results, 1);
  int64_t chunks = 1;
  while (2 * chunks <= wanted && terms.value % (2 * chunks * kLanesOfRows) == 0 &&
         terms.value / (2 * chunks) >= kFewestOfChunk)
    chunks *= 2;
  return chunks;
}

Result<> split_row(Schedule& s, const Target& target, Decider& decider, const std::string& name) {
  const auto structure = block_structure(s.func(), *find_block(s.func()->body, name), Extents::kOpen);
  if (!structure || is_matrix_product(*structure)) return {};
  const auto last = along_memory(*structure);
  if (!last) return split_columns(s, target, decider, *structure, name);
  Extent terms{.expr = {}, .value = structure->extents[*last], .constant = !structure->open[*last]};
  const int64_t results = structure->points() / terms.value;
  const int64_t all = threads_of(target, kThreadsOfUnit);
  Schedule trial = s;
  FETTLE_TRY(BlockRef block, get_block(trial, {.name = name}));
  BlockRef made_first = block;
  const auto in_parts = [&](std::vector<IntRef> numbers) -> Result<> {
    FETTLE_TRY(const std::vector<BlockRef> made,
               reformulate(trial, {.block = block, .kind = "split_reduction", .numbers = std::move(numbers)}));
    made_first = made.front();
    block = made.back();
    return {};
  };
  if (const int64_t chunks = chunks_of(target, results, terms); chunks > 1) {
    if (in_parts({chunks})) {
      FETTLE_TRY(const BlockNode* first, block_node(trial, made_first));
      s = std::move(trial);
      const std::string part = first->name;
      FETTLE_TRY_VOID(split_row(s, target, decider, part));
      return split_row(s, target, decider, name);
    }
  } else if (results * kUsualThreads < all && terms.value >= 4 * all / results && terms.value / (all / results) >= 4) {
    const int64_t parts = all / std::max<int64_t>(results, 1);
    if (in_parts({parts, 1})) terms = {.expr = {}, .value = parts, .constant = true};
  }
  const auto dealt_out = row_threads(terms);
  if (!dealt_out) return {};
  if (!in_parts({dealt_out->threads * dealt_out->lanes, 1})) return {};
  if (dealt_out->lanes > 1) FETTLE_TRY_VOID(in_parts({dealt_out->threads}));
  if (dealt_out->threads > 2 * kGroups) FETTLE_TRY_VOID(in_parts({kGroups}));
  s = std::move(trial);
  return {};
}

}  // namespace

std::optional<RowThreads> row_threads(const Extent& elements) {
  if (elements.value < kFewestElements) return {};
  RowThreads by;
  if (elements.constant && elements.value % kLanesOfRows == 0) by.lanes = kLanesOfRows;
  const int64_t accesses = elements.value / by.lanes;
  by.threads = 8;
  while (by.threads < kWarp && 2 * by.threads <= accesses) by.threads *= 2;
  while (by.threads < kUsualThreads && 2 * by.threads * kTurns <= accesses) by.threads *= 2;
  while (by.threads < kMostThreads && accesses > kMostTurns * by.threads) by.threads *= 2;
  return by;
}

Result<> split_rows_among_threads(Schedule& s, const Target& target, Decider& decider) {
  std::vector<std::string> reductions;
  for (const BlockNode* block : blocks_of(s.func().root()))
    if (block->init) reductions.push_back(block->name);
  for (const std::string& name : reductions) {
    Schedule before = s;
    if (!split_row(s, target, decider, name) || !verify(s.func(), target)) s = std::move(before);
  }
  return {};
}

}  // namespace fettle
