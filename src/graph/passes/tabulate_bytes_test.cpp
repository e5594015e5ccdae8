#include "graph/passes/testing.h"

namespace fettle {
namespace {

// Of graphs between DequantizeLinear and QuantizeLinear. A table has what the same nodes give for each byte, so results
// must be equal with the pass and without it.
class TabulateBytes : public PassFixture {
 protected:
  Value* byte(int64_t value, DType dtype) { return g.add_constant("zero", scalar(static_cast<double>(value), dtype)); }
  Value* floats(Value* x, DType dtype, double scale = 0.125, int64_t zero = 3) {
    return op("DequantizeLinear", {x, number(scale), byte(zero, dtype)});
  }
  Value* bytes(Value* x, DType dtype, double scale = 0.0625, int64_t zero = 5) {
    return op("QuantizeLinear", {x, number(scale), byte(zero, dtype)});
  }
  void compare(const std::string& what) { compare_without("tabulate_bytes", what); }
};

TEST_F(TabulateBytes, AFunctionOfAByte) {
  for (const DType from : {kU8, kI8})
    for (const DType to : {kU8, kI8}) {
      g = Graph("g");
      g.add_output("y", bytes(op("Tanh", {floats(input("x", {2, 30, 40}, from), from)}), to));
      compare("ByteLookup 1");
      EXPECT_EQ(histogram(g).find("Tanh"), std::string::npos) << to_text(g);
    }
}

// Gelu as exporters write it, quantised after each node; one of its constants is quantised, too.
TEST_F(TabulateBytes, BranchesThatMeetAgain) {
  Value* x = floats(input("x", {8, 256}, kU8), kU8);
  const auto again = [&](Value* y) { return floats(bytes(y, kU8), kU8); };
  Value* erf = again(op("Erf", {op("Div", {x, number(1.4142135)})}));
  Value* one = floats(g.add_constant("one", scalar(19, kU8)), kU8, 0.0625);
  g.add_output("y", bytes(op("Mul", {again(op("Mul", {x, op("Add", {erf, one})})), number(0.5)}), kU8));
  compare("ByteLookup 1");
  EXPECT_EQ(histogram(g).find("Quantize"), std::string::npos) << to_text(g);
}

// What the middle of a function is needed for stays.
TEST_F(TabulateBytes, AByteBetweenThatOthersRead) {
  Value* x = input("x", {64, 32}, kU8);
  Value* between = bytes(op("Sigmoid", {floats(x, kU8)}), kU8);
  g.add_output("between", between);
  g.add_output("y", bytes(op("Exp", {floats(between, kU8)}), kU8));
  compare("ByteLookup 2");
}

TEST_F(TabulateBytes, NotOfTwoTensorsNorOfLittleWork) {
  const auto stays = [&](Value* y) {
    g.add_output("y", y);
    ASSERT_TRUE(optimize(g, {}));
    EXPECT_EQ(histogram(g).find("ByteLookup"), std::string::npos) << to_text(g);
  };
  const Shape shape = {64, 32};
  stays(bytes(op("Mul", {op("Sigmoid", {floats(input("x", shape, kU8), kU8)}), floats(input("y", shape, kU8), kU8)}),
              kU8));
  g = Graph("g");
  stays(bytes(floats(input("x", shape, kU8), kU8), kI8));
  g = Graph("g");  // as many numbers as a table has
  stays(bytes(op("Tanh", {floats(input("x", {16, 16}, kU8), kU8)}), kU8));
  g = Graph("g");  // by channel
  Value* scales = g.add_constant("scales", to_tensor(std::vector<double>{0.5, 0.25, 1, 2}, kF32, {4}).value());
  stays(bytes(op("Tanh", {op("DequantizeLinear", {input("x", {64, 4, 32}, kU8), scales}, axis(1))}), kU8));
}

}  // namespace
}  // namespace fettle
