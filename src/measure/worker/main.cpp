// fettle-worker: builds and runs candidates for a tuner, which starts it with a socket as file descriptor 3.

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "measure/child.h"
#include "measure/worker/session.h"

namespace {

/// The socket.
constexpr int kFd = 3;

// What goes wrong while a candidate is built must not take the machine's memory with it: half of it may be used.
void limit_memory() {
  const int64_t machine_bytes = ::sysconf(_SC_PHYS_PAGES) * ::sysconf(_SC_PAGESIZE);
  const auto allowed = static_cast<rlim_t>(fettle::memory_of(::getpid()).data_bytes + machine_bytes / 2);
  rlimit memory{};
  if (::getrlimit(RLIMIT_DATA, &memory) != 0 || memory.rlim_cur <= allowed) return;
  memory.rlim_cur = allowed;
  ::setrlimit(RLIMIT_DATA, &memory);
}

// Ends this process as soon as the tuner has gone, also in the middle of a build. The system asks for a look whenever
// something happens on the socket.
void look_for_tuner(int) {
  pollfd one{kFd, 0, 0};
  if (::poll(&one, 1, 0) > 0 && (one.revents & (POLLHUP | POLLERR)) != 0) ::_exit(0);
}

void end_with_tuner() {
  struct sigaction action{};
  action.sa_handler = look_for_tuner;
  action.sa_flags = SA_RESTART;
  ::sigaction(SIGIO, &action, nullptr);
  ::fcntl(kFd, F_SETOWN, ::getpid());
  ::fcntl(kFd, F_SETFL, ::fcntl(kFd, F_GETFL) | O_ASYNC);
}

}  // namespace

int main(int argc, char** argv) {
  fettle::PlannedMisbehaviour plan;
  for (int i = 1; i < argc; ++i) {
    // For tests of what follows: --misbehave WHAT:N, candidate number N does WHAT; --misbehave-every N, one in N does
    // something.
    const std::string_view flag = argv[i];
    const std::string_view value = i + 1 < argc ? argv[i + 1] : "";
    if (flag == "--misbehave-every" && std::atoll(value.data()) > 0) {
      plan.every = std::atoll(argv[++i]);
      continue;
    }
    const size_t colon = value.find(':');
    const auto what = fettle::find_misbehaviour(value.substr(0, colon));
    if (flag != "--misbehave" || colon == std::string_view::npos || !what) {
      fmt::print(stderr, "fettle-worker is started by the tuner and takes no arguments.\n");
      return 2;
    }
    plan = {*what, std::atoll(value.substr(colon + 1).data())};
    ++i;
  }
  int type = 0;
  socklen_t size = sizeof type;
  if (::getsockopt(kFd, SOL_SOCKET, SO_TYPE, &type, &size) != 0) {
    fmt::print(stderr, "fettle-worker is started by the tuner: file descriptor {} is no socket.\n", kFd);
    return 2;
  }
  limit_memory();
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);
  std::signal(SIGINT, SIG_IGN);  // the tuner decides when to stop
  end_with_tuner();
  return fettle::Session(fettle::Channel(kFd), plan).serve();
}
