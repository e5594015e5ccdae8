#pragma once
// Tests of whether one of two is the better over a set of tasks.

#include <cstddef>
#include <vector>

namespace fettle::bench {

/// One-sided p of Wilcoxon's signed-rank test (exact; Wilcoxon 1945) that the differences lie below 0; zeros are left
/// out. 1 where none is left.
double wilcoxon_p(const std::vector<double>& differences);
/// One-sided p of the sign test: how likely so many negative differences, or more, are by chance.
double sign_test_p(const std::vector<double>& differences);

double geometric_mean(const std::vector<double>& values);

}  // namespace fettle::bench
