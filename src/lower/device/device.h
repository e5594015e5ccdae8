#pragma once
// Scheduled programs with loops bound to threads → kernels, and the host program that launches them.

#include <array>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "ir/func.h"
#include "target/target.h"

namespace fettle {

/// A buffer in memory as the copy engine of sm_90 sees it: what CUDA's cuTensorMapEncodeTiled takes, beside 128-byte
/// swizzle, no interleaving and zeros out of bounds. Dimensions are the innermost first. Expressions are in the
/// integers of the kernel's func.
inline constexpr int64_t kSwizzleBytes = 1024;  // of which places in shared memory that it fills are multiples
struct TensorMap {
  size_t param = 0;           // of func->params: the buffer
  std::vector<Expr> extents;  // elements
  std::vector<Expr> strides;  // elements, of all dimensions but the innermost, whose stride is 1
  std::vector<int64_t> box;   // elements that one copy takes
};

/// One kernel. `func` is scalar lowered code (README.md) of this form; a loop that is not needed is absent:
///   for bx in 4 thread axis("blockIdx.x"):            # .z, .y, .x
///     allocate A_shared: f32[512] @shared
///     for ty in 16 thread axis("threadIdx.y"):        # .z, .y, .x
///       … barrier() …                                 # no further loops over threads
/// Its parameters are the buffers in memory of all that it accesses, then the integers that it needs, then its tensor
/// maps.
struct DeviceKernel {
  Func func;
  std::array<Expr, 3> grid = {1, 1, 1};      // blocks along x, y, z: constants, or expressions in func's integers
  std::array<int64_t, 3> block = {1, 1, 1};  // threads along x, y, z
  int64_t shared_bytes = 0;                  // of one block
  int64_t min_blocks = 0;                    // kMinBlocksKey, of which CUDA's compiler alone is told; 0: not said
  std::vector<TensorMap> tensor_maps;
  int64_t producer_threads = 0;  // of the block's, the last ones: they issue bulk copies, and meet the others nowhere
  int64_t cluster = 1;           // neighbouring blocks along x that share copies
};

/// `host` has the parameters of the scheduled program, in order. Its body is made of loops, ifs over integers,
/// allocations (in the device's memory; they may be reused from launch to launch, but not kept) and `call NAME(buffers,
/// integers)`: launches, in order.
struct DeviceProgram {
  Func host;
  std::map<std::string, DeviceKernel> kernels;
};

/// Each nest of the root block becomes a kernel; a loop around loops over blocks stays on the host. A nest without
/// threads is run by one thread. Buffers without a scope get one (infer_scopes); limits of the target are checked.
/// Errors: E219 unknown scope · E230 a limit of the target · E301 no code for these loops: loops over blocks that are
///         not outermost in their nest, a thread that reads what others keep to themselves, a barrier where threads
///         part, a number of threads that is no constant
/// `after` is told of what each pass has left: of the whole program, and of each kernel on its way.
using DeviceObserver = std::function<void(std::string_view pass, const Func& func)>;
Result<DeviceProgram> lower_for_device(const Func& scheduled, const Target& target, const DeviceObserver& after = {});

/// The host program, then the kernels with their launch sizes as comments.
std::string to_text(const DeviceProgram& program);

}  // namespace fettle
