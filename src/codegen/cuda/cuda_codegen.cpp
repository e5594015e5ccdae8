#include "codegen/cuda/cuda_codegen.h"

#include <fmt/format.h>

#include "codegen/c_family/source_printer.h"
#include "codegen/cuda/instructions.h"
#include "codegen/cuda/tensor_engine.h"
#include "ir/rewrite.h"
#include "lower/device/passes.h"
#include "lower/passes/passes.h"

namespace fettle {
namespace {

using namespace c_family;

constexpr int kMostTensorMaps = 16;

Dialect cuda_dialect() {
  Dialect d{.name = "CUDA C++",
            .int_types = {"signed char", "short", "int", "long long"},
            .uint_types = {"unsigned char", "unsigned short", "unsigned int", "unsigned long long"}};
  d.helper_qualifier = "static __device__ inline ";
  d.math_names = {{"round", "rint"}, {"abs", "fabs"}};
  d.helpers = cuda_helpers();
  d.scopes["shared"] = {.declaration = "__shared__ __align__(16) ", .pointer = "", .initializer = "", .at_top = false};
  for (const char* scope : {"local", "register", "fragment"})
    d.scopes[scope] = {.declaration = "__align__(16) ", .pointer = "", .initializer = "", .at_top = false};
  for (const char axis : {'x', 'y', 'z'}) {
    d.thread_axes[fmt::format("blockIdx.{}", axis)] = fmt::format("blockIdx.{}", axis);
    d.thread_axes[fmt::format("threadIdx.{}", axis)] = fmt::format("threadIdx.{}", axis);
  }
  d.statements["barrier"] = "__syncthreads();";
  d.values[kIsProducerCall] = "threadIdx.y == blockDim.y - 1";
  d.functions[kLaneValueCall] = "__shfl_sync(0xffffffffu, {})";
  d.unroll_hint = "#pragma unroll";
  d.reserved = {"threadIdx",   "blockIdx", "blockDim", "gridDim", "warpSize",
                "shared_pool", "mma_a",    "mma_b",    "mma_c",   "panel"};
  for (int map = 0; map < kMostTensorMaps; ++map) d.reserved.push_back(fmt::format("map_{}", map));
  return d;
}

class CudaPrinter : public SourcePrinter {
 public:
  CudaPrinter(const Dialect& dialect, const IrModule& module, const DeviceProgram& program)
      : SourcePrinter(dialect, module), program_(program) {}

 protected:
  // Turns of a ring stay a loop: a producer has few registers, and a turn is long.
  std::string loop_hint(const ForNode& loop) override {
    const bool takes_turns =
        loop.loop_kind == ForKind::kSerial &&
        contains<CallNode>(loop.body, [](const CallNode& called) { return called.name == kRingWaitCall; });
    return takes_turns ? "#pragma unroll 1" : SourcePrinter::loop_hint(loop);
  }

  std::string head(const Func& func, const std::string& name) override {
    const DeviceKernel& kernel = program_.kernels.at(func->name);
    kernel_ = &kernel;
    pooled_ = dynamic_shared_bytes(kernel) > 0;
    pool_bytes_ = 0;
    fragments_.clear();
    stores_in_bulk_ = contains<CallNode>(func->body, [](const CallNode& call) { return call.name == kBulkStoreCall; });
    engine_.any |= !kernel.tensor_maps.empty();
    if (kernel.tensor_maps.size() > kMostTensorMaps) fail_with("a kernel has more than 16 tensor maps");
    copies_async_ = contains<CallNode>(func->body, [](const CallNode& call) { return call.name == kAsyncCopyCall; });
    uses_async_copies_ |= copies_async_;
    // Registers move between warps only where the compiler knows how many there are (setmaxnreg).
    const int64_t min_blocks = kernel.min_blocks > 0 ? kernel.min_blocks : kernel.producer_threads > 0 ? 1 : 0;
    const std::string blocks = min_blocks > 0 ? fmt::format(", {}", min_blocks) : "";
    const std::string cluster = kernel.cluster > 1 ? fmt::format(" __cluster_dims__({}, 1, 1)", kernel.cluster) : "";
    std::vector<std::string> params = parameters(func);
    for (size_t map = 0; map < kernel.tensor_maps.size(); ++map)
      params.push_back(fmt::format("const __grid_constant__ TensorMap map_{}", map));
    return fmt::format("extern \"C\" __global__ void{} __launch_bounds__({}{}) {}({})", cluster,
                       kernel.block[0] * kernel.block[1] * kernel.block[2], blocks, name, fmt::join(params, ", "));
  }

  void begin_body(const Func&) override {
    if (!pooled_) return;
    if (kernel_->tensor_maps.empty()) return line("extern __shared__ __align__(16) unsigned char shared_pool[];");
    line("extern __shared__ __align__(1024) unsigned char shared_memory[];");
    line(fmt::format("unsigned char *const shared_pool = shared_memory + (0u - shared_address(shared_memory)) % {}u;",
                     kSwizzleBytes));
  }
  void end_body(const Func&) override {
    if (stores_in_bulk_) line("bulk_stores_done();");
    // Others may still write here.
    if (kernel_->cluster > 1) line("cluster_sync();");
  }

  void print_allocate(const AllocateNode& allocation) override {
    const Buffer& buffer = allocation.buffer;
    if (buffer->scope == kScopeFragment && buffer->dtype == kF32) fragments_.push_back(buffer);
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
    const DType type = store.buffer->dtype;
    const auto* lanes = to ? store.value.as<ShuffleNode>() : nullptr;
    if (lanes && (type == kF16 || type == kBF16)) return print_pairs(store, *lanes, to->base);
    if (!to || !from) return SourcePrinter::print_store(store);
    const int words = type.element_bytes() * store.value.dtype().lanes / 4;
    const std::string word = type == kF32 ? "float" : "uint";
    const std::string vector = words == 1 ? "unsigned int" : fmt::format("{}{}", word, words);
    line(fmt::format("*({0} *)&{1} = *(const {0} *)&{2};", vector, element(store.buffer, {to->base}),
                     element(source->buffer, {from->base})));
  }

  // Elements of 16 bits, each of which is computed, two in a word.
  void print_pairs(const StoreNode& store, const ShuffleNode& lanes, const Expr& at) {
    const std::string type = store.buffer->dtype.to_string();
    pairs_.insert(type);
    std::vector<std::string> words;
    for (size_t i = 0; i + 1 < lanes.vectors.size(); i += 2)
      words.push_back(
          fmt::format("pair_of_{}({}, {})", type, unrounded(lanes.vectors[i]), unrounded(lanes.vectors[i + 1])));
    const std::string vector = words.size() == 1 ? "unsigned int" : fmt::format("uint{}", words.size());
    line(fmt::format("*({} *)&{} = {}({});", vector, element(store.buffer, {at}),
                     words.size() == 1 ? "" : "make_" + vector, fmt::join(words, ", ")));
  }

  void print_evaluate(const EvaluateNode& node) override {
    const auto* call = node.value.as<CallNode>();
    if (!call) return;
    if (call->name == kAsyncCommitCall) {
      if (copies_async_) line("commit_copies();");
      return;
    }
    if (kernel_->producer_threads > 0 && (call->name == "barrier" || call->name == kGroupBarrierCall))
      return print_meeting(call->name == kGroupBarrierCall);
    if (call->name == "barrier") {
      if (copies_async_ && call->args.empty()) line("copies_done();");
      if (copies_async_ && !call->args.empty()) line(fmt::format("copies_done_but<{}>();", *as_int(call->args[0])));
      return line("__syncthreads();");
    }
    if (call->name == kAsyncCopyCall)
      return line(fmt::format("copy_async<{}>({}, {}{});", *as_int(call->args[2]), address(call->args[0]),
                              address(call->args[1]),
                              call->args.size() > 3 ? ", " + expr(call->args[3]).text : std::string()));
    if (kernel_->producer_threads > 0 && print_engine(*call)) return;
    if (!call->name.starts_with(kMmaPrefix)) return SourcePrinter::print_evaluate(node);
    uses_mma_ = true;
    is_mma_product(call->name) ? print_product(*call) : print_move(*call);
  }

  // What is for the copy engine and warp groups; false where it is something else.
  bool print_engine(const CallNode& call) {
    const std::string& name = call.name;
    const auto number = [&](size_t arg) { return *as_int(call.args[arg]); };
    if (name == kRingInitCall)
      line(
          fmt::format("ring_init<{}, {}, {}>({});", number(1), number(2), kernel_->cluster > 1, address(call.args[0])));
    else if (name == kRingWaitCall)
      line(fmt::format("ring_wait({}, {});", address(call.args[0]), expr(call.args[1]).text));
    else if (name == kRingExpectCall)
      line(fmt::format("ring_expect({}, {});", address(call.args[0]), number(1)));
    else if (name == kRingReleaseCall)
      line(fmt::format("ring_release<{}>({});", number(1), address(call.args[0])));
    else if (name == kBulkLoadCall)
      print_bulk_load(call);
    else if (name == kBulkStoreCall)
      print_bulk_store(call);
    else if (name == kWgmmaFenceCall || name == kWgmmaCommitCall)
      line(name + "();");
    else if (name == kRegistersUpCall || name == kRegistersDownCall)
      line(fmt::format("{}<{}>();", name, number(0)));
    else if (name == kWgmmaWaitCall)
      print_wait(number(0));
    else if (name.starts_with("wgmma_") && name.ends_with("_fill"))
      print_fill(call);
    else if (name.starts_with("wgmma_"))
      print_group_product(call);
    else
      return false;
    return true;
  }

  // Of the threads that compute. What they wrote, the copy engine may read then; what it reads, they may write.
  void print_meeting(bool in_group) {
    if (stores_in_bulk_) line("bulk_stores_read();");
    if (in_group) return line(fmt::format("meet(1 + threadIdx.y, {});", kernel_->block[0]));
    line(fmt::format("meet({}, {});", kEveryGroup,
                     kernel_->block[0] * kernel_->block[1] * kernel_->block[2] - kernel_->producer_threads));
  }

  // (&from, map, rows, columns, coordinates…)
  void print_bulk_store(const CallNode& call) {
    const int64_t map = *as_int(call.args[1]), dimensions = static_cast<int64_t>(call.args.size()) - 4;
    engine_.bulk_stores.insert(dimensions);
    std::vector<std::string> at;
    for (size_t d = 4; d < call.args.size(); ++d) at.push_back(fmt::format("(int)({})", expr(call.args[d]).text));
    line(fmt::format("bulk_store_{}d(&map_{}, {}, {});", dimensions, map, address(call.args[0]), fmt::join(at, ", ")));
  }

  void print_wait(int64_t groups) {
    line(fmt::format("wgmma_wait<{}>();", groups));
    if (groups > 0) return;
    for (const Buffer& buffer : fragments_)
      if (places_.contains(buffer.get()))
        line(fmt::format("settle<{}>({});", *as_int(buffer->shape[0]), place(buffer.get()).name));
  }

  void print_fill(const CallNode& call) {
    const int64_t columns = std::stoi(call.name.substr(std::string_view("wgmma_m64n").size()));
    line("#pragma unroll");
    line(fmt::format("for (int panel = 0; panel < {}; ++panel) ({})[panel] = 0.0f;", columns / 2,
                     address(call.args[0])));
  }

  // (&A, lead, stride, &B, lead, stride, &C)
  void print_group_product(const CallNode& call) {
    engine_.products.insert(call.name);
    const auto factor = [&](size_t p) {
      return fmt::format("factor({}, {}, {})", address(call.args[p]), *as_int(call.args[p + 1]),
                         *as_int(call.args[p + 2]));
    };
    line(fmt::format("{}({}, {}, {});", call.name, address(call.args[6]), factor(0), factor(3)));
  }

  // (&to, &barrier, map, blocks, rows, columns, coordinates…)
  void print_bulk_load(const CallNode& call) {
    const auto number = [&](size_t arg) { return *as_int(call.args[arg]); };
    const int64_t map = number(2), blocks = number(3), rows = number(4), columns = number(5);
    const TensorMap& described = kernel_->tensor_maps[static_cast<size_t>(map)];
    const int64_t dimensions = static_cast<int64_t>(call.args.size()) - 6, part = rows / blocks;
    engine_.bulk_loads.insert({dimensions, blocks > 1});
    std::string to = fmt::format("shared_address({}) + panel * {}", address(call.args[0]), rows * kPanelBytes);
    if (blocks > 1) to += fmt::format(" + cluster_rank() * {}", part * kPanelBytes);
    std::vector<std::string> at;
    bool has_rows = false;
    for (int64_t d = 0; d < dimensions; ++d) {
      std::string coordinate = fmt::format("(int)({})", expr(call.args[static_cast<size_t>(6 + d)]).text);
      if (d == 0) coordinate += fmt::format(" + panel * {}", described.box[0]);
      if (d > 0 && blocks > 1 && !has_rows && described.box[static_cast<size_t>(d)] == part) {
        coordinate += fmt::format(" + (int)cluster_rank() * {}", part);
        has_rows = true;
      }
      at.push_back(std::move(coordinate));
    }
    line(fmt::format("for (int panel = 0; panel < {}; ++panel)", columns / described.box[0]));
    line(fmt::format("  bulk_load_{}d{}({}, &map_{}, {}{}, {});", dimensions, blocks > 1 ? "_to_all" : "", to, map,
                     address(call.args[1]), blocks > 1 ? fmt::format(", {}", (1 << blocks) - 1) : "",
                     fmt::join(at, ", ")));
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
      line(fmt::format("{}({}, {}, {});", call.name, at, a, b));
    } else {
      const std::string stride = expr(call.args[5]).text;
      line("float mma_c[4];");
      line(fmt::format("mma_load_c(mma_c, {}, {});", at, stride));
      line(fmt::format("{}(mma_c, {}, {});", call.name, a, b));
      line(fmt::format("mma_store_c({}, {}, mma_c);", at, stride));
    }
    close();
  }

  // …_load_a(D, sd, A, sa) and the like: one of the two is in fragments.
  void print_move(const CallNode& call) {
    const std::string name = call.name.substr(call.name.find('_', kMmaPrefix.size()) + 1);
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
  const TensorEngineUse& engine() const { return engine_; }
  const std::set<std::string>& pairs() const { return pairs_; }

 private:
  bool uses_mma_ = false, uses_async_copies_ = false;
  bool copies_async_ = false;  // this kernel does
  TensorEngineUse engine_;
  bool stores_in_bulk_ = false;
  static constexpr int kEveryGroup = 15;  // the number of a barrier
  std::set<std::string> pairs_;           // types of elements of which two are stored in a word
  std::vector<Buffer> fragments_;         // sums of this kernel
  const DeviceKernel* kernel_ = nullptr;
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

// PTX ISA, "cvt": two values, the first in the lower half.
constexpr const char* kPairs =
    R"(static __device__ __forceinline__ unsigned int pair_of_{0}(float low, float high) {{
  unsigned int pair;
  asm("cvt.rn.{0}x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
  return pair;
}}
)";

// PTX ISA, "cp.async": 4, 8 or 16 bytes from global to shared memory; zeros where `reads` says that none are read.
constexpr const char* kAsyncCopies =
    R"(template <int bytes>
static __device__ __forceinline__ void copy_async(void *to, const void *from) {
  const unsigned int at = (unsigned int)__cvta_generic_to_shared(to);
  if (bytes == 16)
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(at), "l"(from) : "memory");
  else
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(at), "l"(from), "n"(bytes) : "memory");
}
template <int bytes>
static __device__ __forceinline__ void copy_async(void *to, const void *from, bool reads) {
  const unsigned int at = (unsigned int)__cvta_generic_to_shared(to);
  const int count = reads ? bytes : 0;
  if (bytes == 16)
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(at), "l"(from), "r"(count) : "memory");
  else
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(at), "l"(from), "n"(bytes), "r"(count) : "memory");
}
static __device__ __forceinline__ void commit_copies() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int groups>
static __device__ __forceinline__ void copies_done_but() {
  asm volatile("cp.async.wait_group %0;" ::"n"(groups) : "memory");
}
static __device__ __forceinline__ void copies_done() { asm volatile("cp.async.wait_all;" ::: "memory"); }

)";

// Tiles of mma.m16n8k16, by the 32 lanes of a warp, which lie along threadIdx.x, or x and y. PTX ISA, "Matrix
// fragments for mma.m16n8k16 with floating point type": lane 4*g + t has of A[16, 16] the pairs of columns 2t and 2t +
// 8 in rows g and g + 8, of B[16, 8] the pairs of rows 2t and 2t + 8 in column g, and of C[16, 8] the pair of columns
// 2t in rows g and g + 8. ldmatrix: lane l gives the address of row l % 8 of the 8 x 8 matrix l / 8, and has then of
// each matrix the pair of columns 2t in row g.
constexpr const char* kMma =
    R"(static __device__ __forceinline__ int warp_lane() {
  return (blockDim.x < 32 ? threadIdx.x + blockDim.x * threadIdx.y : threadIdx.x) & 31;
}
static __device__ __forceinline__ void mma_load_a(unsigned int *a, const unsigned short *A, long long sa) {
  const int lane = warp_lane(), g = lane >> 2, t = 2 * (lane & 3);
  for (int i = 0; i < 4; ++i) {
    const unsigned short *at = A + (g + (i & 1) * 8) * sa + t + (i >> 1) * 8;
    a[i] = at[0] | (unsigned int)at[1] << 16;
  }
}
static __device__ __forceinline__ void mma_load_b(unsigned int *b, const unsigned short *B, long long sb) {
  const int lane = warp_lane(), g = lane >> 2, t = 2 * (lane & 3);
  for (int i = 0; i < 2; ++i) {
    const unsigned short *at = B + (t + i * 8) * sb + g;
    b[i] = at[0] | (unsigned int)at[sb] << 16;
  }
}
static __device__ __forceinline__ void mma_load_a_km(unsigned int *a, const unsigned short *X, long long sx) {
  const int lane = warp_lane(), g = lane >> 2, t = 2 * (lane & 3);
  for (int i = 0; i < 4; ++i) {
    const unsigned short *at = X + (t + (i >> 1) * 8) * sx + g + (i & 1) * 8;
    a[i] = at[0] | (unsigned int)at[sx] << 16;
  }
}
static __device__ __forceinline__ void mma_load_b_nk(unsigned int *b, const unsigned short *X, long long sx) {
  const int lane = warp_lane(), g = lane >> 2, t = 2 * (lane & 3);
  for (int i = 0; i < 2; ++i) {
    const unsigned short *at = X + g * sx + t + i * 8;
    b[i] = at[0] | (unsigned int)at[1] << 16;
  }
}
static __device__ __forceinline__ void ldmatrix_a(unsigned int *a, const unsigned short *row) {
  const unsigned int at = (unsigned int)__cvta_generic_to_shared(row);
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(a[0]), "=r"(a[1]), "=r"(a[2]), "=r"(a[3]) : "r"(at) : "memory");
}
static __device__ __forceinline__ void ldmatrix_a_km(unsigned int *a, const unsigned short *row) {
  const unsigned int at = (unsigned int)__cvta_generic_to_shared(row);
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(a[0]), "=r"(a[1]), "=r"(a[2]), "=r"(a[3]) : "r"(at) : "memory");
}
static __device__ __forceinline__ void ldmatrix_b(unsigned int *b, const unsigned short *row) {
  const unsigned int at = (unsigned int)__cvta_generic_to_shared(row);
  asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0, %1}, [%2];"
               : "=r"(b[0]), "=r"(b[1]) : "r"(at) : "memory");
}
static __device__ __forceinline__ void ldmatrix_b_nk(unsigned int *b, const unsigned short *row) {
  const unsigned int at = (unsigned int)__cvta_generic_to_shared(row);
  asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%2];"
               : "=r"(b[0]), "=r"(b[1]) : "r"(at) : "memory");
}
// Which row and column of the tile in memory a lane gives the address of. Swizzled rows are a power of two apart.
static __device__ __forceinline__ int row_a(int lane) { return lane & 15; }
static __device__ __forceinline__ int column_a(int lane) { return (lane >> 4) * 8; }
static __device__ __forceinline__ int row_a_km(int lane) { return (lane & 7) + (lane >> 4) * 8; }
static __device__ __forceinline__ int column_a_km(int lane) { return (lane >> 3 & 1) * 8; }
static __device__ __forceinline__ int row_b(int lane) { return lane & 15; }
static __device__ __forceinline__ int column_b(int) { return 0; }
static __device__ __forceinline__ int row_b_nk(int lane) { return lane & 7; }
static __device__ __forceinline__ int column_b_nk(int lane) { return (lane >> 3 & 1) * 8; }
#define FETTLE_LOAD_TILE(tile)                                                                                        \
  static __device__ __forceinline__ void mma_load_##tile##_aligned(unsigned int *to, const unsigned short *X,          \
                                                                   long long sx) {                                     \
    const int lane = warp_lane();                                                                                 \
    ldmatrix_##tile(to, X + row_##tile(lane) * sx + column_##tile(lane));                                              \
  }                                                                                                                    \
  static __device__ __forceinline__ void mma_load_##tile##_swizzled(unsigned int *to, const unsigned short *X, int sx, \
                                                                    int at, int line, int rows) {                      \
    const int lane = warp_lane(), row = row_##tile(lane) * sx, first = at & (sx - 1);                                  \
    ldmatrix_##tile(to, X + (at - first) + (row + (first + column_##tile(lane) ^ row / line % rows * 8)));             \
  }
FETTLE_LOAD_TILE(a)
FETTLE_LOAD_TILE(a_km)
FETTLE_LOAD_TILE(b)
FETTLE_LOAD_TILE(b_nk)
static __device__ __forceinline__ void mma_load_c(float *c, const float *C, long long sc) {
  const int lane = warp_lane(), g = lane >> 2, t = 2 * (lane & 3);
  for (int i = 0; i < 4; ++i) c[i] = C[(g + (i >> 1) * 8) * sc + t + (i & 1)];
}
static __device__ __forceinline__ void mma_store_c(float *C, long long sc, const float *c) {
  const int lane = warp_lane(), g = lane >> 2, t = 2 * (lane & 3);
  for (int i = 0; i < 4; ++i) C[(g + (i >> 1) * 8) * sc + t + (i & 1)] = c[i];
}
static __device__ __forceinline__ void mma_fill_c(float *c) {
  for (int i = 0; i < 4; ++i) c[i] = 0.0f;
}
#define FETTLE_MMA(type)                                                                                             \
  static __device__ __forceinline__ void mma_m16n8k16_##type(float *c, const unsigned int *a, const unsigned int *b) { \
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32." #type "." #type ".f32 "                                      \
                 "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"                                     \
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])                                                      \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));                                  \
  }
FETTLE_MMA(f16)
FETTLE_MMA(bf16)

)";

}  // namespace

Result<std::string> emit_cuda(const DeviceProgram& program) {
  IrModule module;
  for (const auto& [name, kernel] : program.kernels) module.funcs[name] = kernel.func;
  const Dialect dialect = cuda_dialect();
  CudaPrinter printer(dialect, module, program);
  printer.print_all();
  FETTLE_TRY(const std::string text, printer.finish());
  std::string pairs;
  for (const std::string& type : printer.pairs()) pairs += fmt::format(kPairs, type);
  return kPreamble + std::string(printer.uses_async_copies() ? kAsyncCopies : "") + (printer.uses_mma() ? kMma : "") +
         tensor_engine_helpers(printer.engine()) + pairs + text;
}

}  // namespace fettle
