#pragma once
// Trains what corrects the prediction (cost/learned/learned_correction.h), and says what it is worth.

#include <functional>
#include <string>
#include <vector>

#include "cost/learned/learned_correction.h"
#include "harness/report.h"
#include "search/measured_rows.h"

namespace fettle::bench {

/// Boosted trees on log(measured / predicted) less the search's median of it: the order within a search is learned, not
/// how much a task or a machine is missed by. All searches count alike, and within one what is fast counts most.
std::vector<CorrectionTree> train_correction(const std::vector<const MeasuredSearch*>& searches);

/// Rows of how searches of at least twelve candidates are ranked by the prediction alone, and corrected by trees that
/// have not seen the task (in five parts), the family, or the machine: means over the searches.
void add_rankings(Report& report, const std::vector<MeasuredSearch>& searches);

/// The text that comes with Fettle as learned_correction.txt. E702
Result<> write_correction(const std::vector<CorrectionTree>& trees, const std::string& path);

}  // namespace fettle::bench
