#pragma once
// What models of rows learn from: the rows that describe candidates (CandidateFeatures::rows), and what these took.

#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cost/cost_model.h"

namespace fettle {

struct MeasuredRows {
  uint64_t workload = 0, columns = 0;
  double seconds = 0;      // infinity: it failed
  double predicted_s = 0;  // 0: not known
  std::vector<float> values;
};

/// Appends the candidates that have rows; of more than `most` in all, the last are kept.
void append_measured(std::vector<MeasuredRows>& all, std::span<const CandidateFeatures> candidates,
                     std::span<const double> seconds, size_t most);

/// A model's file is what it has learned from: training is deterministic, so a model that is read is trained again.
/// E702
Result<> write_measured(const std::string& path, std::string_view title, std::span<const MeasuredRows> all);
/// E701 no such file · E503 damaged, of another title, or values that do not fit
Result<std::vector<MeasuredRows>> read_measured(const std::string& path, std::string_view title,
                                                const std::function<bool(const std::vector<float>& values)>& fits);

/// The least seconds of each workload, also of what is forgotten.
class BestTimes {
 public:
  void note(std::span<const MeasuredRows> all);
  void clear() { best_s_.clear(); }
  /// 1 where none is known.
  double of(uint64_t workload) const;
  /// Throughput relative to the best of the workload; 0: it failed.
  double share(const MeasuredRows& rows) const;

 private:
  std::map<uint64_t, double> best_s_;
};

/// Seconds, in those of the best, of what has this relative throughput. Those that all count as hopeless, a hundred
/// times slower, keep an order.
double slowness_of(double throughput);

}  // namespace fettle
