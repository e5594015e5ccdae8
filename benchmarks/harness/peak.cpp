#include "harness/peak.h"

#include <immintrin.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <thread>
#include <vector>

namespace fettle::bench {
namespace {

using Clock = std::chrono::steady_clock;

// Each loop keeps 12 independent accumulators (latency 4, two units: 8 would do) in registers: `asm` pins every one of
// them, so that nothing is folded away, merged or spilled. acc = acc * x + y converges, so no value overflows or gets
// denormal.
constexpr int kAccumulators = 12;

__attribute__((target("avx512f"))) void fma_avx512(std::int64_t steps) {
  __m512 x = _mm512_set1_ps(0.5F);
  __m512 y = _mm512_set1_ps(0.25F);
  __m512 a0 = y, a1 = y, a2 = y, a3 = y, a4 = y, a5 = y, a6 = y, a7 = y, a8 = y, a9 = y, a10 = y, a11 = y;
  for (std::int64_t i = 0; i < steps; ++i) {
    asm volatile(
        "vfmadd213ps %[y], %[x], %[a0]\n\t"
        "vfmadd213ps %[y], %[x], %[a1]\n\t"
        "vfmadd213ps %[y], %[x], %[a2]\n\t"
        "vfmadd213ps %[y], %[x], %[a3]\n\t"
        "vfmadd213ps %[y], %[x], %[a4]\n\t"
        "vfmadd213ps %[y], %[x], %[a5]\n\t"
        "vfmadd213ps %[y], %[x], %[a6]\n\t"
        "vfmadd213ps %[y], %[x], %[a7]\n\t"
        "vfmadd213ps %[y], %[x], %[a8]\n\t"
        "vfmadd213ps %[y], %[x], %[a9]\n\t"
        "vfmadd213ps %[y], %[x], %[a10]\n\t"
        "vfmadd213ps %[y], %[x], %[a11]\n\t"
        : [a0] "+v"(a0), [a1] "+v"(a1), [a2] "+v"(a2), [a3] "+v"(a3), [a4] "+v"(a4), [a5] "+v"(a5), [a6] "+v"(a6),
          [a7] "+v"(a7), [a8] "+v"(a8), [a9] "+v"(a9), [a10] "+v"(a10), [a11] "+v"(a11)
        : [x] "v"(x), [y] "v"(y));
  }
}

__attribute__((target("avx2,fma"))) void fma_avx2(std::int64_t steps) {
  __m256 x = _mm256_set1_ps(0.5F);
  __m256 y = _mm256_set1_ps(0.25F);
  __m256 a0 = y, a1 = y, a2 = y, a3 = y, a4 = y, a5 = y, a6 = y, a7 = y, a8 = y, a9 = y, a10 = y, a11 = y;
  for (std::int64_t i = 0; i < steps; ++i) {
    asm volatile(
        "vfmadd213ps %[y], %[x], %[a0]\n\t"
        "vfmadd213ps %[y], %[x], %[a1]\n\t"
        "vfmadd213ps %[y], %[x], %[a2]\n\t"
        "vfmadd213ps %[y], %[x], %[a3]\n\t"
        "vfmadd213ps %[y], %[x], %[a4]\n\t"
        "vfmadd213ps %[y], %[x], %[a5]\n\t"
        "vfmadd213ps %[y], %[x], %[a6]\n\t"
        "vfmadd213ps %[y], %[x], %[a7]\n\t"
        "vfmadd213ps %[y], %[x], %[a8]\n\t"
        "vfmadd213ps %[y], %[x], %[a9]\n\t"
        "vfmadd213ps %[y], %[x], %[a10]\n\t"
        "vfmadd213ps %[y], %[x], %[a11]\n\t"
        : [a0] "+x"(a0), [a1] "+x"(a1), [a2] "+x"(a2), [a3] "+x"(a3), [a4] "+x"(a4), [a5] "+x"(a5), [a6] "+x"(a6),
          [a7] "+x"(a7), [a8] "+x"(a8), [a9] "+x"(a9), [a10] "+x"(a10), [a11] "+x"(a11)
        : [x] "x"(x), [y] "x"(y));
  }
}

void fma_scalar(std::int64_t steps) {
  float a[kAccumulators];
  std::fill(std::begin(a), std::end(a), 0.25F);
  for (std::int64_t i = 0; i < steps; ++i) {
    for (float& v : a) {
      v = v * 0.5F + 0.25F;
      asm volatile("" : "+x"(v));
    }
  }
}

struct Loop {
  const char* name;
  int lanes;
  void (*run)(std::int64_t steps);
};

const Loop& loop() {
  static const Loop chosen = [] {
    if (__builtin_cpu_supports("avx512f")) return Loop{"avx512", 16, fma_avx512};
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return Loop{"avx2", 8, fma_avx2};
    return Loop{"scalar", 1, fma_scalar};
  }();
  return chosen;
}

/// Runs the loop for about duration_ns on the calling thread; GFLOP/s. Works in chunks of some 10 µs, so that a
/// slice has the asked length whatever the clock rate is.
double work_for(double duration_ns) {
  constexpr std::int64_t kChunkSteps = 6000;
  const double flops_a_chunk = 2.0 * loop().lanes * kAccumulators * kChunkSteps;
  std::int64_t chunks = 0;
  const auto start = Clock::now();
  double elapsed_ns = 0;
  do {
    loop().run(kChunkSteps);
    ++chunks;
    elapsed_ns = std::chrono::duration<double, std::nano>(Clock::now() - start).count();
  } while (elapsed_ns < duration_ns);
  return flops_a_chunk * static_cast<double>(chunks) / elapsed_ns;
}

}  // namespace

/// The helper threads: they sleep on a condition variable between slices.
struct PeakMeter::Team {
  std::mutex mutex;
  std::condition_variable wake;
  std::condition_variable done;
  std::int64_t generation = 0;
  int working = 0;
  double duration_ns = 0;
  double rate = 0;
  bool stop = false;
  std::vector<std::thread> helpers;

  void help() {
    std::int64_t seen = 0;
    for (;;) {
      double duration;
      {
        std::unique_lock lock(mutex);
        wake.wait(lock, [&] { return stop || generation != seen; });
        if (stop) return;
        seen = generation;
        duration = duration_ns;
      }
      const double reached = work_for(duration);
      std::lock_guard lock(mutex);
      rate += reached;
      if (--working == 0) done.notify_one();
    }
  }
};

PeakMeter::PeakMeter(int threads) : threads_(std::max(1, threads)), team_(std::make_unique<Team>()) {
  for (int i = 1; i < threads_; ++i) team_->helpers.emplace_back([team = team_.get()] { team->help(); });
}

PeakMeter::~PeakMeter() {
  {
    std::lock_guard lock(team_->mutex);
    team_->stop = true;
  }
  team_->wake.notify_all();
  for (auto& helper : team_->helpers) helper.join();
}

double PeakMeter::slice(double duration_ns) {
  const int helpers = threads_ - 1;
  if (helpers > 0) {
    std::lock_guard lock(team_->mutex);
    team_->duration_ns = duration_ns;
    team_->working = helpers;
    team_->rate = 0;
    ++team_->generation;
    team_->wake.notify_all();
  }
  double rate = work_for(duration_ns);
  if (helpers > 0) {
    std::unique_lock lock(team_->mutex);
    team_->done.wait(lock, [&] { return team_->working == 0; });
    rate += team_->rate;
  }
  best_ = std::max(best_, rate);
  return rate;
}

std::string peak_isa() { return loop().name; }

}  // namespace fettle::bench
