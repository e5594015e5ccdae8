#include "graph/passes/testing.h"

namespace fettle {
namespace {

// Graphs between DequantizeLinear and QuantizeLinear. Scales are powers of two and sums small, so that floats are
// exact, and results must be equal with the pass and without it.
class LowerQuantized : public PassFixture {
 protected:
  Value* byte(int64_t value, DType dtype) { return g.add_constant("zero", scalar(static_cast<double>(value), dtype)); }
  Value* bytes(std::vector<int64_t> shape, DType dtype, int64_t least, int64_t greatest) {
    TensorBuilder t = make_tensor(dtype, std::move(shape)).value();
    for (uint8_t& x : t.elems<uint8_t>())
      x = static_cast<uint8_t>(least + static_cast<int64_t>(draws_.below(static_cast<uint64_t>(greatest - least + 1))));
    return g.add_constant("w", std::move(t).finish());
  }
  Value* list(std::vector<double> values, DType dtype) {
    const auto n = static_cast<int64_t>(values.size());
    return g.add_constant("list", to_tensor(values, dtype, {n}).value());
  }
  // The values over and over, n in all.
  Value* repeated(const std::vector<double>& values, size_t n, DType dtype) {
    std::vector<double> all;
    for (size_t i = 0; i < n; ++i) all.push_back(values[i % values.size()]);
    return list(std::move(all), dtype);
  }
  Value* dequantize(Value* x, double scale, int64_t zero, DType dtype) {
    return op("DequantizeLinear", {x, number(scale), byte(zero, dtype)});
  }
  Value* quantize(Value* x, double scale, int64_t zero, DType dtype) {
    return op("QuantizeLinear", {x, number(scale), byte(zero, dtype)});
  }

  void compare(const std::string& what) { compare_without("lower_quantized", what); }
  // One form: u8 by i8 without zero points.
  void expect_plain() const {
    for (const Node* node : g.nodes()) {
      if (node->op->name != "MatMulInteger" && node->op->name != "ConvInteger") continue;
      EXPECT_TRUE(node->input(0)->dtype() == kU8 && node->input(1)->dtype() == kI8) << to_text(g);
      EXPECT_EQ(node->inputs.size(), 2u);
    }
  }

 private:
  RandomStream draws_{3};
};

TEST_F(LowerQuantized, MatMul) {
  for (const DType a : {kU8, kI8})
    for (const DType b : {kU8, kI8}) {
      g = Graph("g");
      Value* x = quantize(input("x", {2, 5, 24}), 0.25, 3, a);
      Value* w = bytes({24, 12}, b, b == kU8 ? 0 : -128, b == kU8 ? 255 : 127);
      Value* y = op("MatMul", {dequantize(x, 0.25, 3, a), dequantize(w, 0.5, b == kU8 ? 128 : 0, b)});
      g.add_output("y", quantize(op("Relu", {y}), 64, 5, a));
      compare("MatMulInteger 1");
      expect_plain();
      EXPECT_EQ(histogram(g).find("DequantizeLinear"), std::string::npos) << to_text(g);
    }
}

// Weights of each column, whose zero points do not fit bytes that are signed.
TEST_F(LowerQuantized, ZeroPointsOfBoth) {
  Value* x = quantize(input("x", {5, 24}), 0.25, 100, kU8);
  Value* w = bytes({24, 9}, kU8, 0, 255);
  Value* dw = op("DequantizeLinear",
                 {w, list({0.5, 1, 2, 1, 1, 1, 1, 1, 4}, kF32), list({0, 7, 255, 1, 2, 3, 4, 5, 128}, kU8)}, axis(1));
  g.add_output("y", op("MatMul", {dequantize(x, 0.25, 100, kU8), dw}));
  compare("MatMulInteger 1");
  expect_plain();
}

TEST_F(LowerQuantized, GemmAndBias) {
  Value* x = quantize(input("x", {5, 24}), 0.25, 128, kU8);
  const auto weights = [&](std::vector<double> scales) { return repeated(scales, 12, kF32); };
  Value* w = op("DequantizeLinear", {bytes({12, 24}, kI8, -128, 127), weights({1, 2, 4, 8})}, axis(0));
  Value* bias = op("DequantizeLinear", {repeated({1, -2, 3000, -4, 5}, 12, kI32), weights({0.25, 0.5, 1, 2})}, axis(0));
  Value* plain_bias = weights({1, 2, 3, 4, 5, 6, 7, 8});
  for (Value* b : {bias, plain_bias}) {
    Value* y = op("Gemm", {dequantize(x, 0.25, 128, kU8), w, b}, {{"transB", int64_t{1}}});
    g.add_output(b == bias ? "y" : "z", quantize(y, 128, 9, kU8));
  }
  compare("MatMulInteger 1");  // the same for both
  expect_plain();
}

// The second operand of a product of activations is made signed, where it is quantised.
TEST_F(LowerQuantized, ProductOfActivations) {
  Value* q = quantize(input("q", {2, 5, 24}), 0.25, 3, kU8);
  Value* k = quantize(input("k", {2, 10, 24}), 0.5, 120, kU8);
  Value* t = op("Transpose", {dequantize(k, 0.5, 120, kU8)}, ints("perm", {0, 2, 1}));
  t = dequantize(quantize(t, 0.5, 120, kU8), 0.5, 120, kU8);
  g.add_output("y", op("MatMul", {dequantize(q, 0.25, 3, kU8), t}));
  compare("MatMulInteger 1");
  expect_plain();
  EXPECT_NE(histogram(g).find("QuantizeLinear 2"), std::string::npos) << to_text(g);
}

TEST_F(LowerQuantized, Convolution) {
  for (const DType a : {kU8, kI8}) {
    g = Graph("g");
    Value* x = quantize(input("x", {2, 4, 5, 6}), 0.25, 20, a);
    const auto scales = [&](double by) { return repeated({by, 2 * by, by / 2, 4 * by}, 12, kF32); };
    Value* w = op("DequantizeLinear", {bytes({12, 4, 3, 3}, kI8, -128, 127), scales(1)}, axis(0));
    Value* bias = op("DequantizeLinear", {repeated({1, -2, 3000, -4}, 12, kI32), scales(0.25)}, axis(0));
    Value* y = op("Conv", {dequantize(x, 0.25, 20, a), w, bias}, ints("pads", {1, 1, 1, 1}));
    Value* residual = quantize(input("r", {2, 12, 5, 6}), 0.5, 1, kU8);
    y = op("Relu", {op("Add", {y, dequantize(residual, 0.5, 1, kU8)})});
    g.add_output("y", quantize(y, 16, 5, a));
    compare("ConvInteger 1");
    expect_plain();
  }
}

// Three channels become four, of which the last has no weight.
TEST_F(LowerQuantized, ChannelsAreFilledUp) {
  for (const DType a : {kU8, kI8}) {
    g = Graph("g");
    Value* x = quantize(input("x", {2, 3, 5, 6}), 0.25, 20, a);
    Value* w = dequantize(bytes({12, 3, 3, 3}, kI8, -128, 127), 0.5, 0, kI8);
    g.add_output("y", op("Conv", {dequantize(x, 0.25, 20, a), w}, ints("pads", {1, 0, 2, 1})));
    compare("Pad 1");
    expect_plain();
  }
}

// What is rounded to steps within one kernel does not become bytes.
TEST_F(LowerQuantized, StepsWithinAKernelStayFloats) {
  Value* x = quantize(input("x", {5, 24}), 0.25, 3, kU8);
  Value* w = dequantize(bytes({24, 12}, kI8, -128, 127), 0.5, 0, kI8);
  Value* y = op("MatMul", {dequantize(x, 0.25, 3, kU8), w});
  y = dequantize(quantize(y, 8, 100, kU8), 8, 100, kU8);
  y = op("Add", {y, repeated({1, -2, 300}, 12, kF32)});
  g.add_output("y", quantize(y, 16, 90, kU8));
  compare("Clip 1");
  EXPECT_EQ(histogram(g).find("DequantizeLinear"), std::string::npos) << to_text(g);
  // Nor does what follows divide by the next scale.
  for (const Node* node : g.nodes())
    if (node->op->name == "QuantizeLinear" && node->input(0)->producer) {
      EXPECT_EQ(node->input(1)->constant->at(0), 1) << to_text(g);
    }
}

// No instruction multiplies what has few terms, or few columns.
TEST_F(LowerQuantized, SmallProductsStayOnesOfFloats) {
  Value* x = quantize(input("x", {5, 24}), 0.25, 3, kU8);
  Value* w = dequantize(bytes({24, 2}, kI8, -128, 127), 0.5, 0, kI8);
  g.add_output("y", op("MatMul", {dequantize(x, 0.25, 3, kU8), w}));
  compare("MatMul 1");
}

// Weights that are no i8 without their zero points would need the sums of windows.
TEST_F(LowerQuantized, WindowsOfUnsignedWeightsStayOnesOfFloats) {
  Value* x = quantize(input("x", {1, 4, 5, 6}), 0.25, 20, kU8);
  Value* w = dequantize(bytes({12, 4, 3, 3}, kU8, 0, 255), 0.5, 3, kU8);
  g.add_output("y", op("Conv", {dequantize(x, 0.25, 20, kU8), w}));
  Value* fits = dequantize(bytes({12, 4, 3, 3}, kU8, 0, 255), 0.5, 128, kU8);
  g.add_output("z", op("Conv", {dequantize(x, 0.25, 20, kU8), fits}));
  compare("Conv 1");
  expect_plain();
}

// Sums that i32 may not hold.
TEST_F(LowerQuantized, LongProductsStayOnesOfFloats) {
  Value* x = quantize(input("x", {1, 20'000}), 0.25, 3, kU8);
  Value* w = dequantize(bytes({20'000, 9}, kI8, 0, 1), 0.5, 0, kI8);
  g.add_output("y", op("MatMul", {dequantize(x, 0.25, 3, kU8), w}));
  g.sort();
  ASSERT_TRUE(optimize(g));
  EXPECT_NE(histogram(g).find("MatMul 1"), std::string::npos) << to_text(g);
}

// Weights of one scale a column, transposed.
TEST_F(LowerQuantized, TransposedWeights) {
  Value* x = quantize(input("x", {5, 24}), 0.25, 3, kU8);
  Value* w = op("DequantizeLinear", {bytes({12, 24}, kI8, -128, 127), repeated({1, 2}, 12, kF32)}, axis(0));
  g.add_output("y", op("MatMul", {dequantize(x, 0.25, 3, kU8), op("Transpose", {w}, ints("perm", {1, 0}))}));
  compare("MatMulInteger 1");
  expect_plain();
}

TEST_F(LowerQuantized, OperatorsOfIntegers) {
  Value *x = input("x", {5, 24}, kU8), *s = input("s", {5, 24}, kI8), *zero = input("zero", {}, kU8);
  Value* w = bytes({24, 3}, kI8, -128, 127);
  g.add_output("a", op("MatMulInteger", {x, w, zero}));
  g.add_output("b", op("MatMulInteger", {s, w, byte(-3, kI8), list({1, 0, -128}, kI8)}));
  Value* image = input("image", {1, 2, 5, 5}, kU8);
  g.add_output("c", op("ConvInteger", {image, bytes({3, 2, 3, 3}, kU8, 100, 200), byte(7, kU8), byte(150, kU8)},
                       ints("pads", {1, 0, 1, 2})));
  compare("MatMulInteger 2");
  expect_plain();
}

TEST_F(LowerQuantized, BytesAreMoved) {
  Value* x = quantize(input("x", {2, 4, 6, 6}), 0.25, 3, kU8);
  Value* y = op("MaxPool", {dequantize(x, 0.25, 3, kU8)}, ints("kernel_shape", {2, 2}));
  y = dequantize(quantize(y, 0.25, 3, kU8), 0.25, 3, kU8);
  Value* both = op("Concat", {y, y}, axis(1));
  both = op("Transpose", {both}, ints("perm", {0, 2, 3, 1}));
  g.add_output("y", quantize(both, 0.25, 3, kU8));
  compare("MaxPool 1");
  EXPECT_EQ(histogram(g).find("DequantizeLinear"), std::string::npos) << to_text(g);
  for (const Node* node : g.nodes()) EXPECT_EQ(node->output()->dtype(), kU8) << to_text(g);
}

// Scales of inputs stay the model's: only what products made is multiplied by the inverse.
TEST_F(LowerQuantized, OthersAreDividedByTheirScale) {
  g.add_output("y",
               quantize(op("Neg", {dequantize(quantize(input("x", {99}), 0.3, 3, kU8), 0.3, 3, kU8)}), 0.7, 3, kU8));
  compare("QuantizeLinear 2");
}

}  // namespace
}  // namespace fettle
