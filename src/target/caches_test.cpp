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

}  // namespace
}  // namespace fettle
