#pragma once
// What scheduled programs are run by. A further one: an entry in backends().

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "lower/lower.h"

namespace fettle::fuzz {

/// One scheduled program on its way through a back end.
struct Job {
  Func scheduled;
  LoweredKernel lowered;  // of a back end that lowers; Funcs have names of their own in the batch
  /// Set by compile(): runs the program on `buffers`, one for each parameter of `scheduled`. E-codes as lowering and
  /// loading have them; E302 "…" where memory was not enough or the kernel failed.
  std::function<Result<>(std::span<void* const> buffers, std::span<const int64_t> ints)> run;
  Diagnostic refused;  // the program cannot be lowered for this back end; `run` is then empty
};

struct Backend {
  std::string_view name;
  std::string_view target;  // for parse_target
  /// Lowers and compiles all jobs together, and sets each one's `run` or `refused`. A failure is a finding.
  Result<> (*compile)(std::span<Job> jobs, const Target& target);
  std::string_view requires_what;  // for the message where it is not available
  bool (*available)();
};

std::span<const Backend> backends();
const Backend* find_backend(std::string_view name);

}  // namespace fettle::fuzz
