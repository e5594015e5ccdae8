#include "measure/local_measurer.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <fstream>
#include <ostream>

#include "codegen/test_util.h"
#include "measure/testing.h"
#include "measure/worker_process.h"

namespace fettle {
namespace {

using testing::parsed;
using testing::TempFolder;

constexpr std::string_view kMatmul = R"(
func matmul(A: f32[30, 20], B: f32[20, 48] constant, C: f32[30, 48] output):
  for i in 30:
    for j in 48:
      for k in 20:
        block C(vi: spatial[30] = i, vj: spatial[48] = j, vk: reduce[20] = k):
          reads A[vi, vk], B[vk, vj]
          writes C[vi, vj]
          init:
            C[vi, vj] = 0.0
          C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]
)";

/// Distinct traces, all right. Every third packs B ahead of time; every second runs in parallel.
std::vector<std::string> traces(int n) {
  std::vector<std::string> result;
  for (int i = 0; i < n; ++i) {
    std::string t = "b0 = get_block(name=\"C\")\n";
    if (i % 3 == 2) t += "b1 = cache_read(block=b0, read_index=1, scope=\"global\")\n";
    t += "l1, l2, l3 = get_loops(block=b0)\n";
    t += "l4, l5 = split(loop=l1, factors=[-1, " + std::to_string(2 + i % 13) + "], tail=\"guard\")\n";
    if (i % 2 == 1) t += "parallel(loop=l4)\n";
    result.push_back(t);
  }
  return result;
}

class Measurer : public ::testing::Test, protected testing::StartedMeasurer {
 protected:
  LocalMeasurerOptions options() {
    LocalMeasurerOptions o;
    o.target = detect_host(2);
    o.threads = 1;
    o.workers = 1;
    o.worker_path = FETTLE_BINARY_DIR "/bin/fettle-worker";
    o.cache_folder = folder_.path;
    o.build_timeout_s = 20;
    return o;
  }
  void start(LocalMeasurerOptions o) { StartedMeasurer::start(std::move(o), parsed(kMatmul)); }
  void start_with(int workers) {
    auto o = options();
    o.workers = workers;
    start(std::move(o));
  }

  TempFolder folder_;
};

void expect_ok(const MeasureResult& r) {
  EXPECT_TRUE(r.ok()) << error_info(r.error).name << " " << r.message;
  EXPECT_GT(r.median_s, 0);
  EXPECT_GE(r.median_s, r.min_s);
  EXPECT_GT(r.repeats, 0);
}

TEST_F(Measurer, TimesABatch) {
  start_with(2);
  std::vector<size_t> order;
  MeasureRequest request;
  request.check = true;
  request.on_result = [&](size_t i, const MeasureResult&) { order.push_back(i); };
  const auto results = measure(traces(7), request);
  ASSERT_EQ(results.size(), 7u);
  for (const MeasureResult& r : results) {
    expect_ok(r);
    EXPECT_TRUE(r.checked);
    EXPECT_GT(r.build_s, 0);
  }
  EXPECT_EQ(order, (std::vector<size_t>{0, 1, 2, 3, 4, 5, 6}));
  EXPECT_TRUE(measurer_->failures().empty());
  EXPECT_EQ(measurer_->worker_pids().size(), 2u);
  EXPECT_EQ(measurer_->restarts(), 0);
}

TEST_F(Measurer, SeveralThreads) {
  auto o = options();
  o.threads = 2;
  start(o);
  MeasureRequest request;
  request.check = true;
  for (const MeasureResult& r : measure(traces(4), request)) expect_ok(r);
}

/// This machine as one of two calls at once sees it; nothing where it has one thread.
std::optional<Target> half_of_host() {
  const auto target = share_of(detect_host(), 2);
  return target ? std::optional(*target) : std::nullopt;
}

TEST_F(Measurer, StreamsRunBesideWhatIsTimed) {
  auto o = options();
  const auto target = half_of_host();
  if (!target) GTEST_SKIP() << "one thread cannot be shared";
  o.target = *target;
  start(o);
  MeasureRequest request;
  request.check = true;
  for (const MeasureResult& r : measure(traces(4), request)) {
    expect_ok(r);
    EXPECT_TRUE(r.checked);
  }
  // In turn with a reference, which the other stream then runs as well.
  request.check = false;
  request.beside_s = 1000;
  request.beside_trace = traces(3)[2];
  request.race = false;
  for (const MeasureResult& r : measure(traces(4), request)) {
    expect_ok(r);
    EXPECT_TRUE(r.beside);
  }
  EXPECT_EQ(measurer_->restarts(), 0);
}

TEST_F(Measurer, AFailureOnAnotherStreamIsTheCandidates) {
  auto o = options();
  const auto target = half_of_host();
  if (!target) GTEST_SKIP() << "one thread cannot be shared";
  o.target = *target;
  o.worker_args = {"--misbehave", "neighbour-fail:0"};
  start(o);
  const auto failed = measure(traces(2));
  EXPECT_EQ(failed[0].error, ErrorCode::E403) << failed[0].message;
  expect_ok(failed[1]);
  o.worker_args = {"--misbehave", "neighbour-crash:0"};
  start(o);
  const auto crashed = measure(traces(2));
  EXPECT_EQ(crashed[0].error, ErrorCode::E403);
  EXPECT_EQ(crashed[0].signal, SIGSEGV);
  expect_ok(crashed[1]);
  EXPECT_EQ(measurer_->restarts(), 0);
}

TEST_F(Measurer, TracesThatCannotBeBuilt) {
  start(options());
  auto list = traces(2);
  list.insert(list.begin() + 1, "nonsense(");
  list.push_back("b0 = get_block(name=\"no such block\")\n");
  const auto results = measure(list);
  expect_ok(results[0]);
  EXPECT_EQ(results[1].error, ErrorCode::E401);
  EXPECT_NE(results[1].message.find("E224"), std::string::npos) << results[1].message;
  expect_ok(results[2]);
  EXPECT_EQ(results[3].error, ErrorCode::E401);
  EXPECT_EQ(measurer_->failures().at(ErrorCode::E401), 2);
  EXPECT_EQ(measurer_->restarts(), 0);
}

TEST_F(Measurer, RacesOutWhatIsPlainlySlower) {
  start(options());
  MeasureRequest request;
  request.incumbent_s = 1e-9;
  const auto results = measure(traces(2), request);
  for (const MeasureResult& r : results) {
    ASSERT_TRUE(r.ok()) << r.message;
    EXPECT_TRUE(r.raced_out);
  }
}

// What is believed to be the best was timed twice.
TEST_F(Measurer, TimesANewBestAgain) {
  for (const int workers : {1, 2}) {
    start_with(workers);
    const auto texts = traces(2);
    MeasureRequest request;
    request.timing = {.target_half_width = 0, .max_samples = 5, .max_seconds = 1};
    const auto once = measure(texts, request);
    request.confirm_best = true;
    const auto twice = measure({texts[0]}, request);
    request.incumbent_s = 1e-9;  // raced out
    const auto slow = measure({texts[0]}, request);
    ASSERT_TRUE(once[0].ok() && twice[0].ok() && slow[0].ok()) << twice[0].message;
    EXPECT_EQ(once[0].repeats, 5);
    EXPECT_EQ(twice[0].repeats, 10);
    EXPECT_TRUE(slow[0].raced_out);
    EXPECT_LE(slow[0].repeats, 5);
  }
}

// Times are in units of the reference's, whatever the clock says.
TEST_F(Measurer, TimesBesideAReference) {
  for (const int workers : {1, 2}) {
    start_with(workers);
    const auto texts = traces(9);
    MeasureRequest request;
    request.beside_s = 1000;
    request.beside_trace = texts[2];  // packs B, as 5 and 8 do
    request.race = false;
    const auto results = measure(texts, request);
    for (const MeasureResult& r : results) {
      expect_ok(r);
      EXPECT_TRUE(r.beside);
      EXPECT_FALSE(r.raced_out);
      EXPECT_GT(r.median_s, 1);
      EXPECT_LT(r.pace, 0.1);
    }
    EXPECT_GT(results[2].median_s, 100) << "as fast as itself";
    EXPECT_LT(results[2].median_s, 10000);
    request.check = true;
    for (const MeasureResult& r : measure({texts[0]}, request)) {
      EXPECT_TRUE(r.checked);
      EXPECT_FALSE(r.beside) << "its outputs must be its own";
    }
  }
}

TEST_F(Measurer, AReferenceThatCannotBeBuilt) {
  start(options());
  MeasureRequest request;
  request.beside_s = 1e-3;
  request.beside_trace = "nonsense(";
  const auto results = measure(traces(2), request);
  for (const MeasureResult& r : results) EXPECT_EQ(r.error, ErrorCode::E406) << r.message;
  EXPECT_EQ(measurer_->restarts(), 0);
}

TEST_F(Measurer, StopsWhenAsked) {
  start(options());
  int asked = 0;
  MeasureRequest request;
  request.should_stop = [&] { return ++asked > 5; };  // three builds, two runs
  const auto results = measure(traces(3), request);
  expect_ok(results[0]);
  expect_ok(results[1]);
  EXPECT_EQ(results[2].error, ErrorCode::E407);
}

TEST_F(Measurer, WorkersAreReplacedAfterAWhile) {
  auto o = options();
  o.recycle_after = 3;
  start(o);
  for (int batch = 0; batch < 4; ++batch)
    for (const MeasureResult& r : measure(traces(2))) expect_ok(r);
  EXPECT_EQ(measurer_->restarts(), 1);
  EXPECT_TRUE(measurer_->failures().empty());
}

TEST_F(Measurer, ANewWorkloadReplacesTheOld) {
  start(options());
  for (const MeasureResult& r : measure(traces(2))) expect_ok(r);
  ASSERT_TRUE(measurer_->set_workload(parsed(R"(
func add(X: f32[100], Y: f32[100] output):
  for i in 100:
    block Y(v: spatial[100] = i):
      reads X[v]
      writes Y[v]
      Y[v] = X[v] + 1.0
)")));
  MeasureRequest request;
  request.check = true;
  const auto results = measure({"b0 = get_block(name=\"Y\")\n", traces(1)[0]}, request);
  expect_ok(results[0]);
  EXPECT_EQ(results[1].error, ErrorCode::E401) << "that trace is for another program";
}

TEST_F(Measurer, SizesThatAreParameters) {
  start(options());
  const Func func = parsed(R"(
func add(X: f32[n], Y: f32[n] output, n: i64 in 1..64):
  for i in n:
    block Y(v: spatial[n] = i):
      reads X[v]
      writes Y[v]
      Y[v] = X[v] + 1.0
)");
  EXPECT_EQ(measurer_->set_workload(func, {.ints = {40, 41}}).error().code, ErrorCode::E709);
  MeasureRequest request;
  request.check = true;
  for (const std::vector<int64_t>& ints : {std::vector<int64_t>{40}, {}}) {  // none: the typical value
    ASSERT_TRUE(measurer_->set_workload(func, {.ints = ints}));
    expect_ok(measure({"b0 = get_block(name=\"Y\")\n"}, request)[0]);
  }
}

TEST_F(Measurer, ALongProgramIsCheckedByASample) {
  auto o = options();
  o.worker_args = {"--misbehave", "corrupt:1"};
  start(o);
  const Func long_one = parsed(R"(
func sums(X: f32[200], Y: f32[200] output):
  for i in 200:
    for j in 600000:
      block Y(v: spatial[200] = i, r: reduce[600000] = j):
        reads X[v]
        writes Y[v]
        init:
          Y[v] = 0.0
        Y[v] = max(Y[v], X[v])
)");
  const std::string as_it_is = "b0 = get_block(name=\"Y\")\n";
  // With and without a trace that stands for the rest.
  for (const std::string& trace : {as_it_is, std::string("nonsense(")}) {
    ASSERT_TRUE(measurer_->set_workload(long_one, {.reference_trace = trace}));
    MeasureRequest request;
    request.check = true;
    const auto results = measure({as_it_is}, request);
    ASSERT_EQ(results.size(), 1u);
    if (trace == as_it_is) {
      expect_ok(results[0]);
      EXPECT_TRUE(results[0].checked);
    } else {
      EXPECT_EQ(results[0].error, ErrorCode::E405) << results[0].message;
    }
  }
}

TEST_F(Measurer, EqualTracesAreBuiltOnce) {
  start(options());
  const auto two = traces(2);
  const auto results = measure({two[0], two[1], two[0], two[0]});
  for (const MeasureResult& r : results) expect_ok(r);
  EXPECT_EQ(results[0].build_s, results[2].build_s);
  EXPECT_EQ(results[0].build_s, results[3].build_s);
  EXPECT_NE(results[0].build_s, results[1].build_s);
}

TEST_F(Measurer, NothingRunsBeyondTheTimeForAll) {
  auto o = options();
  o.worker_args = {"--misbehave", "hang:1"};
  start(o);
  const auto list = traces(4);
  for (const MeasureResult& r : measure({list[3]})) expect_ok(r);
  MeasureRequest request;
  request.max_seconds = 1.5;
  const auto begin = std::chrono::steady_clock::now();
  const auto results = measure(list, request);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(10)) << "the limit of one would be 20 s";
  EXPECT_EQ(results.front().error, ErrorCode::E407) << "it hangs, but was not given its time";
  EXPECT_EQ(results.back().error, ErrorCode::E407);
}

TEST_F(Measurer, ACandidateThatTakesItsWorkerAlong) {
  auto o = options();
  o.worker_args = {"--misbehave", "build-crash:0"};
  o.worker_args_always = true;
  start(o);
  for (const MeasureResult& r : measure(traces(2))) {
    EXPECT_EQ(r.error, ErrorCode::E401);
    EXPECT_TRUE(r.lost_worker);
  }
}

TEST_F(Measurer, WorkersThatHoldMuchAreReplaced) {
  auto o = options();
  o.recycle_bytes = 1;
  start(o);
  for (int batch = 0; batch < 3; ++batch)
    for (const MeasureResult& r : measure(traces(2))) expect_ok(r);
  EXPECT_GE(measurer_->restarts(), 2);
}

TEST_F(Measurer, NoWorker) {
  auto o = options();
  o.worker_path = "/no/such/program";
  EXPECT_EQ(LocalMeasurer::start(o).error().code, ErrorCode::E406);
  o.worker_path = "/bin/true";
  EXPECT_EQ(LocalMeasurer::start(o).error().code, ErrorCode::E406);
  o.worker_path = "/bin/sleep";  // ends with a usage message
  EXPECT_EQ(LocalMeasurer::start(o).error().code, ErrorCode::E406);
}

// --- candidates that misbehave: number 2 of 5 does, and is recorded as what it was

struct Case {
  const char* what;
  ErrorCode code;
  const char* message;
};
void PrintTo(const Case& one, std::ostream* out) { *out << one.what; }

class Misbehaving : public Measurer, public ::testing::WithParamInterface<Case> {};

INSTANTIATE_TEST_SUITE_P(
    All, Misbehaving,
    ::testing::Values(Case{"crash", ErrorCode::E403, "Segmentation fault"}, Case{"hang", ErrorCode::E402, "it ran for"},
                      Case{"allocate", ErrorCode::E404, "MiB"}, Case{"fork", ErrorCode::E403, "process"},
                      Case{"exit", ErrorCode::E403, "ended the process"},
                      Case{"corrupt", ErrorCode::E405, "instead of"}, Case{"fail", ErrorCode::E403, "returned -5"},
                      Case{"write-input", ErrorCode::E403, "Segmentation fault"},
                      Case{"overrun", ErrorCode::E403, "Segmentation fault"},
                      Case{"build-crash", ErrorCode::E401, "Aborted"},
                      Case{"build-hang", ErrorCode::E401, "no answer"}),
    [](const auto& info) {
      std::string name = info.param.what;
      std::replace(name.begin(), name.end(), '-', '_');
      return name;
    });

/// Processes of this user that descend from `ancestor`, by /proc.
std::vector<pid_t> descendants(pid_t ancestor) {
  std::map<pid_t, pid_t> parent;
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    const pid_t pid = static_cast<pid_t>(std::atoi(entry.path().filename().c_str()));
    if (pid <= 0) continue;
    std::ifstream file(entry.path() / "stat");
    std::string text((std::istreambuf_iterator<char>(file)), {});
    const size_t close = text.rfind(')');
    if (close == std::string::npos || close + 4 > text.size()) continue;
    parent[pid] = static_cast<pid_t>(std::atoi(text.c_str() + close + 4));
  }
  std::vector<pid_t> result;
  for (const auto& [pid, first] : parent)
    for (pid_t p = first; p > 1; p = parent.contains(p) ? parent[p] : 0)
      if (p == ancestor) {
        result.push_back(pid);
        break;
      }
  return result;
}

TEST_P(Misbehaving, CostsThatCandidateAlone) {
  const Case& c = GetParam();
  auto o = options();
  // Only what hangs may run into its limit, however busy the machine is.
  const bool hangs = std::string(c.what) == "hang";
  o.first_timeout_s = hangs ? 2 : 20;
  o.min_timeout_s = hangs ? 1 : 20;
  o.build_timeout_s = std::string(c.what) == "build-hang" ? 4.0 : 20.0;
  o.memory_bytes = 256 << 20;
  o.worker_args = {"--misbehave", std::string(c.what) + ":2"};
  start(o);
  MeasureRequest request;
  request.check = true;
  const auto results = measure(traces(5), request);
  ASSERT_EQ(results.size(), 5u);
  for (size_t i = 0; i < 5; ++i) {
    if (i != 2) expect_ok(results[i]);
  }
  EXPECT_EQ(results[2].error, c.code) << results[2].message;
  EXPECT_NE(results[2].message.find(c.message), std::string::npos) << results[2].message;
  if (c.message == std::string("Segmentation fault")) {
    EXPECT_EQ(results[2].signal, SIGSEGV);
  }
  EXPECT_EQ(measurer_->failures().at(c.code), 1);
  EXPECT_EQ(measurer_->failures().size(), 1u);

  const auto workers = measurer_->worker_pids();
  ASSERT_EQ(workers.size(), 1u);
  EXPECT_TRUE(descendants(workers[0]).empty()) << "a child was left behind";
  measurer_.reset();
  EXPECT_TRUE(descendants(::getpid()).empty()) << "a worker was left behind";
}

TEST_F(Measurer, AWorkerKilledFromOutsideIsReplaced) {
  start(options());
  for (const MeasureResult& r : measure(traces(1))) expect_ok(r);
  ::kill(measurer_->worker_pids().at(0), SIGKILL);
  ::usleep(50000);
  for (const MeasureResult& r : measure(traces(3))) expect_ok(r);
  EXPECT_EQ(measurer_->restarts(), 1);
  ::kill(measurer_->worker_pids().at(0), SIGKILL);
  ::usleep(50000);
  ASSERT_TRUE(measurer_->set_workload(parsed(kMatmul)));
  for (const MeasureResult& r : measure(traces(1))) expect_ok(r);
  EXPECT_EQ(measurer_->restarts(), 2);
}

TEST_F(Measurer, NothingStaysWhenTheTunerIsKilled) {
  // In a process of its own, whose orphans come to this one.
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  int ready[2];
  ASSERT_EQ(::pipe2(ready, O_CLOEXEC), 0);
  const pid_t tuner = ::fork();
  if (tuner == 0) {
    auto o = options();
    o.first_timeout_s = 60;
    o.worker_args = {"--misbehave", "hang:1"};
    auto started = LocalMeasurer::start(o);
    if (!started || !(*started)->set_workload(parsed(kMatmul))) ::_exit(1);
    MeasureRequest request;
    request.on_result = [&](size_t, const MeasureResult&) { (void)!::write(ready[1], ".", 1); };
    (void)(*started)->measure(traces(2), request);
    ::_exit(2);
  }
  ::close(ready[1]);
  char done;
  ASSERT_EQ(::read(ready[0], &done, 1), 1) << "the first candidate was not measured";
  ::close(ready[0]);
  // Now the second one hangs: the tuner, its worker and the worker's child.
  const auto until = [](auto condition) {
    for (int i = 0; i < 500 && !condition(); ++i) ::usleep(10000);
    return condition();
  };
  EXPECT_TRUE(until([&] { return descendants(tuner).size() == 2; }));
  ::kill(tuner, SIGKILL);
  ASSERT_EQ(::waitpid(tuner, nullptr, 0), tuner);
  EXPECT_TRUE(until([&] {
    while (::waitpid(-1, nullptr, WNOHANG) > 0) {
    }
    return descendants(::getpid()).empty();
  })) << "a process outlived its tuner by five seconds";
}

TEST_F(Measurer, MessagesThatMakeNoSenseEndTheWorker) {
  for (const char* message :
       {"not JSON", "[]", R"({"do": 5})", R"({"do": "build"})", R"({"do": "measure", "id": 0})"}) {
    auto worker = WorkerProcess::start(options().worker_path, {});
    ASSERT_TRUE(worker) << worker.error().to_string();
    ASSERT_TRUE(worker->channel().send(message));
    auto reply = worker->channel().receive(in_seconds(20));
    if (reply) {
      EXPECT_NE(reply->find("\"ok\":false"), std::string::npos) << message;
    }
  }
}

}  // namespace
}  // namespace fettle
