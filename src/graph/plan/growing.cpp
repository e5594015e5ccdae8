#include "graph/plan/growing.h"

#include <fmt/format.h>

#include <algorithm>

#include "graph/control.h"
#include "graph/late_sizes.h"
#include "graph/view.h"

namespace fettle {
namespace {

size_t axis_of(const Node& concat) {
  const int64_t axis = concat.attrs.get_int("axis", 0);
  return static_cast<size_t>(axis < 0 ? axis + concat.output()->rank() : axis);
}

/// The dims of carried value i that iterations change.
std::vector<size_t> changing_dims(const LoopParts& loop, int i) {
  const std::vector<Dim> sizes = dims_of_attr(loop.node, kCarriedSizesKey);
  size_t first = 0;
  for (int k = 0; k < i; ++k) first += loop.initial(k)->shape().size();
  std::vector<size_t> dims;
  for (size_t d = 0; d < loop.initial(i)->shape().size(); ++d)
    if (first + d < sizes.size() && !(sizes[first + d] == Dim(-1))) dims.push_back(d);
  return dims;
}

}  // namespace

std::optional<Growing> growing_rows(const Node& loop, const Value& output) {
  if (!is_loop(loop) || output.producer_output < LoopParts(loop).n_carried) return {};
  const std::vector<Dim> defines = dims_of_attr(loop, kDefinesKey);
  if (defines.empty() || defines.back() == Dim(-1)) return {};
  const Dim number = Dim::symbol(fmt::format("{} rows, {}", defines.back().symbol_name(), output.producer_output), -1,
                                 kMaxDim, 1, output.shape()[0].typical());
  const Shape row(output.shape().begin() + 1, output.shape().end());
  return Growing{number, (number + 1) * element_count(row) * output.dtype().element_bytes()};
}

std::optional<Appended> appended_value(const Node& loop, int i) {
  if (!is_loop(loop) || i >= LoopParts(loop).n_carried) return {};
  const LoopParts parts(loop);
  const std::vector<size_t> changing = changing_dims(parts, i);
  if (changing.size() != 1) return {};
  Appended appended{.axis = changing[0]};
  const Shape& shape = parts.carried_in(i)->shape();
  if (!std::all_of(shape.begin(), shape.begin() + static_cast<std::ptrdiff_t>(appended.axis),
                   [](const Dim& dim) { return dim == Dim(1); }))
    return {};
  const Value* at = parts.carried_out(i);
  while (at != parts.carried_in(i)) {
    const Node* concat = at->producer;
    const bool has_other_use = at->users.size() + static_cast<size_t>(at->output_uses) != 1;
    if (!concat || !is_concatenation(*concat) || axis_of(*concat) != appended.axis || has_other_use) return {};
    appended.concats.push_back(concat);
    for (size_t k = concat->inputs.size(); k-- > 1;) appended.parts.push_back({concat->input(k), concat});
    at = concat->input(0);
  }
  if (appended.concats.empty()) return {};
  std::ranges::reverse(appended.parts);
  const Value& left = *loop.outputs[static_cast<size_t>(i)];
  const Dim& whole = left.shape()[appended.axis];
  if (whole.symbol_name().empty()) return {};
  const Dim extent = Dim::symbol(fmt::format("{} so far", whole.symbol_name()), 0, kMaxDim, 1, whole.typical());
  Shape so_far = left.shape();
  so_far[appended.axis] = extent;
  appended.memory = {extent, element_count(so_far) * left.dtype().element_bytes()};
  return appended;
}

}  // namespace fettle
