#pragma once
// What `make bench-candidates` measures.

#include <cstdint>
#include <functional>
#include <string>

#include "base/result.h"
#include "harness/report.h"

namespace fettle::bench {

struct CandidateBenchOptions {
  std::string only;        // workloads whose name contains this
  std::string space;       // of this name alone; empty: of the rules, and of the sketches
  double seconds = 0.7;    // for each workload and space
  int64_t most = 0;        // not 0: so many candidates of one search of each, however long they take
  int64_t many = 100'000;  // candidates made for the figures of memory; 0: none
  std::string cost_model;  // of find_cost_model: candidates are described for it, unverified; empty: for the prediction
  std::string list;        // a file for all that is known of each candidate, to be compared with another build's
};

/// For matrix products, convolutions and others: distinct candidates a second, and the microseconds that one takes,
/// part by part; `save` is called after each of them.
Result<> add_candidates(Report& report, const CandidateBenchOptions& options, const std::function<Result<>()>& save);

}  // namespace fettle::bench
