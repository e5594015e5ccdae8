#include "measure/timing.h"

#include <time.h>

#include <algorithm>
#include <cmath>

#include "base/check.h"

namespace fettle {
namespace {

/// Two clocks are read one after the other: less than this is no sleep.
constexpr double kSleepSeconds = 0.02;
/// So many times the incumbent's time are no accident of a first call.
constexpr double kHopeless = 4;
/// So many times, and so much longer, is no accident at all: nothing that is not ready at a first call takes that long.
constexpr double kHopelessCold = 10, kHopelessColdSeconds = 0.02;
/// Of one sample.
constexpr int kMaxSleeps = 8;

double read_s(clockid_t clock) {
  timespec time{};
  ::clock_gettime(clock, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}
double awake_s() { return read_s(CLOCK_MONOTONIC); }
double asleep_s() { return read_s(CLOCK_BOOTTIME) - read_s(CLOCK_MONOTONIC); }

bool plainly_slower(size_t n, const MedianInterval& interval, double fastest, double incumbent_s) {
  if (incumbent_s <= 0) return false;
  if (n >= 6) return interval.low > 1.03 * incumbent_s;
  if (n >= 3) return fastest > 1.15 * incumbent_s;
  return n == 1 && fastest > 1.5 * incumbent_s;
}

}  // namespace

Clocks system_clocks() { return {awake_s, asleep_s}; }

double usual_seconds(double median_s, double min_s, double half_width) {
  constexpr double kTight = 0.04;
  return half_width <= kTight || min_s <= 0 ? median_s : min_s;
}

MedianInterval median_interval(std::vector<double>& samples) {
  FETTLE_CHECK(!samples.empty());
  std::sort(samples.begin(), samples.end());
  const size_t n = samples.size();
  MedianInterval result{(samples[(n - 1) / 2] + samples[n / 2]) / 2, samples.front(), samples.back()};
  if (n < 6) return result;
  const double spread = 1.96 * std::sqrt(static_cast<double>(n));
  const auto below = static_cast<size_t>(std::max(0.0, std::floor((static_cast<double>(n) - spread) / 2)));
  result.low = samples[below];
  result.high = samples[n - 1 - below];
  return result;
}

namespace {

/// Memory written so that nothing else stays in the caches.
class CacheFlusher {
 public:
  explicit CacheFlusher(int64_t bytes) : lines_(static_cast<size_t>(std::max<int64_t>(0, bytes)) / kLine) {}
  void flush() {
    ++value_;
    for (Line& line : lines_) line.words[0] = value_;
  }

 private:
  static constexpr size_t kLine = 64;
  struct alignas(kLine) Line {
    volatile uint64_t words[kLine / sizeof(uint64_t)];
  };
  std::vector<Line> lines_;
  uint64_t value_ = 0;
};

}  // namespace

Timing time_call(const std::function<int32_t()>& call, const TimingOptions& options, const Clocks& clocks) {
  Timing timing;
  CacheFlusher caches(options.flush_bytes);
  const double begin = clocks.awake_s();
  const auto timed = [&](int64_t calls) {
    for (int sleeps = 0;; ++sleeps) {
      if (options.flush_bytes > 0) caches.flush();
      const double asleep = clocks.asleep_s(), start = clocks.awake_s();
      for (int64_t i = 0; i < calls && timing.status == 0; ++i) timing.status = call();
      timing.calls += calls;
      const double took_s = clocks.awake_s() - start;
      if (clocks.asleep_s() - asleep > kSleepSeconds && sleeps < kMaxSleeps) continue;
      return took_s / static_cast<double>(calls);
    }
  };

  const double cold_s = timed(1);
  if (timing.status != 0) return timing;
  if (options.incumbent_s > 0 && cold_s > kHopelessCold * options.incumbent_s &&
      cold_s > options.incumbent_s + kHopelessColdSeconds) {
    timing.median_s = timing.min_s = cold_s;
    timing.samples = 1;
    timing.raced_out = true;
    return timing;
  }
  // A first call much slower than the incumbent gets one more chance; a fast one says how long a batch must be.
  const double warm_s = timed(1);
  if (timing.status != 0) return timing;
  std::vector<double> samples;
  double estimate_s = std::max(std::min(cold_s, warm_s), 1e-9);
  // What caches and threads were not ready for may well be twice as long.
  if (plainly_slower(1, {}, estimate_s, options.incumbent_s) && estimate_s < kHopeless * options.incumbent_s) {
    estimate_s = std::max(std::min(estimate_s, timed(1)), 1e-9);
    if (timing.status != 0) return timing;
  }
  if (plainly_slower(1, {}, estimate_s, options.incumbent_s)) {
    timing.median_s = timing.min_s = estimate_s;
    timing.samples = 1;
    timing.raced_out = true;
    return timing;
  }
  const double wanted = options.flush_bytes > 0 ? 1 : std::ceil(options.batch_s / estimate_s);
  const auto batch = static_cast<int64_t>(std::clamp(wanted, 1.0, 1e6));
  if (batch == 1) samples.push_back(warm_s);

  for (;;) {
    samples.push_back(timed(batch));
    if (timing.status != 0) return timing;
    const MedianInterval interval = median_interval(samples);
    const size_t n = samples.size();
    timing.median_s = interval.median;
    timing.min_s = samples.front();
    timing.half_width = (interval.high - interval.low) / 2 / interval.median;
    timing.samples = static_cast<int64_t>(n);
    if (plainly_slower(n, interval, samples.front(), options.incumbent_s)) {
      timing.raced_out = true;
      return timing;
    }
    if (static_cast<int>(n) >= options.min_samples && timing.half_width <= options.target_half_width) return timing;
    if (static_cast<int>(n) >= options.max_samples) return timing;
    if (n >= 3 && clocks.awake_s() - begin >= options.max_seconds) return timing;
  }
}

}  // namespace fettle
