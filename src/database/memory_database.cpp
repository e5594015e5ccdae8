#include <algorithm>
#include <map>
#include <set>

#include "database/database.h"

namespace fettle {
namespace {

bool same_machine(const TaskKey& a, const TaskKey& b) {
  return a.threads == b.threads && a.fingerprint == b.fingerprint && a.target_features == b.target_features &&
         a.versions == b.versions;
}

class MemoryDatabase : public Database {
 public:
  Result<> add(const Record& record) override {
    records_.push_back(record);
    return {};
  }

  Result<> add_all(std::span<const Record> records) override {
    records_.insert(records_.end(), records.begin(), records.end());
    return {};
  }

  Result<std::vector<Record>> best(const TaskKey& task, int k) override {
    std::map<std::string_view, const Record*> of_trace, last;
    std::set<std::string_view> checked;
    for (const Record& r : records_) {
      if (!matches(r, task)) continue;
      last[r.trace] = &r;
      if (!r.ok()) continue;
      if (r.checked) checked.insert(r.trace);
      const Record*& kept = of_trace[r.trace];
      if (!kept || newer(r, *kept)) kept = &r;
    }
    std::vector<const Record*> order;
    for (const auto& [trace, record] : of_trace)
      if (last.at(trace)->ok()) order.push_back(record);
    std::sort(order.begin(), order.end(), [](const Record* a, const Record* b) {
      if (a->raced_out != b->raced_out) return b->raced_out;
      return a->median_s != b->median_s ? a->median_s < b->median_s : a < b;
    });
    std::vector<Record> result;
    for (const Record* record : order) {
      if (static_cast<int>(result.size()) >= k) break;
      result.push_back(*record);
      result.back().checked = checked.contains(record->trace);
    }
    return result;
  }

  Result<std::vector<Record>> records(const TaskKey& task) override {
    std::vector<Record> result;
    for (const Record& r : records_)
      if (matches(r, task)) result.push_back(r);
    return result;
  }

  Result<bool> contains(const TaskKey& task, std::string_view trace) override {
    return std::any_of(records_.begin(), records_.end(),
                       [&](const Record& r) { return r.trace == trace && matches(r, task); });
  }

  Result<> for_each(const std::function<Result<>(const Record&)>& visit) override {
    for (size_t i = 0; i < records_.size(); ++i) FETTLE_TRY_VOID(visit(records_[i]));
    return {};
  }

  Result<> keep_run(const TuningRun& run) override {
    const auto known = std::find_if(runs_.begin(), runs_.end(), [&](const TuningRun& r) { return r.id == run.id; });
    if (known == runs_.end())
      runs_.push_back(run);
    else
      *known = run;
    return {};
  }

  Result<std::vector<TuningRun>> runs() override {
    std::vector<TuningRun> sorted = runs_;
    std::stable_sort(sorted.begin(), sorted.end(),
                     [](const auto& a, const auto& b) { return a.created_ns < b.created_ns; });
    return sorted;
  }

  Result<std::optional<std::vector<double>>> fact(std::string_view machine, std::string_view key) override {
    const auto found = facts_.find({std::string(machine), std::string(key)});
    if (found == facts_.end()) return std::nullopt;
    return found->second;
  }

  Result<> set_fact(std::string_view machine, std::string_view key, std::span<const double> values) override {
    facts_[{std::string(machine), std::string(key)}] = {values.begin(), values.end()};
    return {};
  }

  Result<std::vector<std::pair<std::string, std::vector<double>>>> facts(std::string_view machine,
                                                                         std::string_view prefix) override {
    std::vector<std::pair<std::string, std::vector<double>>> result;
    for (const auto& [name, values] : facts_)
      if (name.first == machine && name.second.starts_with(prefix)) result.emplace_back(name.second, values);
    return result;
  }

 private:
  static bool matches(const Record& r, const TaskKey& task) {
    return same_machine(r.task, task) && same_workload(r.task.workload, task.workload);
  }
  // Of `a`, which was added later.
  static bool newer(const Record& a, const Record& b) {
    if (a.raced_out != b.raced_out) return b.raced_out;
    return a.generation != kCheckGeneration || b.generation == kCheckGeneration;
  }

  std::vector<Record> records_;
  std::vector<TuningRun> runs_;
  std::map<std::pair<std::string, std::string>, std::vector<double>> facts_;
};

}  // namespace

std::unique_ptr<Database> make_memory_database() { return std::make_unique<MemoryDatabase>(); }

}  // namespace fettle
