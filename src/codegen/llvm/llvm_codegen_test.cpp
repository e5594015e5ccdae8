// Every construct of lowered code, compiled and run beside the interpreter.
#include "codegen/llvm/llvm_codegen.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>

#include "codegen/llvm/jit_module.h"
#include "ir/interpret.h"
#include "ir/rewrite.h"
#include "ir/text.h"
#include "rt/abi.h"
#include "rt/memory.h"
#include "rt/team.h"

namespace fettle {
namespace {

using Kernel = int32_t(FettleContext*, void**, const int64_t*);

/// Memory of one parameter, with a margin that must stay as it is.
struct Bytes {
  std::vector<unsigned char> data;
  int64_t size = 0;
  void* begin() { return data.data(); }
};

int64_t bytes_of(const BufferNode& buffer) {
  int64_t count = 1;
  for (const Expr& extent : buffer.shape) count *= *as_int(extent);
  return count * buffer.dtype.element_bytes();
}

/// Small integers of the type, so that float arithmetic is exact in any order.
Bytes filled(const BufferNode& buffer, uint64_t seed) {
  Bytes out;
  out.size = bytes_of(buffer);
  out.data.assign(static_cast<size_t>(out.size) + 64, 0xcd);
  const DType type = buffer.dtype;
  for (int64_t i = 0; i < out.size / type.element_bytes(); ++i) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    const int value = static_cast<int>((seed >> 33) % 17) - (type.code == TypeCode::kUInt ? 0 : 8);
    unsigned char* at = out.data.data() + i * type.element_bytes();
    const auto put = [at](auto x) { std::memcpy(at, &x, sizeof x); };
    if (type == kF32)
      put(static_cast<float>(value));
    else if (type == kF64)
      put(static_cast<double>(value));
    else if (type == kBF16)
      put(static_cast<uint16_t>(std::bit_cast<uint32_t>(static_cast<float>(value)) >> 16));
    else if (type == kF16)
      put(static_cast<uint16_t>(value == 0 ? 0 : 0x3c00 + (value & 7) * 64 + (value < 0 ? 0x8000 : 0)));
    else if (type.is_bool())
      put(static_cast<uint8_t>(value & 1));
    else if (type.bits == 8)
      put(static_cast<int8_t>(value));
    else if (type.bits == 16)
      put(static_cast<int16_t>(value));
    else if (type.bits == 32)
      put(static_cast<int32_t>(value));
    else
      put(static_cast<int64_t>(value));
  }
  return out;
}

IrModule parsed(const char* text, const std::string& entry) {
  auto module = parse_module(text);
  if (!module) ADD_FAILURE() << module.error().to_string();
  IrModule out = module ? *module : IrModule{};
  out.entry = entry;
  return out;
}

/// Compiles and runs `module`, and compares all memory, bit for bit, with what the interpreter leaves.
void expect_as_interpreted(const IrModule& module, std::vector<int64_t> ints = {}, const char* target_name = "host",
                           int threads = 1, LlvmOptions options_of_code = {}) {
  options_of_code.verify = true;
  SCOPED_TRACE(target_name);
  const Func& func = module.funcs.at(module.entry);
  std::vector<Bytes> mine, theirs;
  for (size_t i = 0; i < func->params.size(); ++i) {
    mine.push_back(filled(*func->params[i].buffer, i + 1));
    theirs.push_back(mine.back());
  }
  std::vector<BufferArg> args;
  for (Bytes& b : theirs) args.push_back({b.begin(), b.size});
  const auto interpreted = interpret(module, args, ints);
  ASSERT_TRUE(interpreted) << interpreted.error().to_string();

  const auto target = parse_target(target_name);
  ASSERT_TRUE(target);
  const auto object = compile_object(module, *target, options_of_code);
  ASSERT_TRUE(object) << object.error().to_string();
  const auto code = JitModule::load(*object);
  ASSERT_TRUE(code) << code.error().to_string();
  auto* kernel = code->function<Kernel>(module.entry);
  ASSERT_NE(kernel, nullptr);
  std::vector<void*> pointers;
  for (Bytes& b : mine) pointers.push_back(b.begin());
  FettleTeamOptions options{threads, 0, 0};
  FettleContext context{};
  context.team = threads > 1 ? fettle_team_create(&options) : nullptr;
  context.scratch = fettle_scratch_create();
  EXPECT_EQ(kernel(&context, pointers.data(), ints.data()), FETTLE_OK);
  fettle_scratch_destroy(context.scratch);
  fettle_team_destroy(context.team);
  for (size_t i = 0; i < mine.size(); ++i)
    EXPECT_EQ(mine[i].data, theirs[i].data) << "parameter " << func->params[i].buffer->name;
}

void expect_on_all_targets(const char* text, std::vector<int64_t> ints = {}) {
  const IrModule module = parsed(text, "f");
  if (module.funcs.empty()) return;
  expect_as_interpreted(module, ints);
  expect_as_interpreted(module, ints, "x86-64-avx2");
}

TEST(Llvm, ScalarArithmetic) {
  expect_on_all_targets(R"(lowered func f(A: f32[64], B: f32[64], C: f32[512] output):
  for i in 64:
    C[i] = A[i] + B[i] * 3.0
    C[i + 64] = A[i] - B[i]
    C[i + 128] = min(A[i], B[i])
    C[i + 192] = max(A[i], B[i])
    C[i + 256] = select(A[i] < B[i], A[i], -1.0)
    C[i + 320] = floor(A[i] * 0.3) + ceil(B[i] * 0.7) + trunc(A[i] * 0.6) + round(B[i] * 0.5)
    C[i + 384] = abs(A[i]) / 2.0 + sqrt(abs(B[i] * B[i]))
    C[i + 448] = fma(A[i], B[i], 1.0)
)");
}

TEST(Llvm, IntegerArithmetic) {
  expect_on_all_targets(
      R"(lowered func f(A: i32[64], B: i32[64], C: i32[704] output, U: u8[64], D: u8[128] output, L: i64[64], M: i64[128] output):
  for i in 64:
    let d = select(B[i] == 0i32, 7i32, B[i]):
      C[i] = A[i] // d
      C[i + 64] = A[i] % d
    C[i + 128] = A[i] // 8i32
    C[i + 192] = A[i] % 8i32
    C[i + 256] = A[i] // 7i32 + A[i] % 7i32 * 100i32
    C[i + 320] = min(A[i], B[i]) * max(A[i], B[i])
    C[i + 384] = select(A[i] <= B[i] && !(A[i] == 3i32), 1i32, 2i32)
    C[i + 448] = i32(A[i] != B[i] || A[i] < 0i32)
    C[i + 512] = abs(A[i])
    C[i + 576] = i32(U[i]) - 5i32
    C[i + 640] = i32(i8(A[i] * 40i32))
    D[i] = U[i] // 3u8
    D[i + 64] = max(U[i], 4u8)
    M[i] = L[i] // (0 - 3)
    M[i + 64] = L[i] % (0 - 3)
)");
}

TEST(Llvm, Casts) {
  expect_on_all_targets(
      R"(lowered func f(A: f32[64], H: f16[64], G: bf16[64], I: i8[64], Z: bool[64], C: f32[384] output, J: i8[128] output, K: u8[64] output, L: i64[64] output, P: f16[64] output, Q: bf16[128] output, Y: bool[64] output, D: f64[64] output):
  for i in 64:
    C[i] = f32(H[i])
    C[i + 64] = f32(G[i])
    C[i + 128] = f32(I[i])
    C[i + 192] = f32(Z[i])
    C[i + 256] = f32(f64(A[i]) / 3.0f64)
    C[i + 320] = f32(G[i] * G[i] + G[i])
    J[i] = i8(A[i] * 30.0)
    J[i + 64] = i8(i32(A[i]) * 37i32)
    K[i] = u8(A[i] * 50.0)
    L[i] = i64(A[i] * 0.7)
    P[i] = f16(A[i] * 0.37)
    Q[i] = bf16(A[i] * 0.37)
    Q[i + 64] = bf16(f32(I[i]) * 1.7)
    Y[i] = A[i] < 2.0
    D[i] = f64(A[i]) * 0.1f64
)");
}

// Peeled tails have the variable of the loop that they are cut from.
TEST(Llvm, LoopsOfOneVariable) {
  IrModule module = parsed(R"(lowered func f(A: f32[64], B: f32[64] output):
  for i in 64:
    B[i] = A[i] * 2.0
)",
                           "f");
  Func& func = module.funcs.at("f");
  const Stmt loop = func->body;
  const auto part = [&](int64_t min, int64_t extent) {
    auto made = make_ref<ForNode>(*loop.as<ForNode>());
    made->min = Expr(min);
    made->extent = Expr(extent);
    return Stmt(std::move(made));
  };
  func = with_body(func, seq({part(3, 1), part(10, 20), part(5, 1), part(40, 8)}));
  expect_as_interpreted(module);
}

TEST(Llvm, VectorsAndMasks) {
  expect_on_all_targets(R"(lowered func f(A: f32[256], B: f32[256], C: f32[256] output, n: i64):
  for i in 8:
    let mask = ramp(i * 16, 1, 16) < broadcast(n, 16):
      C[ramp(i * 16, 1, 16) if mask] = A[ramp(i * 16, 1, 16) if mask] + B[ramp(i * 16, 1, 16)]
  for i in 2:
    let mask = broadcast(n - 90, 16) <= ramp(i * 16 + 1, 1, 16):
      C[ramp(i * 16 + 128, 1, 16) if mask] = select(mask, A[ramp(i * 16, 1, 16)], B[ramp(i * 16, 1, 16)])
  C[ramp(200, 1, 8)] = shuffle([A[ramp(0, 1, 8)], B[ramp(0, 1, 8)]], [0, 8, 1, 9, 2, 10, 3, 11])
  C[ramp(208, 1, 4)] = shuffle([A[ramp(0, 1, 2)], A[ramp(4, 1, 2)], A[ramp(8, 1, 2)]], [5, 0, 3, 1])
  C[250] = shuffle([A[ramp(0, 1, 8)]], [5])
)",
                        {100});
}

TEST(Llvm, MasksAtTheirEdges) {
  const IrModule module = parsed(R"(lowered func f(A: f32[64], C: f32[64] output, I: i8[64], J: i8[64] output, n: i64):
  C[ramp(0, 1, 16) if ramp(0, 1, 16) < broadcast(n, 16)] = A[ramp(0, 1, 16)]
  C[ramp(16, 1, 8) if broadcast(n, 8) < ramp(0, 1, 8)] = A[ramp(16, 1, 8)]
  C[ramp(32, 1, 16) if ramp(0, 1, 16) <= broadcast(n, 16) && broadcast(3, 16) < ramp(0, 1, 16)] = A[ramp(32, 1, 16)]
  J[ramp(0, 1, 64) if ramp(0, 1, 64) < broadcast(n, 64)] = I[ramp(0, 1, 64)]
)",
                                 "f");
  for (const int64_t n : {-100, -1, 0, 1, 7, 15, 16, 17, 40, 64, 1000}) {
    SCOPED_TRACE(n);
    expect_as_interpreted(module, {n});
    expect_as_interpreted(module, {n}, "x86-64-avx2");
  }
}

TEST(Llvm, FirstLanesAreStoredInPiecesWhereMasksAreDear) {
  for (int n = 1; n < 16; ++n) {
    SCOPED_TRACE(n);
    const IrModule module =
        parsed(fmt::format("lowered func f(A: f32[16], I: i8[16], C: f32[20] output, J: i8[20] output):\n"
                           "  C[ramp(1, 1, 16) if ramp(0, 1, 16) < broadcast({0}, 16)] = A[ramp(0, 1, 16)]\n"
                           "  J[ramp(3, 1, 16) if ramp(0, 1, 16) < broadcast({0}, 16)] = I[ramp(0, 1, 16)]\n",
                           n)
                   .c_str(),
               "f");
    expect_as_interpreted(module, {});
    expect_as_interpreted(module, {}, "x86-64-avx2");
    const std::string code = *emit_assembly(module, parse_target("x86-64-avx2").value());
    EXPECT_EQ(code.find("vmaskmov"), std::string::npos) << code;
  }
}

// Lane numbers of more lanes than a byte counts.
TEST(Llvm, MasksOfManyLanes) {
  const IrModule module = parsed(R"(lowered func f(A: f32[300], C: f32[900] output, n: i64):
  C[ramp(0, 1, 127) if ramp(0, 1, 127) < broadcast(n, 127)] = A[ramp(0, 1, 127)]
  C[ramp(200, 1, 128) if ramp(0, 1, 128) < broadcast(n, 128)] = A[ramp(0, 1, 128)]
  C[ramp(400, 1, 257) if broadcast(n, 257) <= ramp(0, 1, 257)] = A[ramp(0, 1, 257)]
)",
                                 "f");
  for (const int64_t n : {-1, 0, 1, 126, 127, 128, 129, 255, 256, 257, 300}) {
    SCOPED_TRACE(n);
    expect_as_interpreted(module, {n});
  }
}

// Of which whole registers are excluded by what is known: nothing of them is read or written.
TEST(Llvm, MasksWiderThanARegister) {
  const IrModule module = parsed(R"(lowered func f(A: f32[100], C: f32[640] output, n: i64):
  for k in 8:
    C[ramp(k * 16, 1, 16)] = A[ramp(k * 5, 1, 16) if broadcast(k < n, 16) && ramp(0, 1, 16) < broadcast(5, 16)]
  for k in 8:
    C[ramp(k * 32 + 128, 1, 32) if broadcast(k < n, 32) && ramp(0, 1, 32) < broadcast(5, 32)] = A[ramp(k, 1, 32) if broadcast(7, 32) < ramp(0, 1, 32) || broadcast(k < n, 32)]
  for k in 8:
    C[ramp(k * 27 + 384, 1, 27)] = A[ramp(k * 4, 1, 27) if broadcast(k < n, 27) && broadcast(24, 27) < ramp(0, 1, 27)]
)",
                                 "f");
  for (const int64_t n : {0, 3, 8}) {
    SCOPED_TRACE(n);
    expect_as_interpreted(module, {n});
    expect_as_interpreted(module, {n}, "x86-64-avx2");
  }
}

// f // 2 % n stands in the inner loop, under a condition: a pointer that this loop carries may begin with it.
TEST(Llvm, DivisionsMayBePartOfACarriedPointer) {
  const IrModule module = parsed(R"(lowered func g(A: f32[512], T: f32[1664] output, n: i64):
  for f in n * 26:
    T[f] = 0.0
    for k in 4:
      if k + f // (n * 2) < 4:
        T[n * (f // (n * 2)) * 2 + f // 2 % n * 2 + f % 2] = T[n * (f // (n * 2)) * 2 + f // 2 % n * 2 + f % 2] + A[f // 2 % n * 8 + f % 2 * 4 + k]
)",
                                 "g");
  for (const int64_t n : {1, 6, 64}) {
    SCOPED_TRACE(n);
    expect_as_interpreted(module, {n});
  }
}

// Lanes that a mask excludes divide by what is not there; and what has no value ends no process.
TEST(Llvm, DivisionsDoNotTrap) {
  expect_on_all_targets(
      R"(lowered func f(A: i32[32], B: i32[32], C: u16[32], D: u16[32], X: i32[64] output, Y: u16[64] output):
  X[ramp(0, 1, 16)] = A[ramp(0, 1, 16)] // (B[ramp(0, 1, 16)] * broadcast(i32(2), 16) + broadcast(i32(1), 16))
  X[ramp(16, 1, 16)] = A[ramp(0, 1, 16)] % (B[ramp(0, 1, 16)] * broadcast(i32(2), 16) - broadcast(i32(1), 16))
  X[ramp(32, 1, 16) if ramp(0, 1, 16) < broadcast(5, 16)] = A[ramp(0, 1, 16)] // max(B[ramp(0, 1, 16) if ramp(0, 1, 16) < broadcast(5, 16)], A[ramp(16, 1, 16) if ramp(0, 1, 16) < broadcast(5, 16)] * A[ramp(16, 1, 16) if ramp(0, 1, 16) < broadcast(5, 16)] + broadcast(i32(1), 16))
  Y[ramp(0, 1, 16)] = C[ramp(0, 1, 16)] // (D[ramp(0, 1, 16)] + broadcast(u16(1), 16))
)");
  const IrModule module = parsed(
      "lowered func f(A: i32[16], Z: i32[16], U: u8[16], W: u8[16], X: i32[16] output, Y: u8[16] output):\n"
      "  X[ramp(0, 1, 16)] = A[ramp(0, 1, 16)] // Z[ramp(0, 1, 16)]\n"
      "  Y[ramp(0, 1, 16)] = U[ramp(0, 1, 16)] % W[ramp(0, 1, 16)]\n",
      "f");
  std::vector<int32_t> a(16, INT32_MIN), z(16, 0), x(16, 7);
  std::vector<uint8_t> u(16, 9), w(16, 0), y(16, 7);
  z[3] = -1;
  const auto code = JitModule::load(*compile_object(module, *parse_target("host")));
  ASSERT_TRUE(code);
  void* pointers[] = {a.data(), z.data(), u.data(), w.data(), x.data(), y.data()};
  FettleContext context{};
  EXPECT_EQ(code->function<Kernel>("f")(&context, pointers, nullptr), FETTLE_OK);
  EXPECT_EQ(x, a);  // INT32_MIN // -1 wraps
}

// One choice for all lanes: where it is not made, nothing is read, whatever the lanes' own mask says.
TEST(Llvm, MaskedReadsUnderOneChoice) {
  const IrModule module = parsed(R"(lowered func f(A: f32[16], C: f32[160] output, n: i64):
  for k in 10:
    C[ramp(k * 16, 1, 16)] = select(n <= k, A[broadcast((k - n) * 2000000000, 16) if ramp(0, 1, 16) < broadcast(7, 16)], broadcast(1.0, 16))
  for k in 5:
    C[ramp(k * 16, 1, 16)] = select(k == 2, A[ramp((k - 2) * 2000000000, 1, 16) if ramp(0, 1, 16) < broadcast(7, 16)], C[ramp(k * 16, 1, 16)])
)",
                                 "f");
  expect_as_interpreted(module, {9});
}

TEST(Llvm, StridedAndScattered) {
  expect_on_all_targets(R"(lowered func f(A: f32[512], I: i64[16], C: f32[512] output, n: i64):
  C[ramp(0, 1, 16)] = A[ramp(3, 5, 16)]
  C[ramp(16, 3, 16)] = A[ramp(0, 1, 16)]
  C[ramp(100, 1, 16)] = A[ramp(7, n, 16)]
  C[ramp(120, 1, 8)] = A[broadcast(20, 8) + ramp(0, 1, 8) * broadcast(2, 8)]
  C[ramp(140, 1, 16)] = A[I[ramp(0, 1, 16)] + broadcast(40, 16)]
  C[ramp(160, 2, 8) if ramp(0, 1, 8) < broadcast(n, 8)] = A[ramp(0, 4, 8) if ramp(0, 1, 8) < broadcast(n, 8)]
  C[ramp(200, 1, 16)] = A[broadcast(n, 16)]
  C[ramp(0, 1, 16) % broadcast(4, 16) * broadcast(16, 16) + ramp(0, 1, 16) // broadcast(4, 16) + broadcast(300, 16)] = A[ramp(0, 1, 16)]
)",
                        {5});
}

// Lanes near each other are read as runs and shuffled: of all widths, up to both ends of what they read.
TEST(Llvm, LanesNearEachOther) {
  expect_on_all_targets(R"(lowered func f(A: f32[64], C: f32[400] output, n: i64):
  C[ramp(0, 1, 16)] = A[ramp(15, -1, 16)]
  C[ramp(16, 1, 16)] = A[ramp(0, 2, 16)]
  C[ramp(32, 1, 16)] = A[ramp(63, -3, 16)]
  C[ramp(48, 1, 16)] = A[ramp(3, 4, 16)]
  C[ramp(64, 1, 5)] = A[ramp(1, 2, 5)]
  C[ramp(72, 1, 40)] = A[ramp(40, -1, 40)]
  for k in 4:
    C[ramp(k * 16 + 112, 1, 16)] = A[ramp(k * 16, 1, 16) // broadcast(2, 16)]
    C[ramp(k * 16 + 176, 1, 16)] = A[ramp(k * 4 + 3, 1, 16) % broadcast(4, 16) + broadcast(n, 16)]
  C[ramp(240, 1, 48)] = A[ramp(0, 1, 48) % broadcast(3, 48) * broadcast(16, 48) + ramp(0, 1, 48) // broadcast(3, 48)]
  C[ramp(288, 1, 16)] = A[ramp(33, 2, 16) if ramp(0, 1, 16) < broadcast(9, 16)]
  C[ramp(304, 1, 16)] = A[ramp(40, 7, 16) if ramp(0, 1, 16) < broadcast(n, 16)]
)",
                        {3});
  for (const char* type : {"f64", "i8", "f16", "bf16", "bool"}) {
    SCOPED_TRACE(type);
    const std::string text = fmt::format(R"(lowered func f(A: {0}[64], C: {0}[64] output):
  C[ramp(0, 1, 16)] = A[ramp(15, -1, 16)]
  C[ramp(16, 1, 16)] = A[ramp(33, 2, 16)]
  C[ramp(32, 1, 32)] = A[ramp(20, 1, 32) // broadcast(2, 32) + broadcast(38, 32)]
)",
                                         type);
    expect_on_all_targets(text.c_str());
  }
}

TEST(Llvm, LanesNearEachOtherAreNotReadOneByOne) {
  const IrModule module = parsed(R"(lowered func f(A: f32[64], C: f32[64] output):
  C[ramp(0, 1, 16)] = A[ramp(0, 1, 16) // broadcast(2, 16)]
  C[ramp(16, 1, 16)] = A[ramp(2, 2, 16)]
)",
                                 "f");
  const std::string code = *emit_assembly(module, parse_target("x86-64-avx2").value());
  EXPECT_EQ(code.find("gather"), std::string::npos) << code;
  EXPECT_EQ(code.find("vinsertps"), std::string::npos) << code;
}

// What a mask of the read itself excludes is zero, even where the whole vector is known.
TEST(Llvm, MaskedReadsOfWhatIsKnown) {
  expect_on_all_targets(R"(lowered func f(A: f32[64], C: f32[64] output, n: i64):
  C[ramp(0, 1, 16)] = A[ramp(0, 1, 16) if broadcast(0.5, 16) < A[ramp(0, 1, 16)]]
  C[ramp(16, 1, 16)] = A[ramp(16, 1, 16)] + A[ramp(16, 1, 16) if ramp(0, 1, 16) < broadcast(n, 16)]
  C[ramp(32, 1, 16)] = A[ramp(32, 1, 16)] + A[ramp(32, 1, 16) if ramp(0, 1, 16) < broadcast(7, 16)]
)",
                        {9});
}

TEST(Llvm, ReadsUnderASelectTouchOnlyWhatIsChosen) {
  // A[-16…] and A[64…] would be outside.
  expect_on_all_targets(R"(lowered func f(A: f32[64], C: f32[96] output):
  for i in 96:
    C[i] = select(16 <= i && i < 80, A[i - 16], 0.0)
)");
  expect_on_all_targets(R"(lowered func f(A: f32[64], C: f32[64] output, n: i64):
  for i in 64:
    if i < n && A[i + 16] < 3.0:
      C[i] = A[i + 16]
)",
                        {48});
}

// Reads of which no lane counts look at memory that is there: far outside they would be right, and slow.
TEST(Llvm, ReadsWithoutLanesStayInTheBuffer) {
  const char* text = R"(lowered func f(A: f32[64], C: f32[256] output, n: i64):
  for i in 8:
    C[ramp(i * 16, 1, 16)] = select(3 <= i && i < 6, A[ramp((i - 3) * 16, 1, 16) if ramp(0, 1, 16) < broadcast(n, 16)], broadcast(0.5, 16))
  for i in 8:
    C[ramp(i * 16 + 128, 1, 16)] = A[ramp((i - 3) * 16, 1, 16) if broadcast(3 <= i && i < 6, 16) && ramp(0, 1, 16) < broadcast(n, 16)]
)";
  for (const int64_t n : {0, 9, 16}) expect_on_all_targets(text, {n});
  const std::string code = *emit_assembly(parsed(text, "f"), parse_target("x86-64-avx2").value());
  size_t choices = 0;
  for (size_t at = 0; (at = code.find("cmov", at)) != std::string::npos; ++at) ++choices;
  EXPECT_GE(choices, 2u) << code;
}

TEST(Llvm, RegistersThroughLoopsAndBranches) {
  expect_on_all_targets(R"(lowered func f(A: f32[1024], B: f32[1024], C: f32[128] output, n: i64, m: i64):
  allocate acc: f32[64] @register
  allocate t: f32[2] @register
  acc[ramp(0, 1, 16)] = broadcast(1.0, 16)
  acc[ramp(16, 1, 16)] = A[ramp(16, 1, 16)]
  acc[ramp(32, 1, 16)] = broadcast(0.0, 16)
  acc[ramp(48, 1, 8)] = B[ramp(0, 1, 8)]
  t[0] = 0.0
  t[1] = 5.0
  for i in n:
    for j in m:
      acc[ramp(0, 1, 16)] = acc[ramp(0, 1, 16)] + A[ramp(i * 16 + j, 1, 16)] * broadcast(B[j], 16)
      t[0] = t[0] + B[i + j]
    if i < 3:
      acc[ramp(16, 1, 16)] = acc[ramp(16, 1, 16)] - acc[ramp(0, 1, 16)]
    else:
      acc[ramp(32, 1, 16)] = acc[ramp(16, 1, 16)]
      if i == 5:
        t[1] = t[0]
    acc[49] = acc[49] + 1.0
    acc[ramp(52, 1, 4)] = acc[ramp(52, 1, 4)] * broadcast(2.0, 4)
  C[ramp(0, 1, 16)] = acc[ramp(0, 1, 16)]
  C[ramp(16, 1, 16)] = acc[ramp(16, 1, 16)]
  C[ramp(32, 1, 16)] = acc[ramp(32, 1, 16)]
  C[ramp(48, 1, 8)] = acc[ramp(48, 1, 8)]
  C[64] = t[0]
  C[65] = t[1]
)",
                        {7, 4});
  // Loops that run not at all.
  expect_on_all_targets(R"(lowered func f(A: f32[64], C: f32[16] output, n: i64, m: i64):
  allocate acc: f32[16] @register
  acc[ramp(0, 1, 16)] = A[ramp(0, 1, 16)]
  for i in n:
    for j in m:
      acc[ramp(0, 1, 16)] = acc[ramp(0, 1, 16)] + A[ramp(i * 16, 1, 16)]
  C[ramp(0, 1, 16)] = acc[ramp(0, 1, 16)]
)",
                        {3, 0});
}

TEST(Llvm, RegistersThatDoNotFitLieOnTheStack) {
  expect_on_all_targets(R"(lowered func f(A: f32[64], C: f32[64] output):
  allocate r: f32[32] @register
  for i in 32:
    r[i] = A[i] * 2.0
  r[ramp(4, 1, 8)] = r[ramp(8, 1, 8)]
  r[ramp(6, 1, 8)] = r[ramp(0, 1, 8)]
  for i in 32:
    C[i] = r[i]
)");
}

/// Three taps of a row at once: `rows` pixels by two vectors of channels, with `rows` + 2 broadcast elements.
std::string three_taps(int rows) {
  std::string text = fmt::format(R"(lowered func f(A: f32[1024], W: f32[3072], C: f32[{0}] output):
  allocate acc: f32[{0}] @register
)",
                                 rows * 32);
  for (int i = 0; i < rows * 2; ++i) text += fmt::format("  acc[ramp({}, 1, 16)] = broadcast(0.0, 16)\n", i * 16);
  text += "  for k in 32:\n";
  for (int tap = 0; tap < 3; ++tap) {
    for (int i = 0; i < rows * 2; ++i)
      text += fmt::format(
          "    acc[ramp({0}, 1, 16)] = acc[ramp({0}, 1, 16)] + broadcast(A[k + {1}], 16) * W[ramp(k * 96 + {2}, 1, "
          "16)]\n",
          i * 16, (i / 2 + tap) * 32, tap * 32 + i % 2 * 16);
  }
  for (int i = 0; i < rows * 2; ++i) text += fmt::format("  C[ramp({0}, 1, 16)] = acc[ramp({0}, 1, 16)]\n", i * 16);
  return text;
}

int count(const std::string& text, const std::string& what) {
  int found = 0;
  for (size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++found;
  return found;
}

TEST(Llvm, StepsShareWhatTheyBroadcastWhereRegistersHoldIt) {
  const Target target = *parse_target("x86-64-avx512");
  ASSERT_EQ(target.vector_registers, 32);
  for (const int rows : {7, 14}) {
    const IrModule module = parsed(three_taps(rows).c_str(), "f");
    expect_as_interpreted(module);
    const std::string code = *emit_assembly(module, target);
    EXPECT_EQ(count(code, "zmmword ptr [rsp"), 0) << code;
    // Loads of one element: shared by the taps of the small tile, each tap's own in the large one.
    EXPECT_EQ(count(code, "\tvbroadcastss\t"), rows == 7 ? 9 : 42) << code;
  }
}

TEST(Llvm, MemoryOfAnIterationIsReadInTheLoopItself) {
  expect_on_all_targets(R"(lowered func f(A: f32[64], C: f32[64] output, n: i64):
  for i in n:
    for j in 6:
      allocate T: f32[n * 6]
      for k in n * 6:
        T[k] = A[k] * 2.0
      C[i * 6 + j] = T[i * 6 + j]
)",
                        {8});
}

TEST(Llvm, WhileAndLet) {
  expect_on_all_targets(R"(lowered func f(A: f32[64], C: f32[64] output):
  allocate s: f32[2] @register
  s[0] = 0.0
  s[1] = 100.0
  let twice = 2.0 * A[3]:
    while s[0] < 10.0:
      s[0] = s[0] + 1.5
      s[1] = s[1] - s[0]
    C[0] = s[0] + twice
  C[1] = s[1]
)");
}

TEST(Llvm, ReadsAfterWritesSeeThem) {
  expect_on_all_targets(R"(lowered func f(A: f32[64], C: f32[64] output, n: i64):
  C[0] = A[0]
  C[1] = C[0] + A[1]
  C[0] = A[2]
  C[2] = C[0]
  for i in n:
    C[3] = C[3] + A[i]
    C[i + 8] = C[3]
  C[4] = C[3]
  if n < 5:
    C[4] = 7.0
  C[5] = C[4]
  let old = C[5]:
    C[5] = 1.0
    C[6] = old
    let at = i64(A[9]) + 10:
      C[at] = 3.0
      C[at + 10] = C[at]
)",
                        {9});
}

TEST(Llvm, RowsOfRunTimeStride) {
  // 30 rows: every entry of the table of row addresses, loads and stores, in a loop and outside.
  std::string text =
      "lowered func f(A: f32[8192], C: f32[8192] output, n: i64 in 1.., lda: i64, ldc: i64):\n"
      "  allocate acc: f32[30] @register\n";
  for (int r = 0; r < 30; ++r) text += "  acc[" + std::to_string(r) + "] = 0.0\n";
  text += "  for k in n:\n";
  for (int r = 0; r < 30; ++r)
    text += "    acc[" + std::to_string(r) + "] = acc[" + std::to_string(r) + "] + A[" + std::to_string(r) +
            " * lda + k] * A[k * 3 + 7]\n";
  for (int r = 0; r < 30; ++r) text += "  C[" + std::to_string(r) + " * ldc + 2] = acc[" + std::to_string(r) + "]\n";
  expect_on_all_targets(text.c_str(), {40, 51, 43});
}

TEST(Llvm, AddressesInNests) {
  expect_on_all_targets(R"(lowered func f(A: f32[8192], C: f32[8192] output, n: i64, lda: i64):
  for i in 3 +: n:
    for j in i +: 5:
      for k in 6:
        C[i * lda + j * 16 + k] = C[i * lda + j * 16 + k] + A[j * lda + k * i + 3] + A[(i + j) * (k + 1)]
)",
                        {6, 70});
}

TEST(Llvm, Calls) {
  const IrModule module = parsed(R"(lowered func add(X: f32[64], Y: f32[64] output, n: i64, scale: i64):
  for i in n:
    Y[i] = Y[i] + X[i] * f32(scale)

lowered func f(A: f32[256], C: f32[256] output):
  for i in 4:
    call add(&A[i * 64], &C[i * 32 + 8], 20, i)
    C[i] = C[i + 8]
)",
                                 "f");
  expect_as_interpreted(module);
  expect_as_interpreted(module, {}, "x86-64-avx2");
}

TEST(Llvm, CallsAcrossObjects) {
  const IrModule both = parsed(R"(lowered func add(X: f32[64], Y: f32[64] output, n: i64):
  for i in n:
    Y[i] = Y[i] + X[i]

lowered func f(A: f32[256], C: f32[256] output):
  call add(&A[3], &C[8], 20)
)",
                               "f");
  IrModule caller = both, callee = both;
  caller.funcs.erase("add");
  callee.funcs.erase("f");
  callee.entry.clear();
  const Target target = detect_host();
  std::vector<std::vector<uint8_t>> objects{*compile_object(caller, target), *compile_object(callee, target)};
  EXPECT_EQ(JitModule::load(objects[0]).error().code, ErrorCode::E303);  // add is missing
  const auto code = JitModule::load(objects);
  ASSERT_TRUE(code) << code.error().to_string();
  std::vector<float> a(256, 2), c(256, 1);
  void* buffers[] = {a.data(), c.data()};
  FettleContext context{};
  EXPECT_EQ(code->function<Kernel>("f")(&context, buffers, nullptr), FETTLE_OK);
  EXPECT_EQ(c[7], 1);
  EXPECT_EQ(c[8], 3);
  EXPECT_EQ(c[27], 3);
  EXPECT_EQ(c[28], 1);
  EXPECT_GT(code->size_bytes(), 0);
  EXPECT_EQ(code->lookup("nothing"), nullptr);
}

TEST(Llvm, ParallelLoops) {
  const IrModule module = parsed(R"(lowered func add(X: f32[64], Y: f32[64] output, n: i64):
  for i in n:
    Y[i] = Y[i] + X[i]

lowered func f(A: f32[4096], C: f32[4096] output, n: i64):
  let scale = A[5] + 1.0:
    for i in 2 +: n parallel:
      allocate acc: f32[16] @register
      allocate t: f32[16]
      acc[ramp(0, 1, 16)] = broadcast(scale, 16)
      for k in 4:
        acc[ramp(0, 1, 16)] = acc[ramp(0, 1, 16)] + A[ramp(i * 64 + k * 16, 1, 16)]
      t[ramp(0, 1, 16)] = acc[ramp(0, 1, 16)]
      C[ramp(i * 64, 1, 16)] = t[ramp(0, 1, 16)] + C[ramp(i * 64, 1, 16)]
      call add(&A[i], &C[i * 64 + 16], 8)
  C[0] = C[2 * 64]
)",
                                 "f");
  expect_as_interpreted(module, {60});
  expect_as_interpreted(module, {60}, "host", 2);
  expect_as_interpreted(module, {0}, "host", 2);
}

TEST(Llvm, ScratchBlocks) {
  const IrModule module = parsed(R"(lowered func f(A: f32[8192], C: f32[8192] output, n: i64):
  for p in 2 parallel:
    allocate t: f32[8192]
    for i in 4096:
      t[i] = A[p * 4096 + i] + 1.0
    for i in n:
      C[p * 4096 + i] = t[4095 - i]
)",
                                 "f");
  expect_as_interpreted(module, {4096}, "host", 2);
}

TEST(Llvm, LackOfMemoryIsReported) {
  const IrModule module = parsed(R"(lowered func f(C: f32[64] output, n: i64):
  C[0] = 1.0
  for i in 3 parallel:
    allocate t: f32[n]
    t[0] = 5.0
    C[i + 1] = t[0]
  C[10] = 2.0
)",
                                 "f");
  const auto object = compile_object(module, detect_host());
  ASSERT_TRUE(object) << object.error().to_string();
  const auto code = JitModule::load(*object);
  ASSERT_TRUE(code);
  std::vector<float> c(64, 0);
  void* buffers[] = {c.data()};
  FettleContext context{};
  int64_t too_much = int64_t{1} << 50;
  EXPECT_EQ(code->function<Kernel>("f")(&context, buffers, &too_much), FETTLE_OUT_OF_MEMORY);
  EXPECT_EQ(c[1], 0);
  int64_t enough = 100;
  EXPECT_EQ(code->function<Kernel>("f")(&context, buffers, &enough), FETTLE_OK);
  EXPECT_EQ(c[3], 5);
}

// f(A, B, C) over 64 elements, `lanes` at a time: minima, maxima and ordered ones of operands that may be NaN, and of
// constants.
std::string extremes_text(const std::string& type, int lanes) {
  const auto at = [&](int first) {
    return lanes == 1 ? fmt::format("i + {}", first) : fmt::format("ramp(i * {} + {}, 1, {})", lanes, first, lanes);
  };
  const auto number = [&](double x) {
    const std::string text = to_text(float_imm(x, parse_dtype(type).value()));
    return lanes == 1 ? text : fmt::format("broadcast({}, {})", text, lanes);
  };
  const std::string mask = lanes == 1 ? "" : fmt::format("x{}", lanes);
  std::string text = fmt::format(
      "lowered func f(A: {0}[64], B: {0}[64], C: {0}[960] output):\n  allocate least: {0}[{1}] @register\n  allocate "
      "ordered: {0}[{1}] @register\n  allocate "
      "most: "
      "{0}[{1}] @register\n  least[{2}] = {3}\n  most[{2}] = {4}\n  ordered[{2}] = {4}\n  for i in {5}:\n",
      type, lanes, lanes == 1 ? "0" : fmt::format("ramp(0, 1, {})", lanes), number(INFINITY), number(-INFINITY),
      64 / lanes);
  const std::string here = lanes == 1 ? "0" : fmt::format("ramp(0, 1, {})", lanes);
  text +=
      fmt::format("    let x = select(A[{0}] == {1}, {2}, A[{0}])\n    let y = select(B[{0}] == {1}, {2}, B[{0}])\n",
                  at(0), number(3), number(NAN));
  const std::string values[] = {"min(x, y)",
                                "max(x, y)",
                                fmt::format("min(x, {})", number(2)),
                                fmt::format("max({}, x)", number(2)),
                                fmt::format("max(x, {})", number(-1)),
                                fmt::format("min(max(x, {}), {})", number(-1), number(2)),
                                fmt::format("max(x, {})", number(NAN)),
                                fmt::format("min({}, y)", number(NAN)),
                                "ordered_max(x, y)",
                                fmt::format("ordered_max({}, y)", number(2)),
                                fmt::format("ordered_max(y, {})", number(-1)),
                                fmt::format("ordered_max(x, {})", number(NAN))};
  int first = 0;
  for (const std::string& value : values) text += fmt::format("    C[{}] = {}\n", at(64 * first++), value);
  text += fmt::format(
      "    least[{0}] = min(least[{0}], x)\n    most[{0}] = max(x, most[{0}])\n    ordered[{0}] = ordered_max(x, "
      "ordered[{0}])\n",
      here);
  text += fmt::format("    C[{}] = least[{}]\n    C[{}] = most[{}]\n", at(768), here, at(832), here);
  text += fmt::format("    C[{}] = ordered[{}]\n", at(896), here);
  return text;
}

TEST(Llvm, MinimumAndMaximumOfNaN) {
  for (const char* type : {"f32", "f64", "f16", "bf16"})
    for (const int lanes : {1, 4, 8, 16}) expect_on_all_targets(extremes_text(type, lanes).c_str());
  const IrModule module = parsed(R"(lowered func f(A: f32[4], B: f32[4], C: f32[8] output):
  C[ramp(0, 1, 4)] = min(A[ramp(0, 1, 4)], B[ramp(0, 1, 4)])
  C[ramp(4, 1, 4)] = max(A[ramp(0, 1, 4)], B[ramp(0, 1, 4)])
)",
                                 "f");
  const auto code = JitModule::load(*compile_object(module, detect_host()));
  ASSERT_TRUE(code);
  float a[4] = {NAN, 1, 2, NAN}, b[4] = {5, NAN, 3, NAN}, c[8];
  void* buffers[] = {a, b, c};
  code->function<Kernel>("f")(nullptr, buffers, nullptr);
  for (const int i : {0, 1, 3, 4, 5, 7}) EXPECT_TRUE(std::isnan(c[i])) << i;
  EXPECT_EQ(c[2], 2);
  EXPECT_EQ(c[6], 3);
}

// Beside a constant one instruction, beside the one that all others exceed none; else two more, which ask whether an
// operand is NaN, or with AVX-512 one.
TEST(Llvm, WhatNaNsCostAnExtreme) {
  const auto instructions = [](const std::string& value, const char* target) {
    const std::string text =
        "lowered func f(A: f32[8], B: f32[8], C: f32[8] output):\n  C[ramp(0, 1, 8)] = " + value + "\n";
    const std::string code = *emit_assembly(parsed(text.c_str(), "f"), parse_target(target).value());
    int count = 0;
    for (size_t at = code.find("ymm"); at != std::string::npos; at = code.find("ymm", at + 1)) {
      ++count;  // lines, each of which names some of them
      at = code.find('\n', at);
    }
    return count;
  };
  const std::string a = "A[ramp(0, 1, 8)]", b = "B[ramp(0, 1, 8)]";
  for (const char* target : {"x86-64-avx2", "x86-64-avx512"}) {
    const int copy = instructions(a, target);
    EXPECT_LE(instructions("max(" + a + ", broadcast(0.0, 8))", target), copy + 2) << target;  // and zero itself
    EXPECT_EQ(instructions("max(broadcast(0.0, 8), " + a + ")", target),
              instructions("max(" + a + ", broadcast(0.0, 8))", target));
    EXPECT_EQ(instructions("min(" + a + ", broadcast(inf, 8))", target), copy) << target;
    EXPECT_EQ(instructions("max(broadcast(-inf, 8), " + a + ")", target), copy) << target;
    const bool one = target == std::string_view("x86-64-avx512");
    EXPECT_LE(instructions("max(" + a + ", " + b + ")", target), copy + (one ? 4 : 3)) << target;  // and a table
  }
  const std::string text =
      "lowered func f(A: f32[4], B: f32[4]):\n  B[ramp(0, 1, 4)] = max(A[ramp(0, 1, 4)], B[ramp(0, 1, 4)])\n";
  const std::string code = *emit_assembly(parsed(text.c_str(), "f"), parse_target("aarch64-neon").value());
  EXPECT_NE(code.find("fmax\t"), std::string::npos) << code;
  EXPECT_EQ(code.find("fcm"), std::string::npos) << code;
}

// An ordered maximum asks nothing: on x86 it is one instruction, on NEON a comparison and a choice.
TEST(Llvm, WhatAnOrderedMaximumCosts) {
  const auto assembly = [](const char* target) {
    const char* text =
        "lowered func f(A: f32[640], C: f32[16] output):\n  allocate most: f32[16] @register\n"
        "  most[ramp(0, 1, 16)] = broadcast(-inf, 16)\n  for i in 40:\n"
        "    most[ramp(0, 1, 16)] = ordered_max(A[ramp(i * 16, 1, 16)], most[ramp(0, 1, 16)])\n"
        "  C[ramp(0, 1, 16)] = most[ramp(0, 1, 16)]\n";
    expect_on_all_targets(text);
    return *emit_assembly(parsed(text, "f"), parse_target(target).value());
  };
  for (const char* target : {"x86-64-avx2", "x86-64-avx512"}) {
    const std::string code = assembly(target);
    EXPECT_NE(code.find("vmaxps"), std::string::npos) << code;
    for (const char* other : {"vfixupimm", "vcmp", "vblend", "vminps"})
      EXPECT_EQ(code.find(other), std::string::npos) << code;
  }
  const std::string code = assembly("aarch64-neon");
  EXPECT_NE(code.find("fcmgt"), std::string::npos) << code;
  EXPECT_EQ(code.find("fmax"), std::string::npos) << code;
}

// A reduction with one value waits for a comparison no longer than it must; one with several has fewer instructions.
TEST(Llvm, WhatNaNsCostAReduction) {
  const auto assembly = [](int values) {
    std::string text = "lowered func f(A: f32[640], C: f32[64] output):\n  allocate most: f32[64] @register\n";
    const auto each = [&](const std::string& line) {
      for (int i = 0; i < values; ++i) text += fmt::format(fmt::runtime(line), 16 * i);
    };
    each("  most[ramp({0}, 1, 16)] = broadcast(-inf, 16)\n");
    text += "  for i in 10:\n";
    each("    most[ramp({0}, 1, 16)] = max(most[ramp({0}, 1, 16)], A[ramp(i * 64 + {0}, 1, 16)])\n");
    each("  C[ramp({0}, 1, 16)] = most[ramp({0}, 1, 16)]\n");
    expect_on_all_targets(text.c_str());
    return *emit_assembly(parsed(text.c_str(), "f"), parse_target("x86-64-avx512").value());
  };
  EXPECT_EQ(assembly(1).find("vfixupimm"), std::string::npos);
  EXPECT_NE(assembly(4).find("vfixupimm"), std::string::npos);
}

// What is neutral where a condition holds is a mask; ramps a constant apart are made of one.
TEST(Llvm, PlacesOfAnExtreme) {
  const char* text = R"(lowered func f(A: f32[640], C: i32[32] output):
  allocate place: i32[32] @register
  place[ramp(0, 1, 16)] = broadcast(2147483647i32, 16)
  place[ramp(16, 1, 16)] = broadcast(2147483647i32, 16)
  for i in 20:
    place[ramp(0, 1, 16)] = min(place[ramp(0, 1, 16)], select(A[ramp(i * 32, 1, 16)] <= broadcast(1.0, 16), broadcast(2147483647i32, 16), i32x16(ramp(i * 32, 1, 16))))
    place[ramp(16, 1, 16)] = min(place[ramp(16, 1, 16)], select(A[ramp(i * 32 + 16, 1, 16)] <= broadcast(1.0, 16), broadcast(2147483647i32, 16), i32x16(ramp(i * 32 + 16, 1, 16))))
  C[ramp(0, 1, 16)] = place[ramp(0, 1, 16)]
  C[ramp(16, 1, 16)] = max(place[ramp(16, 1, 16)], select(A[ramp(0, 1, 16)] <= broadcast(1.0, 16), place[ramp(0, 1, 16)], broadcast(-2147483648i32, 16)))
)";
  expect_on_all_targets(text);
  const std::string code = *emit_assembly(parsed(text, "f"), parse_target("x86-64-avx512").value());
  const size_t loop = code.find("vpminsd");
  ASSERT_NE(loop, std::string::npos);
  EXPECT_NE(code.find("{k", loop), std::string::npos) << code;
  EXPECT_EQ(code.find("vpblendm"), std::string::npos) << code;
}

TEST(Llvm, PowersOfIntegers) {
  for (const char* type : {"i8", "u8", "i16", "i32", "u32", "i64", "u64"}) {
    for (const int lanes : {1, 8}) {
      const auto at = [&](int first) {
        return lanes == 1 ? fmt::format("i + {}", first) : fmt::format("ramp(i * {} + {}, 1, {})", lanes, first, lanes);
      };
      const auto number = [&](int x) {
        return lanes == 1 ? fmt::format("{}{}", x, type) : fmt::format("broadcast({}{}, {})", x, type, lanes);
      };
      std::string text = fmt::format("lowered func f(A: {0}[64], B: {0}[64], C: {0}[448] output):\n  for i in {1}:\n",
                                     type, 64 / lanes);
      text += fmt::format("    C[{}] = pow(A[{}], B[{}])\n", at(0), at(0), at(0));
      int first = 64;
      for (const int exponent : {0, 1, 2, 3, 13}) {
        text += fmt::format("    C[{}] = pow(A[{}], {})\n", at(first), at(0), number(exponent));
        first += 64;
      }
      text += fmt::format("    C[{}] = pow(A[{}] * {}, B[{}] * B[{}] * B[{}])\n", at(first), at(0), number(3), at(0),
                          at(0), at(0));
      expect_on_all_targets(text.c_str());
    }
  }
}

TEST(Llvm, ComparisonsOfHalves) {
  const IrModule module = parsed(R"(lowered func f(A: f16[16], B: f16[16], C: f16[48] output):
  C[ramp(0, 1, 16)] = min(A[ramp(0, 1, 16)], B[ramp(0, 1, 16)])
  C[ramp(16, 1, 16)] = max(A[ramp(0, 1, 16)], B[ramp(0, 1, 16)])
  C[ramp(32, 1, 16)] = select(A[ramp(0, 1, 16)] <= B[ramp(0, 1, 16)], A[ramp(0, 1, 16)], B[ramp(0, 1, 16)])
)",
                                 "f");
  const auto code = JitModule::load(*compile_object(module, detect_host()));
  ASSERT_TRUE(code);
  // 1, -1, 0, -0, infinity, NaN, the least, 65504; each beside others.
  const uint16_t numbers[] = {0x3c00, 0xbc00, 0, 0x8000, 0x7c00, 0x7e00, 1, 0x7bff};
  uint16_t a[16], b[16], c[48], d[48];
  for (int i = 0; i < 16; ++i) a[i] = numbers[i % 8], b[i] = numbers[(i * 3 + i / 8) % 8];
  void* buffers[] = {a, b, c};
  code->function<Kernel>("f")(nullptr, buffers, nullptr);
  ASSERT_TRUE(interpret(module, std::vector<BufferArg>{{a, 32}, {b, 32}, {d, 96}}));
  for (int i = 0; i < 48; ++i)
    EXPECT_EQ(c[i] == 0x8000 ? 0 : c[i], d[i] == 0x8000 ? 0 : d[i]) << i;  // either zero will do
}

// Vectors as single elements: NaN becomes 0, and what is out of range the nearest integer.
TEST(Llvm, CastsToIntegersSaturate) {
  const std::vector<double> numbers = {NAN,          INFINITY,      -INFINITY,    -0.9,    0.5,      127.5,
                                       -128.7,       255.9,         -1,           65535.5, -32769.0, 2147483520.0,
                                       2147483648.0, -2147483648.0, 4294967040.0, 1e20};
  for (const char* from : {"f32", "f64"})
    for (const char* to : {"i8", "u8", "i16", "u16", "i32", "u32", "i64", "u64"}) {
      const std::string text = fmt::format(
          "lowered func f(A: {0}[16], B: {1}[16], C: {1}[16] output):\n"
          "  for i in 16:\n"
          "    B[i] = {1}(A[i])\n"
          "  C[ramp(0, 1, 16)] = {1}x16(A[ramp(0, 1, 16)])\n",
          from, to);
      const IrModule module = parsed(text.c_str(), "f");
      const auto object = compile_object(module, detect_host());
      ASSERT_TRUE(object) << object.error().to_string();
      const auto code = JitModule::load(*object);
      std::vector<double> a(16);
      if (std::string(from) == "f64") {
        a = numbers;
      } else {
        std::vector<float> narrow(numbers.begin(), numbers.end());
        std::memcpy(a.data(), narrow.data(), narrow.size() * sizeof(float));
      }
      std::vector<uint64_t> b(16), c(16), d(16);
      void* buffers[] = {a.data(), b.data(), c.data()};
      code->function<Kernel>("f")(nullptr, buffers, nullptr);
      EXPECT_EQ(b, c) << text;
      const int64_t in = std::string(from) == "f64" ? 128 : 64, out = 2 * std::stoi(std::string(to).substr(1));
      ASSERT_TRUE(interpret(module, std::vector<BufferArg>{{a.data(), in}, {b.data(), out}, {d.data(), out}}));
      EXPECT_EQ(d, c) << text;
    }
}

TEST(Llvm, ContractionIsOneRounding) {
  const char* text = R"(lowered func f(A: f32[4], C: f32[4] output)%s:
  C[0] = A[0] * A[1] + A[2]
)";
  for (const bool contract : {true, false}) {
    std::string source = text;
    source.replace(source.find("%s"), 2, contract ? "" : " {contract = 0}");
    const IrModule module = parsed(source.c_str(), "f");
    const auto code = JitModule::load(*compile_object(module, detect_host()));
    ASSERT_TRUE(code);
    float a[4] = {1 + 0x1p-12f, 1 + 0x1p-12f, -1, 0}, c[4];
    void* buffers[] = {a, c};
    code->function<Kernel>("f")(nullptr, buffers, nullptr);
    const float product = a[0] * a[1];
    EXPECT_EQ(c[0], contract ? std::fma(a[0], a[1], a[2]) : product + a[2]);
  }
  EXPECT_NE(std::fma(1 + 0x1p-12f, 1 + 0x1p-12f, -1.0f), (1 + 0x1p-12f) * (1 + 0x1p-12f) - 1.0f);
}

TEST(Llvm, MachineIntrinsics) {
  const Target host = detect_host();
  if (!host.has_feature("avx512vnni")) GTEST_SKIP() << "needs AVX-512 VNNI";
  const IrModule module = parsed(R"(lowered func f(A: u8[64], B: i8[64], C: i32[16] output):
  C[ramp(0, 1, 16)] = `llvm.x86.avx512.vpdpbusd.512`.i32x16(C[ramp(0, 1, 16)], A[ramp(0, 1, 64)], B[ramp(0, 1, 64)])
)",
                                 "f");
  const auto object = compile_object(module, host);
  ASSERT_TRUE(object) << object.error().to_string();
  const auto code = JitModule::load(*object);
  uint8_t a[64];
  int8_t b[64];
  int32_t c[16], expected[16];
  for (int i = 0; i < 64; ++i) {
    a[i] = static_cast<uint8_t>(i * 3);
    b[i] = static_cast<int8_t>(i - 40);
  }
  for (int i = 0; i < 16; ++i) {
    c[i] = expected[i] = i;
    for (int j = 0; j < 4; ++j) expected[i] += a[4 * i + j] * b[4 * i + j];
  }
  void* buffers[] = {a, b, c};
  code->function<Kernel>("f")(nullptr, buffers, nullptr);
  EXPECT_EQ(std::memcmp(c, expected, sizeof c), 0);
}

// Numbers of few bits, whatever the bits beside them are: AVX-512 looks 16 of them up.
TEST(Llvm, NumbersOfFewBits) {
  for (const int mask : {15, 5, 3, 16, 31}) {
    const std::string text = fmt::format(R"(lowered func f(A: i32[16], B: f32[16] output):
  B[ramp(0, 1, 16)] = f32x16(A[ramp(0, 1, 16)] & broadcast({}i32, 16))
)",
                                         mask);
    const IrModule module = parsed(text.c_str(), "f");
    const auto object = compile_object(module, detect_host());
    ASSERT_TRUE(object) << object.error().to_string();
    const auto code = JitModule::load(*object);
    int32_t a[16];
    float b[16];
    for (int i = 0; i < 16; ++i) a[i] = i * 0x01234567 + 977 * i;
    void* buffers[] = {a, b};
    code->function<Kernel>("f")(nullptr, buffers, nullptr);
    for (int i = 0; i < 16; ++i) EXPECT_EQ(b[i], static_cast<float>(a[i] & mask)) << i << " " << mask;
  }
}

// Rounded to nearest, half to even, moved, and saturated, in whatever order.
TEST(Llvm, IntegersOfRoundedNumbers) {
  const float numbers[16] = {0.5f,   1.5f,    2.5f,    -0.5f, -1.5f, 126.5f, 127.5f,    254.5f,
                             255.5f, -128.5f, -129.5f, 3e9f,  -3e9f, 1e30f,  -INFINITY, NAN};
  for (const char* type : {"u8", "i8", "u16", "i16"})
    for (const double more : {0.0, 9.0, 128.0, -7.0}) {
      const std::string text = fmt::format(R"(lowered func f(A: f32[16], B: {0}[16] output):
  B[ramp(0, 1, 16)] = {0}x16(round(A[ramp(0, 1, 16)]) + broadcast({1:.1f}, 16))
)",
                                           type, more);
      const IrModule module = parsed(text.c_str(), "f");
      const auto object = compile_object(module, detect_host());
      ASSERT_TRUE(object) << object.error().to_string();
      const auto code = JitModule::load(*object);
      uint16_t made[16] = {};
      void* buffers[] = {const_cast<float*>(numbers), made};
      code->function<Kernel>("f")(nullptr, buffers, nullptr);
      const bool is_signed = type[0] == 'i', is_byte = text.find("8[16]") != std::string::npos;
      const double least = is_signed ? (is_byte ? -128 : -32768) : 0;
      const double most = (is_byte ? 255 : 65535) + (is_signed ? least : 0);
      for (int i = 0; i < 16; ++i) {
        const double sum = std::nearbyint(static_cast<double>(numbers[i])) + more;
        const double wanted = std::isnan(sum) ? 0 : std::clamp(sum, least, most);
        const double got = is_byte
                               ? (is_signed ? reinterpret_cast<int8_t*>(made)[i] : reinterpret_cast<uint8_t*>(made)[i])
                               : (is_signed ? static_cast<int16_t>(made[i]) : made[i]);
        EXPECT_EQ(got, wanted) << type << " of " << numbers[i] << " + " << more;
      }
    }
}

// A table of 256 bytes that bytes choose from stays in registers where these permute bytes; elsewhere it is read.
TEST(Llvm, LooksBytesUp) {
  for (const int lanes : {4, 16, 64})
    for (const bool is_signed : {false, true}) {
      const std::string text =
          fmt::format(R"(lowered func f(A: {0}[{1}], T: i8[256], B: i8[{1}] output):
  B[ramp(0, 1, {1})] = T[i32x{1}({2}(A[ramp(0, 1, {1})]))]
)",
                      is_signed ? "i8" : "u8", lanes, is_signed ? fmt::format("u8x{}", lanes) : std::string());
      const IrModule module = parsed(text.c_str(), "f");
      const Target host = detect_host();
      const auto object = compile_object(module, host);
      ASSERT_TRUE(object) << object.error().to_string();
      if (host.has_feature("avx512vbmi")) {
        const std::string assembly = *emit_assembly(module, host);
        EXPECT_NE(assembly.find("vpermt2b"), assembly.find("vpermi2b")) << assembly;
      }
      const auto code = JitModule::load(*object);
      std::vector<uint8_t> a(static_cast<size_t>(lanes)), table(256), b(a.size());
      for (size_t i = 0; i < a.size(); ++i) a[i] = static_cast<uint8_t>(i * 37 + 120);
      for (size_t i = 0; i < table.size(); ++i) table[i] = static_cast<uint8_t>(i * i + 3 * i + 7);
      void* buffers[] = {a.data(), table.data(), b.data()};
      code->function<Kernel>("f")(nullptr, buffers, nullptr);
      for (size_t i = 0; i < a.size(); ++i) EXPECT_EQ(b[i], table[a[i]]) << i << " of " << lanes;
    }
}

TEST(Llvm, RefusesWhatIsNotLowered) {
  const Target target = detect_host();
  const auto code_of = [&](const char* text) {
    const auto result = compile_object(parsed(text, "f"), target);
    return result ? ErrorCode::kNone : result.error().code;
  };
  EXPECT_EQ(code_of("lowered func f(A: f32[64], C: f32[64] output):\n  for i in 64 vectorized:\n    C[i] = A[i]\n"),
            ErrorCode::E301);
  EXPECT_EQ(code_of("lowered func f(A: f32[64], C: f32[64] output):\n  C[0] = `llvm.no.such`.f32(A[0])\n"),
            ErrorCode::E301);
  EXPECT_EQ(code_of("lowered func f(A: f32[64], C: f32[64] output):\n  C[0] = mystery(A[0])\n"), ErrorCode::E301);
  EXPECT_EQ(code_of("lowered func f(A: f32[8, 8], C: f32[64] output):\n  C[0] = A[0, 1]\n"), ErrorCode::E301);
}

TEST(Jit, RefusesWhatIsNoObject) {
  EXPECT_EQ(JitModule::load(std::vector<uint8_t>{1, 2, 3}).error().code, ErrorCode::E303);
  EXPECT_EQ(JitModule::load(std::vector<uint8_t>{}).error().code, ErrorCode::E303);
}

TEST(Jit, SymbolsOfTheCaller) {
  const IrModule module = parsed(R"(lowered func f(C: f32[64] output):
  call outside(&C[3], 7)
)",
                                 "f");
  static int64_t seen;
  void (*outside)(float*, int64_t) = [](float* c, int64_t n) {
    *c = 9;
    seen = n;
  };
  const std::vector<std::vector<uint8_t>> objects{*compile_object(module, detect_host())};
  const std::vector<JitModule::Symbol> symbols{{"outside", reinterpret_cast<void*>(outside)}};
  const auto code = JitModule::load(objects, symbols);
  ASSERT_TRUE(code) << code.error().to_string();
  float c[64] = {};
  void* buffers[] = {c};
  code->function<Kernel>("f")(nullptr, buffers, nullptr);
  EXPECT_EQ(c[3], 9);
  EXPECT_EQ(seen, 7);
}

}  // namespace
}  // namespace fettle
