// AutoTVM's cost model: boosted trees on one row a candidate; a global model of what was loaded, and a local one of
// what it misses. By XGBoost's C interface.

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "base/check.h"
#include "base/hash.h"
#include "cost/learned/boosting.h"
#include "cost/learned/measured_rows.h"
#include "generations/autotvm/cost/autotvm_trees.h"
#include "generations/autotvm/cost/knob_features.h"
#include "generations/autotvm/cost/loop_features.h"
#include "lower/lower.h"

namespace fettle {
namespace {

constexpr size_t kLeastRows = 8;  // with fewer, nothing is learned
constexpr size_t kMostRows = 4096;
constexpr int kRounds = 80;
constexpr double kLeastScore = 0.01;  // 100 times slower than the best
constexpr size_t kWidest = 1 << 16;

/// Trees of rows that have the same columns.
struct Trees {
  Booster booster;
  // Of ranks: log(seconds / best) is about offset + slope * score.
  double offset = 0, slope = -1;
};

/// 0: any number.
size_t width_of(FeatureKind kind) {
  switch (kind) {
    case FeatureKind::kKnob:
      return 0;
    case FeatureKind::kLoop:
      return kLoopFeatures;
    case FeatureKind::kCurve:
      return kCurveFeatures;
  }
  return 0;
}

Matrix matrix_of(const std::vector<const std::vector<float>*>& rows) {
  const size_t width = rows.front()->size();
  std::vector<float> values;
  values.reserve(rows.size() * width);
  for (const auto* row : rows) {
    FETTLE_CHECK(row->size() == width);
    values.insert(values.end(), row->begin(), row->end());
  }
  return make_matrix(values, rows.size(), width);
}

/// What the trees give the rows, all in all; none: nothing.
std::vector<float> scores_of(const Trees* trees, const std::vector<const std::vector<float>*>& rows) {
  const std::vector<float> none(rows.size(), 0.0f);
  if (!trees || rows.empty()) return none;
  const Matrix matrix = matrix_of(rows);
  set_info(matrix, "base_margin", none);
  return scores_of(trees->booster, matrix);
}

class AutotvmTrees : public CostModel {
 public:
  AutotvmTrees(uint64_t seed, FeatureKind kind, Loss loss) : seed_(seed), kind_(kind), loss_(loss) {}

  std::string name() const override {
    return fmt::format("autotvm trees of {} features{}", name_of(kind_), loss_ == Loss::kRank ? " by rank" : "");
  }

  Result<> update(std::span<const CandidateFeatures> candidates, std::span<const double> seconds) override {
    FETTLE_TRY_VOID(check_rows(candidates));
    append_measured(local_rows_, candidates, seconds, kMostRows);
    best_s_.note(local_rows_);
    std::set<uint64_t> touched;
    for (const CandidateFeatures& c : candidates)
      if (!c.rows.empty()) touched.insert(local_key(c.workload, c.columns));
    for (const uint64_t key : touched) train_local(key);
    return {};
  }

  std::vector<double> predict(std::span<const CandidateFeatures> candidates) override {
    std::vector<double> result;
    std::map<std::pair<uint64_t, uint64_t>, std::vector<size_t>> together;  // by the trees that they go to
    for (size_t i = 0; i < candidates.size(); ++i) {
      const CandidateFeatures& c = candidates[i];
      result.push_back(c.predicted_seconds);
      if (!c.rows.empty() && fits(c.rows))
        together[{global_key(c.columns), local_key(c.workload, c.columns)}].push_back(i);
    }
    for (const auto& [keys, members] : together) {
      const Trees* global = find(global_, keys.first);
      const Trees* local = find(local_, keys.second);
      if (!global && !local) continue;
      std::vector<const std::vector<float>*> rows;
      for (const size_t i : members) rows.push_back(&candidates[i].rows);
      std::vector<float> scores = scores_of(global, rows);
      const std::vector<float> more = scores_of(local, rows);
      const Trees& last = local ? *local : *global;
      for (size_t r = 0; r < members.size(); ++r)
        result[members[r]] =
            best_s_.of(candidates[members[r]].workload) * slowness(last, static_cast<double>(scores[r] + more[r]));
    }
    return result;
  }

  // Trees of loops or of curves serve every candidate that has a row.
  bool asks_prediction() const override { return kind_ == FeatureKind::kKnob || (local_.empty() && global_.empty()); }

  Result<> save(const std::string& path) const override {
    std::vector<MeasuredRows> all = global_rows_;
    all.insert(all.end(), local_rows_.begin(), local_rows_.end());
    return write_measured(path, title(), all);
  }

  Result<> load(const std::string& path) override {
    std::vector<MeasuredRows> rows;
    FETTLE_TRY(rows, read_measured(path, title(), [this](const std::vector<float>& values) { return fits(values); }));
    if (rows.size() > kMostRows) rows.erase(rows.begin(), rows.end() - static_cast<ptrdiff_t>(kMostRows));
    std::map<uint64_t, size_t> widths;
    for (const MeasuredRows& row : rows)
      if (widths.emplace(row.columns, row.values.size()).first->second != row.values.size())
        return fail(ErrorCode::E503, path + " is no model of " + name());
    global_rows_ = std::move(rows);
    local_rows_.clear();
    best_s_.clear();
    global_.clear();
    local_.clear();
    best_s_.note(global_rows_);
    std::set<uint64_t> keys;
    for (const MeasuredRows& row : global_rows_) keys.insert(global_key(row.columns));
    for (const uint64_t key : keys) {
      std::vector<const MeasuredRows*> of_key;
      for (const MeasuredRows& row : global_rows_)
        if (global_key(row.columns) == key) of_key.push_back(&row);
      train(global_, key, of_key, nullptr);
    }
    return {};
  }

 private:
  std::string title() const { return fmt::format("fettle autotvm trees 2, {}, {}", name_of(kind_), width_of(kind_)); }

  bool fits(const std::vector<float>& row) const {
    const size_t width = width_of(kind_);
    return width == 0 ? row.size() <= kWidest : row.size() == width;
  }

  // Columns of knobs are a template's, and what they are worth a workload's.
  uint64_t global_key(uint64_t columns) const { return kind_ == FeatureKind::kKnob ? columns : 0; }
  uint64_t local_key(uint64_t workload, uint64_t columns) const {
    return kind_ == FeatureKind::kKnob ? hash_combine(workload, columns) : 0;
  }

  Result<> check_rows(std::span<const CandidateFeatures> candidates) const {
    std::map<uint64_t, size_t> widths;
    for (const auto* rows : {&global_rows_, &local_rows_})
      for (const MeasuredRows& row : *rows) widths.emplace(row.columns, row.values.size());
    for (const CandidateFeatures& c : candidates) {
      if (c.rows.empty()) continue;
      const size_t width =
          width_of(kind_) != 0 ? width_of(kind_) : widths.emplace(c.columns, c.rows.size()).first->second;
      if (!fits(c.rows) || c.rows.size() != width)
        return fail(ErrorCode::E709, fmt::format("a row of {} {} features, where the model learns from rows of {}",
                                                 c.rows.size(), name_of(kind_), width));
    }
    return kind_ == FeatureKind::kKnob && !global_rows_.empty() ? check_knobs(candidates) : Result<>();
  }

  /// Of a workload there must be some candidate whose knobs a loaded model knows. Not each: one may be no configuration
  /// of the template, as the default schedule is.
  Result<> check_knobs(std::span<const CandidateFeatures> candidates) const {
    std::map<uint64_t, size_t> loaded;  // the widths by columns
    for (const MeasuredRows& row : global_rows_) loaded.emplace(row.columns, row.values.size());
    struct Seen {
      size_t rows = 0, width = 0;
      bool known = false;
    };
    std::map<uint64_t, Seen> seen;  // by workload
    const auto note = [&](uint64_t workload, uint64_t columns, size_t width) {
      Seen& of = seen[workload];
      of.rows += 1;
      of.width = width;
      of.known |= loaded.contains(columns);
    };
    for (const MeasuredRows& row : local_rows_) note(row.workload, row.columns, row.values.size());
    for (const CandidateFeatures& c : candidates)
      if (!c.rows.empty()) note(c.workload, c.columns, c.rows.size());
    for (const auto& [workload, of] : seen) {
      if (of.known || of.rows < kLeastRows) continue;
      std::set<size_t> widths;
      for (const auto& [columns, width] : loaded) widths.insert(width);
      return fail(
          ErrorCode::E709,
          fmt::format("the model was loaded from tasks of {} knob values, and this one has {}, or of other names: "
                      "only itervar and curve features carry over to other tasks",
                      fmt::join(widths, ", "), of.width));
    }
    return {};
  }

  static const Trees* find(const std::map<uint64_t, Trees>& all, uint64_t key) {
    const auto found = all.find(key);
    return found == all.end() ? nullptr : &found->second;
  }

  /// Seconds by those of the best, by a score.
  double slowness(const Trees& trees, double score) const {
    if (loss_ == Loss::kRank) return std::exp(std::clamp(trees.offset + trees.slope * score, -20.0, 20.0));
    return slowness_of(score);
  }

  void train_local(uint64_t key) {
    std::vector<const MeasuredRows*> rows;
    for (const MeasuredRows& row : local_rows_)
      if (local_key(row.workload, row.columns) == key) rows.push_back(&row);
    if (rows.empty()) return;
    train(local_, key, rows, find(global_, global_key(rows.front()->columns)));
  }

  /// On what `before` leaves, if there is any.
  void train(std::map<uint64_t, Trees>& all, uint64_t key, std::vector<const MeasuredRows*> rows, const Trees* before) {
    all.erase(key);
    if (rows.size() < kLeastRows) return;
    // Those of a workload side by side: they are what ranks compare.
    std::ranges::stable_sort(rows,
                             [](const MeasuredRows* a, const MeasuredRows* b) { return a->workload < b->workload; });
    std::vector<const std::vector<float>*> values;
    std::vector<float> throughput;
    std::vector<unsigned> groups;
    for (size_t i = 0; i < rows.size(); ++i) {
      values.push_back(&rows[i]->values);
      throughput.push_back(static_cast<float>(best_s_.share(*rows[i])));
      if (i == 0 || rows[i]->workload != rows[i - 1]->workload) groups.push_back(0);
      ++groups.back();
    }
    const Matrix matrix = matrix_of(values);
    const std::vector<float> margins = scores_of(before, values);
    set_info(matrix, "base_margin", margins);
    set_info(matrix, "label", throughput);
    const bool ranks = loss_ == Loss::kRank;
    if (ranks) set_info(matrix, "group", groups);
    Trees made{.booster = make_booster(matrix, seed_,
                                       {{"objective", ranks ? "rank:pairwise" : "reg:squarederror"},
                                        {"max_depth", "4"},
                                        {"eta", "0.2"},
                                        {"min_child_weight", ranks ? "0.1" : "1"},
                                        {"base_score", "0"}})};
    grow(made.booster, matrix, kRounds);
    if (ranks) {
      std::vector<float> scores = scores_of(&made, values);
      for (size_t i = 0; i < scores.size(); ++i) scores[i] += margins[i];
      fit_times(made, scores, throughput);
    }
    all.emplace(key, std::move(made));
  }

  /// What times the scores stand for: a line through log(seconds / best), by least squares, that never rises.
  static void fit_times(Trees& trees, const std::vector<float>& scores, const std::vector<float>& throughput) {
    double n = 0, x = 0, y = 0, xx = 0, xy = 0;
    for (size_t i = 0; i < scores.size(); ++i) {
      const auto score = static_cast<double>(scores[i]);
      const double slow = -std::log(std::max(static_cast<double>(throughput[i]), kLeastScore));
      n += 1, x += score, y += slow, xx += score * score, xy += score * slow;
    }
    const double spread = xx - x * x / n;
    trees.slope = spread > 1e-9 ? std::min((xy - x * y / n) / spread, -1e-3) : -1;
    trees.offset = (y - trees.slope * x) / n;
  }

  const uint64_t seed_;
  const FeatureKind kind_;
  const Loss loss_;
  std::vector<MeasuredRows> global_rows_, local_rows_;  // loaded; measured since
  BestTimes best_s_;
  std::map<uint64_t, Trees> global_, local_;  // by their keys
};

DescribeFn row(FeatureKind kind, std::shared_ptr<const Target> target, int threads,
               const MicroKernelTable* micro_kernels, bool always_predict) {
  return describe_rows(std::move(target), threads, micro_kernels, kind != FeatureKind::kKnob, always_predict,
                       [kind](const Schedule& schedule, const LoweredKernel& kernel, CandidateFeatures& features) {
                         if (kind == FeatureKind::kKnob) {
                           KnobFeatures knobs = knob_features(schedule.decisions());
                           features.rows = std::move(knobs.values);
                           features.columns = knobs.columns;
                         } else {
                           features.rows =
                               kind == FeatureKind::kLoop ? loop_features(kernel.whole) : curve_features(kernel.whole);
                         }
                       });
}

}  // namespace

DescribeFn describe_row(FeatureKind kind, std::shared_ptr<const Target> target, int threads,
                        const MicroKernelTable* micro_kernels) {
  return row(kind, std::move(target), threads, micro_kernels, true);
}

DescribeFn describe_only_row(FeatureKind kind, std::shared_ptr<const Target> target, int threads,
                             const MicroKernelTable* micro_kernels) {
  return row(kind, std::move(target), threads, micro_kernels, false);
}

std::string_view name_of(FeatureKind kind) {
  switch (kind) {
    case FeatureKind::kKnob:
      return "knob";
    case FeatureKind::kLoop:
      return "itervar";
    case FeatureKind::kCurve:
      return "curve";
  }
  return "";
}

std::unique_ptr<CostModel> make_autotvm_trees(uint64_t seed, FeatureKind kind, Loss loss) {
  return std::make_unique<AutotvmTrees>(seed, kind, loss);
}

}  // namespace fettle
