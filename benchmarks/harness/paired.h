#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "harness/peak.h"
#include "harness/statistics.h"

namespace fettle::bench {

/// One of several ways to do the same work.
struct Contender {
  std::string name;
  /// Does the work once.
  std::function<void()> run;
  /// Floating-point operations of one run, nominal; 0 if rates mean nothing here.
  double flops = 0;
  /// In place of `run` where the work is timed elsewhere (another process): does it once untimed, then `runs` times,
  /// and returns the mean time of one of these in ns.
  std::function<Result<double>(int runs)> timed = nullptr;
  /// Called before each round, untimed.
  std::function<void(int round)> prepare = nullptr;
};

/// The same work in several places of memory, in each for a round in turn. Which pages of the machine a buffer gets,
/// and what of them collides in a cache indexed by physical addresses, is luck: where a hypervisor hands out small
/// pages, it changes times by up to a fifth. E.g. contenders {run in A}, {run in B} → one that runs in A, B, A, …
Contender in_turn(std::vector<Contender> places);

struct PairedOptions {
  /// A batch repeats the work until it takes about this long, so that reading the clock does not count.
  double batch_ns = 1e6;
  /// Length of a slice of peak work; there is one before the first and one after each batch of a round.
  double peak_slice_ns = 2e5;
  /// Each batch follows one untimed run, unless a run takes longer than this and warms itself.
  double warm_below_ns = 2e7;
  int min_rounds = 15;
  int max_rounds = 400;
  /// No round begins after this many seconds, once min_rounds are done; nor, whatever is done, after five times as
  /// many.
  double time_limit_s = 3;
  /// Ends early once every time's and every ratio's half-width is at most this (0.003 = 0.3 %).
  double half_width = 0.003;
  /// A round in which some slice of peak work fell below this share of its usual best was disturbed, and is discarded
  /// ...
  double peak_floor = 0.97;
  /// ... as long as this many rounds are left; else the least disturbed ones are kept.
  int min_kept = 10;
};

/// One pass over all contenders, each once, next to each other in time.
struct Round {
  int number = 0;                   // counted from 0, those left out included
  std::vector<double> time_ns;      // of one run, by contender
  std::vector<double> peak_gflops;  // by contender: mean of the slices just before and just after its batch
  double lowest_peak = 0;           // of all slices in the round
};

/// What remains of a comparison. Contenders are named by their position.
struct PairedResult {
  std::vector<std::string> names;
  std::vector<double> flops;
  std::vector<int> runs_a_batch;
  std::vector<Round> rounds;  // those kept
  int discarded = 0;          // rounds dropped as disturbed
  bool disturbed = false;     // some of the rounds kept were disturbed as well, for want of quiet ones
  bool idle = true;           // other threads slept whenever a batch began

  /// Time of one run, ns.
  Estimate time_ns(std::size_t contender) const;
  /// Rate over the peak measured beside it (1 = peak).
  Estimate of_peak(std::size_t contender) const;
  /// The same where in_turn had `places`: the best of them alone.
  double of_peak_in_best(std::size_t contender, int places) const;
  /// Speed of a over the speed of b, paired by round (above 1: a is faster).
  Estimate speed_over(std::size_t a, std::size_t b) const;
  /// Peak rate over the rounds kept, GFLOP/s.
  Estimate peak_gflops() const;
  /// flops / median time, GFLOP/s.
  double gflops(std::size_t contender) const;
};

/// The rounds whose lowest peak is at least floor times the 90 % quantile of all rounds' lowest peaks; if these are
/// fewer than min_kept, the min_kept rounds with the highest. Order is kept.
std::vector<Round> quiet_rounds(const std::vector<Round>& rounds, double floor, int min_kept);

/// Times the contenders in rounds: a slice of peak work, then for each contender (in an order that rotates from round
/// to round) a wait until other threads sleep, an untimed run, a timed batch, and a slice of peak work. Comparing
/// within a round cancels slow drift of a shared machine; rounds in which the peak itself fell are left out. Errors:
/// those of a contender's `timed`.
Result<PairedResult> time_paired(std::span<const Contender> contenders, PeakMeter& peak,
                                 const PairedOptions& options = {});

}  // namespace fettle::bench
