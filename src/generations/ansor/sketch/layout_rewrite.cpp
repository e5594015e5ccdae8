#include "generations/ansor/sketch/layout_rewrite.h"

#include <algorithm>
#include <optional>

#include "analysis/sites.h"
#include "generations/ansor/sketch/conditions.h"
#include "generations/ansor/sketch/register_sums.h"
#include "generations/ansor/sketch/scheduled.h"
#include "ir/visit.h"
#include "schedule/dataflow/dataflow.h"
#include "schedule/edit/edit.h"
#include "schedule/primitives.h"
#include "tune/parts/structure.h"
#include "tune/parts/tile_steps.h"
#include "tune/parts/transposing.h"

namespace fettle {
namespace {

/// A part of an index: what a loop contributes. index = Σ value(loop) * weight.
struct Digit {
  size_t loop = 0;  // by its place, outermost 0
  int64_t weight = 1, extent = 1;
};

// The digits of an index, most significant first, where loops make it up digit by digit; a constant has none.
std::optional<std::vector<Digit>> digits_of(const Expr& index, const std::vector<const ForNode*>& loops) {
  Analyzer analyzer;
  const auto value_at = [&](const VarNode* one) -> const Expr {
    VarMap values;
    for (const ForNode* loop : loops) values[loop->var.get()] = loop->var.get() == one ? Expr(1) : Expr(0);
    return analyzer.simplify(substitute(index, values));
  };
  const Expr origin = value_at(nullptr);
  if (!as_int(origin) || *as_int(origin) != 0) return std::nullopt;
  std::vector<Digit> digits;
  for (size_t i = 0; i < loops.size(); ++i) {
    if (!uses_var(index, loops[i]->var.get())) continue;
    const Expr step = value_at(loops[i]->var.get());
    const int64_t* extent = as_int(loops[i]->extent);
    if (!as_int(step) || *as_int(step) < 1 || !extent) return std::nullopt;
    if (*extent > 1) digits.push_back({i, *as_int(step), *extent});
  }
  std::ranges::sort(digits, std::ranges::greater{}, &Digit::weight);
  int64_t expected = 1;
  for (size_t d = digits.size(); d-- > 0; expected *= digits[d].extent)
    if (digits[d].weight != expected) return std::nullopt;
  return digits;
}

// The layout in which the nest walks through the buffer in order.
//   W[k, j] in for j_0: for k_0: for k_1: for j_1   →   (k, j) → (j // 16, k // 8, k % 8, j % 16)
std::optional<IndexMap> layout_for(const BlockNode& block, const std::vector<Expr>& indices, const Buffer& buffer,
                                   const std::vector<const ForNode*>& loops) {
  const VarMap bindings = binding_map(block);
  IndexMap map;
  std::vector<std::pair<size_t, Expr>> outputs;  // by the loop's place
  for (size_t d = 0; d < indices.size(); ++d) {
    const Var input = make_var("d" + std::to_string(d));
    map.inputs.push_back(input);
    const auto digits = digits_of(substitute(indices[d], bindings), loops);
    const int64_t* whole = as_int(buffer->shape[d]);
    if (!digits || !whole) return std::nullopt;
    int64_t covered = 1;
    for (const Digit& digit : *digits) covered *= digit.extent;
    if (covered < *whole) return std::nullopt;  // more: the rest is padding
    for (size_t i = 0; i < digits->size(); ++i) {
      const Digit& digit = (*digits)[i];
      Expr part = digit.weight > 1 ? floordiv(Expr(input), Expr(digit.weight)) : Expr(input);
      if (i > 0) part = floormod(part, Expr(digit.extent));
      outputs.emplace_back(digit.loop, part);
    }
  }
  std::ranges::stable_sort(outputs, {}, [](const auto& output) { return output.first; });
  for (auto& [loop, part] : outputs) map.outputs.push_back(std::move(part));
  if (map.outputs.size() < 2) return std::nullopt;
  return map;
}

// The number of the read whose elements the lanes of a tiled nest would have to gather: they are not side by side.
std::optional<size_t> gathered_read(const Func& func, const BlockNode& block) {
  if (!single_store(block) || !is_reduction(block, func.root()) || !has_data_reuse(func, block)) return std::nullopt;
  const auto loops = loops_around(func, &block);
  if (loops.size() <= block.iters.size()) return std::nullopt;  // not tiled
  const auto lane = std::ranges::find_if(loops.rbegin(), loops.rend(), [](const ForNode* loop) {
    return !as_int(loop->extent) || *as_int(loop->extent) > 1;
  });
  if (lane == loops.rend()) return std::nullopt;
  VarMap bindings;
  for (const IterVar& iter : block.iters) {
    if (iter.kind != IterKind::kSpatial && uses_var(iter.binding, (*lane)->var.get())) return std::nullopt;
    bindings[iter.var.get()] = iter.binding;
  }
  for (size_t r = 0; r < block.reads.size(); ++r) {
    const Buffer& buffer = block.reads[r].buffer;
    if (write_region(block, buffer.get()) || is_constant(func, buffer)) continue;
    const auto loads = loads_of(block.body, buffer.get());
    if (loads.size() != 1) continue;
    std::vector<Expr> placed;
    for (const Expr& index : loads.front()) placed.push_back(substitute(index, bindings));
    const int64_t stride = access_strides(*buffer, placed, {(*lane)->var}).front();
    if (stride != 0 && stride != 1) return r;
  }
  return std::nullopt;
}

// A copy in that layout, filled in vectors, before everything else.
Result<> insert_transform_stage(Schedule& s, const std::string& name, size_t read, int threads) {
  const Func func = s.func();
  const BlockNode& block = *find_block(func->body, name);
  const Buffer& buffer = block.reads[read].buffer;
  const auto map = layout_for(block, loads_of(block.body, buffer.get()).front(), buffer, loops_around(func, &block));
  if (!map) return fail(ErrorCode::E235, "no layout", "insert_transform_stage");
  FETTLE_TRY(const BlockRef reader, get_block(s, {.name = name}));
  FETTLE_TRY(const BlockRef copy, pack_panels(s, reader, buffer, *map));
  FETTLE_TRY(const int64_t lanes, lanes_of(s, copy));
  FETTLE_TRY(const bool transposed, copy_in_transposed_tiles(s, copy, lanes, threads > 1));
  if (transposed) return {};
  FETTLE_TRY(const std::vector<LoopRef> loops, get_loops(s, {copy}));
  if (loops.size() < 2) return {};
  FETTLE_TRY_VOID(vectorize_in_registers(s, loops.back(), lanes));
  return threads > 1 ? parallel(s, {.loop = loops.front()}) : Result<>();
}

}  // namespace

Result<> insert_transform_stages(Schedule& s, int threads) {
  std::vector<std::pair<std::string, size_t>> gathered;
  const Func func = s.func();
  for (const BlockNode* block : blocks_of(func.root()))
    if (const auto read = gathered_read(func, *block)) gathered.emplace_back(block->name, *read);
  for (const auto& [name, read] : gathered) {
    Schedule changed = s;
    if (insert_transform_stage(changed, name, read, threads)) s = std::move(changed);
  }
  return {};
}

namespace {

// Constant parameters, and what is worked out from such alone.
std::vector<Buffer> constants_of(const Func& func) {
  std::vector<Buffer> result;
  for (const Param& param : func->params)
    if (param.kind == ParamKind::kConstant) result.push_back(param.buffer);
  for (const BlockNode* block : blocks_of(func.root())) {
    if (block->writes.size() != 1 || func.find_param(block->writes[0].buffer.get()) || block->reads.empty()) continue;
    const Buffer& written = block->writes[0].buffer;
    if (std::ranges::all_of(block->reads, [&](const Region& read) {
          return read.buffer.get() == written.get() || is_constant(func, read.buffer);
        }))
      result.push_back(written);
  }
  return result;
}

}  // namespace

Result<> rewrite_constant_layouts(Schedule& s) {
  const Func func = s.func();
  for (const Buffer& buffer : constants_of(func)) {
    if (buffer->rank() < 2) continue;
    const auto all = consumers_of(func.root(), buffer.get());
    std::vector<const BlockNode*> readers;  // but for a reduction into it
    for (const BlockNode* reader : all)
      if (!write_region(*reader, buffer.get())) readers.push_back(reader);
    if (readers.size() != 1 || is_scheduled(*readers.front())) continue;
    // A tile of an intrinsic asks for a layout of its own.
    const BlockNode* block = readers.front();
    const auto loads = loads_of(block->body, buffer.get());
    if (loads.size() != 1 || !single_store(*block)) continue;
    const auto map = layout_for(*block, loads.front(), buffer, loops_around(func, block));
    if (!map) continue;
    int64_t read = 0;
    while (block->reads[static_cast<size_t>(read)].buffer.get() != buffer.get()) ++read;
    FETTLE_TRY(const BlockRef ref, get_block(s, {.name = block->name}));
    Schedule changed = s;
    if (transform_layout(changed, {.block = ref, .buffer_index = read, .buffer_index_type = "read", .index_map = *map}))
      s = std::move(changed);
  }
  return {};
}

}  // namespace fettle
