#include "schedule/primitives/pad_einsum.h"

#include <algorithm>

#include "schedule/dataflow/combiner.h"
#include "schedule/dataflow/dataflow.h"
#include "schedule/dataflow/plain_nest.h"
#include "schedule/edit/steps.h"

namespace fettle {
namespace {

// Where a buffer is accessed. An index is an iterator, by its number, or an expression of those that stay as they are.
struct Access {
  Buffer buffer;
  std::vector<Expr> indices;
  std::vector<std::optional<size_t>> numbers;

  bool has(size_t iter) const { return std::ranges::find(numbers, iter) != numbers.end(); }
};

// Those of the block, the update's last. E214 where an iterator that is `padded`, or any of the output, is part of
// another index, or a buffer is accessed at different places.
Result<std::vector<Access>> accesses_of(const Func& func, const BlockNode& block, const Combiner& combiner,
                                        const std::vector<bool>& padded) {
  std::vector<Access> found;
  const auto refuse = [&](std::string why) {
    return refused(ErrorCode::E214, func, &block, "block {}: {}", block.name, why);
  };
  const auto access_of = [&](const Buffer& buffer, const std::vector<Expr>& indices) -> Result<Access> {
    Access access{buffer, indices, {}};
    for (const Expr& index : indices) {
      std::optional<size_t> number;
      for (size_t i = 0; i < block.iters.size(); ++i) {
        const VarNode* var = block.iters[i].var.get();
        if (index.get() == var)
          number = i;
        else if ((padded[i] || buffer == combiner.update->buffer) && uses_var(index, var))
          return refuse(fmt::format("an index of {} is no iterator", buffer->name));
      }
      access.numbers.push_back(number);
    }
    return access;
  };
  std::vector<const LoadNode*> loads;
  each_node<LoadNode>(combiner.term, [&](const LoadNode& access) { loads.push_back(&access); });
  for (const LoadNode* load : loads) {
    FETTLE_TRY(Access access, access_of(load->buffer, load->indices));
    const auto known = std::ranges::find_if(found, [&](const Access& f) { return f.buffer == load->buffer; });
    if (known == found.end())
      found.push_back(std::move(access));
    else if (!structural_equal(known->indices, access.indices))
      return refuse(fmt::format("it accesses {} at different places", load->buffer->name));
  }
  FETTLE_TRY(Access update, access_of(combiner.update->buffer, combiner.update->indices));
  found.push_back(std::move(update));
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
  }
  if (std::ranges::find(padded, true) == padded.end()) return Applied{func, {}};
  FETTLE_TRY(const std::vector<Access> accesses, accesses_of(func, block, combiner, padded));
  for (size_t i = 0; i < block.iters.size(); ++i) {
    if (padded[i] && block.iters[i].kind == IterKind::kSpatial &&
        !accesses.back().has(i))  // more instances would update the same elements
      return refused(ErrorCode::E214, func, &block, "iterator {} is no index of the output", block.iters[i].var->name);
    if (!padded[i] || block.iters[i].kind != IterKind::kReduce) continue;
    // What is added for the surplus must be zero: zero times zero, for infinity times zero is not.
    const bool zero =
        combiner.op == BinaryOp::kAdd && is_product_of_loads(combiner.term) &&
        std::ranges::all_of(accesses.begin(), accesses.end() - 1, [&](const Access& access) { return access.has(i); });
    if (!zero)
      return refused(ErrorCode::E212, func, &block, "block {} does not sum products whose factors all depend on {}",
                     block.name, block.iters[i].var->name);
  }

  Applied applied;
  std::vector<Stmt> before, after;
  std::vector<Buffer> fresh;
  BufferMap buffers;
  for (const auto& [buffer, indices, numbers] : accesses) {
    if (std::ranges::none_of(numbers, [&](const auto& i) { return i && padded[*i]; })) continue;
    std::vector<Expr> shape, limits;
    for (size_t d = 0; d < numbers.size(); ++d) {  // of other indices the whole dimension
      limits.push_back(numbers[d] ? block.iters[*numbers[d]].extent : buffer->shape[d]);
      shape.push_back(numbers[d] ? extents[*numbers[d]] : buffer->shape[d]);
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
