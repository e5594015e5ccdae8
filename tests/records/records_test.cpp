// What records of earlier versions mean (README.md).
#include <filesystem>
#include <map>
#include <set>

#include "codegen/relayout.h"
#include "database/sqlite_database.h"
#include "ir/text.h"
#include "measure/compare.h"
#include "measure/fill.h"
#include "schedule/primitives/sample_categorical.h"
#include "schedule/reformulation.h"
#include "schedule/testing.h"
#include "tune/space/space.h"

namespace fettle {
namespace {
namespace fs = std::filesystem;

constexpr const char* kByRank = FETTLE_SOURCE_DIR "/tests/records/records_by_rank.db";

std::vector<Record> records_of(const std::string& file) {
  std::vector<Record> records;
  const auto database = open_sqlite_database(file, {.read_only = true});
  EXPECT_OK(database);
  if (!database) return records;
  EXPECT_OK((*database)->for_each([&](const Record& record) -> Result<> {
    records.push_back(record);
    return {};
  }));
  return records;
}

std::shared_ptr<const Target> avx512() {
  static const auto target = std::make_shared<const Target>(parse_target("x86-64-avx512").value());
  return target;
}

/// Of a template's point: which template is a decision.
bool is_of_template(const Record& record) { return record.decisions.contains("algorithm"); }

Result<Schedule> replayed(const Func& workload, const ParsedTrace& trace) {
  Schedule schedule(workload);
  schedule.set_target(avx512());
  FETTLE_TRY_VOID(replay(schedule, trace));
  return schedule;
}

using Values = std::vector<std::vector<char>>;  // of each parameter, in the caller's order

Values values_for(const Func& func) {
  Values values;
  for (const Param& param : func->params) {
    const Relayout relayout = Relayout::make(*param.buffer).value();
    fill_random(values.emplace_back(static_cast<size_t>(relayout.logical_bytes())).data(), relayout.logical_elems(),
                param.buffer->dtype, 7, values.size());
  }
  return values;
}

/// What the interpreter makes of these inputs.
Result<> run(const Func& func, Values& values) {
  Values physical;
  std::vector<BufferArg> args;
  for (size_t p = 0; p < values.size(); ++p) {
    FETTLE_TRY(const Relayout relayout, Relayout::make(*func->params[p].buffer));
    std::vector<char>& bytes = physical.emplace_back(static_cast<size_t>(relayout.physical_bytes()));
    relayout.to_physical(values[p].data(), bytes.data());
    args.push_back({bytes.data(), static_cast<int64_t>(bytes.size())});
  }
  FETTLE_TRY_VOID(interpret(func, args, {}));
  for (size_t p = 0; p < values.size(); ++p) {
    FETTLE_TRY(const Relayout relayout, Relayout::make(*func->params[p].buffer));
    relayout.to_logical(physical[p].data(), values[p].data());
  }
  return {};
}

TEST(RecordsByRank, OpenInPlaceAndThroughEveryMigration) {
  const fs::path copy = fs::temp_directory_path() / ("records-" + std::to_string(::getpid()) + ".db");
  fs::copy_file(kByRank, copy, fs::copy_options::overwrite_existing);
  {
    const auto database = open_sqlite_database(copy);
    ASSERT_OK(database);
    const auto runs = (*database)->runs();
    ASSERT_OK(runs);
    EXPECT_EQ(runs->size(), 2u);
  }
  const std::vector<Record> records = records_of(kByRank), migrated = records_of(copy.string());
  EXPECT_EQ(records.size(), 54u);
  ASSERT_EQ(records.size(), migrated.size());
  for (size_t i = 0; i < records.size(); ++i) EXPECT_EQ(to_json_line(records[i]), to_json_line(migrated[i]));
  std::set<Digest> workloads;
  size_t of_templates = 0, winograd = 0, ranked = 0;
  for (const Record& record : records) {
    workloads.insert(record.task.workload.hash);
    of_templates += is_of_template(record);
    winograd += record.trace.find("winograd") != std::string::npos;
    for (const auto& [address, decision] : record.decisions)
      ranked += address.starts_with("register_tiling/") && address.ends_with("/tile");
  }
  EXPECT_EQ(workloads.size(), 7u);
  EXPECT_GE(of_templates, 20u);
  EXPECT_GE(winograd, 10u);
  EXPECT_GE(ranked, 15u);
  fs::remove(copy);
}

TEST(RecordsByRank, TracesReplayAndComputeTheirWorkload) {
  std::map<Digest, Values> expected;
  for (const Record& record : records_of(kByRank)) {
    SCOPED_TRACE(record.task.workload.name() + "\n" + record.trace);
    const auto workload = parse_func(record.task.workload.text);
    ASSERT_OK(workload);
    const auto trace = parse_trace(record.trace);
    ASSERT_OK(trace);
    const auto schedule = replayed(*workload, *trace);
    ASSERT_OK(schedule);
    ASSERT_EQ(schedule->trace().size(), trace->steps.size());
    // It records values now: where a trace says 1, the decision is the second candidate.
    for (const auto& step : schedule->trace().steps)
      if (step->def == &sample_categorical_def) {
        EXPECT_FALSE(step->decision.value().empty()) << step->address;
      }
    const auto again = replayed(*workload, parse_trace(to_text(schedule->trace())).value());
    ASSERT_OK(again);
    EXPECT_EQ(to_text(again->trace()), to_text(schedule->trace()));
    EXPECT_EQ(canonical_hash(again->func()), canonical_hash(schedule->func()));

    Values& right = expected[record.task.workload.hash];
    if (right.empty()) {
      right = values_for(*workload);
      ASSERT_OK(run(*workload, right));
    }
    Values made = values_for(*workload);
    ASSERT_OK(run(schedule->func(), made));
    for (size_t p = 0; p < made.size(); ++p) {
      const Param& param = (*workload)->params[p];
      if (param.kind != ParamKind::kOutput) continue;
      const DType dtype = param.buffer->dtype;
      const auto difference =
          find_difference(param.buffer->name, Relayout::make(*param.buffer)->logical_shape(), dtype, made[p].data(),
                          right[p].data(), tolerance_of_scale(*workload, dtype, error_bound_of(schedule->func())));
      EXPECT_EQ(difference, std::nullopt);
    }
  }
}

// The decision maps of then name places: they are no choices, and drawn as if there were none. They are no error, and
// never taken for what stands at that place today.
TEST(RecordsByRank, PlacesInDecisionMapsAreDrawnAnew) {
  std::set<Digest> seen;
  for (const Record& record : records_of(kByRank)) {
    if (is_of_template(record) || !seen.insert(record.task.workload.hash).second) continue;
    const Func workload = parse_func(record.task.workload.text).value();
    const auto places = std::make_shared<const DecisionMap>(record.decisions);
    for (uint64_t seed = 0; seed < 3; ++seed) {
      const auto given = rule_space().generate(workload, avx512(), 2, seed, places);
      const auto drawn = rule_space().generate(workload, avx512(), 2, seed, nullptr);
      ASSERT_OK(given);
      ASSERT_OK(drawn);
      EXPECT_EQ(to_text(given->trace()), to_text(drawn->trace()));
    }
  }
}

// Of a template's knobs those of cuts are sizes, and say what they said; the others are places.
TEST(RecordsByRank, SizesOfTemplatesKeepTheirMeaning) {
  size_t kept = 0;
  for (const Record& record : records_of(kByRank)) {
    if (!is_of_template(record)) continue;
    const auto schedule = replayed(parse_func(record.task.workload.text).value(), parse_trace(record.trace).value());
    ASSERT_OK(schedule);
    for (const auto& [address, decision] : schedule->decisions()) {
      const Decision& then = record.decisions.at(address);
      if (decision.value().empty()) {
        EXPECT_EQ(decision, then) << address;
        ++kept;
      } else {
        EXPECT_EQ(then.list().size(), 1u) << address;
      }
    }
  }
  EXPECT_GT(kept, 10u);
}

}  // namespace
}  // namespace fettle
