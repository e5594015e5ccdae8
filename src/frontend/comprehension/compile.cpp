#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"
#include "frontend/comprehension/function.h"
#include "frontend/comprehension/lexer.h"
#include "frontend/comprehension/reads.h"
#include "graph/op_util.h"
#include "te/make_func.h"

namespace fettle::comprehension {
namespace {

using ops::Indices;

ops::Reduce reduction_of(Assignment assignment) {
  switch (assignment) {
    case Assignment::kMultiply:
      return &te::prod;
    case Assignment::kMin:
      return &te::min;
    case Assignment::kMax:
      return &te::max;
    default:
      return &te::sum;
  }
}

// A product of elements, none of them computed with before.
bool is_product(const ExprTree& tree) {
  if (tree.kind == ExprKind::kBinary && tree.text == "*") {
    const auto is_factor = [](const ExprTree& arg) {
      return arg.kind == ExprKind::kApply || arg.kind == ExprKind::kName || is_product(arg);
    };
    return is_factor(tree.args[0]) && is_factor(tree.args[1]);
  }
  return false;
}

class StatementCompiler {
 public:
  StatementCompiler(Statement& statement, const Scope& scope) : statement_(statement), scope_(scope), reads_(scope) {
    if (const auto found = scope.tensors.find(tree().name); found != scope.tensors.end()) before_ = &found->second;
    for (const std::string& name : statement.left) {
      const IndexRange& range = *statement.ranges.find(name);
      base_.push_back(range.begin.constant);
      extents_.push_back(range.end.constant - range.begin.constant);
    }
  }

  Result<Compiled> run() {
    const DType dtype = before_ ? before_->dtype : statement_.dtype;
    is_whole_ = !before_ || (base_ == before_->base && extents_ == before_->extents);
    te::Tensor made = value(dtype);
    if (before_ && (accumulates() || !is_whole_)) made = merged(made);
    made = rounded(made, dtype);

    Compiled compiled;
    compiled.op = kind();
    compiled.read = reads_.names();
    compiled.written = {tree().name};
    compiled.made = {before_ ? *before_ : TensorInfo{dtype, base_, extents_}};
    return reads_.finish(std::move(compiled), tree().name, {made}, to_string(tree().place));
  }

 private:
  const StatementTree& tree() const { return *statement_.tree; }
  bool accumulates() const { return tree().assignment != Assignment::kSet && !tree().from_identity; }

  // The statement's value over its own ranges, reduced.
  te::Tensor value(DType dtype) {
    const auto element = [&](const Indices& left, const Indices& reduced) {
      const auto index = [&](const std::string& name) -> Expr {
        const IndexRange& range = *statement_.ranges.find(name);
        const auto place = [&](const std::vector<std::string>& names, const Indices& at) -> Expr {
          const auto found = std::ranges::find(names, name);
          return found == names.end() ? Expr() : at[static_cast<size_t>(found - names.begin())];
        };
        Expr at = place(statement_.left, left);
        if (!at) at = place(statement_.reduced, reduced);
        // What stands in an exists clause alone is not computed with.
        return at ? at + size_expr(range.begin.constant) : Expr(0);
      };
      const Result<Value> read = value_of(statement_, index, reads_.element());
      FETTLE_CHECK_MSG(read.has_value(), read.error().to_string());
      return as_type(*read, dtype);
    };
    std::vector<Expr> shape = extents(extents_);
    if (statement_.reduced.empty())
      return te::compute(
          std::move(shape), [&](const std::vector<Var>& i) -> te::Body { return element(ops::to_indices(i), {}); },
          tree().name, statement_.left);
    std::vector<te::ReduceAxis> axes;
    for (const std::string& name : statement_.reduced) {
      const IndexRange& range = *statement_.ranges.find(name);
      axes.push_back(te::reduce_axis(extent_expr(range.end.constant - range.begin.constant), name));
    }
    return ops::reduce_over(reduction_of(tree().assignment), std::move(shape), axes, element, tree().name,
                            statement_.left);
  }

  // All of the tensor: what the statement makes where its ranges go, and what was there before.
  te::Tensor merged(const te::Tensor& made) {
    const te::Tensor before = reads_.tensor(tree().name);
    return te::compute(
        before.shape(),
        [&](const std::vector<Var>& i) -> te::Body {
          Expr inside;
          std::vector<Expr> at;
          for (size_t d = 0; d < i.size(); ++d) {
            at.push_back(i[d] + size_expr(before_->base[d] - base_[d]));
            if (base_[d] == before_->base[d] && extents_[d] == before_->extents[d]) continue;
            inside = logical_and(inside, logical_and(le(Expr(0), at[d]), lt(at[d], extent_expr(extents_[d]))));
          }
          Expr value = made.at(std::move(at));
          if (accumulates()) value = combined(tree().assignment, before(i), value);
          return is_true(inside) ? value : select(call("likely", {inside}, kBool), value, before(i));
        },
        tree().name + "_all", statement_.left);
  }

  std::string_view kind() const {
    if (!statement_.reduced.empty()) {
      if (reads_.names().empty()) return "fettle.LoopProgram";
      const bool sums = tree().assignment == Assignment::kAdd && is_product(tree().value);
      return sums ? "fettle.ProductProgram" : "fettle.ReduceProgram";
    }
    if (reads_.names().empty() || !is_whole_) return "fettle.IndexProgram";
    return std::ranges::all_of(statement_.reader.accesses(), [&](const Access& access) { return drops_axes(access); })
               ? "fettle.MapProgram"
               : "fettle.IndexProgram";
  }
  // Of a tensor that has some of the result's axes, in their order, the element that lies there.
  bool drops_axes(const Access& access) const {
    const TensorInfo& tensor = scope_.tensors.find(access.tensor)->second;
    size_t next = 0;
    for (size_t d = 0; access.is_plain && d < access.indices.size(); ++d) {
      const Affine& index = access.indices[d]->affine;
      if (index.is_constant()) return false;
      const auto found = std::ranges::find(statement_.left, index.terms.begin()->first);
      const auto at = static_cast<size_t>(found - statement_.left.begin());
      if (found == statement_.left.end() || at < next || !(base_[at] == Dim(0)) || !(extents_[at] == tensor.extents[d]))
        return false;
      next = at + 1;
    }
    return access.is_plain;
  }

  Statement& statement_;
  const Scope& scope_;
  const TensorInfo* before_ = nullptr;
  std::vector<Dim> base_, extents_;
  bool is_whole_ = true;
  Reads reads_;
};

}  // namespace

Expr extent_expr(const Dim& extent) { return size_expr(extent.min() >= 0 ? extent : max(extent, 0)); }

std::vector<Expr> extents(const std::vector<Dim>& dims) {
  std::vector<Expr> shape;
  for (const Dim& dim : dims) shape.push_back(size_expr(dim));
  return shape;
}

Expr combined(Assignment assignment, const Expr& before, const Expr& value) {
  switch (assignment) {
    case Assignment::kAdd:
      return before + value;
    case Assignment::kMultiply:
      return before * value;
    case Assignment::kMin:
      return min(before, value);
    case Assignment::kMax:
      return max(before, value);
    case Assignment::kSet:
      break;
  }
  return value;
}

const te::Tensor& Reads::tensor(const std::string& name) {
  const auto found = std::ranges::find(names_, name);
  if (found != names_.end()) return tensors_[static_cast<size_t>(found - names_.begin())];
  const TensorInfo& info = scope_.tensors.find(name)->second;
  names_.push_back(name);
  tensors_.push_back(te::placeholder(extents(info.extents), info.dtype, name).read_as(computed_dtype(info.dtype)));
  return tensors_.back();
}

ExpressionReader::ReadFn Reads::element() {
  return
      [this](const std::string& name, std::vector<Expr> indices, DType) { return tensor(name).at(std::move(indices)); };
}

Result<Compiled> Reads::finish(Compiled compiled, const std::string& name, const std::vector<te::Tensor>& made,
                               const std::string& where) {
  te::FuncOptions options;
  options.int_params = sizes_.params();
  Result<Func> func = te::make_func(name, tensors_, made, options);
  if (!func) {
    Diagnostic problem = func.error();
    problem.where = where;
    return fail(std::move(problem));
  }
  compiled.program = *func;
  for (const IntParam& param : (*func)->int_params)
    for (const auto& [size, dim_and_var] : sizes_.sizes())
      if (dim_and_var.second.get() == param.var.get()) compiled.sizes.push_back(dim_and_var.first);
  return compiled;
}

Result<Compiled> compile_statement(Statement& statement, const Scope& scope) {
  return StatementCompiler(statement, scope).run();
}

}  // namespace fettle::comprehension
