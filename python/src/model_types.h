#pragma once
// Element types by numpy's names, and arrays as constants of graphs.

#include <string>

#include "binding.h"
#include "graph/constant.h"
#include "rt/model_api.h"

namespace fettle::python {

/// "float32" of FETTLE_F32. E705
const char* model_dtype_name(int32_t dtype);
std::string model_dtype_name(DType dtype);
/// The inverse. E705
FettleDtype model_dtype(const std::string& name);
DType graph_dtype(const std::string& name);

/// data: an array in C order, or its bits; of strings, a list of their bytes and a shape. The memory is the array's,
/// which lives as long. E705
ConstantTensor constant_of(const std::string& dtype, nb::handle data);

}  // namespace fettle::python
