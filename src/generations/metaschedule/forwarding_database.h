#pragma once
// A database that forwards every call to another one. Derived classes override some of them.

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "database/database.h"

namespace fettle {

class ForwardingDatabase : public Database {
 public:
  explicit ForwardingDatabase(std::shared_ptr<Database> inner) : inner_(std::move(inner)) {}

  Result<> add(const Record& record) override { return inner_->add(record); }
  Result<> add_all(std::span<const Record> records) override { return inner_->add_all(records); }
  Result<std::vector<Record>> best(const TaskKey& task, int k) override { return inner_->best(task, k); }
  Result<std::vector<Record>> records(const TaskKey& task) override { return inner_->records(task); }
  Result<bool> contains(const TaskKey& task, std::string_view trace) override { return inner_->contains(task, trace); }
  Result<> for_each(const std::function<Result<>(const Record&)>& visit) override { return inner_->for_each(visit); }
  Result<> keep_run(const TuningRun& run) override { return inner_->keep_run(run); }
  Result<std::vector<TuningRun>> runs() override { return inner_->runs(); }
  Result<std::optional<std::vector<double>>> fact(std::string_view machine, std::string_view key) override {
    return inner_->fact(machine, key);
  }
  Result<> set_fact(std::string_view machine, std::string_view key, std::span<const double> values) override {
    return inner_->set_fact(machine, key, values);
  }
  Result<std::vector<std::pair<std::string, std::vector<double>>>> facts(std::string_view machine,
                                                                         std::string_view prefix) override {
    return inner_->facts(machine, prefix);
  }

 protected:
  std::shared_ptr<Database> inner_;
};

/// The k best, those timed to the end first.
inline std::vector<Record> k_best(std::vector<Record> all, int k) {
  std::ranges::stable_sort(all, [](const Record& a, const Record& b) {
    return a.raced_out != b.raced_out ? b.raced_out : a.median_s < b.median_s;
  });
  all.resize(std::min(all.size(), static_cast<size_t>(std::max(0, k))));
  return all;
}

}  // namespace fettle
