#include "generations/ansor/sketch/conditions.h"

#include <gtest/gtest.h>

#include "generations/ansor/sketch/test_programs.h"
#include "ir/visit.h"

namespace fettle {
namespace {

using te::Tensor;

struct Row {
  const char* what;
  Func func;
  const char* block;
  bool strict_inlinable, data_reuse, fusible_consumer, more_reduction_parallel;
};

// C[n, h, w, o] = sum I[n, h + r, w + s, c] * W[r, s, c, o]
Tensor conv2d(int64_t size, int64_t channels, Tensor* input, Tensor* weight) {
  *input = te::placeholder({1, size + 2, size + 2, channels}, kF32, "I");
  *weight = te::placeholder({3, 3, channels, channels}, kF32, "W");
  const te::ReduceAxis r = te::reduce_axis(3, "r"), s = te::reduce_axis(3, "s"), c = te::reduce_axis(channels, "c");
  return te::compute({1, size, size, channels},
                     [&](const auto& v) {
                       return te::sum((*input)(Expr(v[0]), v[1] + r, v[2] + s, Expr(c)) *
                                          (*weight)(Expr(r), Expr(s), Expr(c), Expr(v[3])),
                                      {r, s, c});
                     },
                     "conv", {"n", "h", "w", "o"});
}

// Ansor's conditions (OSDI 2020, section 4.1) on the operators that the paper names, for 16 cores.
TEST(SketchConditions, TruthTable) {
  const Tensor x = te::placeholder({64, 64}, kF32, "X");
  const Func relu = te::create_func("relu", {x}, {testing::relu_of(x, "Y", {"i", "j"})});

  Tensor input, weight;
  const Tensor conv = conv2d(14, 64, &input, &weight);
  const Func conv_alone = te::create_func("conv", {input, weight}, {conv});
  const Func conv_relu =
      te::create_func("conv_relu", {input, weight}, {testing::relu_of(conv, "Y", {"n", "h", "w", "o"})});

  const Tensor a = te::placeholder({128, 64}, kF32, "A"), b = te::placeholder({64, 128}, kF32, "B");
  const Tensor bias = te::placeholder({128}, kF32, "bias"), product = testing::matmul_of(a, b, "C");
  const Tensor biased =
      te::compute({128, 128}, [&](const auto& v) { return product(v) + bias(v[1]); }, "D", {"i", "j"});
  const Func matmul_bias = te::create_func("matmul_bias", {a, b, bias}, {biased});

  const te::ReduceAxis i = te::reduce_axis(64, "i"), j = te::reduce_axis(64, "j");
  const Tensor squares =
      te::compute({1}, [&](const auto&) { return te::sum(x(Expr(i), Expr(j)) * x(Expr(i), Expr(j)), {i, j}); }, "S");
  const Tensor norm = te::compute({1}, [&](const auto& v) { return call("sqrt", {squares(v)}, kF32); }, "N");
  const Func l2_norm = te::create_func("l2_norm", {x}, {norm});

  // Depthwise: the input lacks nothing, the weights lack the pixels; they are read again all the same.
  const Tensor image = te::placeholder({16, 16, 8}, kF32, "I"), taps = te::placeholder({3, 3, 8}, kF32, "W");
  const te::ReduceAxis r = te::reduce_axis(3, "r"), t = te::reduce_axis(3, "t");
  const Tensor depthwise = te::compute(
      {14, 14, 8}, [&](const auto& v) { return te::sum(image(v[0] + r, v[1] + t, v[2]) * taps(r, t, v[2]), {r, t}); },
      "O", {"h", "w", "c"});
  const Func depthwise_conv = te::create_func("depthwise", {image, taps}, {depthwise});
  const Tensor pooled =
      te::compute({14, 14, 8}, [&](const auto& v) { return te::max(image(v[0] + r, v[1] + t, v[2]), {r, t}); }, "P",
                  {"h", "w", "c"});
  const Func pool = te::create_func("pool", {image}, {pooled});

  const std::vector<Row> rows = {
      //                                                  inlinable  reuse  consumer  more reduction
      {"relu", relu, "Y", /*                           */ true, /**/ false, false, /**/ false},
      {"matmul", testing::matmul(128, 128, 64), "C", /**/ false, /**/ true, false, /**/ false},
      {"conv2d", conv_alone, "conv", /*                */ false, /**/ true, false, /**/ false},
      {"conv2d + relu: conv2d", conv_relu, "conv", /*  */ false, /**/ true, true, /* */ false},
      {"conv2d + relu: relu", conv_relu, "Y", /*       */ true, /**/ false, false, /**/ false},
      {"matmul + bias: matmul", matmul_bias, "C", /*   */ false, /**/ true, true, /* */ false},
      {"matmul + bias: bias", matmul_bias, "D", /*     */ true, /**/ false, false, /**/ false},
      {"L2 norm: the sum", l2_norm, "S", /*            */ false, /**/ false, true, /**/ true},
      {"L2 norm: the root", l2_norm, "N", /*           */ false, /**/ false, false, /**/ false},
      {"depthwise conv2d", depthwise_conv, "O", /*     */ false, /**/ true, false, /**/ false},
      {"pooling", pool, "P", /*                        */ false, /**/ false, false, /**/ false},
      {"matmul 2x512 · 512x2", testing::matmul(2, 2, 512), "C", false, true, false, /**/ true},
  };
  for (const Row& row : rows) {
    const BlockNode* block = find_block(row.func->body, row.block);
    ASSERT_TRUE(block) << row.what;
    EXPECT_EQ(is_strict_inlinable(row.func, *block), row.strict_inlinable) << row.what;
    EXPECT_EQ(has_data_reuse(row.func, *block), row.data_reuse) << row.what;
    EXPECT_EQ(has_fusible_consumer(row.func, *block), row.fusible_consumer) << row.what;
    EXPECT_EQ(has_more_reduction_parallel(row.func, *block, 16), row.more_reduction_parallel) << row.what;
  }
}

TEST(SketchConditions, StrictlyInlinableIsElementwiseInOrderWithoutChoices) {
  const Tensor x = te::placeholder({8, 8}, kF32, "X"), row = te::placeholder({8}, kF32, "R");
  const auto answer = [&](const te::ElementFn& element) {
    const Func func = te::create_func("f", {x, row}, {te::compute({8, 8}, element, "Y")});
    return is_strict_inlinable(func, *find_block(func->body, "Y"));
  };
  EXPECT_TRUE(answer([&](const auto& v) { return x(v) + row(v[1]); }));
  EXPECT_TRUE(answer([&](const auto& v) { return x(v) * float_imm(2) + float_imm(1); }));
  EXPECT_FALSE(answer([&](const auto& v) { return x(v[1], v[0]); }));                            // another order
  EXPECT_FALSE(answer([&](const auto& v) { return x(v[0], v[0]); }));                            // a diagonal
  EXPECT_FALSE(answer([&](const auto& v) { return select(lt(v[0], 4), x(v), float_imm(0)); }));  // a choice
  EXPECT_FALSE(answer([&](const auto& v) { return call("exp", {x(v)}, kF32); }));                // costly
  EXPECT_FALSE(answer([&](const auto& v) { return row(floordiv(v[0] * 8 + v[1], 8)); }));        // a gather
}

// Operands of a product are not inlined by rule: what is arithmetic, but not what only moves values, nor what a sum
// reads.
TEST(SketchConditions, OperandsOfProductsAreNotAlwaysInlined) {
  const Tensor a = te::placeholder({32, 64}, kF32, "A"), b = te::placeholder({64, 48}, kF32, "B");
  const Tensor scaled = te::compute({32, 64}, [&](const auto& v) { return a(v) * float_imm(2); }, "S");
  const Tensor copied = te::compute({32, 64}, [&](const auto& v) { return a(v); }, "S");
  const te::ReduceAxis k = te::reduce_axis(64, "k");
  const auto answer = [&](const Tensor& read, bool product) {
    const Tensor out = product ? testing::matmul_of(read, b, "C")
                               : te::compute({32}, [&](const auto& v) { return te::sum(read(v[0], k), {k}); }, "C");
    const Func func = te::create_func("f", product ? std::vector<Tensor>{a, b} : std::vector<Tensor>{a}, {out});
    const BlockNode& block = *find_block(func->body, "S");
    EXPECT_TRUE(is_strict_inlinable(func, block));
    return is_always_inlined(func, block, nullptr);
  };
  EXPECT_FALSE(answer(scaled, true));
  EXPECT_TRUE(answer(copied, true));
  EXPECT_TRUE(answer(scaled, false));
}

TEST(SketchConditions, AConsumerThatReadsElsewhereIsNotFusible) {
  const Tensor a = te::placeholder({8, 8}, kF32, "A"), b = te::placeholder({8, 8}, kF32, "B");
  const Tensor c = testing::matmul_of(a, b, "C");
  const auto answer = [&](const std::vector<Tensor>& outputs) {
    const Func func = te::create_func("f", {a, b}, outputs);
    return has_fusible_consumer(func, *find_block(func->body, "C"));
  };
  EXPECT_TRUE(answer({testing::relu_of(c, "D", {"i", "j"})}));
  EXPECT_FALSE(answer({te::compute({8, 8}, [&](const auto& v) { return c(v[1], v[0]); }, "D")}));
  EXPECT_FALSE(answer({te::compute({4, 8}, [&](const auto& v) { return c(v); }, "D")}));               // a part of it
  EXPECT_FALSE(answer({testing::matmul_of(c, b, "D")}));                                               // a reduction
  EXPECT_FALSE(answer({testing::relu_of(c, "D", {"i", "j"}), testing::relu_of(c, "E", {"i", "j"})}));  // two
}

TEST(SketchConditions, MoreReductionThanCoresCanShareInTheOutput) {
  const Func small = testing::matmul(8, 4, 512);
  const BlockNode& block = *find_block(small->body, "C");
  EXPECT_TRUE(has_more_reduction_parallel(small, block, 2));   // 32 = 16 * 2
  EXPECT_FALSE(has_more_reduction_parallel(small, block, 1));  // enough for one core
  const Func square = testing::matmul(32, 32, 512);
  EXPECT_FALSE(has_more_reduction_parallel(square, *find_block(square->body, "C"), 1000));  // more output than terms
}

}  // namespace
}  // namespace fettle
