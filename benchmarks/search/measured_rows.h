#pragma once
// What models learn from: candidates' features, with what was predicted and measured.

#include <string>
#include <vector>

#include "search/run.h"

namespace fettle::bench {

/// The measured candidates of one search of one task, whose times may be compared.
struct MeasuredSearch {
  std::string task, family, mode, machine;
  std::vector<std::vector<float>> features;  // feature_names(), of each
  std::vector<double> predicted_s;           // by the micro-kernel table alone
  std::vector<double> seconds;
  std::vector<DecisionMap> decisions;
};

/// From the records of searches of the space "rules" in run.folder: each trace is replayed and described anew. E5xx
Result<std::vector<MeasuredSearch>> measured_searches(const std::vector<const SearchTask*>& tasks,
                                                      const std::vector<SearchMode>& modes, uint64_t first_seed,
                                                      int seeds, const SearchRun& run);

/// One line of JSON a candidate. E702
Result<> write_rows(const std::vector<MeasuredSearch>& searches, const std::string& path);
/// Lines as write_rows writes them; the machine is the file's name without its ending. E701, E503
Result<std::vector<MeasuredSearch>> read_rows(const std::string& path);

}  // namespace fettle::bench
