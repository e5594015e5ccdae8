#include "search/measured_rows.h"

#include <fmt/format.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "database/sqlite_database.h"
#include "tune/describe.h"
#include "tune/task_tuner.h"

namespace fettle::bench {

Result<std::vector<MeasuredSearch>> measured_searches(const std::vector<const SearchTask*>& tasks,
                                                      const std::vector<SearchMode>& modes, uint64_t first_seed,
                                                      int seeds, const SearchRun& run) {
  const auto target = std::make_shared<const Target>(run.target);
  const DescribeFn describe = describe_by_lowering(target, run.threads, run.micro_kernels);
  std::vector<MeasuredSearch> result;
  for (const SearchTask* task : tasks) {
    const TaskKey key = key_of(*task, run);
    std::set<std::string> seen;
    for (const SearchMode& mode : modes) {
      if (mode.space != "rules") continue;
      for (int s = 0; s < seeds; ++s) {
        const uint64_t seed = first_seed + static_cast<uint64_t>(s);
        const auto file = records_file(run.folder, mode.name, seed);
        if (!std::filesystem::exists(file)) continue;
        FETTLE_TRY(const auto database, open_sqlite_database(file));
        FETTLE_TRY(const std::vector<Record> records, database->records(key));
        MeasuredSearch measured{
            .task = task->name, .family = task->family, .mode = fmt::format("{}-{}", mode.name, seed)};
        for (const Record& record : records) {
          if (!record.ok() || record.generation < 0 || !seen.insert(record.trace).second) continue;
          Schedule schedule(task->program);
          schedule.set_target(target);
          const auto trace = parse_trace(record.trace);
          if (!trace || !replay(schedule, *trace)) continue;
          auto described = describe(schedule);
          if (!described) continue;
          measured.features.push_back(std::move(described->features.values));
          measured.predicted_s.push_back(described->features.predicted_seconds);
          measured.seconds.push_back(usual_seconds(record));
          measured.decisions.push_back(record.decisions);
        }
        if (!measured.seconds.empty()) result.push_back(std::move(measured));
      }
    }
  }
  return result;
}

Result<> write_rows(const std::vector<MeasuredSearch>& searches, const std::string& path) {
  std::ofstream out(path);
  for (const MeasuredSearch& search : searches)
    for (size_t i = 0; i < search.seconds.size(); ++i) {
      nlohmann::json line{{"task", search.task},          {"family", search.family},
                          {"mode", search.mode},          {"predicted_s", search.predicted_s[i]},
                          {"seconds", search.seconds[i]}, {"features", search.features[i]}};
      for (const auto& [address, decision] : search.decisions[i]) line["decisions"][address] = to_text(decision);
      out << line.dump() << '\n';
    }
  out.close();
  return out ? Result<>{} : fail(ErrorCode::E702, path);
}

Result<std::vector<MeasuredSearch>> read_rows(const std::string& path) {
  std::ifstream in(path);
  if (!in) return fail(ErrorCode::E701, path);
  const std::string machine = std::filesystem::path(path).stem().string();
  std::vector<MeasuredSearch> result;
  std::map<std::pair<std::string, std::string>, size_t> known;
  std::string text;
  for (int number = 1; std::getline(in, text); ++number) {
    const nlohmann::json line = nlohmann::json::parse(text, nullptr, false);
    // The JSON library reports a missing or mistyped field by throwing.
    try {
      const std::string task = line.at("task"), mode = line.at("mode");
      const auto [place, fresh] = known.emplace(std::pair(task, mode), result.size());
      if (fresh) result.push_back({.task = task, .family = line.at("family"), .mode = mode, .machine = machine});
      MeasuredSearch& search = result[place->second];
      search.features.push_back(line.at("features").get<std::vector<float>>());
      search.predicted_s.push_back(line.at("predicted_s"));
      search.seconds.push_back(line.at("seconds"));
    } catch (const nlohmann::json::exception& error) {
      return fail(ErrorCode::E503, fmt::format("{}, line {}: {}", path, number, error.what()));
    }
  }
  return result;
}

}  // namespace fettle::bench
