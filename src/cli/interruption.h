#pragma once
// Ctrl-C and its like.

#include <atomic>
#include <csignal>

namespace fettle::cli {

/// While it lives, Ctrl-C, a polite kill and a terminal that goes set a flag instead of ending the program; the second
/// time, the usual happens. One at a time.
class InterruptGuard {
 public:
  InterruptGuard();
  ~InterruptGuard();
  InterruptGuard(const InterruptGuard&) = delete;
  InterruptGuard& operator=(const InterruptGuard&) = delete;

  const std::atomic<bool>& interrupted() const;

 private:
  struct sigaction before_[3]{};
};

}  // namespace fettle::cli
