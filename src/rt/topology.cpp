#include "rt/topology.h"

#include <fcntl.h>
#include <string.h>

#include "rt/sys.h"
#include "rt/team.h"

namespace fettle::rt {
namespace {



/// Reads at most bytes - 1 bytes and ends them with a zero. False if the file cannot be read.
bool read_text(const char* path, char* text, int64_t bytes) {
  const int file = open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) return false;
  const ssize_t got = read(file, text, static_cast<size_t>(bytes - 1));
  close(file);
  if (got < 0) return false;
  text[got] = 0;
  return true;
}

/// Reads a decimal number and moves past it; -1 if there is none.
int64_t parse_number(const char*& at) {
  if (*at < '0' || *at > '9') return -1;
  int64_t value = 0;
  for (; *at >= '0' && *at <= '9'; ++at)
    if (value < int64_t{1} << 56) value = value * 10 + (*at - '0');
  return value;
}

/// The lowest-numbered hardware thread of the same core.
int32_t first_sibling(int32_t cpu) {
  char path[96] = "/sys/devices/system/cpu/cpu";
  char* end = path + strlen(path);
  char digits[12];
  int count = 0;
  for (int32_t rest = cpu; count == 0 || rest > 0; rest /= 10) digits[count++] = static_cast<char>('0' + rest % 10);
  while (count > 0) *end++ = digits[--count];
  memcpy(end, "/topology/thread_siblings_list", 31);
  char text[64];
  if (!read_text(path, text, sizeof text)) return cpu;
  const char* at = text;
  const int64_t first = parse_number(at);
  return first < 0 ? cpu : static_cast<int32_t>(first);
}

/// Appends `tail` to `path` at `end`; null when it does not fit.
char* append(char* end, const char* limit, const char* tail, size_t bytes) {
  if (end == nullptr || bytes >= static_cast<size_t>(limit - end)) return nullptr;
  memcpy(end, tail, bytes);
  end[bytes] = 0;
  return end + bytes;
}

/// The smallest quota among the process's group and those around it. Handles the unified hierarchy (version 2), and for
/// version 1 the usual place of a container's own limits.
int32_t cgroup_quota() {
  char groups[2048];
  int32_t least = 0;
  auto take = [&least](int32_t cpus) {
    if (cpus > 0 && (least == 0 || cpus < least)) least = cpus;
  };
  char text[64];
  if (read_text("/sys/fs/cgroup/cpu.max", text, sizeof text)) take(quota_cpus(text));
  if (read_text("/proc/self/cgroup", groups, sizeof groups)) {
    const char* line = strstr(groups, "0::/");
    if (line != nullptr && (line == groups || line[-1] == '\n')) {
      char path[1024];
      const char* limit = path + sizeof path;
      const char* group = line + 3;
      const size_t length = strcspn(group, "\n");
      char* root = append(path, limit, "/sys/fs/cgroup", 14);
      char* end = append(root, limit, group, length);
      while (end != nullptr && end > root + 1) {
        if (append(end, limit, "/cpu.max", 8) != nullptr && read_text(path, text, sizeof text)) take(quota_cpus(text));
        while (end > root && *--end != '/') continue;
      }
    }
  }
  char period[32];
  if (read_text("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", text, sizeof text / 2) &&
      read_text("/sys/fs/cgroup/cpu/cpu.cfs_period_us", period, sizeof period)) {
    char both[80];
    const size_t length = strcspn(text, "\n");
    memcpy(both, text, length);
    both[length] = ' ';
    memcpy(both + length + 1, period, strlen(period) + 1);
    take(quota_cpus(both));
  }
  return least;
}

}  // namespace

int32_t quota_cpus(const char* cpu_max) {
  const int64_t quota = parse_number(cpu_max);
  if (quota <= 0 || *cpu_max != ' ') return 0;
  const int64_t period = parse_number(++cpu_max);
  if (period <= 0) return 0;
  const int64_t cpus = (quota + period - 1) / period;
  return cpus > kMaxCpus ? kMaxCpus : static_cast<int32_t>(cpus);
}

int32_t usable_cores(int32_t* cpus, int32_t capacity) {
  CpuMask mask;
  if (!affinity(mask)) return 0;
  CpuMask siblings;
  memset(&siblings, 0, sizeof siblings);
  int32_t count = 0;
  for (int32_t cpu = 0; cpu < kMaxCpus && count < capacity; ++cpu) {
    if (!mask.has(cpu)) continue;
    const int32_t first = first_sibling(cpu);
    if (first != cpu && first < kMaxCpus && mask.has(first))
      siblings.words[cpu / 64] |= uint64_t{1} << (cpu % 64);
    else
      cpus[count++] = cpu;
  }
  for (int32_t cpu = 0; cpu < kMaxCpus && count < capacity; ++cpu)
    if (siblings.has(cpu)) cpus[count++] = cpu;
  return count;
}

bool affinity(CpuMask& mask) {
  memset(&mask, 0, sizeof mask);
  return syscall(SYS_sched_getaffinity, 0, sizeof mask, &mask) > 0;
}

void avoid_cpu(CpuMask allowed, int32_t cpu) {
  if (cpu < 0 || cpu >= kMaxCpus) return;
  allowed.words[cpu / 64] &= ~(uint64_t{1} << (cpu % 64));
  for (uint64_t word : allowed.words)
    if (word != 0) {
      syscall(SYS_sched_setaffinity, 0, sizeof allowed, &allowed);
      return;
    }
}

void bind_this_thread(int32_t cpu) {
  CpuMask mask;
  memset(&mask, 0, sizeof mask);
  mask.words[cpu / 64] = uint64_t{1} << (cpu % 64);
  syscall(SYS_sched_setaffinity, 0, sizeof mask, &mask);
}

}  // namespace fettle::rt

extern "C" int32_t fettle_usable_cpus(void) {
  using namespace fettle::rt;
  CpuMask mask;
  if (!affinity(mask)) return 1;
  int32_t cpus = 0;
  for (int32_t cpu = 0; cpu < kMaxCpus; ++cpu) cpus += mask.has(cpu) ? 1 : 0;
  const int32_t quota = cgroup_quota();
  if (quota > 0 && quota < cpus) cpus = quota;
  return cpus < 1 ? 1 : cpus;
}
