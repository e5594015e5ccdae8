#pragma once
// One search of one task, from its records on.

#include <atomic>
#include <filesystem>
#include <string>

#include "measure/runner.h"
#include "search/modes.h"
#include "search/records.h"
#include "search/tasks.h"
#include "target/target.h"

namespace fettle::bench {

struct SearchRun {
  Target target;
  int threads = 2;
  const MicroKernelTable* micro_kernels = nullptr;
  std::filesystem::path folder;  // of the records
  std::string model;             // file of a cost model to start from; empty: none
  const std::atomic<bool>* stop = nullptr;
};

/// What the records of a task are found by.
TaskKey key_of(const SearchTask& task, const SearchRun& run);

/// Searches on to `trials` trials, measuring what the records do not know, and keeps each result at once; a search that
/// knows no more ends earlier, and is not asked again. Errors: those of tune_task and of databases.
Result<> search_on(const SearchTask& task, const SearchMode& mode, uint64_t seed, int64_t trials, const SearchRun& run,
                   const Space& space, Runner& runner);

/// What is known, and whether that is all that the search can find. E5xx.
Result<Curve> known_curve(const SearchTask& task, const SearchMode& mode, uint64_t seed, const SearchRun& run);

}  // namespace fettle::bench
