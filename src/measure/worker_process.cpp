#include "measure/worker_process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <nlohmann/json.hpp>
#include <utility>

#include "measure/child.h"

namespace fettle {
namespace {

constexpr double kStartSeconds = 20;
constexpr int64_t kTailBytes = 2000;

/// The worker finds its socket here.
constexpr int kWorkerFd = 3;

std::string tail_of(int fd) {
  if (fd < 0) return {};
  const off_t size = ::lseek(fd, 0, SEEK_END);
  const off_t from = std::max<off_t>(0, size - kTailBytes);
  std::string text(static_cast<size_t>(std::max<off_t>(0, size - from)), '\0');
  const ssize_t n = ::pread(fd, text.data(), text.size(), from);
  text.resize(n > 0 ? static_cast<size_t>(n) : 0);
  while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.pop_back();
  return text;
}

}  // namespace

Result<WorkerProcess> WorkerProcess::spawn(const std::string& program, const std::vector<std::string>& args,
                                           const std::set<int>& socket_fds) {
  const auto cannot = [&](const std::string& why) { return fail(ErrorCode::E406, why, program); };
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) return cannot(std::strerror(errno));
  WorkerProcess worker;
  worker.channel_ = Channel(ends[0]);
  Channel theirs(ends[1]);  // closed here when this returns
  worker.output_fd_ = ::memfd_create("fettle-worker output", MFD_CLOEXEC);

  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  for (const int fd : {1, 2})
    if (worker.output_fd_ >= 0) posix_spawn_file_actions_adddup2(&actions, worker.output_fd_, fd);
  for (const int fd : socket_fds) posix_spawn_file_actions_adddup2(&actions, theirs.fd(), fd);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t none, defaults;
  sigemptyset(&none);
  sigfillset(&defaults);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setsigdefault(&attributes, &defaults);
  posix_spawnattr_setpgroup(&attributes, 0);  // a Ctrl-C at the terminal is the tuner's to handle
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP);

  std::vector<std::string> words = {program};
  words.insert(words.end(), args.begin(), args.end());
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  const int error = ::posix_spawnp(&worker.pid_, program.c_str(), &actions, &attributes, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  posix_spawnattr_destroy(&attributes);
  if (error != 0) {
    worker.pid_ = -1;
    return cannot(std::strerror(error));
  }
  return worker;
}

Result<WorkerProcess> WorkerProcess::start(const std::filesystem::path& program, const std::vector<std::string>& args) {
  const auto cannot = [&](const std::string& why) { return fail(ErrorCode::E406, why, program.string()); };
  if (::access(program.c_str(), X_OK) != 0) return cannot(std::strerror(errno));
  FETTLE_TRY(WorkerProcess worker, spawn(program.string(), args, {kWorkerFd}));
  const Deadline deadline = in_seconds(kStartSeconds);
  auto greeting =
      worker.channel_.send(R"({"do": "hello"})", deadline).and_then([&] { return worker.channel_.receive(deadline); });
  const auto json = nlohmann::json::parse(greeting ? *greeting : "", nullptr, false);
  if (!json.is_object() || !json.contains("protocol") || json["protocol"] != kProtocolVersion)
    return cannot(fmt::format("it does not greet as this program's worker does: {}", worker.end(0)));
  return worker;
}

WorkerProcess::WorkerProcess(WorkerProcess&& other) noexcept
    : pid_(std::exchange(other.pid_, -1)),
      output_fd_(std::exchange(other.output_fd_, -1)),
      channel_(std::move(other.channel_)) {}

WorkerProcess& WorkerProcess::operator=(WorkerProcess&& other) noexcept {
  if (this != &other) {
    end(0);
    pid_ = std::exchange(other.pid_, -1);
    output_fd_ = std::exchange(other.output_fd_, -1);
    channel_ = std::move(other.channel_);
  }
  return *this;
}

WorkerProcess::~WorkerProcess() { end(0.2); }

std::string WorkerProcess::end(double patience_s) {
  if (pid_ <= 0) return {};
  channel_.close();  // an idle worker ends now
  int status = 0;
  const Deadline deadline = in_seconds(patience_s);
  pid_t ended = 0;
  while ((ended = ::waitpid(pid_, &status, WNOHANG)) == 0 && std::chrono::steady_clock::now() < *deadline)
    ::usleep(500);
  std::string how;
  if (ended == 0) {
    ::kill(-pid_, SIGKILL);
    ::kill(pid_, SIGKILL);
    while (::waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
    }
    how = "it was ended";
  } else if (WIFSIGNALED(status)) {
    how = signal_text(WTERMSIG(status));
  } else {
    how = fmt::format("exit status {}", WEXITSTATUS(status));
  }
  pid_ = -1;
  if (const std::string printed = tail_of(output_fd_); !printed.empty()) how += ": " + printed;
  if (output_fd_ >= 0) ::close(output_fd_);
  output_fd_ = -1;
  return how;
}

}  // namespace fettle
