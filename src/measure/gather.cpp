#include "measure/gather.h"

#include <sched.h>

#include <chrono>

namespace fettle {
namespace {

using Clock = std::chrono::steady_clock;
constexpr int kMeetings = 4;
constexpr auto kPatience = std::chrono::microseconds(2500);

struct Meeting {
  std::atomic<int32_t> arrived{0};
  int32_t expected = 0;
  Clock::time_point end;
};

// Yields, so that a worker that was put on this CPU runs, and finds that it had better be elsewhere.
void meet(void* closure, int64_t) {
  auto& meeting = *static_cast<Meeting*>(closure);
  meeting.arrived.fetch_add(1, std::memory_order_acq_rel);
  while (meeting.arrived.load(std::memory_order_acquire) < meeting.expected && Clock::now() < meeting.end)
    sched_yield();
}

}  // namespace

void Gathering::attend() {
  for (int meeting = 1; meeting <= kMeetings; ++meeting) {
    arrived_.fetch_add(1, std::memory_order_acq_rel);
    const Clock::time_point end = Clock::now() + kPatience;
    while (arrived_.load(std::memory_order_acquire) < meeting * threads_ && Clock::now() < end) sched_yield();
  }
}

int gather_team(FettleTeam* team) {
  const int32_t threads = fettle_team_size(team);
  if (threads < 2) return kMeetings;
  int met = 0;
  for (int i = 0; i < kMeetings; ++i) {
    Meeting meeting;
    meeting.expected = threads;
    meeting.end = Clock::now() + kPatience;
    fettle_parallel_for(team, threads, meet, &meeting);
    if (Clock::now() < meeting.end) ++met;
  }
  return met;
}

}  // namespace fettle
