#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "base/check.h"
#include "frontend/comprehension/forward_sums.h"
#include "frontend/comprehension/function.h"
#include "frontend/comprehension/initial_values.h"
#include "frontend/comprehension/lexer.h"
#include "frontend/comprehension/reads.h"
#include "graph/op_util.h"
#include "ir/visit.h"
#include "te/make_func.h"

namespace fettle::comprehension {
namespace {

tl::unexpected<Diagnostic> wrong(Place place, std::string message) {
  return fail(ErrorCode::E612, std::move(message), to_string(place));
}

Expr identity_of(Assignment assignment, DType dtype) {
  switch (assignment) {
    case Assignment::kMultiply:
      return constant(1, dtype);
    case Assignment::kMin:
      return te::highest(dtype);
    case Assignment::kMax:
      return te::lowest(dtype);
    default:
      return constant(0, dtype);
  }
}

// Where a variable goes in all: [least, least + extent). Loops begin at 0 there.
struct Hull {
  Dim least, extent;
};

struct Loop {
  std::string name;
  Hull hull;
  Var var;  // of the loop, from its least value on
};

class LoopCompiler {
 public:
  LoopCompiler(const Scope& scope, std::vector<SizeCheck>& checks) : scope_(scope), reads_(scope), checks_(checks) {}

  Result<Compiled> run(const StatementTree& tree) {
    find_written(tree);
    root_ = &tree;
    for (const std::string& name : written_) scope_.tensors.contains(name) ? outputs_.push_back(name) : void();
    if (outputs_.empty())
      return wrong(
          tree.place,
          fmt::format("what it defines is defined nowhere else: a tensor that loops change must be there before. "
                      "Define all of it first, as {0}(…) = 0 with ranges that are numbers or sizes",
                      written_.empty() ? "C" : written_[0]));
    std::vector<te::OutputSpec> specs;
    for (const std::string& name : outputs_) {
      const TensorInfo& info = scope_.tensors.at(name);
      specs.emplace_back(extents(info.extents), info.dtype);
    }
    // First with buffers that stand for the results, whose number is not known before: locals come behind.
    for (const std::string& name : outputs_) declare(name, scope_.tensors.at(name));
    for (const std::string& name : outputs_) reads_.tensor(name);
    Result<Stmt> body = statement(tree);
    if (!body) return tl::unexpected<Diagnostic>(body.error());
    std::vector<Stmt> copies;
    for (const std::string& name : outputs_) {
      if (!edges_) {
        copies.push_back(copy(name, name + "_before"));
        continue;
      }
      for (const Edge& edge : *edges_)
        copies.push_back(copy(name, fmt::format("{}_before_{}", name, copies.size()), edge));
    }
    for (const std::string& name : locals_) {
      const TensorInfo& info = scope_.tensors.at(name);
      specs.emplace_back(extents(info.extents), info.dtype);
    }
    copies.push_back(*body);
    std::vector<std::string> order = outputs_;
    order.insert(order.end(), locals_.begin(), locals_.end());
    std::vector<te::Tensor> made = te::nest(
        std::move(specs),
        [&](const std::vector<Buffer>& buffers) {
          BufferMap by;
          for (size_t k = 0; k < order.size(); ++k) by[buffers_.at(order[k]).get()] = buffers[k];
          return substitute_buffers(seq(std::move(copies)), by);
        },
        outputs_[0]);
    made.resize(outputs_.size());
    Compiled compiled;
    compiled.op = "fettle.LoopProgram";
    compiled.read = reads_.names();
    compiled.written = outputs_;
    for (const std::string& name : outputs_) compiled.made.push_back(scope_.tensors.at(name));
    return reads_.finish(std::move(compiled), outputs_[0], made, to_string(tree.place));
  }

 private:
  void find_written(const StatementTree& tree) {
    if (tree.kind == StatementTree::Kind::kComprehension) {
      if (std::ranges::find(written_, tree.name) == written_.end()) written_.push_back(tree.name);
      return;
    }
    for (const StatementTree& inner : tree.body) find_written(inner);
  }

  void declare(const std::string& name, const TensorInfo& info) {
    buffers_[name] = make_buffer(name, extents(info.extents), info.dtype);
  }

  // --- elements of what the program changes

  Expr element(const std::string& name, std::vector<Expr> indices, DType dtype) {
    const auto found = buffers_.find(name);
    if (found == buffers_.end()) return reads_.tensor(name).at(std::move(indices));
    const Expr read = load(found->second, std::move(indices));
    return read.dtype() == dtype ? read : cast(dtype, read);
  }
  Stmt set(const std::string& name, std::vector<Expr> indices, const Expr& value) const {
    const Buffer& buffer = buffers_.at(name);
    return store(buffer, std::move(indices), value.dtype() == buffer->dtype ? value : cast(buffer->dtype, value));
  }

  // What was there before the loops: all of it, or an edge.
  Stmt copy(const std::string& name, std::string block_name, const std::optional<Edge>& edge = std::nullopt) {
    const TensorInfo& info = scope_.tensors.at(name);
    auto block = make_ref<BlockNode>();
    block->name = std::move(block_name);
    std::vector<Expr> at;
    std::vector<Var> loops;
    for (size_t d = 0; d < info.extents.size(); ++d) {
      const bool is_edge = edge && edge->dim == d;
      const Dim extent = is_edge ? min(info.extents[d], 1) : info.extents[d];
      loops.push_back(make_var(fmt::format("i{}", d)));
      block->iters.push_back({make_var(fmt::format("vi{}", d)), size_expr(extent), IterKind::kSpatial, loops.back()});
      at.push_back(block->iters.back().var);
      if (is_edge && edge->is_upper) at.back() = at.back() + size_expr(info.extents[d] - 1);
    }
    block->body = set(name, at, reads_.tensor(name).at(at));
    Stmt made(block);
    for (size_t d = loops.size(); d-- > 0;) made = make_for(loops[d], Expr(0), block->iters[d].extent, made);
    return made;
  }

  // --- loops

  Result<Hull> hull_of(const Ranges& ranges, const IndexRange& range, Place place) const {
    const auto least = ranges.extreme(range.begin, false), most = ranges.extreme(range.end, true);
    if (!least || !most || !least->is_constant() || !most->is_constant())
      return wrong(place, "the bounds of a range rise or fall with each variable, whatever the sizes are");
    return Hull{least->constant, most->constant - least->constant};
  }

  // Over the loops around.
  Expr expr_of(const Affine& a) const {
    Expr sum = size_expr(a.constant);
    for (const auto& [name, coefficient] : a.terms) {
      const auto loop = std::ranges::find(loops_, name, &Loop::name);
      FETTLE_CHECK(loop != loops_.end());
      sum = sum + (loop->var + size_expr(loop->hull.least)) * size_expr(coefficient);
    }
    return sum;
  }

  Result<> open(Ranges& ranges, const std::string& name, const IndexRange& range, Place place) {
    FETTLE_TRY(const Hull hull, hull_of(ranges, range, place));
    ranges.add(name, range);
    loops_.push_back({name, hull, make_var(name)});
    return {};
  }
  // The loop opened last, around `body`.
  Stmt close(const IndexRange& range, Stmt body) {
    const Loop loop = loops_.back();
    loops_.pop_back();
    const bool is_box = range.begin.is_constant() && range.end.is_constant();
    const Expr extent = is_box ? extent_expr(loop.hull.extent) : expr_of(range.end - range.begin);
    return make_for(loop.var, is_box ? Expr(0) : expr_of(range.begin - Affine{loop.hull.least}), extent,
                    std::move(body));
  }

  Result<Stmt> statement(const StatementTree& tree) {
    if (tree.kind == StatementTree::Kind::kCall) return wrong(tree.place, "functions are not called in loops");
    if (tree.kind == StatementTree::Kind::kComprehension) return comprehension(tree);
    const bool is_taken = scope_.tensors.contains(tree.name) || scope_.sizes.contains(tree.name) ||
                          buffers_.contains(tree.name) || ranges_.find(tree.name);
    if (is_taken) return wrong(tree.place, fmt::format("{} is the name of something else", tree.name));
    ExpressionReader reader(scope_, ranges_);
    IndexRange range;
    FETTLE_TRY(range.begin, reader.read_bound(tree.begin));
    FETTLE_TRY(range.end, reader.read_bound(tree.end));
    if (!reader.indices().empty())
      return wrong(tree.begin.place,
                   fmt::format("{} is no size and no variable of a loop around", reader.indices()[0]));
    FETTLE_TRY_VOID(open(ranges_, tree.name, range, tree.place));
    std::vector<Stmt> body;
    for (size_t at = 0; at < tree.body.size(); ++at) {
      if (at + 1 < tree.body.size())
        if (const auto steps = sum_in_place(tree.body[at], tree.body[at + 1])) {
          for (const StatementTree& step : *steps) {
            FETTLE_TRY(body.emplace_back(), statement(step));
          }
          ++at;
          continue;
        }
      FETTLE_TRY(body.emplace_back(), statement(tree.body[at]));
    }
    ranges_.drop();
    Stmt made = seq(std::move(body));
    if (!made) return wrong(tree.place, "there is nothing in the loop");
    return close(range, std::move(made));
  }

  // A sum of the loops' own that one statement adds to an element, as steps that add to the element (forward_sums.h).
  // So there is no scalar through which iterations of the loops around wait for each other.
  std::optional<std::vector<StatementTree>> sum_in_place(const StatementTree& sum, const StatementTree& use) const {
    if (scope_.tensors.contains(sum.name) && std::ranges::find(locals_, sum.name) == locals_.end()) return std::nullopt;
    auto steps = forwarded(sum, use);
    if (!steps || !is_read_after_sums(*root_, sum.name)) return std::nullopt;
    const auto of = analyse(scope_, ranges_, sum, LeftSide::kAny);
    if (!of) return std::nullopt;
    const auto target = scope_.tensors.find(use.name);
    if (target == scope_.tensors.end() || target->second.dtype != of->dtype || !of->dtype.is_float())
      return std::nullopt;
    if (std::ranges::find(outputs_, use.name) == outputs_.end()) return std::nullopt;
    // Each step's statement is one, with no index of its own.
    for (const StatementTree& step : *steps) {
      const auto made = analyse(scope_, ranges_, step, LeftSide::kAny);
      if (!made || !made->left.empty()) return std::nullopt;
      if (step.assignment == Assignment::kSet && !made->reduced.empty()) return std::nullopt;
      if (step.assignment != Assignment::kAdd) continue;
      for (const Access& access : made->reader.accesses())
        if (access.tensor == use.name && !is_apart(*made, access)) return std::nullopt;
    }
    return steps;
  }

  // Whether the statement writes no element that the access reads, in whatever iterations.
  static bool is_apart(const Statement& made, const Access& access) {
    for (size_t d = 0; d < made.place.size(); ++d) {
      const Form &written = made.place[d], &read = access.indices[d];
      if (written->kind != IndexForm::Kind::kAffine || read->kind != IndexForm::Kind::kAffine) continue;
      const auto between = made.ranges.interval(*affine_form(written->affine - read->affine));
      if (between && (between->least.min() >= 1 || between->most.max() <= -1)) return true;
    }
    return false;
  }

  // A tensor that a statement in the loops defines, for the statements behind it.
  Result<> define(const StatementTree& tree, const Statement& made) {
    if (tree.assignment != Assignment::kSet && !tree.from_identity)
      return wrong(tree.place, fmt::format("{} is added to, and nothing was there before", tree.name));
    TensorInfo info{made.dtype, {}, {}};
    for (const Form& form : made.place) {
      const IndexRange* range = form->kind == IndexForm::Kind::kAffine && form->affine.terms.size() == 1
                                    ? made.ranges.find(form->affine.terms.begin()->first)
                                    : nullptr;
      const bool is_own = range && std::ranges::find(made.left, form->affine.terms.begin()->first) != made.left.end();
      if (!is_own || !range->begin.is_constant() || !range->end.is_constant())
        return wrong(tree.place,
                     fmt::format("{} is not defined before, and this defines a part of it alone", tree.name));
      info.base.push_back(range->begin.constant);
      info.extents.push_back(range->end.constant - range->begin.constant);
    }
    declare(tree.name, info);
    scope_.tensors.emplace(tree.name, std::move(info));
    locals_.push_back(tree.name);
    return {};
  }

  Result<Stmt> comprehension(const StatementTree& tree) {
    FETTLE_TRY(Statement made, analyse(scope_, ranges_, tree, LeftSide::kAny));
    if (!scope_.tensors.contains(tree.name)) FETTLE_TRY_VOID(define(tree, made));
    const bool is_reset = tree.from_identity && tree.assignment != Assignment::kSet;
    const auto reads_itself = [&](const Access& access) { return access.tensor == tree.name; };
    if (is_reset && std::ranges::any_of(made.reader.accesses(), reads_itself))
      return wrong(tree.place, fmt::format("{} is read by the statement that begins it anew", tree.name));
    std::ranges::copy(made.checks, std::back_inserter(checks_));

    const size_t n_outer = loops_.size();
    Ranges ranges = ranges_;
    std::vector<std::string> inner = made.left;
    inner.insert(inner.end(), made.reduced.begin(), made.reduced.end());
    // A range that depends on another index stands inside of it.
    std::stable_sort(inner.begin(), inner.end(), [&](const std::string& a, const std::string& b) {
      return made.ranges.find(b)->begin.terms.contains(a) || made.ranges.find(b)->end.terms.contains(a);
    });
    for (const std::string& name : inner) {
      for (const Affine* bound : {&made.ranges.find(name)->begin, &made.ranges.find(name)->end})
        for (const auto& [other, coefficient] : bound->terms)
          if (!ranges.find(other))
            return wrong(tree.place,
                         fmt::format("the range of {} depends on {}, which runs inside of it", name, other));
      FETTLE_TRY_VOID(open(ranges, name, *made.ranges.find(name), tree.place));
    }
    if (is_alone(tree)) {
      std::vector<std::string> loops;
      for (const Loop& loop : loops_) loops.push_back(loop.name);
      edges_ = edges_read_before_set(made, loops, scope_.tensors.at(tree.name));
    }
    Stmt result = block(tree, made, /*begins=*/false, n_outer, loops_.size());
    size_t at = inner.size();
    const auto is_reduced = [&](const std::string& name) {
      return std::ranges::find(made.reduced, name) != made.reduced.end();
    };
    while (at > 0 && is_reduced(inner[at - 1])) result = close(*made.ranges.find(inner[--at]), std::move(result));
    if (is_reset && !made.reduced.empty()) {
      if (std::ranges::any_of(inner.begin(), inner.begin() + static_cast<std::ptrdiff_t>(at), is_reduced))
        return wrong(tree.place, "what it reduces over runs around what it defines");
      result = seq({block(tree, made, /*begins=*/true, n_outer, loops_.size()), result});
    }
    while (at > 0) result = close(*made.ranges.find(inner[--at]), std::move(result));
    return result;
  }

  // Whether there is no other statement in the loops.
  bool is_alone(const StatementTree& tree) const {
    const StatementTree* at = root_;
    while (at->kind == StatementTree::Kind::kFor && at->body.size() == 1) at = &at->body.front();
    return at == &tree;
  }

  // One store, of the loops open up to `n_loops`; begins: of the reduction's identity.
  Stmt block(const StatementTree& tree, Statement& made, bool begins, size_t n_outer, size_t n_loops) {
    auto result = make_ref<BlockNode>();
    result->name = begins ? tree.name + "_init" : tree.name;
    std::map<std::string, Expr> values;
    for (size_t k = 0; k < n_loops; ++k) {
      const Loop& loop = loops_[k];
      const bool is_reduced = k >= n_outer && std::ranges::find(made.reduced, loop.name) != made.reduced.end();
      const bool is_apart = !made.is_in_order && std::ranges::any_of(made.place, [&](const Form& form) {
        return form->kind == IndexForm::Kind::kAffine && form->affine.terms.size() == 1 &&
               form->affine.terms.begin()->first == loop.name && form->affine.terms.begin()->second == Dim(1);
      });
      const IterKind kind = is_apart ? IterKind::kSpatial
                            : is_reduced && tree.assignment != Assignment::kSet && !made.is_in_order ? IterKind::kReduce
                                                                                                     : IterKind::kScan;
      const Var var = make_var("v" + loop.name);
      result->iters.push_back({var, extent_expr(loop.hull.extent), kind, loop.var});
      values[loop.name] = var + size_expr(loop.hull.least);
    }
    const auto index = [&](const std::string& name) {
      const auto found = values.find(name);
      return found == values.end() ? Expr(0) : found->second;
    };
    const TensorInfo& info = scope_.tensors.at(tree.name);
    const DType dtype = computed_dtype(info.dtype);
    const Result<Value> value =
        value_of(made, index, [&](const std::string& name, std::vector<Expr> indices, DType read_as) {
          return element(name, std::move(indices), read_as);
        });
    FETTLE_CHECK_MSG(value.has_value(), value.error().to_string());
    std::vector<Expr> place;
    for (size_t d = 0; d < tree.indices.size(); ++d) {
      const Result<Value> at = made.reader.read(tree.indices[d]);
      FETTLE_CHECK_MSG(at.has_value(), at.error().to_string());
      place.push_back(at->expr - size_expr(info.base[d]));
    }
    Expr stored = identity_of(tree.assignment, dtype);
    if (!begins) {
      const bool adds = tree.assignment != Assignment::kSet && !(tree.from_identity && made.reduced.empty());
      stored = as_type(*value, info.dtype);
      if (adds) stored = combined(tree.assignment, element(tree.name, place, dtype), stored);
    }
    result->body = set(tree.name, std::move(place), stored);
    if (needs_condition(made, n_loops)) result->body = if_then(domain(values, made), result->body);
    return Stmt(result);
  }

  // Whether indices stay inside only because loops do not go everywhere in their hulls.
  bool needs_condition(const Statement& made, size_t n_loops) const {
    Ranges hulls;
    for (size_t k = 0; k < n_loops; ++k)
      hulls.add(loops_[k].name, {{loops_[k].hull.least}, {loops_[k].hull.least + loops_[k].hull.extent}});
    const auto is_inside = [&](const IndexForm& form, const Dim& extent) {
      const auto here = made.ranges.interval(form), anywhere = hulls.interval(form);
      if (!here) return true;  // held
      return anywhere && (anywhere->least.min() >= 0 || anywhere->least == here->least) &&
             ((extent - 1 - anywhere->most).min() >= 0 || anywhere->most == here->most);
    };
    for (const Access& access : made.reader.accesses())
      for (size_t d = 0; d < access.indices.size(); ++d)
        if (!is_inside(*access.indices[d], scope_.tensors.at(access.tensor).extents[d])) return true;
    const TensorInfo& info = scope_.tensors.at(made.tree->name);
    for (size_t d = 0; d < made.place.size(); ++d) {
      if (made.place[d]->kind != IndexForm::Kind::kAffine) continue;
      if (!is_inside(*affine_form(made.place[d]->affine - Affine{info.base[d]}), info.extents[d])) return true;
    }
    return false;
  }

  // The bounds that depend on variables, as a condition over the block's iterators.
  static Expr domain(const std::map<std::string, Expr>& values, const Statement& made) {
    const auto expr = [&](const Affine& a) {
      Expr sum = size_expr(a.constant);
      for (const auto& [name, coefficient] : a.terms) sum = sum + values.at(name) * size_expr(coefficient);
      return sum;
    };
    Expr condition;
    for (const auto& [name, range] : made.ranges.all()) {
      const auto found = values.find(name);
      if (found == values.end()) continue;
      if (!range.begin.is_constant()) condition = logical_and(condition, le(expr(range.begin), found->second));
      if (!range.end.is_constant()) condition = logical_and(condition, lt(found->second, expr(range.end)));
    }
    return condition ? condition : bool_imm(true);
  }

  const StatementTree* root_ = nullptr;
  Scope scope_;
  Reads reads_;
  std::vector<SizeCheck>& checks_;
  std::vector<std::string> written_, outputs_, locals_;
  std::map<std::string, Buffer> buffers_;
  std::optional<std::vector<Edge>> edges_;  // that are read before they are set; else all of each tensor may be
  Ranges ranges_;
  std::vector<Loop> loops_;
};

}  // namespace

Result<Compiled> compile_loops(const StatementTree& tree, const Scope& scope, std::vector<SizeCheck>& checks) {
  return LoopCompiler(scope, checks).run(tree);
}

}  // namespace fettle::comprehension
