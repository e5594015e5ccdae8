#include "ir/compare.h"

#include <set>

#include <gtest/gtest.h>

#include "ir/text.h"
#include "ir/visit.h"

namespace fettle {
namespace {

constexpr const char* kProgram = R"(func f(A: f32[n, 8], B: f32[n, 8] output, n: i64 in 1..64):
  alloc T: f32[n, 8] @register
  for i in n tail(guard) {hint = 3}:
    for j in 8 vectorized:
      block T(vi: spatial[n] = i, vj: spatial[8] = j) where i < 60:
        reads A[vi, vj]
        writes T[vi, vj]
        T[vi, vj] = A[vi, vj] * 2.0
  for i in n:
    for j in 8:
      block B(vi: spatial[n] = i, vj: reduce[8] = j):
        reads T[vi, vj]
        writes B[vi, 0]
        init: B[vi, 0] = 0.0
        B[vi, 0] = B[vi, 0] + exp(T[vi, vj])
)";

Func func_of(std::string_view text) {
  Result<Func> f = parse_func(text);
  EXPECT_TRUE(f.has_value()) << (f ? "" : f.error().to_string()) << text;
  return *f;
}

std::string replaced(std::string text, std::string_view from, std::string_view to) {
  for (size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size())
    text.replace(at, from.size(), to);
  return text;
}

TEST(Compare, IgnoresNamesOfWhatIsBound) {
  const Func f = func_of(kProgram);
  std::string text = kProgram;
  for (auto [from, to] : {std::pair{"vi", "a"},
                          {"vj", "b"},
                          {"T[", "Temp["},
                          {"alloc T", "alloc Temp"},
                          {"A", "In"},
                          {"block T", "block first"},
                          {"func f", "func g"},
                          {"for i", "for x"},
                          {"= i", "= x"},
                          {"where i", "where x"}})
    text = replaced(text, from, to);
  const Func g = func_of(text);
  EXPECT_TRUE(structural_equal(f, g));
  EXPECT_EQ(canonical_hash(f), canonical_hash(g));
  EXPECT_FALSE(structural_equal(f->body, g->body));  // parameters are free in a body alone
}

TEST(Compare, SeesEveryDifference) {
  const Func f = func_of(kProgram);
  std::set<Digest> seen{canonical_hash(f)};
  for (auto [from, to] : std::vector<std::pair<const char*, const char*>>{
           {"1..64", "1..65"},
           {"B: f32[n, 8] output", "B: f32[n, 8]"},
           {"A: f32[n, 8]", "A: f32[n, 8] constant"},
           {"A: f32[n, 8]", "A: f32[n, 8] free_layout"},
           {"A: f32[n, 8]", "A: f32[n, 9]"},
           {"A: f32[n, 8]", "A: f32[n, 8] strides[16, 1]"},
           {"A: f32[n, 8]", "A: f32[n, 8] layout(x: 8 * n -> x // 8, x % 8)"},
           {"@register", "@shared"},
           {"tail(guard)", "tail(mask)"},
           {"hint = 3", "hint = 4"},
           {"hint = 3", "hint = 3.0"},
           {"hint = 3", "hint = \"3\""},
           {"vectorized", "unrolled"},
           {"i < 60", "i <= 60"},
           {"i < 60", "60 < i"},
           {"reads A[vi, vj]", "reads A[vi, 0 +: 8]"},
           {"* 2.0", "* 2.5"},
           {"* 2.0", "+ 2.0"},
           {"exp(", "log("},
           {"vj: reduce", "vj: scan"},
           {"init: B[vi, 0] = 0.0", "init: B[vi, 0] = -0.0"},
           {"for i in n:", "for i in 1 +: n:"},
           {"block T(vi: spatial[n] = i, vj: spatial[8] = j)", "block T(vi: spatial[n] = j, vj: spatial[8] = i)"},
           {"A[vi, vj] * 2.0", "A[vj, vi] * 2.0"}}) {
    std::string text = kProgram;
    text.replace(text.find(from), std::string(from).size(), to);
    const Func g = func_of(text);
    EXPECT_FALSE(structural_equal(f, g)) << text;
    EXPECT_TRUE(seen.insert(canonical_hash(g)).second) << text;
  }
}

// The digest is stored with records: it may change only with the language's version.
TEST(Compare, TheHashIsStable) {
  const Func f = func_of(
      "func f(A: f32[4], B: f32[4] output):\n  for i in 4:\n    block B(v: spatial[4] = i):\n"
      "      reads A[v]\n      writes B[v]\n      B[v] = A[v] + 1.5\n");
  EXPECT_EQ(canonical_hash(f).hex(), "497ff6c3dd510f4afa9df4a1b334e1f5");
}

TEST(Compare, RenamedCopiesAreEqual) {
  const Func f = func_of(kProgram);
  const Stmt copy = rename_bound(f->body);
  EXPECT_NE(copy.get(), f->body.get());
  EXPECT_TRUE(structural_equal(copy, f->body));
  const Func g = with(f, [&](FuncNode& n) { n.body = copy; });
  EXPECT_TRUE(structural_equal(f, g));
  EXPECT_EQ(canonical_hash(f), canonical_hash(g));
}

// A subtree shared by both sides means different things under different binders.
TEST(Compare, SharedSubtreesUnderDifferentBinders) {
  const Buffer b = make_buffer("B", {4, 4});
  const Var i = make_var("i"), j = make_var("j");
  const Stmt body = store(b, {i, j}, float_imm(1));
  const Stmt ij = make_for(i, 0, 4, make_for(j, 0, 4, body));
  const Stmt ji = make_for(j, 0, 4, make_for(i, 0, 4, body));
  EXPECT_FALSE(structural_equal(ij, ji));
  EXPECT_TRUE(structural_equal(ij, ij));
}

}  // namespace
}  // namespace fettle
