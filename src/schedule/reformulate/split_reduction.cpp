#include "schedule/reformulate/split_reduction.h"

#include <algorithm>
#include <limits>

#include "ir/compare.h"
#include "ir/visit.h"
#include "schedule/dataflow.h"

namespace fettle {
namespace {

// What the pattern binds.
struct Match {
  std::vector<const ForNode*> loops;  // outermost first
  size_t reduce = 0;                  // index of the reduce iterator
  const StoreNode* init = nullptr;
  const StoreNode* update = nullptr;
  const BinaryNode* combine = nullptr;
  Expr term;  // f
};

bool is_load_of(const Expr& e, const StoreNode& store) {
  const auto* load = e.as<LoadNode>();
  return load && load->buffer == store.buffer && !load->mask &&
         std::ranges::equal(load->indices, store.indices,
                            [](const Expr& a, const Expr& b) { return structural_equal(a, b); });
}

bool is_neutral(const Expr& e, BinaryOp op, DType dtype) {
  double value;
  if (const auto* real = e.as<FloatImmNode>())
    value = real->value;
  else if (const int64_t* integer = as_int(e))
    value = static_cast<double>(*integer);
  else
    return false;
  const double infinity = std::numeric_limits<double>::infinity();
  switch (op) {
    case BinaryOp::kAdd:
      return value == 0;
    case BinaryOp::kMul:
      return value == 1;
    case BinaryOp::kMin:
      return dtype.is_float() && value == infinity;
    case BinaryOp::kMax:
      return dtype.is_float() && value == -infinity;
    default:
      return false;
  }
}

tl::unexpected<Diagnostic> no_match(std::string why) { return fail(ErrorCode::E228, std::move(why)); }

Result<Match> match(const Func& func, const BlockNode& block) {
  Match m;
  m.loops = loops_around(func, &block);
  if (block.predicate) return no_match("the block has a predicate");
  if (m.loops.size() != block.iters.size()) return no_match("loops and iterators differ in number");
  std::vector<bool> bound(m.loops.size(), false);
  int reductions = 0;
  for (size_t i = 0; i < block.iters.size(); ++i) {
    const IterVar& iter = block.iters[i];
    const auto loop =
        std::ranges::find_if(m.loops, [&](const ForNode* l) { return l->var.get() == iter.binding.get(); });
    if (loop == m.loops.end() || bound[static_cast<size_t>(loop - m.loops.begin())] || !is_zero((*loop)->min) ||
        !structural_equal((*loop)->extent, iter.extent))
      return no_match("iterator " + iter.var->name + " is not bound to a loop of its own");
    bound[static_cast<size_t>(loop - m.loops.begin())] = true;
    if (iter.kind == IterKind::kReduce) {
      ++reductions;
      m.reduce = i;
    } else if (iter.kind != IterKind::kSpatial) {
      return no_match("an iterator is neither spatial nor reduce");
    }
  }
  if (reductions != 1 || block.iters.size() < 2)
    return no_match("it takes one reduce and at least one spatial iterator");
  if (!as_int(block.iters[m.reduce].extent)) return no_match("the reduction's extent is not a constant");
  for (size_t i = 0; i < m.loops.size(); ++i) {
    const StmtNode* inside = i + 1 < m.loops.size() ? static_cast<const StmtNode*>(m.loops[i + 1]) : &block;
    if (m.loops[i]->body.get() != inside) return no_match("the nest is not perfect");
  }
  m.init = block.init ? block.init.as<StoreNode>() : nullptr;
  m.update = single_store(block);
  if (!m.init || !m.update || m.init->mask || m.update->mask) return no_match("init and body must be one store each");
  m.combine = m.update->value.as<BinaryNode>();
  if (!m.combine) return no_match("the update is not C = C op f");
  if (is_load_of(m.combine->a, *m.update))
    m.term = m.combine->b;
  else if (is_load_of(m.combine->b, *m.update))
    m.term = m.combine->a;
  else
    return no_match("the update is not C = C op f");
  if (!is_neutral(m.init->value, m.combine->op, m.update->buffer->dtype))
    return no_match("the init is not the neutral element of the update's operation");
  return m;
}

// Loops over all of `iters`, in that order, around the block; the iterators are bound to them.
Stmt nest_around(Ref<BlockNode> block, const std::vector<size_t>& order) {
  std::vector<Var> vars;
  for (IterVar& iter : block->iters) {
    const std::string& name = iter.var->name;
    vars.push_back(make_var(name.size() > 1 && name[0] == 'v' ? name.substr(1) : name + "_loop", iter.var->dtype));
    iter.binding = vars.back();
  }
  const std::vector<IterVar> iters = block->iters;
  Stmt nest = block;
  for (size_t k = order.size(); k-- > 0;) nest = make_for(vars[order[k]], 0, iters[order[k]].extent, nest);
  return nest;
}

Region point(const Buffer& buffer, const std::vector<Expr>& indices) {
  Region region{buffer, {}};
  for (const Expr& index : indices) region.ranges.push_back({index, 1});
  return region;
}

Result<Reformulated> apply_split_reduction(const Func& func, const BlockNode& block, std::span<const int64_t> numbers) {
  const bool interleaved = numbers.size() == 2 && numbers[1] == 1;
  if ((numbers.size() != 1 && !interleaved) || numbers[0] < 1)
    return no_match("it takes the number of parts, at least 1, and perhaps 1 for interleaved ones");
  FETTLE_TRY(const Match m, match(func, block));
  const IterVar& reduce = block.iters[m.reduce];
  const int64_t total = *as_int(reduce.extent);
  if (interleaved && numbers[0] > total) return no_match("there are more parts than terms");
  const int64_t size = -floordiv_int(-total, numbers[0]);  // of a part
  const int64_t parts = interleaved ? numbers[0] : -floordiv_int(-total, size);

  // The partial results have the spatial iterators as their indices, and the part: first, or last where interleaved.
  const Var part = make_var("vp"), within = make_var("vr"), over = make_var("vp");
  const Expr term_index = interleaved ? Expr(within) * parts + part : Expr(part) * size + within;
  VarMap values = {{reduce.var.get(), term_index}};
  std::vector<Expr> shape, at, from;
  std::vector<IterVar> spatial;
  for (size_t i = 0; i < block.iters.size(); ++i) {
    if (i == m.reduce) continue;
    IterVar iter = block.iters[i];
    iter.var = make_var(iter.var->name, iter.var->dtype);
    values[block.iters[i].var.get()] = iter.var;
    shape.push_back(iter.extent);
    at.push_back(iter.var);
    from.push_back(block.iters[i].var);
    spatial.push_back(std::move(iter));
  }
  const auto place = static_cast<std::ptrdiff_t>(interleaved ? spatial.size() : 0);
  shape.insert(shape.begin() + place, parts);
  at.insert(at.begin() + place, part);
  from.insert(from.begin() + place, over);
  spatial.insert(spatial.begin() + place, {part, parts, IterKind::kSpatial, nullptr});
  const Buffer partial =
      make_buffer(unique_buffer_name(func, m.update->buffer->name + "_partial"), shape, m.update->buffer->dtype);

  // C_partial[…] (+)= f(i, term_index)
  auto first = make_ref<BlockNode>(block);
  first->name = unique_block_name(func, block.name + "_partial");
  first->iters = std::move(spatial);
  first->iters.push_back({within, size, IterKind::kReduce, nullptr});
  std::erase_if(first->reads, [&](const Region& read) { return read.buffer == m.update->buffer; });
  for (Region& read : first->reads)
    for (Range& range : read.ranges) range = {substitute(range.min, values), substitute(range.extent, values)};
  first->writes = {point(partial, at)};
  first->init = store(partial, at, m.init->value);
  Expr term = substitute(m.term, values);
  const bool surplus = parts * size != total;
  if (surplus && interleaved)
    term = select(call("likely", {lt(term_index, total)}, kBool), term, m.init->value);
  first->body = store(partial, at, binary(m.combine->op, load(partial, at), term));
  const auto first_ref = first.get();
  std::vector<size_t> order(first->iters.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  Stmt first_nest = nest_around(first, order);
  if (surplus && !interleaved)
    first_nest = replace_stmt(first_nest, first_ref, with(*first_ref, [&](BlockNode& b) {
                                b.predicate = lt(b.iters.front().binding * Expr(size) + b.iters.back().binding, total);
                              }));

  // C[i] (+)= C_partial[…]
  auto second = make_ref<BlockNode>(block);
  second->iters[m.reduce] = {over, parts, IterKind::kReduce, nullptr};
  order.clear();
  for (size_t i = 0; i < block.iters.size(); ++i)
    if (i != m.reduce) order.push_back(i);
  order.push_back(m.reduce);
  second->reads = {point(partial, from)};
  second->body = store(m.update->buffer, m.update->indices,
                       binary(m.combine->op, load(m.update->buffer, m.update->indices), load(partial, from)));
  const Stmt second_nest = nest_around(second, order);

  const BlockNode* scope = enclosing_block(func, &block);
  const Stmt both = seq({first_nest, second_nest});
  Stmt body = replace_stmt(func->body, m.loops.front(), both);
  const BlockNode* new_scope = find_block(body, scope->name);
  body = replace_stmt(body, new_scope, with(*new_scope, [&](BlockNode& b) { b.allocations.push_back(partial); }));
  return Reformulated{with_body(func, body), {first->name, second->name}, 0};
}

}  // namespace

constinit const ReformulationDef split_reduction_def = {"split_reduction", Numerics::kReassociating,
                                                        apply_split_reduction};

}  // namespace fettle
