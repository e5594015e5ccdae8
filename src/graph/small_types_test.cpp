#include "graph/small_types.h"

#include <gtest/gtest.h>

#include <cmath>

#include "graph/evaluate.h"
#include "graph/testing.h"

namespace fettle {
namespace {

constexpr DType kSmallFloats[] = {kF8E4M3FN, kF8E4M3FNUZ, kF8E5M2, kF8E5M2FNUZ, kF4E2M1};

// A Cast, run by the interpreter.
ConstantTensor cast_tensor(const ConstantTensor& x, DType to, Attrs attrs = {}) {
  Graph g("g");
  Value* input = g.add_input("x", {x.dtype, Shape(x.shape.begin(), x.shape.end())});
  attrs.set("to", onnx_number(to));
  Node* node = g.add_node(find_op("Cast"), "y", {input}, std::move(attrs));
  node->outputs[0]->type = node->op->infer(*node).value()[0];
  g.add_output("y", node->output());
  return evaluate(g, {{"x", x}}, interpreter_executor()).value().at("y");
}

ConstantTensor all_codes(DType dtype) {
  TensorBuilder codes = make_tensor(dtype, {int64_t{1} << (dtype.bits < 8 ? 4 : 8)}).value();
  for (size_t i = 0; i < codes.elems<uint8_t>().size(); ++i) codes.elems<uint8_t>()[i] = static_cast<uint8_t>(i);
  return std::move(codes).finish();
}

bool same(double a, double b) { return a == b || (std::isnan(a) && std::isnan(b)); }

TEST(SmallTypes, CodesHaveTheirValues) {
  EXPECT_EQ(small_float_value(kF8E4M3FN, 0x7e), 448);
  EXPECT_TRUE(std::isnan(small_float_value(kF8E4M3FN, 0xff)));
  EXPECT_EQ(small_float_value(kF8E4M3FNUZ, 0x7f), 240);
  EXPECT_TRUE(std::isnan(small_float_value(kF8E4M3FNUZ, 0x80)));
  EXPECT_EQ(small_float_value(kF8E5M2, 0x7b), 57344);
  EXPECT_EQ(small_float_value(kF8E5M2, 0xfc), -HUGE_VAL);
  EXPECT_EQ(small_float_value(kF8E5M2FNUZ, 0x7f), 57344);
  EXPECT_EQ(small_float_value(kF8E8M0, 0), 0x1p-127);
  EXPECT_TRUE(std::isnan(small_float_value(kF8E8M0, 0xff)));
  EXPECT_EQ(small_float_value(kF4E2M1, 0xf), -6);
  for (const DType dtype : {kF8E4M3FN, kF8E4M3FNUZ, kF8E5M2, kF8E5M2FNUZ, kF8E8M0, kF4E2M1}) {
    const ConstantTensor codes = all_codes(dtype), values = cast_tensor(codes, kF32);
    for (int64_t i = 0; i < codes.n_elems(); ++i)
      EXPECT_TRUE(same(codes.at(i), values.at(i))) << dtype.to_string() << " " << i << ": " << values.at(i);
  }
}

// What lies between two neighbours, and next to the middle, as the nearest one says.
std::vector<double> numbers_of_interest(DType dtype) {
  std::vector<double> numbers{0.0, -0.0, 1e-9, HUGE_VAL, -HUGE_VAL, 1e6, 470, 60000, 62000, 7};
  for (int code = 0; code < 255; ++code) {
    const double a = small_float_value(dtype, static_cast<uint8_t>(code));
    const double b = small_float_value(dtype, static_cast<uint8_t>(code + 1));
    if (!std::isfinite(a) || !std::isfinite(b)) continue;
    const double middle = (a + b) / 2;
    for (const double x : {a, middle, std::nextafter(static_cast<float>(middle), HUGE_VALF) + 0.0,
                           std::nextafter(static_cast<float>(middle), -HUGE_VALF) + 0.0, a + (b - a) * 0.3})
      numbers.push_back(x);
  }
  return numbers;
}

TEST(SmallTypes, CastsRoundToTheNearestAndSaturate) {
  for (const DType dtype : kSmallFloats) {
    const std::vector<double> numbers = numbers_of_interest(dtype);
    const auto n = static_cast<int64_t>(numbers.size());
    for (const DType from : {kF32, kF64}) {
      const ConstantTensor x = to_tensor(numbers, from, {n}).value(), y = cast_tensor(x, dtype);
      for (int64_t i = 0; i < n; ++i)
        EXPECT_EQ(y.elems<uint8_t>()[static_cast<size_t>(i)], small_float_code(dtype, x.at(i)))
            << dtype.to_string() << " of " << x.at(i);
    }
  }
}

// A double just above the middle, which in single precision is the middle.
TEST(SmallTypes, DoublesAreRoundedOnce) {
  const ConstantTensor x = to_tensor(std::vector<double>{1.0625 + 1e-12, 1.0625, 1.1875 - 1e-12}, kF64, {3}).value();
  const ConstantTensor y = cast_tensor(x, kF8E4M3FN);
  EXPECT_EQ((std::vector{y.at(0), y.at(1), y.at(2)}), (std::vector{1.125, 1.0, 1.125}));
}

TEST(SmallTypes, WithoutSaturationTheyOverflow) {
  const ConstantTensor x = to_tensor(std::vector<double>{464, 465, -1e6, HUGE_VAL}, kF32, {4}).value();
  const Attrs attrs{{{"saturate", int64_t{0}}}};
  const ConstantTensor a = cast_tensor(x, kF8E4M3FN, attrs), b = cast_tensor(x, kF8E5M2, attrs);
  EXPECT_EQ(a.at(0), 448);
  EXPECT_TRUE(std::isnan(a.at(1)) && std::isnan(a.at(2)) && std::isnan(a.at(3)));
  EXPECT_EQ((std::vector{b.at(2), b.at(3)}), (std::vector{-HUGE_VAL, HUGE_VAL}));
}

TEST(SmallTypes, IntegersWrap) {
  const ConstantTensor x = to_tensor(std::vector<double>{-9, -8, 7, 8, 15, 16, -1}, kI32, {7}).value();
  EXPECT_EQ(to_ints(cast_tensor(x, kI4)), (std::vector<int64_t>{7, -8, 7, -8, -1, 0, -1}));
  EXPECT_EQ(to_ints(cast_tensor(x, kU4)), (std::vector<int64_t>{7, 8, 7, 8, 15, 0, 15}));
  EXPECT_EQ(to_ints(cast_tensor(x, kI2)), (std::vector<int64_t>{-1, 0, -1, 0, -1, 0, -1}));
  EXPECT_EQ(to_ints(cast_tensor(x, kU2)), (std::vector<int64_t>{3, 0, 3, 0, 3, 0, 3}));
}

// Only what moves or converts takes them.
TEST(SmallTypes, OtherOperatorsRefuseThem) {
  Graph g("g");
  Value* x = g.add_input("x", {kF8E4M3FN, {4, 2}});
  const auto program = [&](const char* op) {
    Node* node = g.add_node(find_op(op), op, {x});
    node->outputs[0]->type = node->op->infer(*node).value()[0];
    return node_func(*node);
  };
  EXPECT_TRUE(program("Transpose"));
  const auto refused = program("Relu");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::E605);
  EXPECT_NE(refused.error().message.find("f8e4m3fn"), std::string::npos) << refused.error().message;
}

TEST(SmallTypes, NamesRoundTrip) {
  for (const DType dtype : {kI4, kU4, kI2, kU2, kF8E4M3FN, kF8E4M3FNUZ, kF8E5M2, kF8E5M2FNUZ, kF8E8M0, kF4E2M1}) {
    EXPECT_EQ(parse_dtype(dtype.to_string()).value(), dtype);
    EXPECT_EQ(element_type(onnx_number(dtype)), dtype);
    EXPECT_EQ(dtype.element_bytes(), 1);
  }
}

}  // namespace
}  // namespace fettle
