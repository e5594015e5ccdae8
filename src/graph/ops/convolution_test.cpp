// Convolutions of dims in any order, against sums in plain C++.

#include <numeric>

#include "graph/ops/general_testing.h"

namespace fettle {
namespace {

class GeneralConvolution : public GeneralOps {
 protected:
  Ints random_order(size_t n) {
    Ints order(n);
    std::iota(order.begin(), order.end(), 0);
    for (size_t k = n; k > 1; --k) std::swap(order[k - 1], order[static_cast<size_t>(below(static_cast<int64_t>(k)))]);
    return order;
  }
  /// What lies in this order, of [first, second, spatial…].
  static Ints placed(const Ints& canonical, const Ints& order) {
    Ints shape(canonical.size());
    for (size_t k = 0; k < order.size(); ++k) shape[static_cast<size_t>(order[k])] = canonical[k];
    return shape;
  }
  struct Options {
    bool dilates_images = false, strides = true, may_be_empty = false;
  };
  void check_random(DType dtype, DType result, const Options& options) {
    const auto n = static_cast<size_t>(below(4));
    const int64_t kind = below(3), groups = kind == 1 ? 2 : 1, batch_groups = kind == 2 ? 2 : 1;
    const int64_t images = 1 + below(2), in = 1 + below(3), out = 1 + below(3);  // of one group
    Ints image{images * batch_groups, in * groups}, kernel{out * groups * batch_groups, in};
    Ints strides(n), dilations(n), image_dilations(n), reversal(n), low(n), high(n), output{images, kernel[0]};
    for (size_t d = 0; d < n; ++d) {
      image.push_back(1 + below(6) - (options.may_be_empty && below(4) == 0 ? 1 : 0));
      kernel.push_back(1 + below(3));
      strides[d] = options.strides ? 1 + below(2) : 1;
      dilations[d] = 1 + below(2);
      image_dilations[d] = options.dilates_images ? 1 + below(3) : 1;
      reversal[d] = below(2);
      const int64_t dilated = image.back() == 0 ? 0 : (image.back() - 1) * image_dilations[d] + 1;
      const int64_t span = (kernel.back() - 1) * dilations[d] + 1;
      low[d] = below(4) - 1;
      high[d] = below(4) - 1;
      if (!options.may_be_empty) high[d] = std::max(high[d], span - dilated - low[d]);
      if (dilated + std::min<int64_t>(low[d], 0) + std::min<int64_t>(high[d], 0) < 0) low[d] = high[d] = 0;
      const int64_t room = dilated + low[d] + high[d] - span;
      output.push_back(room < 0 ? 0 : room / strides[d] + 1);
    }
    const Ints image_order = random_order(n + 2), kernel_order = random_order(n + 2),
               output_order = random_order(n + 2);
    Ints pads = low;
    pads.insert(pads.end(), high.begin(), high.end());
    Case c{.op = "fettle.Convolution",
           .inputs = {{random_array(placed(image, image_order), dtype), dtype},
                      {random_array(placed(kernel, kernel_order), dtype), dtype, true}},
           .attrs = {{"image_dims", image_order},
                     {"kernel_dims", kernel_order},
                     {"output_dims", output_order},
                     {"strides", strides},
                     {"dilations", dilations},
                     {"image_dilations", image_dilations},
                     {"pads", pads},
                     {"window_reversal", reversal},
                     {"group", groups},
                     {"batch_group", batch_groups}}};
    if (result != dtype) c.attrs.set("dtype", onnx_number(result));
    const auto text = [](const Ints& list) { return to_string(Shape(list.begin(), list.end())); };
    SCOPED_TRACE(fmt::format("image {}, kernel {}, strides {}, dilations {} {}, pads {}, reversal {}", text(image),
                             text(kernel), text(strides), text(dilations), text(image_dilations), text(pads),
                             text(reversal)));
    Array want(placed(output, output_order));
    const Ints window(kernel.begin() + 2, kernel.end());
    for_each_index(output, [&](const Ints& o) {
      const int64_t group = o[1] / out;
      double sum = 0;
      for (int64_t f = 0; f < in; ++f)
        for_each_index(window, [&](const Ints& k) {
          Ints at{groups > 1 ? o[0] : group * images + o[0], groups > 1 ? group * in + f : f}, weight{o[1], f};
          if (batch_groups == 1 && groups == 1) at[0] = o[0];
          for (size_t d = 0; d < n; ++d) {
            const int64_t place = o[d + 2] * strides[d] + k[d] * dilations[d] - low[d];
            if (place < 0 || place % image_dilations[d] != 0 || place / image_dilations[d] >= image[d + 2]) return;
            at.push_back(place / image_dilations[d]);
            weight.push_back(reversal[d] != 0 ? window[d] - 1 - k[d] : k[d]);
          }
          sum += c.inputs[0].array(placed(at, image_order)) * c.inputs[1].array(placed(weight, kernel_order));
        });
      want(placed(o, output_order)) = sum;
    });
    check(c, {want});
  }
};

TEST_F(GeneralConvolution, OfImages) {
  for (const auto& [dtype, result] : {std::pair{kF32, kF32}, {kF64, kF64}, {kI32, kI32}, {kI8, kI32}, {kF16, kF32}})
    for (int i = 0; i < 8; ++i) {
      SCOPED_TRACE(fmt::format("{} as {}", dtype.to_string(), result.to_string()));
      check_random(dtype, result, {});
      if (HasFailure()) return;
    }
}

TEST_F(GeneralConvolution, OfDilatedImages) {
  for (const bool strides : {false, true})
    for (int i = 0; i < 24; ++i) {
      check_random(kF32, kF32, {.dilates_images = true, .strides = strides});
      if (HasFailure()) return;
    }
}

TEST_F(GeneralConvolution, DilatedImagesAreTransposedConvolutions) {
  Case c{.op = "fettle.Convolution",
         .inputs = {{Array({1, 4, 9, 9}), kF32}, {Array({6, 4, 3, 3}), kF32, true}},
         .attrs = {{"image_dilations", Ints{2, 2}}, {"pads", Ints{1, 1, 2, 2}}}};
  const Graph graph = optimized(c);
  EXPECT_TRUE(has_op(graph, "ConvTranspose")) << to_text(graph);
  EXPECT_FALSE(has_op(graph, "Pad"));
}

TEST_F(GeneralConvolution, OfChannelsLastIsOneConvolution) {
  Case c{.op = "fettle.Convolution",
         .inputs = {{Array({1, 9, 9, 4}), kF32}, {Array({3, 3, 4, 6}), kF32, true}},
         .attrs = {
             {"image_dims", Ints{0, 3, 1, 2}}, {"kernel_dims", Ints{3, 2, 0, 1}}, {"output_dims", Ints{0, 3, 1, 2}}}};
  const Graph graph = optimized(c);
  EXPECT_TRUE(has_op(graph, "Conv"));
  EXPECT_EQ(graph.nodes().size(), 3u) << to_text(graph);  // two Transposes, which are the planner's layouts
}

TEST_F(GeneralConvolution, WhatDoesNotFitIsRefused) {
  Case c{.op = "fettle.Convolution", .inputs = {{Array({1, 4, 9, 9}), kF32}, {Array({6, 2, 3, 3}), kF32}}};
  EXPECT_EQ(refusal(c).code, ErrorCode::E605);  // 4 features, and 2
  c.attrs = {{"group", int64_t{2}}, {"batch_group", int64_t{2}}};
  EXPECT_EQ(refusal(c).code, ErrorCode::E606);
  c.attrs = {{"group", int64_t{2}}, {"image_dims", Ints{0, 1, 2, 2}}};
  EXPECT_EQ(refusal(c).code, ErrorCode::E606);
  c.attrs = {{"batch_group", int64_t{2}}};
  EXPECT_EQ(refusal(c).code, ErrorCode::E605);  // one image in two groups
}

}  // namespace
}  // namespace fettle
