#include "tune/parts/tensor_tiling.h"

#include <algorithm>

#include "schedule/primitives.h"
#include "tune/parts/tile_steps.h"

namespace fettle {
namespace {

// The block that makes `buffer` for this reader alone; nothing where there is none.
Result<std::optional<BlockRef>> only_writer(Schedule& s, BlockRef reader, const Buffer& buffer) {
  FETTLE_TRY(const std::vector<BlockRef> producers, get_producers(s, {.block = reader}));
  std::optional<BlockRef> writer;
  for (const BlockRef producer : producers) {
    FETTLE_TRY(const BlockNode* node, block_node(s, producer));
    if (node->writes.size() != 1 || node->writes.front().buffer != buffer) continue;
    FETTLE_TRY(const std::vector<BlockRef> readers, get_consumers(s, {.block = producer}));
    if (writer || readers.size() != 1) return std::optional<BlockRef>();
    writer = producer;
  }
  return writer;
}

}  // namespace

Result<> TensorTiling::look() {
  FETTLE_TRY(const BlockNode* node, block_node(s, block));
  const auto found = block_structure(s.func(), *node, Extents::kOpen);
  const auto fits = found ? tensor_product(*node, *found, target, product.intrinsic) : std::nullopt;
  if (!fits) return fail(ErrorCode::E230, "no tensor intrinsic fits " + name);
  structure = *found;
  product = *fits;
  row = product.row;
  batch.clear();
  outside.clear();
  reduce.clear();
  for (size_t i = 0; i < structure.n_iters(); ++i) {
    if (i == product.vector || i == product.depth) continue;
    if (structure.reduce[i])
      reduce.push_back(i);
    else
      (b().touches(i) ? batch : outside).push_back(i);
  }
  // Rows: the innermost in memory, if it is long enough; they share B.
  for (size_t i : outside)
    if (product.of_matrices())
      break;
    else if (!row || (extent(i) >= 4) > (extent(*row) >= 4) ||
             ((extent(i) >= 4) == (extent(*row) >= 4) && structure.store.strides[i] < structure.store.strides[*row]))
      row = i;
  if (row) std::erase(outside, *row);
  std::ranges::stable_sort(reduce, [&](size_t x, size_t y) {
    const auto key = [&](size_t i) {
      return a().strides[i] == AccessPattern::kIrregular ? INT64_MAX : std::abs(a().strides[i]);
    };
    return key(x) > key(y);
  });
  return {};
}

Result<> TensorTiling::finish(BlockRef of) {
  FETTLE_TRY(const BlockNode* node, block_node(s, of));
  made.push_back(node->name);
  return {};
}

Result<> TensorTiling::fit(int64_t rows, int64_t columns) {
  const auto divides = [&] {
    return extent(product.vector) % columns == 0 && extent(product.depth) % product.steps == 0 &&
           (!product.row || extent(*product.row) % rows == 0);
  };
  if (divides()) return {};
  // What is copied anyway, into wider numbers, is padded where it lies: windows stay windows.
  const int depth_dim = a().dimension_of(structure.vars[product.depth]);
  const bool depth_is_plain = a().indices[static_cast<size_t>(depth_dim)].get() == structure.vars[product.depth].get();
  const bool in_place = widens() && (depth_is_plain || extent(product.depth) % product.steps == 0);
  if (!product.a_is_plain && !in_place) {
    FETTLE_TRY(const int64_t read, read_index_of(s, block, a().buffer));
    FETTLE_TRY_VOID(reindex(s, {.block = block, .buffer_index = read}).map([](BlockRef) {}));
    FETTLE_TRY_VOID(look());
  }
  const bool constant = is_constant(s.func(), b().buffer);
  if (!product.b_is_plain) {
    FETTLE_TRY(const int64_t read, read_index_of(s, block, b().buffer));
    FETTLE_TRY(const BlockRef copy, reindex(s, {.block = block, .buffer_index = read}));
    if (constant) FETTLE_TRY_VOID(finish(copy));
    FETTLE_TRY_VOID(look());
  }
  FETTLE_TRY(const BlockNode* node, block_node(s, block));
  std::vector<int64_t> padding;
  for (const IterVar& iter : node->iters) {
    const auto is = [&](size_t i) { return iter.binding.get() == structure.vars[i].get(); };
    padding.push_back(is(product.vector)                ? columns
                      : is(product.depth)               ? product.steps
                      : product.row && is(*product.row) ? rows
                                                        : 1);
  }
  const Buffer panel = b().buffer;
  const bool output = extent(product.vector) % columns != 0 || (product.row && extent(*product.row) % rows != 0);
  FETTLE_TRY(const std::vector<BlockRef> copies, pad_einsum(s, {.block = block, .padding = padding}));
  for (const BlockRef copy : copies) {
    FETTLE_TRY(const BlockNode* padded, block_node(s, copy));
    if (constant && padded->reads.front().buffer == panel) made.push_back(padded->name);
  }
  if (output) unpad = copies.back();
  return look();
}

Result<> TensorTiling::lay_out_rows() {
  const auto depth_dim = static_cast<size_t>(a().dimension_of(structure.vars[product.depth]));
  if (a().strides[product.depth] == 1 && depth_dim + 1 == a().indices.size()) return {};
  FETTLE_TRY(int64_t read, read_index_of(s, block, a().buffer));
  const IndexMap map = moved_last(a().indices.size(), depth_dim);
  if (s.func().find_param(a().buffer.get())) {
    FETTLE_TRY_VOID(cache_read(s, {.block = block, .read_index = read}).map([](BlockRef) {}));
    FETTLE_TRY_VOID(look());
    FETTLE_TRY(read, read_index_of(s, block, a().buffer));
  }
  FETTLE_TRY_VOID(
      transform_layout(s, {.block = block, .buffer_index = read, .buffer_index_type = "read", .index_map = map}));
  return look();
}

Result<> TensorTiling::widen_rows() {
  if (!widens()) return {};
  const DType wide = type_of_rows();
  const Buffer narrow = a().buffer;
  FETTLE_TRY(std::optional<BlockRef> writer, only_writer(s, block, narrow));
  if (!writer) {
    const bool constant = is_constant(s.func(), narrow);
    FETTLE_TRY(const int64_t read, read_index_of(s, block, narrow));
    FETTLE_TRY(writer, cache_read(s, {.block = block, .read_index = read}));
    if (constant) FETTLE_TRY_VOID(finish(*writer));
  }
  FETTLE_TRY_VOID(set_dtype(s, {.block = *writer, .dtype = wide.to_string()}));
  return look();
}

IndexMap TensorTiling::panel_map(int64_t width, int64_t steps) const {
  IndexMap map;
  std::vector<Expr> fixed, others(structure.n_iters());
  Expr column, depth;
  for (const Expr& index : b().indices) {
    const Var var = make_var("d" + std::to_string(map.inputs.size()));
    map.inputs.push_back(var);
    const auto at = std::ranges::find_if(structure.vars, [&](const Var& v) { return v.get() == index.get(); });
    const auto iter = static_cast<size_t>(at - structure.vars.begin());
    if (iter == structure.n_iters())
      fixed.push_back(Expr(var));
    else if (iter == product.vector)
      column = Expr(var);
    else if (iter == product.depth)
      depth = Expr(var);
    else
      others[iter] = Expr(var);
  }
  map.outputs = fixed;
  for (size_t i : batch)
    if (others[i]) map.outputs.push_back(others[i]);
  map.outputs.push_back(floordiv(column, Expr(width)));
  for (size_t i : reduce)
    if (others[i]) map.outputs.push_back(others[i]);
  map.outputs.push_back(floordiv(depth, Expr(steps)));
  map.outputs.push_back(floormod(column, Expr(width)));
  map.outputs.push_back(floormod(depth, Expr(steps)));
  return map;
}

Result<> TensorTiling::lay_out_panels(const IndexMap& map) {
  const Buffer panel = b().buffer;
  if (!s.func().find_param(panel.get())) {  // padded just now, or made by another block: it may lie as is best
    FETTLE_TRY(const int64_t read, read_index_of(s, block, panel));
    return transform_layout(s, {.block = block, .buffer_index = read, .buffer_index_type = "read", .index_map = map});
  }
  FETTLE_TRY(const BlockRef copy, pack_panels(s, block, panel, map));
  if (is_constant(s.func(), panel)) {
    FETTLE_TRY(const BlockNode* node, block_node(s, copy));
    made.insert(made.end(), {node->name, node->name + "_pad"});
  }
  return {};
}

}  // namespace fettle
