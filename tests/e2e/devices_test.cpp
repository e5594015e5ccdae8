// Tracker, devices and tuners as processes, of which some are killed, stopped and started again.

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "support/support.h"

namespace fettle::testing_support {
namespace {

using nlohmann::json;

constexpr const char* kFettle = FETTLE_BINARY_DIR "/bin/fettle";

/// A process in the background; it ends with its owner.
class Process {
 public:
  Process(const std::vector<std::string>& words, const std::string& home, const std::string& output) {
    std::vector<char*> argv;
    for (const std::string& word : words) argv.push_back(const_cast<char*>(word.c_str()));
    argv.push_back(nullptr);
    std::vector<std::string> settings{"XDG_DATA_HOME=" + home, "XDG_CACHE_HOME=" + home, "HOME=" + home,
                                      "PATH=" FETTLE_BINARY_DIR "/bin:/usr/bin:/bin"};
    std::vector<char*> env;
    for (std::string& setting : settings) env.push_back(setting.data());
    env.push_back(nullptr);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_addopen(&actions, 1, output.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
    posix_spawn_file_actions_adddup2(&actions, 1, 2);
    if (posix_spawn(&pid_, words[0].c_str(), &actions, nullptr, argv.data(), env.data()) != 0) pid_ = -1;
    posix_spawn_file_actions_destroy(&actions);
  }
  ~Process() { end(SIGKILL); }
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  void send(int signal) const {
    if (pid_ > 0) ::kill(pid_, signal);
  }
  /// Its exit status, 128 + n where signal n ended it.
  int end(int signal) {
    if (pid_ <= 0) return -1;
    ::kill(pid_, signal);
    ::kill(pid_, SIGCONT);
    int status = 0;
    ::waitpid(pid_, &status, 0);
    pid_ = -1;
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  }

 private:
  pid_t pid_ = -1;
};

class Devices : public Misuse {
 protected:
  void SetUp() override {
    Misuse::SetUp();
    write_model("model.onnx");
  }
  std::unique_ptr<Process> start(std::vector<std::string> args) {
    args.insert(args.begin(), kFettle);
    return std::make_unique<Process>(args, path(""), path("output"));
  }
  void start_tracker(const std::string& listen = "127.0.0.1:0") {
    std::filesystem::remove(path("address"));
    tracker_ = start({"tracker", "--listen", listen, "--address-file", path("address"), "--device-timeout", "3"});
    ASSERT_TRUE(until([&] { return std::filesystem::exists(path("address")); })) << read("output");
    address_ = read("address");
    address_.pop_back();  // the line's end
  }
  std::unique_ptr<Process> start_device() {
    return start({"device", "--tracker", address_, "--key", "here", "--threads", "1", "--no-micro-kernels"});
  }
  json query() const {
    const Outcome asked = fettle({"tracker", "--query", address_, "--json"});
    EXPECT_EQ(asked.status, 0) << asked.err;
    const json answer = json::parse(asked.out, nullptr, false);
    return answer.is_object() && !answer.at("keys").empty() ? answer.at("keys")[0] : json();
  }
  size_t devices() const {
    const json key = query();
    return key.is_object() ? key.at("devices").size() : 0;
  }
  template <class Condition>
  static bool until(const Condition& condition) {
    for (int i = 0; i < 1200 && !condition(); ++i) usleep(50'000);
    return condition();
  }
  /// Tunes; `disturb` is called once, as soon as something was measured.
  Outcome tune(int trials, const std::function<void()>& disturb = {}) {
    bool done = !disturb;
    return fettle({"tune", path("model.onnx"), "--db", path("records.db"), "--trials", std::to_string(trials),
                   "--tracker", address_, "--key", "here", "--json"},
                  [&](const std::string& err) {
                    if (!done && err.find(" trials") != std::string::npos) {
                      done = true;
                      disturb();
                    }
                    return false;
                  });
  }
  void expect_tuned(const Outcome& tuned) {
    ASSERT_EQ(tuned.status, 0) << tuned.err << read("output");
    const json report = json::parse(tuned.out);
    EXPECT_GE(report.at("measured"), 1);
    EXPECT_TRUE(report.at("failures").empty()) << report.at("failures").dump();
    EXPECT_GT(report.at("latency_ms").at("tuned"), 0);
    int64_t records = 0;
    const json listed = json::parse(fettle({"db", "ls", path("records.db"), "--json"}).out, nullptr, false);
    for (const json& task : listed.at("tasks")) records += task.at("records").get<int64_t>();
    EXPECT_GE(records, report.at("measured").get<int64_t>());
  }

  std::string address_;
  std::unique_ptr<Process> tracker_;
};

TEST_F(Devices, SomeAreKilledAndSomeStall) {
  start_tracker();
  auto killed = start_device(), stalled = start_device(), sound = start_device();
  ASSERT_TRUE(until([&] { return devices() == 3; })) << read("output");
  expect_tuned(tune(24, [&] {
    killed->end(SIGKILL);
    stalled->send(SIGSTOP);
  }));
  ASSERT_TRUE(until([&] { return query().at("devices_lost") >= 2; }));
  EXPECT_GE(query().at("measured"), 1);
  // Awake again, it takes part again.
  stalled->send(SIGCONT);
  EXPECT_TRUE(until([&] { return devices() == 2; }));
  // A device that is asked to end leaves at once, without being lost.
  const int64_t lost = query().at("devices_lost");
  EXPECT_EQ(sound->end(SIGTERM), 0) << read("output");
  EXPECT_EQ(devices(), 1u);
  EXPECT_EQ(query().at("devices_lost"), lost);
  EXPECT_EQ(tracker_->end(SIGTERM), 0);
}

TEST_F(Devices, TheTrackerIsStartedAnew) {
  start_tracker();
  auto one = start_device(), two = start_device();
  ASSERT_TRUE(until([&] { return devices() == 2; })) << read("output");
  expect_tuned(tune(24, [&] {
    tracker_->end(SIGKILL);
    start_tracker(address_);
  }));
  EXPECT_TRUE(until([&] { return devices() == 2; }));
}

TEST_F(Devices, TheWorkerIsFreeOfGrpc) {
  std::ifstream file(FETTLE_BINARY_DIR "/bin/fettle-worker", std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(file), {}};
  ASSERT_FALSE(bytes.empty());
  EXPECT_EQ(bytes.find("libgrpc"), std::string::npos);
}

TEST_F(Devices, BeyondThisMachineCredentialsAreNeeded) {
  expect_refused({"tracker", "--listen", "0.0.0.0:0"}, "E802", {"--token-file", "--tls-cert", "--tls-key"});
  expect_refused({"device", "--tracker", "192.0.2.1:9190", "--key", "k"}, "E802", {"--token-file", "--tls-ca"});
  expect_refused({"tune", path("model.onnx"), "--db", path("r.db"), "--tracker", "192.0.2.1:9190", "--key", "k"},
                 "E802");
  expect_refused({"tracker", "--query", "192.0.2.1:9190"}, "E802", {"--token-file"});
  expect_refused({"tracker", "--query", "127.0.0.1:1"}, "E801");
  write("token", "0123456789abcdef");
  std::filesystem::permissions(path("token"), std::filesystem::perms::owner_all | std::filesystem::perms::others_read);
  expect_refused({"tracker", "--listen", "127.0.0.1:0", "--token-file", path("token")}, "E802", {"chmod 600"});
}

TEST_F(Devices, WrongUsage) {
  for (const std::vector<std::string>& args :
       std::vector<std::vector<std::string>>{{"tracker", "--listen", "nowhere"},
                                             {"tracker", "--listen", "127.0.0.1:0", "--query", "127.0.0.1:1"},
                                             {"device", "--tracker", "127.0.0.1:1"},
                                             {"device", "--key", "k"},
                                             {"tune", path("model.onnx"), "--tracker", "127.0.0.1:1"},
                                             {"tune", path("model.onnx"), "--key", "k"},
                                             {"tune", path("model.onnx"), "--db", path("r.db"), "--tracker",
                                              "127.0.0.1:1", "--key", "k", "--threads", "2"}}) {
    EXPECT_EQ(fettle(args).status, 2) << args[0] << " " << args[1];
  }
}

// docs/devices.md: its commands, as they stand there.
TEST_F(Devices, ThePageRuns) {
  std::ifstream file(FETTLE_SOURCE_DIR "/docs/devices.md");
  const std::string page{std::istreambuf_iterator<char>(file), {}};
  const std::string begin = "<!-- run -->\n```sh\n";
  std::string script = "set -eu\ncd " + path("") + "\ntrap 'kill $(jobs -p); wait' EXIT\n";
  int blocks = 0;
  for (size_t at = page.find(begin); at != std::string::npos; at = page.find(begin, at + 1), ++blocks) {
    const size_t from = at + begin.size();
    script += page.substr(from, page.find("```", from) - from);
  }
  EXPECT_EQ(blocks, 3);
  script += "echo the end is reached\n";
  write("script", script);
  auto shell =
      std::make_unique<Process>(std::vector<std::string>{"/bin/bash", path("script")}, path(""), path("output"));
  EXPECT_TRUE(until([&] { return read("output").find("the end is reached") != std::string::npos; })) << read("output");
  shell->end(SIGTERM);
  const json answer = json::parse(read("devices.json"), nullptr, false);
  ASSERT_TRUE(answer.is_object()) << read("output");
  EXPECT_EQ(answer.at("keys").at(0).at("devices").size(), 2u);
  EXPECT_GE(answer.at("keys").at(0).at("measured"), 1);  // the space of so small a model may be used up soon
}

}  // namespace
}  // namespace fettle::testing_support
