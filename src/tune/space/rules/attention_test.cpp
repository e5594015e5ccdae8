#include "tune/parts/attention.h"

#include <limits>

#include "schedule/reformulation.h"
#include "tune/space/space.h"
#include "tune/space/test_workloads.h"
#include "tune/space/testing.h"

namespace fettle {
namespace {

using testing::avx512;
using testing::choices;
using testing::expect_same;

enum class Mask : uint8_t { kNone, kOfKeys, kCausal, kOfBoth };

struct Problem {
  int64_t heads = 2, queries = 33, keys = 50, width = 8, value_width = 12;
  Mask mask = Mask::kNone;
  int64_t group = 1;           // heads that share keys and values
  bool heads_inside = false;   // [tokens, heads, width], as models split them
  bool keys_are_rows = false;  // the softmax is along queries
  bool reads_scores = false;   // the output adds what the softmax is of
  bool inlined = false;        // scale and mask are part of the maximum and of the exponentials
};

Func attention(const Problem& p) {
  const auto shape = [&](int64_t heads, int64_t tokens, int64_t width) -> std::vector<Expr> {
    if (p.heads_inside) return {tokens, heads, width};
    return {heads, tokens, width};
  };
  const auto at = [&](const Expr& head, const Expr& token, const Expr& element) -> std::vector<Expr> {
    if (p.heads_inside) return {token, head, element};
    return {head, token, element};
  };
  const int64_t groups = p.heads / p.group;
  const te::Tensor q = te::placeholder(shape(p.heads, p.queries, p.width), kF32, "Q"),
                   k = te::placeholder(shape(groups, p.keys, p.width), kF32, "K"),
                   v = te::placeholder(shape(groups, p.keys, p.value_width), kF32, "V"),
                   a = te::placeholder({p.queries, p.keys}, kF32, "A");
  const Expr scale = constant(0.25, kF32), nothing = constant(-std::numeric_limits<double>::infinity(), kF32);
  const te::ReduceAxis d = te::reduce_axis(p.width, "d");
  const te::Tensor x = te::compute(
      {p.heads, p.queries, p.keys},
      [&](const std::vector<Var>& i) {
        return te::sum(q(at(i[0], i[1], d)) * k(at(floordiv(i[0], p.group), i[2], d)), {d});
      },
      "X");
  const auto masked = [&](const Expr& head, const Expr& query, const Expr& of_key) {
    const Expr scaled = x(head, query, of_key) * scale;
    if (p.mask == Mask::kOfKeys) return scaled + a(0, of_key);
    if (p.mask == Mask::kOfBoth) return scaled + a(query, of_key);
    if (p.mask == Mask::kCausal) return select(le(of_key, query), scaled, nothing);
    return scaled;
  };
  const te::Tensor stored =
      te::compute(x.shape(), [&](const std::vector<Var>& i) { return te::Body(masked(i[0], i[1], i[2])); }, "B");
  const auto b = [&](const Expr& head, const Expr& query, const Expr& of_key) {
    return p.inlined ? masked(head, query, of_key) : stored(head, query, of_key);
  };
  const size_t along = p.keys_are_rows ? 1 : 2;
  const te::Tensor m = te::compute(
      {p.heads, p.keys_are_rows ? p.keys : p.queries},
      [&](const std::vector<Var>& i) {
        const te::ReduceAxis j = te::reduce_axis(p.keys_are_rows ? p.queries : p.keys, "j");
        return te::max(along == 1 ? b(i[0], j, i[1]) : b(i[0], i[1], j), {j});
      },
      "M");
  const te::Tensor e = te::compute(
      x.shape(), [&](const std::vector<Var>& i) { return math("exp", {b(i[0], i[1], i[2]) - m(i[0], i[3 - along])}); },
      "E");
  const te::Tensor s = te::compute(
      m.shape(),
      [&](const std::vector<Var>& i) {
        const te::ReduceAxis j = te::reduce_axis(p.keys_are_rows ? p.queries : p.keys, "j");
        return te::sum(along == 1 ? e(i[0], j, i[1]) : e(i[0], i[1], j), {j});
      },
      "S");
  const te::Tensor w =
      te::compute(x.shape(), [&](const std::vector<Var>& i) { return e(i) / s(i[0], i[3 - along]); }, "W");
  const te::Tensor o = te::compute(
      shape(p.heads, p.queries, p.value_width),
      [&](const std::vector<Var>& i) {
        const te::ReduceAxis j = te::reduce_axis(p.keys, "j");
        const Var &head = i[p.heads_inside ? 1 : 0], &token = i[p.heads_inside ? 0 : 1];
        return te::sum(w(head, token, j) * v(at(floordiv(head, p.group), j, i[2])), {j});
      },
      "O");
  if (p.reads_scores) {
    const te::Tensor both =
        te::compute(o.shape(), [&](const std::vector<Var>& i) { return o(i) + b(i[0], i[1], 0); }, "Y");
    return te::create_func("attention", {q, k, v, a}, {both});
  }
  return te::create_func("attention", {q, k, v, a}, {o});
}

Result<Schedule> one_pass(const Func& func, int threads, uint64_t seed, double max_error = 1e9) {
  const DecisionMap decisions = {{"attention/O/one_pass", "1"}};
  const auto space = within_error_bound(rule_space(), max_error);
  return space->generate(func, avx512(), threads, seed, std::make_shared<const DecisionMap>(decisions));
}

bool is_one_pass(const Schedule& s) { return to_text(s.trace()).find("online_reduction") != std::string::npos; }

TEST(AttentionRule, KeepsTheMeaning) {
  const std::vector<Problem> problems = {{},
                                         {.mask = Mask::kOfKeys},
                                         {.queries = 20, .keys = 64, .mask = Mask::kCausal},
                                         {.queries = 17, .mask = Mask::kOfBoth, .heads_inside = true},
                                         {.heads = 4, .queries = 48, .keys = 51, .group = 2, .heads_inside = true},
                                         {.queries = 16, .keys = 7, .width = 5, .value_width = 3},
                                         {.mask = Mask::kOfBoth, .inlined = true},
                                         {.queries = 35, .mask = Mask::kOfKeys, .heads_inside = true, .inlined = true},
                                         {.queries = 37, .keys = 131, .width = 16, .value_width = 16}};
  for (const Problem& problem : problems)
    for (const uint64_t seed : {1, 2, 3}) {
      SCOPED_TRACE(std::to_string(problem.queries) + " queries, seed " + std::to_string(seed));
      const Func func = attention(problem);
      const auto s = one_pass(func, 1 + static_cast<int>(seed % 2), seed);
      ASSERT_OK(s);
      ASSERT_TRUE(is_one_pass(*s));
      EXPECT_EQ(numerics_of(s->func()), Numerics::kApproximate);
      EXPECT_NE(choices(*s).find("attention/O/tile"), std::string::npos);
      expect_same(func, *s);
      if (HasFatalFailure()) return;
    }
}

TEST(AttentionRule, OneKernelNeverHasTheScoresAsAWhole) {
  const Func func = attention({.queries = 64, .keys = 512, .width = 16, .value_width = 16});
  const auto s = default_schedule(func, avx512(), 1);
  ASSERT_OK(s);
  ASSERT_TRUE(is_one_pass(*s));
  const auto lowered = lower(s->func(), *avx512());
  ASSERT_OK(lowered);
  const std::string text = to_text(lowered->kernel);
  EXPECT_NE(text.find("allocate "), std::string::npos);
  for (size_t at = text.find("allocate "); at != std::string::npos; at = text.find("allocate ", at + 1)) {
    const size_t size = text.find('[', at);
    EXPECT_LT(std::stoll(text.substr(size + 1)), 64 * 512) << text.substr(at, 60);
  }
}

TEST(AttentionRule, ShortOnesStayApart) {
  const auto s = default_schedule(attention({.queries = 128, .keys = 128}), avx512(), 1);
  ASSERT_OK(s);
  EXPECT_FALSE(is_one_pass(*s));
}

TEST(AttentionRule, StaysWithinItsErrorBound) {
  const Func func = attention({.queries = 64, .keys = 512});
  const auto far = default_schedule(func, avx512(), 1, nullptr, 2000),
             near = default_schedule(func, avx512(), 1, nullptr, 100);
  ASSERT_OK(far);
  ASSERT_OK(near);
  EXPECT_TRUE(is_one_pass(*far));
  EXPECT_GE(error_bound_of(far->func()), 2 * 512);
  EXPECT_LE(error_bound_of(far->func()), 2000);
  EXPECT_FALSE(is_one_pass(*near));
  EXPECT_LE(error_bound_of(near->func()), 100);
}

TEST(AttentionRule, LeavesWhatIsNoAttention) {
  for (const Problem& problem :
       {Problem{.keys_are_rows = true}, Problem{.reads_scores = true}, Problem{.queries = 3}}) {
    const Func func = attention(problem);
    const auto s = one_pass(func, 1, 1);
    ASSERT_OK(s);
    EXPECT_FALSE(is_one_pass(*s));
  }
}

}  // namespace
}  // namespace fettle
