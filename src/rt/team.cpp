#include "rt/team.h"

#include <pthread.h>
#include <sched.h>

#include <new>

#include "rt/float_mode.h"
#include "rt/memory.h"
#include "rt/sys.h"
#include "rt/thread.h"
#include "rt/topology.h"

namespace fettle::rt {
namespace {

constexpr int32_t kMaxThreads = 1024;
constexpr int32_t kArity = 4;  // thread t wakes threads 4t+1 .. 4t+4: flat up to five threads, a tree beyond
constexpr int32_t kDefaultSpinUs = 200;
constexpr int64_t kYieldAfterNs = 50'000;
constexpr int64_t kJoinSpinNs = 200'000;
constexpr int64_t kCrowdedSpinNs = 5'000;
constexpr int64_t kGapNs = 30'000;           // a spinning thread that looks at the clock after so long has stood still
constexpr int64_t kCrowdedNs = 200'000'000;  // how long a team of which a thread was displaced counts as crowded
constexpr int64_t kMaxPieces = 0xffff;
constexpr int32_t kMaxFreeThreads = 128;  // that share a region which is no team's; the shares lie on the stack

/// What a worker is doing, in a word that it shares with its parent. The lowest bit says that whoever waits for the
/// word to change sleeps.
///   idle ──parent──► offered ──worker──► taken ──worker──► idle
///                       └────parent: the worker is late, and its share done by others────► idle
enum State : uint32_t { kIdle = 0, kAsleep = 1, kOffered = 2, kTaken = 4, kStop = 6 };

/// A parallel region, as every thread that takes part gets it.
struct Job {
  FettleBody body = nullptr;
  void* closure = nullptr;
  int64_t n = 0;
  int64_t piece = 1;         // iterations a piece; shares are counted in pieces
  int32_t participants = 0;  // threads 0 .. participants-1
  uint32_t tag = 0;          // tells this region's shares from older ones; 0: every share is one piece, for its owner
  int32_t cpu = -1;          // where whoever sends it runs; negative: no matter
  FloatMode mode = 0;        // in which the caller computes
};

/// Three cache lines: what passes between parent and worker, what is left of the thread's share, and what never
/// changes. A region without a tag moves the first only.
struct Worker {
  struct alignas(64) {
    std::atomic<uint32_t> state{kIdle};
    Job job;  // written by the parent while idle, read by the worker while taken
  } inbox;
  alignas(64) std::atomic<uint64_t> rest{0};  // tag, begin and end in pieces; with another tag: the whole share
  alignas(64) FettleTeam* team = nullptr;
  int32_t index = 0;
  int32_t cpu = -1;
  pthread_t thread{};
  int64_t displaced = 0;  // times that the system had taken the CPU from this thread when it last looked
};
static_assert(sizeof(Worker) == 192);

}  // namespace
}  // namespace fettle::rt

using namespace fettle::rt;

struct FettleTeam {
  alignas(64) std::atomic<uint32_t> busy{0};  // a region is running
  uint32_t tag = 0;                           // of the last region; the caller's
  alignas(64) std::atomic<int64_t> crowded_until{0};
  alignas(64) int32_t size = 1;  // from here on unchanged once the team stands
  bool crowded = false;          // more threads than CPUs
  bool spread = false;           // workers leave the CPU of whoever sends them work
  int64_t idle_spin_ns = 0;      // of workers between regions
  Worker* workers = nullptr;     // [t] for thread t; of [0], the caller's, only the share is used
  int64_t block_bytes = 0;
  FettleHostTeam host{};  // used where host.parallel_for is set
};

namespace fettle::rt {
namespace {

/// Thread t has stood still while it spun. Where that was for another thread, and not for the machine beneath, CPUs are
/// crowded.
void note_gap(FettleTeam* team, int32_t t, int64_t now) {
  int64_t& before = team->workers[t].displaced;
  const int64_t displaced = times_displaced();
  if (displaced != before) team->crowded_until.store(now + kCrowdedNs, std::memory_order_relaxed);
  before = displaced;
}

/// Thread t waits until the word differs from `seen` and returns it: spins, then spins and yields, then sleeps. The
/// sleeper marks the word itself, so that changing it by one exchange also tells whether anyone must be woken. Where
/// CPUs are crowded it soon sleeps: whoever has the work may need this very CPU.
uint32_t wait(std::atomic<uint32_t>& word, uint32_t seen, FettleTeam* team, int32_t t, int64_t spin_ns) {
  uint32_t value;
  int64_t start = 0, last = 0;
  for (uint32_t round = 1; spin_ns > 0; ++round) {
    value = word.load(std::memory_order_acquire);
    if (value != seen) return value;
    cpu_relax();
    if (round % 32 != 0) continue;
    const int64_t now = now_ns();
    if (start == 0) start = last = now;
    if (now - last > kGapNs) note_gap(team, t, now);
    last = now;
    const bool crowded = team->crowded || now < team->crowded_until.load(std::memory_order_relaxed);
    if (now - start >= (crowded && spin_ns > kCrowdedSpinNs ? kCrowdedSpinNs : spin_ns)) break;
    if (crowded || now - start >= kYieldAfterNs) sched_yield();
  }
  while (true) {
    value = seen;
    if (!word.compare_exchange_strong(value, seen | kAsleep, std::memory_order_acq_rel) && value != (seen | kAsleep))
      return value;
    futex_wait(&word, seen | kAsleep);
  }
}

/// Changes the word and wakes whoever sleeps on it.
void change(std::atomic<uint32_t>& word, uint32_t value) {
  if (word.exchange(value, std::memory_order_acq_rel) & kAsleep) futex_wake_one(&word);
}

int64_t share_begin(int64_t n, int32_t t, int32_t parts) {
  const int64_t rest = n % parts;
  return n / parts * t + (t < rest ? t : rest);
}

void run_pieces(const Job& job, int64_t begin, int64_t end) {
  const int64_t last = end * job.piece < job.n ? end * job.piece : job.n;
  for (int64_t i = begin * job.piece; i < last; ++i) job.body(job.closure, i);
}

/// Takes a quarter of what is left of thread t's share, at least one piece, from its front or its back, and runs it;
/// false where nothing is left.
bool run_some(std::atomic<uint64_t>& rest, int32_t t, const Job& job, bool from_front) {
  uint64_t word = rest.load(std::memory_order_relaxed);
  while (true) {
    auto begin = static_cast<int64_t>((word >> 16) & 0xffff), end = static_cast<int64_t>(word & 0xffff);
    if (static_cast<uint32_t>(word >> 32) != job.tag) {
      const int64_t pieces = (job.n + job.piece - 1) / job.piece;
      begin = share_begin(pieces, t, job.participants);
      end = share_begin(pieces, t + 1, job.participants);
    }
    if (begin >= end) return false;
    const int64_t take = end - begin < 8 ? 1 : (end - begin) / 4;
    const int64_t left_begin = from_front ? begin + take : begin, left_end = from_front ? end : end - take;
    const uint64_t left =
        uint64_t{job.tag} << 32 | static_cast<uint64_t>(left_begin) << 16 | static_cast<uint64_t>(left_end);
    if (!rest.compare_exchange_weak(word, left, std::memory_order_relaxed)) continue;
    run_pieces(job, from_front ? begin : left_end, from_front ? left_begin : end);
    return true;
  }
}

/// Runs thread t's share, then takes over from those who are behind. rest(t): what is left of thread t's share.
template <typename Rest>
void run_share(const Rest& rest, int32_t t, const Job& job) {
  while (run_some(rest(t), t, job, true)) continue;
  for (int32_t next = t + 1; next < t + job.participants; ++next) {
    const int32_t other = next < job.participants ? next : next - job.participants;
    while (run_some(rest(other), other, job, false)) continue;
  }
}

/// The shares of thread t and of those it would wake, where each is one piece.
void run_alone(int32_t t, const Job& job) {
  run_pieces(job, t, t + 1);
  for (int32_t child = t * kArity + 1; child <= t * kArity + kArity && child < job.participants; ++child)
    run_alone(child, job);
}

/// Thread t's part of the job: wakes its children, runs its share, takes over from those who are behind, and waits for
/// its children. A child that has not begun by then is not waited for.
void run_job(FettleTeam* team, int32_t t, const Job& job) {
  const int32_t first = t * kArity + 1;
  const int32_t last = first + kArity < job.participants ? first + kArity : job.participants;
  for (int32_t child = first; child < last; ++child) {
    auto& inbox = team->workers[child].inbox;
    inbox.job = job;
    inbox.job.cpu = team->spread ? current_cpu() : -1;
    change(inbox.state, kOffered);
  }
  if (job.tag == 0) {
    run_pieces(job, t, t + 1);
  } else {
    run_share([team](int32_t i) -> std::atomic<uint64_t>& { return team->workers[i].rest; }, t, job);
  }
  for (int32_t child = first; child < last; ++child) {
    std::atomic<uint32_t>& state = team->workers[child].inbox.state;
    uint32_t value = state.load(std::memory_order_acquire);
    if (value == kOffered && state.compare_exchange_strong(value, kIdle, std::memory_order_acquire)) {
      if (job.tag == 0) run_alone(child, job);
      continue;
    }
    while ((value & ~kAsleep) != kIdle) value = wait(state, kTaken, team, t, kJoinSpinNs);
  }
}

void* worker_main(void* argument) {
  auto* worker = static_cast<Worker*>(argument);
  FettleTeam* team = worker->team;
  if (worker->cpu >= 0) bind_this_thread(worker->cpu);
  FloatMode mode = read_float_mode();
  CpuMask allowed;  // before the first move
  bool allowed_known = false;
  auto& [state, job] = worker->inbox;
  while (true) {
    uint32_t offered = wait(state, kIdle, team, worker->index, team->idle_spin_ns);
    if (offered == kStop) return nullptr;
    if (!state.compare_exchange_strong(offered, kTaken, std::memory_order_acquire)) continue;
    const Job mine = job;
    // The scheduler may leave two threads on one CPU for long while another is idle, since each looks busy.
    if (mine.cpu >= 0 && mine.cpu == current_cpu()) {
      if (!allowed_known) allowed_known = affinity(allowed);
      if (allowed_known) avoid_cpu(allowed, mine.cpu);
    }
    if (mine.mode != mode) write_float_mode(mode = mine.mode);
    run_job(team, worker->index, mine);
    change(state, kIdle);
  }
}

void run_serially(int64_t n, FettleBody body, void* closure) {
  for (int64_t i = 0; i < n; ++i) body(closure, i);
}

/// A body, and how it computes on threads of the host program.
struct HostBody {
  FettleBody body;
  void* closure;
  FloatMode mode;
};

void run_on_host(void* closure, int64_t i) {
  const auto& given = *static_cast<const HostBody*>(closure);
  const FloatScope scope(given.mode);
  given.body(given.closure, i);
}

/// What is left of a thread's share of a region that is no team's.
struct alignas(64) FreeShare {
  std::atomic<uint64_t> rest{0};
};

/// A region on threads of somebody else. Several may run at once: the shares are the region's own.
struct FreeRegion {
  Job job;
  FreeShare* shares;
};

void take_part(void* closure, int64_t t) {
  const auto& region = *static_cast<const FreeRegion*>(closure);
  const FloatScope scope(region.job.mode);
  const auto rest = [&](int32_t i) -> std::atomic<uint64_t>& { return region.shares[i].rest; };
  run_share(rest, static_cast<int32_t>(t), region.job);
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

/// CPUs in the order in which threads are bound to them: the caller's own first, which it keeps. Returns how many.
int32_t cores_for_team(int32_t cores[kMaxThreads]) {
  CpuMask usable;
  if (!affinity(usable)) return 0;
  const int32_t count = usable_cores("", usable, cores, kMaxThreads);
  const int32_t here = current_cpu();
  for (int32_t i = 1; i < count; ++i) {
    if (cores[i] != here) continue;
    cores[i] = cores[0];
    cores[0] = here;
  }
  return count;
}

/// A tag that no share carries: all are at rest while no region runs.
uint32_t next_tag(FettleTeam* team) {
  if (++team->tag == 0) {
    for (int32_t t = 0; t < team->size; ++t) team->workers[t].rest.store(0, std::memory_order_relaxed);
    team->tag = 1;
  }
  return team->tag;
}

}  // namespace
}  // namespace fettle::rt

extern "C" {

void fettle_parallel_for(FettleTeam* team, int64_t n, FettleBody body, void* closure) {
  if (n <= 1 || team == nullptr) return run_serially(n, body, closure);
  const FloatMode mode = read_float_mode() & ~kHappened;
  if (team->host.parallel_for != nullptr) {
    HostBody on_host{.body = body, .closure = closure, .mode = mode};
    return team->host.parallel_for(team->host.user, n, run_on_host, &on_host);
  }
  if (team->size == 1 || team->busy.exchange(1, std::memory_order_acquire) != 0) return run_serially(n, body, closure);
  Job job{.body = body, .closure = closure, .n = n, .mode = mode};
  if (n <= team->size) {
    job.participants = static_cast<int32_t>(n);
  } else {
    job.participants = team->size;
    job.piece = (n + kMaxPieces - 1) / kMaxPieces;
    job.tag = next_tag(team);
  }
  run_job(team, 0, job);
  team->busy.store(0, std::memory_order_release);
}

void fettle_share_out(int64_t n, int32_t threads, FettleBody body, void* closure, FettleThreads start, void* user) {
  if (threads > kMaxFreeThreads) threads = kMaxFreeThreads;
  if (n < threads) threads = static_cast<int32_t>(n);
  FloatMode mode = read_float_mode() & ~kHappened;
  if (body == run_on_host) {  // how it computes is set once for each thread's share, not for each piece
    const HostBody given = *static_cast<const HostBody*>(closure);
    body = given.body;
    closure = given.closure;
    mode = given.mode;
  }
  if (threads <= 1) {
    const FloatScope scope(mode);
    return run_serially(n, body, closure);
  }
  FreeShare shares[kMaxFreeThreads];
  FreeRegion region{.job = {.body = body, .closure = closure, .n = n, .mode = mode}, .shares = shares};
  region.job.participants = threads;
  region.job.piece = (n + kMaxPieces - 1) / kMaxPieces;
  region.job.tag = 1;
  start(user, threads, take_part, &region);
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
  team->idle_spin_ns = spin_us < 0 ? 0 : spin_us * 1000;
  team->crowded = threads > usable;
  team->spread = options->pin == 0 && threads <= usable;
  int32_t cores[kMaxThreads];
  const int32_t n_cores = options->pin != 0 ? cores_for_team(cores) : 0;
  for (int32_t t = 1; t < threads; ++t) {
    Worker& worker = team->workers[t];
    worker.team = team;
    worker.index = t;
    worker.cpu = n_cores > 0 ? cores[(options->first + t) % n_cores] : -1;
    if (!start_thread(&worker.thread, worker_main, &worker)) break;
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
  for (int32_t t = 1; t < team->size; ++t) change(team->workers[t].inbox.state, kStop);
  for (int32_t t = 1; t < team->size; ++t) pthread_join(team->workers[t].thread, nullptr);
  fettle_pages_free(team, team->block_bytes, 0);
}
}
