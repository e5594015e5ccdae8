#include "robust/processes.h"

#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>

namespace fettle::bench {
namespace {

std::string content(const std::filesystem::path& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace

std::vector<pid_t> descendants(pid_t ancestor) {
  std::map<pid_t, pid_t> parents;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator("/proc", ignored)) {
    const pid_t pid = static_cast<pid_t>(std::atoi(entry.path().filename().c_str()));
    if (pid <= 0) continue;
    const std::string text = content(entry.path() / "stat");
    const size_t close = text.rfind(')');
    if (close == std::string::npos || close + 4 > text.size()) continue;
    parents[pid] = static_cast<pid_t>(std::atoi(text.c_str() + close + 4));
  }
  std::vector<pid_t> result;
  for (const auto& [pid, parent] : parents)
    for (pid_t p = parent; p > 1; p = parents.contains(p) ? parents[p] : 0)
      if (p == ancestor) {
        result.push_back(pid);
        break;
      }
  return result;
}

std::string name_of(pid_t pid) {
  std::string name = content("/proc/" + std::to_string(pid) + "/comm");
  while (!name.empty() && name.back() == '\n') name.pop_back();
  return name;
}

double private_mib(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/statm");
  double size = 0, resident = 0, shared = 0;
  file >> size >> resident >> shared;
  return (resident - shared) * static_cast<double>(::sysconf(_SC_PAGESIZE)) / (1 << 20);
}

bool all_gone(double seconds) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  for (;;) {
    while (::waitpid(-1, nullptr, WNOHANG) > 0) {
    }
    const std::vector<pid_t> left = descendants(::getpid());
    if (left.empty()) return true;
    if (std::chrono::steady_clock::now() >= end) {
      for (const pid_t pid : left) ::kill(pid, SIGKILL);
      return false;
    }
    ::usleep(5000);
  }
}

}  // namespace fettle::bench
