#pragma once

#include <memory>
#include <string>

namespace fettle::bench {

/// Measures how many floating-point operations a second this machine can do at best, in slices short enough to be
/// interleaved with what is timed: a loop of independent fused multiply-adds on registers only, fp32, with the widest
/// vectors the processor has (AVX-512, AVX2 with FMA, else scalar). One multiply-add counts as two operations.
class PeakMeter {
 public:
  /// threads: how many cores work at once; rates are summed over them. The helper threads sleep between slices.
  explicit PeakMeter(int threads = 1);
  ~PeakMeter();
  PeakMeter(const PeakMeter&) = delete;
  PeakMeter& operator=(const PeakMeter&) = delete;

  /// Works for about duration_ns on every thread; returns the rate reached, in GFLOP/s, summed over the threads.
  double slice(double duration_ns);

  /// The best rate any slice has reached so far, in GFLOP/s; 0 before the first.
  double best() const { return best_; }

  int threads() const { return threads_; }

 private:
  struct Team;
  int threads_;
  double best_ = 0;
  std::unique_ptr<Team> team_;
};

/// The vectors that PeakMeter uses here: "avx512", "avx2" or "scalar".
std::string peak_isa();

}  // namespace fettle::bench
