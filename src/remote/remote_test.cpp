// Tracker, devices and tuners in this process, over real connections.

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <atomic>
#include <fstream>
#include <memory>
#include <set>
#include <thread>

#include "codegen/test_util.h"
#include "ir/text.h"
#include "remote/device.h"
#include "remote/remote_measurer.h"
#include "remote/testing.h"
#include "remote/tracker_client.h"
#include "remote/tracker_server.h"

namespace fettle {
namespace {

using testing::parsed;
using testing::ScriptedRunner;
using testing::timed;

constexpr const char* kCopy = R"(
func copy(X: f32[8], Y: f32[8] output):
  for i in 8:
    block Y(v: spatial[8] = i):
      reads X[v]
      writes Y[v]
      Y[v] = X[v]
)";

std::vector<std::string> traces(int n) {
  std::vector<std::string> list;
  for (int i = 0; i < n; ++i) list.push_back(std::string(static_cast<size_t>(i + 1), 'x'));
  return list;
}

class Remote : public ::testing::Test {
 protected:
  struct Device {
    ScriptedRunner runner;
    std::atomic<bool> stop = false;
    Result<> ended;
    std::thread thread;
  };

  void start_tracker(int port = 0) {
    TrackerOptions options;
    options.address = {"127.0.0.1", port};
    options.credentials = server_;
    options.times.beat_s = 0.05;
    options.times.silence_s = options.times.session_s = 600;  // nothing here is to depend on time
    // The port of a tracker that has just gone may not be free at once.
    for (int i = 0; i < 100; ++i) {
      auto started = TrackerServer::start(options);
      if (started) tracker_ = std::move(*started);
      if (started || port == 0) break;
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
    ASSERT_TRUE(tracker_);
    address_ = tracker_->address();
  }
  /// It serves until TearDown: what its script refers to must live as long.
  Device& add_device(const std::function<void(Device&)>& script = {}, const std::string& key = "k") {
    devices_.push_back(std::make_unique<Device>());
    Device& device = *devices_.back();
    if (script) script(device);
    device.thread = std::thread([this, &device, key] {
      DeviceOptions options;
      options.tracker = address_;
      options.credentials = client_;
      options.key = key;
      options.target = testing::some_target();
      options.threads = 2;
      options.micro_kernels = {1, 2, 3};
      options.stop = &device.stop;
      device.ended = serve_device(device.runner, options);
    });
    return device;
  }
  void connect() {
    auto connected = RemoteMeasurer::connect(options());
    ASSERT_TRUE(connected) << connected.error().to_string();
    measurer_ = std::move(*connected);
    ASSERT_TRUE(measurer_->set_workload(parsed(kCopy)));
  }
  RemoteMeasurerOptions options() {
    RemoteMeasurerOptions options;
    options.tracker = address_;
    options.credentials = client_;
    options.key = "k";
    return options;
  }
  std::vector<MeasureResult> measure(const std::vector<std::string>& list, const MeasureRequest& request = {}) {
    auto results = measurer_->measure(list, request);
    EXPECT_TRUE(results) << results.error().to_string();
    return results ? *results : std::vector<MeasureResult>();
  }
  static void expect_times(const std::vector<MeasureResult>& results, const std::vector<std::string>& list) {
    ASSERT_EQ(results.size(), list.size());
    for (size_t i = 0; i < list.size(); ++i) {
      EXPECT_TRUE(results[i].ok()) << results[i].message;
      EXPECT_DOUBLE_EQ(results[i].median_s, 1e-3 * static_cast<double>(list[i].size())) << i;
    }
  }
  void TearDown() override {
    measurer_.reset();
    for (auto& device : devices_) device->stop = true;
    for (auto& device : devices_) device->thread.join();
    tracker_.reset();
  }

  Credentials server_, client_;
  Address address_;
  std::unique_ptr<TrackerServer> tracker_;
  std::vector<std::unique_ptr<Device>> devices_;
  std::unique_ptr<RemoteMeasurer> measurer_;
};

TEST_F(Remote, MeasuresOnAllDevicesInTheOrderOfTheCandidates) {
  start_tracker();
  for (int i = 0; i < 3; ++i) add_device();
  connect();
  EXPECT_EQ(measurer_->target().fingerprint(), testing::some_target().fingerprint());
  EXPECT_EQ(measurer_->threads(), 2);
  EXPECT_EQ(measurer_->micro_kernels(), (std::vector<double>{1, 2, 3}));
  const auto list = traces(40);
  std::vector<size_t> order;
  MeasureRequest request;
  request.on_result = [&](size_t i, const MeasureResult&) { order.push_back(i); };
  expect_times(measure(list, request), list);
  ASSERT_EQ(order.size(), list.size());
  for (size_t i = 0; i < order.size(); ++i) EXPECT_EQ(order[i], i);
  size_t measured = 0;
  for (const auto& device : devices_)
    for (const auto& batch : device->runner.batches()) measured += batch.size();
  EXPECT_EQ(measured, list.size()) << "each once";
  // Another workload, and the first one again.
  ASSERT_TRUE(measurer_->set_workload(parsed(kCopy), {.seed = 5}));
  expect_times(measure(list), list);
  ASSERT_TRUE(measurer_->set_workload(parsed(kCopy)));
  expect_times(measure(list), list);
}

TEST_F(Remote, WhatIsComparedStaysOnOneDevice) {
  start_tracker();
  for (int i = 0; i < 3; ++i) add_device();
  connect();
  const std::vector<std::string> rounds{"a", "bb", "ccc", "a", "bb", "ccc", "a", "bb", "ccc"};
  expect_times(measure(rounds), rounds);
  int batches = 0;
  for (const auto& device : devices_)
    for (const auto& batch : device->runner.batches()) {
      ++batches;
      EXPECT_EQ(batch, rounds);
    }
  EXPECT_EQ(batches, 1);
}

TEST_F(Remote, WhatATunerAsksForArrives) {
  start_tracker();
  struct Requests {
    std::mutex mutex;
    std::vector<MeasureRequest> list;
  };
  const auto seen = std::make_shared<Requests>();
  add_device([seen](Device& device) {
    device.runner.outcome = [seen](const std::string&, const MeasureRequest& request) {
      const std::lock_guard lock(seen->mutex);
      seen->list.push_back(request);
      MeasureResult result = timed(1e-3);
      result.beside = true;
      result.pace = 1.5;
      return result;
    };
  });
  connect();
  MeasureRequest request;
  request.timing.max_samples = 7;
  request.incumbent_s = 0.5;
  request.beside_trace = "c";
  request.beside_s = 0.75;
  request.race = false;
  for (const MeasureResult& result : measure({"a"}, request)) {
    EXPECT_TRUE(result.beside);
    EXPECT_EQ(result.pace, 1.5);
  }
  request.check = request.confirm_best = true;
  measure({"b"}, request);
  const std::lock_guard lock(seen->mutex);
  ASSERT_EQ(seen->list.size(), 2u);
  for (const MeasureRequest& one : seen->list) {
    EXPECT_EQ(one.timing.max_samples, 7);
    EXPECT_EQ(one.incumbent_s, 0.5);
    EXPECT_EQ(one.beside_trace, "c");
    EXPECT_EQ(one.beside_s, 0.75);
    EXPECT_FALSE(one.race);
    EXPECT_EQ(one.check, &one == &seen->list[1]);
    EXPECT_EQ(one.confirm_best, &one == &seen->list[1]);
  }
}

TEST_F(Remote, FailuresArriveAsTheyWere) {
  start_tracker();
  add_device([](Device& device) {
    device.runner.outcome = [](const std::string& trace, const MeasureRequest& request) {
      MeasureResult result = timed(request.incumbent_s);
      if (trace.size() != 2) return result;
      result.error = ErrorCode::E403;
      result.signal = 11;
      result.message = "no UTF-8: \xff";
      result.lost_worker = true;
      return result;
    };
  });
  connect();
  MeasureRequest request;
  request.incumbent_s = 0.25;
  const auto results = measure(traces(3), request);
  EXPECT_EQ(results[0].median_s, 0.25) << "the request arrives, too";
  EXPECT_EQ(results[1].error, ErrorCode::E403);
  EXPECT_EQ(results[1].signal, 11);
  EXPECT_EQ(results[1].message, "no UTF-8: \xff");
  EXPECT_TRUE(results[1].lost_worker);
  EXPECT_TRUE(results[2].ok());
  EXPECT_EQ(measurer_->failures().at(ErrorCode::E403), 1);
}

TEST_F(Remote, AWorkloadThatIsRefused) {
  start_tracker();
  add_device([](Device& device) {
    device.runner.accepts = [](const Func&) -> Result<> { return fail(ErrorCode::E709, "sizes are missing"); };
  });
  connect();
  const auto refused = measurer_->measure(traces(3));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::E709);
  EXPECT_NE(refused.error().to_string().find("sizes are missing"), std::string::npos);
}

TEST_F(Remote, ADeviceThatCannotMeasureLeavesItsWorkToOthers) {
  start_tracker();
  Device& broken = add_device([](Device& device) {
    device.runner.accepts = [](const Func&) -> Result<> { return fail(ErrorCode::E406, "no worker"); };
  });
  connect();
  std::thread later([&] {
    broken.thread.join();
    add_device();
  });
  expect_times(measure(traces(5)), traces(5));
  later.join();
  ASSERT_FALSE(broken.ended);
  EXPECT_EQ(broken.ended.error().code, ErrorCode::E406);
  broken.thread = std::thread([] {});
}

TEST_F(Remote, StopsWhenAsked) {
  start_tracker();
  const auto hold = std::make_shared<std::atomic<bool>>(true);
  add_device([hold](Device& device) {
    device.runner.outcome = [hold](const std::string& trace, const MeasureRequest& request) {
      while (trace.size() == 2 && *hold && !request.should_stop())
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
      return timed(1);
    };
  });
  connect();
  bool first = false;
  MeasureRequest request;
  request.on_result = [&](size_t, const MeasureResult& result) { first = first || result.ok(); };
  request.should_stop = [&] { return first; };
  auto results = measure(traces(3), request);
  EXPECT_TRUE(results[0].ok());
  EXPECT_EQ(results[1].error, ErrorCode::E407);
  EXPECT_EQ(results[2].error, ErrorCode::E407);
  // The device is told, and takes on what comes next.
  results = measure({"y"});
  EXPECT_TRUE(results[0].ok());
  // The same by the clock.
  MeasureRequest limited;
  limited.max_seconds = 0.5;
  results = measure({"y", "zz"}, limited);
  EXPECT_EQ(results[1].error, ErrorCode::E407);
  *hold = false;
}

TEST_F(Remote, GoesOnWithATrackerThatWasStartedAnew) {
  start_tracker();
  const auto n = std::make_shared<std::atomic<int>>(0);
  const auto go = std::make_shared<std::atomic<bool>>(false);
  for (int i = 0; i < 2; ++i)
    add_device([n, go](Device& device) {
      device.runner.outcome = [n, go](const std::string& trace, const MeasureRequest&) {
        if (++*n > 6)
          while (!*go) std::this_thread::sleep_for(std::chrono::milliseconds(5));
        return timed(1e-3 * static_cast<double>(trace.size()));
      };
    });
  connect();
  const auto list = traces(30);
  std::vector<size_t> order;
  MeasureRequest request;
  request.on_result = [&](size_t i, const MeasureResult&) { order.push_back(i); };
  std::thread restarter([&] {
    while (*n <= 6) std::this_thread::sleep_for(std::chrono::milliseconds(5));
    const int port = address_.port;
    tracker_.reset();
    *go = true;
    start_tracker(port);
  });
  expect_times(measure(list, request), list);
  restarter.join();
  ASSERT_EQ(order.size(), list.size()) << "each result once";
  for (size_t i = 0; i < order.size(); ++i) EXPECT_EQ(order[i], i);
}

TEST_F(Remote, WithoutDevicesOrTrackerItEnds) {
  start_tracker();
  RemoteMeasurerOptions impatient = options();
  impatient.device_wait_s = 0.3;
  EXPECT_EQ(RemoteMeasurer::connect(impatient).error().code, ErrorCode::E804);
  Device& device = add_device();
  connect();  // waits for it
  auto connected = RemoteMeasurer::connect(impatient);
  ASSERT_TRUE(connected) << connected.error().to_string();
  measurer_ = std::move(*connected);
  ASSERT_TRUE(measurer_->set_workload(parsed(kCopy)));
  expect_times(measure(traces(2)), traces(2));
  device.stop = true;
  device.thread.join();
  device.thread = std::thread([] {});
  EXPECT_TRUE(device.ended);
  EXPECT_EQ(measurer_->measure(traces(2)).error().code, ErrorCode::E804);
  tracker_.reset();
  impatient.tracker_wait_s = 0.3;
  EXPECT_EQ(RemoteMeasurer::connect(impatient).error().code, ErrorCode::E801);
}

TEST_F(Remote, OtherTargetsAreRefused) {
  start_tracker();
  add_device();
  connect();
  RemoteMeasurerOptions other = options();
  other.fingerprint = parse_target("x86-64-avx2")->fingerprint().hex();
  EXPECT_EQ(RemoteMeasurer::connect(other).error().code, ErrorCode::E805);
  other.fingerprint = testing::some_target().fingerprint().hex();
  EXPECT_TRUE(RemoteMeasurer::connect(other));
  other.key = "not a key";
  EXPECT_EQ(RemoteMeasurer::connect(other).error().code, ErrorCode::E709);
  // A device that is not like the others of its key ends.
  ScriptedRunner runner;
  DeviceOptions device;
  device.tracker = address_;
  device.key = "k";
  device.target = testing::some_target();
  device.threads = 7;
  EXPECT_EQ(serve_device(runner, device).error().code, ErrorCode::E805);
}

TEST_F(Remote, OnlyOneTrackerListensAtAPort) {
  start_tracker();
  TrackerOptions second;
  second.address = address_;
  EXPECT_EQ(TrackerServer::start(second).error().code, ErrorCode::E801);
  second.address = {"0.0.0.0", 0};
  EXPECT_EQ(TrackerServer::start(second).error().code, ErrorCode::E802);
}

TEST_F(Remote, WithTheWrongTokenNothingIsAnswered) {
  server_.token = client_.token = "0123456789abcdef";
  start_tracker();
  add_device();
  connect();
  expect_times(measure(traces(2)), traces(2));
  for (const char* token : {"", "0123456789abcdeg", "0123456789abcdef0", "0123456789abcde"}) {
    Credentials wrong;
    wrong.token = token;
    TrackerClient client(address_, wrong);
    EXPECT_EQ(client.query().error().code, ErrorCode::E802) << token;
    EXPECT_EQ(client.enlist({}).error().code, ErrorCode::E802);
    EXPECT_EQ(client.next({}).error().code, ErrorCode::E802);
    EXPECT_EQ(client.beat({}).error().code, ErrorCode::E802);
    EXPECT_EQ(client.open({}).error().code, ErrorCode::E802);
    EXPECT_EQ(client.submit({}).error().code, ErrorCode::E802);
    EXPECT_EQ(client.fetch({}).error().code, ErrorCode::E802);
    client_.token = token;
    EXPECT_EQ(RemoteMeasurer::connect(options()).error().code, ErrorCode::E802);
  }
  EXPECT_EQ(TrackerClient(address_, server_).query()->keys_size(), 1);
}

TEST_F(Remote, MessagesThatAreTooLargeOrMakeNoSense) {
  start_tracker();
  add_device();
  connect();
  TrackerClient client(address_, {});
  wire::SubmitRequest large;
  large.set_session(std::string(32, '0'));
  large.add_jobs()->set_trace(std::string(kMaxRemoteMessageBytes + 1, 'x'));
  EXPECT_EQ(client.submit(large).error().code, ErrorCode::E803) << "not sent at all";
  large.mutable_jobs(0)->set_trace(std::string(TrackerLimits().trace_bytes + 1, 'x'));
  EXPECT_EQ(client.submit(large).error().code, ErrorCode::E803) << "refused by the tracker";
  wire::RegisterRequest device;
  device.set_device(std::string(32, '0'));
  EXPECT_EQ(client.enlist(device).error().code, ErrorCode::E805) << "another protocol";
  device.set_protocol(kRemoteProtocol);
  EXPECT_EQ(client.enlist(device).error().code, ErrorCode::E803);
  EXPECT_EQ(client.next({}).error().code, ErrorCode::E803);
  EXPECT_EQ(client.fetch({}).error().code, ErrorCode::E803);
  expect_times(measure(traces(4)), traces(4));
}

TEST_F(Remote, WhatTheTrackerRefusesCostsACandidate) {
  start_tracker();
  add_device();
  connect();
  std::vector<std::string> list = traces(21);
  const std::string huge(TrackerLimits().trace_bytes + 1, 'x');
  for (const size_t at : {size_t{0}, size_t{7}, size_t{8}, list.size() - 1}) list[at] = huge + std::to_string(at);
  std::vector<size_t> order;
  MeasureRequest request;
  request.on_result = [&](size_t i, const MeasureResult&) { order.push_back(i); };
  const auto results = measure(list, request);
  ASSERT_EQ(results.size(), list.size());
  ASSERT_EQ(order.size(), list.size()) << "each result once";
  for (size_t i = 0; i < list.size(); ++i) {
    EXPECT_EQ(order[i], i);
    if (list[i].size() < huge.size()) {
      EXPECT_DOUBLE_EQ(results[i].median_s, 1e-3 * static_cast<double>(list[i].size())) << i;
    } else {
      EXPECT_EQ(results[i].error, ErrorCode::E406) << i;
      EXPECT_NE(results[i].message.find("E803: a message between machines is too large"), std::string::npos)
          << results[i].message;
    }
  }
  // What is compared goes as one, or not at all.
  for (const MeasureResult& result : measure({"a", huge, "a", huge})) EXPECT_EQ(result.error, ErrorCode::E406);
  // A request that makes no sense is one for each of them.
  request = {};
  request.timing.max_samples = request.timing.min_samples - 1;
  for (const MeasureResult& result : measure(traces(5), request)) {
    EXPECT_EQ(result.error, ErrorCode::E406);
    EXPECT_NE(result.message.find("number of samples"), std::string::npos) << result.message;
  }
  EXPECT_EQ(measurer_->failures().at(ErrorCode::E406), 4 + 4 + 5);
  expect_times(measure(traces(4)), traces(4));
}

// --- TLS

class RemoteTls : public Remote {
 protected:
  // An authority, and a certificate that it signed for 127.0.0.1.
  void SetUp() override {
    const std::string at = folder_.path.string();
    for (const char* authority : {"ca", "other"})
      ASSERT_EQ(run(fmt::format("openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 "
                                "-subj /CN=test -keyout {0}/{1}.key -out {0}/{1}.pem",
                                at, authority)),
                0);
    ASSERT_EQ(run("openssl req -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -subj /CN=tracker -keyout " +
                  at + "/tracker.key -out " + at + "/tracker.csr"),
              0);
    std::ofstream(folder_.path / "names") << "subjectAltName=IP:127.0.0.1\n";
    ASSERT_EQ(run("openssl x509 -req -days 2 -CAcreateserial -in " + at + "/tracker.csr -CA " + at + "/ca.pem -CAkey " +
                  at + "/ca.key -extfile " + at + "/names -out " + at + "/tracker.pem"),
              0);
  }
  static int run(const std::string& command) { return std::system((command + " >/dev/null 2>&1").c_str()); }
  CredentialFiles files(bool cert, const std::string& ca) {
    CredentialFiles files;
    if (cert) files.tls_cert = folder_.path / "tracker.pem";
    if (cert) files.tls_key = folder_.path / "tracker.key";
    if (!ca.empty()) files.tls_ca = folder_.path / (ca + ".pem");
    return files;
  }
  ErrorCode answer(const CredentialFiles& files) {
    const auto credentials = client_credentials(address_, files);
    EXPECT_TRUE(credentials);
    const auto reply = TrackerClient(address_, *credentials).query();
    return reply ? ErrorCode::kNone : reply.error().code;
  }
  testing::TempFolder folder_;
};

TEST_F(RemoteTls, CallersTrustWhomTheirAuthoritySigned) {
  server_ = *server_credentials({"127.0.0.1", 0}, files(true, ""));
  client_ = *client_credentials({"127.0.0.1", 0}, files(false, "ca"));
  server_.token = client_.token = "0123456789abcdef";
  start_tracker();
  add_device();
  connect();
  expect_times(measure(traces(3)), traces(3));
  EXPECT_EQ(answer(files(false, "ca")), ErrorCode::E802) << "the token is missing";
  EXPECT_NE(answer(files(false, "other")), ErrorCode::kNone);
  EXPECT_NE(answer({}), ErrorCode::kNone) << "without TLS";
}

TEST_F(RemoteTls, ATrackerMayAskForCertificates) {
  server_ = *server_credentials({"127.0.0.1", 0}, files(true, "ca"));
  start_tracker();
  EXPECT_EQ(answer(files(true, "ca")), ErrorCode::kNone);
  EXPECT_NE(answer(files(false, "ca")), ErrorCode::kNone);
}

}  // namespace
}  // namespace fettle
