#pragma once
// Operators whose axes come to be known while the model runs: by reshapes whose extents do.

#include "graph/passes/lowering.h"

namespace fettle::passes {

/// Which of a tensor's axes are meant, as lists of integers in memory.
struct DataAxes {
  Value* places;  // i64[k], each in [0, rank)
  Value* hits;    // i64[k, rank]: 1 where place k is this axis
  Value* mask;    // i64[rank]: 1 where an axis is meant
};

/// Of an input that counts axes of `rank` dims, from the end where it is negative: a list, or one number. A call fails
/// where an axis is out of range or stated twice.
DataAxes data_axes(Lowering& g, const Node& node, size_t input, int64_t rank);
/// i64[rank]: numbers[k] where the axis is place k, otherwise zero.
Value* at_axes(Lowering& g, const DataAxes& axes, Value* numbers);
/// i64[count]: the extents in `shape`, i64[rank], of axes that are not meant, in order. `count` of them are not.
Value* other_extents(Lowering& g, const DataAxes& axes, Value* shape, int64_t count);
/// x as [what is before the one axis, its extent, what is after].
Value* around_axis(Lowering& g, const DataAxes& axes, Value* x);

// Expansions (by_data).
Result<std::vector<Value*>> reduce_by_data(Lowering& g, const Node& node);
Result<std::vector<Value*>> accumulate_by_data(Lowering& g, const Node& node);  // along one axis
Result<std::vector<Value*>> squeeze_by_data(Lowering& g, const Node& node);
Result<std::vector<Value*>> unsqueeze_by_data(Lowering& g, const Node& node);
Result<std::vector<Value*>> pad_by_data(Lowering& g, const Node& node);
Result<std::vector<Value*>> slice_by_data(Lowering& g, const Node& node);

}  // namespace fettle::passes
