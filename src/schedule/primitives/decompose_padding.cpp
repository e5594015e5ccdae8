#include "schedule/primitives/decompose_padding.h"

#include <algorithm>
#include <optional>

#include "analysis/sites.h"
#include "schedule/arguments.h"
#include "schedule/dataflow/dataflow.h"
#include "schedule/dataflow/footprint.h"
#include "schedule/edit/steps.h"

namespace fettle {
namespace {

struct Bounds {
  int64_t low = 0, high = 0;  // low <= iterator < high
};

// The box of iterator values in which `condition` holds; nothing where it is no box.
std::optional<std::vector<Bounds>> box_of(const BlockNode& block, const Expr& condition, Analyzer& analyzer) {
  std::vector<Bounds> box;
  for (const IterVar& iter : block.iters) {
    const int64_t* extent = as_int(iter.extent);
    if (!extent) return {};
    box.push_back({0, *extent});
  }
  for (const Expr& part : conjuncts(condition)) {
    const auto* compare = part.as<BinaryNode>();
    if (!compare || (compare->op != BinaryOp::kLt && compare->op != BinaryOp::kLe)) return {};
    if (compare->a.dtype() != kI64) return {};      // it compares values, not indices
    LinearForm room = analyzer.linear(compare->b);  // room >= 0
    room.add(analyzer.linear(compare->a), -1);
    if (compare->op == BinaryOp::kLt) room.add_constant(-1);
    if (room.terms.size() != 1 || std::abs(room.terms.front().coeff) != 1) return {};
    const LinearTerm& term = room.terms.front();
    const auto iter =
        std::ranges::find_if(block.iters, [&](const IterVar& i) { return i.var.get() == term.expr.get(); });
    if (iter == block.iters.end()) return {};
    Bounds& bounds = box[static_cast<size_t>(iter - block.iters.begin())];
    if (term.coeff > 0)
      bounds.low = std::max(bounds.low, -room.constant);
    else
      bounds.high = std::min(bounds.high, room.constant + 1);
  }
  for (const Bounds& bounds : box)
    if (bounds.low >= bounds.high) return {};
  return box;
}

// True if the loop makes up the iterator alone, and nothing else uses it.
bool is_own_loop(const BlockNode& block, const IterVar& iter, const ForNode& loop) {
  if (iter.binding.get() != loop.var.get() || !is_zero(loop.min) || !structural_equal(loop.extent, iter.extent))
    return false;
  if (block.predicate && uses_var(block.predicate, loop.var.get())) return false;
  return std::ranges::none_of(
      block.iters, [&](const IterVar& other) { return &other != &iter && uses_var(other.binding, loop.var.get()); });
}

bool is_perfect_nest(const Stmt& s, const BlockNode* block) {
  const Stmt* inside = &s;
  while (const auto* loop = inside->as<ForNode>()) inside = &loop->body;
  return inside->get() == block;
}

Result<Applied> apply_decompose_padding(const Schedule& s, const DecomposePaddingArgs& args) {
  const Func& func = s.func();
  FETTLE_TRY(const BlockAndLoop given, block_and_loop(s, args.block, args.loop));
  const BlockNode *const block = given.block, *const scope = given.scope;
  const ForNode* const loop = given.loop;
  FETTLE_TRY_VOID(check_complete(ErrorCode::E211, func, *block, *scope, false));
  const std::vector<const ForNode*> around = loops_around(func, block);
  if (std::ranges::find(around, loop) == around.end() || !is_perfect_nest(given.loop_stmt, block))
    return refused(ErrorCode::E207, func, loop, "loop {} does not enclose block {} alone", loop->var->name,
                   block->name);
  const StoreNode* target = single_store(*block);
  const auto* choice = target && !target->mask ? target->value.as<SelectNode>() : nullptr;
  const ExprKind other = choice ? choice->if_false.kind() : ExprKind::kLoad;
  if (!choice || (other != ExprKind::kFloatImm && other != ExprKind::kIntImm))
    return refused(ErrorCode::E226, func, block, "block {} does not select a constant", block->name);
  Analyzer analyzer = analyzer_in(func, *block);
  const auto box = box_of(*block, choice->condition, analyzer);
  if (!box)
    return refused(ErrorCode::E226, func, block, "the condition of block {} is no box of constant bounds", block->name);

  const std::string name = unique_block_name(func, block->name + "_fill");
  const Stmt fill_block = with(*block, [&](BlockNode& b) {
    b.name = name;
    b.body = store(target->buffer, target->indices, choice->if_false);
    b.reads.clear();
  });
  const Stmt fill = rename_bound(replace_stmt(given.loop_stmt, block, fill_block));

  // The inside: iterators count from the box's corner.
  auto inside = make_ref<BlockNode>(*block);
  VarMap shifted, cut;
  for (size_t i = 0; i < box->size(); ++i) {
    const Bounds& bounds = (*box)[i];
    IterVar& iter = inside->iters[i];
    if (is_int(iter.extent, bounds.high - bounds.low)) continue;
    shifted[iter.var.get()] = iter.var + bounds.low;
    const auto own =
        std::ranges::find_if(around, [&](const ForNode* l) { return is_own_loop(*block, block->iters[i], *l); });
    iter.extent = int_imm(bounds.high - bounds.low);
    if (own != around.end() && std::ranges::find(around, loop) <= own) {
      cut[(*own)->var.get()] = iter.extent;
    } else {
      Analyzer outside = analyzer_over(func, around);
      iter.binding = outside.simplify(iter.binding - bounds.low);
      inside->predicate = logical_and(inside->predicate, bounds_predicate(outside, iter.binding, iter.extent));
    }
  }
  if (is_true(inside->predicate)) inside->predicate = nullptr;
  Analyzer within = analyzer_in(func, *inside);
  std::vector<Expr> indices = target->indices;
  for (Expr& index : indices) index = within.simplify(substitute(index, shifted));
  inside->body = store(target->buffer, indices, within.simplify(substitute(choice->if_true, shifted)));
  infer_regions(*inside, within);
  Stmt nest = inside;
  for (size_t i = around.size(); i-- > 0;) {
    nest = with(*around[i], [&](ForNode& f) {
      if (const auto found = cut.find(f.var.get()); found != cut.end()) f.extent = found->second;
      f.body = nest;
    });
    if (around[i] == loop) break;
  }
  return Applied{replace_in(func, loop, seq({fill, nest})), {name}};
}

}  // namespace

extern constinit const PrimitiveDef decompose_padding_def =
    define_primitive<DecomposePaddingArgs, apply_decompose_padding>("decompose_padding", 1);

Result<BlockRef> decompose_padding(Schedule& s, const DecomposePaddingArgs& args) {
  return run<BlockRef>(s, decompose_padding_def, args);
}

}  // namespace fettle
