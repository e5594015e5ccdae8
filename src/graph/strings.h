#pragma once
// Strings while compiling. A tensor of strings holds their numbers, an i64 each, in one table of the process. So what
// moves strings, or compares them for equality, is a program of integers. An artefact has a table of its own.

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "graph/constant.h"

namespace fettle {

/// The string's number, for as long as the process runs; that of "" is 0.
int64_t string_number(std::string_view text);
/// The string of a number that was given out. What it shows stays.
std::string_view string_of(int64_t number);

/// One element a string.
Result<ConstantTensor> string_tensor(std::span<const std::string> strings, std::vector<int64_t> shape);
ConstantTensor string_scalar(std::string_view text);
std::vector<std::string> to_strings(const ConstantTensor& tensor);

/// Calls a host function (rt/host.h) on the process's strings; `where`: the node. E605 what the function says.
Result<> run_host_function(const char* name, std::span<void* const> buffers, std::span<const int64_t> ints,
                           const std::string& where);

}  // namespace fettle
