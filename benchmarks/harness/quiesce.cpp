#include "harness/quiesce.h"

#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <string>
#include <thread>

namespace fettle::bench {
namespace {

/// The state letter of a thread of this process ('R' running, 'S' asleep, ...), or 0 if it has ended.
char thread_state(const char* tid) {
  const std::string path = std::string("/proc/self/task/") + tid + "/stat";
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return 0;
  char text[256];
  const ssize_t length = read(file, text, sizeof text - 1);
  close(file);
  if (length <= 0) return 0;
  text[length] = 0;
  // "tid (name) S ...": the name may hold parentheses, so the last one counts.
  const char* end = std::strrchr(text, ')');
  return end && end[1] == ' ' ? end[2] : 0;
}

}  // namespace

bool other_threads_busy() {
  const std::string self = std::to_string(gettid());
  DIR* tasks = opendir("/proc/self/task");
  if (!tasks) return false;
  bool busy = false;
  while (const dirent* entry = readdir(tasks)) {
    if (entry->d_name[0] == '.' || self == entry->d_name) continue;
    if (thread_state(entry->d_name) == 'R') busy = true;
  }
  closedir(tasks);
  return busy;
}

bool quiesce(double timeout_ms) {
  using Clock = std::chrono::steady_clock;
  const auto limit = Clock::now() + std::chrono::duration<double, std::milli>(timeout_ms);
  // Twice in a row: a thread may sleep for an instant between two pieces of work.
  for (int idle = 0;;) {
    idle = other_threads_busy() ? 0 : idle + 1;
    if (idle == 2) return true;
    if (Clock::now() > limit) return false;
    std::this_thread::sleep_for(std::chrono::microseconds(idle ? 20 : 100));
  }
}

}  // namespace fettle::bench
