#include "tune/tuner.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <set>

#include "codegen/build.h"
#include "codegen/kernel_source.h"
#include "ir/compare.h"
#include "measure/local_measurer.h"
#include "tune/bound.h"
#include "tune/space/test_workloads.h"
#include "tune/testing.h"

namespace fettle {
namespace {

using testing::CountingModel;
using testing::FakeRunner;
using testing::toy_describe;
using testing::toy_seconds;
using testing::toy_workload;
using testing::ToySpace;

class Tuner : public ::testing::Test {
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
  TaskReport tune(const TuneOptions& o) {
    auto report = tune_task(toy_workload(), target, 1, *database, runner, model, o);
    EXPECT_TRUE(report) << report.error().to_string();
    return report ? *report : TaskReport();
  }
  std::vector<Record> records() {
    std::vector<Record> all;
    EXPECT_TRUE(database->for_each([&](const Record& record) -> Result<> {
      all.push_back(record);
      return {};
    }));
    return all;
  }
  TaskKey key() const { return make_task_key(toy_workload(), target, 1, program_versions()); }
  /// The program of a trace.
  static Func program(const std::string& trace) {
    Schedule s(toy_workload());
    EXPECT_TRUE(replay(s, parse_trace(trace).value()));
    return s.func();
  }
  /// Traces measured for the search, each once; not those of confirmations.
  std::vector<std::string> searched() {
    std::vector<std::string> traces;
    for (const Record& r : records())
      if (r.generation >= 0) traces.push_back(r.trace);
    return traces;
  }

  Target target = parse_target("x86-64-avx512").value();
  std::unique_ptr<Database> database = make_memory_database();
  FakeRunner runner;
  CountingModel model;
};

TEST_F(Tuner, FindsTheBest) {
  const TaskReport report = tune(options());
  EXPECT_NEAR(report.best_s, 1e-3, 1e-9);
  EXPECT_NEAR(report.default_s, 1.5e-3, 1e-9);
  EXPECT_TRUE(report.confirmed);
  EXPECT_TRUE(report.given_up);
  EXPECT_NEAR(toy_seconds(program(report.best_trace)), 1e-3, 1e-9);
  EXPECT_NEAR(toy_seconds(program(report.default_trace)), 1.5e-3, 1e-9);
  EXPECT_EQ(report.best_decisions.at("tile/B/i"), "8");
  EXPECT_EQ(report.trials, report.measured);
  EXPECT_LT(report.trials, 120);
  EXPECT_GE(model.rows, 1u);
  const auto best = database->best(key(), 1);
  ASSERT_TRUE(best && best->size() == 1);
  EXPECT_EQ(best->front().trace, report.best_trace);
}

TEST_F(Tuner, AsPublishedNothingIsKnownAtTheStart) {
  TuneOptions o = options();
  o.max_trials = 40;
  o.start_from_default = false;
  o.train_each_batch = true;
  const TaskReport report = tune(o);
  EXPECT_EQ(report.default_s, 0);
  EXPECT_NEAR(report.best_s, 1e-3, 0.1e-3);
  for (const Record& r : records()) {
    if (r.generation < 0) continue;
    EXPECT_GT(r.generation, 0);  // the default's would be 0
  }
  EXPECT_EQ(model.updates, 5);  // batches of 8
}

TEST_F(Tuner, SaysWhereTheTimeWent) {
  runner.outcome = [](const Func& func, int, const MeasureRequest&) {
    MeasureResult result = FakeRunner::timed(toy_seconds(func));
    result.build_s = 0.25;
    result.run_s = 0.5;
    return result;
  };
  const auto report = tune_tasks({{toy_workload(), 1, "toy"}}, target, 1, *database, runner, model, options());
  ASSERT_TRUE(report.has_value()) << report.error().to_string();
  const TuneProfile& p = report->profile;
  EXPECT_DOUBLE_EQ(p.build_s, 0.25 * static_cast<double>(report->measured));
  EXPECT_DOUBLE_EQ(p.run_s, 0.5 * static_cast<double>(report->measured));
  for (const double phase : {p.prepare_s, p.propose_s, p.measure_s, p.confirm_s}) EXPECT_GT(phase, 0);
  EXPECT_LE(p.prepare_s + p.propose_s + p.measure_s + p.learn_s + p.confirm_s, report->seconds);
}

TEST_F(Tuner, NothingIsMeasuredTwiceButToConfirm) {
  const TaskReport report = tune(options());
  const auto traces = searched();
  EXPECT_EQ(std::set<std::string>(traces.begin(), traces.end()).size(), traces.size());
  EXPECT_EQ(static_cast<int64_t>(traces.size()), report.measured);
  std::map<std::string, int> times;
  for (const std::string& trace : runner.measured) ++times[trace];
  EXPECT_GT(times.at(report.best_trace), 2);
  EXPECT_GT(times.at(report.default_trace), 2);
}

TEST_F(Tuner, SameSeedSameSequence) {
  tune(options());
  const auto first = searched();
  database = make_memory_database();
  tune(options());
  EXPECT_EQ(searched(), first);
  database = make_memory_database();
  TuneOptions other = options();
  other.seed = 6;
  tune(other);
  EXPECT_NE(searched(), first);
}

TEST_F(Tuner, EveryResultIsRecordedAtOnce) {
  // When a candidate is measured for the search, all before it have their records.
  runner.outcome = [&](const Func& func, int times, const MeasureRequest&) {
    EXPECT_TRUE(times > 0 || records().size() == runner.measured.size());
    return FakeRunner::timed(toy_seconds(func));
  };
  TuneOptions o = options();
  o.max_trials = 20;
  EXPECT_EQ(tune(o).measured, 20);
}

TEST_F(Tuner, ResumesWhereItWasStopped) {
  tune(options());
  const auto whole = searched();
  ASSERT_GT(whole.size(), 20u);

  // Stopped in the middle of a batch: what was measured is there, and nothing else was done.
  database = make_memory_database();
  std::atomic<bool> stop = false;
  runner.outcome = [&](const Func& func, int, const MeasureRequest&) {
    if (searched().size() == 12) stop = true;
    return FakeRunner::timed(toy_seconds(func));
  };
  TuneOptions o = options();
  o.stop = &stop;
  runner.measured.clear();
  EXPECT_FALSE(tune(o).confirmed);
  EXPECT_EQ(searched(), std::vector<std::string>(whole.begin(), whole.begin() + 13));
  EXPECT_LE(runner.measured.size(), 15u);  // and the best that were checked

  // The second run goes the way of the first, and measures only what is new.
  runner.outcome = [](const Func& func, int, const MeasureRequest&) { return FakeRunner::timed(toy_seconds(func)); };
  runner.measured.clear();
  const TaskReport resumed = tune(options());
  EXPECT_EQ(searched(), whole);
  EXPECT_EQ(resumed.trials, static_cast<int64_t>(whole.size()));
  EXPECT_EQ(resumed.measured, static_cast<int64_t>(whole.size()) - 13);

  // The third has nothing to do, not even to confirm.
  runner.measured.clear();
  const TaskReport again = tune(options());
  EXPECT_TRUE(runner.measured.empty());
  EXPECT_EQ(again.best_trace, resumed.best_trace);
  EXPECT_TRUE(again.confirmed);
}

TEST_F(Tuner, StartsFromWhatOtherSeedsFound) {
  const TaskReport first = tune(options());
  runner.measured.clear();
  TuneOptions other = options();
  other.seed = 77;
  other.max_trials = 9;
  const TaskReport second = tune(other);
  EXPECT_EQ(second.best_trace, first.best_trace);
  EXPECT_LE(second.measured, 8);  // the default is known
}

TEST_F(Tuner, StopsAtTheNumberOfTrials) {
  TuneOptions o = options();
  o.max_trials = 11;
  const TaskReport report = tune(o);
  EXPECT_EQ(report.trials, 11);
  EXPECT_EQ(searched().size(), 11u);
  EXPECT_FALSE(report.given_up);
}

TEST_F(Tuner, WithoutTimeNothingIsMeasured) {
  TuneOptions o = options();
  o.max_seconds = 0;
  const TaskReport report = tune(o);
  EXPECT_TRUE(runner.measured.empty());
  EXPECT_EQ(report.best_trace, report.default_trace);
}

TEST_F(Tuner, WhatWasFastByChanceIsFoundOut) {
  // The first timing of each candidate is far too good; in truth none is as fast as the default.
  runner.outcome = [](const Func& func, int times, const MeasureRequest&) {
    const double seconds = toy_seconds(func);
    return FakeRunner::timed(testing::toy_shape(func).toy ? (times == 0 ? seconds / 2 : seconds + 1e-3) : seconds);
  };
  TuneOptions o = options();
  o.max_trials = 9;
  o.confirm = 8;
  const TaskReport report = tune(o);
  EXPECT_EQ(report.best_trace, report.default_trace);
  EXPECT_NEAR(report.best_s, 1.5e-3, 1e-9);
  // The records say the same.
  EXPECT_EQ(database->best(key(), 1)->at(0).trace, report.default_trace);
}

TEST_F(Tuner, ABusyMachineMisleadsNobody) {
  // In two of three timings, something else makes everything three times as slow.
  int calls = 0;
  runner.outcome = [&](const Func& func, int times, const MeasureRequest&) {
    const bool busy = times > 0 && ++calls % 3 != 0;
    return FakeRunner::timed(toy_seconds(func) * (busy ? 3 : 1));
  };
  const TaskReport report = tune(options());
  EXPECT_NEAR(report.best_s, 1e-3, 1e-9);
  EXPECT_NEAR(report.default_s, 1.5e-3, 1e-9);
}

TEST_F(Tuner, TimesAreComparedBesideTheDefault) {
  // Everything takes twice as long once the default was timed.
  runner.outcome = [](const Func& func, int, const MeasureRequest& request) {
    MeasureResult result = FakeRunner::timed(toy_seconds(func));
    if (request.beside_s == 0) return result;
    EXPECT_NE(request.beside_trace, "");
    result.median_s = result.min_s = toy_seconds(func) / 1.5e-3 * request.beside_s;
    result.beside = true;
    result.pace = 2;
    return result;
  };
  const TaskReport report = tune(options());
  EXPECT_NEAR(report.best_s, 1e-3, 1e-9);
  EXPECT_NEAR(report.default_s, 1.5e-3, 1e-9);
  int64_t beside = 0;
  for (const Record& r : records()) {
    if (r.generation > 0) {
      EXPECT_EQ(r.pace, 2);
      ++beside;
    }
    if (r.generation == 0) {
      EXPECT_EQ(r.pace, 1);
    }
  }
  EXPECT_GT(beside, 8);
}

// With nothing known at the start, the best of the first batch is what later ones are timed beside.
TEST_F(Tuner, WithoutADefaultTheFirstBestIsTheReference) {
  std::set<std::string> references;
  double beside_s = 0;
  runner.outcome = [&](const Func& func, int, const MeasureRequest& request) {
    if (request.beside_s > 0) {
      references.insert(request.beside_trace);
      beside_s = request.beside_s;
    }
    return FakeRunner::timed(toy_seconds(func));
  };
  TuneOptions o = options();
  o.start_from_default = false;
  o.batch = 4;
  o.max_trials = 16;
  tune(o);
  ASSERT_EQ(references.size(), 1u);
  double first_s = 1;
  for (const Record& r : records())
    if (r.generation == 1) first_s = std::min(first_s, r.median_s);
  EXPECT_EQ(beside_s, first_s);
}

TEST_F(Tuner, AMedianThatIsNotTightGivesWayToTheFastestBatch) {
  runner.outcome = [](const Func& func, int, const MeasureRequest&) {
    MeasureResult result = FakeRunner::timed(toy_seconds(func));
    result.median_s *= 1 + static_cast<double>(canonical_hash(func).low % 5);
    result.half_width = result.median_s > result.min_s ? 0.3 : 0.01;
    return result;
  };
  const TaskReport report = tune(options());
  EXPECT_NEAR(report.best_s, 1e-3, 1e-9);
  EXPECT_NEAR(report.default_s, 1.5e-3, 1e-9);
  EXPECT_EQ(database->best(key(), 1)->at(0).trace, report.best_trace);
}

TEST_F(Tuner, ABetterRecordThatTheSearchDoesNotMeetIsUsed) {
  const TaskReport first = tune(options());
  // The same seed, but a search that is over at once.
  TuneOptions o = options();
  o.first_points = 1;
  o.max_trials = 2;
  const TaskReport second = tune(o);
  EXPECT_EQ(second.best_trace, first.best_trace);
  EXPECT_TRUE(second.confirmed);
}

TEST_F(Tuner, NothingSlowerThanTheDefault) {
  runner.outcome = [](const Func& func, int, const MeasureRequest&) {
    return FakeRunner::timed(testing::toy_shape(func).toy ? toy_seconds(func) + 1 : 1e-3);
  };
  const TaskReport report = tune(options());
  EXPECT_EQ(report.best_trace, report.default_trace);
  EXPECT_EQ(report.best_s, 1e-3);
  // Nothing looked better, so there was nothing to confirm.
  for (const Record& r : records()) EXPECT_GE(r.generation, 0);
}

// Measured once, it seemed slower by a hundredth than the default, which takes 1 ms.
TEST_F(Tuner, WhatMayBeFasterIsTimedBesideTheDefault) {
  runner.outcome = [](const Func& func, int times, const MeasureRequest& request) {
    const double toy_s = toy_seconds(func) + (times == 0 ? 0.01e-3 : -0.05e-3);
    MeasureResult result = FakeRunner::timed(testing::toy_shape(func).toy ? toy_s : 1e-3);
    result.checked = request.check;
    return result;
  };
  const TaskReport report = tune(options());
  EXPECT_NEAR(report.best_s, 0.95e-3, 1e-9);
  EXPECT_TRUE(report.confirmed);
  const auto best = best_checked(*database, key());
  ASSERT_TRUE(best && *best);
  EXPECT_EQ((*best)->trace, report.best_trace);
}

TEST_F(Tuner, WrongResultsAreNeverChosen) {
  // The very best computes nonsense, which is found out when it is checked.
  runner.outcome = [](const Func& func, int, const MeasureRequest& request) {
    const double seconds = toy_seconds(func);
    return request.check && seconds < 1.001e-3 ? FakeRunner::failed(ErrorCode::E405) : FakeRunner::timed(seconds);
  };
  const TaskReport report = tune(options());
  EXPECT_TRUE(report.confirmed);
  EXPECT_GT(report.best_s, 1.001e-3);
  EXPECT_LT(report.best_s, 1.2e-3);
  const auto best = database->best(key(), 1);
  ASSERT_TRUE(best && best->size() == 1);
  EXPECT_EQ(best->front().trace, report.best_trace);
}

constinit const KernelSourceDef kOffers = {.name = "offers",
                                           .device = "llvm",
                                           .library = "a library",
                                           .description = "copies",
                                           .version = [] { return Result<std::string>("1.0"); },
                                           .offer = [](const Func& program, int) -> Result<KernelOffer> {
                                             if (program->params.size() != 2)
                                               return fail(ErrorCode::E301, "it is no copy");
                                             return KernelOffer{
                                                 .version = "1.0", .kernel = "copy", .packing = {}, .description = {}};
                                           },
                                           .build = nullptr};

TEST_F(Tuner, AnOfferedKernelWinsByItsTimeAlone) {
  const AddedKernelSource added(kOffers);
  for (const double seconds : {0.5e-3, 1.2e-3, 2e-3}) {
    database = make_memory_database();
    int offered = 0;
    runner.outcome = [&](const Func& func, int, const MeasureRequest&) {
      const bool theirs = !kernel_source_of(func).empty();
      offered += theirs;
      return FakeRunner::timed(theirs ? seconds : toy_seconds(func));
    };
    TuneOptions o = options();
    o.max_trials = 60;
    const std::string own = tune(o).best_trace;
    EXPECT_EQ(offered, 0) << "nobody allowed it";
    EXPECT_EQ(kernel_source_of_trace(own), "");
    database = make_memory_database();
    o.kernel_sources = {&kOffers};
    const TaskReport report = tune(o);
    EXPECT_GE(offered, 1);
    EXPECT_EQ(kernel_source_of_trace(report.best_trace), seconds < 1e-3 ? "offers 1.0" : "") << seconds;
    EXPECT_NEAR(report.best_s, std::min(seconds, 1e-3), 0.1e-3);
    // It is recorded, and not measured again.
    offered = 0;
    EXPECT_EQ(tune(o).best_trace, report.best_trace);
    EXPECT_EQ(offered, 0);
  }
}

TEST_F(Tuner, AnOfferedKernelWithWrongResultsIsNeverChosen) {
  const AddedKernelSource added(kOffers);
  runner.outcome = [](const Func& func, int, const MeasureRequest& request) {
    const bool theirs = !kernel_source_of(func).empty();
    if (theirs && request.check) return FakeRunner::failed(ErrorCode::E405);
    return FakeRunner::timed(theirs ? 0.5e-3 : toy_seconds(func));
  };
  TuneOptions o = options();
  o.kernel_sources = {&kOffers};
  EXPECT_EQ(kernel_source_of_trace(tune(o).best_trace), "");
}

TEST_F(Tuner, FailuresAreRecordedAsWhatTheyWere) {
  runner.outcome = [](const Func& func, int, const MeasureRequest&) {
    const auto shape = testing::toy_shape(func);
    return shape.toy && shape.rows > 8 ? FakeRunner::failed(ErrorCode::E403) : FakeRunner::timed(toy_seconds(func));
  };
  const TaskReport report = tune(options());
  EXPECT_NEAR(report.best_s, 1e-3, 1e-9);
  int64_t crashed = 0;
  for (const Record& r : records()) crashed += r.error == ErrorCode::E403;
  EXPECT_GT(crashed, 0);
  EXPECT_EQ(report.failed, crashed);
}

TEST_F(Tuner, AFailingDefaultIsReplaced) {
  runner.outcome = [](const Func& func, int, const MeasureRequest&) {
    return testing::toy_shape(func).toy ? FakeRunner::timed(toy_seconds(func)) : FakeRunner::failed(ErrorCode::E401);
  };
  const TaskReport report = tune(options());
  EXPECT_EQ(report.default_s, 0);
  EXPECT_NEAR(report.best_s, 1e-3, 1e-9);
  EXPECT_TRUE(report.confirmed);
}

TEST_F(Tuner, TheHarnessFailingIsNotTheCandidatesFault) {
  int calls = 0;
  runner.outcome = [&](const Func& func, int times, const MeasureRequest&) {
    return times == 0 && ++calls % 5 == 3 ? FakeRunner::failed(ErrorCode::E406) : FakeRunner::timed(toy_seconds(func));
  };
  tune(options());
  for (const Record& r : records()) EXPECT_NE(r.error, ErrorCode::E406);
}

TEST_F(Tuner, WhatTheHarnessNeverManagesIsPassedOverByLaterRuns) {
  runner.outcome = [&](const Func& func, int, const MeasureRequest&) {
    return canonical_hash(func).low % 5 == 3 ? FakeRunner::failed(ErrorCode::E406)
                                             : FakeRunner::timed(toy_seconds(func));
  };
  const TaskReport first = tune(options());
  const auto traces = searched();
  runner.measured.clear();
  const TaskReport again = tune(options());
  EXPECT_EQ(again.measured, 0);
  EXPECT_EQ(again.best_trace, first.best_trace);
  EXPECT_EQ(searched(), traces);
}

TEST_F(Tuner, AWorkloadThatCannotBeMeasuredIsAnError) {
  runner.accepts = [](const Func&) -> Result<> { return fail(ErrorCode::E709, "too large"); };
  const auto report = tune_task(toy_workload(), target, 1, *database, runner, model, options());
  ASSERT_FALSE(report);
  EXPECT_EQ(report.error().code, ErrorCode::E709);
}

TEST_F(Tuner, ADatabaseThatFailsEndsTheRun) {
  struct Full : Database {
    std::unique_ptr<Database> inner = make_memory_database();
    int left = 5;
    Result<> add(const Record& r) override {
      return left-- > 0 ? inner->add(r) : Result<>(fail(ErrorCode::E505, "no space"));
    }
    Result<> add_all(std::span<const Record> r) override { return inner->add_all(r); }
    Result<std::vector<Record>> best(const TaskKey& t, int k) override { return inner->best(t, k); }
    Result<std::vector<Record>> records(const TaskKey& t) override { return inner->records(t); }
    Result<bool> contains(const TaskKey& t, std::string_view trace) override { return inner->contains(t, trace); }
    Result<> for_each(const std::function<Result<>(const Record&)>& v) override { return inner->for_each(v); }
    Result<> keep_run(const TuningRun& run) override { return inner->keep_run(run); }
    Result<std::vector<TuningRun>> runs() override { return inner->runs(); }
    Result<std::optional<std::vector<double>>> fact(std::string_view m, std::string_view k) override {
      return inner->fact(m, k);
    }
    Result<> set_fact(std::string_view m, std::string_view k, std::span<const double> v) override {
      return inner->set_fact(m, k, v);
    }
    Result<std::vector<std::pair<std::string, std::vector<double>>>> facts(std::string_view m,
                                                                           std::string_view p) override {
      return inner->facts(m, p);
    }
  } full;
  const auto report = tune_task(toy_workload(), target, 1, full, runner, model, options());
  ASSERT_FALSE(report);
  EXPECT_EQ(report.error().code, ErrorCode::E505);
  EXPECT_LE(runner.measured.size(), 7u);
}

TEST_F(Tuner, ManyTasks) {
  // The second cannot be measured; the fourth is the first again; the third hardly matters, and comes last.
  std::vector<TuneTask> tasks = {{toy_workload(96), 10, "a"},
                                 {toy_workload(48), 10, "b"},
                                 {toy_workload(24), 0.001, "c"},
                                 {toy_workload(96), 5, "d"}};
  runner.accepts = [](const Func& func) -> Result<> {
    return structural_equal(func, toy_workload(48)) ? Result<>(fail(ErrorCode::E709, "not this one")) : Result<>();
  };
  std::vector<TuneProgress> events;
  const auto report = tune_tasks(tasks, target, 1, *database, runner, model, options(),
                                 [&](const TuneProgress& p) { events.push_back(p); });
  ASSERT_TRUE(report) << report.error().to_string();
  ASSERT_EQ(report->tasks.size(), 4u);
  EXPECT_NEAR(report->tasks[0].best_s, 1e-3, 1e-9);
  EXPECT_EQ(report->tasks[1].best_s, 0);
  EXPECT_GT(report->tasks[2].trials, 1);
  EXPECT_EQ(report->tasks[3].best_trace, report->tasks[0].best_trace);
  EXPECT_EQ(report->tasks[3].label, "d");
  EXPECT_NEAR(report->estimated_s, 15 * 1e-3 + 0.001 * report->tasks[2].best_s, 1e-9);
  EXPECT_NEAR(report->default_s, 15 * 1.5e-3 + 0.001 * report->tasks[2].default_s, 1e-9);
  EXPECT_EQ(report->trials, report->tasks[0].trials + report->tasks[2].trials);

  ASSERT_FALSE(events.empty());
  const TuneProgress& last = events.back();
  ASSERT_EQ(last.tasks.size(), 3u);  // distinct ones
  EXPECT_EQ(last.tasks[0].weight, 15);
  EXPECT_NEAR(last.tasks[0].share, 1, 1e-3);
  EXPECT_EQ(last.current, -1);
  EXPECT_NEAR(last.estimated_s, report->estimated_s, 1e-12);
  for (size_t i = 1; i < events.size(); ++i) EXPECT_GE(events[i].measured, events[i - 1].measured);
}

TEST_F(Tuner, SchedulersShareTheTrials) {
  // Two tasks, of which one is hardly ever run.
  const auto trials = [&](MakeScheduler make) {
    database = make_memory_database();
    TuneOptions o = options();
    o.max_trials = 64;  // fewer than the first needs to be done
    o.make_scheduler = std::move(make);
    o.scheduler.negligible = 0;
    const auto report = tune_tasks({{toy_workload(96), 100, "often"}, {toy_workload(48), 1, "seldom"}}, target, 1,
                                   *database, runner, model, o);
    EXPECT_TRUE(report) << report.error().to_string();
    return std::pair(report->tasks[0].trials, report->tasks[1].trials);
  };
  const auto [often, seldom] = trials({});
  EXPECT_GT(often, 2 * seldom);
  const auto [robin_often, robin_seldom] = trials([](std::vector<ScheduledTask> tasks, uint64_t) {
    EXPECT_EQ(tasks[0].similar, tasks[1].similar);
    return make_round_robin_scheduler(tasks.size());
  });
  EXPECT_LE(std::abs(robin_often - robin_seldom), 8);
}

TEST_F(Tuner, TasksNeverReachedKeepTheirDefault) {
  TuneOptions o = options();
  o.max_trials = 1;
  const auto report =
      tune_tasks({{toy_workload(96), 1, "a"}, {toy_workload(48), 5, "b"}}, target, 1, *database, runner, model, o);
  ASSERT_TRUE(report);
  EXPECT_EQ(runner.measured.size(), 1u);
  for (const TaskReport& task : report->tasks) EXPECT_EQ(task.best_trace, task.default_trace);
}

TEST(NeededFlops, CountsMultiplyAdds) {
  EXPECT_EQ(needed_flops(testing::matmul_workload(3, 5, 7, false, false, true, false)), 2.0 * 3 * 5 * 7);
  EXPECT_EQ(needed_flops(testing::relu_workload(2, 3, 4)), 0);
  // What lies in the padding need not be multiplied.
  const testing::ConvSpec conv{.h = 7, .w = 7, .ic = 4, .oc = 8};
  const double nominal = 2.0 * 7 * 7 * 4 * 8 * 9;
  EXPECT_DOUBLE_EQ(needed_flops(testing::conv_workload(conv)), nominal * (19.0 * 19) / (21 * 21));
  // Of a row of 7 outputs in steps of 2, over 14 pixels, the first alone has a tap outside.
  testing::ConvSpec strided{.h = 14, .w = 14, .ic = 4, .oc = 8, .stride = 2};
  EXPECT_DOUBLE_EQ(needed_flops(testing::conv_workload(strided)), nominal * (20.0 * 20) / (21 * 21));
}

// Real workers, a real space.
TEST(TunerEndToEnd, SmallMatmul) {
  const Target target = detect_host(1);
  const auto folder = std::filesystem::temp_directory_path() / ("fettle_test_tuner_" + std::to_string(::getpid()));
  auto measurer = LocalMeasurer::start({.target = target,
                                        .threads = 1,
                                        .workers = 1,
                                        .worker_path = FETTLE_BINARY_DIR "/bin/fettle-worker",
                                        .cache_folder = folder});
  ASSERT_TRUE(measurer) << measurer.error().to_string();
  const auto database = make_memory_database();
  CountingModel model;
  TuneOptions options;
  options.max_trials = 12;
  options.first_points = 24;
  options.timing.max_seconds = 0.02;
  const Func workload = testing::matmul_workload(40, 70, 33, false, false, true, true);
  const auto report = tune_task(workload, target, 1, *database, **measurer, model, options);
  ASSERT_TRUE(report) << report.error().to_string();
  EXPECT_EQ(report->trials, 12);
  EXPECT_EQ(report->failed, 0);
  EXPECT_GT(report->default_s, 0);
  EXPECT_GT(report->best_s, 0);
  EXPECT_LE(report->best_s, report->default_s);
  Schedule schedule(workload);
  EXPECT_TRUE(replay(schedule, parse_trace(report->best_trace).value()));
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace fettle
