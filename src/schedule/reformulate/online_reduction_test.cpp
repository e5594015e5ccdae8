#include <cmath>

#include "schedule/primitives/reformulate.h"
#include "schedule/testing.h"

namespace fettle {
namespace {

using testing::schedule_from;

// A softmax of rows; the sum reads `added`, the result is `result`.
std::string softmax(const std::string& added = "E[vs, vt]", const std::string& result = "E[vo, vp] / S[vo]",
                    const std::string& maximum = "max(M[vi], A[vi, vk])") {
  const auto reads = [](const std::string& value, std::vector<std::string> regions) {
    std::string list;
    for (const std::string& region : regions)
      if (value.find(region.substr(0, 2)) != std::string::npos) list += (list.empty() ? "" : ", ") + region;
    return list;
  };
  return R"(
func softmax(A: f32[3, 7], B: f32[3, 7] output):
  alloc M: f32[3]
  alloc E: f32[3, 7]
  alloc S: f32[3]
  for i in 3:
    for k in 7:
      block M(vi: spatial[3] = i, vk: reduce[7] = k):
        reads A[vi, vk]
        writes M[vi]
        init:
          M[vi] = -inf
        M[vi] = )" +
         maximum +
         R"(
  for e in 3:
    for f in 7:
      block E(ve: spatial[3] = e, vf: spatial[7] = f):
        reads A[ve, vf], M[ve]
        writes E[ve, vf]
        E[ve, vf] = exp(A[ve, vf] - M[ve])
  for s in 3:
    for t in 7:
      block S(vs: spatial[3] = s, vt: reduce[7] = t):
        reads )" +
         reads(added, {"E[0 +: 3, 0 +: 7]", "A[0 +: 3, 0 +: 7]", "M[0 +: 3]"}) + R"(
        writes S[vs]
        init:
          S[vs] = 0.0
        S[vs] = S[vs] + )" +
         added + R"(
  for o in 3:
    for p in 7:
      block B(vo: spatial[3] = o, vp: spatial[7] = p):
        reads )" +
         reads(result, {"E[vo, vp]", "S[vo]", "A[vo, vp]", "M[vo]"}) + R"(
        writes B[vo, vp]
        B[vo, vp] = )" +
         result + "\n";
}

std::vector<float> run(const Func& func, std::vector<float> input) {
  std::vector<float> output(21, -1.0f);
  std::vector<BufferArg> args = {{input.data(), 84}, {output.data(), 84}};
  const auto done = interpret(func, args);
  EXPECT_TRUE(done) << (done ? "" : done.error().to_string());
  return output;
}

// Within the stated bound: 4 * 7 units of the sum, and those of the division.
void expect_close(const Func& before, const Func& after, const std::vector<float>& input) {
  const std::vector<float> x = run(before, input), y = run(after, input);
  for (size_t i = 0; i < x.size(); ++i) {
    if (std::isnan(x[i]) || std::isnan(y[i]))
      EXPECT_EQ(std::isnan(x[i]), std::isnan(y[i])) << i;
    else
      EXPECT_NEAR(x[i], y[i], 32 * 1.2e-7f * std::abs(x[i])) << i;
  }
}

std::vector<float> some_input() {
  std::vector<float> input(21);
  for (size_t i = 0; i < input.size(); ++i) input[i] = static_cast<float>((i * 37) % 23) * 0.7f - 6.0f;
  return input;
}

TEST(OnlineReduction, SoftmaxInOnePass) {
  auto s = schedule_from(softmax());
  auto blocks = reformulate(s, {s.block("S"), "online_reduction", {}});
  ASSERT_OK(blocks);
  ASSERT_OK(check_well_formed(s.func()));
  EXPECT_NE(find_block(s.func()->body, "E"), nullptr);  // the result reads it
  EXPECT_GOLDEN(s.func());
  EXPECT_REPLAYS(s);
  expect_close(s.original, s.func(), some_input());
}

TEST(OnlineReduction, WhatOnlyTheSumReadGoes) {
  auto s = schedule_from(softmax("E[vs, vt]", "exp(A[vo, vp] - M[vo]) / S[vo]"));
  ASSERT_OK(reformulate(s, {s.block("S"), "online_reduction", {}}));
  EXPECT_EQ(find_block(s.func()->body, "E"), nullptr);
  EXPECT_EQ(s.func().root().allocations.size(), 2u);
  EXPECT_GOLDEN(s.func());
  expect_close(s.original, s.func(), some_input());
}

TEST(OnlineReduction, TheExponentialMayStandInTheSum) {
  auto s = schedule_from(softmax("exp(A[vs, vt] - M[vs])"));
  ASSERT_OK(reformulate(s, {s.block("S"), "online_reduction", {}}));
  EXPECT_REPLAYS(s);
  expect_close(s.original, s.func(), some_input());
}

TEST(OnlineReduction, MaskedElementsAreNothing) {
  auto s = schedule_from(softmax());
  ASSERT_OK(reformulate(s, {s.block("S"), "online_reduction", {}}));
  std::vector<float> input = some_input();
  for (size_t i : {0, 1, 6, 9, 20}) input[i] = -INFINITY;
  expect_close(s.original, s.func(), input);
}

TEST(OnlineReduction, AnOrderedMaximumPassesNaNOnInTheSum) {
  for (const char* added : {"E[vs, vt]", "exp(A[vs, vt] - M[vs])"}) {
    auto s = schedule_from(softmax(added, "E[vo, vp] / S[vo]", "ordered_max(A[vi, vk], M[vi])"));
    ASSERT_OK(reformulate(s, {s.block("S"), "online_reduction", {}}));
    EXPECT_NE(to_text(s.func()).find("ordered_max(A[vi, vk], M[vi])"), std::string::npos);
    EXPECT_REPLAYS(s);
    std::vector<float> input = some_input();
    expect_close(s.original, s.func(), input);
    for (const size_t place : {7, 10, 13}) {  // first, in the middle, last
      std::vector<float> with_nan = input;
      with_nan[place] = NAN;
      with_nan[0] = -INFINITY;
      expect_close(s.original, s.func(), with_nan);
      for (size_t i = 0; i < 21; ++i) EXPECT_EQ(std::isnan(run(s.func(), with_nan)[i]), i / 7 == 1) << i;
    }
    for (size_t i = 0; i < 21; ++i) input[i] = i < 7 ? NAN : -INFINITY;
    input[16] = NAN;
    for (const float y : run(s.func(), input)) EXPECT_TRUE(std::isnan(y));
  }
}

TEST(OnlineReduction, StatesItsBound) {
  auto s = schedule_from(softmax());
  ASSERT_OK(reformulate(s, {s.block("S"), "online_reduction", {}}));
  EXPECT_EQ(std::get<double>(*s.func()->annotations.find("error_bound")), 28.0);
}

TEST(OnlineReduction, E228WhereThePatternDoesNotFit) {
  for (const char* added : {"A[vs, vt]", "exp(A[vs, vt])", "exp(A[vs, 6 - vt] - M[vs])", "exp(M[vs] - A[vs, vt])",
                            "exp(A[vs, vt] - M[2 - vs])"}) {
    auto s = schedule_from(softmax(added));
    EXPECT_ERROR(reformulate(s, {s.block("S"), "online_reduction", {}}), E228);
  }
  auto s = schedule_from(softmax());
  EXPECT_ERROR(reformulate(s, {s.block("M"), "online_reduction", {}}), E228);
  EXPECT_ERROR(reformulate(s, {s.block("S"), "online_reduction", {1}}), E228);
}

// Attention of 2 heads, 3 queries, 7 keys, as it is written down; `weight` is what a value is weighed with.
std::string attention(const std::string& weight = "P[h, i, j]", const std::string& x = "X[h, i, j]") {
  std::string text =
      "func attention(Q: f32[2, 3, 4], K: f32[2, 7, 4], V: f32[2, 7, 5], O: f32[2, 3, 5] output):\n"
      "  alloc X: f32[2, 3, 7]\n  alloc M: f32[2, 3]\n  alloc E: f32[2, 3, 7]\n  alloc S: f32[2, 3]\n";
  if (weight.starts_with("P")) text += "  alloc P: f32[2, 3, 7]\n";
  // Names of iterators are those of their loops, with a v before them.
  const auto add = [&](const std::string& name, const std::vector<std::string>& iters, std::string written,
                       std::string value, const std::string& init) {
    std::string indent = "  ", list;
    for (const std::string& iter : iters) {
      const std::string var = iter.substr(0, 1), extent = iter.substr(2), kind = iter[1] == '+' ? "reduce" : "spatial";
      text += indent + "for " + name + var + " in " + extent + ":\n";
      indent += "  ";
      list += (list.empty() ? "" : ", ") + var + ": " + kind + "[" + extent + "] = " + name + var;
    }
    std::string reads;
    for (const char* region :
         {"Q[0 +: 2, 0 +: 3, 0 +: 4]", "K[0 +: 2, 0 +: 7, 0 +: 4]", "X[0 +: 2, 0 +: 3, 0 +: 7]", "M[0 +: 2, 0 +: 3]",
          "E[0 +: 2, 0 +: 3, 0 +: 7]", "S[0 +: 2, 0 +: 3]", "P[0 +: 2, 0 +: 3, 0 +: 7]", "V[0 +: 2, 0 +: 7, 0 +: 5]"})
      if (value.find(std::string(region, 2)) != std::string::npos && region[0] != name[0])
        reads += (reads.empty() ? "" : ", ") + std::string(region);
    text += indent + "block " + name + "(" + list + "):\n";
    indent += "  ";
    text += indent + "reads " + reads + "\n" + indent + "writes " + written + "\n";
    if (!init.empty()) text += indent + "init:\n" + indent + "  " + written + " = " + init + "\n";
    text += indent + written + " = " + value + "\n";
  };
  add("X", {"h:2", "i:3", "j:7", "d+4"}, "X[h, i, j]", "X[h, i, j] + Q[h, i, d] * K[h, j, d]", "0.0");
  add("M", {"h:2", "i:3", "j+7"}, "M[h, i]", "max(M[h, i], " + x + ")", "-inf");
  add("E", {"h:2", "i:3", "j:7"}, "E[h, i, j]", "exp(" + x + " - M[h, i])", "");
  add("S", {"h:2", "i:3", "j+7"}, "S[h, i]", "S[h, i] + E[h, i, j]", "0.0");
  if (weight.starts_with("P")) add("P", {"h:2", "i:3", "j:7"}, "P[h, i, j]", "E[h, i, j] / S[h, i]", "");
  add("O", {"h:2", "i:3", "e:5", "j+7"}, "O[h, i, e]", "O[h, i, e] + " + weight + " * V[h, j, e]", "0.0");
  return text;
}

std::vector<float> run_attention(const Func& func, float scale, int64_t nan_of_keys = -1) {
  std::vector<std::vector<float>> data = {std::vector<float>(24), std::vector<float>(56), std::vector<float>(70),
                                          std::vector<float>(30, -1.0f)};
  for (size_t p = 0; p < 3; ++p)
    for (size_t i = 0; i < data[p].size(); ++i)
      data[p][i] = (p < 2 ? scale : 1.0f) * (static_cast<float>((i * 37 + p * 11) % 23) / 11.0f - 1.0f);
  if (nan_of_keys >= 0) data[1][static_cast<size_t>(nan_of_keys)] = NAN;
  std::vector<BufferArg> args;
  for (auto& buffer : data) args.push_back({buffer.data(), static_cast<int64_t>(buffer.size() * 4)});
  const auto done = interpret(func, args);
  EXPECT_TRUE(done) << (done ? "" : done.error().to_string());
  return data.back();
}

void expect_attention(const std::string& text, const std::vector<IntRef>& numbers) {
  auto s = schedule_from(text);
  const auto blocks = reformulate(s, {s.block("O"), "online_reduction", numbers});
  ASSERT_OK(blocks);
  EXPECT_EQ(blocks->size(), 8u);
  ASSERT_OK(check_well_formed(s.func()));
  EXPECT_REPLAYS(s);
  const double bound = std::get<double>(*s.func()->annotations.find("error_bound"));
  for (const float scale : {1.0f, 6.0f}) {  // maxima that move from block to block, exponents down to -100
    const std::vector<float> x = run_attention(s.original, scale), y = run_attention(s.func(), scale);
    for (size_t i = 0; i < x.size(); ++i) EXPECT_NEAR(x[i], y[i], bound * 1.2e-7) << i;
  }
}

TEST(OnlineReduction, AttentionInOnePass) {
  auto s = schedule_from(attention());
  ASSERT_OK(reformulate(s, {s.block("O"), "online_reduction", {7}}));
  EXPECT_EQ(find_block(s.func()->body, "P"), nullptr);
  EXPECT_EQ(find_block(s.func()->body, "S"), nullptr);
  EXPECT_GOLDEN(s.func());
  for (const int64_t size : {1, 2, 3, 7, 9}) expect_attention(attention(), {size});
}

TEST(OnlineReduction, AttentionWrittenOut) {
  expect_attention(attention("E[h, i, j] / S[h, i]"), {2});
  expect_attention(attention("exp(X[h, i, j] - M[h, i]) / S[h, i]"), {3});
  expect_attention(attention("P[h, i, j]", "X[h, i, j] * 0.5"), {4});
}

TEST(OnlineReduction, AttentionByPowersOfTwo) {
  auto s = schedule_from(attention("P[h, i, j]", "X[h, i, j] * 0.5"));
  ASSERT_OK(reformulate(s, {s.block("O"), "online_reduction", {3, 2}}));
  // A factor of the scores takes log2(e) in, and the maximum of a block does not see it.
  const std::string text = to_text(s.func());
  EXPECT_NE(text.find("exp(select(0.0 < X[h, i, vb * 3 + vk] * 0.7213475 - M_runs["), std::string::npos) << text;
  EXPECT_NE(text.find("max(M_block[vb, h, i], select(likely(vb * 3 + vk < 7), X["), std::string::npos) << text;
  for (const int64_t size : {1, 3, 7}) {
    expect_attention(attention(), {size, 2});
    expect_attention(attention("P[h, i, j]", "X[h, i, j] * 0.5"), {size, 2});
  }
}

TEST(OnlineReduction, MaskedKeysAreNothing) {
  const std::string masked = "select(j < 4, -inf, X[h, i, j])";
  for (const std::vector<IntRef>& numbers : {std::vector<IntRef>{2}, std::vector<IntRef>{2, 2}}) {
    auto s = schedule_from(attention("P[h, i, j]", masked));
    ASSERT_OK(reformulate(s, {s.block("O"), "online_reduction", numbers}));
    const std::vector<float> x = run_attention(s.original, 1), y = run_attention(s.func(), 1);
    for (size_t i = 0; i < x.size(); ++i) EXPECT_NEAR(x[i], y[i], 1e-5) << i;
  }
}

TEST(OnlineReduction, ARowMaskedByTheLowestNumberIsTheMean) {
  for (const std::string mask :
       {"X[h, i, j] + select(i == 1, -3.4028235e+38, 0.0)", "select(i == 1, -3.4028235e+38, X[h, i, j]) * 0.5",
        "X[h, i, j] * 0.5 + select(i == 1 || j < 4, -3.4028235e+38, 0.0)"})
    for (const int64_t size : {2, 7}) {
      auto s = schedule_from(attention("P[h, i, j]", mask));
      ASSERT_OK(reformulate(s, {s.block("O"), "online_reduction", {size, 2}}));
      const std::vector<float> x = run_attention(s.original, 1), y = run_attention(s.func(), 1);
      for (size_t i = 0; i < x.size(); ++i) EXPECT_NEAR(x[i], y[i], 1e-5) << mask << ", " << i;
    }
}

TEST(OnlineReduction, ARowWithoutSharesIsZeroWhereTheyAreGuarded) {
  std::string text = attention("P[h, i, j]", "select(i == 1, -inf, X[h, i, j])");
  const std::string share = "P[h, i, j] = E[h, i, j] / S[h, i]";
  ASSERT_NE(text.find(share), std::string::npos);
  const std::string quotient = "E[h, i, j] / S[h, i]";
  text.replace(text.find(share), share.size(), "P[h, i, j] = select(isnan(" + quotient + "), 0.0, " + quotient + ")");
  ASSERT_NE(text.find("max(M[h, i], "), std::string::npos);
  for (const int64_t size : {2, 7}) {
    auto s = schedule_from(text);
    ASSERT_OK(reformulate(s, {s.block("O"), "online_reduction", {size}}));
    for (const int64_t nan_of_keys : {int64_t{-1}, int64_t{32}}) {  // of the second head, all of whose rows read it
      const std::vector<float> x = run_attention(s.original, 1, nan_of_keys),
                               y = run_attention(s.func(), 1, nan_of_keys);
      for (size_t i = 0; i < 30; ++i) {
        EXPECT_NEAR(x[i], y[i], 1e-5) << i;
        if (i / 5 % 3 == 1) {
          EXPECT_EQ(y[i], 0) << i;
        }
      }
    }
  }
}

TEST(OnlineReduction, AttentionPassesNaNOnWithAnOrderedMaximum) {
  std::string text = attention();
  const std::string plain = "max(M[h, i], X[h, i, j])";
  ASSERT_NE(text.find(plain), std::string::npos);
  text.replace(text.find(plain), plain.size(), "ordered_max(X[h, i, j], M[h, i])");
  for (const int64_t size : {2, 7}) {
    expect_attention(text, {size});
    expect_attention(text, {size, 2});
    auto s = schedule_from(text);
    ASSERT_OK(reformulate(s, {s.block("O"), "online_reduction", {size}}));
    EXPECT_EQ(to_text(s.func()).find("= max("), std::string::npos);
    for (const int64_t key : {0, 3, 6}) {  // of the second head
      const std::vector<float> x = run_attention(s.original, 1), y = run_attention(s.func(), 1, 28 + key * 4);
      for (size_t i = 0; i < 15; ++i) EXPECT_NEAR(x[i], y[i], 1e-5) << i;
      for (size_t i = 15; i < 30; ++i) EXPECT_TRUE(std::isnan(y[i])) << i;
    }
  }
}

TEST(OnlineReduction, E228WhereNothingIsWeighed) {
  auto of_three = schedule_from(attention());
  EXPECT_ERROR(reformulate(of_three, {of_three.block("O"), "online_reduction", {2, 3}}), E228);
  const auto refuses = [](const std::string& text, const char* block, int64_t size, const char* why) {
    auto s = schedule_from(text);
    const auto done = reformulate(s, {s.block(block), "online_reduction", {size}});
    return !done && done.error().code == ErrorCode::E228 && done.error().message.find(why) != std::string::npos;
  };
  EXPECT_TRUE(refuses(attention(), "O", 0, "at least one"));
  EXPECT_TRUE(refuses(attention(), "X", 2, "divided"));
  EXPECT_TRUE(refuses(attention(), "S", 2, "products"));
  EXPECT_TRUE(refuses(attention("E[h, i, j]"), "O", 2, "divided"));
  EXPECT_TRUE(refuses(attention("X[h, i, j] / S[h, i]"), "O", 2, "no exponential"));
  EXPECT_TRUE(refuses(attention("E[h, i, j] / S[h, 2 - i]"), "O", 2, "another row"));
  EXPECT_TRUE(refuses(attention("exp(X[h, i, j] * 2.0 - M[h, i]) / S[h, i]"), "O", 2, "another x"));
}

}  // namespace
}  // namespace fettle
