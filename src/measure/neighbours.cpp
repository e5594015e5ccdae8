#include "measure/neighbours.h"

#include <fmt/format.h>
#include <sched.h>

#include <system_error>

namespace fettle {

Result<std::unique_ptr<Neighbours>> Neighbours::start(std::vector<std::vector<Call>> calls,
                                                      const std::function<void(size_t row)>& begin) {
  std::unique_ptr<Neighbours> all(new Neighbours(std::move(calls)));
  try {
    for (size_t row = 0; row < all->calls_.size(); ++row) {
      all->threads_.emplace_back([neighbours = all.get(), row, begin] {
        if (begin) begin(row);
        neighbours->begun_.fetch_add(1);
        neighbours->begun_.notify_all();
        neighbours->await_others();
        neighbours->work(row);
      });
    }
  } catch (const std::system_error& error) {
    all->begun_.store(2 * all->calls_.size());  // nobody waits for those that there are not
    all->begun_.notify_all();
    return fail(ErrorCode::E710,
                fmt::format("the system refuses thread {}: {}", all->threads_.size() + 1, error.what()));
  }
  all->await_others();
  return all;
}

void Neighbours::await_others() {
  for (size_t begun = begun_.load(); begun < calls_.size(); begun = begun_.load()) begun_.wait(begun);
  gathering_.attend();
}

Neighbours::~Neighbours() { stop(); }

void Neighbours::stop() {
  wanted_.store(kStop);
  wanted_.notify_all();
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
}

int64_t Neighbours::calls() const {
  int64_t all = 0;
  for (const Seat& seat : seats_) all += seat.calls.load(std::memory_order_relaxed);
  return all;
}

void Neighbours::work(size_t row) {
  Seat& seat = seats_[row];
  for (;;) {
    const int entry = wanted_.load(std::memory_order_acquire);
    seat.at.store(entry, std::memory_order_release);
    if (entry == kStop) return;
    if (entry == kIdle) {
      wanted_.wait(kIdle);
      continue;
    }
    if (const int32_t status = calls_[row][static_cast<size_t>(entry)]()) {
      int32_t none = 0;
      status_.compare_exchange_strong(none, status, std::memory_order_acq_rel);
      return;
    }
    seat.calls.store(seat.calls.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  }
}

void Neighbours::turn_to(int entry) {
  wanted_.store(entry, std::memory_order_release);
  wanted_.notify_all();
  for (const Seat& seat : seats_)
    while (seat.at.load(std::memory_order_acquire) != entry && status() == 0) sched_yield();
}

}  // namespace fettle
