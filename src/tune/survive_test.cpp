// What a tuning survives, and what stays the same whatever happens in it.

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <set>
#include <thread>

#include "base/random.h"
#include "codegen/build.h"
#include "tune/testing.h"
#include "tune/tuner.h"

namespace fettle {
namespace {

using testing::CountingModel;
using testing::FakeRunner;
using testing::toy_describe;
using testing::toy_seconds;
using testing::toy_shape;
using testing::toy_workload;
using testing::ToySpace;

class Survival : public ::testing::Test {
 protected:
  static TuneOptions options() {
    static const ToySpace space;
    TuneOptions o;
    o.seed = 5;
    o.first_points = 40;
    o.space = &space;
    o.describe = toy_describe();
    return o;
  }
  Result<TaskReport> tune(const TuneOptions& o) {
    return tune_task(toy_workload(), target, 1, *database, runner, model, o);
  }
  /// Traces that the search asked for, in its order.
  std::vector<std::string> searched() {
    std::vector<std::string> traces;
    EXPECT_TRUE(database->for_each([&](const Record& record) -> Result<> {
      if (record.generation >= 0) traces.push_back(record.trace);
      return {};
    }));
    return traces;
  }
  /// Times as a busy machine gives them: others each time, but the same in each run.
  static MeasureResult noisy(const Func& func, int times, const MeasureRequest&) {
    RandomStream stream{canonical_hash(func).low, static_cast<uint64_t>(times)};
    return FakeRunner::timed(toy_seconds(func) * (1 + 0.1 * stream.uniform()));
  }
  void forget() {
    database = make_memory_database();
    runner = FakeRunner();
    runner.outcome = noisy;
  }
  static std::vector<std::string> first(const std::vector<std::string>& list, size_t n) {
    return {list.begin(), list.begin() + static_cast<std::ptrdiff_t>(std::min(n, list.size()))};
  }

  Target target = parse_target("x86-64-avx512").value();
  std::unique_ptr<Database> database = make_memory_database();
  FakeRunner runner;
  CountingModel model;
};

TEST_F(Survival, RecordedTimesReplayedGiveTheSameCandidates) {
  forget();
  TuneOptions o = options();
  o.max_seconds = 1e5;  // the search goes on when the scheduler gives up
  ASSERT_TRUE(tune(o));
  const auto whole = searched();
  const auto measured = runner.measured;
  forget();
  ASSERT_TRUE(tune(o));
  EXPECT_EQ(searched(), whole);
  EXPECT_EQ(runner.measured, measured) << "those timed again, too";
}

TEST_F(Survival, AShorterBudgetGivesAPrefix) {
  forget();
  ASSERT_TRUE(tune(options()));
  const auto whole = searched();
  ASSERT_GT(whole.size(), 30u);
  for (const int64_t trials : {1, 3, 9, 14, 30}) {
    forget();
    TuneOptions o = options();
    o.max_trials = trials;
    ASSERT_TRUE(tune(o));
    EXPECT_EQ(searched(), first(whole, static_cast<size_t>(trials)));
  }
  // Ended at any moment, as by a clock.
  for (const size_t n : {2u, 11u, 25u}) {
    forget();
    std::atomic<bool> stop = false;
    runner.outcome = [&](const Func& func, int times, const MeasureRequest& request) {
      stop = searched().size() + 1 >= n;
      return noisy(func, times, request);
    };
    TuneOptions o = options();
    o.stop = &stop;
    ASSERT_TRUE(tune(o));
    EXPECT_EQ(searched(), first(whole, n));
  }
}

TEST_F(Survival, AResumedRunMeasuresNothingAgain) {
  forget();
  TuneOptions o = options();
  o.max_seconds = 1e5;
  const auto whole = tune(o);
  ASSERT_TRUE(whole);
  runner.measured.clear();
  const auto again = tune(o);
  ASSERT_TRUE(again);
  EXPECT_TRUE(runner.measured.empty());
  EXPECT_EQ(again->best_trace, whole->best_trace);
  EXPECT_EQ(again->best_s, whole->best_s);
  EXPECT_TRUE(again->confirmed);
}

TEST_F(Survival, TheTimeThatIsLeftGoesIntoTheBest) {
  forget();
  const auto patient = tune(options());
  forget();
  TuneOptions o = options();
  o.max_seconds = 1e5;
  const auto closer = tune(o);
  ASSERT_TRUE(patient && closer);
  EXPECT_GT(closer->trials, patient->trials);
  EXPECT_LE(closer->best_s, patient->best_s * 1.02);
}

TEST_F(Survival, EndsInTime) {
  // Timings that take as long as they say, of a task that is slow to time.
  runner.outcome = [](const Func& func, int, const MeasureRequest&) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    MeasureResult result = FakeRunner::timed(toy_seconds(func));
    result.run_s = 0.02;
    return result;
  };
  TuneOptions o = options();
  o.max_seconds = 1.5;
  const auto begin = std::chrono::steady_clock::now();
  const auto report = tune(o);
  ASSERT_TRUE(report);
  // Counted, since other programs may hold up this one: no more than fits into the time, confirmation included.
  EXPECT_LE(runner.measured.size(), 1.5 / 0.02 + 1);
  if (std::chrono::steady_clock::now() - begin < std::chrono::seconds(2)) {
    EXPECT_TRUE(report->confirmed) << "there was time kept for that";
  }
}

TEST_F(Survival, WhatWasNotCheckedIsNeverTheBest) {
  // The fast ones compute nonsense; the run is interrupted at any moment.
  for (const size_t n : {3u, 10u, 17u, 40u}) {
    forget();
    std::atomic<bool> stop = false;
    runner.outcome = [&](const Func& func, int, const MeasureRequest& request) {
      stop = searched().size() + 1 >= n;
      const double seconds = toy_seconds(func);
      if (request.check && seconds < 1.1e-3) return FakeRunner::failed(ErrorCode::E405);
      return FakeRunner::timed(seconds);
    };
    TuneOptions o = options();
    o.stop = &stop;
    const auto report = tune(o);
    ASSERT_TRUE(report);
    EXPECT_GE(report->best_s, 1.1e-3) << n;
    const auto used = best_checked(*database, make_task_key(toy_workload(), target, 1, program_versions()));
    ASSERT_TRUE(used && *used);
    EXPECT_GE((*used)->median_s, 1.1e-3) << "what a compilation takes";
  }
}

TEST_F(Survival, ARefusalToCheckOrToTimeAgainCostsACandidate) {
  // The device has no answer for the fastest: to checks, or when it is timed again, and once in a while for others.
  for (const bool checks : {true, false}) {
    forget();
    int calls = 0;
    runner.outcome = [&](const Func& func, int times, const MeasureRequest& request) {
      const double seconds = toy_seconds(func);
      const bool refused = checks ? request.check : !request.check && times > 0;
      if (refused && (seconds < 1.0005e-3 || (toy_shape(func).toy && ++calls % 7 == 0)))
        return FakeRunner::failed(ErrorCode::E406);
      return FakeRunner::timed(seconds);
    };
    const auto report = tune(options());
    ASSERT_TRUE(report) << report.error().to_string();
    EXPECT_EQ(report->error.code, ErrorCode::kNone);
    EXPECT_TRUE(report->confirmed);
    EXPECT_GE(report->best_s, 1.0005e-3);
    EXPECT_LT(report->best_s, 1.2e-3) << "the next one takes its place";
    EXPECT_GT(report->failed, 0);
    ASSERT_TRUE(database->for_each([](const Record& record) -> Result<> {
      EXPECT_NE(record.error, ErrorCode::E406) << "it may be checked another time";
      return {};
    }));
  }
}

TEST_F(Survival, ADefaultWhoseCheckIsRefusedIsTrusted) {
  runner.outcome = [](const Func& func, int, const MeasureRequest& request) {
    return request.check && !toy_shape(func).toy ? FakeRunner::failed(ErrorCode::E406)
                                                 : FakeRunner::timed(toy_seconds(func));
  };
  const auto report = tune(options());
  ASSERT_TRUE(report);
  EXPECT_EQ(report->default_s, 1.5e-3);
  EXPECT_EQ(report->best_s, 1e-3);
}

TEST_F(Survival, WhatIsKnownIsKeptWhereRequestsAreRefused) {
  // All requests of a kind are refused as a whole: checks, what is timed again, or all after some.
  for (const int kind : {0, 1, 2}) {
    forget();
    runner.outcome = [](const Func& func, int, const MeasureRequest&) { return FakeRunner::timed(toy_seconds(func)); };
    int requests = 0;
    runner.takes = [&, kind](std::span<const std::string>, const MeasureRequest& request) -> Result<> {
      ++requests;
      const bool refused = kind == 0 ? request.check : kind == 1 ? !request.race && !request.check : requests > 3;
      return refused ? Result<>(fail(ErrorCode::E803, "as the test wants")) : Result<>();
    };
    const auto report = tune_tasks({{toy_workload(), 1, "one"}, {toy_workload(48), 1, "other"}}, target, 1, *database,
                                   runner, model, options());
    ASSERT_TRUE(report) << kind << " " << report.error().to_string();
    for (const TaskReport& task : report->tasks) {
      if (kind == 2 && task.default_s == 0) continue;  // refused from the start
      EXPECT_EQ(task.error.code, ErrorCode::E803) << kind;
      EXPECT_GT(task.best_s, 0) << kind;
      EXPECT_LE(task.best_s, task.default_s) << kind;
      EXPECT_FALSE(task.best_trace.empty());
      if (kind != 1) {
        EXPECT_EQ(task.best_trace, task.default_trace) << "nothing else was checked";
      }
    }
    EXPECT_GT(report->tasks.front().default_s, 0);
  }
  // Where nothing at all is taken, that is the error.
  forget();
  runner.takes = [](std::span<const std::string>, const MeasureRequest&) -> Result<> {
    return fail(ErrorCode::E803, "as the test wants");
  };
  const auto nothing = tune(options());
  ASSERT_FALSE(nothing);
  EXPECT_EQ(nothing.error().code, ErrorCode::E803);
}

TEST_F(Survival, ADefaultThatIsWrongIsFoundOut) {
  runner.outcome = [](const Func& func, int, const MeasureRequest& request) {
    const bool wrong = request.check && !toy_shape(func).toy;
    return wrong ? FakeRunner::failed(ErrorCode::E405) : FakeRunner::timed(toy_seconds(func));
  };
  for (int run = 0; run < 2; ++run) {
    const auto report = tune(options());
    ASSERT_TRUE(report);
    EXPECT_EQ(report->default_s, 0);
    EXPECT_NE(report->best_trace, report->default_trace);
    EXPECT_GT(report->failed, 0);
  }
}

TEST_F(Survival, FailuresAreCountedByKind) {
  runner.outcome = [](const Func& func, int, const MeasureRequest&) {
    const auto shape = toy_shape(func);
    if (!shape.toy || shape.rows < 8) return FakeRunner::timed(toy_seconds(func));
    MeasureResult failed = FakeRunner::failed(shape.unrolled ? ErrorCode::E403 : ErrorCode::E402);
    failed.signal = shape.unrolled ? 11 : 0;
    return failed;
  };
  const auto report = tune_tasks({{toy_workload(), 1, "toy"}}, target, 1, *database, runner, model, options());
  ASSERT_TRUE(report);
  int64_t counted = 0;
  for (const FailureKind& kind : report->failures) {
    counted += kind.count;
    EXPECT_EQ(kind.error, kind.signal == 11 ? ErrorCode::E403 : ErrorCode::E402);
    EXPECT_EQ(kind.task, "toy");
    EXPECT_NE(kind.trace.find("split"), std::string::npos);
  }
  EXPECT_EQ(report->failures.size(), 2u);
  EXPECT_EQ(counted, report->tasks.front().failed);
  const std::string text = failure_histogram(report->failures);
  EXPECT_NE(text.find("crashed (E403, Segmentation fault (signal 11))"), std::string::npos) << text;
  EXPECT_NE(text.find("took too long (E402)"), std::string::npos) << text;
}

TEST_F(Survival, NothingThatCouldBeMeasuredIsAnError) {
  runner.outcome = [](const Func&, int, const MeasureRequest&) { return FakeRunner::failed(ErrorCode::E404); };
  const auto report = tune(options());
  ASSERT_FALSE(report);
  EXPECT_EQ(report.error().code, ErrorCode::E407);
  EXPECT_NE(report.error().message.find("used too much memory (E404)"), std::string::npos) << report.error().message;
  // A second run knows it, and says the same.
  runner.measured.clear();
  const auto again = tune(options());
  ASSERT_FALSE(again);
  EXPECT_EQ(again.error().code, ErrorCode::E407);
  EXPECT_TRUE(runner.measured.empty());
}

TEST_F(Survival, ATaskThatKillsWorkersIsLeftAlone) {
  runner.outcome = [](const Func& func, int, const MeasureRequest&) {
    if (!toy_shape(func).toy) return FakeRunner::timed(toy_seconds(func));
    MeasureResult killer = FakeRunner::failed(ErrorCode::E401);
    killer.lost_worker = true;
    return killer;
  };
  const auto report = tune(options());
  ASSERT_TRUE(report);
  EXPECT_TRUE(report->quarantined);
  EXPECT_EQ(report->best_trace, report->default_trace);
  EXPECT_LE(runner.measured.size(), 9u) << "the default and one batch";
  // Also by a later run, and by one of another seed.
  for (const uint64_t seed : {5u, 6u}) {
    runner.measured.clear();
    TuneOptions o = options();
    o.seed = seed;
    const auto again = tune(o);
    ASSERT_TRUE(again);
    EXPECT_TRUE(again->quarantined);
    EXPECT_TRUE(runner.measured.empty());
  }
}

}  // namespace
}  // namespace fettle
