#include "driver/machine_peaks.h"

#include <algorithm>
#include <chrono>
#include <numeric>
#include <thread>

#include "cost/canonical_atoms.h"
#include "measure/local_kernel.h"
#include "measure/timing.h"

namespace fettle {
namespace {

constexpr double kSliceSeconds = 0.1;            // of each measurement
constexpr double kLongestThreadsSeconds = 0.5;   // spent on building a kernel for each thread
constexpr double kLargestBuffer = 96 << 20;      // filling takes time

/// Least seconds of one call.
Result<double> time_kernel(LocalKernel& kernel) {
  TimingOptions options;
  options.batch_s = 5e-4;
  options.min_samples = 20;
  options.target_half_width = 0.002;
  options.max_seconds = kSliceSeconds;
  const Timing timing = time_call([&] { return kernel.call(); }, options);
  if (timing.status != 0) return fail(ErrorCode::E710, "a program that measures the machine failed");
  return timing.min_s;
}

/// Calls a second while all kernels run at once, each on a thread of its own; summed.
double calls_a_second(std::vector<LocalKernel>& kernels) {
  using Clock = std::chrono::steady_clock;
  const auto end = Clock::now() + std::chrono::duration<double>(kSliceSeconds);
  std::vector<double> rates(kernels.size());
  std::vector<std::thread> threads;
  for (size_t i = 0; i < kernels.size(); ++i)
    threads.emplace_back([&, i] {
      kernels[i].call();
      // The best batch of a few calls; every thread works for the whole slice.
      while (Clock::now() < end) {
        const auto begin = Clock::now();
        for (int n = 0; n < 20; ++n) kernels[i].call();
        rates[i] = std::max(rates[i], 20 / std::chrono::duration<double>(Clock::now() - begin).count());
      }
    });
  for (std::thread& thread : threads) thread.join();
  return std::accumulate(rates.begin(), rates.end(), 0.0);
}

}  // namespace

Result<MachinePeaks> measure_peaks(const Target& target) {
  using Clock = std::chrono::steady_clock;
  const int lanes = target.vector_lanes(4);
  const auto cache = std::make_shared<ObjectCache>();
  MachinePeaks peaks;

  // The tile that fills the registers best; its panels take some 20 KB.
  CanonicalAtom atom{.rows = target.vector_registers >= 32 ? 14 : 6, .vectors = 2};
  atom.depth = 128;
  atom.mode = RowMode::kPacked;
  const double flops_a_call = 2.0 * atom.rows * atom.vectors * lanes * static_cast<double>(atom.depth) * atom.calls();
  FETTLE_TRY(const Func program, canonical_atom(atom, lanes));
  std::vector<LocalKernel> kernels;
  const auto begin = Clock::now();
  for (int i = 0; i < target.threads; ++i) {
    if (i > 1 && std::chrono::duration<double>(Clock::now() - begin).count() > kLongestThreadsSeconds) break;
    FETTLE_TRY(LocalKernel kernel, LocalKernel::build(program, target, {.cache = cache}));
    kernels.push_back(std::move(kernel));
  }
  FETTLE_TRY(const double seconds, time_kernel(kernels.front()));
  peaks.flops = flops_a_call / seconds;
  peaks.threads = static_cast<int>(kernels.size());
  peaks.all_flops = peaks.threads == 1 ? peaks.flops : flops_a_call * calls_a_second(kernels);

  for (size_t level = 0; level <= target.caches.size(); ++level) {
    const bool memory = level == target.caches.size();
    const double inner = level == 0 ? 0 : static_cast<double>(target.caches[level - 1].size_bytes);
    const double outer = memory ? 16 * inner : static_cast<double>(target.caches[level].size_bytes);
    // Together well beyond the level before, and at most three quarters of this one.
    const double bytes = std::min({0.375 * outer, std::max(1.5 * inner, 0.3 * outer), memory ? 2 * inner : outer, kLargestBuffer});
    if (2 * bytes < 1.5 * inner) continue;
    const int64_t elems = std::max<int64_t>(1, static_cast<int64_t>(bytes / 4) / (4 * lanes)) * 4 * lanes;
    FETTLE_TRY(const Func copy, canonical_copy(elems, lanes));
    FETTLE_TRY(LocalKernel kernel, LocalKernel::build(copy, target, {.cache = cache}));
    FETTLE_TRY(const double copy_seconds, time_kernel(kernel));
    peaks.copies.push_back({.level = memory ? 0 : static_cast<int>(level) + 1,
                            .buffer_bytes = static_cast<double>(elems) * 4,
                            .bytes_per_second = static_cast<double>(elems) * 8 / copy_seconds});
  }
  return peaks;
}

}  // namespace fettle
