// A machine as one of several calls sees it that run on it at once.
#include <fmt/format.h>

#include <algorithm>

#include "target/target.h"

namespace fettle {

Result<Target> share_of(Target machine, int streams, int threads) {
  if (streams < 1) return fail(ErrorCode::E709, "there is one stream at least", "streams");
  if (streams == 1) {
    if (threads > 0) machine.threads = threads;
    return machine;
  }
  if (machine.kind != "llvm")
    return fail(ErrorCode::E709,
                fmt::format("streams share the cores of a CPU; kernels on {} are tuned and compiled without --streams",
                            machine.kind),
                "streams");
  const int64_t wanted = int64_t{streams} * std::max(threads, 1);
  if (wanted > machine.threads)
    return fail(ErrorCode::E709,
                fmt::format("{} streams of {} thread{} need {}, there {} {}; take fewer", streams, std::max(threads, 1),
                            threads > 1 ? "s" : "", wanted, machine.threads == 1 ? "is" : "are", machine.threads),
                "streams");
  const int all = machine.threads;
  machine.streams = streams;
  machine.threads = threads > 0 ? threads : all / streams;
  for (CacheLevel& cache : machine.caches) {
    const int most = std::max(1, std::min(streams, cache.shared_by_threads));
    const int64_t meet = (int64_t{streams} * cache.shared_by_threads + all - 1) / all;  // streams on one such cache
    const int sharing = static_cast<int>(std::clamp<int64_t>(meet, 1, most));
    cache.size_bytes /= sharing;
    cache.shared_by_threads /= sharing;
  }
  return machine;
}

std::optional<Target> host_of(const Digest& fingerprint, int threads) {
  const Target all = detect_host();
  for (int streams = 1; streams <= all.threads; ++streams)
    if (auto target = share_of(all, streams, threads); target && target->fingerprint() == fingerprint) return *target;
  return std::nullopt;
}

}  // namespace fettle
