#include "harness/verdict.h"

#include <gtest/gtest.h>

#include <limits>

namespace fettle::bench {
namespace {

bool says(double ratio, double half_width, const char* words) {
  return tuning_verdict({.median = ratio, .half_width = half_width}).find(words) != std::string::npos;
}

TEST(TuningVerdict, ClaimsWhatTheIntervalShows) {
  EXPECT_TRUE(says(0.9, 0.02, "tuning took off 10.0 %"));
  EXPECT_TRUE(says(0.985, 0.02, "the defaults are as fast"));
  EXPECT_TRUE(says(1.01, 0.02, "the defaults are as fast"));
  EXPECT_TRUE(says(1.1, 0.02, "slower"));
  EXPECT_TRUE(says(1, std::numeric_limits<double>::infinity(), "too few rounds"));
}

}  // namespace
}  // namespace fettle::bench
