#include "report/least_time.h"

#include <gtest/gtest.h>

namespace fettle {
namespace {

Target two_levels() {
  Target target;
  target.caches = {{.size_bytes = 32 << 10}, {.size_bytes = 1 << 20}};
  return target;
}

MachinePeaks peaks() {
  MachinePeaks peaks;
  peaks.fp32 = {1e11, 2e11};
  peaks.operations = {5e10, 1e11};
  peaks.threads = 2;
  peaks.memory = {{.level = 1, .copied = {4e11, 8e11}, .read = {4e11, 8e11}},
                  {.level = 2, .copied = {1e11, 2e11}, .read = {2e11, 4e11}},
                  {.level = 0, .copied = {1e10, 1.5e10}, .read = {2e10, 3e10}}};
  return peaks;
}

TEST(LeastTime, OfArithmetic) {
  const NecessaryWork work{.flops = 1e9, .read_bytes = 1e3, .written_bytes = 1e3};
  const LeastTime one = least_time(work, two_levels(), peaks(), 1);
  EXPECT_DOUBLE_EQ(one.seconds, 1e-2);
  EXPECT_EQ(one.by, "fp32");
  EXPECT_DOUBLE_EQ(least_time(work, two_levels(), peaks(), 2).seconds, 5e-3);
}

TEST(LeastTime, OfAllArithmetic) {
  const NecessaryWork work{.flops = 1e9, .operations = 6e8};
  const LeastTime one = least_time(work, two_levels(), peaks(), 1);
  EXPECT_DOUBLE_EQ(one.seconds, 1.2e-2);
  EXPECT_EQ(one.by, "operations");
}

TEST(LeastTime, OfMultiplications) {
  const NecessaryWork work{.flops = 1e9, .operations = 5e8, .products = 6e8};
  const LeastTime one = least_time(work, two_levels(), peaks(), 1);
  EXPECT_DOUBLE_EQ(one.seconds, 1.2e-2);
  EXPECT_EQ(one.by, "products");
}

TEST(LeastTime, OfProductsInPartsWhereThereIsATileUnit) {
  MachinePeaks known = peaks();
  known.bf16 = {1.2e12, 2.4e12};
  Target target = two_levels();
  const NecessaryWork work{.flops = 1e9, .operations = 6e8};
  EXPECT_EQ(least_time(work, target, known, 1).by, "operations") << "without the unit";
  target.features = "+amx-bf16,+amx-tile";
  const LeastTime split = least_time(work, target, known, 1);
  EXPECT_DOUBLE_EQ(split.seconds, 1e9 / 2e11);
  EXPECT_EQ(split.by, "split products");
  const LeastTime rest = least_time({.flops = 1e9, .operations = 5e8 + 4e8, .products = 5e8 + 1e8}, target, known, 1);
  EXPECT_DOUBLE_EQ(rest.seconds, 4e8 / 5e10) << "what is no product is left to the vector units";
  EXPECT_EQ(rest.by, "operations");
}

TEST(LeastTime, OfReadingAndOfCopying) {
  // Within the first-level cache.
  EXPECT_DOUBLE_EQ(least_time({.read_bytes = 2e4, .written_bytes = 1e3}, two_levels(), peaks(), 1).seconds, 2e4 / 4e11);
  // As much written as read: the copy takes longer than reading does.
  const LeastTime copy = least_time({.read_bytes = 1e8, .written_bytes = 1e8}, two_levels(), peaks(), 1);
  EXPECT_EQ(copy.by, "memory");
  EXPECT_NEAR(copy.seconds, 2e8 / 1e10, 0.01 * copy.seconds) << "little of it is in the caches";
  // Two threads have two second-level caches.
  const NecessaryWork large{.read_bytes = 1.9e6, .written_bytes = 4};
  EXPECT_EQ(least_time(large, two_levels(), peaks(), 1).by, "memory");
  EXPECT_EQ(least_time(large, two_levels(), peaks(), 2).by, "L2");
}

TEST(LeastTime, OfThreadsHasThemForkAndJoin) {
  MachinePeaks known = peaks();
  known.fork_join_s = 1e-6;
  const NecessaryWork large{.flops = 1e9}, small{.flops = 1e3};
  EXPECT_DOUBLE_EQ(least_time(large, two_levels(), known, 2).seconds, 5e-3 + 1e-6);
  EXPECT_DOUBLE_EQ(least_time(small, two_levels(), known, 2).seconds, 1e-8) << "one thread is faster";
}

TEST(LeastTime, IsUnknownWithoutPeaks) {
  EXPECT_EQ(least_time({.flops = 1e9, .read_bytes = 1e3}, two_levels(), {}, 1).seconds, 0);
}

}  // namespace
}  // namespace fettle
