#include "measure/worker/device_process.h"

#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <utility>

#include "measure/worker/device_server.h"

namespace fettle {
namespace {

constexpr double kOpenSeconds = 30;
/// A driver may compile a kernel's code when it is first launched.
constexpr double kLoadSeconds = 20;

nlohmann::json describe(const DeviceCall& call, bool with_code) {
  nlohmann::json buffers = nlohmann::json::array(), parts = nlohmann::json::array();
  for (const auto& slot : call.arguments->slots) buffers.push_back(slot->number);
  if (with_code)
    for (const CodePart& part : call.kernel->built.image)
      parts.push_back({{"name", part.name}, {"bytes", part.bytes->size()}});
  return {{"entry", call.kernel->built.entry}, {"parts", parts}, {"buffers", buffers}};
}

}  // namespace

Result<> DeviceProcess::start() {
  if (pid_ > 0) return {};
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
    return fail(ErrorCode::E406, fmt::format("no process for the device: {}", std::strerror(errno)));
  Channel theirs(ends[1]);
  channel_ = Channel(ends[0]);
  std::fflush(nullptr);
  const pid_t worker = ::getpid();
  pid_ = ::fork();
  if (pid_ < 0) {
    channel_.close();
    return fail(ErrorCode::E406, fmt::format("no process for the device: {}", std::strerror(errno)));
  }
  if (pid_ > 0) return {};
  ::setpgid(0, 0);
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != worker) ::_exit(1);
  std::signal(SIGIO, SIG_DFL);
  ::close(tuner_fd_);
  channel_.close();
  const rlimit none{0, 0};
  ::setrlimit(RLIMIT_CORE, &none);
  serve_device(device_, theirs);
  ::_exit(0);
}

void DeviceProcess::end() {
  if (pid_ <= 0) return;
  channel_.close();
  ::kill(-pid_, SIGKILL);
  ::kill(pid_, SIGKILL);
  while (::waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
  }
  pid_ = -1;
  is_ready_ = false;
  slots_.clear();
  beside_.reset();
}

Result<> DeviceProcess::ready() {
  FETTLE_TRY_VOID(start());
  if (is_ready_) return {};
  const auto greeting = channel_.receive(in_seconds(kOpenSeconds));
  if (!greeting) {
    end();
    return fail(ErrorCode::E406, fmt::format("{} could not be opened within {} s", device_.kind, kOpenSeconds));
  }
  if (!greeting->empty()) {
    end();
    return fail(ErrorCode::E406, *greeting);
  }
  is_ready_ = true;
  return {};
}

tl::unexpected<Diagnostic> DeviceProcess::lost(int* signal) {
  channel_.close();
  ::kill(-pid_, SIGCONT);
  int status = 0;
  ::usleep(1000);
  if (::waitpid(pid_, &status, WNOHANG) != pid_) {
    end();
    return fail(ErrorCode::E403, "it closed its channel");
  }
  pid_ = -1;
  is_ready_ = false;
  slots_.clear();
  beside_.reset();
  if (!WIFSIGNALED(status))
    return fail(ErrorCode::E403, fmt::format("it ended the process with status {}", WEXITSTATUS(status)));
  if (WTERMSIG(status) == SIGKILL) return fail(ErrorCode::E404, "the system ended it, most likely for want of memory");
  *signal = WTERMSIG(status);
  return fail(ErrorCode::E403, signal_text(*signal));
}

Result<Timing> DeviceProcess::run(const DeviceCall& candidate, size_t n_params, const std::vector<int64_t>& ints,
                                  const RunRequest& request, bool fetch, int* signal) {
  *signal = 0;
  FETTLE_TRY_VOID(ready());
  std::vector<DeviceCall> calls = {candidate};
  if (request.beside) calls.push_back({request.beside->kernel.get(), &request.beside->arguments});
  const bool new_beside = request.beside && request.beside->kernel != beside_;
  if (new_beside) beside_ = request.beside->kernel;

  // Buffers that neither uses leave the device; those of inputs that it lacks are sent.
  nlohmann::json slots = nlohmann::json::array();
  std::vector<const BufferStore::Slot*> sent;
  std::set<uint64_t> used;
  for (const DeviceCall& call : calls)
    for (size_t i = 0; i < call.arguments->slots.size(); ++i) {
      const BufferStore::Slot& slot = *call.arguments->slots[i];
      if (!used.insert(slot.number).second) continue;
      const bool is_output = i < n_params && call.kernel->built.info.params[i].kind == ParamKind::kOutput;
      const bool is_sent = fetch || (!slots_.contains(slot.number) && !is_output);
      slots.push_back({{"number", slot.number}, {"bytes", slot.memory->bytes()}, {"content", is_sent}});
      if (is_sent) sent.push_back(&slot);
    }
  slots_ = std::move(used);

  nlohmann::json message = {{"candidate", describe(candidate, true)},
                            {"ints", ints},
                            {"slots", slots},
                            {"misbehave", static_cast<int>(request.misbehaviour)}};
  if (request.timing) message["time"] = *request.timing;
  if (request.beside) message["beside"] = describe(calls[1], new_beside);
  std::vector<uint64_t> fetched;
  if (fetch)
    for (size_t i = 0; i < n_params; ++i)
      if (candidate.kernel->built.info.params[i].kind == ParamKind::kOutput)
        fetched.push_back(candidate.arguments->slots[i]->number);
  message["fetch"] = fetched;

  const Deadline loaded = in_seconds(request.limits.timeout_s + kLoadSeconds);
  const auto exchange = [&]() -> Result<std::string> {
    FETTLE_TRY_VOID(channel_.send(message.dump(), loaded));
    for (size_t c = 0; c < calls.size(); ++c) {
      if (c > 0 && !new_beside) break;
      for (const CodePart& part : calls[c].kernel->built.image)
        FETTLE_TRY_VOID(send_bytes(channel_, part.bytes->data(), static_cast<int64_t>(part.bytes->size()), loaded));
    }
    for (const BufferStore::Slot* slot : sent)
      FETTLE_TRY_VOID(send_bytes(channel_, slot->memory->data(), slot->memory->bytes(), loaded));
    FETTLE_TRY(std::string reply, channel_.receive(loaded));
    if (reply.empty()) return channel_.receive(in_seconds(request.limits.timeout_s));  // it is loaded
    return reply;
  };
  const auto text = exchange();
  if (!text && text.error().message == "late") {
    end();
    return fail(ErrorCode::E402, fmt::format("it ran for {:.3g} s", request.limits.timeout_s));
  }
  if (!text) return lost(signal);
  const nlohmann::json reply = nlohmann::json::parse(*text, nullptr, false);
  if (const int32_t status = reply.value("status", int32_t{FETTLE_DEVICE_FAILED}); status != FETTLE_OK) {
    end();  // the device does nothing more in a process where a kernel failed
    const std::string why = reply.value("why", std::string());
    if (status == FETTLE_OUT_OF_MEMORY) return fail(ErrorCode::E404, why);
    return fail(ErrorCode::E403, why);
  }
  const Deadline fetching = in_seconds(kOpenSeconds);
  for (const auto& slot : candidate.arguments->slots) {
    if (std::ranges::find(fetched, slot->number) == fetched.end()) continue;
    if (!receive_bytes(channel_, slot->memory->data(), slot->memory->bytes(), fetching)) return lost(signal);
  }
  return reply.at("timing").get<Timing>();
}

}  // namespace fettle
