#pragma once
// Turns groups into canonical loop programs.

#include <vector>

#include "base/result.h"
#include "graph/plan/partition.h"
#include "graph/size_vars.h"
#include "graph/view.h"
#include "ir/func.h"

namespace fettle {

/// The program of a group, and which value each of its parameters is.
struct GroupProgram {
  Func func;
  std::vector<Dim> sizes;      // one an integer parameter
  std::vector<Value*> params;  // one a parameter: inputs and constants, then outputs
};

/// The group as one program over buffers shaped as they lie in memory.
/// views: where each input and output of the group lies (constants are left out: they are dense and row-major);
///        storage and offset do not matter here.
/// Blocks come from the operators' tensor expressions; round scalars are part of the program, elementwise blocks are
/// inlined, and loops run in the order of what they write. Constants have ParamKind::kConstant.
/// Errors: those of node_compute.
Result<GroupProgram> group_program(const Group& group, const std::vector<std::pair<const Value*, View>>& views);

/// A program that stores the dims as integers of 64 bits: [n].
SizedFunc dims_program(const std::vector<Dim>& dims);

/// A program that copies a value that lies as `from` to where it lies as `to`.
SizedFunc copy_program(const Value& value, const View& from, const View& to);

}  // namespace fettle
