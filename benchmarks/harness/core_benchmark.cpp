#include "harness/core_benchmark.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <limits>
#include <numeric>
#include <optional>

#include "harness/onednn.h"
#include "harness/quiesce.h"

namespace fettle::bench {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr std::size_t kPredictedBest = 5;
constexpr std::size_t kMeasuredBest = 10;

/// Small reproducible integers in [-4, 4]: their sums of products differ between orders of summation by rounding alone.
std::vector<float> integers(std::size_t count, std::uint32_t seed) {
  std::vector<float> out(count);
  std::uint32_t state = seed;
  for (float& value : out) {
    state = state * 1664525U + 1013904223U;
    value = static_cast<float>(static_cast<int>((state >> 16) % 9) - 4);
  }
  return out;
}

struct Sizes {
  std::size_t source;
  std::size_t weights;
  std::size_t destination;
};

Sizes sizes_of(const Shape& shape) {
  if (shape.matmul) {
    const auto& p = *shape.matmul;
    return {static_cast<std::size_t>(p.m * p.k), static_cast<std::size_t>(p.k * p.n),
            static_cast<std::size_t>(p.m * p.n)};
  }
  const auto& p = *shape.conv;
  return {static_cast<std::size_t>(p.batch * p.channels_in * p.height * p.width),
          static_cast<std::size_t>(p.channels_out * (p.channels_in / p.groups) * p.kernel * p.kernel),
          static_cast<std::size_t>(p.batch * p.channels_out * p.height_out() * p.width_out())};
}

/// Best of a few warm runs, ns: at least three, unless one takes a fifth of a second.
Result<double> quick_time(const Contender& contender) {
  using Clock = std::chrono::steady_clock;
  if (contender.timed) return contender.timed(3);
  quiesce();
  contender.run();
  double best = std::numeric_limits<double>::infinity();
  double total = 0;
  for (int i = 0; i < 200; ++i) {
    const auto start = Clock::now();
    contender.run();
    const double took = std::chrono::duration<double, std::nano>(Clock::now() - start).count();
    best = std::min(best, took);
    total += took;
    if (total > 2e8 || (i >= 2 && total > 1e7)) break;
  }
  return best;
}

/// The positions of the n smallest values.
std::vector<std::size_t> smallest(const std::vector<double>& values, std::size_t n) {
  std::vector<std::size_t> order(values.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return values[a] < values[b]; });
  order.resize(std::min(n, order.size()));
  return order;
}

class CoreBenchmark {
 public:
  CoreBenchmark(const CoreSubject& subject, const CoreOptions& options) : subject_(subject), options_(options) {}

  Report run() {
    if (subject_.measure_micro_kernels) {
      say("measuring the micro-kernel table");
      report_.add("measuring the micro-kernel table", value_of(subject_.measure_micro_kernels(), "micro-kernel table"),
                  "s", at_most(10));
    }
    if (subject_.cached_micro_kernels) cached_micro_kernels();
    for (const Shape& shape : core_shapes()) {
      if (shape.name.find(options_.only) != std::string::npos) compare(shape);
    }
    for (const Shape& shape : depthwise_shapes()) {
      if (subject_.untuned && shape.name.find(options_.only) != std::string::npos) compare_depthwise(shape);
    }
    for (const Shape& shape : core_shapes()) {
      if (shape.name.find(options_.only) == std::string::npos) continue;
      if (subject_.compile) compile(shape);
      if (subject_.candidates) regret(shape);
    }
    return std::move(report_);
  }

 private:
  void say(const std::string& line) const {
    if (options_.progress) fmt::print(stderr, "{}\n", line);
  }

  double value_of(const Result<double>& result, const std::string& what) const {
    if (result) return *result;
    fmt::print(stderr, "{}: {}\n", what, result.error().to_string());
    return kNan;
  }

  /// Some processors lower their clock where multiply-adds load their operands, even from the first-level cache: no
  /// kernel of products comes nearer to the peak than that.
  void cached_micro_kernels() {
    say("micro-kernels");
    double best = kNan;
    if (const auto kernels = subject_.cached_micro_kernels())
      if (const auto timed = time_paired(*kernels, peak_, {.time_limit_s = options_.timing_s})) {
        best = 0;
        for (std::size_t i = 0; i < kernels->size(); ++i) best = std::max(best, 100 * timed->of_peak(i).median);
      }
    report_.add("multiply-adds on operands in L1", best, "% of peak");
  }

  /// The kernel, if it was made and computes what the peer does.
  std::optional<Kernel> checked(Result<Kernel> kernel, const Shape& shape, std::span<const float> expected,
                                const std::string& what) const {
    if (!kernel) {
      fmt::print(stderr, "{}, {}: {}\n", shape.name, what, kernel.error().to_string());
      return {};
    }
    const Sizes sizes = sizes_of(shape);
    kernel->load(integers(sizes.source, 1), integers(sizes.weights, 2));
    kernel->contender.run();
    std::vector<float> got(sizes.destination);
    kernel->store(got);
    const double difference = relative_difference(got, expected);
    if (!(difference <= 1e-4)) {
      fmt::print(stderr, "{}, {}: wrong result, off by {:.2g} of scale\n", shape.name, what, difference);
      return {};
    }
    kernel->contender.name = what;
    return std::move(*kernel);
  }

  /// The peer in as many places as the others; `expected`: what it computes.
  Result<Contender> peer(const Shape& shape, int threads, std::vector<float>* expected) const {
    const Sizes sizes = sizes_of(shape);
    std::vector<Contender> places;
    for (int i = 0; i < kPlaces; ++i) {
      FETTLE_TRY(OnednnOp op,
                 shape.matmul ? OnednnOp::matmul(*shape.matmul, threads) : OnednnOp::convolution(*shape.conv, threads));
      op.load(integers(sizes.source, 1), integers(sizes.weights, 2), {});
      op.run();
      expected->resize(sizes.destination);
      op.store(*expected);
      places.push_back(op.contender());
    }
    return in_turn(std::move(places));
  }

  /// One comparison, all that exist side by side: the peer, the hand trace, the default and the tuned kernel.
  void compare(const Shape& shape) {
    say(shape.name);
    std::vector<float> expected;
    auto op = peer(shape, 1, &expected);
    if (!op) {
      fmt::print(stderr, "{}: {}\n", shape.name, op.error().to_string());
      return;
    }
    // One entry a contender, in the order they are timed; the peer is first.
    std::vector<Kernel> kernels(1);
    kernels[0].contender = *op;
    std::optional<std::size_t> hand;
    std::optional<std::size_t> untuned;
    std::optional<std::size_t> tuned;
    const auto take = [&](std::optional<Kernel> kernel) -> std::optional<std::size_t> {
      if (!kernel) return {};
      kernels.push_back(std::move(*kernel));
      return kernels.size() - 1;
    };
    if (subject_.hand) hand = take(checked(subject_.hand(shape, 1), shape, expected, "hand trace"));
    if (subject_.untuned) untuned = take(checked(subject_.untuned(shape, 1), shape, expected, "default"));
    if (subject_.tune) tuned = take(checked(tune(shape, 1, options_.tuning_s), shape, expected, "tuned"));

    std::vector<Contender> contenders;
    for (const Kernel& kernel : kernels) contenders.push_back(kernel.contender);
    const auto timed = time_paired(contenders, peak_, {.time_limit_s = options_.timing_s});
    if (!timed) {
      fmt::print(stderr, "{}: {}\n", shape.name, timed.error().to_string());
      return;
    }
    for (std::size_t i = 0; i < timed->names.size(); ++i) {
      const Estimate share = timed->of_peak(i);
      say(fmt::format("  {:<12} {:9.4f} ms  {:7.1f} GFLOP/s  {:5.1f} % of peak +- {:.2f} %  {:.3f} of oneDNN",
                      timed->names[i], timed->time_ns(i).median * 1e-6, timed->gflops(i), 100 * share.median,
                      100 * share.half_width, timed->speed_over(i, 0).median));
    }
    if (timed->disturbed) say("  the machine was disturbed throughout");

    report_.add(shape.name + ", oneDNN", 100 * timed->of_peak(0).median, "% of peak");
    if (subject_.hand) {
      const std::optional<Bound> of_peak =
          shape.matmul ? std::optional<Bound>(at_least(shape.hand_of_peak)) : std::nullopt;
      const std::optional<Bound> of_peer = shape.conv ? std::optional<Bound>(at_least(0.98)) : std::nullopt;
      report_.add(shape.name + ", hand trace", hand ? 100 * timed->of_peak(*hand).median : kNan, "% of peak", of_peak);
      if (shape.matmul)
        report_.add(shape.name + ", hand trace, best place in memory",
                    hand ? 100 * timed->of_peak_in_best(*hand, kPlaces) : kNan, "% of peak");
      report_.add(shape.name + ", hand trace", hand ? timed->speed_over(*hand, 0).median : kNan, "of oneDNN", of_peer);
    }
    const auto against_hand = [&](const std::string& what, std::optional<std::size_t> which, double limit) {
      report_.add(shape.name + ", " + what, hand && which ? 100 * timed->speed_over(*which, *hand).median : kNan,
                  "% of hand trace", at_least(limit));
    };
    if (subject_.untuned) against_hand("default", untuned, 90);
    if (subject_.tune) against_hand("tuned", tuned, 98);
    const bool first_matmul = &shape == &core_shapes().front();
    if (subject_.tune && first_matmul) compare_2_threads(shape);
  }

  /// Memory limits these: a share of the peak of arithmetic is asked for, and no more.
  void compare_depthwise(const Shape& shape) {
    say(shape.name);
    std::vector<float> expected;
    auto op = peer(shape, 1, &expected);
    auto kernel = op ? checked(subject_.untuned(shape, 1), shape, expected, "default") : std::nullopt;
    double own = kNan, peers = kNan;
    if (op && kernel) {
      const Contender contenders[] = {*op, kernel->contender};
      if (const auto timed = time_paired(contenders, peak_, {.time_limit_s = options_.timing_s})) {
        own = 100 * timed->of_peak(1).median;
        peers = 100 * timed->of_peak(0).median;
      }
    }
    report_.add(shape.name + ", oneDNN", peers, "% of peak");
    report_.add(shape.name + ", default", own, "% of peak", at_least(25));
  }

  /// Tunes, and reports how long it took; for two of the shapes also how many candidates it timed a second.
  Result<Kernel> tune(const Shape& shape, int threads, double limit_s) {
    say(fmt::format("  tuning for {} s, {} thread(s)", limit_s, threads));
    const std::string what = threads == 1 ? shape.name : fmt::format("{}, {} threads", shape.name, threads);
    auto tuned = subject_.tune(shape, threads, limit_s);
    // The limit ends the search; what is under way then is finished.
    report_.add(what + ", tuning time", tuned ? tuned->seconds : kNan, "s", at_most(limit_s));
    const bool yardstick = shape.name == "GEMM 512^3" || shape.name == "conv 3x3 56^2 64->64";
    if (yardstick && threads == 1) {
      report_.add(what + ", candidates timed", tuned ? tuned->measured / tuned->seconds : kNan, "1/s", at_least(10));
    }
    if (!tuned) return fail(std::move(tuned).error());
    return std::move(tuned->kernel);
  }

  void compare_2_threads(const Shape& shape) {
    std::vector<float> expected;
    auto op = peer(shape, 2, &expected);
    auto kernel = checked(tune(shape, 2, options_.tuning_2_threads_s), shape, expected, "tuned, 2 threads");
    double share = kNan;
    if (op && kernel) {
      PeakMeter peak(2);
      const Contender contenders[] = {*op, kernel->contender};
      if (const auto timed = time_paired(contenders, peak, {.time_limit_s = options_.timing_s})) {
        share = 100 * timed->of_peak(1).median;
        report_.add(shape.name + ", 2 threads, oneDNN", 100 * timed->of_peak(0).median, "% of peak");
      }
    }
    report_.add(shape.name + ", 2 threads, tuned", share, "% of peak", at_least(95));
  }

  void compile(const Shape& shape) {
    std::vector<double> nest;
    std::vector<std::vector<double>> micro_kernels;
    for (int i = 0; i < 5; ++i) {
      const auto times = subject_.compile(shape);
      if (!times) {
        fmt::print(stderr, "{}, compile: {}\n", shape.name, times.error().to_string());
        break;
      }
      nest.push_back(times->nest_ms);
      micro_kernels.resize(std::max(micro_kernels.size(), times->micro_kernel_ms.size()));
      for (std::size_t j = 0; j < times->micro_kernel_ms.size(); ++j)
        micro_kernels[j].push_back(times->micro_kernel_ms[j]);
    }
    double slowest = micro_kernels.empty() ? kNan : 0;
    for (const auto& micro_kernel : micro_kernels) slowest = std::max(slowest, quantile(micro_kernel, 0.5));
    report_.add(shape.name + ", compile of the nest", quantile(nest, 0.5), "ms", at_most(6));
    report_.add(shape.name + ", compile of the slowest micro-kernel", slowest, "ms", at_most(7));
  }

  void regret(const Shape& shape) {
    say(fmt::format("{}: {} random candidates", shape.name, options_.candidates));
    const auto drawn = subject_.candidates(shape, options_.candidates, options_.seed);
    const auto result = drawn ? measure_regret(*drawn, peak_, options_.timing_s) : fail(drawn.error());
    if (!result) fmt::print(stderr, "{}, regret: {}\n", shape.name, result.error().to_string());
    report_.add(shape.name + ", regret of timing the predicted five", result ? 100 * result->regret : kNan, "%",
                at_most(3));
    report_.add(shape.name + ", rank correlation of prediction", result ? result->correlation : kNan, "Spearman");
  }

  const CoreSubject& subject_;
  const CoreOptions& options_;
  PeakMeter peak_;
  Report report_{"core"};
};

}  // namespace

double relative_difference(std::span<const float> a, std::span<const float> b) {
  if (a.size() != b.size()) return kNan;
  double difference = 0;
  double scale = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double delta = std::abs(static_cast<double>(a[i]) - static_cast<double>(b[i]));
    if (std::isnan(delta)) return kNan;
    difference = std::max(difference, delta);
    scale = std::max(scale, std::abs(static_cast<double>(b[i])));
  }
  return difference == 0 ? 0 : difference / scale;
}

double loss_of_choosing(const PairedResult& timed, std::span<const bool> chosen) {
  std::array<PairedResult, 2> halves{timed, timed};
  for (std::size_t half = 0; half < 2 && timed.rounds.size() > 1; ++half) {
    halves[half].rounds.clear();
    for (std::size_t r = half; r < timed.rounds.size(); r += 2) halves[half].rounds.push_back(timed.rounds[r]);
  }
  double log_loss = 0;
  for (std::size_t half = 0; half < 2; ++half) {
    std::size_t best = 0;
    std::optional<std::size_t> best_chosen;
    const auto time_ns = [&](std::size_t i) { return halves[half].time_ns(i).median; };
    for (std::size_t i = 0; i < timed.names.size(); ++i) {
      if (time_ns(i) < time_ns(best)) best = i;
      if (chosen[i] && (!best_chosen || time_ns(i) < time_ns(*best_chosen))) best_chosen = i;
    }
    log_loss += std::log(halves[1 - half].speed_over(best, *best_chosen).median) / 2;
  }
  return std::exp(log_loss) - 1;
}

Result<Regret> measure_regret(const std::vector<RandomCandidate>& candidates, PeakMeter& peak, double timing_s) {
  std::vector<Kernel> kernels;
  std::vector<double> predicted;
  std::vector<double> measured;
  std::optional<Diagnostic> refusal;
  for (const RandomCandidate& candidate : candidates) {
    auto kernel = candidate.build();
    if (!kernel) {
      refusal = std::move(kernel).error();
      continue;
    }
    FETTLE_TRY(const double time_ns, quick_time(kernel->contender));
    kernels.push_back(std::move(*kernel));
    predicted.push_back(candidate.predicted_ns);
    measured.push_back(time_ns);
  }
  if (kernels.empty()) return refusal ? fail(std::move(*refusal)) : fail(ErrorCode::E407, "no candidate was given");

  const auto chosen = smallest(predicted, kPredictedBest);
  auto again = smallest(measured, kMeasuredBest);
  for (const std::size_t i : chosen) {
    if (std::find(again.begin(), again.end(), i) == again.end()) again.push_back(i);
  }
  std::vector<Contender> contenders;
  for (const std::size_t i : again) contenders.push_back(kernels[i].contender);
  FETTLE_TRY(const PairedResult timed, time_paired(contenders, peak, {.time_limit_s = timing_s}));

  std::array<bool, kPredictedBest + kMeasuredBest> is_chosen{};
  for (std::size_t i = 0; i < again.size(); ++i)
    is_chosen[i] = std::find(chosen.begin(), chosen.end(), again[i]) != chosen.end();
  return Regret{.regret = std::max(0.0, loss_of_choosing(timed, std::span(is_chosen).first(again.size()))),
                .correlation = rank_correlation(predicted, measured),
                .measured = static_cast<int>(kernels.size())};
}

Report run_core_benchmark(const CoreSubject& subject, const CoreOptions& options) {
  return CoreBenchmark(subject, options).run();
}

}  // namespace fettle::bench
