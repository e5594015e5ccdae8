#pragma once
// What passes and importers know of sequences and optionals, which are tensors (docs/structures.md).

#include <cstdint>

namespace fettle {

/// SequenceWiden(dims) {rank}: gives the extents of a sequence's elements so many columns.
inline constexpr const char* kSequenceWiden = "SequenceWiden";

/// Of a Loop, for each value that it carries, and of an If, for each output: what it is to a structure. Ranks that then
/// differ before and after an iteration, or between branches, are made one.
inline constexpr const char* kPartsKey = "parts";
inline constexpr int64_t kPlainPart = 0;
inline constexpr int64_t kDimsPart = 1;    // the extents of a sequence's elements
inline constexpr int64_t kAbsentPart = 2;  // of an optional: it may stand for nothing

}  // namespace fettle
