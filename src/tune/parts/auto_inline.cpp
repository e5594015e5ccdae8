#include "tune/parts/auto_inline.h"

#include <algorithm>

#include "ir/visit.h"
#include "schedule/dataflow/dataflow.h"
#include "schedule/reformulation.h"
#include "tune/parts/inline.h"
#include "tune/parts/loops.h"
#include "tune/parts/preferences.h"
#include "tune/parts/tensor_product.h"
#include "tune/parts/tiling.h"
#include "tune/parts/transposing.h"

namespace fettle {
namespace {

bool is_costly(const Expr& value) {
  bool costly = false;
  walk(value, [&](const Expr& e) {
    if (const auto* call = e.as<CallNode>(); call && call->name != "likely") costly = true;
    if (const auto* binary = e.as<BinaryNode>(); binary && binary->op == BinaryOp::kDiv) costly = true;
    return !costly;
  });
  return costly;
}

// Whether all blocks are elementwise, over the same points: they will share a loop, where each value is computed once.
bool are_elementwise(const Func& func) {
  std::optional<std::vector<int64_t>> points;
  for (const BlockNode* block : blocks_of(func.root())) {
    const auto structure = block->init ? std::nullopt : block_structure(func, *block, Extents::kOpen);
    if (!structure || std::ranges::any_of(structure->reduce, [](bool r) { return r; })) return false;
    if (points && *points != structure->extents) return false;
    points = structure->extents;
  }
  return true;
}

// Values that read each other twice, one after the other, as rounds of a random number generator do, double each time.
bool is_too_large(const Expr& value, size_t reads, bool elementwise) {
  constexpr size_t kMostNodes = 20'000, kMostElementwise = 48;
  const size_t most = elementwise && reads > 1 ? kMostElementwise : kMostNodes;
  size_t nodes = 0;
  walk(value, [&](const Expr&) { return ++nodes * reads <= most; });
  return nodes * reads > most;
}

// More than one operation, done once where it is, would be done for every element of a wider reader.
bool repeats_work(const Func& func, const BlockNode& block, const Expr& value,
                  const std::vector<const BlockNode*>& readers) {
  int operations = 0;
  walk(value, [&](const Expr& e) {
    if (e.dtype().is_float() && (e.as<BinaryNode>() || e.as<CallNode>())) ++operations;
    return true;
  });
  const auto own = block_structure(func, block, Extents::kOpen);
  return operations > 1 && own && std::any_of(readers.begin(), readers.end(), [&](const BlockNode* reader) {
           const auto wider = block_structure(func, *reader, Extents::kOpen);
           return wider && wider->points() > own->points();
         });
}

// Padding that is inlined unrolls the taps of a row, so that its borders are constant. Where a row has many taps,
// neighbouring pixels share more elements than there are registers, unless the channels can be brought innermost: a
// padded copy is better. Not so where the elements are vectors (depthwise convolutions): tiles are chosen so that
// registers hold what is shared; nor where a picture has so few channels that one loop takes all of a row's taps.
// And it is where the copy turns the image, so that the reader's lanes need not gather: `transposes`.
bool prefers_copy(const Func& func, const Stmt& copied, const std::vector<const BlockNode*>& readers,
                  const BufferNode* buffer, bool transposes) {
  bool free_layout = false;
  walk(
      copied, [](const Stmt&) { return true; },
      [&](const Expr& e) {
        const auto* source = e.as<LoadNode>();
        const Param* param = source ? func.find_param(source->buffer.get()) : nullptr;
        free_layout |= param && param->free_layout;
        return true;
      });
  if (free_layout) return false;
  for (const BlockNode* reader : readers) {
    const auto structure = block_structure(func, *reader, Extents::kOpen);
    if (!structure || !structure->multiplies_two_loads) continue;
    // What fills lanes moves it: element by element, or in any way (each group of a convolution reads other channels).
    const auto moves_with_lanes = [&](const AccessPattern& load, bool by_elements) {
      for (size_t i = 0; i < structure->n_iters(); ++i)
        if (!structure->reduce[i] && structure->store.strides[i] == 1 &&
            (by_elements ? load.strides[i] == 1 : load.touches(i)))
          return true;
      return false;
    };
    for (const AccessPattern& load : structure->loads) {
      if (load.buffer.get() != buffer) continue;
      if (transposes && moves_with_lanes(load, true)) return true;
      if (moves_with_lanes(load, false)) continue;
      int64_t channels = 1, taps = 1;
      for (size_t i = 0; i < structure->n_iters(); ++i) {
        if (!structure->reduce[i] || !load.touches(i)) continue;
        if (load.dimension_of(structure->vars[i]) < 0)
          taps = std::max(taps, structure->extents[i]);
        else
          channels *= structure->extents[i];
      }
      if (taps >= preferences::kManyTaps && (channels > kPictureChannels || taps > preferences::kMostPictureTaps))
        return true;
    }
  }
  return false;
}

// Tensor intrinsics read their operands without conditions.
bool is_for_intrinsics(const Func& func, const Target& target, const BlockNode& reader) {
  const auto structure = block_structure(func, reader);
  return structure && tensor_product(reader, *structure, target);
}

bool of_constants(const Func& func, const BlockNode& block) {
  return !block.reads.empty() && std::all_of(block.reads.begin(), block.reads.end(),
                                             [&](const Region& read) { return is_constant(func, read.buffer); });
}

}  // namespace

Result<> auto_inline(Schedule& s, const Target& target, Decider& decider) {
  std::vector<std::string> names;
  for (const BlockNode* block : blocks_of(s.func().root())) names.push_back(block->name);
  const bool elementwise = !target.has_threads() && are_elementwise(s.func());
  for (const std::string& name : names) {
    const Func func = s.func();
    const BlockNode* block = find_block(func->body, name);
    if (!block || block->init || !role_of(*block).empty()) continue;
    const StoreNode* store = single_store(*block);
    if (!store || is_param(func, store->buffer.get())) continue;
    const std::vector<const BlockNode*> readers = consumers_of(func.root(), store->buffer.get());
    if (readers.empty()) continue;
    bool into_reduction = false;
    size_t reads = 0;
    for (const BlockNode* reader : readers) {
      into_reduction |= static_cast<bool>(reader->init);
      reads += loads_of(Stmt(Ref<const StmtNode>(reader)), store->buffer.get()).size();
    }
    if (is_too_large(store->value, reads, elementwise)) continue;
    const bool moves = only_moves(store->value);
    // What is made of constants alone is made once, when the program is compiled.
    if (into_reduction && of_constants(func, *block)) continue;
    const bool pads = store->value.as<SelectNode>() != nullptr;
    if (into_reduction && !moves) continue;
    if (!moves && (reads > 1 && is_costly(store->value))) continue;
    if (combines_itself(*block) || repeats_work(func, *block, store->value, readers)) continue;

    s.set_address_prefix("auto_inline/" + name);
    if (into_reduction && pads) {
      const auto own = block_structure(func, *block, Extents::kOpen);
      const bool transposes = own && transposed_tile(*own, lanes_of(target, store->buffer->dtype));
      const bool copy =
          std::ranges::any_of(readers,
                              [&](const BlockNode* reader) { return is_for_intrinsics(func, target, *reader); }) ||
          prefers_copy(func, Stmt(Ref<const StmtNode>(store)), readers, store->buffer.get(), transposes);
      const auto& odds = copy ? preferences::kStays : preferences::kIsInlined;
      FETTLE_TRY(const int64_t keep, decider.pick(s, {"keep", {0, 1}, copy ? 1u : 0u, {odds[0], odds[1]}}));
      if (keep) continue;
    }
    try_inline(s, name);
  }
  return {};
}

}  // namespace fettle
