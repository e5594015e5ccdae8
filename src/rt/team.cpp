#include "rt/team.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>

#include <new>

#include "rt/memory.h"
#include "rt/sys.h"
#include "rt/topology.h"

namespace fettle::rt {
namespace {

constexpr int32_t kMaxThreads = 1024;
constexpr int32_t kArity = 4;  // thread t wakes threads 4t+1 .. 4t+4: flat up to five threads, a tree beyond
constexpr int32_t kDefaultSpinUs = 200;
constexpr int64_t kYieldAfterNs = 50'000;
constexpr int64_t kJoinSpinNs = 20'000'000;
constexpr int64_t kCrowdedSpinNs = 5'000;
constexpr uint32_t kAsleep = 1;  // lowest bit of a word: somebody sleeps on it
constexpr uint32_t kStop = 2;    // of `go`: end. Rounds count in steps of 4.
constexpr uint32_t kRound = 4;

/// How long to spin before sleeping, and from when on to offer the CPU to others in between.
struct Patience {
  int64_t spin_ns = 0;
  int64_t yield_after_ns = 0;
};

/// One direction of a handshake: a word that one thread advances and one other waits for. The sleeper marks the word
/// itself, so that advancing it by one exchange also tells whether anyone must be woken.
struct Signal {
  std::atomic<uint32_t> word{0};

  void send(uint32_t value) {
    if (word.exchange(value, std::memory_order_acq_rel) & kAsleep) futex_wake_one(&word);
  }

  /// Waits until the word differs from `seen` and returns it: spins, then spins and yields, then sleeps.
  uint32_t wait(uint32_t seen, const Patience& patience) {
    uint32_t value;
    int64_t start = 0;
    for (uint32_t round = 1; patience.spin_ns > 0; ++round) {
      value = word.load(std::memory_order_acquire);
      if (value != seen) return value;
      cpu_relax();
      if (round % 64 != 0) continue;
      const int64_t now = now_ns();
      if (start == 0) start = now;
      if (now - start >= patience.spin_ns) break;
      if (now - start >= patience.yield_after_ns) sched_yield();
    }
    while (true) {
      value = seen;
      if (!word.compare_exchange_strong(value, seen | kAsleep, std::memory_order_acq_rel) && value != (seen | kAsleep))
        return value;
      futex_wait(&word, seen | kAsleep);
    }
  }
};

struct Job {
  FettleBody body = nullptr;
  void* closure = nullptr;
  int64_t n = 0;
  int32_t participants = 0;
  int32_t cpu = -1;  // where whoever sends it runs; negative: no matter
};

/// Three cache lines: what the parent writes, what the worker writes, and what never changes. So a round moves two
/// lines.
struct Worker {
  struct alignas(64) {
    Signal go;
    uint32_t sent = 0;  // last value of go
    Job job;
  } inbox;
  struct alignas(64) {
    Signal done;
  } outbox;
  alignas(64) FettleTeam* team = nullptr;
  int32_t index = 0;
  int32_t cpu = -1;
  pthread_t thread{};
};
static_assert(sizeof(Worker) == 192);

}  // namespace
}  // namespace fettle::rt

using namespace fettle::rt;

struct FettleTeam {
  alignas(64) std::atomic<uint32_t> busy{0};  // a region is running
  alignas(64) int32_t size = 1;               // from here on unchanged once the team stands
  Patience idle;                              // of workers between regions
  Patience joining;                           // of a thread whose share is done, for the others
  bool spread = false;                        // workers leave the CPU of whoever sends them work
  Worker* workers = nullptr;                  // [t] for thread t; [0] is the caller's and unused
  int64_t block_bytes = 0;
  FettleHostTeam host{};  // used where host.parallel_for is set
};

namespace fettle::rt {
namespace {

int64_t share_begin(int64_t n, int32_t t, int32_t parts) {
  const int64_t rest = n % parts;
  return n / parts * t + (t < rest ? t : rest);
}

/// Thread t's part of the job: wakes its children, runs its share, waits for the children.
void run_share(FettleTeam* team, int32_t t, const Job& job) {
  const int32_t first = t * kArity + 1;
  const int32_t last = first + kArity < job.participants ? first + kArity : job.participants;
  for (int32_t child = first; child < last; ++child) {
    auto& inbox = team->workers[child].inbox;
    inbox.job = job;
    inbox.job.cpu = team->spread ? current_cpu() : -1;
    inbox.sent += kRound;
    inbox.go.send(inbox.sent);
  }
  const int64_t end = share_begin(job.n, t + 1, job.participants);
  for (int64_t i = share_begin(job.n, t, job.participants); i < end; ++i) job.body(job.closure, i);
  for (int32_t child = first; child < last; ++child) {
    Worker& worker = team->workers[child];
    uint32_t value = worker.outbox.done.word.load(std::memory_order_acquire);
    while (value != worker.inbox.sent) value = worker.outbox.done.wait(value, team->joining);
  }
}

void* worker_main(void* argument) {
  auto* worker = static_cast<Worker*>(argument);
  FettleTeam* team = worker->team;
  if (worker->cpu >= 0) bind_this_thread(worker->cpu);
  CpuMask allowed;  // before the first move
  bool allowed_known = false;
  uint32_t seen = 0;
  while (true) {
    seen = worker->inbox.go.wait(seen, team->idle);
    if (seen & kStop) return nullptr;
    const Job job = worker->inbox.job;
    // The scheduler may leave two threads on one CPU for long while another is idle, since each looks busy.
    if (job.cpu >= 0 && job.cpu == current_cpu()) {
      if (!allowed_known) allowed_known = affinity(allowed);
      if (allowed_known) avoid_cpu(allowed, job.cpu);
    }
    run_share(team, worker->index, job);
    worker->outbox.done.send(seen);
  }
}

bool start(Worker* worker) {
  sigset_t all, before;
  sigfillset(&all);
  pthread_attr_t attributes;
  if (pthread_attr_init(&attributes) != 0) return false;
  pthread_attr_setstacksize(&attributes, size_t{8} << 20);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  const int failed = pthread_create(&worker->thread, &attributes, worker_main, worker);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  pthread_attr_destroy(&attributes);
  return failed == 0;
}

void run_serially(int64_t n, FettleBody body, void* closure) {
  for (int64_t i = 0; i < n; ++i) body(closure, i);
}

/// A team and room for its workers in one block of pages.
FettleTeam* allocate_team(int32_t threads) {
  const auto header = static_cast<int64_t>((sizeof(FettleTeam) + 63) / 64 * 64);
  const int64_t bytes = header + int64_t{threads} * static_cast<int64_t>(sizeof(Worker));
  void* block = fettle_pages_alloc(bytes, 0);
  if (block == nullptr) return nullptr;
  auto* team = new (block) FettleTeam;
  team->block_bytes = bytes;
  team->workers = reinterpret_cast<Worker*>(static_cast<char*>(block) + header);
  for (int32_t t = 0; t < threads; ++t) new (&team->workers[t]) Worker;
  return team;
}

}  // namespace
}  // namespace fettle::rt

extern "C" {

void fettle_parallel_for(FettleTeam* team, int64_t n, FettleBody body, void* closure) {
  if (n <= 1 || team == nullptr) return run_serially(n, body, closure);
  if (team->host.parallel_for != nullptr) return team->host.parallel_for(team->host.user, n, body, closure);
  if (team->size == 1 || team->busy.exchange(1, std::memory_order_acquire) != 0) return run_serially(n, body, closure);
  const int32_t participants = n < team->size ? static_cast<int32_t>(n) : team->size;
  run_share(team, 0, {body, closure, n, participants});
  team->busy.store(0, std::memory_order_release);
}

int32_t fettle_team_size(const FettleTeam* team) {
  if (team == nullptr) return 1;
  if (team->host.size == nullptr) return team->size;
  const int32_t size = team->host.size(team->host.user);
  return size < 1 ? 1 : size;
}

FettleTeam* fettle_team_create(const FettleTeamOptions* options) {
  const int32_t usable = fettle_usable_cpus();
  int32_t threads = options->threads == 0 ? usable : options->threads;
  if (threads < 0) return nullptr;
  if (threads > kMaxThreads) threads = kMaxThreads;
  FettleTeam* team = allocate_team(threads);
  if (team == nullptr) return nullptr;
  const int64_t spin_us = options->spin_us == 0 ? kDefaultSpinUs : options->spin_us;
  team->idle = {spin_us < 0 ? 0 : spin_us * 1000, kYieldAfterNs};
  team->joining = {kJoinSpinNs, kYieldAfterNs};
  if (threads > usable) {  // whoever spins keeps another from working
    if (team->idle.spin_ns > kCrowdedSpinNs) team->idle.spin_ns = kCrowdedSpinNs;
    team->idle.yield_after_ns = 0;
    team->joining = {kCrowdedSpinNs, 0};
  }
  team->spread = options->pin == 0 && threads <= usable;
  int32_t cores[kMaxThreads];
  const int32_t n_cores = options->pin != 0 ? usable_cores(cores, kMaxThreads) : 0;
  for (int32_t t = 1; t < threads; ++t) {
    Worker& worker = team->workers[t];
    worker.team = team;
    worker.index = t;
    worker.cpu = n_cores > 0 ? cores[t % n_cores] : -1;
    if (!start(&worker)) break;
    team->size = t + 1;
  }
  return team;
}

FettleTeam* fettle_team_wrap(const FettleHostTeam* host) {
  if (host == nullptr || host->size == nullptr || host->parallel_for == nullptr) return nullptr;
  FettleTeam* team = allocate_team(0);
  if (team != nullptr) team->host = *host;
  return team;
}

void fettle_team_destroy(FettleTeam* team) {
  if (team == nullptr) return;
  for (int32_t t = 1; t < team->size; ++t) team->workers[t].inbox.go.send(kStop);
  for (int32_t t = 1; t < team->size; ++t) pthread_join(team->workers[t].thread, nullptr);
  fettle_pages_free(team, team->block_bytes, 0);
}
}
