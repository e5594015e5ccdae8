#pragma once
// Lists what artefacts may use of libc.

#include <span>
#include <string_view>

namespace fettle {

/// The functions that rt calls, and those that LLVM may put in for loops that copy, fill or compare. All are in glibc's
/// libc.so.6 from 2.34 on. Anything else that compiled code refers to is an error when the artefact is linked.
std::span<const std::string_view> libc_functions();

}  // namespace fettle
