#include "report/machine_peaks.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <numeric>
#include <thread>

#include "cost/predict/canonical_micro_kernels.h"
#include "measure/local_kernel.h"
#include "measure/timing.h"
#include "report/peak_loops.h"

namespace fettle {
namespace {

constexpr double kSliceSeconds = 0.1;   // of each measurement
constexpr double kBatchSeconds = 5e-4;  // of which it takes the best
constexpr double kNumbersVersion = 4;
constexpr double kLongestThreadsSeconds = 0.5;  // spent on building a kernel for each thread
constexpr double kLargestBuffer = 96 << 20;     // filling takes time

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

/// Calls a second while all works run at once, each on a thread of its own; summed.
double calls_a_second(const std::vector<std::function<void()>>& works) {
  using Clock = std::chrono::steady_clock;
  std::vector<double> rates(works.size());
  std::atomic<size_t> warm{0};
  const auto work = [&](size_t i) {
    works[i]();
    // All begin together, and every one works for the whole slice; the best batch counts.
    for (++warm; warm < works.size();) std::this_thread::yield();
    const auto end = Clock::now() + std::chrono::duration<double>(kSliceSeconds);
    for (auto begin = Clock::now(); begin < end;) {
      double seconds = 0;
      int n = 0;
      for (; seconds < kBatchSeconds; ++n) {
        works[i]();
        seconds = std::chrono::duration<double>(Clock::now() - begin).count();
      }
      rates[i] = std::max(rates[i], n / seconds);
      begin = Clock::now();
    }
  };
  std::vector<std::thread> threads;
  for (size_t i = 1; i < works.size(); ++i) threads.emplace_back(work, i);
  work(0);
  for (std::thread& thread : threads) thread.join();
  return std::accumulate(rates.begin(), rates.end(), 0.0);
}

/// `program` compiled once for each thread, as long as that does not take too long.
Result<std::vector<LocalKernel>> build_for_threads(const Func& program, const Target& target,
                                                   const std::shared_ptr<ObjectCache>& cache) {
  using Clock = std::chrono::steady_clock;
  std::vector<LocalKernel> kernels;
  const auto begin = Clock::now();
  for (int i = 0; i < target.threads; ++i) {
    if (i > 1 && std::chrono::duration<double>(Clock::now() - begin).count() > kLongestThreadsSeconds) break;
    FETTLE_TRY(LocalKernel kernel, LocalKernel::build(program, target, {.cache = cache}));
    kernels.push_back(std::move(kernel));
  }
  return kernels;
}

double calls_a_second(std::vector<LocalKernel>& kernels) {
  std::vector<std::function<void()>> works;
  for (LocalKernel& kernel : kernels) works.emplace_back([&kernel] { kernel.call(); });
  return calls_a_second(works);
}

PeakRate rate_of(const PeakLoop& loop, int threads) {
  if (!loop.run) return {};
  constexpr int64_t kTurns = 2000;
  const auto run = [&] { loop.run(kTurns); };
  const double ops = loop.ops * kTurns;
  return {ops * calls_a_second({run}),
          ops * calls_a_second(std::vector<std::function<void()>>(static_cast<size_t>(threads), run))};
}

/// Elements of a buffer of `bytes`, in whole rows of what reads and copies it.
int64_t elements_of(double bytes, int lanes) {
  const int64_t row = kReadVectors * lanes;
  return std::max<int64_t>(1, static_cast<int64_t>(bytes / 4) / row) * row;
}

/// A second, where a call of `program` moves `bytes`, and one of `part`, which each thread runs where all do,
/// `part_bytes`.
Result<PeakRate> rate_of(const Func& program, double bytes, const Func& part, double part_bytes, const Target& target,
                         int threads, const std::shared_ptr<ObjectCache>& cache) {
  FETTLE_TRY(LocalKernel kernel, LocalKernel::build(program, target, {.cache = cache}));
  FETTLE_TRY(const double seconds, time_kernel(kernel));
  PeakRate rate{bytes / seconds, bytes / seconds};
  if (threads == 1) return rate;
  FETTLE_TRY(std::vector<LocalKernel> parts, build_for_threads(part, target, cache));
  rate.all_threads = part_bytes * calls_a_second(parts);
  return rate;
}

/// One call of a program whose threads have next to nothing to do.
Result<double> fork_join_seconds(const Target& target, int threads, const std::shared_ptr<ObjectCache>& cache) {
  const int lanes = target.vector_lanes(4);
  FETTLE_TRY(const Func copy, canonical_copy(int64_t{4} * lanes * threads, lanes, threads));
  FETTLE_TRY(LocalKernel kernel, LocalKernel::build(copy, target, {.threads = threads, .cache = cache}));
  return time_kernel(kernel);
}

}  // namespace

std::vector<double> MachinePeaks::to_numbers() const {
  std::vector<double> numbers{kNumbersVersion, static_cast<double>(threads), fork_join_s};
  for (const PeakRate& rate : {fp32, operations, int8, bf16})
    numbers.insert(numbers.end(), {rate.one_thread, rate.all_threads});
  for (const MemoryRates& level : memory)
    numbers.insert(numbers.end(), {static_cast<double>(level.level), level.buffer_bytes, level.copied.one_thread,
                                   level.copied.all_threads, level.read.one_thread, level.read.all_threads});
  return numbers;
}

std::optional<MachinePeaks> MachinePeaks::from_numbers(std::span<const double> numbers) {
  constexpr size_t kHead = 11, kEach = 6;
  if (numbers.size() < kHead || numbers[0] != kNumbersVersion || (numbers.size() - kHead) % kEach != 0)
    return std::nullopt;
  MachinePeaks peaks;
  peaks.threads = static_cast<int>(numbers[1]);
  peaks.fork_join_s = numbers[2];
  peaks.fp32 = {numbers[3], numbers[4]};
  peaks.operations = {numbers[5], numbers[6]};
  peaks.int8 = {numbers[7], numbers[8]};
  peaks.bf16 = {numbers[9], numbers[10]};
  for (size_t i = kHead; i < numbers.size(); i += kEach)
    peaks.memory.push_back({.level = static_cast<int>(numbers[i]),
                            .buffer_bytes = numbers[i + 1],
                            .copied = {numbers[i + 2], numbers[i + 3]},
                            .read = {numbers[i + 4], numbers[i + 5]}});
  return peaks;
}

std::string peaks_key(int threads) { return "peaks " + std::to_string(threads); }

Result<MachinePeaks> measure_peaks(const Target& target) {
  const int lanes = target.vector_lanes(4);
  const auto cache = std::make_shared<ObjectCache>();
  MachinePeaks peaks;

  // The tile that fills the registers best; its panels take some 20 KB.
  CanonicalMicroKernel micro_kernel{.rows = target.vector_registers >= 32 ? 14 : 6, .vectors = 2};
  micro_kernel.depth = 128;
  micro_kernel.mode = RowMode::kPacked;
  const double flops_a_call = 2.0 * micro_kernel.rows * micro_kernel.vectors * lanes *
                              static_cast<double>(micro_kernel.depth) * micro_kernel.calls();
  FETTLE_TRY(const Func program, canonical_micro_kernel(micro_kernel, lanes));
  FETTLE_TRY(std::vector<LocalKernel> kernels, build_for_threads(program, target, cache));
  FETTLE_TRY(const double seconds, time_kernel(kernels.front()));
  peaks.threads = static_cast<int>(kernels.size());
  peaks.fp32.one_thread = flops_a_call / seconds;
  peaks.fp32.all_threads = peaks.threads == 1 ? peaks.fp32.one_thread : flops_a_call * calls_a_second(kernels);
  if (peaks.threads > 1) {
    FETTLE_TRY(peaks.fork_join_s, fork_join_seconds(target, peaks.threads, cache));
  }
  // Some processors add and multiply-add in units of their own.
  peaks.operations = rate_of(fp32_loop(), peaks.threads);
  peaks.operations.one_thread = std::max(peaks.operations.one_thread, peaks.fp32.one_thread / 2);
  peaks.operations.all_threads = std::max(peaks.operations.all_threads, peaks.fp32.all_threads / 2);
  peaks.int8 = rate_of(int8_loop(), peaks.threads);
  peaks.bf16 = rate_of(bf16_loop(), peaks.threads);

  for (size_t level = 0; level <= target.caches.size(); ++level) {
    const bool memory = level == target.caches.size();
    const double inner = level == 0 ? 0 : static_cast<double>(target.caches[level - 1].size_bytes);
    const double outer = memory ? 16 * inner : static_cast<double>(target.caches[level].size_bytes);
    // What threads share, each has a part of.
    const int sharing = memory ? peaks.threads : std::clamp(target.caches[level].shared_by_threads, 1, peaks.threads);
    // Together well beyond the level before, and at most three quarters of this one. No more of a large cache than that
    // takes: its further parts may be others'.
    const double enough = level == 0 ? outer : std::max(8, 2 * sharing) * inner;
    const double bytes = std::min(
        {0.375 * outer, std::max(1.5 * inner, 0.3 * outer), memory ? 2 * inner : outer, enough, kLargestBuffer});
    if (2 * bytes < 1.5 * inner) continue;
    const int64_t elems = elements_of(bytes, lanes), part = elements_of(bytes / sharing, lanes);
    const double moved = static_cast<double>(elems) * 8, part_moved = static_cast<double>(part) * 8;
    MemoryRates rates{.level = memory ? 0 : static_cast<int>(level) + 1, .buffer_bytes = moved / 2};
    FETTLE_TRY(const Func copy, canonical_copy(elems, lanes));
    FETTLE_TRY(const Func part_copy, canonical_copy(part, lanes));
    FETTLE_TRY(rates.copied, rate_of(copy, moved, part_copy, part_moved, target, peaks.threads, cache));
    FETTLE_TRY(const Func read, canonical_read(2 * elems, lanes));
    FETTLE_TRY(const Func part_read, canonical_read(2 * part, lanes));
    FETTLE_TRY(rates.read, rate_of(read, moved, part_read, part_moved, target, peaks.threads, cache));
    peaks.memory.push_back(rates);
  }
  return peaks;
}

}  // namespace fettle
