#include "schedule/primitives/reformulate.h"
#include "schedule/reformulation.h"
#include "schedule/testing.h"

namespace fettle {
namespace {

using testing::schedule_from;

// Sums over 3 blocks of 4 steps, of two numbers each; `term` is added.
std::string sum(const std::string& term, const std::string& init = "0.0", const std::string& type = "f32") {
  std::string reads = "A[vi, (vb * 4 + vt) * 2 + vh]";
  for (const char* other : {"W[vj, vb, vt]", "S[vj, vb]", "Z[vj, vb]"})
    if (term.find(other) != std::string::npos) reads += std::string(", ") + other;
  return "func blocks(A: " + type + "[2, 24], W: u8[5, 3, 4] constant, S: " + type + "[5, 3] constant, Z: " + type +
         "[5, 3] constant, C: " + type + R"([2, 5] output):
  for i in 2:
    for j in 5:
      for b in 3:
        for t in 4:
          for h in 2:
            block C(vi: spatial[2] = i, vj: spatial[5] = j, vb: reduce[3] = b, vt: reduce[4] = t, vh: reduce[2] = h):
              reads )" +
         reads + R"(
              writes C[vi, vj]
              init:
                C[vi, vj] = )" +
         init + R"(
              C[vi, vj] = C[vi, vj] + ()" +
         term + ")\n";
}
const std::string kStep = "A[vi, (vb * 4 + vt) * 2 + vh]",
                  kNumber = "f32(i32(W[vj, vb, vt]) >> i32(vh) * 4i32 & 15i32)";
const std::string kTerm = kStep + " * ((" + kNumber + " - Z[vj, vb]) * S[vj, vb])";

TEST(FactorSum, ScalesAndZeroPointsLeaveTheBlocks) {
  auto s = schedule_from(sum(kTerm));
  const auto blocks = reformulate(s, {s.block("C"), "factor_sum", {1}});
  ASSERT_OK(blocks);
  EXPECT_EQ(blocks->size(), 3u);
  EXPECT_GOLDEN(s.func());
  EXPECT_OK(check_well_formed(s.func()));
  EXPECT_EQ(numerics_of(s.func()), Numerics::kReassociating);
  EXPECT_REPLAYS(s);
  EXPECT_SAME_RESULT(s);
}

TEST(FactorSum, MoreIteratorsMayStayOutside) {
  auto s = schedule_from(sum(kTerm));
  ASSERT_OK(reformulate(s, {s.block("C"), "factor_sum", {2}}));
  EXPECT_OK(check_well_formed(s.func()));
  EXPECT_SAME_RESULT(s);
}

// One inner sum for both products, whatever their signs.
TEST(FactorSum, EqualFactorsShareASum) {
  for (const std::string op : {"+", "-"}) {
    auto s = schedule_from(sum(kStep + " * S[vj, vb] " + op + " " + kStep + " * Z[vj, vb]"));
    const auto blocks = reformulate(s, {s.block("C"), "factor_sum", {1}});
    ASSERT_OK(blocks);
    EXPECT_EQ(blocks->size(), 2u);
    EXPECT_SAME_RESULT(s);
  }
}

TEST(FactorSum, ASumMayBeginWithADifference) {
  auto s = schedule_from(sum("(Z[vj, vb] - " + kNumber + ") * " + kStep + " * S[vj, vb]"));
  ASSERT_OK(reformulate(s, {s.block("C"), "factor_sum", {1}}));
  EXPECT_SAME_RESULT(s);
}

TEST(FactorSum, LeavesOtherSums) {
  const auto refused = [](const std::string& program, std::vector<IntRef> numbers) {
    auto s = schedule_from(program);
    EXPECT_ERROR(reformulate(s, {s.block("C"), "factor_sum", std::move(numbers)}), E228);
  };
  refused(sum(kTerm), {});
  refused(sum(kTerm), {0});
  refused(sum(kTerm), {3});                                                   // nothing is left inside
  refused(sum(kTerm, "1.0"), {1});                                            // not from 0 on
  refused(sum(kStep + " * " + kNumber), {1});                                 // no factor outside
  refused(sum("max(" + kTerm + ", 0.0)"), {1});                               // not linear
  refused(sum(kStep + " * (" + kNumber + " + Z[vj, vb]) + S[vj, vb]"), {1});  // a product without a factor inside
}

}  // namespace
}  // namespace fettle
