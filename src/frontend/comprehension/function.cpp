#include "frontend/comprehension/function.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "frontend/comprehension/factored_sum.h"
#include "frontend/comprehension/lexer.h"
#include "frontend/comprehension/parser.h"
#include "graph/op_util.h"
#include "ir/text.h"

namespace fettle::comprehension {
namespace {

tl::unexpected<Diagnostic> wrong(Place place, std::string message) {
  return fail(ErrorCode::E612, std::move(message), to_string(place));
}

constexpr int kMaxCalls = 64;  // of functions, one inside of the other

// What a statement speaks of, and what of it it defines.
struct StatementNames {
  std::set<std::string> all, defined;
};
void add_names(const ExprTree& tree, StatementNames& names) {
  names.all.insert(tree.text);
  for (const ExprTree& arg : tree.args) add_names(arg, names);
}
void add_names(const StatementTree& tree, StatementNames& names) {
  const auto define = [&](const std::string& name) {
    names.all.insert(name);
    names.defined.insert(name);
  };
  if (tree.kind == StatementTree::Kind::kComprehension) define(tree.name);
  for (const ParamTree& target : tree.targets) define(target.name);
  for (const ExprTree* part : {&tree.value, &tree.begin, &tree.end}) add_names(*part, names);
  for (const auto* list : {&tree.indices, &tree.arguments})
    for (const ExprTree& part : *list) add_names(part, names);
  for (const ClauseTree& clause : tree.clauses)
    for (const ExprTree* part : {&clause.value, &clause.begin, &clause.end}) add_names(*part, names);
  for (const StatementTree& inner : tree.body) add_names(inner, names);
}
StatementNames names_of(const StatementTree& tree) {
  StatementNames names;
  add_names(tree, names);
  return names;
}

class FunctionBuilder {
 public:
  FunctionBuilder(const Functions& functions, Graph& graph, const Limits& limits, int depth = 0)
      : functions_(functions), graph_(graph), limits_(limits), depth_(depth) {
    for (const auto& [name, tree] : functions) scope_.functions.insert(name);
  }
  /// Problems of statements are told there, and what does not follow from them is looked at, too.
  void tell_all(std::vector<Diagnostic>& problems) { problems_ = &problems; }

  Result<> as_graph(const FunctionTree& function) {
    FETTLE_TRY_VOID(check_names(function));
    for (const ParamTree& param : function.params) {
      Shape shape;
      for (const ExprTree& extent : param.type->extents) {
        FETTLE_TRY(shape.emplace_back(), size_of(extent));
      }
      FETTLE_TRY_VOID(check_limit(limits_, &Limits::rank, static_cast<int64_t>(shape.size()), param.name));
      fettle::Value* input = graph_.add_input(param.name, {param.type->dtype, shape});
      FETTLE_TRY_VOID(declare(param, shape, input));
    }
    FETTLE_TRY_VOID(body(function));
    for (const ParamTree& result : function.results) {
      if (broken_.contains(result.name)) continue;
      auto found = result_of(result);
      if (!found && problems_) {
        problems_->push_back(std::move(found).error());
        continue;
      }
      FETTLE_TRY(fettle::Value * value, std::move(found));
      // What goes out is made by a node, and each value goes out once.
      if (!value->producer || graph_.is_output(value))
        value = graph_.add_node(find_op("Identity"), result.name, {value})->output();
      graph_.add_output(result.name, value);
    }
    return {};
  }

  /// The same as a part of a graph: parameters are the tensors given.
  Result<std::vector<Tensor>> as_call(const FunctionTree& function, const std::vector<Tensor>& arguments, Place place) {
    if (depth_ > kMaxCalls) return wrong(place, fmt::format("calls are nested more than {} deep", kMaxCalls));
    FETTLE_TRY_VOID(check_names(function));
    if (arguments.size() != function.params.size())
      return wrong(place, fmt::format("{} takes {} tensors, and {} are given", function.name, function.params.size(),
                                      arguments.size()));
    for (size_t i = 0; i < arguments.size(); ++i) {
      const ParamTree& param = function.params[i];
      const TensorInfo& given = arguments[i].info;
      if (given.dtype != param.type->dtype || given.extents.size() != param.type->extents.size())
        return wrong(place, fmt::format("{} of {} is {} of {} dims, and what is given is {} of {}", param.name,
                                        function.name, type_name(param.type->dtype), param.type->extents.size(),
                                        type_name(given.dtype), given.extents.size()));
      for (size_t d = 0; d < given.extents.size(); ++d) {
        const ExprTree& extent = param.type->extents[d];
        if (extent.kind == ExprKind::kName && !scope_.sizes.contains(extent.text)) {
          scope_.sizes.emplace(extent.text, given.extents[d]);
          continue;
        }
        FETTLE_TRY(const Dim wanted, size_of(extent));
        FETTLE_TRY_VOID(require_equal(given.extents[d], wanted, place, fmt::format("dim {} of {}", d, param.name)));
      }
      FETTLE_TRY_VOID(declare(param, given.extents, arguments[i].value));
    }
    FETTLE_TRY_VOID(body(function));
    std::vector<Tensor> results;
    for (const ParamTree& result : function.results) {
      FETTLE_TRY(fettle::Value * value, result_of(result));
      results.push_back({scope_.tensors.at(result.name), value});
    }
    return results;
  }

 private:
  Result<> check_names(const FunctionTree& function) {
    std::set<std::string_view> params, results;
    for (const ParamTree& param : function.params)
      if (!params.insert(param.name).second)
        return wrong(param.place, fmt::format("there are two parameters {}", param.name));
    if (function.results.empty()) return wrong(function.place, fmt::format("{} returns nothing", function.name));
    for (const ParamTree& result : function.results) {
      if (!results.insert(result.name).second)
        return wrong(result.place, fmt::format("{} is returned twice", result.name));
      returned_.insert(result.name);
    }
    for (const ParamTree& param : function.params) params_.insert(param.name);
    return {};
  }

  Result<Dim> size_of(const ExprTree& extent) {
    if (extent.kind == ExprKind::kInteger) return Dim(extent.integer);
    const auto found = scope_.sizes.find(extent.text);
    if (found != scope_.sizes.end()) return found->second;
    if (scope_.tensors.contains(extent.text))
      return wrong(extent.place, fmt::format("{} is a tensor, and no size", extent.text));
    const Dim size = Dim::symbol(extent.text);
    scope_.sizes.emplace(extent.text, size);
    return size;
  }

  Result<> declare(const ParamTree& param, Shape shape, fettle::Value* value) {
    if (scope_.sizes.contains(param.name))
      return wrong(param.place, fmt::format("{} is a size, and no tensor", param.name));
    const std::vector<Dim> base(shape.size(), 0);
    scope_.tensors.insert_or_assign(param.name, TensorInfo{param.type->dtype, base, std::move(shape)});
    values_[param.name] = value;
    return {};
  }

  Result<> require_equal(const Dim& a, const Dim& b, Place place, const std::string& what) {
    if (a == b) return {};
    std::string message = fmt::format("{} is {} and must be {}", what, a.to_string(), b.to_string());
    if (!may_equal(a, b)) return wrong(place, std::move(message));
    graph_.add_size_check({a - b, true, fmt::format("{}: {}", to_string(place), message)});
    return {};
  }

  Result<fettle::Value*> result_of(const ParamTree& result) {
    const auto found = scope_.tensors.find(result.name);
    if (found == scope_.tensors.end())
      return wrong(result.place, fmt::format("{} is returned, and no statement defines it", result.name));
    if (result.type) {
      const TensorInfo& info = found->second;
      if (info.dtype != result.type->dtype || info.extents.size() != result.type->extents.size())
        return wrong(result.place, fmt::format("{} is {} of {} dims, which is not what its type says", result.name,
                                               type_name(info.dtype), info.extents.size()));
      for (size_t d = 0; d < info.extents.size(); ++d) {
        const ExprTree& extent = result.type->extents[d];
        if (extent.kind == ExprKind::kName && !scope_.sizes.contains(extent.text)) {
          scope_.sizes.emplace(extent.text, info.extents[d]);
          continue;
        }
        FETTLE_TRY(const Dim wanted, size_of(extent));
        FETTLE_TRY_VOID(
            require_equal(info.extents[d], wanted, result.place, fmt::format("dim {} of {}", d, result.name)));
      }
    }
    return values_.at(result.name);
  }

  Result<> body(const FunctionTree& function) {
    for (const StatementTree& statement : function.statements) {
      FETTLE_TRY_VOID(check_limit(limits_, &Limits::nodes, static_cast<int64_t>(graph_.nodes().size()), function.name));
      const StatementNames names = names_of(statement);
      const auto is_broken = [&](const std::string& name) { return broken_.contains(name); };
      Result<> done;
      if (std::ranges::none_of(names.all, is_broken)) {
        done = any(statement);
        if (done) continue;
        if (!problems_) return done;
        problems_->push_back(std::move(done).error());
      }
      broken_.insert(names.defined.begin(), names.defined.end());
    }
    return {};
  }

  Result<> any(const StatementTree& statement) {
    if (statement.kind == StatementTree::Kind::kCall)
      return call(statement, statement.targets, statement.name, statement.arguments);
    if (is_call(statement))
      return call(statement, {{statement.place, statement.name, {}}}, statement.value.text, statement.value.args);
    if (statement.kind == StatementTree::Kind::kFor) return loops(statement);
    return comprehension(statement);
  }

  bool is_call(const StatementTree& statement) const {
    return statement.indices.empty() && statement.assignment == Assignment::kSet && statement.clauses.empty() &&
           statement.value.kind == ExprKind::kApply && functions_.contains(statement.value.text) &&
           !scope_.tensors.contains(statement.value.text);
  }

  Result<> check_target(const std::string& name, Place place) const {
    if (scope_.sizes.contains(name)) return wrong(place, fmt::format("{} is a size, and no tensor", name));
    if (params_.contains(name) && !returned_.contains(name))
      return wrong(place, fmt::format("{} is a parameter, which is only changed where it is returned, too", name));
    return {};
  }

  Result<> call(const StatementTree& statement, const std::vector<ParamTree>& targets, const std::string& name,
                const std::vector<ExprTree>& arguments) {
    const auto found = functions_.find(name);
    if (found == functions_.end()) return wrong(statement.place, fmt::format("there is no function {}", name));
    std::vector<Tensor> given;
    for (const ExprTree& argument : arguments) {
      const auto tensor = scope_.tensors.find(argument.text);
      if (argument.kind != ExprKind::kName || tensor == scope_.tensors.end())
        return wrong(argument.place, "what a function is given is a tensor by its name");
      // Its elements have indices from 0 on there.
      TensorInfo info = tensor->second;
      std::ranges::fill(info.base, Dim(0));
      given.push_back({std::move(info), values_.at(argument.text)});
    }
    FunctionBuilder inner(functions_, graph_, limits_, depth_ + 1);
    FETTLE_TRY(std::vector<Tensor> results, inner.as_call(*found->second, given, statement.place));
    if (results.size() != targets.size())
      return wrong(statement.place,
                   fmt::format("{} returns {} tensors, and {} are named", name, results.size(), targets.size()));
    for (size_t i = 0; i < results.size(); ++i) {
      FETTLE_TRY_VOID(check_target(targets[i].name, targets[i].place));
      std::ranges::fill(results[i].info.base, Dim(0));
      scope_.tensors.insert_or_assign(targets[i].name, std::move(results[i].info));
      values_[targets[i].name] = results[i].value;
    }
    return {};
  }

  // An accumulation in a tensor that no statement has defined: its content is given.
  Result<> take_as_input(const StatementTree& tree, const Statement& statement) {
    TensorInfo info{statement.dtype, {}, {}};
    for (const std::string& name : statement.left) {
      const IndexRange& range = *statement.ranges.find(name);
      info.base.push_back(range.begin.constant);
      info.extents.push_back(range.end.constant - range.begin.constant);
    }
    if (depth_ > 0) return wrong(tree.place, fmt::format("{} is added to, and no statement defines it", tree.name));
    values_[tree.name] = graph_.add_input(tree.name, {info.dtype, info.extents});
    scope_.tensors.emplace(tree.name, std::move(info));
    return {};
  }

  Result<> comprehension(const StatementTree& tree) {
    FETTLE_TRY_VOID(check_target(tree.name, tree.place));
    const Ranges none;
    const SizeVars sizes;
    FETTLE_TRY(Statement statement, analyse(scope_, none, tree, LeftSide::kIndices));
    if (!statement.is_rectangular) {
      if (!scope_.tensors.contains(tree.name)) FETTLE_TRY_VOID(define_all(tree, statement));
      return loops(tree);
    }
    const bool accumulates = tree.assignment != Assignment::kSet && !tree.from_identity;
    if (accumulates && !scope_.tensors.contains(tree.name)) {
      FETTLE_TRY_VOID(take_as_input(tree, statement));
      return comprehension(tree);
    }
    for (SizeCheck& check : statement.checks) graph_.add_size_check(std::move(check));
    if (const auto contraction = as_contraction(statement, scope_)) {
      add(*contraction, tree.name);
      return {};
    }
    FETTLE_TRY(const bool is_factored, factor(tree, statement));
    if (is_factored) return {};
    FETTLE_TRY(const Compiled compiled, compile_statement(statement, scope_));
    add(compiled, tree.name);
    return {};
  }

  // A reduction that begins anew, over ranges that depend on what it defines: all elements are there, as zeros, before.
  //   C(i) +=! A(i, j) where j in 0:i+1
  Result<> define_all(const StatementTree& tree, const Statement& statement) {
    if (!tree.from_identity || tree.assignment == Assignment::kSet) return {};
    TensorInfo info{statement.dtype, {}, {}};
    for (const std::string& name : statement.left) {
      const IndexRange& range = *statement.ranges.find(name);
      if (!range.begin.is_constant() || !range.end.is_constant()) return {};
      info.base.push_back(range.begin.constant);
      info.extents.push_back(range.end.constant - range.begin.constant);
    }
    fettle::Value* zero = graph_.add_constant(tree.name + "_zero", scalar(0, info.dtype));
    values_[tree.name] =
        graph_.add_node(find_op("Expand"), tree.name, {zero}, {{"shape", dims_attr(info.extents)}})->output();
    scope_.tensors.emplace(tree.name, std::move(info));
    return {};
  }

  // A statement whose sum of products is one of the general operator's, and what is done with it. False: it has none.
  Result<bool> factor(const StatementTree& tree, const Statement& whole) {
    std::string name = tree.name + "_sum";
    const auto is_taken = [&](const std::string& some) {
      return scope_.tensors.contains(some) || scope_.sizes.contains(some) || whole.ranges.find(some) ||
             params_.contains(some) || returned_.contains(some) || functions_.contains(some);
    };
    while (is_taken(name)) name += "_";
    const std::optional<FactoredSum> made = factored(tree, scope_, name);
    if (!made) return false;
    FETTLE_TRY(const Statement sum, analyse(scope_, {}, made->sum, LeftSide::kIndices));
    const auto same = [&](const std::string& index) {
      const IndexRange *a = sum.ranges.find(index), *b = whole.ranges.find(index);
      return a && b && a->begin.constant == b->begin.constant && a->end.constant == b->end.constant;
    };
    // What the sum is added to may have narrowed its ranges.
    if (!std::ranges::all_of(whole.left, same) || !std::ranges::all_of(whole.reduced, same)) return false;
    const auto contraction = as_contraction(sum, scope_);
    if (!contraction) return false;
    add(*contraction, name);
    FETTLE_TRY_VOID(comprehension(made->rest));
    scope_.tensors.erase(name);
    values_.erase(name);
    return true;
  }

  void add(const Contraction& made, const std::string& name) {
    Node* node =
        graph_.add_node(find_op("fettle.Contraction"), name, {values_.at(made.a), values_.at(made.b)}, made.attrs);
    if (!std::ranges::is_sorted(made.permutation))
      node = graph_.add_node(find_op("Transpose"), name, {node->output()}, {{"perm", made.permutation}});
    scope_.tensors.insert_or_assign(name, made.info);
    values_[name] = node->output();
  }

  Result<> loops(const StatementTree& tree) {
    FETTLE_TRY_VOID(check_targets(tree));
    const SizeVars sizes;
    std::vector<SizeCheck> checks;
    FETTLE_TRY(const Compiled compiled, compile_loops(tree, scope_, checks));
    for (SizeCheck& check : checks) graph_.add_size_check(std::move(check));
    add(compiled, compiled.written[0]);
    return {};
  }

  Result<> check_targets(const StatementTree& tree) const {
    if (tree.kind != StatementTree::Kind::kFor) return check_target(tree.name, tree.place);
    for (const StatementTree& inner : tree.body) FETTLE_TRY_VOID(check_targets(inner));
    return {};
  }

  void add(const Compiled& compiled, const std::string& name) {
    ProgramNode node{compiled.op, name, compiled.program, compiled.sizes, {}, compiled.written};
    for (const std::string& read : compiled.read) node.read.push_back(values_.at(read));
    const Node* made = add_program(graph_, std::move(node));
    for (size_t k = 0; k < compiled.written.size(); ++k) {
      scope_.tensors.insert_or_assign(compiled.written[k], compiled.made[k]);
      values_[compiled.written[k]] = made->outputs[k];
    }
  }

  const Functions& functions_;
  Graph& graph_;
  const Limits& limits_;
  int depth_;
  Scope scope_;
  std::map<std::string, fettle::Value*, std::less<>> values_;
  std::set<std::string, std::less<>> params_, returned_;
  std::vector<Diagnostic>* problems_ = nullptr;  // null: the first one ends it
  std::set<std::string, std::less<>> broken_;    // what statements with problems define, and what follows from it
};

}  // namespace

Node* add_program(Graph& graph, ProgramNode node) {
  const size_t n_outputs = node.outputs.size();
  Attrs attrs{{"program", to_text(node.program)}};
  attrs.set("sizes", dims_attr(std::move(node.sizes)));
  return graph.add_node(find_op(node.op), std::move(node.name), std::move(node.read), std::move(attrs),
                        std::move(node.outputs), n_outputs);
}

std::vector<Diagnostic> function_problems(const Functions& functions, const FunctionTree& function,
                                          const Limits& limits) {
  Graph graph(function.name);
  std::vector<Diagnostic> problems;
  FunctionBuilder builder(functions, graph, limits);
  builder.tell_all(problems);
  if (auto done = builder.as_graph(function); !done) problems.push_back(std::move(done).error());
  return problems;
}

Result<Graph> function_graph(const Functions& functions, const FunctionTree& function, const Limits& limits) {
  Graph graph(function.name);
  FETTLE_TRY_VOID(FunctionBuilder(functions, graph, limits).as_graph(function));
  return graph;
}

}  // namespace fettle::comprehension
