// What this machine is: instruction sets from the processor, caches and clock from the system.
#include <algorithm>
#include <cstdlib>
#include <fstream>

#include "rt/cpu.h"
#include "rt/team.h"
#include "target/cpu.h"

namespace fettle {
namespace {

// All that generated code may use, beyond what every x86-64 has; sorted.
constexpr const char* kFeatures[] = {
    "amx-bf16",        "amx-int8", "amx-tile", "avx",        "avx2",       "avx512bf16",  "avx512bitalg", "avx512bw",
    "avx512cd",        "avx512dq", "avx512f",  "avx512ifma", "avx512vbmi", "avx512vbmi2", "avx512vl",     "avx512vnni",
    "avx512vpopcntdq", "avxvnni",  "bmi",      "bmi2",       "f16c",       "fma",         "lzcnt",        "movbe",
    "popcnt",          "sse2",     "sse3",     "sse4.1",     "sse4.2",     "ssse3",
};

bool has(const char* feature) {
  char missing[32];
  return fettle_cpu_check(feature, missing, sizeof missing) == 0;
}

std::string read_line(const std::filesystem::path& file) {
  std::ifstream in(file);
  std::string line;
  std::getline(in, line);
  return line;
}

/// Nominal clock: what the system calls the base or greatest frequency, else what /proc/cpuinfo shows; 0 if unknown.
double clock_ghz() {
  for (const char* file : {"base_frequency", "cpuinfo_max_freq"}) {
    const std::string khz = read_line(std::filesystem::path("/sys/devices/system/cpu/cpu0/cpufreq") / file);
    if (const double value = std::atof(khz.c_str()); value > 0) return value * 1e-6;
  }
  std::ifstream in("/proc/cpuinfo");
  for (std::string line; std::getline(in, line);) {
    if (line.rfind("cpu MHz", 0) != 0) continue;
    const size_t colon = line.find(':');
    return colon == std::string::npos ? 0 : std::atof(line.c_str() + colon + 1) * 1e-3;
  }
  return 0;
}

}  // namespace

int64_t parse_cache_size(std::string_view text) {
  int64_t value = 0;
  size_t at = 0;
  for (; at < text.size() && text[at] >= '0' && text[at] <= '9' && value < (int64_t{1} << 40); ++at)
    value = value * 10 + (text[at] - '0');
  if (at == 0) return 0;
  const std::string_view unit = text.substr(at);
  if (unit.empty()) return value;
  if (unit == "K") return value << 10;
  if (unit == "M") return value << 20;
  if (unit == "G") return value << 30;
  return 0;
}

int count_cpu_list(std::string_view text) {
  int count = 0;
  const std::string copy(text);
  for (const char* at = copy.c_str(); *at;) {
    char* end = nullptr;
    const long first = std::strtol(at, &end, 10);
    if (end == at) break;
    long last = first;
    if (*end == '-') last = std::strtol(end + 1, &end, 10);
    if (last >= first) count += static_cast<int>(last - first + 1);
    at = *end == ',' ? end + 1 : end;
    if (*end != ',' && *end != 0) break;
  }
  return count;
}

std::vector<CacheLevel> read_caches(const std::filesystem::path& folder, int usable) {
  std::vector<CacheLevel> caches;
  for (int level = 1; level <= 4; ++level) {
    for (int index = 0; index < 16; ++index) {
      const auto one = folder / ("index" + std::to_string(index));
      if (std::atoi(read_line(one / "level").c_str()) != level || read_line(one / "type") == "Instruction") continue;
      CacheLevel cache;
      cache.size_bytes = parse_cache_size(read_line(one / "size"));
      cache.ways = std::atoi(read_line(one / "ways_of_associativity").c_str());
      if (const int line = std::atoi(read_line(one / "coherency_line_size").c_str()); line > 0) cache.line_bytes = line;
      cache.shared_by_threads = std::clamp(count_cpu_list(read_line(one / "shared_cpu_list")), 1, std::max(usable, 1));
      if (cache.size_bytes > 0) caches.push_back(cache);
      break;
    }
  }
  return caches;
}

int available_threads() { return fettle_usable_cpus(); }

Target detect_host(int threads) {
  Target target;
  for (const char* feature : kFeatures) {
    if (!has(feature)) continue;
    if (!target.features.empty()) target.features += ',';
    target.features += std::string("+") + feature;
  }
  const bool avx512 = has("avx512f,avx512bw,avx512cd,avx512dq,avx512vl,avx2,fma,bmi,bmi2,f16c,lzcnt,movbe,popcnt");
  const bool avx2 = has("avx2,fma,bmi,bmi2,f16c,lzcnt,movbe,popcnt");
  target.cpu = avx512 ? "x86-64-v4" : avx2 ? "x86-64-v3" : "x86-64";
  target.vector_bits = avx512 ? 512 : avx2 ? 256 : 128;
  target.vector_registers = avx512 ? 32 : 16;
  target.caches = read_caches("/sys/devices/system/cpu/cpu0/cache", available_threads());
  if (target.caches.empty()) target.caches = {{32 << 10, 8, 64, 1}, {1 << 20, 16, 64, 1}};
  if (const double ghz = clock_ghz(); ghz > 0) target.frequency_ghz = ghz;
  target.threads = threads > 0 ? threads : available_threads();
  target.scopes = cpu_scopes(target);
  return target;
}

}  // namespace fettle
