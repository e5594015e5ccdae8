#include "cli/interruption.h"

#include <iterator>

namespace fettle::cli {
namespace {

std::atomic<bool> flag{false};
constexpr int kSignals[] = {SIGINT, SIGTERM, SIGHUP};

void interrupt(int) {
  // The second time, the usual happens.
  if (!flag.exchange(true)) return;
  for (const int signal : kSignals) std::signal(signal, SIG_DFL);
}

}  // namespace

InterruptGuard::InterruptGuard() {
  static_assert(std::size(kSignals) == std::extent_v<decltype(before_)>);
  flag = false;
  struct sigaction action{};
  action.sa_handler = interrupt;
  for (size_t i = 0; i < std::size(kSignals); ++i) {
    sigaction(kSignals[i], &action, &before_[i]);
    if (before_[i].sa_handler == SIG_IGN) sigaction(kSignals[i], &before_[i], nullptr);  // as nohup wants it
  }
}

InterruptGuard::~InterruptGuard() {
  for (size_t i = 0; i < std::size(kSignals); ++i) sigaction(kSignals[i], &before_[i], nullptr);
}

const std::atomic<bool>& InterruptGuard::interrupted() const { return flag; }

}  // namespace fettle::cli
