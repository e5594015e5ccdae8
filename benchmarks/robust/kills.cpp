#include "robust/kills.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <set>

#include "base/random.h"
#include "cost/cost_model.h"
#include "database/sqlite_database.h"
#include "robust/processes.h"
#include "robust/subject.h"

namespace fettle::bench {
namespace {

/// New results of the last run; the others go on until they are killed.
constexpr int64_t kLastTrials = 40;
/// Rounds in a row in which nobody could be killed.
constexpr int kIdleRounds = 20;

/// What a tuner does, in a process of its own: it tells of each result by its running number.
int be_tuner(const std::filesystem::path& folder, int tell, int64_t trials) {
  auto database = open_sqlite_database(folder / "records.db");
  auto runner = LocalMeasurer::start(small_measurer(folder));
  if (!database || !runner) return 1;
  const auto model = make_boosted_trees(0);
  TuneOptions options = small_tuning();
  options.max_trials = trials;
  options.scheduler.patience = 1000;
  options.timing.batch_s = 2e-3;  // long enough for a child to be met alive
  options.timing.max_seconds = 0.05;
  const auto report =
      tune_tasks({{small_product(30, 48, 20), 2, "a"}, {small_product(61, 96, 40), 1, "b"}}, detect_host(1), 1,
                 **database, **runner, *model, options, [&](const TuneProgress& progress) {
                   const int64_t measured = progress.measured;
                   (void)!::write(tell, &measured, sizeof measured);
                 });
  return report ? 0 : 1;
}

/// Records of the search, and how many of them are of a trace that has another.
struct Kept {
  int64_t records = 0, twice = 0;
};
Result<Kept> kept_in(const std::filesystem::path& folder) {
  Kept kept;
  std::set<std::string> known;
  FETTLE_TRY(const auto database, open_sqlite_database(folder / "records.db"));
  FETTLE_TRY_VOID(database->for_each([&](const Record& record) -> Result<> {
    if (record.generation < 0) return {};
    ++kept.records;
    if (!known.insert(record.task.workload.text + record.trace).second) ++kept.twice;
    return {};
  }));
  return kept;
}

class Rounds {
 public:
  Rounds(uint64_t seed, std::filesystem::path folder) : folder_(std::move(folder)), random_{seed} {}

  KillOutcome run(int moments) {
    ::prctl(PR_SET_CHILD_SUBREAPER, 1);
    for (int idle = 0; moments > 0 && outcome_.problem.empty();) {
      const int killed = round(moments);
      moments -= killed;
      idle = killed > 0 ? 0 : idle + 1;
      if (idle > kIdleRounds) note("tunings end before they can be killed");
    }
    if (outcome_.problem.empty()) last_round();
    return outcome_;
  }

 private:
  void start(int64_t trials = int64_t{1} << 40) {
    if (::pipe(pipe_) != 0) return;
    tuner_ = ::fork();
    if (tuner_ == 0) {
      ::close(pipe_[0]);
      ::_exit(be_tuner(folder_, pipe_[1], trials));
    }
    ::close(pipe_[1]);
  }

  // What the tuner has told of, all of it once it is dead.
  int64_t told() {
    int64_t number = 0, last = 0;
    while (::read(pipe_[0], &number, sizeof number) == sizeof number) last = number;
    ::close(pipe_[0]);
    return last;
  }

  void await_result() {
    pollfd one{pipe_[0], POLLIN, 0};
    (void)::poll(&one, 1, 10000);
  }

  void wait(double at_most_s) { ::usleep(static_cast<useconds_t>(random_.uniform() * at_most_s * 1e6)); }

  // A tuner that dies sooner or later; perhaps its worker and its worker's child before it. How many were killed.
  int round(int moments) {
    start();
    int killed = 0;
    const auto victim = random_.below(4);  // 0: the tuner, perhaps before its first result
    if (victim > 0) {
      await_result();
      wait(0.3);
    }
    if (victim > 1 && moments > 1) killed += kill_below(victim == 3);
    wait(0.8);
    if (::waitpid(tuner_, nullptr, WNOHANG) == 0) {
      ::kill(tuner_, SIGKILL);
      ::waitpid(tuner_, nullptr, 0);
      ++outcome_.tuners;
      ++killed;
    }
    settle();
    return killed;
  }

  // Kills the worker, or the child that it has just forked. There is none at some moments.
  int kill_below(bool child) {
    for (int attempt = 0; attempt < 400; ++attempt) {
      for (const pid_t pid : descendants(tuner_)) {
        const bool is_child = parent_is_worker(pid);
        if (name_of(pid) != "fettle-worker" || is_child != child) continue;
        ::kill(pid, SIGKILL);
        ++(child ? outcome_.children : outcome_.workers);
        return 1;
      }
      ::usleep(1000);
    }
    return 0;
  }
  bool parent_is_worker(pid_t pid) const {
    for (const pid_t other : descendants(tuner_)) {
      if (other == pid) continue;
      const auto below = descendants(other);
      if (std::find(below.begin(), below.end(), pid) != below.end()) return true;
    }
    return false;
  }

  void settle() {
    const int64_t reported = told();
    if (!all_gone(10)) {
      ++outcome_.left_behind;
      note("a process was still there ten seconds after its tuner was killed");
    }
    const auto kept = kept_in(folder_);
    if (!kept) return note("the database: " + kept.error().to_string());
    outcome_.reported += reported;
    const int64_t lost = std::max<int64_t>(0, records_ + reported - kept->records);
    outcome_.lost += lost;
    if (lost > 0) note(fmt::format("{} reported results have no record", lost));
    records_ = kept->records;
    outcome_.measured_again = kept->twice;
    if (kept->twice > 0) note(fmt::format("{} traces were measured twice", kept->twice));
  }

  void last_round() {
    start(records_ + kLastTrials);
    int status = 0;
    ::waitpid(tuner_, &status, 0);
    outcome_.ended = WIFEXITED(status) && WEXITSTATUS(status) == 0;
    if (!outcome_.ended) note("the last run did not come to its end");
    settle();
  }

  void note(std::string problem) {
    if (outcome_.problem.empty()) outcome_.problem = std::move(problem);
  }

  std::filesystem::path folder_;
  RandomStream random_;
  KillOutcome outcome_;
  int pipe_[2] = {-1, -1};
  pid_t tuner_ = -1;
  int64_t records_ = 0;
};

}  // namespace

KillOutcome kill_at_random(int moments, uint64_t seed, const std::filesystem::path& folder) {
  return Rounds(seed, folder).run(moments);
}

}  // namespace fettle::bench
