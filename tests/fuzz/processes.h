#pragma once
// Work in processes of their own: what crashes or hangs there is known, and the rest goes on.

#include <cstdint>
#include <functional>
#include <string>

#include "tests/fuzz/tally.h"

namespace fettle::fuzz {

inline constexpr int kHangSeconds = 20;

/// Ends this process after `seconds` of its own time, so that a loaded machine does not make it hang; or, if it waits,
/// after ten times as many in which it was not stopped. 0: it is watched no longer.
void watch(int seconds);
bool is_hang(int signal);
std::string signal_text(int signal);

/// Runs fn in a child; true if it exited normally, with its exit code; else the signal.
struct Outcome {
  bool exited;
  int code;
};
Outcome in_child(const std::function<int()>& fn);

struct BatchOptions {
  int processes = 1;       // at once
  int64_t first_case = 0;  // of the first batch
  int cases = 32;          // of a batch
};

/// Works at batches until `take` has enough, which is asked for each, in their order, by the calling process. `work`
/// does what is left of a batch, from at.next on, and is called in children; a child does many batches. Where it ends
/// before its time, the case that it was at is a finding, and another child goes on behind it. A batch whose
/// compilation ends the child is done again, one case after the other.
void run_batches(const BatchOptions& options,
                 const std::function<void(Tally& tally, At& at, int64_t first, int64_t end)>& work,
                 const std::function<bool(const Tally& tally)>& take);

}  // namespace fettle::fuzz
