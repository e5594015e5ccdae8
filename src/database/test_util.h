#pragma once
// For this room's tests.

#include <fmt/format.h>

#include "base/check.h"
#include "base/testing.h"
#include "database/record.h"
#include "database/run.h"
#include "ir/text.h"

namespace fettle::testing {

/// A copy of n numbers, for a machine that does not exist.
inline TaskKey task(int n) {
  auto func =
      parse_func(fmt::format("func copy(A: f32[{0}], B: f32[{0}] output):\n"
                             "  for i in {0}:\n"
                             "    block B(v: spatial[{0}] = i):\n"
                             "      reads A[v]\n"
                             "      writes B[v]\n"
                             "      B[v] = A[v]\n",
                             n));
  FETTLE_CHECK(func.has_value());
  return {make_workload(*func), "llvm x86-64 +avx", {1, 2}, 1, "lower 1"};
}

inline Record record(int n, std::string trace, double seconds) {
  Record r;
  r.task = task(n);
  r.trace = std::move(trace);
  r.median_s = r.min_s = seconds;
  r.machine = "a machine";
  r.created_ns = 1234567890;
  return r;
}

/// Over the task above.
inline TuningRun run(uint64_t id, int64_t created_ns) {
  TuningRun r;
  r.id = id;
  r.model = "a \"model\"";
  const TaskKey key = task(10);
  r.target_features = key.target_features;
  r.fingerprint = key.fingerprint;
  r.threads = key.threads;
  r.versions = key.versions;
  r.machine = "a machine";
  r.created_ns = created_ns;
  r.seed = 7;
  r.tasks = {{key.workload, "copy 10", 3, {{"c1: Copy", "Identity c1"}, {"c2: Copy", "Identity c2\nCast x"}}},
             {task(11).workload, "copy 11", 1, {}}};
  return r;
}

}  // namespace fettle::testing
