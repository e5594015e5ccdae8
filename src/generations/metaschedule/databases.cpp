#include "generations/metaschedule/databases.h"

#include <algorithm>
#include <filesystem>

#include "base/check.h"
#include "generations/metaschedule/forwarding_database.h"
#include "ir/text.h"

namespace fettle {
namespace {

class MergedDatabase : public ForwardingDatabase {
 public:
  explicit MergedDatabase(std::vector<std::shared_ptr<Database>> parts)
      : ForwardingDatabase(std::shared_ptr<Database>(make_union_database(parts))), parts_(std::move(parts)) {}

  Result<std::vector<Record>> best(const TaskKey& task, int k) override {
    std::vector<Record> all;
    for (const auto& part : parts_) {
      FETTLE_TRY(const std::vector<Record> found, part->best(task, k));
      for (const Record& record : found) {
        const auto known = std::ranges::find(all, record.trace, &Record::trace);
        if (known == all.end())
          all.push_back(record);
        else if (record.median_s < known->median_s)
          *known = record;
      }
    }
    return k_best(std::move(all), k);
  }
  Result<std::vector<Record>> records(const TaskKey& task) override {
    std::vector<Record> all;
    for (const auto& part : parts_) {
      FETTLE_TRY(const std::vector<Record> found, part->records(task));
      all.insert(all.end(), found.begin(), found.end());
    }
    return all;
  }

 private:
  std::vector<std::shared_ptr<Database>> parts_;
};

class ScheduleFnDatabase : public ForwardingDatabase {
 public:
  explicit ScheduleFnDatabase(std::function<Result<>(Schedule&)> schedule)
      : ForwardingDatabase(std::shared_ptr<Database>(make_memory_database())), schedule_(std::move(schedule)) {}

  Result<> add(const Record&) override { return fail(ErrorCode::E505, "a schedule function keeps nothing"); }
  Result<> add_all(std::span<const Record>) override {
    return fail(ErrorCode::E505, "a schedule function keeps nothing");
  }
  Result<std::vector<Record>> best(const TaskKey& task, int k) override {
    if (k < 1) return std::vector<Record>{};
    return records(task);
  }
  Result<std::vector<Record>> records(const TaskKey& task) override {
    FETTLE_TRY(const Func workload, parse_func(task.workload.text));
    Schedule schedule(workload);
    if (!schedule_(schedule)) return std::vector<Record>{};
    Record record;
    record.task = task;
    record.trace = to_text(schedule.trace());
    const DecisionMap decisions = schedule.decisions();
    record.decisions.insert(decisions.begin(), decisions.end());
    return std::vector{std::move(record)};
  }
  Result<bool> contains(const TaskKey& task, std::string_view trace) override {
    FETTLE_TRY(const std::vector<Record> made, records(task));
    return !made.empty() && made.front().trace == trace;
  }

 private:
  std::function<Result<>(Schedule&)> schedule_;
};

class ObservedDatabase : public ForwardingDatabase {
 public:
  ObservedDatabase(std::shared_ptr<Database> inner, std::vector<MeasureCallback> callbacks)
      : ForwardingDatabase(std::move(inner)), callbacks_(std::move(callbacks)) {}

  Result<> add(const Record& record) override {
    FETTLE_TRY_VOID(inner_->add(record));
    return tell(record);
  }
  Result<> add_all(std::span<const Record> records) override {
    FETTLE_TRY_VOID(inner_->add_all(records));
    for (const Record& record : records) FETTLE_TRY_VOID(tell(record));
    return {};
  }

 private:
  Result<> tell(const Record& record) {
    for (const MeasureCallback& callback : callbacks_) FETTLE_TRY_VOID(callback.apply(record));
    return {};
  }

  std::vector<MeasureCallback> callbacks_;
};

}  // namespace

std::unique_ptr<Database> make_merged_database(std::vector<std::shared_ptr<Database>> databases) {
  FETTLE_CHECK(!databases.empty());
  return std::make_unique<MergedDatabase>(std::move(databases));
}
std::unique_ptr<Database> make_schedule_fn_database(std::function<Result<>(Schedule&)> schedule) {
  return std::make_unique<ScheduleFnDatabase>(std::move(schedule));
}
std::unique_ptr<Database> make_observed_database(std::shared_ptr<Database> database,
                                                 std::vector<MeasureCallback> callbacks) {
  return std::make_unique<ObservedDatabase>(std::move(database), std::move(callbacks));
}

}  // namespace fettle
