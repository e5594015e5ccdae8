#pragma once
// CUDA C++ helpers of kernels that use sm_90a's copy engine and the tensor cores of warp groups. PTX ISA: "mbarrier",
// "cp.async.bulk.tensor", "wgmma", "setmaxnreg".

#include <cstdint>
#include <set>
#include <string>

namespace fettle {

/// What kernels of one text call.
struct TensorEngineUse {
  bool any = false;
  std::set<std::string> products;                 // wgmma_m64nNk16_TYPE, with "_nk" where B is [n, k]
  std::set<int64_t> bulk_stores;                  // dimensions
  std::set<std::pair<int64_t, bool>> bulk_loads;  // dimensions, and whether all blocks of a cluster get a copy
};

/// The type TensorMap, barriers of rings, copies and products.
std::string tensor_engine_helpers(const TensorEngineUse& use);

}  // namespace fettle
