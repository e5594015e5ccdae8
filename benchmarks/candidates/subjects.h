#pragma once
// What `make bench-candidates` measures.

#include <cstdint>
#include <string>

#include "harness/report.h"

namespace fettle::bench {

struct CandidateBenchOptions {
  std::string only;        // workloads whose name contains this
  std::string space;       // of this name alone; empty: of the rules, and of the sketches
  double seconds = 2;      // for each workload
  int64_t many = 100'000;  // candidates made for the figures of memory; 0: none
};

/// For matrix products, convolutions and others: distinct candidates a second, and the microseconds that one takes,
/// part by part.
void add_candidates(Report& report, const CandidateBenchOptions& options);

}  // namespace fettle::bench
