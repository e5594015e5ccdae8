#pragma once
// Copies of what is timed that run beside it all the while, as the other calls of a server do.

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "base/result.h"
#include "measure/gather.h"

namespace fettle {

/// Threads, each of which makes one call again and again. They stop when this goes.
class Neighbours {
 public:
  using Call = std::function<int32_t()>;  // 0: success

  /// One thread a row of `calls`. What it calls is the entry that turn_to says, the same of each row; before that, it
  /// does nothing. `begin` has been called on each thread when this returns, and all are up, the calling one included
  /// (gather.h). E710 the system refuses a thread.
  static Result<std::unique_ptr<Neighbours>> start(std::vector<std::vector<Call>> calls,
                                                   const std::function<void(size_t row)>& begin = {});
  ~Neighbours();
  Neighbours(const Neighbours&) = delete;
  Neighbours& operator=(const Neighbours&) = delete;

  /// All call this entry from now on: each has ended its last call of another one when this returns.
  void turn_to(int entry);
  /// All have ended their last call when this returns.
  void stop();
  /// Of the first call that failed; 0: none has. The thread that made it calls nothing any more.
  int32_t status() const { return status_.load(std::memory_order_acquire); }
  /// Calls that succeeded, of all threads together.
  int64_t calls() const;

 private:
  static constexpr int kIdle = -1, kStop = -2;
  /// Each on a cache line of its own: kernels may take a microsecond.
  struct alignas(64) Seat {
    std::atomic<int> at{kIdle};  // the entry that the thread calls
    std::atomic<int64_t> calls{0};
  };

  explicit Neighbours(std::vector<std::vector<Call>> calls)
      : calls_(std::move(calls)), seats_(calls_.size()), gathering_(static_cast<int>(calls_.size()) + 1) {}
  void work(size_t row);
  void await_others();

  const std::vector<std::vector<Call>> calls_;
  std::vector<std::thread> threads_;
  std::atomic<int> wanted_{kIdle};
  std::vector<Seat> seats_;
  std::atomic<size_t> begun_{0};
  Gathering gathering_;
  std::atomic<int32_t> status_{0};
};

}  // namespace fettle
