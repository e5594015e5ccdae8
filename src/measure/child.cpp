#include "measure/child.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <iterator>
#include <set>

namespace fettle {
namespace {

using Clock = std::chrono::steady_clock;
/// A process that wakes up so much too late was stopped, or its machine was.
constexpr auto kHeldUp = std::chrono::milliseconds(100);

// Threads are allowed, processes are not. Where the system has no filters, the group's end still takes them along.
void forbid_processes() {
  const auto is = [](unsigned number, uint8_t skip_unless) -> sock_filter {
    return BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, skip_unless);
  };
  constexpr sock_filter kKill = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS);
  constexpr sock_filter kAllow = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
  sock_filter filter[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, arch)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, AUDIT_ARCH_X86_64, 1, 0),
      kKill,
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      is(SYS_fork, 1),
      kKill,
      is(SYS_vfork, 1),
      kKill,
      is(SYS_execve, 1),
      kKill,
      is(SYS_execveat, 1),
      kKill,
      is(SYS_clone3, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),  // the C library falls back to clone
      is(SYS_clone, 3),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, args)),
      BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, CLONE_THREAD, 1, 0),
      kKill,
      kAllow,
  };
  const sock_fprog program{static_cast<unsigned short>(std::size(filter)), filter};
  ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
  // SPEC_ALLOW: the filter must not slow down what is to be timed.
  if (::syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_SPEC_ALLOW, &program) != 0)
    (void)::syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program);
}

void limit(decltype(RLIMIT_CORE) what, int64_t value) {
  const rlimit both{static_cast<rlim_t>(value), static_cast<rlim_t>(value)};
  ::setrlimit(what, &both);
}

[[noreturn]] void be_child(const std::function<int()>& body, const ChildLimits& limits, pid_t parent, int give_up_fd) {
  ::setpgid(0, 0);
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(255);
  if (give_up_fd >= 0) ::close(give_up_fd);
  ::prctl(PR_SET_DUMPABLE, 0);
  limit(RLIMIT_CORE, 0);
  const int64_t mapped = memory_of(::getpid()).mapped_bytes;
  if (mapped > 0) limit(RLIMIT_AS, mapped + limits.memory_bytes);
  if (limits.forbid_processes) forbid_processes();
  ::_exit(body());
}

// Children of the calling thread, those that became orphans and came to it included. Empty where the system does not
// tell.
std::set<pid_t> children() {
  std::set<pid_t> pids;
  if (std::FILE* file = std::fopen("/proc/thread-self/children", "r")) {
    for (int pid = 0; std::fscanf(file, "%d", &pid) == 1;) pids.insert(pid);
    std::fclose(file);
  }
  return pids;
}

// Ends what is left of the group, then what had left it. True if there was anything.
bool end_group(pid_t group, const std::set<pid_t>& others) {
  bool any = false;
  for (int attempt = 0; attempt < 200 && ::kill(-group, SIGKILL) == 0; ++attempt) {
    any = true;
    // Orphans come to this process, if it asked for them; else init reaps them.
    while (::waitpid(-group, nullptr, WNOHANG) > 0) {
    }
    ::usleep(500);
  }
  for (int attempt = 0; attempt < 2000; ++attempt) {
    bool found = false;
    for (const pid_t pid : children()) {
      if (others.contains(pid)) continue;
      any = found = true;
      ::kill(pid, SIGKILL);
      (void)::waitpid(pid, nullptr, 0);  // what it had started comes here next
    }
    if (!found) break;
  }
  return any;
}

}  // namespace

ProcessMemory memory_of(pid_t pid) {
  int64_t mapped = 0, resident = 0, shared = 0, data = 0;
  if (std::FILE* file = std::fopen(fmt::format("/proc/{}/statm", pid).c_str(), "r")) {
    if (std::fscanf(file, "%ld %ld %ld %*d %*d %ld", &mapped, &resident, &shared, &data) != 4)
      mapped = resident = shared = data = 0;
    std::fclose(file);
  }
  const int64_t page = ::sysconf(_SC_PAGESIZE);
  return {mapped * page, (resident - shared) * page, data * page};
}

ChildOutcome run_in_child(const std::function<int()>& body, const ChildLimits& limits, int give_up_fd) {
  int life[2];  // the child holds the writing end as long as it lives
  if (::pipe2(life, O_CLOEXEC) != 0) return {ChildOutcome::End::kNotStarted, errno};
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  std::fflush(nullptr);
  const pid_t parent = ::getpid();
  const std::set<pid_t> others = children();
  const pid_t child = ::fork();
  if (child < 0) {
    const int error = errno;
    ::close(life[0]);
    ::close(life[1]);
    return {ChildOutcome::End::kNotStarted, error};
  }
  if (child == 0) {
    ::close(life[0]);
    be_child(body, limits, parent, give_up_fd);
  }
  ::setpgid(child, child);  // whoever is first
  ::close(life[1]);

  ChildOutcome outcome;
  auto deadline = Clock::now() + std::chrono::duration<double>(limits.timeout_s);
  for (bool waiting = true; waiting;) {
    pollfd fds[2] = {{life[0], POLLIN, 0}, {give_up_fd, 0, 0}};
    const double left_ms = std::chrono::duration<double, std::milli>(deadline - Clock::now()).count();
    const auto asked = std::chrono::milliseconds(static_cast<int64_t>(std::clamp(left_ms + 1, 0.0, 1e6)));
    const auto before = Clock::now();
    const int ready = ::poll(fds, give_up_fd >= 0 ? 2 : 1, static_cast<int>(asked.count()));
    // Whoever held up this process held up the child as well, nobody knows since when: it gets what it had left.
    if (const auto now = Clock::now(); now - before > asked + kHeldUp) deadline += now - before;
    if (ready < 0 && errno == EINTR) continue;
    waiting = ready <= 0 && Clock::now() < deadline;
    if (waiting) continue;
    outcome.end = ready <= 0            ? ChildOutcome::End::kTimedOut
                  : fds[1].revents != 0 ? ChildOutcome::End::kAbandoned
                                        : ChildOutcome::End::kExited;
  }
  ::close(life[0]);
  if (outcome.end != ChildOutcome::End::kExited) ::kill(child, SIGKILL);
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  const bool left = end_group(child, others);
  if (outcome.end != ChildOutcome::End::kExited) return outcome;
  if (WIFSIGNALED(status)) return {ChildOutcome::End::kSignalled, WTERMSIG(status)};
  if (left) return {ChildOutcome::End::kLeftProcesses, 0};
  return {ChildOutcome::End::kExited, WEXITSTATUS(status)};
}

std::string signal_text(int signal) {
  const char* name = ::strsignal(signal);
  return fmt::format("{} (signal {})", name ? name : "unknown", signal);
}

}  // namespace fettle
