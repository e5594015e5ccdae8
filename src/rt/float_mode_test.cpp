#include "rt/float_mode.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

#include "rt/model.h"
#include "rt/team.h"
#include "rt/testing.h"

namespace fettle::rt {
namespace {

constexpr int32_t kCount = 64;
const int64_t shape[] = {kCount};
const FettleTensor input = tensor("x", FETTLE_F32, shape, 1), output = tensor("y", FETTLE_F32, shape, 1);

/// y = x / 2, on all threads.
int32_t halve(FettleContext* context, void** buffers, const int64_t*) {
  const auto body = [](void* closure, int64_t i) {
    void** b = static_cast<void**>(closure);
    volatile float half = 0.5f;
    static_cast<float*>(b[1])[i] = static_cast<const float*>(b[0])[i] * half;
  };
  fettle_parallel_for(context->team, kCount, body, buffers);
  return FETTLE_OK;
}

/// Each iteration on a thread of its own, which tells whether the body left its mode as it was.
struct HostThreads {
  std::atomic<bool> restored{true};
  FettleHostTeam team{};

  HostThreads() {
    team.struct_bytes = sizeof team;
    team.user = this;
    team.size = [](void*) { return int32_t{4}; };
    team.parallel_for = [](void* user, int64_t n, FettleBody body, void* closure) {
      std::vector<std::thread> threads;
      for (int64_t i = 0; i < n; ++i) {
        threads.emplace_back([=] {
          const FloatMode before = read_float_mode();
          body(closure, i);
          if (read_float_mode() != before) static_cast<HostThreads*>(user)->restored = false;
        });
      }
      for (std::thread& thread : threads) thread.join();
    };
  }
};

/// The outputs for an input of this number alone.
std::vector<float> halves_of(float x, FettleOptions options) {
  const FettleModelInfo info = describe("halver", &input, 1, &output, 1, halve);
  FettleModel* model = fettle_rt_open(&info, FETTLE_ABI_VERSION, &options);
  FettleContext* context = fettle_rt_create_context(model);
  std::vector<float> values(kCount, x), result(kCount, -1);
  FettleTensor in = input, out = output;
  in.data = values.data();
  out.data = result.data();
  EXPECT_EQ(fettle_rt_run(context, &in, &out), FETTLE_OK) << fettle_rt_error(context);
  fettle_rt_destroy_context(context);
  fettle_rt_close(model);
  return result;
}

std::vector<float> all(float value) { return std::vector<float>(kCount, value); }

TEST(FloatMode, DenormalsAreZeroUnlessTheyAreToBeKept) {
  for (const int32_t threads : {1, 3}) {
    FettleOptions options = make_options(threads);
    EXPECT_EQ(halves_of(0x1p-130f, options), all(0)) << "an operand";
    EXPECT_EQ(halves_of(0x1p-126f, options), all(0)) << "a result";
    EXPECT_EQ(halves_of(0x1p-125f, options), all(0x1p-126f)) << "neither";
    options.keep_denormals = 1;
    EXPECT_EQ(halves_of(0x1p-130f, options), all(0x1p-131f));
    EXPECT_EQ(halves_of(0x1p-126f, options), all(0x1p-127f));
  }
}

TEST(FloatMode, ThreadsOfTheHostComputeAsTheModelDoesAndAreLeftAsTheyWere) {
  HostThreads host;
  FettleOptions options = make_options(0);
  options.host_team = &host.team;
  EXPECT_EQ(halves_of(0x1p-130f, options), all(0));
  options.keep_denormals = 1;
  EXPECT_EQ(halves_of(0x1p-130f, options), all(0x1p-131f));
  EXPECT_TRUE(host.restored);
}

TEST(FloatMode, WhateverTheCallersModeIsItCountsForNothingAndIsLeftAlone) {
#if defined(__x86_64__)
  const FloatMode callers = kFlushesDenormals | 0x6000 | 0x20;  // towards zero; something was inexact
#else
  const FloatMode callers = kFlushesDenormals | 0xc00000;
#endif
  FettleOptions options = make_options(3);
  options.keep_denormals = 1;
  std::vector<float> halves;
  FloatMode after;
  {
    const FloatScope scope(callers);
    halves = halves_of(0x1.8p-148f, options);
    after = read_float_mode();
  }
  EXPECT_EQ(halves, all(0x1p-148f)) << "halves go to even";
  EXPECT_EQ(after, callers);
}

}  // namespace
}  // namespace fettle::rt
