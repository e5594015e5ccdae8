#include "codegen/cuda/cuda_codegen.h"

#include <fmt/format.h>

#include "codegen/c_family/source_printer.h"
#include "ir/visit.h"

namespace fettle {
namespace {

using namespace c_family;

Dialect cuda_dialect() {
  Dialect d;
  d.name = "CUDA C++";
  const char* ints[] = {"signed char", "short", "int", "long long"};
  const char* uints[] = {"unsigned char", "unsigned short", "unsigned int", "unsigned long long"};
  for (int i = 0; i < 4; ++i) {
    d.int_types[i] = ints[i];
    d.uint_types[i] = uints[i];
  }
  d.helper_qualifier = "static __device__ inline ";
  d.math_names = {{"round", "rint"}, {"abs", "fabs"}};
  d.scopes["shared"] = {.declaration = "__shared__ ", .pointer = "", .initializer = "", .at_top = false};
  for (const char axis : {'x', 'y', 'z'}) {
    d.thread_axes[fmt::format("blockIdx.{}", axis)] = fmt::format("blockIdx.{}", axis);
    d.thread_axes[fmt::format("threadIdx.{}", axis)] = fmt::format("threadIdx.{}", axis);
  }
  d.statements["barrier"] = "__syncthreads();";
  d.unroll_hint = "#pragma unroll";
  d.reserved = {"threadIdx", "blockIdx", "blockDim", "gridDim", "warpSize", "shared_pool"};
  return d;
}

class CudaPrinter : public SourcePrinter {
 public:
  CudaPrinter(const Dialect& dialect, const IrModule& module, const DeviceProgram& program)
      : SourcePrinter(dialect, module), program_(program) {}

 protected:
  std::string head(const Func& func, const std::string& name) override {
    const DeviceKernel& kernel = program_.kernels.at(func->name);
    pooled_ = kernel.shared_bytes > kStaticSharedBytes;
    pool_bytes_ = 0;
    return fmt::format("extern \"C\" __global__ void __launch_bounds__({}) {}({})",
                       kernel.block[0] * kernel.block[1] * kernel.block[2], name, fmt::join(parameters(func), ", "));
  }

  void begin_body(const Func&) override {
    if (pooled_) line("extern __shared__ __align__(16) unsigned char shared_pool[];");
  }

  void print_allocate(const AllocateNode& allocation) override {
    const Buffer& buffer = allocation.buffer;
    if (!pooled_ || buffer->scope != "shared" || is_unused(allocation.body, buffer.get()))
      return SourcePrinter::print_allocate(allocation);
    const std::string name = name_buffer(buffer, false);
    const std::string type = dialect_.storage_type(buffer->dtype);
    line(fmt::format("{0} *const {1} = ({0} *)(shared_pool + {2});", type, name, pool_bytes_));
    pool_bytes_ += (*as_int(buffer->shape[0]) * buffer->dtype.element_bytes() + 15) / 16 * 16;
    print(allocation.body);
    forget(buffer.get());
  }

 private:
  const DeviceProgram& program_;
  bool pooled_ = false;
  int64_t pool_bytes_ = 0;
};

// NVRTC has no <math.h>.
constexpr const char* kPreamble =
    "#ifndef INFINITY\n"
    "#define INFINITY __int_as_float(0x7f800000)\n"
    "#endif\n"
    "#ifndef NAN\n"
    "#define NAN __int_as_float(0x7fc00000)\n"
    "#endif\n"
    "\n";

}  // namespace

Result<std::string> emit_cuda(const DeviceProgram& program) {
  IrModule module;
  for (const auto& [name, kernel] : program.kernels) module.funcs[name] = kernel.func;
  const Dialect dialect = cuda_dialect();
  CudaPrinter printer(dialect, module, program);
  for (const auto& [name, kernel] : program.kernels) printer.print_function(kernel.func, identifier(name));
  FETTLE_TRY(const std::string text, printer.finish());
  return kPreamble + text;
}

}  // namespace fettle
