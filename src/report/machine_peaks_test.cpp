#include "report/machine_peaks.h"

#include <gtest/gtest.h>

#include "report/peak_loops.h"

namespace fettle {
namespace {

TEST(MachinePeaks, NumbersAndBack) {
  MachinePeaks peaks;
  peaks.fp32 = {1e11, 2e11};
  peaks.operations = {5e10, 1e11};
  peaks.int8 = {4e11, 8e11};
  peaks.threads = 2;
  peaks.fork_join_s = 1e-6;
  peaks.memory = {{1, 14e3, {2e11, 4e11}, {3e11, 5e11}}, {0, 9e7, {1e10, 1.5e10}, {2e10, 2.5e10}}};
  const auto again = MachinePeaks::from_numbers(peaks.to_numbers());
  ASSERT_TRUE(again);
  EXPECT_EQ(again->to_numbers(), peaks.to_numbers());
  EXPECT_EQ(again->memory.at(1).copied.all_threads, 1.5e10);
  EXPECT_EQ(again->fork_join_s, 1e-6);
  EXPECT_EQ(again->operations.all_threads, 1e11);
  EXPECT_EQ(again->int8.one_thread, 4e11);
  EXPECT_EQ(again->memory.at(1).read.one_thread, 2e10);
  std::vector<double> other = peaks.to_numbers();
  other[0] += 1;
  EXPECT_FALSE(MachinePeaks::from_numbers(other)) << "of another version";
  EXPECT_FALSE(MachinePeaks::from_numbers(std::vector<double>{1, 2, 3}));
}

TEST(PeakLoops, RunWhereTheProcessorHasThem) {
  for (const PeakLoop& loop : {fp32_loop(), int8_loop(), bf16_loop()}) {
    EXPECT_EQ(loop.run == nullptr, loop.instruction.empty());
    if (loop.run) loop.run(3);
    if (loop.run) {
      EXPECT_GT(loop.ops, 0);
    }
  }
}

}  // namespace
}  // namespace fettle
