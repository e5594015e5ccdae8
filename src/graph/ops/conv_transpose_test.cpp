// Transposed convolutions, against what their definition says: each pixel adds the weights, times itself, to a window.

#include <limits>

#include "graph/ops/general_testing.h"

namespace fettle {
namespace {

class TransposedConvolution : public GeneralOps {
 protected:
  struct Options {
    bool infinities = false;
    int64_t most_channels = 3;  // of a group
  };
  /// Of one to three spatial dims.
  void check_random(DType dtype, const Options& options) {
    const auto n = static_cast<size_t>(1 + below(3));
    const int64_t groups = 1 + below(2), in = 1 + below(options.most_channels), out = 1 + below(options.most_channels);
    Ints image{1 + below(2), in * groups}, kernel{in * groups, out}, output{image[0], out * groups};
    Ints strides(n), dilations(n), before(n), after(n), more(n);
    for (size_t d = 0; d < n; ++d) {
      image.push_back(2 + below(4));
      kernel.push_back(1 + below(n == 3 ? 3 : 5));
      strides[d] = 1 + below(3);
      dilations[d] = 1 + (below(3) == 0 ? 1 : 0);
      more[d] = below(std::max(strides[d], dilations[d]));
      const int64_t whole = (image.back() - 1) * strides[d] + (kernel.back() - 1) * dilations[d] + 1 + more[d];
      before[d] = below(3);
      after[d] = below(3);
      if (whole - before[d] - after[d] < 2) before[d] = after[d] = 0;
      if (whole < 2) more[d] += 1;
      output.push_back(std::max<int64_t>(whole, 2) - before[d] - after[d]);
    }
    Ints pads = before;
    pads.insert(pads.end(), after.begin(), after.end());
    Case c{.op = "ConvTranspose",
           .inputs = {{random_array(image, dtype), dtype}, {random_array(kernel, dtype), dtype, true}},
           .attrs = {{"strides", strides},
                     {"dilations", dilations},
                     {"pads", pads},
                     {"output_padding", more},
                     {"group", groups}}};
    const bool biased = coin();
    if (biased) c.inputs.push_back({random_array({out * groups}, dtype), dtype, true});
    if (options.infinities) {
      for (double& weight : c.inputs[1].array.data) weight = weight == 0 ? 1 : weight;
      for (double& pixel : c.inputs[0].array.data)
        if (below(4) == 0) pixel = std::numeric_limits<double>::infinity();
    }
    const auto text = [](const Ints& list) { return to_string(Shape(list.begin(), list.end())); };
    SCOPED_TRACE(fmt::format("image {}, kernel {}, strides {}, dilations {}, pads {}, more {}, {} groups", text(image),
                             text(kernel), text(strides), text(dilations), text(pads), text(more), groups));
    Array want(output);
    if (biased) for_each_index(output, [&](const Ints& o) { want(o) = c.inputs[2].array({o[1]}); });
    const Ints window(kernel.begin() + 2, kernel.end());
    for_each_index(image, [&](const Ints& i) {
      for_each_index(window, [&](const Ints& k) {
        for (int64_t oc = 0; oc < out; ++oc) {
          Ints at{i[0], i[1] / in * out + oc}, weight{i[1], oc};
          for (size_t d = 0; d < n; ++d) {
            at.push_back(i[d + 2] * strides[d] + k[d] * dilations[d] - before[d]);
            weight.push_back(k[d]);
          }
          if (want.has(at)) want(at) += c.inputs[0].array(i) * c.inputs[1].array(weight);
        }
      });
    });
    check(c, {want});
  }
};

TEST_F(TransposedConvolution, OfAllAttributes) {
  for (const DType dtype : {kF32, kF32, kF32, kF64, kF16})
    for (int i = 0; i < 8; ++i) {
      SCOPED_TRACE(dtype.to_string());
      check_random(dtype, {});
      if (HasFailure()) return;
    }
}

TEST_F(TransposedConvolution, OfManyChannels) {
  for (int i = 0; i < 8; ++i) {
    check_random(kF32, {.most_channels = 12});
    if (HasFailure()) return;
  }
}

// A phase that has no tap for a pixel does not multiply it by zero.
TEST_F(TransposedConvolution, InfinitePixelsReachTheirWindowsAlone) {
  for (int i = 0; i < 16; ++i) {
    check_random(kF32, {.infinities = true});
    if (HasFailure()) return;
  }
}

}  // namespace
}  // namespace fettle
