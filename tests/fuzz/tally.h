#pragma once
// What became of cases, in memory that all processes of a run have.

#include <atomic>
#include <cstdint>
#include <cstring>
#include <string>

namespace fettle::fuzz {

inline constexpr int kMaxPrimitives = 128, kMaxCodes = 160, kMaxFindings = 64, kMaxBatch = 256;

struct CaseTally {
  int32_t made, ran, refused;  // refused: by lowering, so it did not run
  int32_t steps;
  uint8_t applied[kMaxPrimitives];
};

/// Of one batch. Batches are counted in their order, so the number of processes changes nothing.
struct Tally {
  std::atomic<int32_t> done;
  CaseTally of_case[kMaxBatch];
  uint32_t refused[kMaxPrimitives][kMaxCodes];
  int32_t n_findings;
  struct {
    int64_t case_number;
    char what[400];
  } findings[kMaxFindings];

  void report(int64_t number, const std::string& what) {
    if (n_findings >= kMaxFindings) return;
    auto& finding = findings[n_findings++];
    finding.case_number = number;
    std::strncpy(finding.what, what.c_str(), sizeof finding.what - 1);
  }
};

/// Where a process is in its batch, for who asks after its end.
struct At {
  int64_t batch;  // -1: in none
  int64_t next;   // the first case that is not done
  int64_t current_case;
  int32_t compiling;   // several cases together
  int32_t one_by_one;  // they are compiled by themselves
};

}  // namespace fettle::fuzz
