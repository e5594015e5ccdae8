#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "harness/paired.h"
#include "harness/report.h"
#include "harness/shapes.h"

namespace fettle::bench {

/// So many copies of its buffers has each kernel that is compared: in_turn.
inline constexpr int kPlaces = 5;

/// Compiled code for one shape, ready to run on its own buffers, in its own layouts.
struct Kernel {
  /// One run: all work on activations, padding included; what depends on the weights alone is done in `load`.
  Contender contender;
  /// Sets the operands from plain tensors: row-major matrices; NCHW and OIHW.
  std::function<void(std::span<const float> source, std::span<const float> weights)> load;
  /// Copies the result of the last run into a plain tensor: row-major, NCHW.
  std::function<void(std::span<float> destination)> store;
};

/// What a tuning run brought forth.
struct Tuned {
  Kernel kernel;
  double seconds = 0;  // that it took, all in all
  int measured = 0;    // distinct candidates timed, to a half-width of 2 % or raced out
};

/// One candidate of the rule's space, drawn at random.
struct RandomCandidate {
  double predicted_ns = 0;  // by the micro-kernel table, before anything is compiled
  std::function<Result<Kernel>()> build;
};

struct CompileTimes {
  double nest_ms = 0;                   // with its micro-kernels cached
  std::vector<double> micro_kernel_ms;  // of each that the nest calls, missing from the cache; in a stable order
};

/// The compiler under test. What is left empty is left out of the report.
struct CoreSubject {
  std::function<Result<Kernel>(const Shape&, int threads)> hand;     // by the hand-written trace
  std::function<Result<Kernel>(const Shape&, int threads)> untuned;  // the rule's default
  std::function<Result<Tuned>(const Shape&, int threads, double limit_s)> tune;
  std::function<Result<std::vector<RandomCandidate>>(const Shape&, int count, std::uint64_t seed)> candidates;
  std::function<Result<CompileTimes>(const Shape&)> compile;
  /// Micro-kernels whose operands lie in the first-level cache: what the peak becomes once operands are loaded.
  std::function<Result<std::vector<Contender>>()> cached_micro_kernels;
  /// Measures the micro-kernel table as on a new machine; seconds.
  std::function<Result<double>()> measure_micro_kernels;
};

struct CoreOptions {
  std::string only;      // shapes whose name contains this
  double timing_s = 3;   // for each comparison
  double tuning_s = 20;  // for each shape
  double tuning_2_threads_s = 15;
  int candidates = 200;  // for each shape
  std::uint64_t seed = 1;
  bool progress = true;  // lines on standard error
};

/// By how much the best of the chosen is slower than the best of all: 0.02 = 2 %. The best of several is in part the
/// luckiest: which they are is said by one half of the rounds (medians), how far they are apart by the other (paired
/// ratio), and the other way round; a single round says both. Needs one that is chosen.
double loss_of_choosing(const PairedResult& timed, std::span<const bool> chosen);

/// How well a prediction serves to choose what to time.
struct Regret {
  double regret = 0;       // best of all over best of the five predicted best (loss_of_choosing), not negative
  double correlation = 0;  // rank correlation of predicted and measured times
  int measured = 0;        // candidates that could be built and timed
};

/// Builds and times every candidate, then times the measured ten best and the predicted five best again, side by side.
Result<Regret> measure_regret(const std::vector<RandomCandidate>& candidates, PeakMeter& peak, double timing_s);

/// Largest |a - b| over the largest |b|; NaN if some value is.
double relative_difference(std::span<const float> a, std::span<const float> b);

/// Runs the whole benchmark: for each shape the subject's kernels and oneDNN, side by side, after their results agreed
/// within 1e-4 of scale. What fails is said on standard error and stands as a figure that was not had.
Report run_core_benchmark(const CoreSubject& subject, const CoreOptions& options = {});

}  // namespace fettle::bench
