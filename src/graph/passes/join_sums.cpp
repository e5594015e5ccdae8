#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "graph/op.h"
#include "graph/passes/match.h"
#include "graph/passes/passes.h"

namespace fettle::passes {
namespace {

// What is smaller stays in the caches of a core, from one sum to the next.
constexpr int64_t kLeastBytes = 4 << 20;

// A matrix times a vector: of each row, or of each column.
struct MatrixSum {
  Node* node = nullptr;
  Value* matrix = nullptr;
  Value* vector = nullptr;
  bool of_rows = false;  // made[i] = Σ_j matrix[i, j] * vector[j]; else made[j] = Σ_i matrix[i, j] * vector[i]
};

std::optional<MatrixSum> as_matrix_sum(Node* node) {
  if (!is(node, "Einsum") || node->inputs.size() != 2) return {};
  const std::string equation = node->attrs.get_string("equation", {});
  const size_t comma = equation.find(','), arrow = equation.find("->");
  if (comma == std::string::npos || arrow == std::string::npos) return {};
  std::string of[] = {equation.substr(0, comma), equation.substr(comma + 1, arrow - comma - 1)};
  const std::string made = equation.substr(arrow + 2);
  const size_t matrix = of[0].size() == 2 ? 0 : 1;
  const std::string &letters = of[matrix], &letter = of[1 - matrix];
  if (letters.size() != 2 || letter.size() != 1 || made.size() != 1 || letters[0] == letters[1]) return {};
  MatrixSum sum{node, node->input(matrix), node->input(1 - matrix), made[0] == letters[0]};
  if (letters != made + letter && letters != letter + made) return {};
  const DType dtype = node->output()->dtype();
  if (dtype != kF32 && dtype != kF64) return {};
  if (sum.matrix->dtype() != dtype || sum.vector->dtype() != dtype || sum.matrix->is_constant()) return {};
  const auto fixed = [](const Dim& dim) { return dim.is_number(); };
  if (!std::ranges::all_of(sum.matrix->shape(), fixed)) return {};
  if (sum.matrix->extent(0) * sum.matrix->extent(1) * dtype.element_bytes() < kLeastBytes) return {};
  return sum;
}

// Whether `later` needs what `first` makes, other than as its vector.
bool needs_otherwise(const MatrixSum& later, const Node* first) {
  std::set<const Node*> seen;
  std::vector<const Value*> open = {later.matrix};
  if (later.vector->producer != first) open.push_back(later.vector);
  while (!open.empty()) {
    const Value* value = open.back();
    open.pop_back();
    if (!value || !value->producer || !seen.insert(value->producer).second) continue;
    if (value->producer == first) return true;
    open.insert(open.end(), value->producer->inputs.begin(), value->producer->inputs.end());
  }
  return false;
}

// Row by row of the matrix: the second may read an element that the first has just made.
bool may_join(const MatrixSum& first, const MatrixSum& second) {
  if (first.matrix != second.matrix || needs_otherwise(second, first.node)) return false;
  return second.vector != first.node->output() || (first.of_rows && !second.of_rows);
}

std::string block_of(const MatrixSum& sum, const std::string& made, const std::string& vector, int64_t rows,
                     int64_t columns) {
  const char *at = sum.of_rows ? "vi" : "vj", *along = sum.of_rows ? "vj" : "vi";
  return fmt::format(R"(    for j in {5}:
      block {0}(vi: {2}[{4}] = i, vj: {3}[{5}] = j):
        reads {0}[{6}], matrix[vi, vj], {1}[{7}]
        writes {0}[{6}]
        {0}[{6}] = {0}[{6}] + matrix[vi, vj] * {1}[{7}]
)",
                     made, vector, sum.of_rows ? "spatial" : "reduce", sum.of_rows ? "reduce" : "spatial", rows,
                     columns, at, along);
}

std::string program_of(const MatrixSum& a, const MatrixSum& b) {
  const int64_t rows = a.matrix->extent(0), columns = a.matrix->extent(1);
  const std::string type = a.node->output()->dtype().to_string();
  const auto length = [&](bool of_rows) { return of_rows ? rows : columns; };
  const bool is_chain = b.vector == a.node->output();
  std::string text =
      fmt::format("func sums(matrix: {0}[{1}, {2}], x: {0}[{3}]", type, rows, columns, length(!a.of_rows));
  if (!is_chain) text += fmt::format(", y: {}[{}]", type, length(!b.of_rows));
  text += fmt::format(", a: {0}[{1}] output, b: {0}[{2}] output):\n", type, length(a.of_rows), length(b.of_rows));
  for (const auto& [name, extent] : {std::pair("a", length(a.of_rows)), std::pair("b", length(b.of_rows))})
    text += fmt::format(R"(  for i in {1}:
    block {0}_zero(vi: spatial[{1}] = i):
      writes {0}[vi]
      {0}[vi] = {2}
)",
                        name, extent, type == "f64" ? "0.0f64" : "0.0");
  text += fmt::format("  for i in {}:\n", rows);
  return text + block_of(a, "a", "x", rows, columns) + block_of(b, "b", is_chain ? "a" : "y", rows, columns);
}

void join(Graph& graph, const MatrixSum& a, const MatrixSum& b) {
  std::vector<Value*> inputs = {a.matrix, a.vector};
  if (b.vector != a.node->output()) inputs.push_back(b.vector);
  Attrs attrs{{"program", program_of(a, b)}};
  attrs.set("sizes", dims_attr({}));
  Node* both = graph.add_node(find_op("fettle.LoopProgram"), a.node->name, std::move(inputs), std::move(attrs), {}, 2);
  for (const auto& [from, output] : {std::pair(a.node, size_t{0}), std::pair(b.node, size_t{1})}) {
    both->outputs[output]->type = from->output()->type;
    merge_provenance(both, from);
    std::swap(from->output()->name, both->outputs[output]->name);  // the model's names for the results stay
    graph.replace_uses(from->output(), both->outputs[output]);
  }
  graph.erase(b.node);
  graph.erase(a.node);
}

}  // namespace

Result<> join_sums(Graph& graph, const PassContext&) {
  const auto join_two = [&] {
    std::vector<MatrixSum> sums;
    for (Node* node : graph.nodes())
      if (const auto sum = as_matrix_sum(node)) sums.push_back(*sum);
    for (size_t i = 0; i < sums.size(); ++i)
      for (size_t k = i + 1; k < sums.size(); ++k)
        if (may_join(sums[i], sums[k])) {
          join(graph, sums[i], sums[k]);
          return true;
        }
    return false;
  };
  while (join_two()) graph.sort();
  return {};
}

}  // namespace fettle::passes
