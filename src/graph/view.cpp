#include "graph/view.h"

#include <algorithm>
#include <numeric>

namespace fettle {
namespace {

/// Strides of the same elements under another shape, as NumPy's reshape does without copying: groups of old and new
/// dimensions with equal products, each of which must lie evenly.
std::optional<std::vector<int64_t>> reshape_strides(const std::vector<int64_t>& from,
                                                    const std::vector<int64_t>& strides,
                                                    const std::vector<int64_t>& to) {
  std::vector<int64_t> old_shape, old_strides;
  for (size_t d = 0; d < from.size(); ++d) {
    if (from[d] == 1) continue;
    old_shape.push_back(from[d]);
    old_strides.push_back(strides[d]);
  }
  std::vector<int64_t> result(to.size(), 0);
  size_t i = 0, j = 0;
  while (i < old_shape.size() && j < to.size()) {
    size_t i_end = i + 1, j_end = j + 1;
    int64_t old_count = old_shape[i], new_count = to[j];
    while (old_count != new_count) {
      if (new_count < old_count) {
        if (j_end == to.size()) return {};
        new_count *= to[j_end++];
      } else {
        if (i_end == old_shape.size()) return {};
        old_count *= old_shape[i_end++];
      }
    }
    for (size_t d = i; d + 1 < i_end; ++d)
      if (old_strides[d] != old_shape[d + 1] * old_strides[d + 1]) return {};
    int64_t stride = old_strides[i_end - 1];
    for (size_t d = j_end; d-- > j;) {
      result[d] = stride;
      stride *= to[d];
    }
    i = i_end;
    j = j_end;
  }
  if (i != old_shape.size()) return {};
  for (; j < to.size(); ++j)
    if (to[j] != 1) return {};
  return result;
}

}  // namespace

std::vector<int64_t> dense_strides(const std::vector<int64_t>& shape) {
  std::vector<int> order(shape.size());
  std::iota(order.begin(), order.end(), 0);
  return dense_strides(shape, order);
}

std::vector<int64_t> dense_strides(const std::vector<int64_t>& shape, const std::vector<int>& order) {
  std::vector<int64_t> strides(shape.size(), 1);
  int64_t stride = 1;
  for (size_t k = order.size(); k-- > 0;) {
    const auto d = static_cast<size_t>(order[k]);
    strides[d] = stride;
    stride *= shape[d];
  }
  return strides;
}

std::vector<int> memory_order(const std::vector<int64_t>& shape, const std::vector<int64_t>& strides) {
  std::vector<int> order(shape.size());
  std::iota(order.begin(), order.end(), 0);
  const auto key = [&](int d) {
    const auto at = static_cast<size_t>(d);
    return shape[at] == 1 ? INT64_MAX : strides[at];
  };
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return key(a) > key(b); });
  return order;
}

bool is_row_major(const std::vector<int64_t>& shape, const std::vector<int64_t>& strides) {
  int64_t stride = 1;
  for (size_t d = shape.size(); d-- > 0;) {
    if (shape[d] == 1) continue;
    if (strides[d] != stride) return false;
    stride *= shape[d];
  }
  return true;
}

std::optional<View> reshaped_view(const std::vector<int64_t>& from, const View& view, const std::vector<int64_t>& to) {
  auto strides = reshape_strides(from, view.strides, to);
  if (!strides) return {};
  return View{view.storage, view.offset_elems, *std::move(strides)};
}

std::optional<std::vector<View>> view_outputs(const Node& node, const View& input) {
  return node.op->view->outputs(node, input);
}

std::optional<View> view_input(const Node& node, const View& output) {
  return node.op->view->input ? node.op->view->input(node, output) : std::nullopt;
}

}  // namespace fettle
