#pragma once
// The windows of convolutions and pooling: kernel, strides, dilations and padding over the spatial dims.

#include "graph/op_util.h"

namespace fettle::ops {

/// The most that a number of an attribute of windows is.
inline constexpr int64_t kMaxWindow = 1 << 20;

struct Window {
  std::vector<int64_t> kernel, strides, dilations;
  /// Padding; `after` is what windows read: with ceil_mode it reaches to the end of the last one. Where an extent is
  /// open, it is the most that any may read.
  std::vector<Dim> before, after;
  std::vector<Dim> stated_after;  // padding as the model states it
  Shape input, output;            // spatial extents

  size_t n_dims() const { return kernel.size(); }
  /// Elements that the kernel spans in dim d.
  int64_t span(size_t d) const { return (kernel[d] - 1) * dilations[d] + 1; }
};

/// The attribute, a list of so many numbers of at least `least`; all `otherwise` where it is missing. E606.
Result<std::vector<int64_t>> read_list(const Node& node, std::string_view name, size_t length, int64_t otherwise,
                                       int64_t least);

/// Reads strides, dilations, pads, auto_pad and (pooling) ceil_mode. Input 0 has the spatial dims behind two others.
/// E606 lists of the wrong length, numbers out of range · E605 the window is larger than the padded input
Result<Window> read_window(const Node& node, std::vector<int64_t> kernel);

/// x surrounded by `value` in its spatial dims (the last ones), as the window says; x itself where nothing is padded.
te::Tensor padded(const te::Tensor& x, const Window& window, const Expr& value, const std::string& name);

}  // namespace fettle::ops
