#pragma once
// Small text files that are whole or not there: a title, lines of numbers, a digest.

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace fettle {

/// Numbers read back exactly. E702.
Result<> write_checked(const std::string& path, std::string_view title, const std::vector<double>& numbers);
/// The numbers below `title`. E701 no such file, or it cannot be read · E503 damaged, or of another title.
Result<std::vector<double>> read_checked(const std::string& path, std::string_view title);

}  // namespace fettle
