#include "tests/fuzz/processes.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <new>
#include <vector>

#include "base/check.h"
#include "tests/fuzz/sanitizers.h"

namespace fettle::fuzz {
namespace {

constexpr int kMostProcesses = 256;
constexpr int kBatchesOfProcess = 32;  // then another takes its place
constexpr useconds_t kPollMicroseconds = 500;

// Ticks that come while the process is stopped are one.
volatile sig_atomic_t ticks_left = 0;
void tick(int) {
  ticks_left = ticks_left - 1;
  if (ticks_left > 0) return;
  std::signal(SIGALRM, SIG_DFL);
  raise(SIGALRM);
}

pid_t forked(const std::function<int()>& fn) {
  fflush(nullptr);
  const pid_t pid = fork();
  FETTLE_CHECK(pid >= 0);
  if (pid == 0) _exit(fn());
  return pid;
}

Outcome outcome_of(int status) {
  if (WIFEXITED(status)) return {true, WEXITSTATUS(status)};
  return {false, WTERMSIG(status)};
}

struct Shared {
  std::atomic<int64_t> next_batch, taken;  // batches begun; counted
  std::atomic<int32_t> stop;
  At at[kMostProcesses];
};

/// Memory of this process and of those that it forks.
template <class T>
class SharedArray {
 public:
  explicit SharedArray(size_t n) : bytes_(n * sizeof(T)) {
    void* memory = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    FETTLE_CHECK(memory != MAP_FAILED);
    items_ = static_cast<T*>(memory);
    for (size_t i = 0; i < n; ++i) new (items_ + i) T{};
  }
  SharedArray(const SharedArray&) = delete;
  SharedArray& operator=(const SharedArray&) = delete;
  ~SharedArray() { munmap(items_, bytes_); }
  T& operator[](size_t i) { return items_[i]; }

 private:
  size_t bytes_;
  T* items_;
};

using Work = std::function<void(Tally&, At&, int64_t, int64_t)>;

class Pool {
 public:
  Pool(const BatchOptions& options, const Work& work)
      : options_(options),
        work_(work),
        n_(std::clamp(options.processes, 1, kMostProcesses)),
        ahead_(4 * n_),
        shared_(1),
        tallies_(static_cast<size_t>(ahead_)),
        pids_(static_cast<size_t>(n_), -1) {
    for (At& at : shared_[0].at) at.batch = -1;
  }

  void run(const std::function<bool(const Tally&)>& take) {
    for (int p = 0; p < n_; ++p) begin(p);
    Shared& shared = shared_[0];
    while (shared.stop == 0) {
      const int64_t batch = shared.taken;
      Tally& tally = tally_of(batch);
      if (tally.done != 0) {
        if (!take(tally)) break;
        new (&tally) Tally{};
        ++shared.taken;
        continue;
      }
      for (int p = 0; p < n_; ++p) look_after(p);
      usleep(kPollMicroseconds);
    }
    shared.stop = 1;
    for (const pid_t pid : pids_)
      if (pid > 0) waitpid(pid, nullptr, 0);
  }

 private:
  Tally& tally_of(int64_t batch) { return tallies_[static_cast<size_t>(batch % ahead_)]; }

  void begin(int p) {
    pids_[static_cast<size_t>(p)] = forked([&] { return be_process(shared_[0].at[p]); });
  }

  int be_process(At& at) {
    Shared& shared = shared_[0];
    for (int done = 0; done < kBatchesOfProcess && shared.stop == 0; ++done) {
      if (at.batch < 0) {
        const int64_t batch = shared.next_batch++;
        at.next = options_.first_case + batch * options_.cases;
        at.one_by_one = at.compiling = 0;
        at.batch = batch;
      }
      while (at.batch >= shared.taken + ahead_) {
        if (shared.stop != 0) return 0;
        usleep(kPollMicroseconds);
      }
      const int64_t first = options_.first_case + at.batch * options_.cases;
      work_(tally_of(at.batch), at, first, first + options_.cases);
      const int64_t batch = at.batch;
      at.batch = -1;
      tally_of(batch).done = 1;
    }
    return has_leaks() ? 1 : 0;
  }

  /// Another process takes the place of one that has ended.
  void look_after(int p) {
    int status = 0;
    if (waitpid(pids_[static_cast<size_t>(p)], &status, WNOHANG) <= 0) return;
    const Outcome outcome = outcome_of(status);
    At& at = shared_[0].at[p];
    if (outcome.exited && outcome.code != 0)
      tally_of(at.batch < 0 ? shared_[0].taken.load() : at.batch)
          .report(at.current_case, fmt::format("the process that came to case {} ends with status {} (what it lost is "
                                               "on the error stream)",
                                               at.current_case, outcome.code));
    if (!outcome.exited && at.batch >= 0) {
      Tally& tally = tally_of(at.batch);
      if (at.compiling != 0 && at.one_by_one == 0) {  // one of these
        at.one_by_one = 1;
      } else {
        tally.report(at.current_case, signal_text(outcome.code));
        at.next = at.current_case + 1;
      }
      at.compiling = 0;
    }
    begin(p);
  }

  const BatchOptions& options_;
  const Work& work_;
  const int n_;
  const int64_t ahead_;  // batches that may be done before the first of them is counted
  SharedArray<Shared> shared_;
  SharedArray<Tally> tallies_;
  std::vector<pid_t> pids_;
};

}  // namespace

void watch(int seconds) {
  const itimerval own{{0, 0}, {seconds, 0}}, each{{seconds > 0, 0}, {seconds > 0, 0}};
  ticks_left = 10 * seconds;
  struct sigaction action{};
  action.sa_handler = tick;
  action.sa_flags = SA_RESTART;
  sigaction(SIGALRM, &action, nullptr);
  setitimer(ITIMER_PROF, &own, nullptr);
  setitimer(ITIMER_REAL, &each, nullptr);
}

bool is_hang(int signal) { return signal == SIGALRM || signal == SIGPROF; }

std::string signal_text(int signal) {
  return is_hang(signal) ? fmt::format("it hangs (over {} s)", kHangSeconds)
                         : fmt::format("it crashes: {}", strsignal(signal));
}

Outcome in_child(const std::function<int()>& fn) {
  int status = 0;
  waitpid(forked(fn), &status, 0);
  return outcome_of(status);
}

void run_batches(const BatchOptions& options, const Work& work, const std::function<bool(const Tally& tally)>& take) {
  Pool(options, work).run(take);
}

}  // namespace fettle::fuzz
