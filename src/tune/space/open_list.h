#pragma once
// Programs of every kind whose sizes are open, for tests only.

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "tune/space/open_workloads.h"

namespace fettle::testing {

// Each takes `n`; some take `m`, too.
inline std::vector<OpenWorkload> open_workloads() {
  std::vector<OpenWorkload> all;
  const auto add = [&](const std::string& name, std::vector<IntParam> sizes,
                       std::function<Func(const Sizes&, const std::vector<IntParam>&)> make,
                       double tolerance = 0) { all.push_back({name, std::move(sizes), std::move(make), tolerance}); };
  const auto product = [&](const std::string& name, std::vector<IntParam> sizes,
                           const std::function<OpenProduct(const Sizes&)>& of) {
    add(name, std::move(sizes),
        [of](const Sizes& s, const std::vector<IntParam>& ints) { return open_product(of(s), ints); });
  };
  const auto n0 = [] { return std::vector{size("n", 0, 128)}; };
  const auto nm = [] { return std::vector{size("n", 0, 128), size("m", 0, 128)}; };
  // --- products: rows, columns, terms, batches
  product("rows", n0(), [](const Sizes& s) { return OpenProduct{.m = s[0], .n = 40, .k = 24, .constant_b = true}; });
  product("rows_epilogue", n0(), [](const Sizes& s) {
    return OpenProduct{.m = s[0], .n = 40, .k = 24, .constant_b = true, .epilogue = true};
  });
  product("rows_transposed_weights", n0(), [](const Sizes& s) {
    return OpenProduct{.m = s[0], .n = 40, .k = 24, .transpose_b = true, .constant_b = true, .epilogue = true};
  });
  product("rows_of_eight", {size("n", 8, 128, 8)},
          [](const Sizes& s) { return OpenProduct{.m = s[0], .n = 40, .k = 24, .constant_b = true}; });
  product("rows_deep", {size("n", 1, 128)},
          [](const Sizes& s) { return OpenProduct{.m = s[0], .n = 20, .k = 2100, .constant_b = true}; });
  product("rows_variable", n0(), [](const Sizes& s) { return OpenProduct{.m = s[0], .n = 40, .k = 24}; });
  product("rows_transposed", n0(),
          [](const Sizes& s) { return OpenProduct{.m = s[0], .n = 40, .k = 24, .transpose_a = true}; });
  product("rows_in_batches", nm(), [](const Sizes& s) {
    return OpenProduct{.batch = {s[1]}, .m = s[0], .n = 20, .k = 12, .constant_b = true, .epilogue = true};
  });
  product("columns", n0(), [](const Sizes& s) { return OpenProduct{.m = 20, .n = s[0], .k = 24}; });
  product("columns_of_many", {size("n", 0, 128, 1, 128)},
          [](const Sizes& s) { return OpenProduct{.m = 20, .n = s[0], .k = 24, .epilogue = true}; });
  product("columns_epilogue", n0(),
          [](const Sizes& s) { return OpenProduct{.m = 20, .n = s[0], .k = 24, .epilogue = true}; });
  product("columns_transposed", n0(),
          [](const Sizes& s) { return OpenProduct{.m = 20, .n = s[0], .k = 24, .transpose_b = true}; });
  product("terms", n0(), [](const Sizes& s) { return OpenProduct{.m = 20, .n = 40, .k = s[0]}; });
  product("terms_transposed", n0(),
          [](const Sizes& s) { return OpenProduct{.m = 20, .n = 40, .k = s[0], .transpose_a = true}; });
  product("all", nm(), [](const Sizes& s) { return OpenProduct{.m = s[0], .n = s[1], .k = s[0]}; });
  product("all_transposed", nm(),
          [](const Sizes& s) { return OpenProduct{.m = s[0], .n = s[1], .k = s[0], .transpose_b = true}; });
  product("scores_of_many", {size("n", 0, 128, 1, 128)}, [](const Sizes& s) {
    return OpenProduct{.batch = {3}, .m = s[0], .n = s[0], .k = 16, .scale = float_imm(0.25)};
  });
  product("scores", n0(), [](const Sizes& s) {
    return OpenProduct{.batch = {3}, .m = s[0], .n = s[0], .k = 16, .scale = float_imm(0.25)};
  });
  product("scores_transposed", n0(), [](const Sizes& s) {
    return OpenProduct{.batch = {3}, .m = s[0], .n = s[0], .k = 16, .transpose_b = true, .scale = float_imm(0.25)};
  });
  product("values", n0(), [](const Sizes& s) { return OpenProduct{.batch = {3}, .m = s[0], .n = 16, .k = s[0]}; });
  product("batches", {size("b", 0, 128)},
          [](const Sizes& s) { return OpenProduct{.batch = {s[0]}, .m = 9, .n = 20, .k = 8}; });
  product("vector_times_matrix", n0(), [](const Sizes& s) { return OpenProduct{.m = 1, .n = s[0], .k = 24}; });
  // --- convolutions
  const auto conv = [&](const std::string& name, std::vector<IntParam> sizes,
                        const std::function<OpenConv(const Sizes&)>& of) {
    add(name, std::move(sizes),
        [of](const Sizes& s, const std::vector<IntParam>& ints) { return open_conv(of(s), ints); });
  };
  const auto image = [] { return std::vector{size("h", 1, 32), size("w", 1, 32)}; };
  conv("conv", image(), [](const Sizes& s) { return OpenConv{.h = s[0], .w = s[1]}; });
  conv("conv_batch", {size("b", 0, 128)}, [](const Sizes& s) { return OpenConv{.n = s[0], .h = 6, .w = 7}; });
  conv("conv_first", image(), [](const Sizes& s) { return OpenConv{.h = s[0], .w = s[1], .channels_last = false}; });
  conv("conv_strided", image(), [](const Sizes& s) { return OpenConv{.h = s[0], .w = s[1], .ic = 3, .stride = 2}; });
  conv("conv_1x1", image(), [](const Sizes& s) { return OpenConv{.h = s[0], .w = s[1], .kernel = 1, .padding = 0}; });
  conv("conv_1x1_first", image(), [](const Sizes& s) {
    return OpenConv{.h = s[0], .w = s[1], .kernel = 1, .padding = 0, .channels_last = false};
  });
  conv("depthwise", image(),
       [](const Sizes& s) { return OpenConv{.h = s[0], .w = s[1], .ic = 20, .oc = 20, .depthwise = true}; });
  conv("depthwise_first", image(), [](const Sizes& s) {
    return OpenConv{.h = s[0], .w = s[1], .ic = 3, .oc = 3, .depthwise = true, .channels_last = false};
  });
  conv("depthwise_strided", image(), [](const Sizes& s) {
    return OpenConv{.h = s[0], .w = s[1], .ic = 20, .oc = 20, .stride = 2, .depthwise = true};
  });
  add("max_pool", image(),
      [](const Sizes& s, const std::vector<IntParam>& i) { return open_pool(s[0], s[1], 20, false, 2, i); });
  add("average_pool", image(),
      [](const Sizes& s, const std::vector<IntParam>& i) { return open_pool(s[0], s[1], 20, true, 1, i); });
  add("global_pool", image(), [](const Sizes& s, const std::vector<IntParam>& i) {
    return open_reduction({2, s[0], s[1], 20}, {1, 2}, false, i);
  });
  add("global_pool_first", image(), [](const Sizes& s, const std::vector<IntParam>& i) {
    return open_reduction({2, 5, s[0], s[1]}, {2, 3}, false, i);
  });
  add("conv_transpose", {size("n", 0, 2), size("h", 1, 17), size("w", 1, 17)},
      [](const Sizes& s, const std::vector<IntParam>& i) { return open_conv_transpose(s[0], s[1], s[2], 8, 20, i); });
  // --- rows
  const double kClose = 1e-5;
  add(
      "softmax", nm(), [](const Sizes& s, const std::vector<IntParam>& i) { return open_softmax({s[0], s[1]}, i); },
      kClose);
  add(
      "softmax_rows", n0(), [](const Sizes& s, const std::vector<IntParam>& i) { return open_softmax({s[0], 40}, i); },
      kClose);
  add(
      "softmax_axis", n0(),
      [](const Sizes& s, const std::vector<IntParam>& i) { return open_softmax({4, 5, s[0]}, i); }, kClose);
  add(
      "softmax_heads", n0(),
      [](const Sizes& s, const std::vector<IntParam>& i) { return open_softmax({3, s[0], s[0]}, i); }, kClose);
  add(
      "layer_norm", n0(), [](const Sizes& s, const std::vector<IntParam>& i) { return open_layer_norm({s[0], 72}, i); },
      kClose);
  add(
      "layer_norm_long", n0(),
      [](const Sizes& s, const std::vector<IntParam>& i) { return open_layer_norm({s[0], 768}, i); }, kClose);
  add(
      "layer_norm_axis", {size("n", 1, 128), size("m", 1, 128)},
      [](const Sizes& s, const std::vector<IntParam>& i) { return open_layer_norm({s[0], s[1]}, i); }, kClose);
  // --- attention, in one pass: of 300 keys, typically
  const auto nk = [] { return std::vector{size("n", 0, 512, 1, 64), size("k", 0, 512, 1, 300)}; };
  add(
      "attention", nk(),
      [](const Sizes& s, const std::vector<IntParam>& i) { return open_attention({.queries = s[0], .keys = s[1]}, i); },
      kClose);
  add(
      "attention_heads", {size("h", 0, 128, 1, 4)},
      [](const Sizes& s, const std::vector<IntParam>& i) {
        return open_attention({.heads = s[0], .queries = 33, .keys = 300, .width = 5}, i);
      },
      kClose);
  add(
      "attention_causal", nk(),
      [](const Sizes& s, const std::vector<IntParam>& i) {
        return open_attention({.queries = s[0], .keys = s[1], .group = 2, .before = Expr(0)}, i);
      },
      kClose);
  add(
      "attention_with_past", nk(),
      [](const Sizes& s, const std::vector<IntParam>& i) {
        return open_attention({.queries = s[0], .keys = s[0] + s[1], .before = s[1]}, i);
      },
      kClose);
  // --- reductions
  add("sum_of_rows", nm(),
      [](const Sizes& s, const std::vector<IntParam>& i) { return open_reduction({s[0], s[1]}, {1}, false, i); });
  add("sum_of_columns", nm(),
      [](const Sizes& s, const std::vector<IntParam>& i) { return open_reduction({s[0], s[1]}, {0}, false, i); });
  add("sum_of_all", nm(),
      [](const Sizes& s, const std::vector<IntParam>& i) { return open_reduction({s[0], s[1]}, {0, 1}, false, i); });
  add("greatest_of_rows", nm(),
      [](const Sizes& s, const std::vector<IntParam>& i) { return open_reduction({s[0], s[1]}, {1}, true, i); });
  add("argmax", {size("n", 0, 128), size("m", 1, 128)},
      [](const Sizes& s, const std::vector<IntParam>& i) { return open_argmax(s[0], s[1], i); });
  add("cumsum", {size("n", 1, 128), size("m", 0, 128)},
      [](const Sizes& s, const std::vector<IntParam>& i) { return open_cumsum(s[0], s[1], i); });
  // --- moves and elementwise
  add("elementwise", n0(), [](const Sizes& s, const std::vector<IntParam>& i) { return open_elementwise({s[0]}, i); });
  add("elementwise_rows", nm(),
      [](const Sizes& s, const std::vector<IntParam>& i) { return open_elementwise({s[0], s[1]}, i); });
  add("elementwise_flat", n0(),
      [](const Sizes& s, const std::vector<IntParam>& i) { return open_elementwise({s[0] * 12}, i); });
  add("elementwise_channels", nm(),
      [](const Sizes& s, const std::vector<IntParam>& i) { return open_elementwise({s[0], s[1], 12}, i); });
  add(
      "gelu", n0(),
      [](const Sizes& s, const std::vector<IntParam>& i) { return open_elementwise({s[0], 24}, i, true); }, kClose);
  add("transpose", nm(),
      [](const Sizes& s, const std::vector<IntParam>& i) { return open_transpose({s[0], s[1]}, {1, 0}, i); });
  add("transpose_heads", n0(),
      [](const Sizes& s, const std::vector<IntParam>& i) { return open_transpose({2, s[0], 3, 16}, {0, 2, 1, 3}, i); });
  add("transpose_keys", n0(),
      [](const Sizes& s, const std::vector<IntParam>& i) { return open_transpose({2, s[0], 3, 16}, {0, 2, 3, 1}, i); });
  add("gather", {size("n", 1, 128), size("m", 0, 128)},
      [](const Sizes& s, const std::vector<IntParam>& i) { return open_gather(s[0], s[1], 24, i); });
  add("gather_columns", {size("n", 1, 128), size("m", 0, 128)},
      [](const Sizes& s, const std::vector<IntParam>& i) { return open_gather(20, s[0], s[1], i); });
  add("concat_rows", nm(),
      [](const Sizes& s, const std::vector<IntParam>& i) { return open_concat({s[0], 20}, s[1], 0, i); });
  add("concat_columns", nm(),
      [](const Sizes& s, const std::vector<IntParam>& i) { return open_concat({7, s[0]}, s[1], 1, i); });
  add("pad", nm(), [](const Sizes& s, const std::vector<IntParam>& i) { return open_pad({s[0], s[1]}, {1, 2}, i); });
  add("resize", image(), [](const Sizes& s, const std::vector<IntParam>& i) { return open_resize(s[0], s[1], 20, i); });
  return all;
}

}  // namespace fettle::testing
