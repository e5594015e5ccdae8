#include "target/caches.h"

#include <gtest/gtest.h>

namespace fettle {
namespace {

TEST(Caches, UnknownLevelsAreAsUsual) {
  Target target;
  target.caches = {{48 << 10}};
  EXPECT_EQ(cache_bytes(target, 0), 48 << 10);
  EXPECT_EQ(cache_bytes(target, 1), 1 << 20);
  EXPECT_EQ(cache_bytes(target, 2), 32 << 20);
  EXPECT_EQ(cache_bytes(target, 3), 32 << 20);
}

TEST(Caches, RunsThatFallIntoFewSetsAreHeldInFew) {
  Target target;
  target.caches = {{48 << 10, 12}, {2 << 20, 16}};
  EXPECT_EQ(cache_bytes_of_runs(target, 0, 128, 8192), 12 * 128);
  EXPECT_EQ(cache_bytes_of_runs(target, 1, 128, 8192), 16 * 16 * 128);
  EXPECT_EQ(cache_bytes_of_runs(target, 1, 128, 8192 + 64), 2 << 20);
  EXPECT_EQ(cache_bytes_of_runs(target, 1, 100, 1 << 20), 16 * 128);
}

}  // namespace
}  // namespace fettle
