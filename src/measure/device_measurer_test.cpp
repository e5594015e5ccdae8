// Candidates for a device with memory of its own, by OpenCL.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>

#include "codegen/test_util.h"
#include "measure/testing.h"

namespace fettle {
namespace {

using testing::parsed;
using testing::TempFolder;

constexpr std::string_view kProduct = R"(
func product(A: f32[32, 24], B: f32[24, 48] constant, C: f32[32, 48] output):
  for i in 32:
    for j in 48:
      for k in 24:
        block C(vi: spatial[32] = i, vj: spatial[48] = j, vk: reduce[24] = k):
          reads A[vi, vk], B[vk, vj]
          writes C[vi, vj]
          init:
            C[vi, vj] = 0.0
          C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]
)";

/// Asked in a process of its own: what a device's library maps and starts is not in the way of other tests.
bool has_device() {
  const pid_t pid = ::fork();
  if (pid == 0) ::_exit(opencl_device.open_stream(1) ? 0 : 1);
  int status = 0;
  return pid > 0 && ::waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

/// A row for each block, `threads` of its elements at once. `packs`: B is packed before, on the CPU.
std::string bound(int threads, bool packs = false) {
  std::string text = "b0 = get_block(name=\"C\")\n";
  if (packs) text += "b1 = cache_read(block=b0, read_index=1, scope=\"global\")\n";
  return text + fmt::format(
                    "l1, l2, l3 = get_loops(block=b0)\nbind(loop=l1, thread_axis=\"blockIdx.x\")\n"
                    "l4, l5 = split(loop=l2, factors=[-1, {}], tail=\"guard\")\n"
                    "bind(loop=l5, thread_axis=\"threadIdx.x\")\n",
                    threads);
}

class DeviceMeasurer : public ::testing::Test, protected testing::StartedMeasurer {
 protected:
  void SetUp() override {
    setenv("POCL_CACHE_DIR", FETTLE_BINARY_DIR "/pocl-cache", 0);
    if (!has_device()) GTEST_SKIP() << "there is no OpenCL device";
  }
  void start(std::vector<std::string> args = {}, int workers = 1) {
    LocalMeasurerOptions o;
    o.target = *parse_target("opencl");
    o.workers = workers;
    o.worker_path = FETTLE_BINARY_DIR "/bin/fettle-worker";
    o.cache_folder = folder_.path;
    o.first_timeout_s = 3;
    o.worker_args = std::move(args);
    StartedMeasurer::start(std::move(o), parsed(kProduct));
  }

  TempFolder folder_;
};

void expect_ok(const MeasureResult& r) {
  EXPECT_TRUE(r.ok()) << error_info(r.error).name << " " << r.message;
  EXPECT_GT(r.median_s, 0);
  EXPECT_GT(r.repeats, 0);
}

TEST_F(DeviceMeasurer, TimesAndChecks) {
  start({}, 2);
  MeasureRequest request;
  request.check = true;
  const auto results = measure({bound(8), bound(16, true), bound(5), "nonsense("}, request);
  ASSERT_EQ(results.size(), 4u);
  for (size_t i = 0; i < 3; ++i) {
    expect_ok(results[i]);
    EXPECT_TRUE(results[i].checked);
  }
  EXPECT_EQ(results[3].error, ErrorCode::E401);
}

TEST_F(DeviceMeasurer, TimesInTurnWithAReference) {
  start();
  MeasureRequest request;
  request.beside_trace = bound(8);
  request.beside_s = 1e-4;
  request.timing.flush_bytes = 1 << 20;
  for (const MeasureResult& r : measure({bound(16), bound(4, true), bound(8)}, request)) {
    expect_ok(r);
    EXPECT_TRUE(r.beside);
    EXPECT_GT(r.pace, 0);
  }
}

// What one does wrong costs that one.
TEST_F(DeviceMeasurer, FailuresAreOnesOwn) {
  const struct {
    const char* what;
    ErrorCode code;
  } kinds[] = {{"crash", ErrorCode::E403},
               {"fail", ErrorCode::E403},
               {"exit", ErrorCode::E403},
               {"hang", ErrorCode::E402},
               {"allocate", ErrorCode::E404}};
  for (const auto& [what, code] : kinds) {
    start({"--misbehave", fmt::format("{}:1", what)});
    const auto results = measure({bound(8), bound(16), bound(4)});
    ASSERT_EQ(results.size(), 3u);
    expect_ok(results[0]);
    EXPECT_EQ(results[1].error, code) << what << ": " << results[1].message;
    EXPECT_FALSE(results[1].lost_worker);
    expect_ok(results[2]);
    EXPECT_EQ(measurer_->restarts(), 0) << what;
  }
}

TEST_F(DeviceMeasurer, AWrongResultIsNoticed) {
  start({"--misbehave", "corrupt:1"});
  MeasureRequest request;
  request.check = true;
  const auto results = measure({bound(8), bound(16), bound(4)}, request);
  expect_ok(results[0]);
  EXPECT_EQ(results[1].error, ErrorCode::E405);
  expect_ok(results[2]);
}

}  // namespace
}  // namespace fettle
