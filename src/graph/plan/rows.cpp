#include "graph/plan/rows.h"

#include <algorithm>

#include "graph/op.h"
#include "graph/op_util.h"

namespace fettle {
namespace {

size_t axis_of(const Node& node) {
  const int64_t axis = node.attrs.get_int("axis", 0);
  return static_cast<size_t>(axis < 0 ? axis + node.input(0)->rank() : axis);
}

bool counts_backwards(const Value& index) { return index.producer != nullptr; }

// Whether the index is the iteration's number, or `last` less that number.
bool is_number(const Value& index, const Value* number) {
  if (&index == number) return true;
  const Node* node = index.producer;
  return node && node->op->name == "Sub" && node->input(1) == number;
}

}  // namespace

bool is_row(const Node& node, const Iterations& iterations) {
  if (!iterations.number || node.op->name != "Gather" || node.input(0)->is_constant()) return false;
  const Value& index = *node.input(1);
  if (!is_number(index, iterations.number)) return false;
  const Dim& rows = node.input(0)->shape()[axis_of(node)];
  if (counts_backwards(index)) {
    const auto last = ops::content_of(*index.producer->input(0));
    if (!last || !(last->front() == rows - 1)) return false;
  }
  return iterations.limit == rows || iterations.limit.max() <= rows.min();
}

RowView row_view(const Node& node, const View& whole) {
  const size_t axis = axis_of(node);
  RowView row{whole, whole.strides[axis]};
  const auto at = row.first.strides.begin() + static_cast<std::ptrdiff_t>(axis);
  // An index of one element in several dimensions leaves them.
  row.first.strides.insert(row.first.strides.erase(at), static_cast<size_t>(node.input(1)->rank()), Dim(0));
  if (counts_backwards(*node.input(1))) {
    row.first.offset_elems = row.first.offset_elems + (node.input(0)->shape()[axis] - 1) * row.step_elems;
    row.step_elems = Dim(0) - row.step_elems;
  }
  return row;
}

bool only_places_rows(const Node& node, const Iterations& iterations) {
  return iterations.number && node.outputs.size() == 1 && is_number(*node.output(), iterations.number) &&
         !node.output()->users.empty() && std::ranges::all_of(node.output()->users, [&](const Node* user) {
           return user->input(1) == node.output() && user->input(0) != node.output() && is_row(*user, iterations);
         });
}

}  // namespace fettle
