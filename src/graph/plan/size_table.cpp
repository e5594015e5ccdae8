#include "graph/plan/size_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <set>

#include "base/check.h"
#include "graph/dim_fold.h"
#include "ir/stmt.h"

namespace fettle {
namespace {

/// Memory that a storage may need: a bound that no arithmetic on its parts exceeds.
constexpr double kMostBytes = 0x1p46;

class ResizeWriter {
 public:
  ResizeWriter(const Graph& graph, const Plan& plan, const std::vector<Dim>& entries)
      : graph_(graph), plan_(plan), entries_(entries), table_(make_buffer("table", {std::ssize(entries)}, kI64)) {}

  Func write(const std::string& name, std::vector<std::string>& errors) {
    errors_ = &errors;
    read_inputs();
    for (const SizeCheck& check : graph_.size_checks()) require(check);
    for (const Storage& storage : plan_.storages)
      if (!storage.size_bytes.is_number())
        refuse_if(lt(float_imm(kMostBytes, kF64), as_double(storage.size_bytes)),
                  "the sizes of the inputs are too large: a tensor takes more than 64 TiB");
    for (const ArenaPlace& place : plan_.places) {
      Expr most;
      for (const Dim& end : place.ends) most = most ? max(most, value_of(end)) : value_of(end);
      values_[place.offset.to_string()] = define(place.offset.to_string(), most);
    }
    std::vector<Stmt> stores;
    for (size_t i = 0; i < entries_.size(); ++i)
      stores.push_back(store(table_, {Expr(static_cast<int64_t>(i))}, value_of(entries_[i])));
    // The first rule that is broken is what is told.
    for (size_t i = rules_.size(); i-- > 0;)
      stores.push_back(if_then(rules_[i], store(table_, {0}, Expr(-1 - static_cast<int64_t>(i)))));
    Stmt body = seq(std::move(stores));
    for (size_t i = lets_.size(); i-- > 0;) body = let(lets_[i].first, lets_[i].second, std::move(body));
    auto func = make_ref<FuncNode>();
    func->name = name;
    func->params = {{table_, ParamKind::kOutput, false}};
    func->int_params = params_;
    func->body = std::move(body);
    return Func(func);
  }

 private:
  void refuse_if(const Expr& broken, std::string message) {
    rules_.push_back(broken);
    errors_->push_back(std::move(message));
  }

  Expr define(const std::string& name, const Expr& value) {
    std::string text = name;
    std::ranges::replace_if(text, [](char c) { return !std::isalnum(static_cast<unsigned char>(c)); }, '_');
    lets_.emplace_back(make_var(text, kI64), value);
    return lets_.back().first;
  }

  void read_inputs() {
    struct Stated {
      Expr given;
      Dim dim;
      std::string where;
      bool may_be_untold;  // then it is negative
    };
    std::vector<Stated> stated;  // extents that something else decides
    // Sizes that states alone have, beside those that grow, cannot be told by others.
    std::set<std::string> of_others;
    for (const Value* input : graph_.inputs())
      if (!state_of(input))
        for (const Dim& dim : input->shape()) of_others.insert(dim.to_string());
    for (const Value* input : graph_.inputs())
      for (size_t d = 0; d < input->shape().size(); ++d) {
        const Dim& dim = input->shape()[d];
        const Var given = make_var(fmt::format("in{}", params_.size()), kI64);
        params_.push_back({.var = given, .min = INT64_MIN});
        const std::string where = fmt::format("input \"{}\", axis {}", input->name, d);
        const std::string size(dim.symbol_name());
        const GraphState* state = state_of(input);
        const bool may_be_untold = state && static_cast<int>(d) != state->axis && of_others.contains(size);
        if (size.empty() || values_.contains(size) || may_be_untold) {
          stated.push_back({given, dim, where, may_be_untold});
          continue;
        }
        const Expr in_range = logical_and(le(dim.min(), given), le(given, dim.max()));
        refuse_if(logical_not(in_range),
                  fmt::format("{}: the extent must lie in {} to {}", where, dim.min(), dim.max()));
        if (dim.divisor() > 1)
          refuse_if(ne(floormod(given, dim.divisor()), 0),
                    fmt::format("{}: the extent must be a multiple of {}", where, dim.divisor()));
        values_[size] = given;
        where_[size] = where;
      }
    for (const auto& [given, dim, where, may_be_untold] : stated) {
      const Expr differs = ne(given, value_of(dim));
      const auto first = where_.find(dim.to_string());
      refuse_if(may_be_untold ? logical_and(le(0, given), differs) : differs,
                first != where_.end()
                    ? fmt::format("{}, and {}: the extents must be equal ({})", first->second, where, first->first)
                    : fmt::format("{}: the extent must be {}", where, dim.to_string()));
    }
  }

  const GraphState* state_of(const Value* input) const {
    const auto found = std::ranges::find(graph_.states(), input, &GraphState::input);
    return found == graph_.states().end() ? nullptr : &*found;
  }

  void require(const SizeCheck& check) {
    const Expr value = value_of(check.value);
    std::string message = check.message;
    check.value.for_each_symbol([&](const Dim& size) {
      const auto found = where_.find(std::string(size.symbol_name()));
      if (found != where_.end() && message.find(found->second) == std::string::npos)
        message += fmt::format("; {} is {}", found->first, found->second);
    });
    refuse_if(check.is_zero ? ne(value, 0) : lt(value, 0), std::move(message));
  }

  Expr size_of(const Dim& size) {
    const auto found = values_.find(size.to_string());
    FETTLE_CHECK_MSG(found != values_.end(), "no input has the size " + size.to_string());
    return found->second;
  }

  Expr value_of(const Dim& dim) {
    if (dim.is_number()) return Expr(dim.value());
    const std::string text = dim.to_string();
    if (const auto found = values_.find(text); found != values_.end()) return found->second;
    const Expr value = fold_dim<Expr>(
        dim, [](int64_t n) { return Expr(n); }, [&](const Dim& size) { return size_of(size); },
        [](DimFactor::Kind kind, const Expr& a, const Expr& b) {
          // Where a size is 0 nothing of what it divides is used.
          if (kind == DimFactor::Kind::kFloorDiv) return floordiv(a, as_int(b) ? b : max(b, Expr(1)));
          return kind == DimFactor::Kind::kMax ? max(a, b) : min(a, b);
        });
    return values_[text] = define(fmt::format("t{}", lets_.size()), value);
  }

  Expr as_double(const Dim& dim) {
    return fold_dim<Expr>(
        dim, [](int64_t n) { return float_imm(static_cast<double>(n), kF64); },
        [&](const Dim& size) { return cast(kF64, size_of(size)); },
        [](DimFactor::Kind kind, const Expr& a, const Expr& b) {
          if (kind == DimFactor::Kind::kFloorDiv) return a / max(b, float_imm(1, kF64));
          return kind == DimFactor::Kind::kMax ? max(a, b) : min(a, b);
        });
  }

  const Graph& graph_;
  const Plan& plan_;
  const std::vector<Dim>& entries_;
  Buffer table_;
  std::vector<IntParam> params_;
  std::vector<std::pair<Var, Expr>> lets_;
  std::map<std::string, Expr> values_;        // of dims, by their text
  std::map<std::string, std::string> where_;  // the input that has a size
  std::vector<Expr> rules_;
  std::vector<std::string>* errors_ = nullptr;
};

}  // namespace

SizeTable::SizeTable(const Graph& graph, const Plan& plan) : graph_(graph), plan_(plan) {
  const auto is_open = [](const Value* input) { return !input->is_static(); };
  if (std::ranges::none_of(graph.inputs(), is_open)) return;
  entries_.push_back(plan.arena_bytes);
  for (const GraphOutput& output : graph.outputs())
    for (const Dim& dim : output.value->shape()) entries_.push_back(dim);
}

int SizeTable::index_of(const Dim& dim) {
  const auto [found, is_new] = indices_.emplace(dim.to_string(), static_cast<int>(entries_.size()));
  if (is_new) entries_.push_back(dim);
  return found->second;
}

Func SizeTable::program(const std::string& name) {
  errors_.clear();
  return ResizeWriter(graph_, plan_, entries_).write(name, errors_);
}

}  // namespace fettle
