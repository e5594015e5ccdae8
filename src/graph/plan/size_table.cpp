#include "graph/plan/size_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <functional>
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
  /// `errors` of earlier stages stand before those of this one.
  ResizeWriter(const Graph& graph, const Plan& plan, SizeTable& table, int stage, std::vector<std::string>& errors)
      : graph_(graph),
        plan_(plan),
        entries_(table),
        stage_(stage),
        errors_(errors),
        table_(make_buffer("table", {std::ssize(table.entries())}, kI64)) {}

  /// stage_of_rule: at which stage a rule is looked at.
  Func write(const std::string& name, const std::function<int(const Dim&)>& stage_of,
             const std::function<int(const Dim&)>& stage_of_rule) {
    if (stage_ == 0)
      read_inputs();
    else
      read_stage();
    for (const SizeCheck& check : graph_.size_checks())
      if (stage_of_rule(check.value) == stage_) require(check);
    for (const Storage& storage : plan_.storages)
      if (!storage.size_bytes.is_number() && stage_of(storage.size_bytes) == stage_)
        refuse_if(lt(float_imm(kMostBytes, kF64), as_double(storage.size_bytes)),
                  "sizes are too large: a tensor takes more than 64 TiB");
    for (const ArenaPlace& place : stage_ == 0 ? plan_.places : plan_.stages[static_cast<size_t>(stage_) - 1].places) {
      Expr most;
      for (const Dim& end : place.ends) most = most ? max(most, value_of(end)) : value_of(end);
      values_[place.offset.to_string()] = define(place.offset.to_string(), most);
    }
    std::vector<Stmt> stores;
    for (int i = 0; i < static_cast<int>(entries_.entries().size()); ++i) {
      const Dim& entry = entries_.entries()[static_cast<size_t>(i)];
      if (entries_.stage_of(i) == stage_) stores.push_back(store(table_, {Expr(int64_t{i})}, value_of(entry)));
      // Until a run tells the extent of an output.
      if (stage_ == 0 && entries_.stage_of(i) > 0) stores.push_back(store(table_, {Expr(int64_t{i})}, Expr(-1)));
    }
    // The first rule that is broken is what is told.
    const Expr told = int64_t{entries_.arena_of(stage_)};
    for (size_t i = rules_.size(); i-- > 0;)
      stores.push_back(if_then(rules_[i].first, store(table_, {told}, Expr(-1 - rules_[i].second))));
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
    rules_.emplace_back(broken, std::ssize(errors_));
    errors_.push_back(std::move(message));
  }

  Expr define(const std::string& name, const Expr& value) {
    std::string text = name;
    std::ranges::replace_if(text, [](char c) { return !std::isalnum(static_cast<unsigned char>(c)); }, '_');
    lets_.emplace_back(make_var(text, kI64), value);
    return lets_.back().first;
  }

  /// Sizes that a stage defines are those that it is given; others must be.
  void read_stage() {
    const std::vector<Dim>& sizes = plan_.stages[static_cast<size_t>(stage_) - 1].sizes;
    const std::string& reason = plan_.stages[static_cast<size_t>(stage_) - 1].reason;
    std::vector<Expr> given;
    for (const Dim& size : sizes) {
      const Var read = make_var(fmt::format("in{}", params_.size()), kI64);
      params_.push_back({.var = read, .min = INT64_MIN});
      // As dims do, contents of shape tensors saturate.
      given.push_back(define("read", min(max(read, Expr(-kMaxDim)), Expr(kMaxDim))));
      if (size.symbol_name().empty()) continue;
      values_[size.to_string()] = given.back();
      if (-kMaxDim < size.min() || size.max() < kMaxDim)
        refuse_if(logical_not(logical_and(le(size.min(), given.back()), le(given.back(), size.max()))),
                  fmt::format("{} must lie in {} to {}", size.to_string(), size.min(), size.max()));
    }
    for (size_t i = 0; i < sizes.size(); ++i)
      if (sizes[i].symbol_name().empty())
        refuse_if(ne(given[i], value_of(sizes[i])),
                  reason.empty() ? fmt::format("a size must be {}", sizes[i].to_string()) : reason);
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
    const std::string name = size.to_string();
    if (const auto found = values_.find(name); found != values_.end()) return found->second;
    // An earlier stage knew it.
    const int entry = entries_.index_of(size);
    FETTLE_CHECK_MSG(entries_.stage_of(entry) < stage_, "nothing tells the size " + name);
    return values_[name] = define(name, load(table_, {Expr(int64_t{entry})}));
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
  SizeTable& entries_;
  int stage_;
  std::vector<std::string>& errors_;
  Buffer table_;
  std::vector<IntParam> params_;
  std::vector<std::pair<Var, Expr>> lets_;
  std::map<std::string, Expr> values_;           // of dims, by their text
  std::map<std::string, std::string> where_;     // the input that has a size
  std::vector<std::pair<Expr, int64_t>> rules_;  // what breaks them, and their numbers
};

}  // namespace

SizeTable::SizeTable(const Graph& graph, const Plan& plan) : graph_(graph), plan_(plan) {
  const auto is_open = [](const Value* input) { return !input->is_static(); };
  if (plan.stages.empty() && std::ranges::none_of(graph.inputs(), is_open)) return;
  for (size_t k = plan.stages.size(); k > 0; --k) {
    for (const Dim& size : plan.stages[k - 1].sizes)
      if (!size.symbol_name().empty()) stage_of_size_[std::string(size.symbol_name())] = static_cast<int>(k);
    for (const ArenaPlace& place : plan.stages[k - 1].places)
      stage_of_size_[place.offset.to_string()] = static_cast<int>(k);
  }
  add(plan.arena_bytes, 0);
  for (const GraphOutput& output : graph.outputs())
    for (const Dim& dim : output.value->shape()) add(dim, stage_of(dim));
  first_arena_ = static_cast<int>(entries_.size());
  for (size_t k = 0; k < plan.stages.size(); ++k) add(plan.stages[k].arena_bytes, static_cast<int>(k) + 1);
}

void SizeTable::add(const Dim& dim, int stage) {
  entries_.push_back(dim);
  stages_.push_back(stage);
}

int SizeTable::stage_of(const Dim& dim) const {
  int stage = 0;
  dim.for_each_symbol([&](const Dim& size) {
    const auto found = stage_of_size_.find(size.symbol_name());
    if (found != stage_of_size_.end()) stage = std::max(stage, found->second);
  });
  return stage;
}

int SizeTable::index_of(const Dim& dim) {
  const auto [found, is_new] = indices_.emplace(dim.to_string(), static_cast<int>(entries_.size()));
  if (is_new) add(dim, stage_of(dim));
  return found->second;
}

namespace {

using Stages = std::set<int>;

void add_stages_of(const std::vector<PlanStep>& steps, Stages& stages) {
  for (const PlanStep& step : steps) {
    if (step.kind == PlanStep::Kind::kSizes) stages.insert(step.stage);
    add_stages_of(step.body, stages);
    add_stages_of(step.otherwise, stages);
  }
}

/// Of stages that are reached before a loop and in it: the one behind the loop, which defines no size.
void find_stages_behind(const Plan& plan, const std::vector<PlanStep>& steps, std::map<int, int>& behind) {
  Stages before;
  for (size_t i = 0; i < steps.size(); ++i) {
    const PlanStep& step = steps[i];
    if (step.kind == PlanStep::Kind::kSizes) before.insert(step.stage);
    find_stages_behind(plan, step.body, behind);
    find_stages_behind(plan, step.otherwise, behind);
    if (step.kind != PlanStep::Kind::kLoop || i + 1 == steps.size()) continue;
    const PlanStep& next = steps[i + 1];
    if (next.kind != PlanStep::Kind::kSizes ||
        plan.stages[static_cast<size_t>(next.stage) - 1].sizes != std::vector<Dim>{0})
      continue;
    Stages inside;
    add_stages_of(step.body, inside);
    for (const int stage : inside)
      if (before.contains(stage)) behind[stage] = next.stage;
  }
}

}  // namespace

std::vector<Func> SizeTable::programs(const std::string& name) {
  errors_.clear();
  // A stage may ask for what earlier ones know.
  std::vector<Func> made(plan_.stages.size() + 1);
  // Rules over sizes that nothing needs, so that nothing defines them, are none.
  std::set<std::string, std::less<>> known;
  for (const Value* input : graph_.inputs())
    for (const Dim& dim : input->shape()) known.emplace(dim.symbol_name());
  for (const auto& [size, stage] : stage_of_size_) known.insert(size);
  const auto stage_of_known = [&](const Dim& dim) {
    bool all = true;
    dim.for_each_symbol([&](const Dim& size) { all = all && known.contains(size.symbol_name()); });
    return all ? stage_of(dim) : -1;
  };
  std::map<int, int> behind;
  find_stages_behind(plan_, plan_.steps, behind);
  const auto stage_of_rule = [&](const Dim& rule) {
    const int stage = stage_of_known(rule);
    const auto found = behind.find(stage);
    return found == behind.end() ? stage : found->second;
  };
  for (size_t stage = made.size(); stage-- > 0;)
    made[stage] = ResizeWriter(graph_, plan_, *this, static_cast<int>(stage), errors_)
                      .write(stage == 0 ? name : fmt::format("{}{}", name, stage), stage_of_known, stage_of_rule);
  return made;
}

}  // namespace fettle
