#include <gtest/gtest.h>

#include <fmt/format.h>

#include <vector>

#include "ir/interpret.h"
#include "ir/text.h"
#include "lower/passes/passes.h"

namespace fettle {
namespace {

constexpr int64_t kElements = 1024;

// A loop over j of these stores, in a function of three buffers.
Func loop_of(const std::vector<std::string>& stores, int iterations, const std::string& dtype = "f64") {
  std::string text =
      fmt::format("lowered func f(A: {0}[{1}] output, B: {0}[{1}] output, C: {0}[{1}]):\n  for j in 1 +: {2}:\n", dtype,
                  kElements, iterations);
  for (const std::string& store : stores) text += "    " + store + "\n";
  const Result<Func> func = parse_func(text);
  EXPECT_TRUE(func) << text << (func ? "" : func.error().to_string());
  return func ? *func : Func();
}

Func transposed(const Func& func) {
  return with(func, [&](FuncNode& f) { f.body = transpose_turns(func->body); });
}

template <class T>
void expect_same(const Func& before, const Func& after) {
  std::vector<T> first(3 * kElements);
  for (size_t i = 0; i < first.size(); ++i) first[i] = static_cast<T>(i * 7 % 13) - 2;
  std::vector<T> second = first;
  const auto run = [](const Func& func, std::vector<T>& data) {
    const int64_t bytes = kElements * static_cast<int64_t>(sizeof(T));
    std::vector<BufferArg> args;
    for (int64_t i = 0; i < 3; ++i) args.push_back({data.data() + i * kElements, bytes});
    return interpret(func, args).has_value();
  };
  ASSERT_TRUE(run(before, first));
  ASSERT_TRUE(run(after, second));
  EXPECT_EQ(first, second);
}

int count(const std::string& text, const std::string& what) {
  int n = 0;
  for (size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++n;
  return n;
}

// Four turns at a time, and three that are left.
TEST(TransposeTurns, OfWhatIsReadAndStored) {
  const Func func = loop_of({"A[ramp(j, 50, 4)] = C[ramp(j, 50, 4)] * C[ramp(j * 4, 1, 4)]"}, 15);
  const Func made = transposed(func);
  const std::string text = to_text(made);
  EXPECT_NE(text.find("C[ramp(1 + j_0 * 4 + 50, 1, 4)]"), std::string::npos) << text;
  EXPECT_NE(text.find("for j in 13 +: 3"), std::string::npos) << text;
  EXPECT_EQ(count(text, "C_tile: "), 1) << "what goes along memory already is no tile";
  expect_same<double>(func, made);
}

// Code generators take a loop of one iteration for none, and know its variable everywhere.
TEST(TransposeTurns, OneTurnThatIsLeftIsNoLoop) {
  const Func func = loop_of({"A[ramp(j, 50, 4)] = C[ramp(j, 50, 4)]"}, 13);
  EXPECT_EQ(count(to_text(transposed(func)), "for j in"), 0);
  expect_same<double>(func, transposed(func));
}

TEST(TransposeTurns, DownwardsAndOfOtherTypes) {
  const Func func = loop_of({"A[ramp(100 - j, 90, 8)] = C[ramp(j, 100, 8)] + C[ramp(80 - j, 101, 8)]"}, 40, "f32");
  EXPECT_EQ(count(to_text(transposed(func)), "allocate "), 12) << "four buffers for each tile";
  expect_same<float>(func, transposed(func));
}

// Neighbours in the lanes' dimension are added up before they are transposed, once.
TEST(TransposeTurns, ATileIsWorkedOutAlongMemory) {
  const Func func = loop_of({"B[ramp(j * 4, 1, 4)] = C[ramp(j, 50, 4)] * broadcast(A[0], 4) - C[ramp(j + 50, 50, 4)] + "
                             "C[ramp(j + 100, 50, 4)]"},
                            16);
  const std::string text = to_text(transposed(func));
  EXPECT_EQ(count(text, "C_tile: "), 1) << text;
  EXPECT_EQ(count(text, "for j in"), 0) << "nothing is left";
  expect_same<double>(func, transposed(func));
}

TEST(TransposeTurns, WhatMayMeetStaysInOrder) {
  const std::vector<std::string> loops[] = {
      {"A[ramp(j, 50, 4)] = A[ramp(j + 1, 50, 4)]"},  // reads what is stored
      {"A[ramp(j, 50, 4)] = broadcast(1.0f64, 4)", "A[ramp(j + 1, 50, 4)] = broadcast(2.0f64, 4)"},  // stored twice
      {"A[ramp(j, 3, 4)] = broadcast(C[j], 4)"},  // turns meet other lanes
      {"A[ramp(j, 50, 3)] = broadcast(C[j], 3)"},
      {"A[ramp(j * 2, 50, 4)] = broadcast(C[j], 4)"},
      {"A[ramp(j % 7, 50, 4)] = broadcast(C[j], 4)"},
      {"B[ramp(j * 4, 1, 4)] = select(j < 9, C[ramp(j, 50, 4)], broadcast(0.0f64, 4))"},  // perhaps not read
      {"B[ramp(j * 4, 1, 4)] = C[ramp(j, 50, 4) if ramp(0, 1, 4) < broadcast(j, 4)]"},
      {"B[ramp(j * 4, 1, 4)] = C[ramp(j, 50, 4)]", "for k in 2: B[k] = 1.0f64"},
  };
  for (const auto& stores : loops) {
    const Func func = loop_of(stores, 15);
    EXPECT_EQ(count(to_text(transposed(func)), "_tile"), 0) << stores.front();
  }
  EXPECT_EQ(count(to_text(transposed(loop_of({"A[ramp(j, 50, 4)] = C[ramp(j, 50, 4)]"}, 3))), "_tile"), 0);
}

// Of an open number of turns.
TEST(TransposeTurns, OfRowsOfAnyLength) {
  const Result<Func> func = parse_func(R"(lowered func f(A: f64[1024] output, B: f64[1024] output, C: f64[1024]):
  for i in 9:
    for j in i:
      A[ramp(j + i, 100, 4)] = C[ramp(j, 50, 4)]
)");
  ASSERT_TRUE(func);
  EXPECT_GT(count(to_text(transposed(*func)), "_tile"), 0);
  expect_same<double>(*func, transposed(*func));
}

}  // namespace
}  // namespace fettle
