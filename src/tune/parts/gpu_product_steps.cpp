#include "tune/parts/gpu_product_steps.h"

#include <algorithm>

#include "schedule/dataflow/dataflow.h"
#include "schedule/primitives.h"
#include "schedule/reformulation.h"
#include "tune/parts/gpu_implicit_product.h"
#include "tune/parts/inline.h"
#include "tune/parts/tile_steps.h"

namespace fettle {
namespace {

// Each element is made of that one of the buffer whose indices are its iterators.
bool is_elementwise(const BlockNode& block, const Buffer& buffer) {
  if (block.init || !single_store(block)) return false;
  for (const IterVar& iter : block.iters)
    if (iter.kind != IterKind::kSpatial) return false;
  const auto loads = loads_of(block.body, buffer.get());
  return std::ranges::all_of(loads, [&](const std::vector<Expr>& indices) {
    return std::ranges::all_of(indices, [&](const Expr& index) {
      return as_int(index) ||
             std::ranges::any_of(block.iters, [&](const IterVar& i) { return i.var.get() == index.get(); });
    });
  });
}

}  // namespace

Result<> GpuProduct::finish(BlockRef done) {
  FETTLE_TRY(const BlockNode* node, block_node(s, done));
  finished.push_back(node->name);
  return {};
}

Result<> GpuProduct::read() {
  FETTLE_TRY(const BlockNode* node, block_node(s, block));
  const auto structure = block_structure(s.func(), *node);
  const auto loops = structure ? product_loops(*structure) : std::nullopt;
  if (!loops) return fail(ErrorCode::E230, node->name + " is no product of matrices of constant extents");
  roles = *loops;
  extents = structure->extents;
  row_dimension = static_cast<size_t>(structure->store.dimension_of(structure->vars[roles.row]));
  column_dimension = static_cast<size_t>(structure->store.dimension_of(structure->vars[roles.column]));
  for (const size_t load : {roles.left, roles.right}) {
    const AccessPattern& access = structure->loads[load];
    Factor& factor = factors.emplace_back();
    factor.buffer = access.buffer;
    factor.rank = access.indices.size();
    factor.dimension =
        static_cast<size_t>(access.dimension_of(structure->vars[load == roles.left ? roles.row : roles.column]));
    factor.term_dimension = static_cast<size_t>(access.dimension_of(structure->vars[roles.term]));
    factor.along_terms = access.strides[roles.term] == 1;
  }
  return {};
}

int64_t GpuProduct::batch() const {
  int64_t all = 1;
  for (const size_t b : roles.batch) all *= extents[b];
  return all;
}

Result<> GpuProduct::pad(int64_t rows_of_tile, int64_t columns_of_tile, int64_t terms_of_step) {
  FETTLE_TRY(const BlockNode* node, block_node(s, block));
  std::vector<int64_t> padding(node->iters.size(), 1);
  const auto structure = block_structure(s.func(), *node);
  bool needed = false;
  for (size_t i = 0; i < node->iters.size(); ++i)
    for (const auto& [loop, multiple] : {std::pair{roles.row, rows_of_tile}, std::pair{roles.column, columns_of_tile},
                                         std::pair{roles.term, terms_of_step}})
      if (node->iters[i].binding.get() == structure->vars[loop].get()) {
        padding[i] = multiple;
        needed |= extents[loop] % multiple != 0;
      }
  if (!needed) return {};
  FETTLE_TRY(const std::vector<BlockRef> copies, pad_einsum(s, {.block = block, .padding = padding}));
  for (const BlockRef copy : copies) {
    FETTLE_TRY(const BlockNode* made, block_node(s, copy));
    const Region& written = made->writes.front();
    bool is_factor = false;
    for (Factor& factor : factors)
      if (read_region(*made, factor.buffer.get())) {
        factor.buffer = written.buffer;
        is_factor = true;
      }
    if (is_factor) padded_.push_back(made->name);
  }
  return {};
}

Result<BlockRef> GpuProduct::reader(const std::string& scope) {
  FETTLE_TRY(const BlockNode* node, block_node(s, block));
  const Buffer sums = node->writes.front().buffer;
  for (Schedule before = s; !is_param(s.func(), sums.get()); before = s) {
    const std::vector<const BlockNode*> readers = consumers_of(s.func().root(), sums.get());
    if (readers.size() != 1) break;
    if (!is_elementwise(*readers.front(), sums) && !as_matrix(readers.front()->name, sums)) break;
    const std::string name = consumers_of(s.func().root(), sums.get()).front()->name;
    const Buffer made = find_block(s.func()->body, name)->writes.front().buffer;
    const auto next = consumers_of(s.func().root(), made.get());
    const bool goes_on = !is_param(s.func(), made.get()) && next.size() == 1 &&
                         (is_elementwise(*next.front(), made) || as_matrix(next.front()->name, made));
    if (goes_on && try_inline(s, name)) continue;
    FETTLE_TRY_VOID(set_scope(s, {.block = block, .index = 0, .scope = scope}));
    return get_block(s, {.name = name});
  }
  return cache_write(s, {.block = block, .write_index = 0, .scope = scope});
}

// The iterators of who reads rows of the result as several dimensions become rows.
bool GpuProduct::as_matrix(const std::string& name, const Buffer& sums) {
  Schedule trial = s;
  const BlockNode* node = find_block(trial.func()->body, name);
  IndexMap map;
  Expr rows = 0;
  for (const IterVar& iter : node->iters) {
    const int64_t* extent = as_int(iter.extent);
    if (!extent) return false;
    const Var var = make_var(iter.var->name);
    map.inputs.push_back(var);
    if (&iter != &node->iters.back()) rows = rows * *extent + Expr(var);
  }
  if (map.inputs.size() < 2) return false;
  map.outputs = {simplify(rows), Expr(map.inputs.back())};
  const auto block = get_block(trial, {.name = name});
  if (!block || !transform_block_layout(trial, {.block = *block, .index_map = map})) return false;
  if (!is_elementwise(*find_block(trial.func()->body, name), sums)) return false;
  s = std::move(trial);
  return true;
}

Result<BlockRef> GpuProduct::fetch(size_t which, LoopRef loop) {
  Factor& factor = factors[which];
  FETTLE_TRY(const int64_t at, read_index_of(s, block, factor.buffer));
  FETTLE_TRY(const BlockRef copy, cache_read(s, {.block = block, .read_index = at, .scope = "shared"}));
  FETTLE_TRY_VOID(compute_at(s, {.block = copy, .loop = loop}));
  FETTLE_TRY_VOID(inline_copies(factor.buffer));
  FETTLE_TRY(const BlockNode* made, block_node(s, copy));
  factor.buffer = made->writes.front().buffer;
  return copy;
}

// Paddings and matrices are worked out where shared memory is filled.
Result<> GpuProduct::inline_copies(Buffer source) {
  while (true) {
    const auto writers = producers_of(s.func().root(), source.get());
    if (writers.size() != 1) return {};
    const BlockNode& writer = *writers.front();
    const bool is_padding = std::ranges::find(padded_, writer.name) != padded_.end();
    if ((!is_padding && role_of(writer) != kMatrixRole) || writer.reads.empty()) return {};
    const Buffer next = writer.reads.front().buffer;
    const std::string name = writer.name;
    if (!try_inline(s, name)) return fail(ErrorCode::E230, name + " cannot be worked out where it is read");
    source = next;
  }
}

}  // namespace fettle
