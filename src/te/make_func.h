#pragma once
// create_func for what people write by hand: mistakes are told, not aborted on.

#include <string>
#include <vector>

#include "base/result.h"
#include "te/create_func.h"

namespace fettle::te {

/// As create_func. Errors: E102 a tensor is given twice · an output is a placeholder · a placeholder that is read is
/// not among the inputs · an expression uses a variable of another tensor, or something else that is not well-formed
Result<Func> make_func(std::string name, const std::vector<Tensor>& inputs, const std::vector<Tensor>& outputs,
                       const FuncOptions& options = {});

}  // namespace fettle::te
