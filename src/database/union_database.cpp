#include <algorithm>

#include "base/check.h"
#include "database/database.h"

namespace fettle {
namespace {

class UnionDatabase : public Database {
 public:
  explicit UnionDatabase(std::vector<std::shared_ptr<Database>> parts) : parts_(std::move(parts)) {
    FETTLE_CHECK(!parts_.empty());
  }

  Result<> add(const Record& record) override { return parts_.front()->add(record); }
  Result<> add_all(std::span<const Record> records) override { return parts_.front()->add_all(records); }

  Result<std::vector<Record>> best(const TaskKey& task, int k) override {
    return first([&](Database& part) { return part.best(task, k); });
  }
  Result<std::vector<Record>> records(const TaskKey& task) override {
    return first([&](Database& part) { return part.records(task); });
  }

  Result<bool> contains(const TaskKey& task, std::string_view trace) override {
    for (const auto& part : parts_) {
      FETTLE_TRY(const bool found, part->contains(task, trace));
      if (found) return true;
    }
    return false;
  }

  Result<> for_each(const std::function<Result<>(const Record&)>& visit) override {
    for (const auto& part : parts_) FETTLE_TRY_VOID(part->for_each(visit));
    return {};
  }

  Result<> keep_run(const TuningRun& run) override { return parts_.front()->keep_run(run); }
  Result<std::vector<TuningRun>> runs() override {
    std::vector<TuningRun> all;
    for (const auto& part : parts_) {
      FETTLE_TRY(std::vector<TuningRun> runs, part->runs());
      for (TuningRun& run : runs)
        if (std::none_of(all.begin(), all.end(), [&](const TuningRun& known) { return known.id == run.id; }))
          all.push_back(std::move(run));
    }
    std::stable_sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.created_ns < b.created_ns; });
    return all;
  }

  Result<std::optional<std::vector<double>>> fact(std::string_view machine, std::string_view key) override {
    for (const auto& part : parts_) {
      FETTLE_TRY(auto found, part->fact(machine, key));
      if (found) return found;
    }
    return std::nullopt;
  }
  Result<> set_fact(std::string_view machine, std::string_view key, std::span<const double> values) override {
    return parts_.front()->set_fact(machine, key, values);
  }
  Result<std::vector<std::pair<std::string, std::vector<double>>>> facts(std::string_view machine,
                                                                         std::string_view prefix) override {
    return first([&](Database& part) { return part.facts(machine, prefix); });
  }

 private:
  // The first answer that is not empty.
  template <class Ask>
  auto first(Ask ask) -> decltype(ask(std::declval<Database&>())) {
    for (const auto& part : parts_) {
      auto found = ask(*part);
      if (!found || !found->empty()) return found;
    }
    return {};
  }

  std::vector<std::shared_ptr<Database>> parts_;
};

}  // namespace

std::unique_ptr<Database> make_union_database(std::vector<std::shared_ptr<Database>> databases) {
  return std::make_unique<UnionDatabase>(std::move(databases));
}

}  // namespace fettle
