#include <gtest/gtest.h>

#include "ir/text.h"
#include "lower/passes/passes.h"

namespace fettle {
namespace {

std::string relaxed(const std::string& body) {
  const Result<Func> func = parse_func(
      "lowered func f(A: f32[400], B: f32[400], C: f32[400] output):\n"
      "  allocate R: f32[32] @register\n" +
      body);
  EXPECT_TRUE(func) << (func ? "" : func.error().to_string());
  return func ? to_text(relax_lane_masks((*func)->body)) : "";
}

const std::string kMask = "ramp(0, 1, 16) < broadcast(13, 16)";
const std::string kClear = "  R[ramp(0, 1, 16)] = broadcast(0.0, 16)\n";

std::string step(const std::string& mask) {
  return "  for k in 9:\n    R[ramp(0, 1, 16) if " + mask + "] = R[ramp(0, 1, 16)] + A[broadcast(k, 16) if " + mask +
         "] * B[ramp(k * 13, 1, 16) if " + mask + "]\n";
}
std::string keep(const std::string& mask) {
  return "  C[ramp(0, 1, 16)" + (mask.empty() ? "" : " if " + mask) + "] = R[ramp(0, 1, 16)]\n";
}

TEST(RelaxLaneMasks, AccumulatorsThatAreStoredUnderTheMaskGoWithout) {
  const std::string text = relaxed(kClear + step(kMask) + keep(kMask));
  EXPECT_NE(text.find("R[ramp(0, 1, 16)] = R[ramp(0, 1, 16)] + broadcast(A[k], 16) * B[ramp(k * 13, 1, 16) if"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("C[ramp(0, 1, 16) if "), std::string::npos) << text;
}

TEST(RelaxLaneMasks, LanesThatAreReadElsewhereKeepWhatTheyHeld) {
  const std::string other = "ramp(0, 1, 16) < broadcast(14, 16)";
  for (const std::string& last : {keep(""), keep(other), keep(kMask) + keep(other)}) {
    const std::string text = relaxed(kClear + step(kMask) + last);
    EXPECT_NE(text.find("R[ramp(0, 1, 16) if "), std::string::npos) << text;
    // One element is still no vector: a lane is on.
    EXPECT_NE(text.find("broadcast(A[k], 16)"), std::string::npos) << text;
  }
  // To other lanes.
  const std::string moved =
      relaxed(kClear + step(kMask) + "  C[ramp(0, 1, 16) if " + kMask +
              "] = shuffle([R[ramp(0, 1, 16)]], [15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0])\n");
  EXPECT_NE(moved.find("R[ramp(0, 1, 16) if "), std::string::npos) << moved;
}

TEST(RelaxLaneMasks, AnElementIsReadOnlyWhereSomeLaneIsKnownToBeOn) {
  // None is on; it is not known.
  const std::string none = "ramp(16, 1, 16) < broadcast(13, 16)";
  EXPECT_EQ(relaxed(kClear + step(none) + keep(none)).find("broadcast(A[k], 16)"), std::string::npos);
  const std::string unknown = "ramp(k * 16, 1, 16) < broadcast(77, 16)";
  const std::string text = relaxed(kClear + step(unknown) + keep(kMask));
  EXPECT_EQ(text.find("broadcast(A[k], 16)"), std::string::npos) << text;
  EXPECT_NE(text.find("R[ramp(0, 1, 16) if "), std::string::npos) << text;
}

}  // namespace
}  // namespace fettle
