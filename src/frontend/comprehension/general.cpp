#include <algorithm>

#include "frontend/comprehension/function.h"
#include "graph/op.h"

namespace fettle::comprehension {
namespace {

using Names = std::vector<std::string>;

bool contains(const Names& names, const std::string& name) { return std::ranges::find(names, name) != names.end(); }

// The index of each dim, where each is a variable of its own that goes over the whole dim.
std::optional<Names> whole_dims(const Statement& statement, const Access& access, const TensorInfo& tensor) {
  Names names;
  for (size_t d = 0; d < access.indices.size(); ++d) {
    const IndexForm& form = *access.indices[d];
    if (form.kind != IndexForm::Kind::kAffine || form.affine.terms.size() != 1) return std::nullopt;
    const auto& [name, coefficient] = *form.affine.terms.begin();
    const IndexRange& range = *statement.ranges.find(name);
    // Over what the index of the memory is.
    const bool is_whole = coefficient == Dim(1) && range.begin.constant + form.affine.constant == Dim(0) &&
                          range.end.constant - range.begin.constant == tensor.extents[d];
    if (!is_whole || contains(names, name)) return std::nullopt;
    names.push_back(name);
  }
  return names;
}

}  // namespace

std::optional<Contraction> as_contraction(const Statement& statement, const Scope& scope) {
  const StatementTree& tree = *statement.tree;
  const std::vector<Access>& accesses = statement.reader.accesses();
  if (tree.assignment != Assignment::kAdd || !tree.from_identity || scope.tensors.contains(tree.name)) return {};
  if (tree.value.kind != ExprKind::kBinary || tree.value.text != "*" || accesses.size() != 2 ||
      statement.reduced.empty())
    return {};
  for (const ExprTree& factor : tree.value.args)
    if (factor.kind != ExprKind::kApply || !scope.tensors.contains(factor.text)) return {};
  const TensorInfo &of_a = scope.tensors.find(accesses[0].tensor)->second,
                   &of_b = scope.tensors.find(accesses[1].tensor)->second;
  if (!of_a.dtype.is_float() || of_a.dtype != of_b.dtype) return {};
  const auto a = whole_dims(statement, accesses[0], of_a), b = whole_dims(statement, accesses[1], of_b);
  if (!a || !b) return {};

  Contraction made{accesses[0].tensor, accesses[1].tensor, {}, {}, {}};
  std::vector<int64_t> batch_a, batch_b, contracting_a, contracting_b;
  Names order, rest;
  for (size_t d = 0; d < a->size(); ++d) {
    const std::string& name = (*a)[d];
    const auto in_b = std::ranges::find(*b, name);
    const bool is_left = contains(statement.left, name);
    if (in_b == b->end()) {
      if (!is_left) return {};  // summed up on one side alone
      rest.push_back(name);
      continue;
    }
    (is_left ? batch_a : contracting_a).push_back(static_cast<int64_t>(d));
    (is_left ? batch_b : contracting_b).push_back(in_b - b->begin());
    if (is_left) order.push_back(name);
  }
  for (const std::string& name : *b) {
    if (contains(*a, name)) continue;
    if (!contains(statement.left, name)) return {};
    rest.push_back(name);
  }
  order.insert(order.end(), rest.begin(), rest.end());
  if (order.size() != statement.left.size() || contracting_a.empty()) return {};
  for (const auto& [key, dims] : {std::pair("batch_a", batch_a), std::pair("batch_b", batch_b),
                                  std::pair("contracting_a", contracting_a), std::pair("contracting_b", contracting_b)})
    made.attrs.set(key, dims);
  for (const std::string& name : statement.left) {
    made.permutation.push_back(std::ranges::find(order, name) - order.begin());
    const IndexRange& range = *statement.ranges.find(name);
    made.info.base.push_back(range.begin.constant);
    made.info.extents.push_back(range.end.constant - range.begin.constant);
  }
  made.info.dtype = of_a.dtype;
  return made;
}

}  // namespace fettle::comprehension
