#include "frontend/comprehension/factored_sum.h"

#include <algorithm>

namespace fettle::comprehension {
namespace {

// The factors of a product, from the left.
void add_factors(const ExprTree& e, std::vector<ExprTree>& factors) {
  if (e.kind != ExprKind::kBinary || e.text != "*") {
    factors.push_back(e);
    return;
  }
  for (const ExprTree& arg : e.args) add_factors(arg, factors);
}

}  // namespace

std::optional<FactoredSum> factored(const StatementTree& tree, const Scope& scope, const std::string& name) {
  if (tree.assignment != Assignment::kAdd || !tree.clauses.empty()) return std::nullopt;
  const auto is_name = [](const ExprTree& e) { return e.kind == ExprKind::kName; };
  if (!std::ranges::all_of(tree.indices, is_name)) return std::nullopt;
  std::optional<DType> dtype;
  // Whether it is a tensor of the type that all of them have.
  const auto is_tensor = [&](const std::string& of) {
    const auto found = scope.tensors.find(of);
    if (found == scope.tensors.end()) return false;
    if (!dtype) dtype = found->second.dtype;
    return found->second.dtype == *dtype && (*dtype == kF32 || *dtype == kF64);
  };
  std::vector<ExprTree> factors, tensors, scales;
  add_factors(tree.value, factors);
  for (const ExprTree& factor : factors) {
    if (factor.kind == ExprKind::kApply && is_tensor(factor.text))
      tensors.push_back(factor);
    else if (factor.kind == ExprKind::kInteger || factor.kind == ExprKind::kReal ||
             (is_name(factor) && is_tensor(factor.text)))
      scales.push_back(factor);
    else
      return std::nullopt;
  }
  const bool is_added = scope.tensors.contains(tree.name);
  if (tensors.size() != 2 || (is_added && !is_tensor(tree.name)) || (scales.empty() && !is_added)) return std::nullopt;
  const auto product = [](ExprTree a, ExprTree b) {
    const Place place = a.place;
    return ExprTree{.kind = ExprKind::kBinary, .place = place, .text = "*", .args = {std::move(a), std::move(b)}};
  };
  FactoredSum made{tree, tree};
  made.sum.name = name;
  made.sum.from_identity = true;
  made.sum.value = product(tensors[0], tensors[1]);
  made.rest.value = {.kind = ExprKind::kApply, .place = tree.value.place, .text = name, .args = tree.indices};
  if (tree.indices.empty()) made.rest.value.kind = ExprKind::kName;
  for (auto scale = scales.rbegin(); scale != scales.rend(); ++scale)
    made.rest.value = product(*scale, made.rest.value);
  if (tree.from_identity) {
    made.rest.assignment = Assignment::kSet;
    made.rest.from_identity = false;
  }
  return made;
}

}  // namespace fettle::comprehension
