#include "graph/window.h"

#include <fmt/format.h>

#include <algorithm>

namespace fettle::ops {

Result<std::vector<int64_t>> read_list(const Node& node, std::string_view name, size_t length, int64_t otherwise,
                                       int64_t least) {
  auto list = node.attrs.get_ints(name, std::vector<int64_t>(length, otherwise));
  if (list.size() != length) return bad_attribute(node, fmt::format("{} must have {} elements", name, length));
  for (const int64_t value : list)
    if (value < least || value > kMaxWindow)
      return bad_attribute(node, fmt::format("{} has the element {}", name, value));
  return list;
}

Result<Window> read_window(const Node& node, std::vector<int64_t> kernel) {
  Window w;
  const Shape input(shape_of(node, 0).begin() + 2, shape_of(node, 0).end());
  const size_t n = input.size();
  if (kernel.size() != n)
    return bad_attribute(node, fmt::format("a kernel of {} dims for {} spatial dims", kernel.size(), n));
  for (const int64_t k : kernel)
    if (k < 1 || k > kMaxWindow) return bad_attribute(node, fmt::format("a kernel of extent {}", k));
  w.kernel = std::move(kernel);
  w.input = input;
  FETTLE_TRY(w.strides, read_list(node, "strides", n, 1, 1));
  FETTLE_TRY(w.dilations, read_list(node, "dilations", n, 1, 1));
  FETTLE_TRY(const auto pads, read_list(node, "pads", 2 * n, 0, 0));
  w.before.assign(pads.begin(), pads.begin() + static_cast<int64_t>(n));
  w.stated_after.assign(pads.begin() + static_cast<int64_t>(n), pads.end());

  const std::string auto_pad = node.attrs.get_string("auto_pad", "NOTSET");
  const bool same = auto_pad == "SAME_UPPER" || auto_pad == "SAME_LOWER";
  if (auto_pad == "VALID") {
    w.before.assign(n, 0);
    w.stated_after.assign(n, 0);
  } else if (!same && auto_pad != "NOTSET" && !auto_pad.empty()) {
    return bad_attribute(node, "auto_pad is " + auto_pad);
  }
  const bool ceil_mode = node.attrs.get_int("ceil_mode", 0) != 0;
  for (size_t d = 0; d < n; ++d) {
    const int64_t s = w.strides[d];
    if (same) {
      const Dim out = ceildiv(input[d], s);
      w.output.push_back(out);
      const Dim total = max((out - 1) * s + w.span(d) - input[d], 0);
      const Dim less = floordiv(total, 2);
      w.before[d] = auto_pad == "SAME_UPPER" ? less : total - less;
      w.stated_after[d] = total - w.before[d];
      continue;
    }
    const Dim room = input[d] + w.before[d] + w.stated_after[d] - w.span(d);
    if (room.max() < 0)
      return bad_types(node, fmt::format("a window of {} over {} elements", w.span(d), input[d].to_string()));
    note_not_negative(node, room, fmt::format("a window of {} over {} elements", w.span(d), input[d].to_string()));
    Dim out = (ceil_mode ? ceildiv(room, s) : floordiv(room, s)) + 1;
    // The last window must begin inside of the input or the padding before it.
    if (ceil_mode) out = min(out, ceildiv(input[d] + w.before[d], s));
    w.output.push_back(out);
  }
  for (size_t d = 0; d < n; ++d) {
    if (!input[d].is_number()) {
      w.after.push_back(w.stated_after[d] + (ceil_mode ? w.strides[d] - 1 : 0));
      continue;
    }
    // Exactly what the windows read: padding that no window reaches is left out.
    const Dim reach = (w.output[d] - 1) * w.strides[d] + w.span(d);
    w.after.push_back(max(reach - w.before[d] - input[d], 0));
  }
  return w;
}

te::Tensor padded(const te::Tensor& x, const Window& window, const Expr& value, const std::string& name) {
  const auto positive = [](const Dim& p) { return p.max() > 0; };
  if (std::ranges::none_of(window.before, positive) && std::ranges::none_of(window.after, positive)) return x;
  const size_t outer = x.shape().size() - window.n_dims();
  std::vector<Expr> before(outer, Expr(0)), after(outer, Expr(0));
  for (size_t d = 0; d < window.n_dims(); ++d) {
    before.push_back(size_expr(window.before[d]));
    after.push_back(size_expr(window.after[d]));
  }
  return te::pad(x, before, after, value, name);
}

}  // namespace fettle::ops
