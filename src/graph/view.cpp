#include "graph/view.h"

#include <algorithm>
#include <numeric>

namespace fettle {
namespace {

// Which of two products of leading dims has to grow: the one that divides the other.
bool is_less(const Dim& x, const Dim& y) {
  if (x.is_number() && y.is_number()) return x.value() < y.value();
  if (exact_quotient(y, x)) return true;
  if (exact_quotient(x, y)) return false;
  return x.typical() < y.typical();
}

}  // namespace

std::optional<std::vector<DimGroup>> equal_groups(const Shape& from, const Shape& to) {
  std::vector<DimGroup> groups;
  const auto skip_units = [](const Shape& shape, size_t& at) {
    while (at < shape.size() && shape[at] == Dim(1)) ++at;
    return at == shape.size();
  };
  for (size_t i = 0, j = 0;;) {
    DimGroup group{i, 0, j, 0};
    const bool ended = skip_units(from, i), other_ended = skip_units(to, j);
    if (ended && other_ended) return groups;
    if (ended || other_ended) return {};
    Dim x = from[i++], y = to[j++];
    while (!(x == y)) {
      const bool grows = is_less(x, y);
      if (grows ? i == from.size() : j == to.size()) return {};
      if (grows)
        x = x * from[i++];
      else
        y = y * to[j++];
    }
    group.from_end = i;
    group.to_end = j;
    groups.push_back(group);
  }
}

std::vector<Dim> dense_strides(const Shape& shape) {
  std::vector<int> order(shape.size());
  std::iota(order.begin(), order.end(), 0);
  return dense_strides(shape, order);
}

std::vector<Dim> dense_strides(const Shape& shape, const std::vector<int>& order) {
  std::vector<Dim> strides(shape.size(), 1);
  Dim stride = 1;
  for (size_t k = order.size(); k-- > 0;) {
    const auto d = static_cast<size_t>(order[k]);
    strides[d] = stride;
    stride = stride * shape[d];
  }
  return strides;
}

std::vector<int> memory_order(const Shape& shape, const std::vector<Dim>& strides) {
  std::vector<int> order(shape.size());
  std::iota(order.begin(), order.end(), 0);
  const auto key = [&](int d) {
    const auto at = static_cast<size_t>(d);
    return shape[at] == Dim(1) ? INT64_MAX : strides[at].typical();
  };
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return key(a) > key(b); });
  return order;
}

bool is_row_major(const Shape& shape, const std::vector<Dim>& strides) {
  Dim stride = 1;
  for (size_t d = shape.size(); d-- > 0;) {
    if (shape[d] == Dim(1)) continue;
    if (!(strides[d] == stride)) return false;
    stride = stride * shape[d];
  }
  return true;
}

std::optional<View> reshaped_view(const Shape& from, const View& view, const Shape& to) {
  const auto groups = equal_groups(from, to);
  if (!groups) return {};
  View result{view.storage, view.offset_elems, std::vector<Dim>(to.size(), 0)};
  for (const DimGroup& group : *groups) {
    Dim stride = 0, count = 1;  // of the innermost, and how many elements lie evenly behind each other
    for (size_t d = group.from_end; d-- > group.from;) {
      if (from[d] == Dim(1)) continue;
      if (count == Dim(1)) stride = view.strides[d];
      if (!(view.strides[d] == stride * count)) return {};
      count = count * from[d];
    }
    for (size_t d = group.to_end; d-- > group.to;) {
      result.strides[d] = stride;
      stride = stride * to[d];
    }
  }
  return result;
}

std::optional<std::vector<View>> view_outputs(const Node& node, const View& input) {
  return node.op->view->outputs(node, input);
}

std::optional<View> view_input(const Node& node, const View& output) {
  return node.op->view->input ? node.op->view->input(node, output) : std::nullopt;
}

}  // namespace fettle
