#pragma once
// How well a cost model ranks what it was not trained on, and the model that ships.

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "cost/cost_model.h"
#include "harness/report.h"
#include "search/run.h"

namespace fettle::bench {

/// The measured candidates of one task.
struct MeasuredTask {
  std::string name, family;
  std::vector<CandidateFeatures> candidates;
  std::vector<double> seconds;
  std::vector<DecisionMap> decisions;
  std::vector<bool> raced_out;
};

/// From the records of searches of the space "rules" in run.folder: each trace is replayed and described anew. Tasks
/// without records are left out. E5xx
Result<std::vector<MeasuredTask>> measured_tasks(const std::vector<SearchTask>& tasks,
                                                 const std::vector<SearchMode>& modes, uint64_t first_seed, int seeds,
                                                 const SearchRun& run);

struct Ranking {
  double accuracy = 0;  // share of pairs, more than 2 % apart, in the right order
  double recall = 0;    // share of the k fastest among the k best predicted
  double regret = 0;    // of the fastest of the k best predicted over the fastest of all: 0.02 is 2 % slower
};
/// k: 8, or a quarter of them where they are fewer than 32. NaN without pairs.
Ranking rank(const std::vector<double>& predicted, const std::vector<double>& seconds);

/// Rows of a ranking by a model that has seen the training tasks of all families but the task's own, beside those of
/// the prediction alone; means over the tasks.
Result<> add_ranking(Report& report, const std::vector<MeasuredTask>& training, const std::vector<MeasuredTask>& tests);

/// One line of JSON a candidate, for study: task, family, what was predicted and measured, decisions, features. E702
Result<> write_rows(const std::vector<MeasuredTask>& tasks, const std::string& path);

/// Trains on all of them, at most `rows` candidates, and writes the model. E702
Result<> write_model(const std::vector<MeasuredTask>& training, size_t rows, const std::string& path);

}  // namespace fettle::bench
