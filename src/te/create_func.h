#pragma once
// Tensor expressions → a loop program in its plainest form.

#include <string>
#include <vector>

#include "ir/func.h"
#include "te/tensor.h"

namespace fettle::te {

struct FuncOptions {
  std::vector<ParamKind> input_kinds;  // of the inputs, in order; kInput where missing
  std::vector<bool> free_layout;       // of the inputs, then the outputs; false where missing
  /// What may be assumed of symbolic dimensions. Variables of shapes that are not listed become parameters too.
  std::vector<IntParam> int_params;
};

/// Every op becomes one block (a scan two), named after its tensor and made unique, in a loop nest of its own under
/// the root, producers first. Tensors that are neither inputs nor outputs are allocated in the root. An input may be
/// any tensor: what computes it is then left out. Params: the inputs, then the outputs.
Func create_func(std::string name, const std::vector<Tensor>& inputs, const std::vector<Tensor>& outputs,
                 const FuncOptions& options = {});

}  // namespace fettle::te
