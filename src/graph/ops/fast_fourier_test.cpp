// Fourier transforms of many numbers beside sums of doubles.

#include "graph/ops/fast_fourier.h"

#include <gtest/gtest.h>

#include <cmath>
#include <complex>

#include "graph/evaluate.h"
#include "graph/op.h"
#include "graph/passes/pipeline.h"

namespace fettle {
namespace {

using Numbers = std::vector<std::complex<double>>;

// Numbers that repeat after more than any n.
Numbers numbers(int64_t count, bool is_real) {
  Numbers made;
  for (int64_t i = 0; i < count; ++i)
    made.emplace_back(static_cast<double>(i * i % 23) / 11 - 1, is_real ? 0 : static_cast<double>(i * 7 % 29) / 14 - 1);
  return made;
}

Numbers summed(const Numbers& x, bool inverse) {
  const auto n = static_cast<int64_t>(x.size());
  Numbers made;
  for (int64_t k = 0; k < n; ++k) {
    std::complex<double> sum = 0;
    for (int64_t j = 0; j < n; ++j)
      sum += x[static_cast<size_t>(j)] *
             std::polar(1.0, (inverse ? 2 : -2) * M_PI * static_cast<double>(j * k % n) / static_cast<double>(n));
    made.push_back(inverse ? sum / static_cast<double>(n) : sum);
  }
  return made;
}

struct Case {
  int64_t parts;
  bool inverse = false, one_sided = false;
};
// What DFT makes of [1, given.size(), parts], as complex numbers.
Numbers transformed(const Numbers& given, int64_t n, const Case& how) {
  Graph graph("g");
  const auto extent = static_cast<int64_t>(given.size());
  Value* x = graph.add_input("x", {kF64, {1, extent, how.parts}});
  Value* length = graph.add_constant("n", reshaped(int_list(std::vector<int64_t>{n}), {}));
  Attrs attrs{{"inverse", int64_t{how.inverse}}, {"onesided", int64_t{how.one_sided}}};
  graph.add_output("y", graph.add_node(find_op("DFT"), "dft", {x, length}, attrs)->output());
  const auto optimised = optimize(graph);
  EXPECT_TRUE(optimised) << (optimised ? "" : optimised.error().to_string());
  std::vector<double> flat;
  for (const auto& number : given) {
    flat.push_back(number.real());
    if (how.parts == 2) flat.push_back(number.imag());
  }
  const auto results = evaluate(graph, {{"x", *to_tensor(flat, kF64, {1, extent, how.parts})}}, interpreter_executor());
  EXPECT_TRUE(results) << (results ? "" : results.error().to_string());
  const ConstantTensor& y = results->at("y");
  const std::vector<double> values = to_doubles(y);
  const int64_t made_parts = y.shape.back();
  Numbers made;
  for (size_t i = 0; i < values.size(); i += static_cast<size_t>(made_parts))
    made.emplace_back(values[i], made_parts == 2 ? values[i + 1] : 0);
  return made;
}

void expect_near(const Numbers& actual, const Numbers& expected, int64_t n) {
  ASSERT_EQ(actual.size(), expected.size()) << n;
  for (size_t i = 0; i < actual.size(); ++i) ASSERT_LT(std::abs(actual[i] - expected[i]), 1e-9) << n << " at " << i;
}

// 521 is prime, 1042 is twice that, 600 has many factors.
constexpr int64_t kLengths[] = {ops::kMostDirect + 9, 600, 1042};

TEST(FastFourier, OfComplexNumbers) {
  for (const int64_t n : kLengths)
    for (const bool inverse : {false, true}) {
      const Numbers x = numbers(n, false);
      expect_near(transformed(x, n, {2, inverse}), summed(x, inverse), n);
    }
}

TEST(FastFourier, OfRealNumbersHalfTheSpectrum) {
  for (const int64_t n : {600, 1041}) {
    const Numbers x = numbers(n, true);
    Numbers expected = summed(x, false);
    expected.resize(static_cast<size_t>(n / 2 + 1));
    expect_near(transformed(x, n, {1, false, true}), expected, n);
  }
}

TEST(FastFourier, FromHalfASpectrum) {
  for (const int64_t n : {600, 1041}) {
    const Numbers x = numbers(n, true);
    Numbers half = summed(x, false);
    half.resize(static_cast<size_t>(n / 2 + 1));
    expect_near(transformed(half, n, {2, true, true}), x, n);
  }
}

TEST(FastFourier, TooManyNumbersAreRefused) {
  Graph graph("g");
  Value* x = graph.add_input("x", {kF32, {1, 2 * ops::kMostTransformed, 1}});
  graph.add_output("y", graph.add_node(find_op("DFT"), "dft", {x})->output());
  EXPECT_EQ(optimize(graph).error().code, ErrorCode::E608);
}

}  // namespace
}  // namespace fettle
