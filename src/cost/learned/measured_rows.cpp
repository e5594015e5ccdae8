#include "cost/learned/measured_rows.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/check.h"
#include "cost/learned/checked_file.h"

namespace fettle {

void append_measured(std::vector<MeasuredRows>& all, std::span<const CandidateFeatures> candidates,
                     std::span<const double> seconds, size_t most) {
  FETTLE_CHECK(candidates.size() == seconds.size());
  for (size_t i = 0; i < candidates.size(); ++i) {
    const CandidateFeatures& c = candidates[i];
    if (c.rows.empty()) continue;
    const bool ran = seconds[i] > 0 && std::isfinite(seconds[i]);
    const bool predicted = c.predicted_seconds > 0 && std::isfinite(c.predicted_seconds);
    all.push_back({c.workload, c.columns, ran ? seconds[i] : std::numeric_limits<double>::infinity(),
                   predicted ? c.predicted_seconds : 0, c.rows});
  }
  if (all.size() > most) all.erase(all.begin(), all.end() - static_cast<ptrdiff_t>(most));
}

Result<> write_measured(const std::string& path, std::string_view title, std::span<const MeasuredRows> all) {
  std::vector<double> numbers = {static_cast<double>(all.size())};
  for (const MeasuredRows& rows : all) {
    for (const uint64_t hash : {rows.workload, rows.columns})
      for (const uint64_t half : {hash >> 32, hash & 0xffffffff}) numbers.push_back(static_cast<double>(half));
    numbers.push_back(std::isfinite(rows.seconds) ? rows.seconds : 0);
    numbers.push_back(rows.predicted_s);
    numbers.push_back(static_cast<double>(rows.values.size()));
    numbers.insert(numbers.end(), rows.values.begin(), rows.values.end());
  }
  return write_checked(path, title, numbers);
}

Result<std::vector<MeasuredRows>> read_measured(const std::string& path, std::string_view title,
                                                const std::function<bool(const std::vector<float>& values)>& fits) {
  FETTLE_TRY(const std::vector<double> numbers, read_checked(path, title));
  size_t at = 0;
  bool sane = true;
  const auto next = [&](double most, bool whole) {
    const double n = at < numbers.size() ? numbers[at++] : -1;
    sane = sane && n >= 0 && n <= most && (!whole || n == std::floor(n));
    return sane ? n : 0;
  };
  const auto next_hash = [&] {
    const auto high = static_cast<uint64_t>(next(0xffffffff, true));
    return high << 32 | static_cast<uint64_t>(next(0xffffffff, true));
  };
  constexpr double kLargest = std::numeric_limits<double>::max();
  const double count = next(1e9, true);
  std::vector<MeasuredRows> all;
  for (double i = 0; sane && i < count; ++i) {
    MeasuredRows rows{.workload = next_hash(), .columns = next_hash()};
    const double seconds = next(kLargest, false);
    rows.seconds = seconds > 0 ? seconds : std::numeric_limits<double>::infinity();
    rows.predicted_s = next(kLargest, false);
    const auto width = static_cast<size_t>(next(static_cast<double>(numbers.size() - at), true));
    sane = sane && width > 0 && width <= numbers.size() - at;
    for (size_t v = 0; sane && v < width; ++v) {
      sane = std::isfinite(numbers[at]);
      rows.values.push_back(static_cast<float>(numbers[at++]));
    }
    sane = sane && fits(rows.values);
    all.push_back(std::move(rows));
  }
  if (!sane || at != numbers.size()) return fail(ErrorCode::E503, path + " is no such model");
  return all;
}

void BestTimes::note(std::span<const MeasuredRows> all) {
  for (const MeasuredRows& rows : all) {
    if (!std::isfinite(rows.seconds)) continue;
    const auto [best, fresh] = best_s_.emplace(rows.workload, rows.seconds);
    if (!fresh) best->second = std::min(best->second, rows.seconds);
  }
}

double BestTimes::of(uint64_t workload) const {
  const auto best = best_s_.find(workload);
  return best == best_s_.end() ? 1.0 : best->second;
}

double BestTimes::share(const MeasuredRows& rows) const {
  return std::isfinite(rows.seconds) ? of(rows.workload) / rows.seconds : 0;
}

double slowness_of(double throughput) {
  constexpr double kLeast = 0.01;
  return throughput >= kLeast ? 1 / throughput : (1 + kLeast - throughput) / kLeast;
}

}  // namespace fettle
