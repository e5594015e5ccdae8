#include "rt/topology.h"

#include <fcntl.h>
#include <string.h>

#include "rt/sys.h"
#include "rt/team.h"

namespace fettle::rt {
namespace {

/// A path put together from pieces; one that grows too long names no file.
class Path {
 public:
  explicit Path(const char* start) { *this << start; }
  Path& operator<<(const char* piece) { return append(piece, strlen(piece)); }
  Path& operator<<(int32_t number) {
    char digits[12];
    int at = 11;
    digits[at] = 0;
    do digits[--at] = static_cast<char>('0' + number % 10);
    while ((number /= 10) != 0);
    return *this << (digits + at);
  }
  Path& append(const char* piece, size_t bytes) {
    if (bytes >= sizeof chars_ - length_) bytes = length_ = 0;
    memcpy(chars_ + length_, piece, bytes);
    length_ += bytes;
    chars_[length_] = 0;
    return *this;
  }
  size_t length() const { return length_; }
  void cut(size_t length) { chars_[length_ = length < length_ ? length : length_] = 0; }
  /// Cuts the last component off, down to `least`; false where nothing is left to cut.
  bool to_parent(size_t least) {
    if (length_ <= least) return false;
    while (length_ > least && chars_[--length_] != '/') continue;
    chars_[length_] = 0;
    return true;
  }

  /// Reads at most bytes - 1 bytes of the file and ends them with a zero. False if it cannot be read.
  bool read_text(char* text, int64_t bytes) const {
    const int file = open(chars_, O_RDONLY | O_CLOEXEC);
    if (file < 0) return false;
    const ssize_t got = read(file, text, static_cast<size_t>(bytes - 1));
    close(file);
    if (got < 0) return false;
    text[got] = 0;
    return true;
  }

 private:
  char chars_[1024];
  size_t length_ = 0;
};

/// Reads a decimal number and moves past it; -1 if there is none.
int64_t parse_number(const char*& at) {
  if (*at < '0' || *at > '9') return -1;
  int64_t value = 0;
  for (; *at >= '0' && *at <= '9'; ++at)
    if (value < int64_t{1} << 56) value = value * 10 + (*at - '0');
  return value;
}

/// The lowest-numbered hardware thread of the same core.
int32_t first_sibling(const char* root, int32_t cpu) {
  char text[64];
  Path path(root);
  path << "/sys/devices/system/cpu/cpu" << cpu << "/topology/thread_siblings_list";
  if (!path.read_text(text, sizeof text)) return cpu;
  const char* at = text;
  const int64_t first = parse_number(at);
  return first < 0 ? cpu : static_cast<int32_t>(first);
}

/// The CPUs of a list such as "0-3,8"; none where the file cannot be read.
CpuMask read_list(const Path& path) {
  CpuMask mask{};
  char text[1024];
  if (!path.read_text(text, sizeof text)) return mask;
  for (const char* at = text; *at != 0;) {
    const int64_t first = parse_number(at);
    if (first < 0) break;
    int64_t last = first;
    if (*at == '-') last = parse_number(++at);
    for (int64_t cpu = first; cpu <= last && cpu < kMaxCpus; ++cpu) mask.words[cpu / 64] |= uint64_t{1} << (cpu % 64);
    if (*at == ',') ++at;
  }
  return mask;
}

/// What the files of one group say, in whole CPUs; 0: nothing. The path is as it was afterwards.
int32_t group_quota(Path& group) {
  const size_t length = group.length();
  char quota[80], period[32];
  int32_t cpus = 0;
  if ((group << "/cpu.max").read_text(quota, sizeof quota)) {  // version 2
    cpus = quota_cpus(quota);
  } else {  // version 1
    group.cut(length);
    const bool some = (group << "/cpu.cfs_quota_us").read_text(quota, sizeof quota / 2);
    group.cut(length);
    if (some && (group << "/cpu.cfs_period_us").read_text(period, sizeof period)) {
      char* end = quota + strcspn(quota, "\n");
      *end = ' ';
      memcpy(end + 1, period, strlen(period) + 1);
      cpus = quota_cpus(quota);
    }
  }
  group.cut(length);
  return cpus;
}

/// Whether `names`, separated by commas and `length` long, are those of the hierarchy that holds the CPU controller.
bool has_cpu_controller(const char* names, size_t length) {
  for (const char *at = names, *end = names + length; at <= end;) {
    const size_t name = strcspn(at, ",:");
    if (name == 3 && memcmp(at, "cpu", 3) == 0) return true;
    at += name + 1;
  }
  return false;
}

}  // namespace

int32_t quota_cpus(const char* cpu_max) {
  const int64_t quota = parse_number(cpu_max);
  if (quota <= 0 || *cpu_max != ' ') return 0;
  const int64_t period = parse_number(++cpu_max);
  if (period <= 0) return 0;
  const int64_t cpus = quota / period;
  return cpus > kMaxCpus ? kMaxCpus : cpus < 1 ? 1 : static_cast<int32_t>(cpus);
}

int32_t cgroup_cpus(const char* root) {
  int32_t least = 0;
  // Each group from the process's own up to the mount; one outside of a container's view has no files there.
  auto take = [&](const char* mount, size_t mount_length, const char* group, size_t group_length) {
    Path path(root);
    path << "/sys/fs/cgroup";
    path.append(mount, mount_length);
    const size_t top = path.length();
    path.append(group, group_length);
    do {
      const int32_t cpus = group_quota(path);
      if (cpus > 0 && (least == 0 || cpus < least)) least = cpus;
    } while (path.to_parent(top));
  };
  char groups[4096];
  if (!(Path(root) << "/proc/self/cgroup").read_text(groups, sizeof groups)) groups[0] = 0;
  take("", 0, "", 0);
  take("/cpu", 4, "", 0);
  for (const char* line = groups; *line != 0;) {  // "4:cpu,cpuacct:/group", "0::/group"
    const size_t length = strcspn(line, "\n");
    const char* names = line + strcspn(line, ":\n");
    if (*names == ':') {
      const size_t names_length = strcspn(++names, ":\n");
      const char* group = names + names_length;
      if (*group == ':') {
        const auto group_length = static_cast<size_t>(line + length - ++group);
        if (names_length == 0) {
          take("", 0, group, group_length);
          take("/unified", 8, group, group_length);
        } else if (has_cpu_controller(names, names_length)) {
          take("/cpu", 4, group, group_length);
          char mount[128] = "/";
          if (names_length < sizeof mount - 1) {
            memcpy(mount + 1, names, names_length);
            take(mount, names_length + 1, group, group_length);
          }
        }
      }
    }
    line += length;
    if (*line == '\n') ++line;
  }
  return least;
}

int32_t usable_cores(const char* root, const CpuMask& usable, int32_t* cpus, int32_t capacity) {
  const CpuMask slow = read_list(Path(root) << "/sys/devices/cpu_atom/cpus");
  CpuMask siblings{};
  for (int32_t cpu = 0; cpu < kMaxCpus; ++cpu) {
    if (!usable.has(cpu)) continue;
    const int32_t first = first_sibling(root, cpu);
    if (first != cpu && first < kMaxCpus && usable.has(first)) siblings.words[cpu / 64] |= uint64_t{1} << (cpu % 64);
  }
  int32_t count = 0;
  for (int32_t rank = 0; rank < 3; ++rank)  // first threads of fast cores, slow cores, the rest
    for (int32_t cpu = 0; cpu < kMaxCpus && count < capacity; ++cpu)
      if (usable.has(cpu) && (siblings.has(cpu) ? 2 : slow.has(cpu) ? 1 : 0) == rank) cpus[count++] = cpu;
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
  const int32_t quota = cgroup_cpus("");
  if (quota > 0 && quota < cpus) cpus = quota;
  return cpus < 1 ? 1 : cpus;
}
