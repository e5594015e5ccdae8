#include "tune/parts/row_group.h"

#include <algorithm>

#include "schedule/dataflow/dataflow.h"
#include "tune/parts/structure.h"

namespace fettle {
namespace {

constexpr int kNone = -1;

// For each loop of a block: the loop of the last block that it goes along with, or kNone.
using Along = std::vector<int>;

// Index d of the producer's store is one loop alone; index d of each consumer's load too, and it goes along with a row.
Along along_of(const BlockStructure& producer, const std::vector<const BlockStructure*>& consumers,
               const std::vector<const Along*>& consumers_along) {
  Along along(producer.n_iters(), kNone);
  for (size_t i = 0; i < producer.n_iters(); ++i) {
    if (producer.reduce[i]) continue;
    const int d = producer.store.dimension_of(producer.vars[i]);
    if (d < 0) continue;
    std::optional<int> row;
    bool fits = true;
    for (size_t c = 0; c < consumers.size(); ++c)
      for (const AccessPattern& load : consumers[c]->loads) {
        if (load.buffer != producer.store.buffer) continue;
        int here = kNone;
        for (size_t j = 0; j < consumers[c]->n_iters(); ++j)
          if (load.indices[static_cast<size_t>(d)].get() == consumers[c]->vars[j].get())
            here = (*consumers_along[c])[j];
        fits &= here != kNone && (!row || *row == here);
        row = here;
      }
    if (fits && row) along[i] = *row;
  }
  return along;
}

}  // namespace

std::optional<RowGroup> row_group(const Func& func) { return row_group(func, blocks_of(func.root())); }

std::optional<RowGroup> row_group(const Func& func, const std::vector<const BlockNode*>& blocks, Extents extents) {
  if (blocks.size() < 2 || std::none_of(blocks.begin(), blocks.end(), [](const BlockNode* b) { return bool(b->init); }))
    return {};
  std::vector<BlockStructure> structures;
  for (size_t b = 0; b < blocks.size(); ++b) {
    auto structure = block_structure(func, *blocks[b], extents);
    if (!structure) return {};
    const bool last = b + 1 == blocks.size();
    const BufferNode* buffer = structure->store.buffer.get();
    const auto readers = consumers_of(func.root(), buffer);
    const bool leaves = is_param(func, buffer) || std::any_of(readers.begin(), readers.end(), [&](const BlockNode* r) {
                          return std::find(blocks.begin(), blocks.end(), r) == blocks.end();
                        });
    if (leaves != last) return {};
    structures.push_back(std::move(*structure));
  }
  std::vector<Along> along(blocks.size());
  const BlockStructure& last = structures.back();
  for (size_t i = 0; i < last.n_iters(); ++i) along.back().push_back(last.reduce[i] ? kNone : static_cast<int>(i));
  for (size_t b = blocks.size() - 1; b-- > 0;) {
    std::vector<const BlockStructure*> consumers;
    std::vector<const Along*> consumers_along;
    for (size_t c = b + 1; c < blocks.size(); ++c) {
      const auto& loads = structures[c].loads;
      if (std::none_of(loads.begin(), loads.end(),
                       [&](const AccessPattern& load) { return load.buffer == structures[b].store.buffer; }))
        continue;
      consumers.push_back(&structures[c]);
      consumers_along.push_back(&along[c]);
    }
    if (consumers.empty()) return {};
    along[b] = along_of(structures[b], consumers, consumers_along);
  }
  RowGroup group;
  for (const BlockNode* block : blocks) group.blocks.push_back(block->name);
  for (size_t row = 0; row < last.n_iters(); ++row)
    if (std::all_of(along.begin(), along.end(),
                    [&](const Along& a) { return std::count(a.begin(), a.end(), static_cast<int>(row)) == 1; }))
      group.rows.push_back(row);
  for (const Along& a : along) {
    auto& own = group.rows_of.emplace_back();
    for (size_t row : group.rows)
      own.push_back(static_cast<size_t>(std::find(a.begin(), a.end(), static_cast<int>(row)) - a.begin()));
  }
  // One reduction with what follows it element by element is a matter of tiles, unless its terms are spread over lanes.
  const auto is_row = [&](size_t b, size_t loop) {
    return std::find(group.rows_of[b].begin(), group.rows_of[b].end(), loop) != group.rows_of[b].end();
  };
  if (std::none_of(blocks.begin(), blocks.end(), [](const BlockNode* b) { return combines_itself(*b); }) &&
      std::count_if(blocks.begin(), blocks.end(), [](const BlockNode* b) { return bool(b->init); }) < 2)
    return {};
  group.rows_are_contiguous =
      !group.rows.empty() && last.store.strides[group.rows.back()] == 1 && last.extents[group.rows.back()] > 1;
  // Where something else walks along memory, rows do not, though what is written may be one element a row.
  for (size_t b = 0; b < blocks.size(); ++b)
    for (size_t i = 0; i < structures[b].n_iters(); ++i) {
      if (is_row(b, i) || structures[b].is(i, 1)) continue;
      for (const AccessPattern& load : structures[b].loads)
        if (load.strides[i] == 1) group.rows_are_contiguous = false;
    }
  return group;
}

}  // namespace fettle
