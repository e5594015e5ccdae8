#include "harness/peak.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <thread>

#include "harness/quiesce.h"

namespace fettle::bench {
namespace {

TEST(Peak, EverySliceHasARateAndTheBestIsKept) {
  PeakMeter peak(2);
  EXPECT_EQ(peak.best(), 0);
  double best = 0;
  for (int i = 0; i < 3; ++i) {
    const double rate = peak.slice(1e5);
    EXPECT_TRUE(std::isfinite(rate));
    EXPECT_GT(rate, 0);
    best = std::max(best, rate);
  }
  EXPECT_EQ(peak.best(), best);
  EXPECT_EQ(peak.threads(), 2);
}

TEST(Quiesce, SeesABusyThreadAndItsEnd) {
  ASSERT_TRUE(quiesce(5000));
  std::atomic<bool> stop = false;
  std::thread spinner([&] {
    while (!stop) {
    }
  });
  EXPECT_FALSE(quiesce(20));
  stop = true;
  spinner.join();
  EXPECT_TRUE(quiesce(5000));
}

}  // namespace
}  // namespace fettle::bench
