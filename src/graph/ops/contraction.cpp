// Contraction: sums of products over any dims of two tensors, the rest of which are batches or rows and columns.
//
// Where the dims of each kind lie side by side, it is a product of matrices, whose transposes are views. Any other is
// an Einsum, which reads its operands as they lie.

#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "graph/ops/contraction.h"
#include "graph/ops/products.h"

namespace fettle {
namespace ops {

using passes::Lowering;

Shape Contracted::dims(const std::vector<int64_t>& axes) const {
  Shape shape;
  for (const int64_t axis : axes) shape.push_back(value->shape()[static_cast<size_t>(axis)]);
  return shape;
}

namespace {

bool side_by_side(const std::vector<int64_t>& axes) {
  for (size_t k = 1; k < axes.size(); ++k)
    if (axes[k] != axes[k - 1] + 1) return false;
  return true;
}

// [batch…, rows, columns] of an operand whose contracted dims are its columns, or, of the second, its rows.
Value* as_matrices(Lowering& g, const Contracted& o, bool contracts_columns) {
  // Dims that become one are so before anything moves.
  Shape merged;
  std::vector<int64_t> place(o.value->shape().size(), -1);  // of each dim among the merged ones
  for (int64_t axis = 0; axis < std::ssize(o.value->shape()); ++axis) {
    place[static_cast<size_t>(axis)] = std::ssize(merged);
    if (axis == o.contracting.front())
      merged.push_back(element_count(o.dims(o.contracting)));
    else if (axis == o.others.front())
      merged.push_back(element_count(o.dims(o.others)));
    else if (std::ranges::count(o.batch, axis) > 0)
      merged.push_back(o.value->shape()[static_cast<size_t>(axis)]);
  }
  std::vector<int64_t> order;
  for (const int64_t axis : o.batch) order.push_back(place[static_cast<size_t>(axis)]);
  for (const auto* axes :
       {contracts_columns ? &o.others : &o.contracting, contracts_columns ? &o.contracting : &o.others})
    order.push_back(place[static_cast<size_t>(axes->front())]);
  Value* x = g.reshape(o.value, merged);
  return order == first_numbers(order.size()) ? x : g.transpose(x, order);
}

}  // namespace

bool is_product(const Contracted& a, const Contracted& b) {
  const auto is_matrix = [](const Contracted& o) { return side_by_side(o.contracting) && side_by_side(o.others); };
  return is_matrix(a) && is_matrix(b) && !a.contracting.empty() && !a.others.empty() && !b.others.empty();
}

Value* product_of_matrices(Lowering& g, const Contracted& a, const Contracted& b, const char* op, const Shape& result) {
  // Of plain matrices all dims of the first that stay are rows.
  const bool rows_first = a.contracting.size() == 1 && a.contracting[0] == std::ssize(a.value->shape()) - 1;
  if (a.batch.empty() && rows_first && b.others.size() == 1) return g(op, {a.value, as_matrices(g, b, false)});
  return g.reshape(g(op, {as_matrices(g, a, true), as_matrices(g, b, false)}), result);
}

}  // namespace ops

namespace {

using namespace ops;
using passes::Lowering;

Result<std::vector<int64_t>> axes_attribute(const Node& node, const char* name, int64_t rank) {
  std::vector<int64_t> axes = node.attrs.get_ints(name);
  for (int64_t& axis : axes) {
    FETTLE_TRY(axis, positive_axis(node, axis, rank));
  }
  return axes;
}

Result<Contracted> read_operand(const Node& node, size_t i, const char* batch, const char* contracting) {
  Contracted o{node.inputs[i], {}, {}, {}};
  const int64_t rank = rank_of(node, i);
  FETTLE_TRY(o.batch, axes_attribute(node, batch, rank));
  FETTLE_TRY(o.contracting, axes_attribute(node, contracting, rank));
  FETTLE_TRY_VOID(positive_axes(node, joined(o.batch, o.contracting), rank));
  for (int64_t axis = 0; axis < rank; ++axis)
    if (std::ranges::count(o.batch, axis) + std::ranges::count(o.contracting, axis) == 0) o.others.push_back(axis);
  return o;
}

std::string equation(const Contracted& a, const Contracted& b) {
  std::string left(a.value->shape().size(), ' '), right(b.value->shape().size(), ' '), result;
  char next = 'a';
  const auto letter = [&] {
    const char now = next;
    next = next == 'z' ? 'A' : static_cast<char>(next + 1);
    return now;
  };
  for (size_t k = 0; k < a.batch.size(); ++k)
    result += left[static_cast<size_t>(a.batch[k])] = right[static_cast<size_t>(b.batch[k])] = letter();
  for (size_t k = 0; k < a.contracting.size(); ++k)
    left[static_cast<size_t>(a.contracting[k])] = right[static_cast<size_t>(b.contracting[k])] = letter();
  for (const int64_t axis : a.others) result += left[static_cast<size_t>(axis)] = letter();
  for (const int64_t axis : b.others) result += right[static_cast<size_t>(axis)] = letter();
  return left + "," + right + "->" + result;
}

// Contraction(a, b) {batch_a, batch_b, contracting_a, contracting_b, dtype} → [batch…, others of a…, others of b…]
// dtype: of the result, and of the sums where it holds more than the operands' type.
Result<std::vector<Value*>> contraction(Lowering& g, const Node& node) {
  FETTLE_TRY_VOID(passes::check_attributes(node, {"batch_a", "batch_b", "contracting_a", "contracting_b", "dtype"}));
  FETTLE_TRY(Contracted a, read_operand(node, 0, "batch_a", "contracting_a"));
  FETTLE_TRY(Contracted b, read_operand(node, 1, "batch_b", "contracting_b"));
  if (a.batch.size() != b.batch.size() || a.contracting.size() != b.contracting.size())
    return bad_attribute(node, "the operands differ in their numbers of batch or contracting dims");
  const Shape &of_a = a.value->shape(), &of_b = b.value->shape();
  constexpr size_t kLetters = 52;
  if (of_a.size() + of_b.size() - a.batch.size() - a.contracting.size() > kLetters)
    return bad_attribute(node, "it has too many dims");
  Shape result;
  for (size_t k = 0; k < a.batch.size(); ++k) {
    FETTLE_TRY(result.emplace_back(), common_dim(node, a.dims(a.batch)[k], b.dims(b.batch)[k], "batches"));
  }
  for (size_t k = 0; k < a.contracting.size(); ++k)
    FETTLE_TRY_VOID(common_dim(node, a.dims(a.contracting)[k], b.dims(b.contracting)[k], "what the sums go over"));
  result = joined(joined(result, a.dims(a.others)), b.dims(b.others));

  FETTLE_TRY(const ProductTypes types, product_types(node));
  const DType given = a.value->dtype();
  const bool of_bytes = types.result == kI32 && (given == kI8 || given == kU8);

  const bool as_product = is_product(a, b);
  if (!of_bytes || !as_product) {
    a.value = g.cast(a.value, types.operands);
    b.value = g.cast(b.value, types.operands);
  }
  Value* made = as_product ? product_of_matrices(g, a, b, of_bytes ? "MatMulInteger" : "MatMul", result)
                           : g("Einsum", {a.value, b.value}, {{{"equation", equation(a, b)}}});
  return std::vector{g.cast(made, types.result)};
}

constexpr OpDef contraction_defs[] = {
    passes::composite<contraction>("fettle.Contraction", 2),
};

}  // namespace

extern constinit const OpFamily contraction_ops{"contraction", contraction_defs};

}  // namespace fettle
