#pragma once
// A comparison for terminals and for --json.

#include <nlohmann/json.hpp>
#include <string>

#include "report/comparison.h"

namespace fettle::cli {

/// A table of 80 columns, those that change most first, `most` of them at most.
std::string comparison_text(const Comparison& compared, const std::string& before, const std::string& after,
                            size_t most = 20);

nlohmann::json comparison_json(const Comparison& compared);

}  // namespace fettle::cli
