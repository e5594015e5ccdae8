#pragma once
// What this machine reaches at best, measured briefly: fp32 and copies by the same programs that the micro-kernel table
// is measured by, other numbers by loops of their own (peak_loops.h).

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "target/target.h"

namespace fettle {

/// A second: operations, of which a multiply-add counts as two, or bytes.
struct PeakRate {
  double one_thread = 0;  // 0: the processor has no instruction for it
  double all_threads = 0;
};

struct MemoryRates {
  int level = 0;            // where all that is touched lies: 1, 2, … a cache; 0: memory
  double buffer_bytes = 0;  // of each of the two buffers of a copy
  // Bytes; all threads at once: each on its part of the cache or memory, summed.
  PeakRate copied;  // read and written
  PeakRate read;    // of a buffer twice as large
};

struct MachinePeaks {
  PeakRate fp32;                    // a micro-kernel, its operands in the first-level cache
  PeakRate operations;              // fp32 operations of all kinds, on each lane: a multiply-add counts as one
  PeakRate int8;                    // 8-bit integers, summed in 32 bits
  PeakRate bf16;                    // summed in fp32
  int threads = 1;                  // of all_threads
  double fork_join_s = 0;           // of all threads, once; 0: there is one alone
  std::vector<MemoryRates> memory;  // the nearest first; a level too large to tell from the next is left out

  /// As a database keeps them, and back; nothing where another version wrote them.
  std::vector<double> to_numbers() const;
  static std::optional<MachinePeaks> from_numbers(std::span<const double> numbers);
};

/// Under which a database keeps them, for a machine's fingerprint and number of threads.
std::string peaks_key(int threads);

/// Takes about three seconds. Errors: those of building (E2xx, E301, E302, E303), E710 a program fails.
Result<MachinePeaks> measure_peaks(const Target& target);

}  // namespace fettle
