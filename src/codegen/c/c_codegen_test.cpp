// Every construct of scalar lowered code, through the machine's C compiler, beside the interpreter.
#include "codegen/c/c_codegen.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>

#include "codegen/c/testing.h"
#include "ir/annotations.h"
#include "ir/interpret.h"
#include "ir/text.h"
#include "ir/visit.h"
#include "rt/context.h"

namespace fettle {
namespace {

using Kernel = int32_t(FettleContext*, void**, const int64_t*);

/// What memory of a parameter begins with.
enum class Fill {
  kSmall,  // small integers: arithmetic of floats is exact in any order
  kWild,   // any bits: every special value occurs
};

struct Bytes {
  std::vector<unsigned char> data;  // with a margin that must stay as it is
  int64_t size = 0;
};

Bytes filled(const BufferNode& buffer, uint64_t seed, Fill fill) {
  Bytes out;
  int64_t count = 1;
  for (const Expr& extent : buffer.shape) count *= *as_int(extent);
  const DType type = buffer.dtype;
  out.size = count * type.element_bytes();
  out.data.assign(static_cast<size_t>(out.size) + 64, 0xcd);
  for (int64_t i = 0; i < count; ++i) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    unsigned char* at = out.data.data() + i * type.element_bytes();
    const auto put = [at](auto x) { std::memcpy(at, &x, sizeof x); };
    const int value = static_cast<int>((seed >> 33) % 17) - (type.code == TypeCode::kUInt ? 0 : 8);
    if (fill == Fill::kWild && !type.is_bool()) {
      uint64_t bits = seed ^ seed >> 29;
      // Now and then the ends of the range, zero and infinity.
      if (i % 7 == 3) bits = type.is_float() ? uint64_t{0} : uint64_t{1} << (type.bits - 1);
      if (i % 7 == 5) bits = ~uint64_t{0} >> (65 - type.bits);
      if (i % 7 == 5 && type.is_float()) {
        bits = type == kF64    ? std::bit_cast<uint64_t>(INFINITY + 0.0)
               : type == kF16  ? 0x7c00u
               : type == kBF16 ? 0x7f80u
                               : 0x7f800000u;
      }
      // NaNs differ in bits that nobody promises.
      if (type == kF32 && std::isnan(std::bit_cast<float>(static_cast<uint32_t>(bits)))) bits = 0x40490fdb;
      if (type == kF64 && std::isnan(std::bit_cast<double>(bits))) bits = 0x400921fb54442d18;
      if (type == kF16 && (bits & 0x7c00) == 0x7c00) bits = (bits & 0x8000) | 0x7c00;
      if (type == kBF16 && (bits & 0x7f80) == 0x7f80) bits = (bits & 0x8000) | 0x7f80;
      std::memcpy(at, &bits, static_cast<size_t>(type.element_bytes()));
    } else if (type == kF32) {
      put(static_cast<float>(value));
    } else if (type == kF64) {
      put(static_cast<double>(value));
    } else if (type == kBF16) {
      put(static_cast<uint16_t>(std::bit_cast<uint32_t>(static_cast<float>(value)) >> 16));
    } else if (type == kF16) {
      put(static_cast<uint16_t>(value == 0 ? 0 : 0x3c00 + (value & 7) * 64 + (value < 0 ? 0x8000 : 0)));
    } else if (type.is_bool()) {
      put(static_cast<uint8_t>(value & 1));
    } else {
      const auto wide = static_cast<int64_t>(value);
      std::memcpy(at, &wide, static_cast<size_t>(type.element_bytes()));
    }
  }
  return out;
}

/// Programs that become one C file; each is run and compared, bit for bit, with what the interpreter leaves.
class Programs {
 public:
  /// The program's entry is called `f`; functions get names of their own in the file.
  void add(const char* text, std::vector<int64_t> ints = {}, Fill fill = Fill::kSmall) {
    const auto module = parse_module(text);
    ASSERT_TRUE(module) << module.error().to_string();
    add(*module, std::move(ints), fill);
  }
  void add(IrModule module, std::vector<int64_t> ints = {}, Fill fill = Fill::kSmall) {
    module.entry = "f";
    const std::string prefix = "p" + std::to_string(cases_.size()) + "_";
    for (const auto& [name, func] : module.funcs) {
      class Renamer : public Mutator {
       public:
        Renamer(const IrModule& m, std::string p) : module_(m), prefix_(std::move(p)) {}
        using Mutator::rewrite;
        Expr rewrite(const Expr& e) override { return e; }
        Stmt rewrite(const Stmt& s) override {
          const auto* call = s ? s.as<CallFuncNode>() : nullptr;
          if (!call || !module_.funcs.count(call->name)) return Mutator::rewrite(s);
          return with(*call, [&](CallFuncNode& c) { c.name = prefix_ + c.name; });
        }

       private:
        const IrModule& module_;
        std::string prefix_;
      } renamer(module, prefix);
      const Stmt body = renamer.rewrite(func->body);
      all_.funcs[prefix + name] = with(func, [&](FuncNode& f) {
        f.name = prefix + name;
        f.body = body;
      });
    }
    cases_.push_back({std::move(module), prefix + "f", std::move(ints), fill});
  }

  void run(const char* flags = nullptr, int threads = 1) {
    COptions options;
    for (const Case& one : cases_) options.more_entries.insert(one.name);
    const auto source = emit_c(all_, *parse_target("c"), options);
    ASSERT_TRUE(source) << source.error().to_string();
    const auto code = flags ? load_c(*source, flags) : load_c(*source);
    ASSERT_TRUE(code) << code.error().to_string() << '\n' << *source;
    rt::OwnedContext context(threads);
    for (const Case& one : cases_) {
      const Func& func = one.module.funcs.at("f");
      SCOPED_TRACE(to_text(func));
      std::vector<Bytes> mine, theirs;
      for (size_t i = 0; i < func->params.size(); ++i) mine.push_back(filled(*func->params[i].buffer, i + 1, one.fill));
      theirs = mine;
      std::vector<BufferArg> args;
      for (Bytes& b : theirs) args.push_back({b.data.data(), b.size});
      const auto interpreted = interpret(one.module, args, one.ints);
      ASSERT_TRUE(interpreted) << interpreted.error().to_string();
      std::vector<void*> pointers;
      for (Bytes& b : mine) pointers.push_back(b.data.data());
      auto* kernel = code->function<Kernel>(one.name);
      ASSERT_NE(kernel, nullptr);
      EXPECT_EQ(kernel(context.get(), pointers.data(), one.ints.data()), FETTLE_OK);
      for (size_t i = 0; i < mine.size(); ++i) {
        if (mine[i].data == theirs[i].data) continue;
        size_t at = 0;
        while (mine[i].data[at] == theirs[i].data[at]) ++at;
        const BufferNode& buffer = *func->params[i].buffer;
        ADD_FAILURE() << "parameter " << buffer.name << " differs at element "
                      << at / static_cast<size_t>(buffer.dtype.element_bytes());
      }
    }
  }

 private:
  struct Case {
    IrModule module;
    std::string name;
    std::vector<int64_t> ints;
    Fill fill;
  };
  IrModule all_;
  std::vector<Case> cases_;
};

TEST(C, ScalarArithmetic) {
  Programs p;
  p.add(R"(lowered func f(A: f32[64], B: f32[64], C: f32[512] output):
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
  p.add(
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
  p.add(
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
  p.run();
}

TEST(C, IntegersOfEveryWidthWrap) {
  Programs p;
  for (const char* t : {"i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64"}) {
    std::string text = "lowered func f(A: T[64], B: T[64], C: T[1024] output, Y: bool[128] output):\n  for i in 64:\n";
    const char* lines[] = {"A[i] + B[i]", "A[i] - B[i]",     "A[i] * B[i]",     "A[i] // d",
                           "A[i] % d",    "min(A[i], B[i])", "max(A[i], B[i])", "A[i] & B[i]",
                           "A[i] | B[i]", "A[i] ^ B[i]",     "A[i] << B[i]",    "A[i] >> B[i]",
                           "A[i] << 3T",  "A[i] >> 3T",      "abs(A[i])",       "select(A[i] < 0T, B[i], A[i] + 1T)"};
    text += "    let d = select(B[i] == 0T, 7T, B[i]):\n";
    int at = 0;
    for (const char* line : lines) text += "      C[i + " + std::to_string(64 * at++) + "] = " + line + "\n";
    text += "      Y[i] = A[i] < B[i]\n      Y[i + 64] = 0T <= A[i] && A[i] != B[i]\n";
    for (size_t mark = text.find('T'); mark != std::string::npos; mark = text.find('T', mark)) text.replace(mark, 1, t);
    if (std::string(t) == "i64") {  // literals of i64 have no suffix
      for (size_t mark = text.find("i64"); mark != std::string::npos; mark = text.find("i64", mark + 1))
        if (mark > 0 && text[mark - 1] >= '0' && text[mark - 1] <= '9') text.erase(mark, 3);
    }
    p.add(text.c_str(), {}, Fill::kWild);
  }
  p.run();
}

TEST(C, AnOrderedMaximumDropsNaN) {
  Programs p;
  p.add(R"(lowered func f(A: f32[64], B: f32[64], C: f32[256] output):
  allocate m: f32[1]
  m[0] = -inf
  for i in 64:
    let x = select(A[i] < 0.0, nan, A[i])
    let y = select(B[i] < 0.0, nan, B[i])
    m[0] = ordered_max(x, m[0])
    C[i] = m[0]
    C[i + 64] = select(isnan(ordered_max(x, y)), 99.0, ordered_max(x, y))
    C[i + 128] = select(isnan(ordered_max(y, 1.0)), 99.0, ordered_max(y, 1.0))
    C[i + 192] = select(isnan(ordered_max(1.0, y)), 99.0, ordered_max(1.0, y))
)",
        {}, Fill::kWild);
  p.run();
}

TEST(C, CastsOfEveryTypeToEveryType) {
  Programs p;
  const char* types[] = {"i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64", "f16", "bf16", "f32", "f64", "bool"};
  for (const char* from : types) {
    for (const char* to : types) {
      const std::string text = std::string("lowered func f(A: ") + from + "[96], C: " + to +
                               "[96] output):\n  for i in 96:\n    C[i] = " + (std::string(from) == to ? "" : to) +
                               "(A[i])\n";
      p.add(text.c_str(), {}, Fill::kWild);
    }
  }
  p.run();
}

TEST(C, SmallFloats) {
  Programs p;
  for (const char* t : {"f16", "bf16"}) {
    std::string text =
        "lowered func f(A: T[256], B: T[256], C: T[2560] output, Y: bool[256] output, I: i16[256] output):\n  for i in "
        "256:\n";
    const char* lines[] = {
        "A[i] + B[i]",     "A[i] - B[i]",     "A[i] * B[i]",        "A[i] / B[i]", "min(A[i], B[i])",
        "max(A[i], B[i])", "sqrt(abs(A[i]))", "A[i] * 0.1T + 3.0T", "floor(A[i])", "ordered_max(A[i], B[i])"};
    int at = 0;
    for (const char* line : lines)
      text += "    C[i + " + std::to_string(256 * at++) + "] = select(isnan(" + std::string(line) + "), 0.0T, " + line +
              ")\n";
    text += "    Y[i] = A[i] < B[i]\n    I[i] = bitcast.i16(A[i])\n";
    for (size_t mark = text.find('T'); mark != std::string::npos; mark = text.find('T', mark)) text.replace(mark, 1, t);
    p.add(text.c_str(), {}, Fill::kWild);
  }
  p.run("-O2 -Wall -Wextra -Werror -pedantic");
}

TEST(C, Mathematics) {
  // The C library's functions in single precision against those in double, rounded: a few units in the last place.
  const auto module = parse_module(R"(lowered func f(A: f32[256], C: f32[2560] output):
  for i in 256:
    C[i] = exp(A[i])
    C[i + 256] = log(abs(A[i]) + 1.0)
    C[i + 512] = tanh(A[i])
    C[i + 768] = erf(A[i])
    C[i + 1024] = sigmoid(A[i])
    C[i + 1280] = rsqrt(abs(A[i]) + 1.0)
    C[i + 1536] = sin(A[i])
    C[i + 1792] = cos(A[i])
    C[i + 2048] = pow(abs(A[i]), 1.5)
    C[i + 2304] = f32(exp(f64(A[i])))
)");
  ASSERT_TRUE(module) << module.error().to_string();
  IrModule m = *module;
  m.entry = "f";
  const auto source = emit_c(m, *parse_target("c"));
  ASSERT_TRUE(source);
  const auto code = load_c(*source);
  ASSERT_TRUE(code) << code.error().to_string();
  std::vector<float> a(256), c(2560), d(2560);
  for (int i = 0; i < 256; ++i) a[static_cast<size_t>(i)] = static_cast<float>(i - 128) * 0.11f;
  void* buffers[] = {a.data(), c.data()};
  EXPECT_EQ(code->function<Kernel>("f")(nullptr, buffers, nullptr), FETTLE_OK);
  ASSERT_TRUE(interpret(m, std::vector<BufferArg>{{a.data(), 1024}, {d.data(), 10240}}));
  for (size_t i = 0; i < c.size(); ++i) EXPECT_NEAR(c[i], d[i], std::fabs(d[i]) * 1e-6) << i;
}

TEST(C, ControlAndRegisters) {
  Programs p;
  p.add(R"(lowered func f(A: f32[64], C: f32[96] output):
  for i in 96:
    C[i] = select(16 <= i && i < 80, A[i - 16], 0.0)
)");
  p.add(R"(lowered func f(A: f32[64], C: f32[64] output, n: i64):
  for i in 64:
    if i < n && A[i + 16] < 3.0:
      C[i] = A[i + 16]
)",
        {48});
  p.add(R"(lowered func f(A: f32[64], C: f32[64] output, I: i64[8], n: i64):
  for i in n:
    C[i if A[i] < 3.0] = A[i + 40 if i < 24] + 1.0
  for i in I[3] + 9 +: I[2] + 9:
    C[i % 64] = A[i % 64]
  for i in 5 +: 9 unrolled:
    for j in i +: 3:
      C[i + j] = C[i + j] - 1.0
)",
        {48});
  p.add(R"(lowered func f(A: f32[1024], B: f32[1024], C: f32[128] output, n: i64, m: i64):
  allocate acc: f32[16] @register
  allocate t: f32[2] @register
  for l in 16 unrolled:
    acc[l] = A[l]
  t[0] = 0.0
  t[1] = 5.0
  for i in n:
    for j in m:
      for l in 16:
        acc[l] = acc[l] + A[i * 16 + j + l] * B[j]
      t[0] = t[0] + B[i + j]
    if i < 3:
      acc[5] = acc[5] - acc[0]
    else:
      acc[3] = acc[6]
      if i == 5:
        t[1] = t[0]
  for l in 16:
    C[l] = acc[l]
  C[64] = t[0]
  C[65] = t[1]
)",
        {7, 4});
  p.add(R"(lowered func f(A: f32[64], C: f32[64] output):
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
  p.add(R"(lowered func f(A: f32[64], C: f32[64] output, n: i64):
  C[0] = A[0]
  for i in n:
    C[3] = C[3] + A[i]
    C[i + 8] = C[3]
  let old = C[5]:
    C[5] = 1.0
    C[6] = old
    let at = i64(A[9]) + 10:
      C[at] = 3.0
      C[at + 10] = C[at]
  prefetch(&C[0], 2)
)",
        {9});
  p.add(R"(lowered func f(A: f32[8192], C: f32[8192] output, n: i64, lda: i64):
  for i in 3 +: n:
    for j in i +: 5:
      for k in 6:
        C[i * lda + j * 16 + k] = C[i * lda + j * 16 + k] + A[j * lda + k * i + 3] + A[(i + j) * (k + 1)]
)",
        {6, 70});
  p.add(R"(lowered func f(C: i64[256] output, n: i64):
  for i in 0 - 8 +: 16:
    C[(i + 8) * 16] = i // 3
    C[(i + 8) * 16 + 1] = i % 3
    C[(i + 8) * 16 + 2] = i // 4 - (i - n)
    C[(i + 8) * 16 + 3] = i % 4 * (n - (i + 1))
    C[(i + 8) * 16 + 4] = min(i, n) // max(i, 1)
    C[(i + 8) * 16 + 5] = 7 // n % (0 - 5)
    C[(i + 8) * 16 + 6] = select(i < n, 2000000000, 2100000000) * 3
    C[(i + 8) * 16 + 7] = (i & 6) + (i | 9) ^ 3
)",
        {4});
  p.add(R"(lowered func f(A: bool[64], B: bool[64], C: bool[448] output):
  for i in 64:
    C[i] = A[i] && B[i] || !A[i]
    C[i + 64] = A[i] == B[i]
    C[i + 128] = A[i] & B[i]
    C[i + 192] = A[i] | B[i]
    C[i + 256] = A[i] ^ B[i]
    C[i + 320] = A[i] != true
    C[i + 384] = select(A[i], B[i], false)
)");
  p.run();
}

TEST(C, NamesOfEveryKind) {
  Programs p;
  p.add(R"(lowered func f(`float`: f32[64], `a'b`: f32[64] output, context: i64):
  for `for` in 4:
    for `expf` in 4:
      let `1x` = `float`[`for` * 4 + `expf`]:
        `a'b`[`for` * 4 + `expf`] = exp(`1x` * 0.0) + min(`1x`, 2.0)
  for i in 4:
    let i_1 = `float`[i]:
      for i in 2:
        for i in context:
          `a'b`[i] = `a'b`[i] + i_1
    let x = `float`[i]:
      `a'b`[20] = x
    let x = `float`[i + 1]:
      `a'b`[21] = x
)",
        {2});
  p.run();
}

TEST(C, Calls) {
  Programs p;
  p.add(R"(lowered func add(X: f32[64], Y: f32[64] output, n: i64, scale: i64):
  for i in n:
    Y[i] = Y[i] + X[i] * f32(scale)

lowered func f(A: f32[256], C: f32[256] output):
  for i in 4:
    call add(&A[i * 64], &C[i * 32 + 8], 20, i)
    C[i] = C[i + 8]
)");
  p.add(R"(lowered func g(X: f32[64], Y: f32[64] output):
  for i in 8 parallel:
    Y[i] = X[i]

lowered func f(A: f32[256], C: f32[256] output):
  call g(&A[3], &C[5])
)");
  p.run();
}

TEST(C, SectionsOfAHostProgram) {
  const auto parsed = parse_func(R"(lowered func host(X: f32[4], Y: f32[4] output):
  for s in 2 parallel:
    if s < 1:
      call k(&X[0], &Y[0], 0)
    else:
      call k(&X[2], &Y[2], 1)
)");
  ASSERT_TRUE(parsed) << parsed.error().to_string();
  IrModule module;
  module.entry = "host";
  module.funcs["host"] = with(*parsed, [](FuncNode& f) { f.annotations.set(kHostKey, int64_t{1}); });
  const auto text = emit_c(module, *parse_target("c"));
  ASSERT_TRUE(text) << text.error().to_string();
  EXPECT_NE(text->find("fettle_run_sections(context, 2, "), std::string::npos) << *text;
  EXPECT_EQ(text->find("fettle_parallel_for"), std::string::npos) << *text;
}

TEST(C, ParallelLoopsAndScratchBlocks) {
  Programs p;
  const char* text = R"(lowered func add(X: f32[64], Y: f32[64] output, n: i64):
  for i in n:
    Y[i] = Y[i] + X[i]

lowered func f(A: f32[4096], C: f32[4096] output, n: i64):
  let scale = A[5] + 1.0:
    for i in 2 +: n parallel:
      allocate acc: f32[16] @register
      allocate t: f32[16]
      for l in 16:
        acc[l] = scale
      for k in 4:
        for l in 16:
          acc[l] = acc[l] + A[i * 64 + k * 16 + l]
      for l in 16:
        t[l] = acc[l]
      for l in 16:
        C[i * 64 + l] = t[l] + C[i * 64 + l]
      call add(&A[i], &C[i * 64 + 16], 8)
  C[0] = C[2 * 64]
  for i in 4 parallel:
    C[5 + i] = 3.0
)";
  p.add(text, {60});
  p.add(text, {0});
  p.add(R"(lowered func f(A: f32[8192], C: f32[8192] output, n: i64):
  for p in 2 parallel:
    allocate t: f32[8192]
    allocate u: f32[n]
    for i in 4096:
      t[i] = A[p * 4096 + i] + 1.0
    for i in n:
      u[i] = t[4095 - i]
    for i in n:
      C[p * 4096 + i] = u[i]
)",
        {4096});
  p.add(R"(lowered func f(A: f32[64], C: f32[64] output, n: i64):
  for i in 4 parallel:
    for j in n parallel:
      C[i * 8 + j] = A[i * 8 + j] + f32(j)
)",
        {7});
  p.run(nullptr, 2);
}

TEST(C, SerialFilesNeedNoRunTimeSystem) {
  IrModule m = *parse_module(R"(lowered func f(A: f32[64], C: f32[64] output):
  for i in 4 parallel:
    C[i] = A[i]
)");
  m.entry = "f";
  const auto serial = emit_c(m, *parse_target("c"), {.parallel = false});
  ASSERT_TRUE(serial);
  EXPECT_EQ(serial->find("fettle_"), std::string::npos) << *serial;
  const auto parallel = emit_c(m, *parse_target("c"));
  ASSERT_TRUE(parallel);
  EXPECT_NE(parallel->find("fettle_parallel_for("), std::string::npos);
}

TEST(C, LackOfMemoryIsReported) {
  IrModule m = *parse_module(R"(lowered func f(C: f32[64] output, n: i64):
  C[0] = 1.0
  for i in 3 parallel:
    allocate t: f32[n]
    t[0] = 5.0
    C[i + 1] = t[0]
  C[10] = 2.0
)");
  m.entry = "f";
  const auto source = emit_c(m, *parse_target("c"), {.entry_name = "kernel"});
  ASSERT_TRUE(source);
  const auto code = load_c(*source);
  ASSERT_TRUE(code) << code.error().to_string();
  std::vector<float> c(64, 0);
  void* buffers[] = {c.data()};
  rt::OwnedContext context(1);
  int64_t too_much = int64_t{1} << 50;
  EXPECT_EQ(code->function<Kernel>("kernel")(context.get(), buffers, &too_much), FETTLE_OUT_OF_MEMORY);
  EXPECT_EQ(c[1], 0);
  int64_t enough = 100;
  EXPECT_EQ(code->function<Kernel>("kernel")(context.get(), buffers, &enough), FETTLE_OK);
  EXPECT_EQ(c[3], 5);
}

TEST(C, ContractionCanBeForbidden) {
  for (const char* flags : {"-O2 -std=gnu11 -mfma -Wall -Wextra -Werror", "-O2"}) {
    if (std::string(flags).find("fma") != std::string::npos && !detect_host().has_feature("fma")) continue;
    IrModule m = *parse_module(R"(lowered func f(A: f32[4], C: f32[4] output) {contract = 0}:
  C[0] = A[0] * A[1] + A[2]
)");
    m.entry = "f";
    const auto code = load_c(*emit_c(m, *parse_target("c")), flags);
    ASSERT_TRUE(code) << code.error().to_string();
    float a[4] = {1 + 0x1p-12f, 1 + 0x1p-12f, -1, 0}, c[4];
    void* buffers[] = {a, c};
    code->function<Kernel>("f")(nullptr, buffers, nullptr);
    volatile float product = a[0] * a[1];
    EXPECT_EQ(c[0], product + a[2]);
  }
}

TEST(C, MinimumAndMaximumOfNaN) {
  IrModule m = *parse_module(R"(lowered func f(A: f32[4], B: f32[4], C: f32[16] output, D: f64[4] output):
  for i in 4:
    C[i] = min(A[i], B[i])
    C[i + 4] = max(A[i], B[i])
    C[i + 8] = max(A[i], 0.0)
    C[i + 12] = min(4.0, A[i])
    D[i] = max(f64(A[i]), f64(B[i]))
)");
  m.entry = "f";
  const auto code = load_c(*emit_c(m, *parse_target("c")), "-O2 -Wall -Wextra -Werror");
  ASSERT_TRUE(code) << code.error().to_string();
  float a[4] = {NAN, 1, 2, NAN}, b[4] = {5, NAN, 3, NAN}, c[16], d[16];
  double e[4], f[4];
  void* buffers[] = {a, b, c, e};
  code->function<Kernel>("f")(nullptr, buffers, nullptr);
  ASSERT_TRUE(interpret(m, std::vector<BufferArg>{{a, 16}, {b, 16}, {d, 64}, {f, 32}}));
  EXPECT_EQ(std::memcmp(c, d, sizeof c), 0);
  EXPECT_EQ(std::memcmp(e, f, sizeof e), 0);
  for (const int i : {0, 1, 3, 4, 5, 7, 8, 11, 12, 15}) EXPECT_TRUE(std::isnan(c[i])) << i;
  EXPECT_EQ(c[2], 2);
  EXPECT_EQ(c[6], 3);
}

TEST(C, PowersOfIntegers) {
  Programs p;
  for (const char* type : {"i8", "u8", "i16", "u16", "i32", "u32", "i64", "u64"}) {
    std::string text =
        "lowered func f(A: T[64], B: T[64], C: T[192] output):\n  for i in 64:\n    C[i] = pow(A[i], B[i])\n"
        "    C[i + 64] = pow(A[i], 5T)\n    C[i + 128] = pow(A[i] % 3T - 1T, B[i])\n";
    for (size_t mark = text.find('T'); mark != std::string::npos; mark = text.find('T', mark))
      text.replace(mark, 1, type);
    p.add(text.c_str());
    p.add(text.c_str(), {}, Fill::kWild);
  }
  p.run("-O2 -Wall -Wextra -Werror -pedantic");
}

TEST(C, RefusesWhatIsNotScalarOrNotLowered) {
  const auto code_of = [&](const char* text, const char* target = "c") {
    IrModule m = *parse_module(text);
    m.entry = "f";
    const auto result = emit_c(m, *parse_target(target));
    return result ? ErrorCode::kNone : result.error().code;
  };
  EXPECT_EQ(code_of("lowered func f(A: f32[64], C: f32[64] output):\n  for i in 64 vectorized:\n    C[i] = A[i]\n"),
            ErrorCode::E301);
  EXPECT_EQ(code_of("lowered func f(A: f32[64], C: f32[64] output):\n  C[ramp(0, 1, 4)] = A[ramp(0, 1, 4)]\n"),
            ErrorCode::E301);
  EXPECT_EQ(code_of("lowered func f(A: f32[64], C: f32[64] output):\n  C[0] = mystery(A[0])\n"), ErrorCode::E301);
  EXPECT_EQ(code_of("lowered func f(A: f32[8, 8], C: f32[64] output):\n  C[0] = A[0, 1]\n"), ErrorCode::E301);
  EXPECT_EQ(code_of("lowered func f(A: f32[64], C: f32[64] output):\n  C[0] = A[0]\n"), ErrorCode::kNone);
}

}  // namespace
}  // namespace fettle
