#include "remote/tracker_state.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "remote/testing.h"

namespace fettle {
namespace {

using testing::some_machine;

std::string name_of(int number) { return fmt::format("{:032x}", number); }

class Tracker : public ::testing::Test {
 protected:
  void enlist(int device, const std::string& key = "k") {
    const auto reply = state_.enlist(enlistment(device, key), now_);
    ASSERT_TRUE(reply) << reply.error().to_string();
  }
  static wire::RegisterRequest enlistment(int device, const std::string& key = "k") {
    wire::RegisterRequest request;
    request.set_protocol(kRemoteProtocol);
    request.set_device(name_of(device));
    request.set_key(key);
    *request.mutable_machine() = some_machine();
    return request;
  }
  static wire::OpenRequest opening(int session, const std::string& key = "k") {
    wire::OpenRequest request;
    request.set_protocol(kRemoteProtocol);
    request.set_session(name_of(session));
    request.set_key(key);
    request.set_versions(program_versions());
    return request;
  }
  bool open(int session, const std::string& key = "k") { return state_.open(opening(session, key), now_)->available(); }

  static wire::Workload workload() {
    wire::Workload w;
    w.set_func("func");
    return w;
  }
  static wire::SubmitRequest submission(int session, std::vector<uint64_t> ids, bool together = false) {
    wire::SubmitRequest request;
    request.set_session(name_of(session));
    *request.mutable_workload() = workload();
    request.set_workload_id(workload_name(workload()));
    request.mutable_measure()->set_max_samples(5);
    request.set_together(together);
    for (const uint64_t id : ids) {
      wire::Job& job = *request.add_jobs();
      job.set_id(id);
      job.set_trace(fmt::format("trace {}", id));
    }
    return request;
  }
  void submit(int session, std::vector<uint64_t> ids, bool together = false) {
    const auto reply = state_.submit(submission(session, ids, together), now_);
    ASSERT_TRUE(reply) << reply.error().to_string();
    EXPECT_TRUE(reply->known() && reply->workload_known());
  }
  wire::Work next(int device) {
    wire::NextRequest request;
    request.set_device(name_of(device));
    auto work = state_.next(request, now_);
    EXPECT_TRUE(work);
    return *work;
  }
  static std::vector<uint64_t> ids(const wire::Work& work) {
    std::vector<uint64_t> found;
    for (const wire::Job& job : work.jobs()) found.push_back(job.id());
    return found;
  }
  wire::BeatReply beat(int device, const wire::Work& work, std::vector<uint64_t> done, const std::string& code = "",
                       bool leaving = false) {
    wire::BeatRequest request;
    request.set_device(name_of(device));
    request.set_lease(work.lease());
    request.set_leaving(leaving);
    for (const uint64_t id : done) {
      wire::Outcome& outcome = *request.add_outcomes();
      outcome.set_session(work.session());
      outcome.set_id(id);
      outcome.set_code(code);
      outcome.set_median_s(1e-3);
    }
    auto reply = state_.beat(request, now_);
    EXPECT_TRUE(reply);
    return *reply;
  }
  std::vector<wire::Outcome> fetch(int session) {
    wire::FetchRequest request;
    request.set_session(name_of(session));
    request.set_have(have_[session]);
    const auto reply = state_.fetch(request, now_);
    EXPECT_TRUE(reply && reply->known());
    have_[session] = reply->last();
    return {reply->outcomes().begin(), reply->outcomes().end()};
  }
  static std::vector<uint64_t> ids(const std::vector<wire::Outcome>& outcomes) {
    std::vector<uint64_t> found;
    for (const wire::Outcome& outcome : outcomes) found.push_back(outcome.id());
    return found;
  }
  // Time goes by, and these devices and sessions are heard of.
  void pass(double seconds, std::vector<int> devices = {}, std::vector<int> sessions = {}) {
    const double until = now_ + seconds;
    while (now_ < until) {
      now_ = std::min(until, now_ + 1);
      for (const int d : devices) beat(d, wire::Work(), {});
      for (const int s : sessions) {
        wire::FetchRequest request;
        request.set_session(name_of(s));
        request.set_have(have_[s]);
        ASSERT_TRUE(state_.fetch(request, now_));
      }
      state_.tick(now_);
    }
  }
  wire::KeyState key(const std::string& name = "k") {
    const wire::QueryReply reply = state_.query(now_);
    for (const wire::KeyState& state : reply.keys())
      if (state.key() == name) return state;
    return {};
  }

  using Ids = std::vector<uint64_t>;
  double now_ = 1000;
  TrackerState state_;
  std::map<int, uint64_t> have_;
};

TEST_F(Tracker, SpreadsABatchAndDeliversEachResultOnce) {
  enlist(1);
  enlist(2);
  ASSERT_TRUE(open(9));
  submit(9, {1, 2, 3, 4});
  const wire::Work a = next(1), b = next(2);
  EXPECT_EQ(ids(a), (Ids{1, 2}));
  EXPECT_EQ(ids(b), (Ids{3}));  // half of what was left
  EXPECT_EQ(a.workload().func(), "func");
  EXPECT_EQ(next(1).lease(), a.lease()) << "the reply was lost: the same again";
  beat(2, b, {3});
  EXPECT_EQ(ids(fetch(9)), (Ids{3}));
  EXPECT_TRUE(fetch(9).empty());
  beat(1, a, {1});
  beat(1, a, {1, 2});
  EXPECT_EQ(ids(fetch(9)), (Ids{1, 2}));
  EXPECT_EQ(ids(next(2)), (Ids{4}));
  EXPECT_TRUE(next(1).lease().empty());
  EXPECT_EQ(key().done(), 3);
  EXPECT_EQ(key().measuring(), 1);
}

TEST_F(Tracker, AResultIsKeptUntilItHasArrived) {
  enlist(1);
  ASSERT_TRUE(open(9));
  submit(9, {1, 2});
  const wire::Work work = next(1);
  beat(1, work, {1});
  EXPECT_EQ(ids(fetch(9)), (Ids{1}));
  have_[9] = 0;  // the reply was lost
  EXPECT_EQ(ids(fetch(9)), (Ids{1}));
  beat(1, next(1), {2});
  EXPECT_EQ(ids(fetch(9)), (Ids{2}));
}

TEST_F(Tracker, ASubmissionThatIsRepeatedCountsOnce) {
  enlist(1);
  ASSERT_TRUE(open(9));
  submit(9, {1, 2});
  submit(9, {1, 2});
  EXPECT_EQ(key().queued(), 2);
  beat(1, next(1), {1, 2});
  submit(9, {1, 2});
  EXPECT_EQ(key().queued(), 0);
  EXPECT_EQ(ids(fetch(9)), (Ids{1, 2}));
}

TEST_F(Tracker, WhatASilentDeviceHeldIsMeasuredByOthersOneByOne) {
  enlist(1);
  ASSERT_TRUE(open(9));
  submit(9, {1, 2, 3});
  const wire::Work work = next(1);
  EXPECT_EQ(ids(work), (Ids{1, 2, 3}));
  beat(1, work, {1});
  enlist(2);
  pass(TrackerTimes().silence_s + 1, {2}, {9});
  EXPECT_EQ(key().devices_size(), 1);
  EXPECT_EQ(key().lost_devices(), 1);
  EXPECT_EQ(key().requeued(), 2);
  for (const uint64_t id : {2, 3}) {
    const wire::Work again = next(2);
    EXPECT_EQ(ids(again), (Ids{id}));
    beat(2, again, {id});
  }
  EXPECT_EQ(ids(fetch(9)), (Ids{1, 2, 3}));
  // The first one wakes up: it is not known any more, and what it has is too late.
  EXPECT_FALSE(beat(1, work, {2}).known());
  enlist(1);
  EXPECT_TRUE(beat(1, work, {2}).cancelled());
  EXPECT_TRUE(fetch(9).empty());
}

TEST_F(Tracker, ALateTimeCountsAndALateFailureDoesNot) {
  enlist(1);
  ASSERT_TRUE(open(9));
  submit(9, {1, 2});
  const wire::Work work = next(1);
  pass(TrackerTimes().silence_s + 1, {}, {9});
  enlist(1);
  beat(1, work, {1}, "E402");
  EXPECT_TRUE(fetch(9).empty());
  beat(1, work, {1, 2});
  EXPECT_EQ(ids(fetch(9)), (Ids{1, 2}));
  EXPECT_TRUE(next(1).lease().empty()) << "nothing is left to do";
}

TEST_F(Tracker, ALateTimeEndsTheLeaseOfAnother) {
  enlist(1);
  ASSERT_TRUE(open(9));
  submit(9, {1});
  const wire::Work first = next(1);
  pass(TrackerTimes().silence_s + 1, {}, {9});
  enlist(2);
  const wire::Work second = next(2);
  EXPECT_EQ(ids(second), (Ids{1}));
  enlist(1);
  beat(1, first, {1});
  EXPECT_TRUE(beat(2, second, {}).cancelled());
  EXPECT_TRUE(beat(2, second, {1}).kept(0));
  EXPECT_EQ(ids(fetch(9)), (Ids{1}));
  EXPECT_TRUE(fetch(9).empty());
}

TEST_F(Tracker, ACandidateThatCostsTwoDevicesIsToBlame) {
  ASSERT_NO_FATAL_FAILURE(enlist(99));  // stays, and never asks for work
  ASSERT_TRUE(open(9));
  submit(9, {1, 2, 3});
  int device = 1;
  std::vector<wire::Outcome> outcomes;
  for (int turn = 0; turn < 20 && outcomes.size() < 3; ++turn) {
    enlist(++device);
    const wire::Work work = next(device);
    // Whoever gets the second one dies, with all that it had.
    bool dies = false;
    for (const uint64_t id : ids(work)) dies = dies || id == 2;
    if (dies)
      pass(TrackerTimes().silence_s + 1, {99}, {9});
    else
      beat(device, work, ids(work));
    for (const wire::Outcome& outcome : fetch(9)) outcomes.push_back(outcome);
  }
  ASSERT_EQ(outcomes.size(), 3u);
  for (const wire::Outcome& outcome : outcomes) {
    EXPECT_EQ(outcome.code(), outcome.id() == 2 ? "E403" : "");
    EXPECT_EQ(outcome.lost_worker(), outcome.id() == 2);
  }
  EXPECT_EQ(key().quarantined(), 1);
  // Its trace again, from another tuner: no device sees it.
  ASSERT_TRUE(open(10));
  submit(10, {2});
  outcomes = fetch(10);
  ASSERT_EQ(outcomes.size(), 1u);
  EXPECT_EQ(outcomes[0].code(), "E403");
}

TEST_F(Tracker, ADeviceThatLeavesIsNobodysFault) {
  ASSERT_NO_FATAL_FAILURE(enlist(99));
  ASSERT_TRUE(open(9));
  submit(9, {1});
  for (int device = 1; device <= 5; ++device) {
    enlist(device);
    const wire::Work work = next(device);
    EXPECT_EQ(ids(work), (Ids{1}));
    beat(device, work, {}, "", true);
  }
  EXPECT_EQ(key().queued(), 1);
  EXPECT_EQ(key().lost_devices(), 0);
  beat(99, next(99), {1});
  EXPECT_EQ(ids(fetch(9)), (Ids{1}));
}

TEST_F(Tracker, WhatBelongsTogetherIsMeasuredOnOneDeviceAndDeliveredAtOnce) {
  enlist(1);
  enlist(2);
  ASSERT_TRUE(open(9));
  submit(9, {1, 2, 3, 4}, true);
  const wire::Work work = next(1);
  EXPECT_EQ(ids(work), (Ids{1, 2, 3, 4}));
  EXPECT_TRUE(next(2).lease().empty());
  beat(1, work, {1, 2, 3});
  EXPECT_TRUE(fetch(9).empty());
  pass(TrackerTimes().silence_s + 1, {2}, {9});
  const wire::Work again = next(2);
  EXPECT_EQ(ids(again), (Ids{1, 2, 3, 4})) << "times of two devices are not to be compared";
  beat(2, again, {1, 2, 3});
  enlist(1);
  beat(1, work, {4});  // too late
  EXPECT_TRUE(fetch(9).empty());
  beat(2, again, {4});
  EXPECT_EQ(ids(fetch(9)), (Ids{1, 2, 3, 4}));
}

TEST_F(Tracker, WhatBelongsTogetherIsGivenUpAtLast) {
  ASSERT_NO_FATAL_FAILURE(enlist(99));
  ASSERT_TRUE(open(9));
  submit(9, {1, 2}, true);
  for (int device = 1; device <= kMaxLossesTogether; ++device) {
    enlist(device);
    EXPECT_EQ(ids(next(device)), (Ids{1, 2}));
    pass(TrackerTimes().silence_s + 1, {99}, {9});
  }
  const auto outcomes = fetch(9);
  ASSERT_EQ(ids(outcomes), (Ids{1, 2}));
  EXPECT_EQ(outcomes[0].code(), "E406") << "which says nothing about the candidates";
}

TEST_F(Tracker, ADeviceThatLivesButGetsNowhereIsLost) {
  enlist(1);
  ASSERT_TRUE(open(9));
  submit(9, {1});
  next(1);
  pass(TrackerTimes().stall_s + 2, {1}, {9});
  EXPECT_EQ(key().devices_size(), 0);
  EXPECT_EQ(key().queued(), 1);
}

TEST_F(Tracker, SessionsOfAKeyTakeTurns) {
  enlist(1);
  ASSERT_TRUE(open(8));
  ASSERT_TRUE(open(9));
  Ids many;
  for (uint64_t id = 1; id <= 40; ++id) many.push_back(id);
  submit(8, many);
  submit(9, many);
  std::vector<std::string> order;
  for (int i = 0; i < 4; ++i) {
    const wire::Work work = next(1);
    EXPECT_EQ(work.jobs_size(), static_cast<int>(TrackerLimits().lease));
    order.push_back(work.session());
    beat(1, work, ids(work));
  }
  EXPECT_EQ(order, (std::vector<std::string>{name_of(8), name_of(9), name_of(8), name_of(9)}));
}

TEST_F(Tracker, KeysAreServedApart) {
  enlist(1, "a");
  enlist(2, "b");
  ASSERT_TRUE(open(9, "b"));
  submit(9, {1});
  EXPECT_TRUE(next(1).lease().empty());
  EXPECT_EQ(ids(next(2)), (Ids{1}));
  EXPECT_FALSE(open(7, "c"));
}

TEST_F(Tracker, CancelledWorkIsCalledOff) {
  enlist(1);
  ASSERT_TRUE(open(9));
  submit(9, {1, 2});
  const wire::Work work = next(1);
  wire::FetchRequest request;
  request.set_session(name_of(9));
  request.set_cancel(true);
  ASSERT_TRUE(state_.fetch(request, now_));
  EXPECT_TRUE(beat(1, work, {}).cancelled());
  EXPECT_TRUE(next(1).lease().empty());
  submit(9, {3});
  const wire::Work more = next(1);
  beat(1, more, {3});
  EXPECT_EQ(ids(fetch(9)), (Ids{3}));
}

TEST_F(Tracker, ATunerThatIsSilentIsOver) {
  enlist(1);
  ASSERT_TRUE(open(9));
  submit(9, {1});
  const wire::Work work = next(1);
  pass(TrackerTimes().session_s + 1, {1});
  EXPECT_TRUE(beat(1, work, {}).cancelled());
  EXPECT_FALSE(beat(1, work, {1}).kept(0)) << "the device keeps it, should the tuner come back";
  EXPECT_EQ(key().sessions(), 0);
}

TEST_F(Tracker, AfterARestartTheResultsOfBeforeAreTaken) {
  enlist(1);
  ASSERT_TRUE(open(9));
  submit(9, {1, 2, 3});
  const wire::Work work = next(1);
  beat(1, work, {1});
  EXPECT_EQ(ids(fetch(9)), (Ids{1}));
  state_ = TrackerState();
  EXPECT_FALSE(beat(1, work, {2}).known());
  enlist(1);
  EXPECT_FALSE(beat(1, work, {2}).kept(0));
  const auto unknown = state_.submit(submission(9, {2, 3}), now_);
  EXPECT_FALSE(unknown->known());
  ASSERT_TRUE(open(9));
  submit(9, {2, 3});
  EXPECT_TRUE(beat(1, work, {2}).kept(0));
  have_[9] = 0;
  EXPECT_EQ(ids(fetch(9)), (Ids{2}));
  EXPECT_EQ(ids(next(1)), (Ids{3}));
}

TEST_F(Tracker, AKeyStandsForOneKindOfMachine) {
  enlist(1);
  wire::RegisterRequest other = enlistment(2);
  other.mutable_machine()->set_threads(4);
  EXPECT_EQ(state_.enlist(other, now_).error().code, ErrorCode::E805);
  other = enlistment(2);
  other.mutable_machine()->set_versions("lower 0");
  EXPECT_EQ(state_.enlist(other, now_).error().code, ErrorCode::E805);
  other = enlistment(2);
  other.mutable_machine()->set_target(target_to_json(*parse_target("x86-64-avx2")));
  EXPECT_EQ(state_.enlist(other, now_).error().code, ErrorCode::E805);
  EXPECT_TRUE(state_.enlist(enlistment(2), now_));
  // Once the others are gone, it may stand for something else.
  pass(TrackerTimes().silence_s + 1);
  EXPECT_TRUE(state_.enlist(other, now_));

  wire::OpenRequest tuner = opening(9);
  tuner.set_fingerprint(testing::some_target().fingerprint().hex());
  EXPECT_EQ(state_.open(tuner, now_).error().code, ErrorCode::E805);
  tuner.set_fingerprint(parse_target("x86-64-avx2")->fingerprint().hex());
  EXPECT_TRUE(state_.open(tuner, now_));
  tuner.set_versions("lower 0");
  EXPECT_EQ(state_.open(tuner, now_).error().code, ErrorCode::E805);
}

TEST_F(Tracker, WhatMakesNoSenseIsRefused) {
  enlist(1);
  ASSERT_TRUE(open(9));
  const auto refused = [&](const auto& result) { return !result && result.error().code == ErrorCode::E803; };
  for (const char* name : {"", "x", "0000000000000000000000000000000G"}) {
    wire::RegisterRequest device = enlistment(1);
    device.set_device(name);
    EXPECT_TRUE(refused(state_.enlist(device, now_)));
    wire::NextRequest next;
    next.set_device(name);
    EXPECT_TRUE(refused(state_.next(next, now_)));
    wire::FetchRequest fetch;
    fetch.set_session(name);
    EXPECT_TRUE(refused(state_.fetch(fetch, now_)));
  }
  for (const std::string& key : {std::string(), std::string("a b"), std::string("../x"), std::string(65, 'k')}) {
    EXPECT_TRUE(refused(state_.enlist(enlistment(2, key), now_)));
    EXPECT_TRUE(refused(state_.open(opening(2, key), now_)));
  }
  wire::RegisterRequest machine = enlistment(2);
  machine.mutable_machine()->set_target("{}");
  EXPECT_TRUE(refused(state_.enlist(machine, now_)));
  machine = enlistment(2);
  machine.mutable_machine()->set_threads(0);
  EXPECT_TRUE(refused(state_.enlist(machine, now_)));

  wire::SubmitRequest large = submission(9, {1});
  large.mutable_jobs(0)->set_trace(std::string(TrackerLimits().trace_bytes + 1, 'x'));
  EXPECT_TRUE(refused(state_.submit(large, now_)));
  large = submission(9, {1});
  large.mutable_workload()->set_func(std::string(TrackerLimits().workload_bytes + 1, 'x'));
  EXPECT_TRUE(refused(state_.submit(large, now_)));
  wire::SubmitRequest odd = submission(9, {1});
  odd.set_workload_id(name_of(5));
  EXPECT_TRUE(refused(state_.submit(odd, now_))) << "a workload under the name of another";
  for (const double s : {-1.0, std::nan(""), std::numeric_limits<double>::infinity(), 1e300}) {
    odd = submission(9, {1});
    odd.mutable_measure()->set_batch_s(s);
    EXPECT_TRUE(refused(state_.submit(odd, now_)));
    wire::BeatRequest beat;
    beat.set_device(name_of(1));
    wire::Outcome& outcome = *beat.add_outcomes();
    outcome.set_session(name_of(9));
    outcome.set_median_s(s);
    EXPECT_TRUE(refused(state_.beat(beat, now_)));
  }
  EXPECT_EQ(key().queued(), 0);
}

TEST_F(Tracker, NumbersOfSamples) {
  const auto taken = [](int min_samples, int max_samples) {
    MeasureRequest request;
    request.timing.min_samples = min_samples;
    request.timing.max_samples = max_samples;
    const auto checked = check(to_wire(request), TrackerLimits());
    EXPECT_TRUE(checked || checked.error().code == ErrorCode::E803);
    return checked.has_value();
  };
  EXPECT_TRUE(check(to_wire(MeasureRequest()), TrackerLimits()));
  EXPECT_TRUE(taken(1, 1));
  EXPECT_TRUE(taken(0, 1));
  EXPECT_TRUE(taken(300, 300));
  EXPECT_TRUE(taken(5, 1'000'000));
  EXPECT_FALSE(taken(5, 1)) << "at least five and at most one";
  EXPECT_FALSE(taken(0, 0));
  EXPECT_FALSE(taken(-1, 5));
  EXPECT_FALSE(taken(5, 1'000'001));
}

TEST_F(Tracker, Limits) {
  state_ = TrackerState({.devices = 2, .sessions = 2, .jobs = 5, .workloads = 2});
  enlist(1);
  enlist(2);
  EXPECT_EQ(state_.enlist(enlistment(3), now_).error().code, ErrorCode::E803);
  ASSERT_TRUE(open(1));
  ASSERT_TRUE(open(2));
  EXPECT_EQ(state_.open(opening(3), now_).error().code, ErrorCode::E803);
  submit(1, {1, 2, 3, 4});
  EXPECT_EQ(state_.submit(submission(1, {5, 6}), now_).error().code, ErrorCode::E803);
  // Old workloads are forgotten, and asked for again.
  for (uint64_t i = 0; i < 5; ++i) {
    wire::SubmitRequest request = submission(2, {});
    request.mutable_workload()->set_seed(i);
    request.set_workload_id(workload_name(request.workload()));
    ASSERT_TRUE(state_.submit(request, now_));
  }
  wire::SubmitRequest again = submission(2, {1});
  again.clear_workload();
  EXPECT_FALSE(state_.submit(again, now_)->workload_known());
  again = submission(1, {5});
  again.clear_workload();
  EXPECT_TRUE(state_.submit(again, now_)->workload_known());
}

}  // namespace
}  // namespace fettle
