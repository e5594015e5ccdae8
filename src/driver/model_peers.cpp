#include "driver/model_peers.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <numeric>

#include "measure/worker_process.h"

namespace fettle::bench {
namespace {

using Clock = std::chrono::steady_clock;
using nlohmann::json;
namespace fs = std::filesystem;

constexpr int kProtocol = 1;
constexpr std::size_t kLongestAnswer = std::size_t{64} << 20;

/// The last line of text that is not empty, cut to a bearable length.
std::string last_line(std::string text) {
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.back()))) text.pop_back();
  const auto line = text.substr(text.rfind('\n') + 1);
  return line.size() > 300 ? line.substr(0, 300) + "..." : line;
}

PeerTensor tensor_of(const json& entry) {
  return {.name = entry.at("name"),
          .shape = entry.at("shape"),
          .dtype = entry.at("dtype"),
          .file = entry.value("file", "")};
}

std::vector<PeerTensor> tensors_of(const json& entries) {
  std::vector<PeerTensor> tensors;
  for (const json& entry : entries) tensors.push_back(tensor_of(entry));
  return tensors;
}

}  // namespace

Result<PeerPaths> find_peer_paths() {
  PeerPaths paths;
  std::error_code error;
  if (const char* chosen = std::getenv("FETTLE_PYTHON"); chosen && *chosen) paths.python = chosen;
  fs::path folder = fs::read_symlink("/proc/self/exe", error).parent_path();
  for (; !folder.empty(); folder = folder.parent_path()) {
    for (const char* python : {"python/bin/python", "build/python/bin/python"}) {
      if (paths.python.empty() && fs::exists(folder / python, error)) paths.python = (folder / python).string();
    }
    for (const char* script : {"share/fettle/model_peers.py", "benchmarks/peers/model_peers.py"}) {
      if (paths.script.empty() && fs::exists(folder / script, error)) paths.script = (folder / script).string();
    }
    if (folder == folder.root_path()) break;
  }
  if (paths.script.empty())
    return fail(ErrorCode::E708, "model_peers.py is neither installed nor in a source tree around this program");
  if (paths.python.empty()) paths.python = "python3";
  return paths;
}

struct ModelPeer::State {
  std::string name;
  std::string version;
  WorkerProcess process;  // the socket is its standard input and output
  std::string received;

  /// Closes its input, gives it a second to leave, then kills it. Returns how it ended, in words.
  std::string end() {
    const std::string how = process.end(1);
    if (how.empty()) return "it has ended";
    const size_t printed = how.find(": ");
    return printed == std::string::npos ? how : how.substr(0, printed + 2) + last_line(how.substr(printed + 2));
  }

  tl::unexpected<Diagnostic> failed(std::string message) const {
    return fail(ErrorCode::E708, std::move(message), name);
  }

  Result<void> send_line(const std::string& line) {
    std::size_t sent = 0;
    while (sent < line.size()) {
      const ssize_t count = send(process.channel().fd(), line.data() + sent, line.size() - sent, MSG_NOSIGNAL);
      if (count < 0 && errno == EINTR) continue;
      if (count < 0) return failed("the process no longer listens; " + end());
      sent += static_cast<std::size_t>(count);
    }
    return {};
  }

  Result<json> receive(double timeout_s) {
    const auto limit = Clock::now() + std::chrono::duration<double>(timeout_s);
    std::size_t searched = 0;
    for (;;) {
      if (const auto end_of_line = received.find('\n', searched); end_of_line != std::string::npos) {
        const std::string line = received.substr(0, end_of_line);
        received.erase(0, end_of_line + 1);
        json answer = json::parse(line, nullptr, false);
        if (!answer.is_object() || !answer.contains("ok") || !answer["ok"].is_boolean()) {
          end();
          return failed(fmt::format("the process answered something else than this protocol: {}", last_line(line)));
        }
        if (!answer["ok"].get<bool>()) {
          const auto reason = answer.find("error");
          return failed(reason != answer.end() && reason->is_string() ? reason->get<std::string>()
                                                                      : "it failed without a reason");
        }
        return answer;
      }
      searched = received.size();
      const double left_ms = std::chrono::duration<double, std::milli>(limit - Clock::now()).count();
      pollfd ready{process.channel().fd(), POLLIN, 0};
      const int count = left_ms > 0 ? poll(&ready, 1, static_cast<int>(std::min(left_ms + 1, 1e9))) : 0;
      if (count < 0 && errno == EINTR) continue;
      if (count == 0) {
        process.end(0);
        return failed(fmt::format("no answer within {:g} s, so the process was ended", timeout_s));
      }
      char buffer[65536];
      const ssize_t length = count > 0 ? recv(process.channel().fd(), buffer, sizeof buffer, 0) : -1;
      if (length < 0 && errno == EINTR) continue;
      if (length <= 0) return failed("the process is gone: " + end());
      received.append(buffer, static_cast<std::size_t>(length));
      if (received.size() > kLongestAnswer) {
        end();
        return failed("the process answered without end");
      }
    }
  }

  Result<json> ask(const json& request, double timeout_s) {
    if (!process.is_running()) return failed("the process has ended");
    FETTLE_TRY_VOID(send_line(request.dump(-1, ' ', false, json::error_handler_t::replace) + "\n"));
    return receive(timeout_s);
  }

  /// What `make` reads out of an answer; a field that is missing or of another type is a broken protocol.
  template <class Make>
  auto read(const json& answer, Make make) -> Result<decltype(make(answer))> {
    try {
      return make(answer);
    } catch (const json::exception& error) {
      end();
      return failed(fmt::format("the process answered something else than this protocol: {}", error.what()));
    }
  }
};

Result<ModelPeer> ModelPeer::start(const std::string& peer) {
  FETTLE_TRY(const PeerPaths paths, find_peer_paths());
  return start(peer, paths);
}

Result<ModelPeer> ModelPeer::start(const std::string& peer, const PeerPaths& paths, double timeout_s) {
  auto state = std::make_unique<State>();
  state->name = peer;
  auto process = WorkerProcess::spawn(paths.python, {paths.script, peer}, {0, 1});
  if (!process) return state->failed(fmt::format("cannot start {}: {}", paths.python, process.error().message));
  state->process = std::move(*process);
  FETTLE_TRY(const json greeting, state->receive(timeout_s));
  if (greeting.value("protocol", json()) != kProtocol) {
    return state->failed(fmt::format("{} speaks another version of the protocol than this program", paths.script));
  }
  FETTLE_TRY(state->version,
             state->read(greeting, [](const json& answer) { return answer.at("version").get<std::string>(); }));
  return ModelPeer(std::move(state));
}

ModelPeer::ModelPeer(std::unique_ptr<State> state) : state_(std::move(state)) {}
ModelPeer::ModelPeer(ModelPeer&&) noexcept = default;
ModelPeer& ModelPeer::operator=(ModelPeer&&) noexcept = default;
ModelPeer::~ModelPeer() = default;

const std::string& ModelPeer::name() const { return state_->name; }
const std::string& ModelPeer::version() const { return state_->version; }

Result<PeerLoaded> ModelPeer::load(const PeerModel& model, double timeout_s) {
  const json request = {
      {"op", "load"},           {"model", model.file}, {"threads", model.threads}, {"shapes", model.shapes},
      {"inputs", model.inputs}, {"seed", model.seed},  {"open", model.keeps_open}};
  FETTLE_TRY(const json answer, state_->ask(request, timeout_s));
  return state_->read(answer, [](const json& a) {
    return PeerLoaded{.load_s = a.at("load_s"),
                      .first_run_s = a.at("first_run_s"),
                      .inputs = tensors_of(a.at("inputs")),
                      .outputs = tensors_of(a.at("outputs"))};
  });
}

Result<> ModelPeer::give(const std::map<std::string, std::string>& inputs, double timeout_s) {
  FETTLE_TRY_VOID(state_->ask({{"op", "inputs"}, {"inputs", inputs}}, timeout_s));
  return {};
}

Result<PeerTimes> ModelPeer::time(int runs, int warm, double limit_s) {
  const json request = {{"op", "time"}, {"runs", runs}, {"warm", warm}, {"limit_s", limit_s}};
  FETTLE_TRY(const json answer, state_->ask(request, 2 * limit_s + 60));
  FETTLE_TRY(PeerTimes times, state_->read(answer, [](const json& a) {
    return PeerTimes{.times_ns = a.at("times_ns"), .idle = a.at("idle")};
  }));
  if (times.times_ns.empty()) return state_->failed("it timed nothing");
  return times;
}

Result<double> ModelPeer::mean_time_ns(int runs) {
  FETTLE_TRY(const PeerTimes times, time(runs));
  return std::accumulate(times.times_ns.begin(), times.times_ns.end(), 0.0) /
         static_cast<double>(times.times_ns.size());
}

Result<std::vector<PeerTensor>> ModelPeer::outputs(const std::string& folder) {
  FETTLE_TRY(const json answer, state_->ask({{"op", "outputs"}, {"dir", folder}}, 300));
  return state_->read(answer, [](const json& a) { return tensors_of(a.at("outputs")); });
}

Result<PeerMemory> ModelPeer::memory() {
  FETTLE_TRY(const json answer, state_->ask({{"op", "memory"}}, 60));
  return state_->read(answer, [](const json& a) {
    return PeerMemory{.peak_rss_bytes = a.at("peak_rss_bytes"), .before_load_bytes = a.at("before_load_bytes")};
  });
}

}  // namespace fettle::bench
