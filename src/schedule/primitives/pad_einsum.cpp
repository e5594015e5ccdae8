#include "schedule/primitives/pad_einsum.h"

#include <algorithm>

#include "schedule/dataflow/combiner.h"
#include "schedule/dataflow/dataflow.h"
#include "schedule/dataflow/plain_nest.h"
#include "schedule/edit/steps.h"

namespace fettle {
namespace {

// The indices of every access, by iterator number. E214 where one is not an iterator, or a buffer is accessed at
// different places.
Result<std::vector<std::pair<Buffer, std::vector<size_t>>>> plain_accesses(const Func& func, const BlockNode& block,
                                                                           const Combiner& combiner) {
  std::vector<std::pair<Buffer, std::vector<size_t>>> found;
  const auto refuse = [&](std::string why) {
    return refused(ErrorCode::E214, func, &block, "block {}: {}", block.name, why);
  };
  const auto numbers_of = [&](const Buffer& buffer, const std::vector<Expr>& indices) -> Result<std::vector<size_t>> {
    std::vector<size_t> numbers;
    for (const Expr& index : indices) {
      const auto at = std::ranges::find_if(block.iters, [&](const IterVar& i) { return i.var.get() == index.get(); });
      if (at == block.iters.end()) return refuse(fmt::format("an index of {} is no iterator", buffer->name));
      numbers.push_back(static_cast<size_t>(at - block.iters.begin()));
    }
    return numbers;
  };
  std::vector<const LoadNode*> loads;
  each_node<LoadNode>(combiner.term, [&](const LoadNode& access) { loads.push_back(&access); });
  for (const LoadNode* access : loads) {
    FETTLE_TRY(std::vector<size_t> numbers, numbers_of(access->buffer, access->indices));
    const auto known = std::ranges::find_if(found, [&](const auto& f) { return f.first == access->buffer; });
    if (known == found.end())
      found.emplace_back(access->buffer, std::move(numbers));
    else if (known->second != numbers)
      return refuse(fmt::format("it accesses {} at different places", access->buffer->name));
  }
  FETTLE_TRY(std::vector<size_t> numbers, numbers_of(combiner.update->buffer, combiner.update->indices));
  found.emplace_back(combiner.update->buffer, std::move(numbers));
  return found;
}

// A product of loads, converted perhaps: zero where all of them are.
bool is_product_of_loads(const Expr& e) {
  if (e.as<LoadNode>()) return true;
  if (const auto* conversion = e.as<CastNode>()) return is_product_of_loads(conversion->a);
  const auto* op = e.as<BinaryNode>();
  return op && op->op == BinaryOp::kMul && is_product_of_loads(op->a) && is_product_of_loads(op->b);
}

// to[v…] = from[v…] over `extents`, in loops of its own; zero from `limits` on.
Stmt copy_between(const std::string& name, const Buffer& from, const Buffer& to, const std::vector<Expr>& extents,
                  const std::vector<Expr>& limits) {
  auto copy = make_ref<BlockNode>();
  copy->name = name;
  std::vector<Expr> indices;
  Expr inside;
  for (size_t d = 0; d < extents.size(); ++d) {
    const Var var = make_var("v" + std::to_string(d));
    copy->iters.push_back({var, extents[d], IterKind::kSpatial, nullptr});
    indices.push_back(var);
    if (const int64_t* padded = as_int(extents[d]); padded && *as_int(limits[d]) < *padded)
      inside = logical_and(inside, lt(var, limits[d]));
  }
  const Expr value = load(from, indices);
  copy->body = store(to, indices, inside ? select(inside, value, constant(0, from->dtype)) : value);
  copy->reads = {point_region(from, indices)};
  copy->writes = {point_region(to, indices)};
  return fresh_nest(copy);
}

Result<Applied> apply_pad_einsum(const Schedule& s, const PadEinsumArgs& args) {
  FETTLE_TRY(const Stmt stmt, s.block(args.block));
  const Func& func = s.func();
  const auto& block = *stmt.as<BlockNode>();
  const BlockNode* scope = enclosing_block(func, &block);
  if (!scope || !is_reduction(block, *scope)) return refused(ErrorCode::E212, func, &block, "block {}", block.name);
  FETTLE_TRY(const Combiner combiner, match_combiner(func, block));
  FETTLE_TRY(const PlainNest nest, plain_nest(func, block));
  FETTLE_TRY(const auto accesses, plain_accesses(func, block, combiner));
  if (args.padding.size() != block.iters.size())
    return refused(ErrorCode::E202, func, &block, "{} factors for {} iterators", args.padding.size(),
                   block.iters.size());
  std::vector<Expr> extents;
  std::vector<bool> padded;
  for (size_t i = 0; i < block.iters.size(); ++i) {
    const int64_t* extent = as_int(block.iters[i].extent);
    if (args.padding[i] < 1) return refused(ErrorCode::E202, func, &block, "factor {}", args.padding[i]);
    if (args.padding[i] == 1) {
      extents.push_back(block.iters[i].extent);
      padded.push_back(false);
      continue;
    }
    if (!extent) return refused(ErrorCode::E221, func, &block, "of iterator {}", block.iters[i].var->name);
    extents.push_back(Expr((*extent + args.padding[i] - 1) / args.padding[i] * args.padding[i]));
    padded.push_back(*as_int(extents.back()) != *extent);
    const auto& output = accesses.back().second;
    if (padded[i] && block.iters[i].kind == IterKind::kSpatial &&
        std::ranges::find(output, i) == output.end())  // more instances would update the same elements
      return refused(ErrorCode::E214, func, &block, "iterator {} is no index of the output", block.iters[i].var->name);
    if (!padded[i] || block.iters[i].kind != IterKind::kReduce) continue;
    // What is added for the surplus must be zero: zero times zero, for infinity times zero is not.
    const bool zero = combiner.op == BinaryOp::kAdd && is_product_of_loads(combiner.term) &&
                      std::ranges::all_of(accesses.begin(), accesses.end() - 1, [&](const auto& access) {
                        return std::ranges::find(access.second, i) != access.second.end();
                      });
    if (!zero)
      return refused(ErrorCode::E212, func, &block, "block {} does not sum products whose factors all depend on {}",
                     block.name, block.iters[i].var->name);
  }
  if (std::ranges::find(padded, true) == padded.end()) return Applied{func, {}};

  Applied applied;
  std::vector<Stmt> before, after;
  std::vector<Buffer> fresh;
  BufferMap buffers;
  for (const auto& [buffer, numbers] : accesses) {
    if (std::ranges::none_of(numbers, [&](size_t i) { return padded[i]; })) continue;
    std::vector<Expr> shape, limits;
    for (size_t i : numbers) {
      shape.push_back(extents[i]);
      limits.push_back(block.iters[i].extent);
    }
    const Buffer large = make_buffer(unique_buffer_name(func, buffer->name + "_pad"), shape, buffer->dtype);
    const std::string name = unique_block_name(func, buffer->name + "_pad");
    if (buffer == combiner.update->buffer)
      after.push_back(copy_between(name, large, buffer, limits, limits));
    else
      before.push_back(copy_between(name, buffer, large, shape, limits));
    fresh.push_back(large);
    buffers[buffer.get()] = large;
    applied.outputs.emplace_back(name);
  }
  auto einsum = make_ref<BlockNode>(*substitute_buffers(stmt, buffers).as<BlockNode>());
  for (size_t i = 0; i < extents.size(); ++i) einsum->iters[i].extent = extents[i];
  // What was stated of the accesses, with annotate_buffer_access, held for the iterators as they were.
  Analyzer analyzer;
  infer_regions(*einsum, analyzer);
  Stmt body = einsum;
  std::vector<const ForNode*> inside_out = loops_around(func, &block);
  std::ranges::reverse(inside_out);
  for (const ForNode* loop : inside_out) {
    const auto i = static_cast<size_t>(std::ranges::find(nest.loops, loop) - nest.loops.begin());
    body = with(*loop, [&](ForNode& f) {
      f.extent = extents[i];
      f.body = body;
    });
  }
  applied.func = edit_scope(
      func, scope->name,
      {.anchor = nest.top, .before = seq(before), .replacement = body, .after = seq(after), .allocate = fresh});
  return applied;
}

}  // namespace

extern constinit const PrimitiveDef pad_einsum_def = define_primitive<PadEinsumArgs, apply_pad_einsum>("pad_einsum", 1);

Result<std::vector<BlockRef>> pad_einsum(Schedule& s, const PadEinsumArgs& args) {
  return run<std::vector<BlockRef>>(s, pad_einsum_def, args);
}

}  // namespace fettle
