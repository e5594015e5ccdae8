#include "frontend/comprehension/import.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/hash.h"
#include "frontend/comprehension/function.h"
#include "frontend/comprehension/lexer.h"
#include "frontend/comprehension/parser.h"

namespace fettle {
namespace {

using comprehension::Functions;
using comprehension::FunctionTree;

Result<Functions> by_name(const std::vector<FunctionTree>& trees) {
  Functions functions;
  for (const FunctionTree& tree : trees)
    if (!functions.emplace(tree.name, &tree).second)
      return fail(ErrorCode::E612, fmt::format("there are two functions {}", tree.name),
                  comprehension::to_string(tree.place));
  return functions;
}

std::vector<std::string> names_of(const std::vector<FunctionTree>& trees) {
  std::vector<std::string> names;
  for (const FunctionTree& tree : trees) names.push_back(tree.name);
  return names;
}

// The one called `name`; empty: the last.
Result<const FunctionTree*> chosen(const std::vector<FunctionTree>& trees, std::string_view name) {
  if (name.empty()) return &trees.back();
  const auto found = std::ranges::find(trees, name, &FunctionTree::name);
  if (found != trees.end()) return &*found;
  return fail(ErrorCode::E709,
              fmt::format("there is no function \"{}\"; there are: {}", name, fmt::join(names_of(trees), ", ")));
}

Result<Graph> graph_of(std::string_view text, std::string_view name, const Limits& limits) {
  FETTLE_TRY_VOID(check_limit(limits, &Limits::string_bytes, static_cast<int64_t>(text.size()), "the text"));
  FETTLE_TRY(const std::vector<FunctionTree> trees, comprehension::parse(text));
  FETTLE_TRY(const Functions functions, by_name(trees));
  FETTLE_TRY(const FunctionTree* tree, chosen(trees, name));
  FETTLE_TRY(Graph graph, comprehension::function_graph(functions, *tree, limits));
  graph.set_function({tree->name, names_of(trees)});
  return graph;
}

}  // namespace

Result<std::vector<std::string>> comprehension_names(std::string_view text) {
  FETTLE_TRY(const std::vector<FunctionTree> trees, comprehension::parse(text));
  return names_of(trees);
}

Result<Graph> import_comprehension(std::string_view text, std::string_view name, const std::string& label,
                                   const Limits& limits) {
  Result<Graph> graph = graph_of(text, name, limits);
  if (!graph && !label.empty()) {
    std::string& where = graph.error().where;
    where = where.empty() ? label : label + ":" + where;
  }
  return graph;
}

Result<ImportedModel> comprehension_model(std::string_view text, std::string_view name, const Limits& limits) {
  FETTLE_TRY(Graph graph, import_comprehension(text, name, {}, limits));
  ImportedModel model;
  model.label = graph.name();
  model.digest = digest_bytes(fmt::format("comprehension {}\n{}", graph.name(), text));
  model.graph = std::make_shared<const Graph>(std::move(graph));
  return model;
}

std::vector<Diagnostic> check_comprehensions(std::string_view text, std::string_view name, const Limits& limits) {
  std::vector<Diagnostic> problems;
  const auto trees = comprehension::parse(text);
  const auto functions = trees ? by_name(*trees) : tl::unexpected<Diagnostic>(trees.error());
  if (!functions) return {functions.error()};
  const auto only = chosen(*trees, name);
  if (!only) return {only.error()};
  for (const FunctionTree& tree : *trees) {
    if (!name.empty() && &tree != *only) continue;
    for (Diagnostic& problem : comprehension::function_problems(*functions, tree, limits)) {
      // A function that is called is looked at again.
      const auto is_same = [&](const Diagnostic& other) {
        return other.where == problem.where && other.message == problem.message;
      };
      if (std::ranges::none_of(problems, is_same)) problems.push_back(std::move(problem));
    }
  }
  return problems;
}

}  // namespace fettle
