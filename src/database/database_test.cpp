#include "database/database.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>

#include "database/json_lines.h"
#include "database/sqlite_database.h"
#include "database/test_util.h"
#include "ir/text.h"

namespace fettle {
namespace {

using testing::TempFolder;

// Each kind behaves the same.
class AnyDatabase : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    const std::string kind = GetParam();
    if (kind == "memory") {
      db_ = make_memory_database();
    } else if (kind == "sqlite") {
      auto opened = open_sqlite_database(folder_.path / "records.db");
      ASSERT_TRUE(opened) << opened.error().to_string();
      db_ = std::move(*opened);
    } else {
      auto second = open_sqlite_database(folder_.path / "second.db");
      ASSERT_TRUE(second);
      db_ = make_union_database(
          {std::shared_ptr<Database>(make_memory_database()), std::shared_ptr<Database>(std::move(*second))});
    }
  }
  TempFolder folder_;
  std::unique_ptr<Database> db_;
};
INSTANTIATE_TEST_SUITE_P(Kinds, AnyDatabase, ::testing::Values("memory", "sqlite", "union"),
                         [](const auto& info) { return std::string(info.param); });

TEST_P(AnyDatabase, GivesBackWhatItWasGiven) {
  Record r = testing::record(10, "a trace", 1e-3);
  r.decisions = {{"tile/anchor/i", {4, 8}}, {"tile/anchor/j", {}}, {"rule/anchor/tile", "14x2"}};
  r.half_width = 0.015;
  r.repeats = 31;
  r.raced_out = true;
  r.pace = 1.25;
  r.checked = true;
  r.lost_worker = true;
  r.run = UINT64_MAX - 1;
  r.elapsed_s = 12.5;
  r.seed = UINT64_MAX;
  r.generation = 3;
  r.candidate = 12;
  ASSERT_TRUE(db_->add(r));
  auto found = db_->records(r.task);
  ASSERT_TRUE(found) << found.error().to_string();
  ASSERT_EQ(found->size(), 1u);
  EXPECT_EQ(to_json_line(found->front()), to_json_line(r));
}

TEST_P(AnyDatabase, KeepsRuns) {
  EXPECT_TRUE(db_->runs()->empty());
  TuningRun later = testing::run(UINT64_MAX, 20), earlier = testing::run(5, 10);
  ASSERT_TRUE(db_->keep_run(later));
  ASSERT_TRUE(db_->keep_run(earlier));
  later.seconds = 60;
  later.tuned_ms = 1.5;
  later.stopped = true;
  ASSERT_TRUE(db_->keep_run(later));  // how it ended
  const auto runs = db_->runs();
  ASSERT_TRUE(runs) << runs.error().to_string();
  ASSERT_EQ(runs->size(), 2u);
  EXPECT_EQ(to_json_line(runs->at(0)), to_json_line(earlier));
  EXPECT_EQ(to_json_line(runs->at(1)), to_json_line(later));
}

TEST_P(AnyDatabase, KeepsFailuresAsWhatTheyWere) {
  Record r = testing::record(10, "crashes", 0);
  r.error = ErrorCode::E403;
  r.signal = 11;
  r.message = "Segmentation fault: \"\xff\" \n'; DROP TABLE records; --";
  ASSERT_TRUE(db_->add(r));
  EXPECT_TRUE(*db_->contains(r.task, "crashes"));
  EXPECT_TRUE(db_->best(r.task, 5)->empty());
  const Record found = db_->records(r.task)->at(0);
  EXPECT_EQ(found.error, ErrorCode::E403);
  EXPECT_EQ(found.signal, 11);
  EXPECT_EQ(found.message, r.message);
}

TEST_P(AnyDatabase, BestIsOneATraceFastestFirst) {
  // By a clock that goes backwards.
  int64_t now = 1000;
  const auto add = [&](const char* trace, double seconds, bool raced_out = false) {
    Record r = testing::record(10, trace, seconds);
    r.created_ns = --now;
    r.raced_out = raced_out;
    ASSERT_TRUE(db_->add(r));
  };
  add("slow", 9e-3);
  add("lucky", 1e-3);
  add("lucky", 5e-3);  // timed again: what counts
  add("fast", 3e-3);
  add("fast", 1e-4, true);  // stopped early: not what counts
  add("raced out", 2e-3, true);
  const TaskKey task = testing::task(10);
  auto best = db_->best(task, 10);
  ASSERT_TRUE(best) << best.error().to_string();
  std::vector<std::string> traces;
  for (const Record& r : *best) traces.push_back(r.trace);
  EXPECT_EQ(traces, (std::vector<std::string>{"fast", "lucky", "slow", "raced out"}));
  EXPECT_EQ(best->at(0).median_s, 3e-3);
  EXPECT_EQ(best->at(1).median_s, 5e-3);
  EXPECT_EQ(db_->best(task, 2)->size(), 2u);
  EXPECT_EQ(db_->best(task, 0)->size(), 0u);
  EXPECT_EQ(db_->records(task)->size(), 6u);
}

TEST_P(AnyDatabase, OnlyWhatIsKnownToBeRightIsUsed) {
  const auto add = [&](const char* trace, double seconds, bool checked, int64_t generation = 1) {
    Record r = testing::record(10, trace, seconds);
    r.checked = checked;
    r.generation = generation;
    ASSERT_TRUE(db_->add(r));
  };
  const TaskKey task = testing::task(10);
  add("fast, not checked", 1e-3, false);
  ASSERT_TRUE(best_checked(*db_, task));
  EXPECT_FALSE(*best_checked(*db_, task));
  add("right", 3e-3, false);
  add("right", 4e-3, false, kConfirmationGeneration);
  add("right", 9e-3, true, kCheckGeneration);  // a single run: no time to go by
  add("slow", 5e-3, true);
  const auto best = best_checked(*db_, task);
  ASSERT_TRUE(best && *best);
  EXPECT_EQ((*best)->trace, "right");
  EXPECT_EQ((*best)->median_s, 4e-3);
  const auto all = db_->best(task, 3);
  EXPECT_FALSE(all->at(0).checked);
  EXPECT_TRUE(all->at(1).checked);
  const auto other = best_checked(*db_, task, [](const Record& r) { return r.trace != "right"; });
  ASSERT_TRUE(other && *other);
  EXPECT_EQ((*other)->trace, "slow");
  EXPECT_FALSE(*best_checked(*db_, task, [](const Record&) { return false; }));
}

TEST_P(AnyDatabase, WhatFailedLaterIsNotAmongTheBest) {
  const auto add = [&](const char* trace, double seconds, ErrorCode error = ErrorCode::kNone) {
    Record r = testing::record(10, trace, seconds);
    r.error = error;
    ASSERT_TRUE(db_->add(r));
  };
  add("wrong", 1e-3);
  add("wrong", 0, ErrorCode::E405);
  add("mended", 0, ErrorCode::E403);
  add("mended", 2e-3);
  auto best = db_->best(testing::task(10), 10);
  ASSERT_TRUE(best) << best.error().to_string();
  ASSERT_EQ(best->size(), 1u);
  EXPECT_EQ(best->at(0).trace, "mended");
}

TEST_P(AnyDatabase, EveryPartOfTheKeyCounts) {
  ASSERT_TRUE(db_->add(testing::record(10, "t", 1e-3)));
  EXPECT_TRUE(*db_->contains(testing::task(10), "t"));
  EXPECT_FALSE(*db_->contains(testing::task(10), "u"));
  EXPECT_FALSE(*db_->contains(testing::task(11), "t"));
  TaskKey task = testing::task(10);
  task.threads = 2;
  EXPECT_FALSE(*db_->contains(task, "t"));
  EXPECT_TRUE(db_->best(task, 1)->empty());
  task = testing::task(10);
  task.versions = "newer";
  EXPECT_FALSE(*db_->contains(task, "t"));
  task = testing::task(10);
  task.target_features += ",+avx10";
  EXPECT_FALSE(*db_->contains(task, "t"));
  task = testing::task(10);
  ++task.fingerprint.low;
  EXPECT_FALSE(*db_->contains(task, "t"));
}

TEST_P(AnyDatabase, AHashThatHitsIsFollowedByAnEqualityCheck) {
  ASSERT_TRUE(db_->add(testing::record(10, "t", 1e-3)));
  TaskKey impostor = testing::task(11);
  impostor.workload.hash = testing::task(10).workload.hash;
  EXPECT_FALSE(*db_->contains(impostor, "t"));
  EXPECT_TRUE(db_->records(impostor)->empty());
  // Both under one hash are kept apart from then on.
  Record other = testing::record(11, "u", 2e-3);
  other.task = impostor;
  ASSERT_TRUE(db_->add(other));
  EXPECT_EQ(db_->records(impostor)->size(), 1u);
  EXPECT_EQ(db_->records(testing::task(10))->size(), 1u);
}

TEST_P(AnyDatabase, FindsAProgramEqualUnderRenaming) {
  ASSERT_TRUE(db_->add(testing::record(10, "t", 1e-3)));
  TaskKey renamed = testing::task(10);
  auto func = parse_func(
      "func other(X: f32[10], Y: f32[10] output):\n"
      "  for q in 10:\n"
      "    block Z(v: spatial[10] = q):\n"
      "      reads X[v]\n"
      "      writes Y[v]\n"
      "      Y[v] = X[v]\n");
  ASSERT_TRUE(func) << func.error().to_string();
  renamed.workload = make_workload(*func);
  ASSERT_NE(renamed.workload.text, testing::task(10).workload.text);
  EXPECT_TRUE(*db_->contains(renamed, "t"));
  auto best = db_->best(renamed, 1);
  ASSERT_EQ(best->size(), 1u);
  // Traces name blocks: they belong to the text that comes with them.
  EXPECT_EQ(best->at(0).task.workload.text, testing::task(10).workload.text);
}

TEST_P(AnyDatabase, VisitsAllInOrder) {
  std::vector<Record> records;
  for (int i = 0; i < 700; ++i) records.push_back(testing::record(10 + i % 3, "t" + std::to_string(i), 1e-3));
  ASSERT_TRUE(db_->add_all(records));
  int next = 0;
  ASSERT_TRUE(db_->for_each([&](const Record& r) -> Result<> {
    EXPECT_EQ(r.trace, "t" + std::to_string(next));
    EXPECT_EQ(r.task.workload.text, testing::task(10 + next % 3).workload.text);
    ++next;
    return {};
  }));
  EXPECT_EQ(next, 700);
  auto stopped = db_->for_each([&](const Record&) -> Result<> { return fail(ErrorCode::E702, "enough"); });
  EXPECT_EQ(stopped.error().code, ErrorCode::E702);
  auto summary = summarize(*db_);
  ASSERT_TRUE(summary);
  ASSERT_EQ(summary->size(), 3u);
  EXPECT_EQ(summary->at(0).n_records, 234);
  EXPECT_EQ(summary->at(0).task.workload.name(), "copy");
}

TEST_P(AnyDatabase, FactsOfAMachine) {
  EXPECT_FALSE(*db_->fact("m", "peak"));
  ASSERT_TRUE(db_->set_fact("m", "micro-kernel/a", std::vector<double>{1.5, -2.0}));
  ASSERT_TRUE(db_->set_fact("m", "micro-kernel/b", std::vector<double>{}));
  ASSERT_TRUE(db_->set_fact("m", "atlas", std::vector<double>{3}));
  ASSERT_TRUE(db_->set_fact("other", "micro-kernel/a", std::vector<double>{9}));
  EXPECT_EQ(**db_->fact("m", "micro-kernel/a"), (std::vector<double>{1.5, -2.0}));
  ASSERT_TRUE(db_->set_fact("m", "micro-kernel/a", std::vector<double>{7}));
  EXPECT_EQ(**db_->fact("m", "micro-kernel/a"), (std::vector<double>{7}));
  auto facts = db_->facts("m", "micro-kernel/");
  ASSERT_EQ(facts->size(), 2u);
  EXPECT_EQ(facts->at(0).first, "micro-kernel/a");
  EXPECT_TRUE(facts->at(1).second.empty());
}

TEST(Union, TheFirstHitWins) {
  auto first = std::shared_ptr<Database>(make_memory_database()),
       second = std::shared_ptr<Database>(make_memory_database());
  auto both = make_union_database({first, second});
  ASSERT_TRUE(second->add(testing::record(10, "theirs", 1e-3)));
  EXPECT_EQ(both->best(testing::task(10), 5)->at(0).trace, "theirs");
  EXPECT_TRUE(*both->contains(testing::task(10), "theirs"));
  ASSERT_TRUE(both->add(testing::record(10, "ours", 2e-3)));
  auto best = both->best(testing::task(10), 5);
  ASSERT_EQ(best->size(), 1u);
  EXPECT_EQ(best->at(0).trace, "ours");
  EXPECT_EQ(second->records(testing::task(10))->size(), 1u);
  EXPECT_TRUE(*both->contains(testing::task(10), "theirs"));
}

// --- JSON lines

std::string contents(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

TEST(JsonLines, ExportAndImportAreInverses) {
  TempFolder folder;
  auto db = make_memory_database();
  for (int i = 0; i < 20; ++i) {
    Record r = testing::record(10 + i % 2, "t" + std::to_string(i), 1e-3 * (i + 1));
    r.created_ns = i;
    if (i % 5 == 0) {
      r.error = ErrorCode::E402;
      r.median_s = 0;
    }
    r.run = static_cast<uint64_t>(i % 3);
    ASSERT_TRUE(db->add(r));
  }
  ASSERT_TRUE(db->keep_run(testing::run(1, 1)));
  ASSERT_TRUE(db->keep_run(testing::run(2, 2)));
  EXPECT_EQ(*export_records(*db, folder.path / "a.jsonl"), 20);
  auto copy = make_memory_database();
  EXPECT_EQ(*import_records(*copy, folder.path / "a.jsonl"), 20);
  EXPECT_EQ(*import_records(*copy, folder.path / "a.jsonl"), 0) << "what is there already is not added again";
  EXPECT_EQ(*export_records(*copy, folder.path / "b.jsonl"), 20);
  EXPECT_EQ(contents(folder.path / "a.jsonl"), contents(folder.path / "b.jsonl"));
}

TEST(JsonLines, TheBestOfEachTaskAlone) {
  TempFolder folder;
  auto db = make_memory_database();
  for (int i = 0; i < 6; ++i)
    ASSERT_TRUE(db->add(testing::record(10 + i % 2, "t" + std::to_string(i), 1e-3 * (6 - i))));
  EXPECT_EQ(*export_records(*db, folder.path / "best.jsonl", 1), 2);
  auto copy = make_memory_database();
  EXPECT_EQ(*import_records(*copy, folder.path / "best.jsonl"), 2);
  EXPECT_EQ(copy->best(testing::task(10), 9)->at(0).trace, "t4");
  EXPECT_EQ(copy->best(testing::task(11), 9)->at(0).trace, "t5");
  EXPECT_EQ(*export_records(*db, folder.path / "best.jsonl", 100), 6);
}

TEST(JsonLines, OneBadLineImportsNothing) {
  const std::string good = to_json_line(testing::record(10, "t", 1e-3));
  const auto replaced = [&](const std::string& from, const std::string& to) {
    std::string line = good;
    const size_t at = line.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    return line.replace(at, from.size(), to);
  };
  for (const std::string& bad :
       {std::string("{"), std::string("[]"), std::string("{}"), std::string("\xff\xfe"),
        good.substr(0, good.size() / 2), replaced("\"format\":1", "\"format\":2"),
        replaced("\"median_s\":0.001", "\"median_s\":\"fast\""), replaced("\"median_s\":0.001", "\"median_s\":-1.0"),
        replaced("\"error\":\"\"", "\"error\":\"E999\""), replaced("\"decisions\":{}", "\"decisions\":{\"a\":[1.5]}"),
        replaced("\"decisions\":{}", "\"decisions\":{\"a\":\"two words\"}"),
        replaced("\"decisions\":{}", "\"decisions\":{\"a\":7}"), replaced("func copy", "funk copy"),
        replaced("\"threads\":1", "\"threads\":0"), replaced("\"fingerprint\":\"", "\"fingerprint\":\"x")}) {
    TempFolder folder;
    std::ofstream(folder.path / "in.jsonl") << good << "\n\n" << bad << "\n" << good << "\n";
    auto db = make_memory_database();
    auto imported = import_records(*db, folder.path / "in.jsonl");
    ASSERT_FALSE(imported) << bad;
    EXPECT_EQ(imported.error().code, ErrorCode::E506) << bad;
    EXPECT_NE(imported.error().where.find("line 3"), std::string::npos) << imported.error().where;
    EXPECT_TRUE(db->records(testing::task(10))->empty());
  }
}

TEST(JsonLines, ABadRunImportsNothing) {
  std::string bad = to_json_line(testing::run(1, 1));
  ASSERT_TRUE(is_run_line(bad));
  bad.replace(bad.find("\"weight\":3"), 10, "\"weight\":[]");
  TempFolder folder;
  std::ofstream(folder.path / "in.jsonl") << to_json_line(testing::record(10, "t", 1e-3)) << "\n" << bad << "\n";
  auto db = make_memory_database();
  EXPECT_EQ(import_records(*db, folder.path / "in.jsonl").error().code, ErrorCode::E506);
  EXPECT_TRUE(db->records(testing::task(10))->empty());
  EXPECT_TRUE(db->runs()->empty());
}

TEST(JsonLines, FilesThatAreNotThere) {
  TempFolder folder;
  auto db = make_memory_database();
  EXPECT_EQ(import_records(*db, folder.path / "none").error().code, ErrorCode::E701);
  EXPECT_EQ(export_records(*db, folder.path / "no/such/folder").error().code, ErrorCode::E702);
  std::filesystem::create_directory(folder.path / "taken");
  EXPECT_EQ(export_records(*db, folder.path / "taken").error().code, ErrorCode::E702);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path), {}), 1)
      << "a temporary file was left behind";
}

}  // namespace
}  // namespace fettle
