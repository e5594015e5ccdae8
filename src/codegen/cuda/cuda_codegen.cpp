#include "codegen/cuda/cuda_codegen.h"

#include <fmt/format.h>

#include "codegen/c_family/source_printer.h"
#include "ir/rewrite.h"
#include "lower/device/passes.h"
#include "lower/passes/passes.h"

namespace fettle {
namespace {

using namespace c_family;

Dialect cuda_dialect() {
  Dialect d{.name = "CUDA C++",
            .int_types = {"signed char", "short", "int", "long long"},
            .uint_types = {"unsigned char", "unsigned short", "unsigned int", "unsigned long long"}};
  d.helper_qualifier = "static __device__ inline ";
  d.math_names = {{"round", "rint"}, {"abs", "fabs"}};
  d.scopes["shared"] = {.declaration = "__shared__ __align__(16) ", .pointer = "", .initializer = "", .at_top = false};
  for (const char* scope : {"local", "register", "fragment"})
    d.scopes[scope] = {.declaration = "__align__(16) ", .pointer = "", .initializer = "", .at_top = false};
  for (const char axis : {'x', 'y', 'z'}) {
    d.thread_axes[fmt::format("blockIdx.{}", axis)] = fmt::format("blockIdx.{}", axis);
    d.thread_axes[fmt::format("threadIdx.{}", axis)] = fmt::format("threadIdx.{}", axis);
  }
  d.statements["barrier"] = "__syncthreads();";
  d.unroll_hint = "#pragma unroll";
  d.reserved = {"threadIdx", "blockIdx", "blockDim", "gridDim", "warpSize", "shared_pool", "mma_a", "mma_b", "mma_c"};
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
    copies_async_ = contains<CallNode>(func->body, [](const CallNode& call) { return call.name == kAsyncCopyCall; });
    uses_async_copies_ |= copies_async_;
    const std::string blocks = kernel.min_blocks > 0 ? fmt::format(", {}", kernel.min_blocks) : "";
    return fmt::format("extern \"C\" __global__ void __launch_bounds__({}{}) {}({})",
                       kernel.block[0] * kernel.block[1] * kernel.block[2], blocks, name,
                       fmt::join(parameters(func), ", "));
  }

  void begin_body(const Func&) override {
    if (pooled_) line("extern __shared__ __align__(16) unsigned char shared_pool[];");
  }

  void print_allocate(const AllocateNode& allocation) override {
    const Buffer& buffer = allocation.buffer;
    if (!pooled_ || buffer->scope != "shared" || !accesses(allocation.body, buffer.get()))
      return SourcePrinter::print_allocate(allocation);
    const std::string name = name_buffer(buffer, false);
    const std::string type = dialect_.storage_type(buffer->dtype);
    line(fmt::format("{0} *const {1} = ({0} *)(shared_pool + {2});", type, name, pool_bytes_));
    pool_bytes_ += (*as_int(buffer->shape[0]) * buffer->dtype.element_bytes() + 15) / 16 * 16;
    print(allocation.body);
    forget(buffer.get());
  }

  // A copy of neighbours in one access (vector_copies).
  void print_store(const StoreNode& store) override {
    const auto* to = store.indices[0].as<RampNode>();
    const auto* source = store.value.as<LoadNode>();
    const auto* from = source ? source->indices[0].as<RampNode>() : nullptr;
    if (!to || !from) return SourcePrinter::print_store(store);
    const DType type = store.buffer->dtype;
    const int words = type.element_bytes() * store.value.dtype().lanes / 4;
    const std::string word = type == kF32 ? "float" : "uint";
    const std::string vector = words == 1 ? "unsigned int" : fmt::format("{}{}", word, words);
    line(fmt::format("*({0} *)&{1} = *(const {0} *)&{2};", vector, element(store.buffer, {to->base}),
                     element(source->buffer, {from->base})));
  }

  void print_evaluate(const EvaluateNode& node) override {
    const auto* call = node.value.as<CallNode>();
    if (!call) return;
    if (call->name == kAsyncCommitCall) {
      if (copies_async_) line("commit_copies();");
      return;
    }
    if (call->name == "barrier") {
      if (copies_async_ && call->args.empty()) line("copies_done();");
      if (copies_async_ && !call->args.empty()) line(fmt::format("copies_done_but<{}>();", *as_int(call->args[0])));
      return line("__syncthreads();");
    }
    if (call->name == kAsyncCopyCall)
      return line(fmt::format("copy_async<{}>({}, {});", *as_int(call->args[2]), address(call->args[0]),
                              address(call->args[1])));
    if (!call->name.starts_with("mma_m16n8k16_f16")) return SourcePrinter::print_evaluate(node);
    uses_mma_ = true;
    call->name == "mma_m16n8k16_f16" ? print_product(*call) : print_move(*call);
  }

  static bool in_fragment(const Expr& arg) { return arg.as<AddressNode>()->buffer->scope == kScopeFragment; }
  std::string address(const Expr& arg) {
    const auto* pointer = arg.as<AddressNode>();
    return "&" + element(pointer->buffer, pointer->indices);
  }
  /// The registers of a lane, as 32-bit words.
  std::string words(const Expr& arg) { return "(unsigned int *)" + address(arg); }

  // (A, sa, B, sb, C, sc): what lies in memory goes through registers.
  void print_product(const CallNode& call) {
    open();
    const auto loaded = [&](size_t p, const char* name, int registers) -> std::string {
      if (in_fragment(call.args[2 * p])) return words(call.args[2 * p]);
      line(fmt::format("unsigned int mma_{}[{}];", name, registers));
      line(fmt::format("mma_load_{0}(mma_{0}, {1}, {2});", name, address(call.args[2 * p]),
                       expr(call.args[2 * p + 1]).text));
      return fmt::format("mma_{}", name);
    };
    const std::string a = loaded(0, "a", 4), b = loaded(1, "b", 2);
    const std::string at = address(call.args[4]);
    if (in_fragment(call.args[4])) {
      line(fmt::format("mma_m16n8k16({}, {}, {});", at, a, b));
    } else {
      const std::string stride = expr(call.args[5]).text;
      line("float mma_c[4];");
      line(fmt::format("mma_load_c(mma_c, {}, {});", at, stride));
      line(fmt::format("mma_m16n8k16(mma_c, {}, {});", a, b));
      line(fmt::format("mma_store_c({}, {}, mma_c);", at, stride));
    }
    close();
  }

  // …_load_a(D, sd, A, sa) and the like: one of the two is in fragments.
  void print_move(const CallNode& call) {
    const std::string name = call.name.substr(std::string_view("mma_m16n8k16_f16_").size());
    if (name == "fill") return line(fmt::format("mma_fill_c({});", address(call.args[0])));
    if (name.starts_with("store"))
      return line(fmt::format("mma_store_c({}, {}, {});", address(call.args[0]), expr(call.args[1]).text,
                              address(call.args[2])));
    std::string place = address(call.args[2]);
    for (size_t k = 3; k < call.args.size(); ++k) place += ", " + expr(call.args[k]).text;
    line(fmt::format("mma_{}({}, {});", name, words(call.args[0]), place));
  }

 public:
  bool uses_mma() const { return uses_mma_; }
  bool uses_async_copies() const { return uses_async_copies_; }

 private:
  bool uses_mma_ = false, uses_async_copies_ = false;
  bool copies_async_ = false;  // this kernel does
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

// PTX ISA, "cp.async": 4, 8 or 16 bytes from global to shared memory.
constexpr const char* kAsyncCopies =
    R"(template <int bytes>
static __device__ __forceinline__ void copy_async(void *to, const void *from) {
  const unsigned int at = (unsigned int)__cvta_generic_to_shared(to);
  if (bytes == 16)
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(at), "l"(from) : "memory");
  else
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(at), "l"(from), "n"(bytes) : "memory");
}
static __device__ __forceinline__ void commit_copies() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int groups>
static __device__ __forceinline__ void copies_done_but() {
  asm volatile("cp.async.wait_group %0;" ::"n"(groups) : "memory");
}
static __device__ __forceinline__ void copies_done() { asm volatile("cp.async.wait_all;" ::: "memory"); }

)";

// Tiles of mma.m16n8k16, by the 32 lanes of a warp. PTX ISA, "Matrix fragments for mma.m16n8k16 with floating point
// type": lane 4*g + t has of A[16, 16] the pairs of columns 2t and 2t + 8 in rows g and g + 8, of B[16, 8] the pairs of
// rows 2t and 2t + 8 in column g, and of C[16, 8] the pair of columns 2t in rows g and g + 8. ldmatrix: lane l gives
// the address of row l % 8 of the 8 x 8 matrix l / 8, and has then of each matrix the pair of columns 2t in row g.
constexpr const char* kMma =
    R"(static __device__ __forceinline__ void mma_load_a(unsigned int *a, const unsigned short *A, long long sa) {
  const int lane = threadIdx.x & 31, g = lane >> 2, t = 2 * (lane & 3);
  for (int i = 0; i < 4; ++i) {
    const unsigned short *at = A + (g + (i & 1) * 8) * sa + t + (i >> 1) * 8;
    a[i] = at[0] | (unsigned int)at[1] << 16;
  }
}
static __device__ __forceinline__ void mma_load_b(unsigned int *b, const unsigned short *B, long long sb) {
  const int lane = threadIdx.x & 31, g = lane >> 2, t = 2 * (lane & 3);
  for (int i = 0; i < 2; ++i) {
    const unsigned short *at = B + (t + i * 8) * sb + g;
    b[i] = at[0] | (unsigned int)at[sb] << 16;
  }
}
static __device__ __forceinline__ void ldmatrix_a(unsigned int *a, const unsigned short *row) {
  const unsigned int at = (unsigned int)__cvta_generic_to_shared(row);
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(a[0]), "=r"(a[1]), "=r"(a[2]), "=r"(a[3]) : "r"(at) : "memory");
}
static __device__ __forceinline__ void ldmatrix_b(unsigned int *b, const unsigned short *row) {
  const unsigned int at = (unsigned int)__cvta_generic_to_shared(row);
  asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0, %1}, [%2];"
               : "=r"(b[0]), "=r"(b[1]) : "r"(at) : "memory");
}
static __device__ __forceinline__ void mma_load_a_aligned(unsigned int *a, const unsigned short *A, long long sa) {
  const int lane = threadIdx.x & 31;
  ldmatrix_a(a, A + (lane & 15) * sa + (lane >> 4) * 8);
}
static __device__ __forceinline__ void mma_load_b_aligned(unsigned int *b, const unsigned short *B, long long sb) {
  const int lane = threadIdx.x & 31;
  ldmatrix_b(b, B + (lane & 15) * sb);
}
static __device__ __forceinline__ void mma_load_a_swizzled(unsigned int *a, const unsigned short *A, int sa, int at,
                                                           int line, int rows) {
  const int lane = threadIdx.x & 31, row = (lane & 15) * sa;
  ldmatrix_a(a, A + ((at + row + (lane >> 4) * 8) ^ (row / line % rows * 8)));
}
static __device__ __forceinline__ void mma_load_b_swizzled(unsigned int *b, const unsigned short *B, int sb, int at,
                                                           int line, int rows) {
  const int lane = threadIdx.x & 31, row = (lane & 15) * sb;
  ldmatrix_b(b, B + ((at + row) ^ (row / line % rows * 8)));
}
static __device__ __forceinline__ void mma_load_c(float *c, const float *C, long long sc) {
  const int lane = threadIdx.x & 31, g = lane >> 2, t = 2 * (lane & 3);
  for (int i = 0; i < 4; ++i) c[i] = C[(g + (i >> 1) * 8) * sc + t + (i & 1)];
}
static __device__ __forceinline__ void mma_store_c(float *C, long long sc, const float *c) {
  const int lane = threadIdx.x & 31, g = lane >> 2, t = 2 * (lane & 3);
  for (int i = 0; i < 4; ++i) C[(g + (i >> 1) * 8) * sc + t + (i & 1)] = c[i];
}
static __device__ __forceinline__ void mma_fill_c(float *c) {
  for (int i = 0; i < 4; ++i) c[i] = 0.0f;
}
static __device__ __forceinline__ void mma_m16n8k16(float *c, const unsigned int *a, const unsigned int *b) {
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
               : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

)";

}  // namespace

Result<std::string> emit_cuda(const DeviceProgram& program) {
  IrModule module;
  for (const auto& [name, kernel] : program.kernels) module.funcs[name] = kernel.func;
  const Dialect dialect = cuda_dialect();
  CudaPrinter printer(dialect, module, program);
  printer.print_all();
  FETTLE_TRY(const std::string text, printer.finish());
  return kPreamble + std::string(printer.uses_async_copies() ? kAsyncCopies : "") + (printer.uses_mma() ? kMma : "") +
         text;
}

}  // namespace fettle
