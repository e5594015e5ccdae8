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

  void print_evaluate(const EvaluateNode& node) override {
    const auto* call = node.value.as<CallNode>();
    if (!call || call->name != "mma_m16n8k16_f16") return SourcePrinter::print_evaluate(node);
    uses_mma_ = true;
    std::vector<std::string> args;
    for (const Expr& arg : call->args) {
      const auto* pointer = arg.as<AddressNode>();
      args.push_back(pointer ? "&" + element(pointer->buffer, pointer->indices) : expr(arg).text);
    }
    line(fmt::format("mma_m16n8k16_f16({});", fmt::join(args, ", ")));
  }

 public:
  bool uses_mma() const { return uses_mma_; }

 private:
  bool uses_mma_ = false;
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

// C[16, 8] += A[16, 16] @ B[16, 8] by the 32 lanes of a warp. PTX ISA, "Matrix fragments for mma.m16n8k16 with floating
// point type": lane 4*g + t has of A the pairs of columns 2t and 2t + 8 in rows g and g + 8, of B the pairs of rows 2t
// and 2t + 8 in column g, and of C the pair of columns 2t in rows g and g + 8.
constexpr const char* kMma =
    R"(static __device__ inline void mma_m16n8k16_f16(const unsigned short *A, long long sa, const unsigned short *B,
                                               long long sb, float *C, long long sc) {
  const int lane = threadIdx.x & 31, g = lane >> 2, t = 2 * (lane & 3);
  unsigned int a[4], b[2];
  float c[4];
  for (int i = 0; i < 4; ++i) {
    const unsigned short *at = A + (g + (i & 1) * 8) * sa + t + (i >> 1) * 8;
    a[i] = at[0] | (unsigned int)at[1] << 16;
    c[i] = C[(g + (i >> 1) * 8) * sc + t + (i & 1)];
  }
  for (int i = 0; i < 2; ++i) {
    const unsigned short *at = B + (t + i * 8) * sb + g;
    b[i] = at[0] | (unsigned int)at[sb] << 16;
  }
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
               : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
  for (int i = 0; i < 4; ++i) C[(g + (i >> 1) * 8) * sc + t + (i & 1)] = c[i];
}

)";

}  // namespace

Result<std::string> emit_cuda(const DeviceProgram& program) {
  IrModule module;
  for (const auto& [name, kernel] : program.kernels) module.funcs[name] = kernel.func;
  const Dialect dialect = cuda_dialect();
  CudaPrinter printer(dialect, module, program);
  for (const auto& [name, kernel] : program.kernels) printer.print_function(kernel.func, identifier(name));
  FETTLE_TRY(const std::string text, printer.finish());
  return kPreamble + std::string(printer.uses_mma() ? kMma : "") + text;
}

}  // namespace fettle
