// fettle-worker: builds and runs candidates for a tuner, which starts it with a socket as file descriptor 3.

#include <fmt/format.h>
#include <sys/socket.h>

#include <csignal>
#include <cstdlib>
#include <string_view>

#include "measure/worker/session.h"

int main(int argc, char** argv) {
  constexpr int kFd = 3;
  fettle::PlannedMisbehaviour plan;
  for (int i = 1; i < argc; ++i) {
    // --misbehave WHAT:N, for tests of what follows: candidate number N does WHAT.
    const std::string_view flag = argv[i];
    const std::string_view value = i + 1 < argc ? argv[i + 1] : "";
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
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGINT, SIG_IGN);  // the tuner decides when to stop
  return fettle::Session(fettle::Channel(kFd), plan).serve();
}
