#include "harness/paired.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <memory>

#include "harness/quiesce.h"

namespace fettle::bench {
namespace {

using Clock = std::chrono::steady_clock;

double ns_since(Clock::time_point start) {
  return std::chrono::duration<double, std::nano>(Clock::now() - start).count();
}

/// Mean time of one of `runs` runs, ns.
Result<double> time_batch(const Contender& contender, int runs) {
  if (contender.timed) return contender.timed(runs);
  const auto start = Clock::now();
  for (int i = 0; i < runs; ++i) contender.run();
  return ns_since(start) / runs;
}

/// Time of one warm run, roughly: the best of three after a first one, or the first if that takes long.
Result<double> rough_time(const Contender& contender) {
  FETTLE_TRY(double best, time_batch(contender, 1));
  if (best > 1e8) return best;
  FETTLE_TRY(best, time_batch(contender, 1));
  for (int i = 0; i < 2; ++i) {
    FETTLE_TRY(const double again, time_batch(contender, 1));
    best = std::min(best, again);
  }
  return best;
}

template <class Value>
Estimate over_rounds(const std::vector<Round>& rounds, Value value) {
  std::vector<double> samples;
  samples.reserve(rounds.size());
  for (const Round& round : rounds) samples.push_back(value(round));
  return estimate(std::move(samples));
}

bool tight(const PairedResult& result, double half_width) {
  for (std::size_t i = 0; i < result.names.size(); ++i) {
    if (result.flops[i] > 0 && result.of_peak(i).half_width > half_width) return false;
    for (std::size_t j = 0; j < i; ++j) {
      if (result.speed_over(i, j).half_width > half_width) return false;
    }
  }
  return result.names.size() > 1 || result.time_ns(0).half_width <= half_width;
}

}  // namespace

Contender in_turn(std::vector<Contender> places) {
  Contender result = places.at(0);
  const auto at = std::make_shared<std::size_t>(0);
  const auto all = std::make_shared<const std::vector<Contender>>(std::move(places));
  result.run = [at, all] { (*all)[*at].run(); };
  result.prepare = [at, all](int round) { *at = static_cast<std::size_t>(round) % all->size(); };
  return result;
}

Estimate PairedResult::time_ns(std::size_t contender) const {
  return over_rounds(rounds, [&](const Round& round) { return round.time_ns[contender]; });
}

Estimate PairedResult::of_peak(std::size_t contender) const {
  return over_rounds(rounds, [&](const Round& round) {
    return flops[contender] / round.time_ns[contender] / round.peak_gflops[contender];
  });
}

double PairedResult::of_peak_in_best(std::size_t contender, int places) const {
  double best = 0;
  for (int place = 0; place < places; ++place) {
    PairedResult in_place = {.flops = flops};
    std::copy_if(rounds.begin(), rounds.end(), std::back_inserter(in_place.rounds),
                 [&](const Round& round) { return round.number % places == place; });
    if (!in_place.rounds.empty()) best = std::max(best, in_place.of_peak(contender).median);
  }
  return best;
}

Estimate PairedResult::speed_over(std::size_t a, std::size_t b) const {
  return over_rounds(rounds, [&](const Round& round) { return round.time_ns[b] / round.time_ns[a]; });
}

Estimate PairedResult::peak_gflops() const {
  return over_rounds(rounds, [&](const Round& round) {
    double sum = 0;
    for (const double rate : round.peak_gflops) sum += rate;
    return sum / static_cast<double>(round.peak_gflops.size());
  });
}

double PairedResult::gflops(std::size_t contender) const { return flops[contender] / time_ns(contender).median; }

std::vector<Round> quiet_rounds(const std::vector<Round>& rounds, double floor, int min_kept) {
  std::vector<double> lowest;
  lowest.reserve(rounds.size());
  for (const Round& round : rounds) lowest.push_back(round.lowest_peak);
  double limit = floor * quantile(lowest, 0.9);
  std::sort(lowest.begin(), lowest.end(), std::greater<>());
  const auto wanted = std::min(rounds.size(), static_cast<std::size_t>(std::max(min_kept, 0)));
  if (wanted > 0) limit = std::min(limit, lowest[wanted - 1]);
  std::vector<Round> kept;
  std::copy_if(rounds.begin(), rounds.end(), std::back_inserter(kept),
               [&](const Round& round) { return round.lowest_peak >= limit; });
  return kept;
}

Result<PairedResult> time_paired(std::span<const Contender> contenders, PeakMeter& peak, const PairedOptions& options) {
  PairedResult result;
  const std::size_t count = contenders.size();
  std::vector<bool> warm(count);
  for (std::size_t i = 0; i < count; ++i) {
    quiesce();
    FETTLE_TRY(const double rough_ns, rough_time(contenders[i]));
    result.names.push_back(contenders[i].name);
    result.flops.push_back(contenders[i].flops);
    result.runs_a_batch.push_back(static_cast<int>(std::clamp(std::ceil(options.batch_ns / rough_ns), 1.0, 1e6)));
    warm[i] = rough_ns < options.warm_below_ns;
  }
  if (count == 0) return result;

  quiesce();
  peak.slice(options.peak_slice_ns);
  std::vector<Round> rounds;
  const auto start = Clock::now();
  for (int done = 0; done < options.max_rounds; ++done) {
    const double elapsed_s = ns_since(start) * 1e-9;
    if (done > 0 && elapsed_s > 5 * options.time_limit_s) break;
    if (done >= options.min_rounds) {
      if (elapsed_s > options.time_limit_s) break;
      result.rounds = quiet_rounds(rounds, options.peak_floor, options.min_kept);
      if (static_cast<int>(result.rounds.size()) >= options.min_rounds && tight(result, options.half_width)) break;
    }
    Round round;
    round.number = done;
    round.time_ns.resize(count);
    round.peak_gflops.resize(count);
    result.idle &= quiesce();
    double before = peak.slice(options.peak_slice_ns);
    round.lowest_peak = before;
    for (std::size_t turn = 0; turn < count; ++turn) {
      const std::size_t i = (turn + static_cast<std::size_t>(done)) % count;
      if (contenders[i].prepare) contenders[i].prepare(done);
      result.idle &= quiesce();
      // Another place has been out of the caches for long.
      const int warming = !warm[i] || contenders[i].timed ? 0 : contenders[i].prepare ? 4 : 1;
      for (int run = 0; run < warming; ++run) contenders[i].run();
      FETTLE_TRY(round.time_ns[i], time_batch(contenders[i], result.runs_a_batch[i]));
      result.idle &= quiesce();
      const double after = peak.slice(options.peak_slice_ns);
      round.peak_gflops[i] = 0.5 * (before + after);
      round.lowest_peak = std::min(round.lowest_peak, after);
      before = after;
    }
    rounds.push_back(std::move(round));
  }
  result.rounds = quiet_rounds(rounds, options.peak_floor, options.min_kept);
  result.discarded = static_cast<int>(rounds.size() - result.rounds.size());
  const auto undisturbed = quiet_rounds(rounds, options.peak_floor, 0);
  result.disturbed = undisturbed.size() < result.rounds.size();
  return result;
}

}  // namespace fettle::bench
