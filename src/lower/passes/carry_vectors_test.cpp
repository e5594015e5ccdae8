#include <gtest/gtest.h>

#include <fmt/format.h>

#include <vector>

#include "ir/interpret.h"
#include "ir/text.h"
#include "lower/passes/passes.h"

namespace fettle {
namespace {

constexpr int64_t kElements = 512;

// A loop over j of these stores, in a function of two buffers.
Func loop_of(const std::vector<std::string>& stores, const std::string& iterations = "9") {
  std::string text =
      fmt::format("lowered func f(A: f64[{0}] output, B: f64[{0}] output):\n  for j in {1}:\n", kElements, iterations);
  for (const std::string& store : stores) text += "    " + store + "\n";
  const Result<Func> func = parse_func(text);
  EXPECT_TRUE(func) << text << (func ? "" : func.error().to_string());
  return func ? *func : Func();
}

Func carried(const Func& func) {
  return with(func, [&](FuncNode& f) { f.body = carry_vectors(func->body); });
}

void expect_same(const Func& before, const Func& after) {
  std::vector<double> first(2 * kElements);
  for (size_t i = 0; i < first.size(); ++i) first[i] = static_cast<double>(i * 7 % 5) - 2;
  std::vector<double> second = first;
  const auto run = [](const Func& func, std::vector<double>& data) {
    const int64_t bytes = kElements * 8;
    return interpret(func, std::vector<BufferArg>{{data.data(), bytes}, {data.data() + kElements, bytes}}).has_value();
  };
  ASSERT_TRUE(run(before, first));
  ASSERT_TRUE(run(after, second));
  EXPECT_EQ(first, second);
}

bool carries(const Func& func) { return to_text(func).find("_before") != std::string::npos; }

// Two recurrences, the second of which reads what the first has stored in this iteration and in the one before.
TEST(CarryVectors, RecurrencesOfSeveralRows) {
  const Func func = loop_of({"A[ramp(j + 1, 50, 4)] = broadcast(2.0f64, 4) - A[ramp(j, 50, 4)]",
                             "B[ramp(j + 1, 50, 4)] = B[ramp(j, 50, 4)] * A[ramp(j, 50, 4)] + A[ramp(j + 1, 50, 4)]"});
  const Func made = carried(func);
  const std::string text = to_text(made);
  EXPECT_NE(
      text.find("B_now[ramp(0, 1, 4)] = B_before[ramp(0, 1, 4)] * A_before[ramp(0, 1, 4)] + A_now[ramp(0, 1, 4)]"),
      std::string::npos)
      << text;
  expect_same(func, made);
}

TEST(CarryVectors, BackwardsToo) {
  const Func func = loop_of({"A[ramp(20 - j, 50, 4)] = A[ramp(21 - j, 50, 4)] + B[ramp(j * 4, 1, 4)]"});
  EXPECT_TRUE(carries(carried(func)));
  expect_same(func, carried(func));
}

// Lanes of the next iteration lie among those of this one, or nothing is known of how they lie.
TEST(CarryVectors, WhatMayBeWrittenOtherwiseIsRead) {
  const std::vector<std::string> loops[] = {
      {"A[ramp(j + 1, 1, 4)] = A[ramp(j, 1, 4)] + broadcast(1.0f64, 4)"},
      {"A[ramp(j * 2 + 2, 1, 4)] = A[ramp(j * 2, 1, 4)] + broadcast(1.0f64, 4)"},
      {"A[ramp(j + 2, 50, 4)] = A[ramp(j, 50, 4)] + broadcast(1.0f64, 4)"},
      {"A[ramp(j + 1, 50, 4)] = A[ramp(j, 50, 4)] + broadcast(1.0f64, 4)", "A[j] = 3.0f64"},
      {"A[ramp(j + 1, 50, 4)] = A[ramp(j, 25, 4)] + broadcast(1.0f64, 4)"},
      {"A[ramp(j + 1, 50, 4) if ramp(0, 1, 4) < broadcast(3, 4)] = A[ramp(j, 50, 4)] + broadcast(1.0f64, 4)"},
      {"A[ramp(j + 1, 50, 4)] = select(j > 0, A[ramp(j, 50, 4)], broadcast(1.0f64, 4))"},
      {"A[ramp(j % 3, 50, 4)] = A[ramp(j % 3, 50, 4)] + broadcast(1.0f64, 4)"},
  };
  for (const auto& stores : loops) EXPECT_FALSE(carries(carried(loop_of(stores)))) << stores.front();
}

TEST(CarryVectors, WholeVectorsSideBySide) {
  const Func func = loop_of({"A[ramp(j * 4 + 4, 1, 4)] = A[ramp(j * 4, 1, 4)] + B[ramp(j, 1, 4)]"});
  EXPECT_TRUE(carries(carried(func)));
  expect_same(func, carried(func));
}

}  // namespace
}  // namespace fettle
