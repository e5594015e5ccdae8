#include <algorithm>
#include <map>
#include <tuple>

#include "database/database.h"

namespace fettle {

Result<std::optional<Record>> best_checked(Database& database, const TaskKey& task,
                                           const std::function<bool(const Record&)>& fits) {
  // Those of a search that ended early stand before it.
  constexpr int kAsked = 64, kAll = 1 << 20;
  FETTLE_TRY(std::vector<Record> best, database.best(task, fits ? kAll : kAsked));
  for (Record& record : best)
    if (record.checked && !record.raced_out && (!fits || fits(record))) return std::optional(std::move(record));
  return std::optional<Record>();
}

Result<std::vector<TaskSummary>> summarize(Database& database) {
  std::vector<TaskSummary> summaries;
  // Programs equal under renaming meet in same_workload; the key narrows down whom to ask.
  std::multimap<std::tuple<Digest, Digest, std::string, int, std::string>, size_t> known;
  FETTLE_TRY_VOID(database.for_each([&](const Record& r) -> Result<> {
    const auto key = std::make_tuple(r.task.workload.hash, r.task.fingerprint, r.task.target_features, r.task.threads,
                                     r.task.versions);
    const auto [begin, end] = known.equal_range(key);
    auto found = std::find_if(begin, end, [&](const auto& entry) {
      return same_workload(summaries[entry.second].task.workload, r.task.workload);
    });
    if (found == end) {
      found = known.emplace(key, summaries.size());
      summaries.push_back({.task = r.task, .machine = r.machine});
    }
    TaskSummary& summary = summaries[found->second];
    ++summary.n_records;
    if (!r.ok()) ++summary.n_failed;
    if (r.ok() && !r.raced_out && (!summary.best || r.median_s < summary.best->median_s)) summary.best = r;
    summary.last_ns = std::max(summary.last_ns, r.created_ns);
    return {};
  }));
  return summaries;
}

}  // namespace fettle
