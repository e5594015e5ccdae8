#pragma once
// Options of models, as Python gives them.

#include <cstdint>
#include <map>
#include <string>
#include <variant>
#include <vector>

#include "driver/load.h"

namespace fettle::python {

/// By the size's name, then "min", "max", "multiple" or "tune_at".
using SizesGiven = std::map<std::string, std::map<std::string, std::variant<int64_t, std::vector<int64_t>>>>;

/// E709
OpenSizes open_sizes(const SizesGiven& given);
void check_threads(int threads);
void check_streams(int streams);

}  // namespace fettle::python
