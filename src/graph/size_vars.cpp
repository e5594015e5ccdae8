#include "graph/size_vars.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <set>
#include <utility>

#include "base/check.h"
#include "graph/dim_fold.h"
#include "ir/fold.h"
#include "ir/visit.h"

namespace fettle {
namespace {

thread_local SizeVars* current = nullptr;

template <class VarOf>
Expr to_expr(const Dim& dim, const VarOf& var_of) {
  return fold_dim<Expr>(
      dim, [](int64_t n) { return Expr(n); }, var_of,
      [](DimFactor::Kind kind, Expr a, Expr b) {
        if (kind == DimFactor::Kind::kFloorDiv) return floordiv(std::move(a), std::move(b));
        return kind == DimFactor::Kind::kMax ? max(std::move(a), std::move(b)) : min(std::move(a), std::move(b));
      });
}

// Of sizes that were asked for.
Expr over_vars(const Dim& dim, const SizeVars& vars) {
  return to_expr(dim, [&](const Dim& size) -> Expr { return vars.sizes().find(size.to_string())->second.second; });
}

// --- fewer sizes -------------------------------------------------------------------------------------------------

/// Replaces products of two sizes, and operations, by sizes of their own where the sizes in them occur nowhere else.
class Fewer {
 public:
  explicit Fewer(std::vector<Dim> dims) : dims_(std::move(dims)) {
    for (const Dim& dim : dims_) dim.for_each_symbol([&](const Dim& size) { values_.emplace(size.to_string(), size); });
    while (replace_an_operation() || replace_a_product()) {
    }
  }

  /// The dims as they are now, in the order in which they were given.
  const std::vector<Dim>& dims() const { return dims_; }
  /// A size of dims() in those of the dims that were given.
  const Dim& value_of(std::string_view size) const { return values_.find(size)->second; }

 private:
  using FactorFn = std::function<void(const DimFactor&, bool is_inside)>;
  // Every factor, those of operands too.
  static void each_factor(const Dim& dim, const FactorFn& visit, bool is_inside = false) {
    for (const DimTerm& term : dim.terms())
      for (const DimFactor& factor : term.factors) {
        visit(factor, is_inside);
        if (factor.kind == DimFactor::Kind::kSymbol) continue;
        each_factor(factor.a, visit, true);
        each_factor(factor.b, visit, true);
      }
  }

  Dim new_size(const Dim& value) {
    const std::string name = fmt::format(".{}", values_.size());
    values_.emplace(name, value.substitute([&](std::string_view size) { return std::optional(value_of(size)); }));
    return Dim::symbol(name, value.min(), value.max(), std::max<int64_t>(value.divisor(), 1), value.typical());
  }

  // Each dim's terms with `change` applied to their factors, in which what it makes of them may be added.
  void rewrite(const std::function<Dim(std::vector<DimFactor> factors)>& change) {
    for (Dim& dim : dims_) {
      Dim sum = dim.constant();
      for (const DimTerm& term : dim.terms()) sum = sum + term.coefficient * change(term.factors);
      dim = sum;
    }
  }
  static Dim product(const std::vector<DimFactor>& factors) {
    Dim result = 1;
    for (const DimFactor& factor : factors) result = result * factor.whole;
    return result;
  }

  bool replace_an_operation() {
    std::map<std::string, int> uses;        // of each size, anywhere
    std::map<std::string, Dim> operations;  // that are factors of terms, not of operands
    const auto count = [](const Dim& dim, std::map<std::string, int>& into) {
      each_factor(dim, [&](const DimFactor& f, bool) {
        if (f.kind == DimFactor::Kind::kSymbol) ++into[f.whole.to_string()];
      });
    };
    for (const Dim& dim : dims_) {
      count(dim, uses);
      for (const DimTerm& term : dim.terms())
        for (const DimFactor& factor : term.factors)
          if (factor.kind != DimFactor::Kind::kSymbol) operations.emplace(factor.whole.to_string(), factor.whole);
    }
    for (const auto& [text, operation] : operations) {
      std::map<std::string, int> once, inside;
      count(operation, once);
      for (const Dim& dim : dims_)
        for (const DimTerm& term : dim.terms())
          for (const DimFactor& factor : term.factors)
            if (factor.whole == operation) count(factor.whole, inside);
      const bool only =
          std::ranges::all_of(once, [&](const auto& use) { return inside[use.first] == uses[use.first]; });
      if (!only) continue;
      const Dim size = new_size(operation);
      rewrite([&](std::vector<DimFactor> factors) {
        Dim result = 1;
        for (const DimFactor& factor : factors) result = result * (factor.whole == operation ? size : factor.whole);
        return result;
      });
      return true;
    }
    return false;
  }

  bool replace_a_product() {
    std::set<std::string> inside;                         // sizes in operands of operations
    std::set<std::pair<std::string, std::string>> pairs;  // of sizes in one term
    for (const Dim& dim : dims_) {
      each_factor(dim, [&](const DimFactor& f, bool is_inside) {
        if (is_inside && f.kind == DimFactor::Kind::kSymbol) inside.insert(f.whole.to_string());
      });
      for (const DimTerm& term : dim.terms())
        for (const DimFactor& a : term.factors)
          for (const DimFactor& b : term.factors)
            if (a.kind == DimFactor::Kind::kSymbol && b.kind == DimFactor::Kind::kSymbol &&
                a.whole.to_string() < b.whole.to_string())
              pairs.emplace(a.whole.to_string(), b.whole.to_string());
    }
    const auto power = [](const std::vector<DimFactor>& factors, const std::string& size) {
      return std::ranges::count_if(factors, [&](const DimFactor& f) { return f.whole.to_string() == size; });
    };
    for (const auto& [a, b] : pairs) {
      if (inside.contains(a) || inside.contains(b)) continue;
      bool together = true;
      Dim of_a, of_b;
      for (const Dim& dim : dims_)
        for (const DimTerm& term : dim.terms()) {
          together = together && power(term.factors, a) == power(term.factors, b);
          for (const DimFactor& factor : term.factors) {
            if (factor.whole.to_string() == a) of_a = factor.whole;
            if (factor.whole.to_string() == b) of_b = factor.whole;
          }
        }
      if (!together) continue;
      const Dim size = new_size(of_a * of_b);
      rewrite([&](std::vector<DimFactor> factors) {
        const auto times = power(factors, a);
        std::erase_if(factors, [&](const DimFactor& f) { return f.whole == of_a || f.whole == of_b; });
        Dim result = product(factors);
        for (int i = 0; i < times; ++i) result = result * size;
        return result;
      });
      return true;
    }
    return false;
  }

  std::vector<Dim> dims_;
  std::map<std::string, Dim, std::less<>> values_;
};

// --- programs ----------------------------------------------------------------------------------------------------

/// Rewrites expressions over sizes alone, the shapes of buffers too.
class SizeRewriter : public Folder {
 public:
  SizeRewriter(const SizeVars& vars, std::function<Expr(const Dim&)> replace)
      : vars_(vars), replace_(std::move(replace)) {}
  using Folder::rewrite;

  Expr rewrite(const Expr& e) override {
    if (e && e.dtype() == kI64 && e.kind() != ExprKind::kIntImm)
      if (const std::optional<Dim> dim = vars_.dim_of(e)) return replace_(*dim);
    return Folder::rewrite(e);
  }
  Buffer rewrite(const Buffer& buffer) override {
    const auto [found, is_new] = buffers_.try_emplace(buffer.get(), buffer);
    if (!is_new) return found->second;
    bool changed = false;
    const auto all = [&](const std::vector<Expr>& list) {
      std::vector<Expr> fresh;
      for (const Expr& e : list) {
        fresh.push_back(rewrite(e));
        changed |= fresh.back() != e;
      }
      return fresh;
    };
    std::vector<Expr> shape = all(buffer->shape), strides = all(buffer->strides);
    if (!changed) return buffer;
    const Buffer fresh = edited(buffer, [&](BufferNode& b) {
      b.shape = std::move(shape);
      b.strides = std::move(strides);
    });
    buffers_[buffer.get()] = fresh;
    return fresh;
  }

 private:
  const SizeVars& vars_;
  std::function<Expr(const Dim&)> replace_;
  BufferMap buffers_;
};

}  // namespace

SizeVars::SizeVars() : before_(std::exchange(current, this)) {}
SizeVars::~SizeVars() { current = before_; }

Expr SizeVars::expr_of(const Dim& dim) {
  return to_expr(dim, [&](const Dim& size) -> Expr {
    const std::string name = size.to_string();
    const auto found = sizes_.find(name);
    if (found != sizes_.end()) return found->second.second;
    return sizes_.emplace(name, std::pair(size, make_var(fmt::format("s{}", sizes_.size()), kI64)))
        .first->second.second;
  });
}

std::optional<Dim> SizeVars::dim_of(const Expr& e) const {
  if (const int64_t* number = as_int(e))
    return std::abs(*number) < kMaxDim ? std::optional<Dim>(*number) : std::nullopt;
  if (const auto* var = e.as<VarNode>()) {
    for (const auto& [name, size] : sizes_)
      if (size.second.get() == var) return size.first;
    return std::nullopt;
  }
  const auto* n = e.as<BinaryNode>();
  if (!n) return std::nullopt;
  const std::optional<Dim> a = dim_of(n->a), b = a ? dim_of(n->b) : std::nullopt;
  if (!b) return std::nullopt;
  switch (n->op) {
    case BinaryOp::kAdd:
      return *a + *b;
    case BinaryOp::kSub:
      return *a - *b;
    case BinaryOp::kMul:
      return *a * *b;
    case BinaryOp::kFloorDiv:
      return b->min() > 0 ? std::optional(floordiv(*a, *b)) : std::nullopt;
    case BinaryOp::kFloorMod:
      return b->min() > 0 ? std::optional(*a - floordiv(*a, *b) * *b) : std::nullopt;
    case BinaryOp::kMin:
      return min(*a, *b);
    case BinaryOp::kMax:
      return max(*a, *b);
    default:
      return std::nullopt;
  }
}

Expr size_expr(const Dim& dim) {
  if (dim.is_number()) return Expr(dim.value());
  FETTLE_CHECK_MSG(current, "nobody keeps the variables of sizes, and a dim is " + dim.to_string());
  return current->expr_of(dim);
}

std::vector<Expr> size_exprs(const Shape& shape) {
  std::vector<Expr> exprs;
  for (const Dim& dim : shape) exprs.push_back(size_expr(dim));
  return exprs;
}

bool is_positive_size(const Expr& extent) {
  if (extent.kind() == ExprKind::kIntImm) return true;
  const std::optional<Dim> dim = current ? current->dim_of(extent) : std::nullopt;
  return dim && dim->min() >= 1;
}

IntParam int_param_for(Var var, const Dim& dim) {
  return {.var = std::move(var),
          .min = dim.min(),
          .max = dim.max(),
          .multiple_of = std::max<int64_t>(dim.divisor(), 1),
          .typical = dim.typical()};
}

Expr canonical_size(const Expr& e, const SizeVars& vars) {
  if (e.kind() == ExprKind::kIntImm) return e;
  const std::optional<Dim> dim = vars.dim_of(e);
  return dim ? over_vars(*dim, vars) : e;
}

Func canonical_sizes(const Func& func, const SizeVars& vars) {
  if (vars.sizes().empty()) return func;
  SizeRewriter rewriter(vars, [&](const Dim& dim) { return over_vars(dim, vars); });
  return with(rewriter.Mutator::rewrite(func), [](FuncNode& f) { f.int_params.clear(); });
}

std::vector<IntParam> SizeVars::params() const {
  std::vector<IntParam> params;
  for (const auto& [name, size] : sizes_) params.push_back(int_param_for(size.second, size.first));
  return params;
}

SizedFunc with_size_params(const Func& func, const SizeVars& vars) {
  if (vars.sizes().empty()) return {func, {}};
  // What the program needs of the sizes, in the order of first use.
  std::vector<Dim> needed;
  std::map<std::string, size_t> number;
  SizeRewriter collect(vars, [&](const Dim& dim) {
    if (number.emplace(dim.to_string(), needed.size()).second) needed.push_back(dim);
    return over_vars(dim, vars);
  });
  static_cast<void>(collect.Mutator::rewrite(func));

  const Fewer fewer(needed);
  SizedFunc result;
  std::map<std::string, Var> params;
  std::vector<IntParam> int_params;
  const auto var_of = [&](const Dim& size) -> Expr {
    const auto [found, is_new] = params.emplace(size.to_string(), Var());
    if (is_new) {
      found->second = make_var(fmt::format("n{}", int_params.size()), kI64);
      int_params.push_back(int_param_for(found->second, size));
      result.sizes.push_back(fewer.value_of(size.to_string()));
    }
    return found->second;
  };
  SizeRewriter replace(vars, [&](const Dim& dim) { return to_expr(fewer.dims()[number.at(dim.to_string())], var_of); });
  result.func = with(replace.Mutator::rewrite(func), [&](FuncNode& f) { f.int_params = std::move(int_params); });
  return result;
}

}  // namespace fettle
