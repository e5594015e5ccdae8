#include "tune/parts/attention.h"

#include <functional>
#include <limits>

#include "analysis/verify.h"
#include "ir/query.h"
#include "schedule/reformulation.h"
#include "tune/space/open_workloads.h"
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
  bool grouped = false;        // [heads / group, group] instead of [heads]
  int64_t seen_before = 0;     // of a causal mask: keys before those of the queries
  bool heads_inside = false;   // [tokens, heads, width], as models split them
  bool keys_are_rows = false;  // the softmax is along queries
  bool reads_scores = false;   // the output adds what the softmax is of
  bool inlined = false;        // scale and mask are part of the maximum and of the exponentials
};

Func attention(const Problem& p) {
  using Indices = std::vector<Expr>;
  const auto joined = [](Indices list, const Indices& more) {
    list.insert(list.end(), more.begin(), more.end());
    return list;
  };
  const auto at = [&](const Indices& heads, const Expr& token, const Expr& element) {
    return p.heads_inside ? joined(joined({token}, heads), {element}) : joined(heads, {token, element});
  };
  const int64_t groups = p.heads / p.group;
  const Indices all = p.grouped ? Indices{groups, p.group} : Indices{p.heads};
  const size_t n = all.size();
  // Of the heads of queries: those of keys.
  const auto shared = [&](const Indices& heads) {
    return Indices{p.grouped ? heads[0] : floordiv(heads[0], Expr(p.group))};
  };
  const te::Tensor q = te::placeholder(at(all, p.queries, p.width), kF32, "Q"),
                   k = te::placeholder(at({groups}, p.keys, p.width), kF32, "K"),
                   v = te::placeholder(at({groups}, p.keys, p.value_width), kF32, "V"),
                   a = te::placeholder({p.queries, p.keys}, kF32, "A");
  const Expr scale = constant(0.25, kF32), nothing = constant(-std::numeric_limits<double>::infinity(), kF32);
  const auto heads_of = [&](const std::vector<Var>& i, size_t first = 0) {
    const auto begin = i.begin() + static_cast<std::ptrdiff_t>(first);
    return Indices(begin, begin + static_cast<std::ptrdiff_t>(n));
  };
  const te::ReduceAxis d = te::reduce_axis(p.width, "d");
  const te::Tensor x = te::compute(
      joined(all, {p.queries, p.keys}),
      [&](const std::vector<Var>& i) {
        return te::sum(q(at(heads_of(i), i[n], d)) * k(at(shared(heads_of(i)), i[n + 1], d)), {d});
      },
      "X");
  const auto masked = [&](const Indices& heads, const Expr& query, const Expr& of_key) {
    const Expr scaled = x(joined(heads, {query, of_key})) * scale;
    if (p.mask == Mask::kOfKeys) return scaled + a(0, of_key);
    if (p.mask == Mask::kOfBoth) return scaled + a(query, of_key);
    if (p.mask == Mask::kCausal) return select(le(of_key, query + Expr(p.seen_before)), scaled, nothing);
    return scaled;
  };
  const te::Tensor stored = te::compute(
      x.shape(), [&](const std::vector<Var>& i) { return te::Body(masked(heads_of(i), i[n], i[n + 1])); }, "B");
  const auto b = [&](const Indices& heads, const Expr& query, const Expr& of_key) {
    return p.inlined ? masked(heads, query, of_key) : stored(joined(heads, {query, of_key}));
  };
  const size_t row = p.keys_are_rows ? n + 1 : n;  // of a row of the softmax: its last index among those of X
  const Expr length = p.keys_are_rows ? p.queries : p.keys;
  const auto along = [&](const std::vector<Var>& i, const std::function<Expr(const Indices&)>& element) {
    const te::ReduceAxis j = te::reduce_axis(length, "j");
    return std::pair(element(p.keys_are_rows ? joined(heads_of(i), {j, i[n]}) : joined(heads_of(i), {i[n], j})), j);
  };
  const te::Tensor m = te::compute(
      joined(all, {p.keys_are_rows ? p.keys : p.queries}),
      [&](const std::vector<Var>& i) {
        const auto [value, j] =
            along(i, [&](const Indices& at) { return b(Indices(at.begin(), at.end() - 2), at[n], at[n + 1]); });
        return te::max(value, {j});
      },
      "M");
  const auto of_row = [&](const te::Tensor& t, const std::vector<Var>& i) { return t(joined(heads_of(i), {i[row]})); };
  const te::Tensor e = te::compute(
      x.shape(),
      [&](const std::vector<Var>& i) { return math("exp", {b(heads_of(i), i[n], i[n + 1]) - of_row(m, i)}); }, "E");
  const te::Tensor s = te::compute(
      m.shape(),
      [&](const std::vector<Var>& i) {
        const auto [value, j] = along(i, [&](const Indices& at) { return e(at); });
        return te::sum(value, {j});
      },
      "S");
  const te::Tensor w = te::compute(x.shape(), [&](const std::vector<Var>& i) { return e(i) / of_row(s, i); }, "W");
  const te::Tensor o = te::compute(
      at(all, p.queries, p.value_width),
      [&](const std::vector<Var>& i) {
        const te::ReduceAxis j = te::reduce_axis(p.keys, "j");
        const Indices heads = heads_of(i, p.heads_inside ? 1 : 0);
        const Var& token = i[p.heads_inside ? 0 : n];
        return te::sum(w(joined(heads, {token, j})) * v(at(shared(heads), j, i[n + 1])), {j});
      },
      "O");
  if (p.reads_scores) {
    const te::Tensor both =
        te::compute(o.shape(), [&](const std::vector<Var>& i) { return o(i) + b(heads_of(i), i[n], 0); }, "Y");
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
  const std::vector<Problem> problems = {
      {},
      {.mask = Mask::kOfKeys},
      {.queries = 20, .keys = 64, .mask = Mask::kCausal},
      {.queries = 17, .mask = Mask::kOfBoth, .heads_inside = true},
      {.heads = 4, .queries = 48, .keys = 51, .group = 2, .heads_inside = true},
      {.queries = 16, .keys = 7, .width = 5, .value_width = 3},
      {.mask = Mask::kOfBoth, .inlined = true},
      {.heads = 6, .queries = 35, .mask = Mask::kOfBoth, .group = 3, .grouped = true},
      {.queries = 70, .keys = 64, .mask = Mask::kCausal, .inlined = true},
      {.heads = 4,
       .queries = 37,
       .keys = 53,
       .mask = Mask::kCausal,
       .group = 2,
       .grouped = true,
       .seen_before = 16,
       .inlined = true},
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

// The lines of a block of keys would fall into few sets of the first-level cache.
TEST(AttentionRule, KeysThatLieApartAreCopied) {
  for (const bool heads_inside : {false, true})
    for (const Mask mask : {Mask::kNone, Mask::kCausal}) {
      const Func func = attention({.heads = 2,
                                   .queries = 544,  // half a tile is left
                                   .keys = 256,
                                   .width = 8,
                                   .value_width = 8,
                                   .mask = mask,
                                   .heads_inside = heads_inside});
      const auto s = default_schedule(func, avx512(), 2);
      ASSERT_OK(s);
      ASSERT_TRUE(is_one_pass(*s));
      EXPECT_EQ(choices(*s).find("attention/O/copy_keys") != std::string::npos, heads_inside);
      for (const char* read : {"K_global", "V_global"})
        EXPECT_EQ(to_text(s->func()).find(read) != std::string::npos, heads_inside) << read;
      expect_same(func, *s);
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

// The extent of the innermost loop around both blocks whose names end so; 0 where there is none.
int64_t loop_around_both(const Func& func, std::string_view a, std::string_view b) {
  const auto has = [](const ForNode& loop, std::string_view end) {
    return contains<BlockNode>(loop.body, [&](const BlockNode& block) { return block.name.ends_with(end); });
  };
  int64_t extent = 0;
  contains<ForNode>(func->body, [&](const ForNode& loop) {  // outer loops first
    if (has(loop, a) && has(loop, b)) extent = as_int(loop.extent) ? *as_int(loop.extent) : 0;
    return false;
  });
  return extent;
}

TEST(AttentionRule, MaximaAndSumsAreTakenAsTheirTermsAreMade) {
  const Func func = attention({.queries = 64, .keys = 512, .width = 16, .value_width = 16});
  const auto s = default_schedule(func, avx512(), 1);
  ASSERT_OK(s);
  ASSERT_TRUE(is_one_pass(*s));
  const auto parts = attention_parts(func);
  ASSERT_TRUE(parts);
  const AttentionTile tile = attention_tiles(*parts, *avx512()).front();
  EXPECT_EQ(loop_around_both(s->func(), parts->scores, "M_block"), tile.keys / tile.key_rows);
  EXPECT_EQ(loop_around_both(s->func(), "E_block", "S_block"), tile.keys);
}

// 125 keys would be the largest block in the first-level cache, but only in tiles of five.
TEST(AttentionRule, TallTilesAreWorthASmallerBlock) {
  const auto parts = attention_parts(attention({.queries = 1500, .keys = 1500, .width = 64, .value_width = 64}));
  ASSERT_TRUE(parts);
  const AttentionTile tile = attention_tiles(*parts, *avx512()).front();
  EXPECT_GE(tile.key_rows * tile.vectors, 16) << tile.name();
}

// 1197 is 7 * 171, which only tiles of three keys divide: six sums, which wait for each other. Blocks that do not
// divide the keys have tiles of five.
TEST(AttentionRule, BlocksOfUnevenKeysHaveWholeTiles) {
  const auto avx2 = std::make_shared<const Target>(parse_target("x86-64-avx2").value());
  for (const int64_t keys : {1197, 1345, 678}) {
    const auto parts = attention_parts(attention({.queries = 80, .keys = keys, .width = 64, .value_width = 64}));
    ASSERT_TRUE(parts);
    const AttentionTile tile = attention_tiles(*parts, *avx2).front();
    EXPECT_EQ(tile.key_rows * tile.vectors, 12) << tile.name();
    EXPECT_EQ(tile.keys % tile.key_rows, 0) << tile.name();
  }
}

// On machines of all kinds exponentials are powers of two.
TEST(AttentionRule, ExponentialsArePowersOfTwo) {
  const auto avx2 = std::make_shared<const Target>(parse_target("x86-64-avx2").value());
  const Func func = attention({.queries = 66, .keys = 60});
  for (const auto& target : {avx2, avx512()}) {
    const auto parts = attention_parts(func);
    ASSERT_TRUE(parts);
    PreferringDecider preferring({.ranks = {}});
    Schedule s(func);
    ASSERT_OK(attention_in_one_pass(s, *target, preferring, *parts, 1));
    EXPECT_NE(to_text(s.trace()).find(", 2])"), std::string::npos);
  }
}

// Maxima and sums beside the values' tile are counted: no tile needs more registers than there are.
TEST(AttentionRule, TilesFindRegistersWhereThereAreFew) {
  const auto avx2 = std::make_shared<const Target>(parse_target("x86-64-avx2").value());
  for (const int64_t width : {20, 48}) {
    const Func func = attention({.queries = 66, .keys = 60, .width = width, .value_width = width});
    const auto parts = attention_parts(func);
    ASSERT_TRUE(parts);
    const size_t n = attention_tiles(*parts, *avx2).size();
    for (size_t rank = 0; rank < n; ++rank) {
      PreferringDecider preferring({.ranks = {{"tile", rank}}});
      Schedule s(func);
      ASSERT_OK(attention_in_one_pass(s, *avx2, preferring, *parts, 1));
      EXPECT_OK(verify(s.func(), *avx2)) << attention_tiles(*parts, *avx2)[rank].name();
    }
  }
}

TEST(AttentionRule, BlocksThatNoQuerySeesAreSkipped) {
  for (const Mask mask : {Mask::kCausal, Mask::kOfBoth}) {
    const auto s = one_pass(attention({.queries = 128, .keys = 128, .mask = mask, .inlined = true}), 1, 1);
    ASSERT_OK(s);
    ASSERT_TRUE(is_one_pass(*s));
    EXPECT_EQ(to_text(s->trace()).find("skip_hidden") != std::string::npos, mask == Mask::kCausal);
  }
}

// Whether a block of keys is whole is asked once, outside of the kernels.
TEST(AttentionRule, WholeBlocksOfOpenKeysHaveNoGuards) {
  const testing::OpenWorkload workload = {
      "attention",
      {testing::size("n", 0, 512, 1, 64), testing::size("k", 0, 512, 1, 300)},
      [](const auto& s, const auto& ints) { return testing::open_attention({.queries = s[0], .keys = s[1]}, ints); }};
  const auto s = default_schedule(workload.open(), avx512(), 1);
  ASSERT_OK(s);
  ASSERT_TRUE(is_one_pass(*s));
  const auto lowered = lower(s->func(), *avx512());
  ASSERT_OK(lowered);
  size_t kernels = 0, plain = 0;
  for (const auto& [name, func] : lowered->kernel.funcs) {
    if (name == lowered->kernel.entry) continue;
    ++kernels;
    plain += contains<IfNode>(func->body, [](const IfNode&) { return true; }) ? 0 : 1;
  }
  // The first block or not, whole or not, of a whole tile of queries or not, of all of its vectors or not.
  EXPECT_EQ(kernels, 16u);
  EXPECT_EQ(plain, 8u);
}

TEST(AttentionRule, ShortOnesStayApart) {
  const auto s = default_schedule(attention({.queries = 128, .keys = 64}), avx512(), 1);
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
