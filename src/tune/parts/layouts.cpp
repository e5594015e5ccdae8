#include "tune/parts/layouts.h"

#include "schedule/dataflow/dataflow.h"
#include "schedule/primitives.h"
#include "tune/parts/loops.h"
#include "tune/parts/preferences.h"

namespace fettle {
namespace {

bool is_free(const Func& func, const Buffer& buffer) {
  const Param* param = func.find_param(buffer.get());
  return param && param->free_layout;
}

// Moves dimension d to the end; in blocks of `block` where that is above 0.
IndexMap innermost(size_t rank, size_t d, int64_t block) {
  IndexMap map;
  for (size_t i = 0; i < rank; ++i) {
    const Var var = make_var("d" + std::to_string(i));
    map.inputs.push_back(var);
    if (i != d)
      map.outputs.push_back(Expr(var));
    else if (block > 0)
      map.outputs.push_back(floordiv(Expr(var), Expr(block)));
  }
  const Expr inner = map.inputs[d];
  map.outputs.push_back(block > 0 ? floormod(inner, Expr(block)) : inner);
  return map;
}

// Moves dimension d next to the last: (c, h, w), 0 → (h, c, w).
IndexMap beside_innermost(size_t rank, size_t d) {
  IndexMap map;
  for (size_t i = 0; i < rank; ++i) map.inputs.push_back(make_var("d" + std::to_string(i)));
  for (size_t i = 0; i + 1 < rank; ++i)
    if (i != d) map.outputs.push_back(Expr(map.inputs[i]));
  map.outputs.push_back(Expr(map.inputs[d]));
  map.outputs.push_back(Expr(map.inputs.back()));
  return map;
}

// The load that is no constant, of two.
const AccessPattern* data_load(const Func& func, const BlockStructure& block) {
  if (block.loads.size() != 2) return nullptr;
  const bool first = is_constant(func, block.loads[0].buffer), second = is_constant(func, block.loads[1].buffer);
  if (first == second) return nullptr;
  return first ? &block.loads[1] : &block.loads[0];
}

int64_t read_index(const BlockNode& block, const BufferNode* buffer) {
  for (size_t r = 0; r < block.reads.size(); ++r)
    if (block.reads[r].buffer.get() == buffer) return static_cast<int64_t>(r);
  return -1;
}

// Channels: the reduce iterator that is an index of the data by itself.
std::optional<size_t> channels_of(const BlockStructure& block, const AccessPattern& data) {
  std::optional<size_t> channels;
  for (size_t i = 0; i < block.n_iters(); ++i) {
    if (!block.reduce[i] || block.is(i, 1)) continue;
    const int d = data.dimension_of(block.vars[i]);
    if (d < 0) continue;
    if (channels) return std::nullopt;
    channels = i;
  }
  return channels;
}

Result<> transform_read(Schedule& s, BlockRef block, const BufferNode* buffer, const IndexMap& map) {
  FETTLE_TRY(const BlockNode* node, block_node(s, block));
  const int64_t read = read_index(*node, buffer);
  if (read < 0) return {};
  return transform_layout(s, {.block = block, .buffer_index = read, .buffer_index_type = "read", .index_map = map});
}

// A copy of an image of few channels: pixel by pixel where what it copies may come so too; else row by row, so that it
// is made in whole vectors, and the channels of a row still lie together.
Result<> lay_out_copy(Schedule& s, BlockRef block, const BlockNode& maker, const BufferNode* image, size_t channels) {
  const Func func = s.func();
  const size_t rank = image->shape.size();
  const std::string name = maker.name;
  std::vector<Buffer> sources;
  bool bound = false;
  for (const Region& region : maker.reads) {
    const bool is_image = region.buffer->shape.size() == rank;
    if (is_image && is_free(func, region.buffer) && !region.buffer->layout)
      sources.push_back(region.buffer);
    else
      bound |= is_image;
  }
  if (bound) return transform_read(s, block, image, beside_innermost(rank, channels));
  FETTLE_TRY(const BlockRef copy, get_block(s, {.name = name}));
  FETTLE_TRY_VOID(transform_read(s, block, image, innermost(rank, channels, 0)));
  for (const Buffer& source : sources)
    FETTLE_TRY_VOID(transform_read(s, copy, source.get(), innermost(rank, channels, 0)));
  return {};
}

}  // namespace

std::optional<size_t> layout_vector(const Func& func, const BlockStructure& block) {
  if (!is_free(func, block.store.buffer) || block.store.buffer->layout || block.store.buffer->rank() < 3)
    return std::nullopt;
  const AccessPattern* data = data_load(func, block);
  if (!data) return std::nullopt;
  const AccessPattern& weights = data == &block.loads[0] ? block.loads[1] : block.loads[0];
  std::optional<size_t> best;
  for (size_t i = 0; i < block.n_iters(); ++i) {
    const Var& var = block.vars[i];
    if (block.reduce[i] || data->touches(i) || weights.dimension_of(var) < 0 || block.store.dimension_of(var) < 0)
      continue;
    if (!best || block.extents[i] > block.extents[*best]) best = i;
  }
  if (best && block.extents[*best] < 4) return std::nullopt;
  return best;
}

Result<ChosenLayouts> choose_layouts(Schedule& s, const Target& target, Decider& decider, BlockRef block) {
  ChosenLayouts chosen;
  const Func func = s.func();
  FETTLE_TRY(const BlockNode* node, block_node(s, block));
  const auto structure = block_structure(func, *node, Extents::kOpen);
  if (!structure) return chosen;
  const AccessPattern* data = data_load(func, *structure);
  if (!data) return chosen;
  const std::optional<size_t> channels = channels_of(*structure, *data);
  const std::optional<size_t> vector = layout_vector(func, *structure);
  const int64_t lanes = lanes_of(target, structure->store.buffer->dtype);

  // The padded image, where it is a copy of its own.
  const std::vector<const BlockNode*> makers = producers_of(func.root(), data->buffer.get());
  const bool is_copy = !is_param(func, data->buffer.get()) && makers.size() == 1 && !makers.front()->init;
  const AccessPattern& weights = data == &structure->loads[0] ? structure->loads[1] : structure->loads[0];
  const bool contracts = channels && weights.touches(*channels);
  const size_t dim = contracts ? static_cast<size_t>(data->dimension_of(structure->vars[*channels])) : 0;
  const bool data_free = is_free(func, data->buffer) && !data->buffer->layout;

  int64_t blocks = 0;
  if (vector) {
    const bool may_block =
        contracts && !structure->open[*channels] && structure->extents[*channels] % lanes == 0 && data_free;
    // A block holds as many channels as a vector has lanes. Where these are few, the innermost loop ends too soon.
    const size_t preferred = lanes < preferences::kLongBlock ? 1 : 0;
    FETTLE_TRY(const int64_t blocked, may_block ? decider.pick(s, {"layout", {1, 0}, preferred}) : Result<int64_t>(0));
    blocks = blocked ? lanes : 0;
    const auto d = static_cast<size_t>(structure->store.dimension_of(structure->vars[*vector]));
    FETTLE_TRY_VOID(
        transform_layout(s, {.block = block, .index_map = innermost(structure->store.indices.size(), d, blocks)}));
    chosen.vector = vector;
  }
  if (!contracts) return chosen;
  const size_t rank = data->indices.size();
  if (data_free) {
    FETTLE_TRY_VOID(transform_read(s, block, data->buffer.get(), innermost(rank, dim, blocks)));
    if (blocks > 0) chosen.blocked_reduce = channels;
  } else if (is_copy && !structure->open[*channels] && structure->extents[*channels] <= 8 && dim + 1 != rank) {
    FETTLE_TRY_VOID(lay_out_copy(s, block, *makers.front(), data->buffer.get(), dim));
  }
  return chosen;
}

}  // namespace fettle
