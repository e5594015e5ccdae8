#include "driver/streams.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "rt/abi.h"
#include "rt/model.h"

namespace fettle {
namespace {

/// How often the model below ran, and after how many runs it fails.
struct Told {
  std::atomic<int> runs{0}, at_once{0}, most_at_once{0}, fails_after{-1};
  std::atomic<bool> waits{false};
};
Told told;

int32_t counted(FettleContext*, void** buffers, const int64_t*) {
  const int now = ++told.at_once;
  for (int most = told.most_at_once; now > most && !told.most_at_once.compare_exchange_weak(most, now);) {
  }
  static_cast<float*>(buffers[0])[0] = 1;
  // The first that are timed wait for one another.
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (told.waits && told.runs >= 3 && told.most_at_once < 3 && std::chrono::steady_clock::now() < until)
    std::this_thread::yield();
  --told.at_once;
  const int run = ++told.runs;
  return told.fails_after >= 0 && run > told.fails_after ? FETTLE_KERNEL_FAILED : FETTLE_OK;
}

Model model() {
  static constexpr int64_t kShape[] = {1};
  static FettleTensor y;
  y.struct_bytes = sizeof y;
  y.name = "y";
  y.dtype = FETTLE_F32;
  y.rank = 1;
  y.shape = kShape;
  auto info = std::make_shared<FettleModelInfo>();
  info->magic = FETTLE_MAGIC;
  info->abi_version = FETTLE_ABI_VERSION;
  info->struct_bytes = sizeof *info;
  info->name = "counted";
  info->target_features = "";
  info->outputs = &y;
  info->n_outputs = 1;
  info->default_threads = 1;
  info->arena_bytes = 64;
  info->entry = counted;
  info->functions = &fettle_rt_functions;
  return std::move(*Model::make(info));
}

TEST(TimeStreams, AllRunAtOnceAndAreCounted) {
  told.runs = told.at_once = told.most_at_once = 0;
  told.fails_after = -1;
  told.waits = true;
  const auto times = time_streams(model(), {}, 3, 0.05);
  ASSERT_TRUE(times) << times.error().to_string();
  EXPECT_EQ(times->runs + 3, told.runs) << "each has run once before";
  EXPECT_GE(times->runs, 3);
  EXPECT_EQ(told.most_at_once, 3);
  EXPECT_GT(times->runs_per_second, 0);
  EXPECT_LE(times->median_ms, times->p90_ms);
  EXPECT_LE(times->p90_ms, times->p99_ms);
  EXPECT_LE(times->p99_ms, times->max_ms);
}

TEST(TimeStreams, AFailureEndsAll) {
  told.runs = told.at_once = told.most_at_once = 0;
  told.fails_after = 20;
  told.waits = false;
  const auto times = time_streams(model(), {}, 3, 3600);
  ASSERT_FALSE(times);
  EXPECT_EQ(times.error().code, ErrorCode::E710);
  told.fails_after = 0;
  EXPECT_EQ(time_streams(model(), {}, 3, 3600).error().code, ErrorCode::E710);
  EXPECT_EQ(time_streams(model(), {}, 0, 1).error().code, ErrorCode::E709);
  EXPECT_EQ(time_streams(model(), {}, 1, 0).error().code, ErrorCode::E709);
}

TEST(Quantile, OfFewAndMany) {
  EXPECT_EQ(quantile({7}, 0), 7);
  EXPECT_EQ(quantile({7}, 0.99), 7);
  const std::vector<double> ten = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10};
  EXPECT_EQ(quantile(ten, 0.5), 5);
  EXPECT_EQ(quantile(ten, 0.9), 9);
  EXPECT_EQ(quantile(ten, 0.99), 10);
  EXPECT_EQ(quantile(ten, 1), 10);
}

}  // namespace
}  // namespace fettle
