// The thread team: what fork and join cost, what an idle team costs, and how it bears company on its CPUs.

#include <fmt/format.h>
#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "harness/report.h"
#include "harness/statistics.h"
#include "measure/local_kernel.h"
#include "operators.h"
#include "rt/team.h"
#include "target/target.h"
#include "tune/space/space.h"

namespace {

using namespace fettle;
using namespace fettle::bench;

struct TeamDeleter {
  void operator()(FettleTeam* team) const { fettle_team_destroy(team); }
};
using Team = std::unique_ptr<FettleTeam, TeamDeleter>;

Team make_team(int threads) {
  FettleTeamOptions options{};
  options.threads = threads;
  return Team(fettle_team_create(&options));
}

double now_us() {
  return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// Keeps a core busy by a chain of `steps` multiplications that each wait for the one before.
[[gnu::noinline]] void grind(int64_t steps) {
  uint64_t x = 1;
  for (int64_t i = 0; i < steps; ++i) {
    x = x * 6364136223846793005u + 1442695040888963407u;
    asm volatile("" : "+r"(x));
  }
}

double steps_per_us() {
  double best = 1e9;
  for (int i = 0; i < 200; ++i) {
    const double start = now_us();
    grind(100'000);
    best = std::min(best, now_us() - start);
  }
  return 100'000 / best;
}

/// Of many calls, us.
struct Times {
  double mean = 0;
  double median = 0;
  double high = 0;  // 95 % are no longer
};

Times times_of(const std::vector<double>& us) {
  return {std::accumulate(us.begin(), us.end(), 0.0) / static_cast<double>(us.size()), quantile(us, 0.5),
          quantile(us, 0.95)};
}

Times time_calls(int calls, const std::function<void()>& call) {
  std::vector<double> us;
  for (int i = 0; i < calls; ++i) {
    const double start = now_us();
    call();
    us.push_back(now_us() - start);
  }
  return times_of(us);
}

/// One parallel region of `n` bodies of `steps` each.
void region(FettleTeam* team, int64_t n, int64_t steps) {
  fettle_parallel_for(team, n, [](void* closure, int64_t) { grind(*static_cast<int64_t*>(closure)); }, &steps);
}

/// Something like a model: 100 regions of 16 bodies, 100 us of work each, and a moment alone after every tenth.
void model_run(FettleTeam* team, double rate) {
  for (int i = 0; i < 100; ++i) {
    region(team, 16, static_cast<int64_t>(100 / 16.0 * rate));
    if (i % 10 == 9) grind(static_cast<int64_t>(10 * rate));
  }
}

/// What a region takes beyond its work split evenly, when regions follow each other at once, us.
double overhead_us(FettleTeam* team, int64_t n, double body_us, double rate) {
  const auto steps = static_cast<int64_t>(body_us * rate);
  const int threads = fettle_team_size(team);
  std::vector<double> per_region;
  for (int batch = 0; batch < 200; ++batch) {
    constexpr int kRegions = 200;
    const double start = now_us();
    for (int i = 0; i < kRegions; ++i) region(team, n, steps);
    const double regions_us = now_us() - start;
    const double serial = now_us();
    for (int i = 0; i < kRegions; ++i)
      for (int64_t body = 0; body < (n + threads - 1) / threads; ++body) grind(steps);
    per_region.push_back((regions_us - (now_us() - serial)) / kRegions);
  }
  return quantile(per_region, 0.5);
}

double process_cpu_us() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto us = [](const timeval& t) { return static_cast<double>(t.tv_sec) * 1e6 + static_cast<double>(t.tv_usec); };
  return us(usage.ru_utime) + us(usage.ru_stime);
}

/// CPU time that a team takes in half a second without work, from 10 ms after its last region on; per cent of one CPU.
double idle_percent(FettleTeam* team, double rate) {
  model_run(team, rate);
  std::this_thread::sleep_for(std::chrono::milliseconds(10));
  const double before = process_cpu_us();
  std::this_thread::sleep_for(std::chrono::milliseconds(500));
  return (process_cpu_us() - before) / 500e3 * 100;
}

/// Runs `body` in a child process while `then` runs here; the child is ended afterwards.
template <class Body, class Then>
auto beside(Body body, Then then) {
  const pid_t child = fork();
  if (child == 0) {
    body();
    _exit(0);
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  const auto result = then();
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  return result;
}

void bind_to(int cpu) {
  cpu_set_t mask;
  CPU_ZERO(&mask);
  CPU_SET(cpu, &mask);
  sched_setaffinity(0, sizeof mask, &mask);
}

/// Alone and with a second process that runs the same: the middle and the high of the ratio.
void two_processes(Report& report, int threads, double rate, int calls) {
  const auto run = [&] {
    const Team team = make_team(threads);
    return time_calls(calls, [&] { model_run(team.get(), rate); });
  };
  const Times alone = run();
  const Times shared = beside(
      [&] {
        const Team team = make_team(threads);
        while (true) model_run(team.get(), rate);
      },
      run);
  report.add("two processes at once over one alone, median", shared.median / alone.median, "x", at_most(2.5));
  report.add("two processes at once over one alone, 95 % quantile", shared.high / alone.median, "x", at_most(5));
}

/// A group whose processes get `cpus` CPUs together; false where the system lets us make none.
class QuotaGroup {
 public:
  explicit QuotaGroup(double cpus) {
    for (const char* root : {"/sys/fs/cgroup/cpu", "/sys/fs/cgroup"}) {
      const bool old = std::string(root) != "/sys/fs/cgroup";
      if (!std::filesystem::exists(fmt::format("{}/{}", root, old ? "cpu.cfs_quota_us" : "cgroup.controllers")))
        continue;
      folder_ = fmt::format("{}/fettle-bench-{}", root, getpid());
      std::error_code error;
      if (!std::filesystem::create_directory(folder_, error)) continue;
      const auto quota = static_cast<int>(cpus * 100'000);
      made_ =
          old ? write("cpu.cfs_quota_us", std::to_string(quota)) : write("cpu.max", fmt::format("{} 100000", quota));
      if (made_) return;
      std::filesystem::remove(folder_, error);
    }
  }
  ~QuotaGroup() {
    if (folder_.empty()) return;
    rmdir(folder_.c_str());
  }
  QuotaGroup(const QuotaGroup&) = delete;
  QuotaGroup& operator=(const QuotaGroup&) = delete;

  bool made() const { return made_; }
  /// Moves the calling process into the group.
  bool enter() const { return write("cgroup.procs", std::to_string(getpid())); }

 private:
  bool write(const char* file, const std::string& text) const {
    std::ofstream out(folder_ + "/" + file);
    out << text;
    out.close();
    return out.good();
  }
  std::string folder_;
  bool made_ = false;
};

/// Runs `body` in a child process, whose result is a number.
double in_child(const std::function<double()>& body) {
  auto* result =
      static_cast<std::atomic<double>*>(mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  result->store(NAN);
  const pid_t child = fork();
  if (child == 0) {
    result->store(body());
    _exit(0);
  }
  waitpid(child, nullptr, 0);
  const double value = result->load();
  munmap(result, 4096);
  return value;
}

/// Under a quota of one CPU: what a team of all CPUs takes, over what the default takes.
void under_quota(Report& report, int threads, double rate, int calls) {
  const QuotaGroup group(1);
  if (!group.made()) {
    fmt::print("no CPU control group can be made here: rows on quotas are left out\n");
    return;
  }
  const auto run = [&](int n) {
    return in_child([&] {
      if (!group.enter()) return double{NAN};
      const Team team = make_team(n);
      const double start = now_us();
      for (int i = 0; i < calls; ++i) model_run(team.get(), rate);
      return (now_us() - start) / calls;
    });
  };
  const double chosen = in_child([&] { return group.enter() ? static_cast<double>(fettle_usable_cpus()) : NAN; });
  report.add("threads chosen under a quota of 1 CPU", chosen, "", at_most(1));
  report.add(fmt::format("{} threads under a quota of 1 CPU, over 1 thread", threads), run(threads) / run(1), "x",
             at_most(1.25));
}

/// GEMM 512³ with one core busy with something else, over an undisturbed one. Two
/// cores of which one is halved take 1.33 times as long at best.
void disturbed_product(Report& report, int threads, int calls) {
  const Target target = detect_host(threads);
  const Func program = matmul_func({.m = 512, .n = 512, .k = 512});
  const auto schedule = default_schedule(program, std::make_shared<const Target>(target), threads);
  if (!schedule) return report.add("GEMM 512x512x512", NAN, "ms");
  auto kernel = LocalKernel::build(schedule->func(), target, {.threads = threads});
  if (!kernel) return report.add("GEMM 512x512x512", NAN, "ms");
  const auto run = [&] { return time_calls(10 * calls, [&] { kernel->call(); }); };
  run();
  const Times alone = run();
  const Times disturbed = beside(
      [&] {
        bind_to(threads - 1);
        while (true) grind(1'000'000);
      },
      run);
  report.add(fmt::format("GEMM 512x512x512, {} threads", threads), alone.median / 1e3, "ms");
  report.add("the same, one core shared with another process: mean slowdown", disturbed.mean / alone.mean, "x");
  report.add("the same: 95 % quantile", disturbed.high / alone.mean, "x");
}

}  // namespace

int main(int argc, char** argv) {
  std::string out = "build/bench";
  int threads = 0;
  int calls = 200;
  CLI::App app("Fork and join, idle teams, crowded and shared CPUs. Exits with 1 if a figure misses its bound.");
  app.add_option("--threads", threads, "of the team; 0: all usable CPUs")->capture_default_str();
  app.add_option("--calls", calls, "of each workload that is timed")->capture_default_str();
  app.add_option("--out", out, "folder of threads.json")->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  if (threads == 0) threads = fettle_usable_cpus();

  Report report("threads");
  const double rate = steps_per_us();
  {
    const Team team = make_team(threads);
    report.add(fmt::format("fork and join, hot, {} threads, a body of 0.5 us each", threads),
               overhead_us(team.get(), threads, 0.5, rate), "us", at_most(0.5));
    report.add("the same, a body of 5 us each", overhead_us(team.get(), threads, 5, rate), "us", at_most(0.6));
    report.add("the same, 16 bodies of 0.3 us each", overhead_us(team.get(), 16, 0.3, rate), "us", at_most(0.6));
    report.add("the same, 1000 bodies of 0.01 us each", overhead_us(team.get(), 1000, 0.01, rate), "us");
    report.add("an idle team's CPU time", idle_percent(team.get(), rate), "% of a CPU", at_most(0.1));
    const auto after_sleep = [&](int64_t n, double body_us) {
      std::vector<double> us;
      for (int i = 0; i < calls; ++i) {
        std::this_thread::sleep_for(std::chrono::milliseconds(2));
        const double start = now_us();
        region(team.get(), n, static_cast<int64_t>(body_us * rate));
        us.push_back(now_us() - start);
      }
      return times_of(us).median;
    };
    report.add("the first region after a sleep, 16 bodies of 1 us each", after_sleep(16, 1), "us");
  }
  {
    const Team alone = make_team(threads), crowded = make_team(4 * threads);
    std::vector<double> alone_us, crowded_us;
    for (int i = 0; i < calls; ++i) {
      const double start = now_us();
      model_run(alone.get(), rate);
      const double middle = now_us();
      model_run(crowded.get(), rate);
      alone_us.push_back(middle - start);
      crowded_us.push_back(now_us() - middle);
    }
    report.add("four threads a CPU over one a CPU", quantile(crowded_us, 0.5) / quantile(alone_us, 0.5), "x",
               at_most(1.5));
  }
  two_processes(report, threads, rate, calls);
  under_quota(report, threads, rate, calls);
  disturbed_product(report, threads, calls);

  fmt::print("{}", report.table());
  if (const auto written = report.write(out); !written) {
    fmt::print(stderr, "{}\n", written.error().to_string());
    return 1;
  }
  return report.all_hold() ? 0 : 1;
}
