#pragma once
// How long a call takes: repeated until the estimate is tight, or the call is plainly slower than the best.

#include <cstdint>
#include <functional>
#include <vector>

namespace fettle {

struct TimingOptions {
  double incumbent_s = 0;           // the best so far; 0: none, nothing is raced out
  double reference_s = 0;           // of time_beside: what the reference counts as
  double target_half_width = 0.02;  // of the 95 % interval of the median, relative to it
  double batch_s = 2e-4;            // calls are timed in batches of about this length
  int min_samples = 5;              // batches, unless raced out or out of time
  int max_samples = 300;
  double max_seconds = 0.3;  // in all; at least three batches are timed even so
  /// Before each sample, which is then a single call, so much memory is written, untimed: what the call reads is no
  /// longer in this core's caches. 0: caches stay warm.
  int64_t flush_bytes = 0;
};

struct Timing {
  double median_s = 0;
  double min_s = 0;
  double half_width = 0;  // relative; 0 where there is one sample
  int64_t samples = 0;
  int64_t calls = 0;  // the warm-up included
  bool raced_out = false;
  bool beside = false;  // by time_beside, and then:
  double pace = 1;      // of the machine: what the reference took meanwhile over reference_s
  int32_t status = 0;   // of the first call that failed: then nothing else counts
};

/// What to go by: the median or, where that is not tight, since something else ran as well, the fastest batch.
double usual_seconds(double median_s, double min_s, double half_width);

/// Of these paces (Timing::pace), which it sorts, that of the machine when little else ran: a tenth are lower. At most
/// 1, and 1 where there are fewer than 8. Times in units of a reference that was first timed while the machine was busy
/// are too long by its inverse.
double quiet_pace(std::vector<double>& paces);

/// What makes so many calls, one behind the other, and says how long all took, by whatever clock it has.
struct CallTimes {
  double seconds = 0;
  int32_t status = 0;  // of the first that failed
};
using TimeCalls = std::function<CallTimes(int64_t calls)>;

/// In seconds, of which differences count: while the machine is awake, and while it sleeps. Neither follows the wall
/// clock, which may jump.
struct Clocks {
  double (*awake_s)();
  double (*asleep_s)();
};
Clocks system_clocks();

/// Calls of this process, by its clock. `prepare` comes before each sample, untimed; then options.flush_bytes are
/// written.
TimeCalls by_clock(std::function<int32_t()> call, const TimingOptions& options, const Clocks& clocks = system_clocks(),
                   std::function<void()> prepare = {});

/// Calls `call` (0: success) at least twice: once to warm up, then timed. But for a first call of more than 10 times
/// the incumbent's time, and 20 ms above it: that is raced out by itself.
///
/// A sample during which the machine went to sleep is dropped and taken again.
///
/// Raced out, with n samples: n = 1 and 1.5 times the incumbent's time is exceeded, up to 4 times by each of three
/// calls; 3 <= n < 6 and even the fastest
/// exceeds 1.15 times; n >= 6 and the lower end of the median's 95 % interval exceeds 1.03 times.
Timing time_call(const std::function<int32_t()>& call, const TimingOptions& options,
                 const Clocks& clocks = system_clocks());
/// The same of what has a clock of its own; it empties caches itself, where they are to be empty.
Timing time_call(const TimeCalls& calls, const TimingOptions& options, const Clocks& clocks = system_clocks());

/// As time_call, in turn with a reference, sample by sample: what else the machine does slows both. The times are
/// reference_s times the ratio of the two, of which the median and its interval are taken (min_s is the median, too). A
/// first call of more than 4 times incumbent_s is judged by that alone. A sample begins with what the other left in the
/// caches, as a kernel of a model does. Raced out: with 1.08 for 1.15 and 1 for 1.03, since ratios vary less. Samples
/// are a quarter as long.
Timing time_beside(const std::function<int32_t()>& call, const std::function<int32_t()>& reference,
                   const TimingOptions& options, const Clocks& clocks = system_clocks());
Timing time_beside(const TimeCalls& calls, const TimeCalls& reference, const TimingOptions& options,
                   const Clocks& clocks = system_clocks());

/// Median and its 95 % interval from order statistics (Conover, Practical Nonparametric Statistics, 3.2); with fewer
/// than six samples the interval is their range. Sorts `samples`, of which there is at least one.
struct MedianInterval {
  double median = 0, low = 0, high = 0;
};
MedianInterval median_interval(std::vector<double>& samples);

}  // namespace fettle
