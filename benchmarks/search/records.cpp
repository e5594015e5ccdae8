#include "search/records.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "tune/task_tuner.h"

namespace fettle::bench {

double Curve::best_after(int64_t n) const {
  double best = INFINITY;
  for (const CurvePoint& point : improvements)
    if (point.trial <= n) best = point.best_s;
  return best;
}

std::string Curve::best_trace_after(int64_t n) const {
  std::string best;
  for (size_t i = 0; i < improvements.size(); ++i)
    if (improvements[i].trial <= n) best = traces[i];
  return best;
}

int64_t Curve::trials_to(double target_s) const {
  for (const CurvePoint& point : improvements)
    if (point.best_s <= target_s) return point.trial;
  return 0;
}

double Curve::seconds_to(double target_s) const {
  for (const CurvePoint& point : improvements)
    if (point.best_s <= target_s) return point.seconds;
  return 0;
}

Curve read_curve(const std::vector<Record>& records, bool with_default) {
  Curve curve;
  double best = INFINITY, before = 0, begin = 0, last = 0;
  uint64_t run = 0;
  std::set<std::string> seen;
  for (const Record& record : records) {
    if (record.generation < 0 || (record.generation == 0 && !with_default)) continue;
    if (!seen.insert(record.trace).second) continue;
    if (curve.trials > 0 && record.run != run) {
      // A later run makes anew what is known, which took its time before.
      before = last;
      begin = record.elapsed_s;
    }
    run = record.run;
    last = before + std::max(0.0, record.elapsed_s - begin);
    ++curve.trials;
    curve.seconds = last;
    if (!record.ok()) {
      ++curve.failed;
      continue;
    }
    if (record.raced_out) {
      ++curve.raced_out;
      continue;
    }
    if (record.half_width <= 0.02) ++curve.tight;
    // As the search sees it: the fastest batch where the median is not tight.
    const double seconds = usual_seconds(record);
    if (record.generation == 0 && curve.tried.empty()) curve.from_default = true;
    curve.tried.push_back({curve.trials, last, seconds, record.trace});
    if (seconds >= best) continue;
    best = seconds;
    curve.improvements.push_back({curve.trials, last, seconds});
    curve.traces.push_back(record.trace);
  }
  return curve;
}

void visit_contenders(const Curve& curve, size_t most,
                      const std::function<void(size_t, const std::vector<size_t>&)>& visit) {
  const std::vector<Tried>& tried = curve.tried;
  std::vector<size_t> fastest;  // without the default
  for (size_t i = 0; i < tried.size(); ++i) {
    if (!curve.from_default || tried[i].own_s < kMaybeFaster * tried[0].own_s) {
      const auto slower = [&](size_t other) { return tried[other].own_s > tried[i].own_s; };
      fastest.insert(std::ranges::find_if(fastest, slower), i);
      if (fastest.size() > most) fastest.pop_back();
    }
    std::vector<size_t> contenders = fastest;
    if (curve.from_default) contenders.push_back(0);
    visit(i, contenders);
  }
}

std::filesystem::path records_file(const std::filesystem::path& folder, const std::string& mode, uint64_t seed) {
  std::string name = mode;
  std::ranges::replace(name, ':', '+');
  return folder / fmt::format("{}-{}.db", name, seed);
}

}  // namespace fettle::bench
