#include "measure/timing.h"

#include <time.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <utility>

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
/// Samples in turn are so much shorter: what disturbs them is then more often in neither or in both.
constexpr double kShorter = 4;

double read_s(clockid_t clock) {
  timespec time{};
  ::clock_gettime(clock, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}
double awake_s() { return read_s(CLOCK_MONOTONIC); }
double asleep_s() { return read_s(CLOCK_BOOTTIME) - read_s(CLOCK_MONOTONIC); }

/// By how much what is plainly slower exceeds the incumbent: one estimate, the fastest of at least three samples, and
/// the lower end of the interval of at least six. Ratios to a reference vary less.
struct Margins {
  double one, few, many;
};
constexpr Margins kAlone{1.5, 1.15, 1.03}, kBeside{1.5, 1.08, 1.0};

bool plainly_slower(size_t n, const MedianInterval& interval, double fastest, double incumbent_s,
                    const Margins& margins) {
  if (incumbent_s <= 0) return false;
  if (n >= 6) return interval.low > margins.many * incumbent_s;
  if (n >= 3) return fastest > margins.few * incumbent_s;
  return n == 1 && fastest > margins.one * incumbent_s;
}

}  // namespace

Clocks system_clocks() { return {awake_s, asleep_s}; }

double usual_seconds(double median_s, double min_s, double half_width) {
  constexpr double kTight = 0.04;
  return half_width <= kTight || min_s <= 0 ? median_s : min_s;
}

double quiet_pace(std::vector<double>& paces) {
  constexpr size_t kFewest = 8;
  if (paces.size() < kFewest) return 1;
  std::sort(paces.begin(), paces.end());
  return std::min(1.0, paces[paces.size() / 10]);
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

/// Times calls, and counts them in a Timing.
class Stopwatch {
 public:
  Stopwatch(const TimingOptions& options, const Clocks& clocks, Timing& timing)
      : options_(options), clocks_(clocks), timing_(timing), begin_s_(clocks.awake_s()) {}

  /// Seconds of one of so many calls.
  double time(const TimeCalls& call, int64_t calls) {
    for (int sleeps = 0;; ++sleeps) {
      if (failed()) return 0;
      const double asleep = clocks_.asleep_s();
      const CallTimes times = call(calls);
      timing_.status = times.status;
      timing_.calls += calls;
      if (clocks_.asleep_s() - asleep > kSleepSeconds && sleeps < kMaxSleeps) continue;
      return times.seconds / static_cast<double>(calls);
    }
  }
  double quicker(double seconds, const TimeCalls& call) { return std::max(std::min(seconds, time(call, 1)), 1e-9); }

  bool failed() const { return timing_.status != 0; }
  double elapsed_s() const { return clocks_.awake_s() - begin_s_; }
  int64_t calls_for(double call_s) const {
    const double wanted = options_.flush_bytes > 0 ? 1 : std::ceil(options_.batch_s / call_s);
    return static_cast<int64_t>(std::clamp(wanted, 1.0, 1e6));
  }

 private:
  const TimingOptions& options_;
  const Clocks& clocks_;
  Timing& timing_;
  const double begin_s_;
};

bool hopeless_when_cold(double cold_s, double incumbent_s) {
  return incumbent_s > 0 && cold_s > kHopelessCold * incumbent_s && cold_s > incumbent_s + kHopelessColdSeconds;
}

void race_out(Timing& timing, double seconds) {
  timing.median_s = timing.min_s = seconds;
  timing.samples = 1;
  timing.raced_out = true;
}

// What `samples`, which it sorts, say; whether they are enough.
bool settled(Timing& timing, std::vector<double>& samples, double incumbent, const Margins& margins,
             const TimingOptions& options, double elapsed_s) {
  const MedianInterval interval = median_interval(samples);
  const size_t n = samples.size();
  timing.median_s = interval.median;
  timing.min_s = samples.front();
  timing.half_width = (interval.high - interval.low) / 2 / interval.median;
  timing.samples = static_cast<int64_t>(n);
  timing.raced_out = plainly_slower(n, interval, samples.front(), incumbent, margins);
  if (timing.raced_out) return true;
  if (static_cast<int>(n) >= options.min_samples && timing.half_width <= options.target_half_width) return true;
  return static_cast<int>(n) >= options.max_samples || (n >= 3 && elapsed_s >= options.max_seconds);
}

}  // namespace

TimeCalls by_clock(std::function<int32_t()> call, const TimingOptions& options, const Clocks& clocks,
                   std::function<void()> prepare) {
  const auto caches = std::make_shared<CacheFlusher>(options.flush_bytes);
  return [call = std::move(call), prepare = std::move(prepare), caches, clocks](int64_t calls) {
    if (prepare) prepare();
    caches->flush();
    CallTimes times;
    const double start = clocks.awake_s();
    for (int64_t i = 0; i < calls && times.status == 0; ++i) times.status = call();
    times.seconds = clocks.awake_s() - start;
    return times;
  };
}

Timing time_call(const std::function<int32_t()>& call, const TimingOptions& options, const Clocks& clocks) {
  return time_call(by_clock(call, options, clocks), options, clocks);
}

Timing time_beside(const std::function<int32_t()>& call, const std::function<int32_t()>& reference,
                   const TimingOptions& options, const Clocks& clocks) {
  return time_beside(by_clock(call, options, clocks), by_clock(reference, options, clocks), options, clocks);
}

Timing time_call(const TimeCalls& call, const TimingOptions& options, const Clocks& clocks) {
  Timing timing;
  Stopwatch watch(options, clocks, timing);
  const double best_s = options.incumbent_s;
  const double cold_s = watch.time(call, 1);
  if (watch.failed()) return timing;
  if (hopeless_when_cold(cold_s, best_s)) return race_out(timing, cold_s), timing;
  // A first call much slower than the incumbent gets one more chance; a fast one says how long a batch must be.
  const double warm_s = watch.time(call, 1);
  if (watch.failed()) return timing;
  std::vector<double> samples;
  double estimate_s = std::max(std::min(cold_s, warm_s), 1e-9);
  // What caches and threads were not ready for may well be twice as long.
  if (plainly_slower(1, {}, estimate_s, best_s, kAlone) && estimate_s < kHopeless * best_s)
    estimate_s = watch.quicker(estimate_s, call);
  if (watch.failed()) return timing;
  if (plainly_slower(1, {}, estimate_s, best_s, kAlone)) return race_out(timing, estimate_s), timing;
  const int64_t batch = watch.calls_for(estimate_s);
  if (batch == 1) samples.push_back(warm_s);
  do {
    samples.push_back(watch.time(call, batch));
  } while (!watch.failed() && !settled(timing, samples, best_s, kAlone, options, watch.elapsed_s()));
  return timing;
}

Timing time_beside(const TimeCalls& call, const TimeCalls& reference, const TimingOptions& options,
                   const Clocks& clocks) {
  FETTLE_CHECK(options.reference_s > 0);
  const double best_s = options.incumbent_s, unit_s = options.reference_s;
  Timing timing;
  timing.beside = true;
  Stopwatch watch(options, clocks, timing);
  const double cold_s = watch.time(call, 1);
  if (watch.failed()) return timing;
  if (hopeless_when_cold(cold_s, best_s)) return race_out(timing, cold_s), timing;
  double estimate_s = watch.quicker(cold_s, call);
  if (watch.failed()) return timing;
  if (best_s > 0 && estimate_s > kHopeless * best_s) return race_out(timing, estimate_s), timing;
  double now_s = watch.quicker(watch.time(reference, 1), reference);
  const auto slower = [&] { return plainly_slower(1, {}, estimate_s, best_s * now_s / unit_s, kBeside); };
  if (slower()) {
    estimate_s = watch.quicker(estimate_s, call);
    now_s = watch.quicker(now_s, reference);
  }
  if (watch.failed()) return timing;
  timing.pace = now_s / unit_s;
  if (slower()) return race_out(timing, estimate_s / timing.pace), timing;

  const int64_t calls = watch.calls_for(kShorter * estimate_s), reference_calls = watch.calls_for(kShorter * now_s);
  std::vector<double> ratios, paces;
  for (bool candidate_first = false;; candidate_first = !candidate_first) {
    double own_s = candidate_first ? watch.time(call, calls) : 0;
    const double other_s = watch.time(reference, reference_calls);
    if (!candidate_first) own_s = watch.time(call, calls);
    if (watch.failed()) return timing;
    ratios.push_back(own_s / other_s);
    paces.push_back(other_s / unit_s);
    if (settled(timing, ratios, best_s / unit_s, kBeside, options, watch.elapsed_s())) break;
  }
  timing.pace = median_interval(paces).median;
  timing.median_s *= unit_s;
  timing.min_s = timing.median_s;
  return timing;
}

}  // namespace fettle
