#include "target/thread_axes.h"

#include <gtest/gtest.h>

namespace fettle {
namespace {

TEST(ThreadAxes, AreKnownByName) {
  EXPECT_TRUE(is_thread_axis("blockIdx.z"));
  EXPECT_TRUE(is_thread_axis("threadIdx.x"));
  EXPECT_TRUE(is_virtual_thread("vthread"));
  EXPECT_TRUE(is_virtual_thread("vthread.y"));
  EXPECT_FALSE(is_virtual_thread("threadIdx.x"));
  EXPECT_FALSE(is_thread_axis("threadIdx"));
  EXPECT_FALSE(is_virtual_thread("vthread.w"));
}

TEST(ThreadAxes, DependOnTheKindOfTarget) {
  const Target cpu = *parse_target("x86-64-avx2"), gpu = *parse_target("cuda");
  EXPECT_TRUE(has_thread_axis(gpu, "blockIdx.x"));
  EXPECT_FALSE(has_thread_axis(cpu, "blockIdx.x"));
  EXPECT_TRUE(has_thread_axis(cpu, "vthread.x"));
  EXPECT_FALSE(has_thread_axis(gpu, "warp"));
}

}  // namespace
}  // namespace fettle
