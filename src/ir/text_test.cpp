#include "ir/text.h"

#include <cmath>
#include <fstream>
#include <limits>
#include <sstream>

#include <gtest/gtest.h>

#include "ir/compare.h"
#include "ir/visit.h"

namespace fettle {
namespace {

constexpr const char* kMatmul = R"(func matmul(A: f32[512, 512], B: f32[512, 512] constant, C: f32[512, 512] output):
  for i in 512:
    for j in 512:
      for k in 512:
        block C(vi: spatial[512] = i, vj: spatial[512] = j, vk: reduce[512] = k):
          reads A[vi, vk], B[vk, vj]
          writes C[vi, vj]
          init:
            C[vi, vj] = 0.0
          C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]
)";

// Every construct of blocks, loops and declarations.
constexpr const char* kScheduled =
    R"(func f(A: f32[n, 64] strides[lda, 1] free_layout, W: bf16[4, 60, 16] align(16) layout(o: 60, i: 60 -> o // 16, i, o % 16) constant free_layout, `conv/out:0`: i32[n] output, n: i64 in 1..1024 % 16, lda: i64 in 64.., m: i32) {kind = "conv", weight = 2.5}:
  root {tries = [1, -2, 3]}
  alloc acc: f32[14, 32] @register
  alloc T: f32[n, 64]
  for i in n // 16 parallel tail(guard) {chunk = 4, note = "a \"b\" \\ c"}:
    for `for` in 4 +: 12 vectorized:
      block T(vi: spatial[n] = i * 16 + `for`, vj: spatial[64] = 0) where i * 16 + `for` < n && likely(i != 3) {auto = 1e+20}:
        reads A[vi, 0 +: 64]
        writes T[vi, vj]
        T[vi, vj] = select(A[vi, vj] < 0.0, -0.0, sqrt(A[vi, vj]))
  for x in 8 thread axis("threadIdx.x"):
    for q: i32 in 4i32 unrolled tail(balance):
      block out(vx: opaque[8] = x, vq: scan[4i32] i32 = q):
        reads T[vx, 0]
        writes `conv/out:0`[vx]
        `conv/out:0`[vx] = i32(T[vx, 0]) + m * 2i32 - vq
)";

constexpr const char* kLowered = R"(lowered func kernel(A: f32[4096], B: u8[100], C: f32[4096] output, n: i64):
  let base = n * 16
  allocate acc: f32[16] @register
  acc[ramp(0, 1, 16)] = broadcast(0.0, 16)
  while A[base] < 1.0:
    A[base] = A[base] + 1.0
  for k in n:
    let b = u8x16(broadcast(1, 16)):
      acc[ramp(0, 1, 16)] = fma(A[ramp(k * 16, 1, 16)], broadcast(A[k], 16), acc[ramp(0, 1, 16)])
      B[ramp(0, 1, 16)] = b
    let mask = ramp(0, 1, 16) < broadcast(n - k * 16, 16):
      C[ramp(k, 2, 16) if mask] = A[ramp(k, 2, 16) if mask]
    if k < 3 || !(k == 5):
      C[k] = shuffle([acc[ramp(0, 1, 16)]], [3])
    else:
      C[k] = `llvm.exp.f32`.f32(A[k])
  issue "dma":
    prefetch.i32(&A[base], 3i32)
  wait "dma" pending 2:
    barrier()
  call other(&A[base + 4], &C[0], n, 5)
  C[0] = shuffle([acc[ramp(0, 1, 16)], acc[ramp(0, 1, 16)]], [0])
)";

Func parsed(std::string_view text) {
  Result<Func> func = parse_func(text);
  EXPECT_TRUE(func.has_value()) << (func ? "" : func.error().to_string());
  return func ? *func : Func();
}

void expect_round_trip(const char* text) {
  const Func first = parsed(text);
  ASSERT_TRUE(first);
  EXPECT_EQ(to_text(first), text);
  const Func second = parsed(to_text(first));
  ASSERT_TRUE(second);
  EXPECT_TRUE(structural_equal(first, second));
  EXPECT_EQ(canonical_hash(first), canonical_hash(second));
}

TEST(Text, RoundTripsBlocks) { expect_round_trip(kMatmul); }
TEST(Text, RoundTripsEveryDeclaration) { expect_round_trip(kScheduled); }
TEST(Text, RoundTripsLoweredCode) { expect_round_trip(kLowered); }

TEST(Text, ReadsDetails) {
  const Func f = parsed(kScheduled);
  ASSERT_TRUE(f);
  EXPECT_EQ(f->params[0].buffer->strides.size(), 2u);
  EXPECT_TRUE(f->params[1].free_layout);
  EXPECT_EQ(f->params[1].kind, ParamKind::kConstant);
  EXPECT_EQ(f->params[1].buffer->layout->logical_shape.size(), 2u);
  EXPECT_EQ(f->params[1].buffer->alignment_bytes, 16);
  EXPECT_EQ(f->params[2].buffer->name, "conv/out:0");
  EXPECT_EQ(f->int_params[0].max, 1024);
  EXPECT_EQ(f->int_params[0].multiple_of, 16);
  EXPECT_EQ(f->int_params[1].max, INT64_MAX);
  EXPECT_EQ(f->int_params[2].var->dtype, kI32);
  EXPECT_EQ(*f.root().annotations.find("tries"), Attribute(std::vector<int64_t>{1, -2, 3}));
  EXPECT_EQ(*f->annotations.find("weight"), Attribute(2.5));
  EXPECT_EQ(f.root().allocations[0]->scope, "register");
  const auto* loop = f.root().body.as<SeqNode>()->stmts[0].as<ForNode>();
  EXPECT_EQ(loop->tail, Tail::kGuard);
  EXPECT_EQ(*loop->annotations.find("note"), Attribute(std::string("a \"b\" \\ c")));
}

TEST(Text, TellsWhatIsTypical) {
  const auto of = [](const std::string& range) {
    return parsed("func f(A: f32[n] output, n: i64" + range + "):\n  for i in n:\n    block A(vi: spatial[n] = i):\n" +
                  "      writes A[vi]\n      A[vi] = 0.0\n");
  };
  const Func plain = of(" in 1..512"), typical = of(" in 1..512 typically 64");
  ASSERT_TRUE(plain && typical);
  EXPECT_NE(to_text(typical).find("n: i64 in 1..512 typically 64"), std::string::npos);
  EXPECT_EQ(to_text(typical), to_text(parsed(to_text(typical))));
  // It is no assumption: both are one workload.
  EXPECT_TRUE(structural_equal(plain, typical));
  EXPECT_EQ(canonical_hash(plain), canonical_hash(typical));
  const auto value = [&](const std::string& range) { return typical_of(of(range)->int_params[0]); };
  EXPECT_EQ(value(" in 1..512 typically 64"), 64);
  EXPECT_EQ(value(""), 128);
  EXPECT_EQ(value(" in 1..100"), 100);
  EXPECT_EQ(value(" in 0..100 % 8"), 96);
  EXPECT_EQ(value(" in 200..400"), 200);
  EXPECT_EQ(value(" in 0..4000 % 1000 typically 500"), 1000);
  EXPECT_FALSE(parse_func("func f(A: f32[n] output, n: i64 typically 0):\n  root\n"));
}

void expect_expr(const Expr& e) {
  const std::string text = to_text(e);
  Result<Expr> back = parse_expr(text);
  ASSERT_TRUE(back.has_value()) << text << ": " << back.error().to_string();
  EXPECT_EQ(to_text(*back), text);
  EXPECT_TRUE(structural_equal(*back, e)) << text;
}

TEST(Text, RoundTripsConstants) {
  const double infinity = std::numeric_limits<double>::infinity();
  for (DType type : {kF32, kF64, kF16, kBF16})
    for (double value : {0.0, -0.0, 1.0, -1.5, 0.1, 1e-5, 3e38, 1e-45, infinity, -infinity, std::nan(""), -std::nan(""),
                         16777216.0, 1.0 / 3})
      expect_expr(float_imm(value, type));
  expect_expr(float_imm(std::nan("5"), kF64));
  for (DType type : {kI64, kI32, kI8, kU8, kU64, kI16})
    for (int64_t value : {0, 1, -1, 127}) expect_expr(int_imm(value, type));
  expect_expr(int_imm(INT64_MIN));
  expect_expr(int_imm(INT64_MAX));
  expect_expr(bool_imm(true));
  EXPECT_EQ(to_text(float_imm(0.1)), "0.1");
  EXPECT_EQ(to_text(float_imm(0.1, kF64)), "0.1f64");
  EXPECT_EQ(to_text(float_imm(-infinity)), "-inf");
  EXPECT_EQ(to_text(int_imm(-3, kI8)), "-3i8");
}

TEST(Text, KeepsTheGroupingOfOperators) {
  const auto same = [](const char* text, const char* expected) {
    Result<Expr> e = parse_expr(text);
    ASSERT_TRUE(e.has_value()) << e.error().to_string();
    EXPECT_EQ(to_text(*e), expected);
    Result<Expr> again = parse_expr(to_text(*e));
    ASSERT_TRUE(again.has_value());
    EXPECT_EQ(to_text(*again), expected);
  };
  same("a - (b - c) - d", "a - (b - c) - d");
  same("((a*b)//c)%d", "a * b // c % d");
  same("a*(b//c)", "a * (b // c)");
  same("a + b << 2 & c | d ^ e", "a + b << 2 & c | d ^ e");
  same("(a < b) == (c >= d)", "(a < b) == (d <= c)");
  same("a < b && (b < c || c < d) && !(a == d)", "a < b && (b < c || c < d) && !(a == d)");
  same("-a * -1 - -2", "(0 - a) * -1 - -2");
  same("min(a, 3) + max(b, c)", "min(a, 3) + max(b, c)");
  same("ordered_max(f32(a), 3)", "ordered_max(f32(a), 3.0)");
  same("ordered_max(a, b)", "max(a, b)");  // of integers the same
  same("i * 1 + 0", "i * 1 + 0");
  same("`for` + `a b`", "`for` + `a b`");
  same("f64(i) / 2.0f64", "f64(i) / 2.0f64");
  same("isnan(f32(i)) || true", "isnan(f32(i)) || true");
  same("foo.f32(i, 1)", "foo.f32(i, 1)");
}

TEST(Text, RenamesWhatWouldBeHidden) {
  const Var outer = make_var("i"), inner = make_var("i");
  const Buffer b = make_buffer("B", {4, 4});
  const Stmt s = make_for(outer, 0, 4, make_for(inner, 0, 4, store(b, {outer, inner}, float_imm(1))));
  EXPECT_EQ(to_text(s), "for i in 4:\n  for i_1 in 4:\n    B[i, i_1] = 1.0\n");
}

TEST(Text, MarksAStatement) {
  const Func f = parsed(
      "func f(B: f32[4] output):\n  for i in 4:\n    block B(v: spatial[4] = i):\n      writes B[v]\n"
      "      B[v] = 1.0\n");
  PrintOptions options;
  options.marked = find_block(f->body, "B")->body.get();
  EXPECT_NE(to_text(f, options).find("      B[v] = 1.0\n      ^^^^^^^^^^\n"), std::string::npos);
}

TEST(Text, ParsesModules) {
  constexpr const char* text = R"(entry func main(A: f32[8], B: f32[8] output):
  block all():
    reads A[0 +: 8]
    writes B[0 +: 8]
    call twice(&A[0], &B[0], 8)

lowered func twice(X: f32[n], Y: f32[n] output, n: i64):
  for i in n: Y[i] = X[i] * 2.0
)";
  Result<IrModule> module = parse_module(text);
  ASSERT_TRUE(module.has_value()) << module.error().to_string();
  EXPECT_EQ(module->entry, "main");
  EXPECT_EQ(module->funcs.size(), 2u);
  Result<IrModule> again = parse_module(to_text(*module));
  ASSERT_TRUE(again.has_value());
  EXPECT_EQ(to_text(*again), to_text(*module));
}

void expect_error(std::string_view text, std::string_view code, std::string_view where) {
  Result<Func> f = parse_func(text);
  ASSERT_FALSE(f.has_value()) << text;
  EXPECT_EQ(error_info(f.error().code).name, code) << f.error().to_string();
  EXPECT_EQ(f.error().where, where) << f.error().to_string();
}

TEST(Text, SaysWhereItFails) {
  expect_error("func f(:", "E101", "line 1, column 8");
  expect_error("func f():\n  for i on 4: pass\n", "E101", "line 2, column 9");
  expect_error("func f():\n  B[0] = 1.0\n", "E102", "line 2, column 3");
  expect_error("func f(B: f32[4]):\n  B[j] = 1.0\n", "E102", "line 2, column 5");
  expect_error("func f(B: f32[4]):\n  B[0] = 1.0f64\n", "E102", "line 2, column 16");
  expect_error("func f(B: f32[4]):\n  B[0] = B[0] + true\n", "E102", "line 2, column 21");
  expect_error("func f(B: f32[4]):\n   for i in 4:\n  B[0] = 1.0\n", "E101", "line 3, column 3");
  expect_error("func f(B: f32[4]):\n  B[0] = 1.0 $\n", "E101", "line 2, column 14");
  expect_error("func f(B: f32[99999999999999999999]): pass", "E101", "line 1, column 15");
  expect_error("", "E101", "line 1, column 1");
}

TEST(Text, RefusesWhatIsTooDeep) {
  const std::string open(100000, '(');
  EXPECT_FALSE(parse_expr(open).has_value());
  EXPECT_FALSE(parse_expr(std::string(100000, '!') + "true").has_value());
  EXPECT_FALSE(parse_expr(std::string(100000, '-') + "i").has_value());
  std::string sum = "i";
  for (int n = 0; n < 100000; ++n) sum += "+i";
  EXPECT_FALSE(parse_expr(sum).has_value());
  std::string lets = "lowered func f(B: f32[4]):\n";  // in a row they are no nesting
  for (int n = 0; n < 1500; ++n) lets += "  let x = B[0]\n";
  EXPECT_TRUE(parse_func(lets + "  B[0] = x").has_value());
  std::string loops;
  for (int n = 0; n < 100000; ++n) loops += "for i in 2: ";
  EXPECT_FALSE(parse_loops(loops + "B[i] = 1.0").has_value());
}

// Any prefix of a program, and a program with any one character changed, is refused or read: never a crash.
TEST(Text, SurvivesDamage) {
  const std::string text = kScheduled;
  for (size_t n = 0; n < text.size(); ++n) {
    (void)parse_func(text.substr(0, n));
    for (char c : {'(', ']', '9', ':', ' ', '\n', '`'}) {
      std::string damaged = text;
      damaged[n] = c;
      (void)parse_func(damaged);
    }
  }
}

// The examples of docs/loop-language.md that are whole programs.
TEST(Text, TheDocumentedProgramsAreRead) {
  std::ifstream file(FETTLE_SOURCE_DIR "/docs/loop-language.md");
  std::stringstream stream;
  stream << file.rdbuf();
  const std::string page = stream.str();
  int read = 0;
  for (size_t at = 0; (at = page.find("```\n", at)) != std::string::npos;) {
    const size_t end = page.find("```", at + 4);
    ASSERT_NE(end, std::string::npos);
    const std::string code = page.substr(at + 4, end - at - 4);
    at = end + 4;
    if (code.starts_with("func matmul") || code.starts_with("lowered func")) {
      EXPECT_TRUE(parsed(code));
      ++read;
    } else if (code.starts_with("A: f32")) {
      const Result<Func> f = parse_loops(code);
      EXPECT_TRUE(f.has_value()) << (f ? "" : f.error().to_string());
      ++read;
    }
  }
  EXPECT_EQ(read, 3);
}

TEST(LoopText, ABufferHasTheSameIndicesEverywhere) {
  const Result<Func> f = parse_loops("for i in 4:\n  for j in 4: C[i, j] = B[i] / B[i, j]\n");
  ASSERT_FALSE(f);
  EXPECT_NE(f.error().message.find("'B' has 1 dims, and 2 indices here"), std::string::npos) << f.error().to_string();
}

TEST(ParseLoops, InfersBlocks) {
  Result<Func> f = parse_loops("for i in 4:\n  for j in 8:\n    for k in 16: C[i, j] += A[i, k] * B[k, j]\n");
  ASSERT_TRUE(f.has_value()) << f.error().to_string();
  EXPECT_EQ(to_text(*f), R"(func main(A: f32[4, 16], B: f32[16, 8], C: f32[4, 8] output):
  for i in 4:
    for j in 8:
      for k in 16:
        block C(vi: spatial[4] = i, vj: spatial[8] = j, vk: reduce[16] = k):
          reads A[vi, vk], B[vk, vj]
          writes C[vi, vj]
          init:
            C[vi, vj] = 0.0
          C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]
)");
}

TEST(ParseLoops, InfersReachAndUnionsOfRegions) {
  Result<Func> f = parse_loops(R"(
      A: i8[20] constant
      for i in n: D[i] = 2.0 * X[i + 1]
      for i in 1 +: 10:
        if i < 9: B[i] = A[i - 1] + A[i] + A[i + 1] + 3
      for r in 10: M[0] max= B[r + 1] * A[r]
  )");
  ASSERT_FALSE(f.has_value());  // B is f32, A is i8
  f = parse_loops(R"(
      A: f32[20] constant
      for i in n: D[i] = 2.0 * X[i + 1]
      for i in 1 +: 10:
        if i < 9: B[i] = A[i - 1] + A[i] + A[i + 1] + 3
      for r in 10: M[0] max= B[r + 1] * A[r]
  )");
  ASSERT_TRUE(f.has_value()) << f.error().to_string();
  EXPECT_EQ(
      to_text(*f),
      R"(func main(X: f32[n + 1], A: f32[20] constant, D: f32[n] output, B: f32[11] output, M: f32[1] output, n: i64):
  for i in n:
    block D(vi: spatial[n] = i):
      reads X[vi + 1]
      writes D[vi]
      D[vi] = 2.0 * X[vi + 1]
  for i in 1 +: 10:
    block B(vi: spatial[10] = i - 1) where i < 9:
      reads A[vi +: 3]
      writes B[vi + 1]
      B[vi + 1] = A[vi] + A[vi + 1] + A[vi + 2] + 3.0
  for r in 10:
    block M(vr: reduce[10] = r):
      reads B[vr + 1], A[vr]
      writes M[0]
      init:
        M[0] = -inf
      M[0] = max(M[0], B[vr + 1] * A[vr])
)");
}

TEST(ParseLoops, AnOrderedMaximumKeepsItsStateANumber) {
  const Result<Func> f = parse_loops("for r in 10: M[0] ordered_max= A[r]");
  ASSERT_TRUE(f.has_value()) << f.error().to_string();
  const std::string text = to_text(*f);
  EXPECT_NE(text.find("M[0] = -inf\n"), std::string::npos) << text;
  EXPECT_NE(text.find("M[0] = ordered_max(A[vr], M[0])\n"), std::string::npos) << text;
}

// Found by a fuzzer.
TEST(Text, ALineThatIsIndentedLessThanTheFirst) {
  EXPECT_FALSE(parse_expr("   a\n  +b"));
  EXPECT_FALSE(parse_func("   f():\n  x"));
}

}  // namespace
}  // namespace fettle
