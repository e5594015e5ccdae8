#include "lower/pipeline.h"

#include <algorithm>
#include <random>

#include <fmt/core.h>
#include <gtest/gtest.h>

#include "base/check.h"
#include "ir/annotations.h"
#include "ir/compare.h"
#include "ir/interpret.h"
#include "ir/query.h"
#include "ir/text.h"
#include "ir/visit.h"
#include "lower/passes/passes.h"

namespace fettle {
namespace {

Func parsed(const std::string& text) {
  Result<Func> func = parse_func(text);
  EXPECT_TRUE(func) << (func ? "" : func.error().to_string());
  return func ? *func : Func();
}

int64_t elements(const Buffer& buffer) {
  int64_t count = 1;
  for (const Expr& extent : buffer->shape) count *= *as_int(extent);
  return count;
}

std::vector<std::vector<float>> random_args(const std::vector<Param>& params) {
  std::mt19937 random(7);
  std::vector<std::vector<float>> args;
  for (const Param& param : params) {
    std::vector<float>& arg = args.emplace_back(elements(param.buffer));
    // Small integers: sums are exact in any order.
    for (float& x : arg) x = param.kind == ParamKind::kOutput ? -77.0f : static_cast<float>(random() % 7) - 3.0f;
  }
  return args;
}

std::vector<BufferArg> views(std::vector<std::vector<float>>& args) {
  std::vector<BufferArg> list;
  for (auto& arg : args) list.push_back({arg.data(), static_cast<int64_t>(arg.size() * sizeof(float))});
  return list;
}

// Runs the scheduled program and the lowered one (its prologue first) on the same numbers.
void expect_same_on(const std::string& target, const Func& func, const LowerOptions& options) {
  SCOPED_TRACE(target);
  std::vector<std::vector<float>> expected = random_args(func->params);
  std::vector<BufferArg> expected_views = views(expected);
  Result<> reference = interpret(func, expected_views);
  ASSERT_TRUE(reference) << reference.error().to_string();

  Result<LoweredKernel> lowered = lower(func, parse_target(target).value(), options);
  ASSERT_TRUE(lowered) << lowered.error().to_string();
  std::vector<std::vector<float>> args = random_args(func->params);
  for (size_t i = func->params.size(); i < lowered->kernel_params.size(); ++i)
    args.emplace_back(elements(lowered->kernel_params[i].buffer), -55.0f);
  if (!lowered->prologue.entry.empty()) {
    std::vector<BufferArg> prologue_args;
    for (const Param& param : lowered->prologue_params)
      for (size_t i = 0; i < lowered->kernel_params.size(); ++i)
        if (lowered->kernel_params[i].buffer == param.buffer)
          prologue_args.push_back({args[i].data(), static_cast<int64_t>(args[i].size() * sizeof(float))});
    ASSERT_EQ(prologue_args.size(), lowered->prologue_params.size());
    Result<> packed = interpret(lowered->prologue, prologue_args);
    ASSERT_TRUE(packed) << packed.error().to_string();
  }
  std::vector<BufferArg> kernel_views = views(args);
  Result<> done = interpret(lowered->kernel, kernel_views);
  ASSERT_TRUE(done) << done.error().to_string() << to_text(lowered->kernel);
  for (size_t i = 0; i < func->params.size(); ++i) EXPECT_EQ(args[i], expected[i]) << to_text(lowered->kernel);
}

// With cheap masks and with dear ones.
void expect_same(const Func& func, const LowerOptions& options = {}) {
  expect_same_on("x86-64-avx512", func, options);
  expect_same_on("x86-64-avx2", func, options);
}

size_t micro_kernels(const Func& func, const std::string& target = "x86-64-avx512") {
  Result<LoweredKernel> lowered = lower(func, parse_target(target).value());
  EXPECT_TRUE(lowered);
  return lowered->kernel.funcs.size() - 1;
}

// C = relu(A B) with packed panels of 2 x `lanes` columns and tiles of 4 rows.
std::string gemm(int m, int n, int k, const std::string& row_tail, const std::string& column_tail) {
  const int panels = (n + 7) / 8, tiles = (m + 3) / 4;
  const std::string tile = fmt::format("i0 * 4 + i1 < {} && j0 * 8 + jv * 4 + jl < {}", m, n);
  const std::string iters = fmt::format("vi: spatial[{}] = i0 * 4 + i1, vj: spatial[{}] = j0 * 8 + jv * 4 + jl", m, n);
  return fmt::format(R"(func gemm(A: f32[{m}, {k}], B: f32[{k}, {n}] constant, C: f32[{m}, {n}] output):
  alloc Bp: f32[{panels}, {k}, 8]
  alloc Cr: f32[{m}, {n}] @register
  for p in {panels}:
    for k in {k}:
      for l in 8:
        block pack(vp: spatial[{panels}] = p, vk: spatial[{k}] = k, vl: spatial[8] = l):
          reads B[vk, vp * 8 + vl]
          writes Bp[vp, vk, vl]
          Bp[vp, vk, vl] = select(vp * 8 + vl < {n}, B[vk, vp * 8 + vl], 0.0)
  for j0 in {panels} tail({column_tail}):
    for i0 in {tiles} tail({row_tail}):
      for i1 in 4 unrolled:
        for jv in 2 unrolled:
          for jl in 4 vectorized:
            block clear({iters}) where {tile}:
              writes Cr[vi, vj]
              Cr[vi, vj] = 0.0
      for k in {k}:
        for i1 in 4 unrolled:
          for jv in 2 unrolled:
            for jl in 4 vectorized:
              block C({iters}, vk: reduce[{k}] = k) where {tile}:
                reads A[vi, vk], Bp[vj // 8, vk, vj % 8]
                writes Cr[vi, vj]
                Cr[vi, vj] = Cr[vi, vj] + A[vi, vk] * Bp[vj // 8, vk, vj % 8]
      for i1 in 4 unrolled:
        for jv in 2 unrolled:
          for jl in 4 vectorized:
            block back({iters}) where {tile}:
              reads Cr[vi, vj]
              writes C[vi, vj]
              C[vi, vj] = max(Cr[vi, vj], 0.0)
)",
                     fmt::arg("m", m), fmt::arg("n", n), fmt::arg("k", k), fmt::arg("panels", panels),
                     fmt::arg("tiles", tiles), fmt::arg("iters", iters), fmt::arg("tile", tile),
                     fmt::arg("row_tail", row_tail), fmt::arg("column_tail", column_tail));
}

TEST(Lower, GemmWithEveryKindOfTail) {
  for (const char* rows : {"partition", "balance", "guard"})
    for (const char* columns : {"pad", "mask", "partition"}) {
      SCOPED_TRACE(fmt::format("{} {}", rows, columns));
      expect_same(parsed(gemm(9, 13, 5, rows, columns)));
      expect_same(parsed(gemm(8, 16, 3, rows, columns)));
      expect_same(parsed(gemm(3, 2, 4, rows, columns)));
    }
}

TEST(Lower, SurplusLanesOfANarrowTileAreComputedAndNotStored) {
  // 6 of 8 columns; the loop over vectors has one iteration.
  const Func func = parsed(R"(func narrow(A: f32[4, 5], Bp: f32[1, 5, 8], C: f32[4, 6] output):
  alloc Cr: f32[4, 6] @register
  for j0 in 1 tail(pad):
    for i1 in 4 unrolled:
      for jv in 1 unrolled:
        for jl in 8 vectorized:
          block clear(vi: spatial[4] = i1, vj: spatial[6] = j0 * 8 + jv * 8 + jl) where j0 * 8 + jv * 8 + jl < 6:
            writes Cr[vi, vj]
            Cr[vi, vj] = 0.0
    for k in 5:
      for i1 in 4 unrolled:
        for jv in 1 unrolled:
          for jl in 8 vectorized:
            block C(vi: spatial[4] = i1, vj: spatial[6] = j0 * 8 + jv * 8 + jl, vk: reduce[5] = k) where j0 * 8 + jv * 8 + jl < 6:
              reads A[vi, vk], Bp[vj // 8, vk, vj % 8]
              writes Cr[vi, vj]
              Cr[vi, vj] = Cr[vi, vj] + A[vi, vk] * Bp[vj // 8, vk, vj % 8]
    for i1 in 4 unrolled:
      for jl in 8 vectorized:
        block back(vi: spatial[4] = i1, vj: spatial[6] = jl) where jl < 6:
          reads Cr[vi, vj]
          writes C[vi, vj]
          C[vi, vj] = Cr[vi, vj]
)");
  expect_same(func);
  const std::string text = to_text(lower(func, parse_target("x86-64-avx512").value())->kernel);
  const size_t loop = text.find("for k in"), end = text.find("ramp(0, 1, 8) if");
  ASSERT_NE(loop, std::string::npos) << text;
  EXPECT_GT(end, loop) << text;                                      // a mask only where C is written …
  EXPECT_EQ(text.find("ramp(0, 1, 6)"), std::string::npos) << text;  // … and whole vectors everywhere
}

TEST(Lower, BlocksInsideBlocksDissolve) {
  expect_same(parsed(R"(func tiled(A: f32[8, 6], B: f32[6, 12], C: f32[8, 12] output):
  for i_0 in 2 parallel:
    for j_0 in 3:
      for k_0 in 2:
        block C_o(vio: spatial[2] = i_0, vjo: spatial[3] = j_0, vko: reduce[2] = k_0):
          reads A[vio * 4 +: 4, vko * 3 +: 3], B[vko * 3 +: 3, vjo * 4 +: 4]
          writes C[vio * 4 +: 4, vjo * 4 +: 4]
          init:
            for i_1 in 4:
              for j_1 in 4:
                block C_init(vi: spatial[8] = vio * 4 + i_1, vj: spatial[12] = vjo * 4 + j_1):
                  writes C[vi, vj]
                  C[vi, vj] = 0.0
          for i_2 in 4:
            for j_2 in 4:
              for k_1 in 3:
                block C(vi2: spatial[8] = vio * 4 + i_2, vj2: spatial[12] = vjo * 4 + j_2, vk: reduce[6] = vko * 3 + k_1):
                  reads A[vi2, vk], B[vk, vj2]
                  writes C[vi2, vj2]
                  C[vi2, vj2] = C[vi2, vj2] + A[vi2, vk] * B[vk, vj2]
)"));
}

// What shrinks keeps the gaps between its rows.
TEST(Lower, StridesOfItsOwnKeepTheirGaps) {
  const Func func = parsed(R"(func strided(A: f32[8, 6], B: f32[8, 6] output):
  alloc T: f32[8, 6] strides[33, 1]
  for i in 2:
    for j in 4:
      for k in 6:
        block T(vi: spatial[8] = i*4 + j, vk: spatial[6] = k):
          reads A[vi, vk]
          writes T[vi, vk]
          T[vi, vk] = A[vi, vk] * 2.0
    for j in 4:
      for k in 6:
        block B(vi: spatial[8] = i*4 + j, vk: spatial[6] = k):
          reads T[vi, 5 - vk]
          writes B[vi, vk]
          B[vi, vk] = T[vi, 5 - vk]
)");
  expect_same(func);
  const auto lowered = lower(func, parse_target("x86-64-avx512").value());
  ASSERT_TRUE(lowered);
  EXPECT_NE(to_text(lowered->kernel).find("f32[105]"), std::string::npos) << to_text(lowered->kernel);  // 3*33 + 6
}

constexpr const char* kBound = R"(func bound(A: f32[8, 6], B: f32[8, 6] output):
  for i in 8 thread axis("AXIS"):
    for j in 6 vectorized:
      block B(vi: spatial[8] = i, vj: spatial[6] = j):
        reads A[vi, vj]
        writes B[vi, vj]
        B[vi, vj] = A[vi, vj] * 2.0
)";

std::string bound_to(const std::string& axis) {
  std::string text = kBound;
  return text.replace(text.find("AXIS"), 4, axis);
}

TEST(Lower, VirtualThreadsAreLoopsOfACpu) { expect_same(parsed(bound_to("vthread.x"))); }

TEST(Lower, ACpuHasNoThreadsToBindTo) {
  const Func func = parsed(bound_to("threadIdx.x"));
  const Target cpu = parse_target("x86-64-avx512").value();
  const auto lowered = lower(func, cpu);
  ASSERT_FALSE(lowered);
  EXPECT_EQ(lowered.error().code, ErrorCode::E301);
  EXPECT_TRUE(lower(func, cpu, {.pipeline = Pipeline::kPlain}));  // run in order, it means the same
}

TEST(Lower, GemmWithoutNotesOrMicroKernels) {
  expect_same(parsed(gemm(9, 13, 5, "partition", "pad")), {.pipeline = Pipeline::kWhole});
  expect_same(parsed(gemm(9, 13, 5, "partition", "pad")), {.pipeline = Pipeline::kPlain});
}

TEST(Lower, ProgramsWithScansSaySo) {
  const auto is_noted = [](const char* kind, const char* value) {
    const auto lowered = lower(parsed(fmt::format(R"(
func f(A: f32[16], B: f32[16] output):
  for i in 16:
    block B(vi: {}[16] = i):
      reads A[vi]
      writes B[vi]
      B[vi] = {}
)",
                                                  kind, value)),
                               *parse_target("x86-64-avx512"));
    FETTLE_CHECK(lowered.has_value());
    return lowered->kernel.funcs.at("f")->annotations.get_int(kInOrderKey, 0) == 1;
  };
  EXPECT_TRUE(is_noted("scan", "A[vi] + 1.0"));
  EXPECT_FALSE(is_noted("scan", "A[vi]"));
  EXPECT_FALSE(is_noted("spatial", "A[vi] + 1.0"));
}

TEST(Lower, TellsOfEachPassInOrder) {
  const Func func = parsed(gemm(9, 13, 5, "partition", "pad"));
  const Target cpu = parse_target("x86-64-avx512").value();
  for (const Pipeline pipeline : {Pipeline::kFull, Pipeline::kWhole, Pipeline::kUnexpanded, Pipeline::kUnexpandedWhole,
                                  Pipeline::kScalar, Pipeline::kPlain}) {
    std::vector<std::string> told, wanted;
    for (const LoweringPass& pass : lowering_passes(pipeline)) wanted.emplace_back(pass.name);
    std::string last;
    const auto lowered =
        lower(func, cpu, {.pipeline = pipeline, .after = [&](std::string_view pass, const LoweredKernel& now) {
                            told.emplace_back(pass);
                            last = to_text(now.kernel);
                          }});
    ASSERT_TRUE(lowered);
    EXPECT_EQ(told, wanted);
    EXPECT_EQ(last, to_text(lowered->kernel));
  }
}

// The kernel with micro-kernels and that without, made together and each alone.
TEST(Lower, BothFormsAtOnce) {
  const Func func = parsed(gemm(9, 13, 5, "partition", "pad"));
  for (const char* name : {"x86-64-avx512", "x86-64-avx2"}) {
    const Target cpu = parse_target(name).value();
    for (const auto& [both, apart] :
         {std::pair(Pipeline::kFull, Pipeline::kWhole), std::pair(Pipeline::kUnexpanded, Pipeline::kUnexpandedWhole)}) {
      const auto made = lower(func, cpu, {.pipeline = both, .whole = true});
      ASSERT_TRUE(made);
      EXPECT_EQ(to_text(made->kernel), to_text(lower(func, cpu, {.pipeline = both})->kernel));
      EXPECT_EQ(to_text(made->prologue), to_text(lower(func, cpu, {.pipeline = both})->prologue));
      const auto alone = lower(func, cpu, {.pipeline = apart});
      EXPECT_EQ(to_text(made->whole), to_text(alone->kernel.funcs.at(alone->kernel.entry)));
    }
  }
}

TEST(Lower, ATailTakesOneMoreMicroKernel) {
  EXPECT_EQ(micro_kernels(parsed(gemm(8, 16, 3, "partition", "pad"))), 1u);
  EXPECT_EQ(micro_kernels(parsed(gemm(9, 16, 3, "partition", "pad"))), 2u);
  EXPECT_EQ(micro_kernels(parsed(gemm(9, 13, 3, "partition", "partition"))), 4u);
}

// Four vectors, or as many as hold what is left: the last of these alone has a mask, where it is not whole.
TEST(Lower, FewOpenColumnsTakeNarrowMicroKernels) {
  const Func func = parsed(R"(
func product(A: f32[24], B: f32[24, n], C: f32[n] output, n: i64 in 1..200):
  alloc Cr: f32[n] @register
  for p in (n + 63) // 64 tail(partition):
    for v in 4 unrolled:
      for l in 16 vectorized:
        block C_init(vj: spatial[n] = p * 64 + v * 16 + l) where p * 64 + (v * 16 + l) < n:
          writes Cr[vj]
          Cr[vj] = 0.0
    for k in 24:
      for v in 4 unrolled:
        for l in 16 vectorized:
          block C(vj: spatial[n] = p * 64 + v * 16 + l, vk: reduce[24] = k) where p * 64 + (v * 16 + l) < n:
            reads A[vk], B[vk, vj]
            writes Cr[vj]
            Cr[vj] = Cr[vj] + A[vk] * B[vk, vj]
    for v in 4 unrolled:
      for l in 16 vectorized:
        block back(vj: spatial[n] = p * 64 + v * 16 + l) where p * 64 + (v * 16 + l) < n:
          reads Cr[vj]
          writes C[vj]
          C[vj] = Cr[vj]
)");
  const LoweredKernel lowered = lower(func, parse_target("x86-64-avx512").value()).value();
  std::multiset<std::pair<int, int>> stores;  // to the output: whole vectors, and those under a mask
  for (const auto& [name, f] : lowered.kernel.funcs) {
    if (name == lowered.kernel.entry) continue;
    std::pair<int, int> own;
    each_node<StoreNode>(f->body, [&](const StoreNode& s) {
      if (s.buffer->scope != kScopeRegister) ++(s.mask ? own.second : own.first);
    });
    stores.insert(own);
  }
  const std::multiset<std::pair<int, int>> expected = {{4, 0}, {0, 1}, {1, 0}, {1, 1}, {2, 0}, {2, 1}, {3, 0}, {3, 1}};
  EXPECT_EQ(stores, expected) << to_text(lowered.kernel);
}

// What lies inside of an image of open size is not asked whether it does.
TEST(Lower, StraightCodeInsideOfAnOpenImageHasNoGuards) {
  const Func func = parsed(R"(
func sums(A: f32[n], B: f32[n] output, n: i64 in 1..200):
  alloc T: f32[n, 3]
  for i in n:
    for j in 3 unrolled:
      block T(vi: spatial[n] = i, vj: spatial[3] = j):
        reads A[vi + vj - 1]
        writes T[vi, vj]
        T[vi, vj] = select(likely(1 <= vi + vj && vi + vj <= n), A[vi + vj - 1], 0.0)
    block B(vi: spatial[n] = i):
      reads T[vi, 0 +: 3]
      writes B[vi]
      B[vi] = T[vi, 0] + T[vi, 1] * T[vi, 2]
)");
  const LoweredKernel lowered = lower(func, parse_target("x86-64-avx512").value()).value();
  const Stmt& body = lowered.kernel.funcs.at(lowered.kernel.entry)->body;
  bool inside = false;
  each_node<IfNode>(body, [&](const IfNode& choice) {
    inside |= !contains<SelectNode>(choice.then_body, [](const SelectNode&) { return true; }) &&
              contains<SelectNode>(choice.else_body, [](const SelectNode&) { return true; });
  });
  EXPECT_TRUE(inside) << to_text(lowered.kernel);
}

// Inside of an image of open height the taps are unrolled; at its border they are a loop with bounds.
TEST(Lower, UnrolledTapsAreALoopAtTheBorderOfAnOpenImage) {
  const Func func = parsed(R"(
func column(X: f32[n, 16], W: f32[3], O: f32[n, 16] output, n: i64 in 1..200):
  alloc R: f32[n, 16] @register
  for i in n:
    for l in 16 vectorized:
      block O_init(vi: spatial[n] = i, vl: spatial[16] = l):
        writes R[vi, vl]
        R[vi, vl] = 0.0
    for k in 3 unrolled:
      for l in 16 vectorized:
        block O(vi: spatial[n] = i, vl: spatial[16] = l, vk: reduce[3] = k):
          reads X[vi + vk - 1, vl], W[vk]
          writes R[vi, vl]
          R[vi, vl] = R[vi, vl] + select(likely(1 <= vi + vk && vi + vk <= n), X[vi + vk - 1, vl], 0.0) * W[vk]
    for l in 16 vectorized:
      block back(vi: spatial[n] = i, vl: spatial[16] = l):
        reads R[vi, vl]
        writes O[vi, vl]
        O[vi, vl] = R[vi, vl]
)");
  const LoweredKernel lowered = lower(func, parse_target("x86-64-avx512").value()).value();
  size_t with_loops = 0, without = 0;
  for (const auto& [name, f] : lowered.kernel.funcs) {
    if (name == lowered.kernel.entry) continue;
    ++(contains<ForNode>(f->body, [](const ForNode&) { return true; }) ? with_loops : without);
    EXPECT_FALSE(contains<SelectNode>(f->body, [](const SelectNode&) { return true; })) << to_text(lowered.kernel);
    EXPECT_FALSE(contains<IfNode>(f->body, [](const IfNode&) { return true; })) << to_text(lowered.kernel);
  }
  EXPECT_EQ(with_loops, 1u) << to_text(lowered.kernel);
  EXPECT_EQ(without, 1u) << to_text(lowered.kernel);
}

TEST(Lower, WholeVectorsHaveNoMasksWhereTheseAreDear) {
  const Func padded = parsed(gemm(8, 21, 3, "partition", "pad")), masked = parsed(gemm(8, 21, 3, "partition", "mask"));
  EXPECT_EQ(micro_kernels(padded), 1u);
  for (const Func& func : {padded, masked}) {
    size_t with_masks = 0;
    const LoweredKernel lowered = lower(func, parse_target("x86-64-avx2").value()).value();
    for (const auto& [name, f] : lowered.kernel.funcs) {
      bool masks = false;
      walk(f->body, [&](const Stmt& s) {
        if (const auto* store = s.as<StoreNode>()) masks |= static_cast<bool>(store->mask);
        return true;
      });
      with_masks += masks;
    }
    EXPECT_EQ(with_masks, 1u) << "the last panel's: " << to_text(lowered.kernel);
    EXPECT_EQ(lowered.kernel.funcs.size(), 3u) << to_text(lowered.kernel);
  }
  EXPECT_EQ(micro_kernels(parsed(gemm(8, 24, 3, "partition", "pad")), "x86-64-avx2"), 1u);
}

TEST(Lower, MicroKernelsDoNotDependOnTheShapeAround) {
  // Strides above 64 elements and trip counts are arguments.
  const auto names = [](const Func& func) {
    std::vector<std::string> list;
    const LoweredKernel lowered = lower(func, parse_target("x86-64-avx512").value()).value();
    for (const auto& [name, f] : lowered.kernel.funcs)
      if (name.starts_with("micro_kernel_")) list.push_back(name);
    return list;
  };
  EXPECT_EQ(names(parsed(gemm(8, 160, 100, "partition", "pad"))),
            names(parsed(gemm(16, 240, 200, "partition", "pad"))));
}

// A convolution of 3 taps whose padding is a guard inside the sum: three micro-kernels, and bounds instead of guards on
// rows.
constexpr const char* kConvolution =
    R"(func conv(I: f32[7, 12, 4], W: f32[3, 3, 4, 8] constant, O: f32[7, 12, 8] output):
  alloc Cr: f32[7, 12, 8] @register
  for oh in 7:
    for ow0 in 3 tail(partition):
      for ow1 in 4 unrolled:
        for l in 8 vectorized:
          block clear(vh: spatial[7] = oh, vw: spatial[12] = ow0 * 4 + ow1, vl: spatial[8] = l):
            writes Cr[vh, vw, vl]
            Cr[vh, vw, vl] = 0.0
      for kh in 3:
        for kw in 3 unrolled:
          for ic in 4:
            for ow1 in 4 unrolled:
              for l in 8 vectorized:
                block C(vh: spatial[7] = oh, vw: spatial[12] = ow0 * 4 + ow1, vl: spatial[8] = l, vc: reduce[4] = ic, vkh: reduce[3] = kh, vkw: reduce[3] = kw):
                  reads I[vh + vkh - 1, vw + vkw - 1, vc], W[vkh, vkw, vc, vl]
                  writes Cr[vh, vw, vl]
                  Cr[vh, vw, vl] = Cr[vh, vw, vl] + select(likely(0 <= vh + vkh - 1 && vh + vkh - 1 < 7 && 0 <= vw + vkw - 1 && vw + vkw - 1 < 12), I[vh + vkh - 1, vw + vkw - 1, vc], 0.0) * W[vkh, vkw, vc, vl]
      for ow1 in 4 unrolled:
        for l in 8 vectorized:
          block back(vh: spatial[7] = oh, vw: spatial[12] = ow0 * 4 + ow1, vl: spatial[8] = l):
            reads Cr[vh, vw, vl]
            writes O[vh, vw, vl]
            O[vh, vw, vl] = Cr[vh, vw, vl]
)";

TEST(Lower, PaddingBecomesBoundsAndBorderMicroKernels) {
  const Func func = parsed(kConvolution);
  expect_same(func);
  EXPECT_EQ(micro_kernels(func), 3u);  // left, middle, right
  const LoweredKernel lowered = *lower(func, parse_target("x86-64-avx512").value());
  for (const auto& [name, f] : lowered.kernel.funcs) {
    bool guarded = false;
    walk(f->body, [&](const Stmt& s) {
      if (s.as<IfNode>()) guarded = true;
      return true;
    });
    EXPECT_EQ(guarded, name == lowered.kernel.entry) << to_text(lowered.kernel);
  }
}

TEST(Lower, AGuardOfAValueIsNoTail) {
  // Rows from 5 on must come out as zeros: the guard is about values and must not be dropped with the tails.
  expect_same(parsed(R"(func f(A: f32[8, 6], B: f32[6, 4] constant, C: f32[8, 4] output):
  alloc Cr: f32[8, 4] @register
  for i0 in 2:
    for i1 in 4 unrolled:
      for j in 4 vectorized:
        block clear(vi: spatial[8] = i0 * 4 + i1, vj: spatial[4] = j):
          writes Cr[vi, vj]
          Cr[vi, vj] = 0.0
    for k in 6:
      for i1 in 4 unrolled:
        for j in 4 vectorized:
          block C(vi: spatial[8] = i0 * 4 + i1, vj: spatial[4] = j, vk: reduce[6] = k):
            reads A[vi, vk], B[vk, vj]
            writes Cr[vi, vj]
            Cr[vi, vj] = Cr[vi, vj] + select(vi < 5, A[vi, vk], 0.0) * B[vk, vj]
    for i1 in 4 unrolled:
      for j in 4 vectorized:
        block back(vi: spatial[8] = i0 * 4 + i1, vj: spatial[4] = j):
          reads Cr[vi, vj]
          writes C[vi, vj]
          C[vi, vj] = Cr[vi, vj]
)"));
}

TEST(Lower, TheFirstStepOfASumIsNoTail) {
  // Iterations of the fused loop from 9 on are surplus, but those from 1 on are steps of the one sum, not lanes.
  expect_same(parsed(R"(func f(A: f32[9], B: f32[1] output):
  alloc R: f32[1] @register
  for r in 54 tail(pad):
    block R(vu: spatial[1] = r // 9, vk: reduce[9] = r % 9) where r < 9:
      reads A[vk]
      writes R[vu]
      init:
        R[vu] = inf
      R[vu] = min(R[vu], A[vk])
    block B(vu: spatial[1] = 0) where r == 8:
      reads R[vu]
      writes B[vu]
      B[vu] = R[vu]
)"));
}

TEST(Lower, AnInitInPlaceRunsOnceForEachElement) {
  const Func func = parsed(R"(func f(A: f32[6, 10], B: f32[6] output):
  for i in 6:
    for k in 10:
      block B(vi: spatial[6] = i, vk: reduce[10] = k):
        reads A[vi, vk]
        writes B[vi]
        init:
          B[vi] = 0.0
        B[vi] = B[vi] + A[vi, vk]
)");
  expect_same(func);
  expect_same(func, {.pipeline = Pipeline::kPlain});
}

TEST(Lower, MaximumOverAPaddedWindow) {
  expect_same(parsed(R"(func pool(A: f32[9, 8], B: f32[9, 8] output):
  for i in 9:
    for l in 8 vectorized:
      for k in 3:
        block B(vi: spatial[9] = i, vl: spatial[8] = l, vk: reduce[3] = k):
          reads A[vi + vk - 1, vl]
          writes B[vi, vl]
          init:
            B[vi, vl] = -inf
          B[vi, vl] = max(B[vi, vl], select(0 <= vi + vk - 1 && vi + vk - 1 < 9, A[vi + vk - 1, vl], -inf))
)"));
}

TEST(Lower, VectorLoopsMaskTheirTails) {
  expect_same(parsed(R"(func f(A: f32[5, 13], S: f32[5], B: f32[5, 13] output):
  for i in 5 parallel:
    for j0 in 4 tail(mask):
      for j1 in 4 vectorized:
        block B(vi: spatial[5] = i, vj: spatial[13] = j0 * 4 + j1) where j0 * 4 + j1 < 13:
          reads A[vi, vj], S[vi]
          writes B[vi, vj]
          B[vi, vj] = A[vi, vj] * S[vi] + select(vj < 7, A[vi, vj], S[vi])
)"));
}

// What a condition reads in any case is there: neither side reads it under that condition. Guards stay.
TEST(Lower, ConditionsOnValuesMaskNothingThatTheyRead) {
  const Func func = parsed(R"(func f(A: f32[40], W: f32[5], B: f32[5, 8] output):
  for i in 5:
    for j in 8 vectorized:
      block B(vi: spatial[5] = i, vj: spatial[8] = j):
        reads A[0 +: 40], W[vi]
        writes B[vi, vj]
        B[vi, vj] = select(select(3 <= vj, A[vi * 8 + vj - 3], 0.0) * W[vi] < 2.0, select(3 <= vj, A[vi * 8 + vj - 3], 0.0) * W[vi], A[vi * 8 + 7 - vj])
)");
  expect_same(func);
  const auto lowered = lower(func, parse_target("x86-64-avx512").value());
  std::string text;
  for (const auto& [name, lowered_func] : lowered->kernel.funcs) text += to_text(lowered_func);
  EXPECT_EQ(text.find("W[broadcast("), std::string::npos) << text;  // read once, for all lanes
  EXPECT_NE(text.find("if broadcast(3, 8) <= ramp(0, 1, 8)]"), std::string::npos) << text;
  EXPECT_NE(text.find("if !("), std::string::npos) << text;  // what the condition does not read
}

TEST(Lower, BuffersShrinkToWhatOneIterationUses) {
  const Func func = parsed(R"(func f(A: f32[6, 64], B: f32[6, 64] output):
  alloc T: f32[6, 64]
  for i in 6:
    for j in 64:
      block T(vi: spatial[6] = i, vj: spatial[64] = j):
        reads A[vi, vj]
        writes T[vi, vj]
        T[vi, vj] = A[vi, vj] + 1.0
    for j in 64:
      block B(vi: spatial[6] = i, vj: spatial[64] = j):
        reads T[vi, 63 - vj]
        writes B[vi, vj]
        B[vi, vj] = T[vi, 63 - vj]
)");
  expect_same(func);
  int64_t allocated = 0;
  const LoweredKernel lowered = lower(func, parse_target("x86-64-avx512").value()).value();
  for (const auto& [name, f] : lowered.kernel.funcs)
    walk(f->body, [&](const Stmt& s) {
      if (const auto* alloc = s.as<AllocateNode>()) allocated += elements(alloc->buffer);
      return true;
    });
  EXPECT_EQ(allocated, 64);
}

TEST(TightenLoops, GuardsBecomeBounds) {
  const IrModule module = parse_module(R"(lowered func f(A: f32[100] output, b: i64 in 0..50):
  for i in 100:
    if i < b && 3 <= i:
      A[i] = 1.0
)")
                              .value();
  const Func func = module.funcs.begin()->second;
  const Stmt body = tighten_loops(func->body, func->int_params);
  const auto* loop = body.as<ForNode>();
  ASSERT_TRUE(loop) << to_text(body);
  EXPECT_TRUE(is_int(loop->min, 3));
  EXPECT_TRUE(loop->body.as<StoreNode>()) << to_text(body);
}

// 2^60 rewrites would not end.
// What the loop writes is asked in each iteration, whether or not it counts them.
TEST(TightenLoops, GuardsOfWhatChangesStay) {
  const auto func = parse_func(R"(lowered func f(A: i64[64] output, n: i64 in 1..64):
  for i in n:
    if A[0] < 5:
      A[0] = A[0] + 1
  for i in n:
    if i < A[1]:
      A[1] = A[1] - 1
)");
  ASSERT_TRUE(func.has_value()) << func.error().to_string();
  EXPECT_TRUE(structural_equal(tighten_loops((*func)->body, (*func)->int_params), (*func)->body));
}

TEST(TightenLoops, ChoicesInChoicesAreRewrittenOnce) {
  const Buffer a = make_buffer("A", {100});
  const Var i = make_var("i");
  Stmt body = store(a, {i}, float_imm(1));
  for (int depth = 0; depth < 60; ++depth) body = if_then(lt(i, depth), body, store(a, {i}, float_imm(2)));
  body = make_for(i, 0, 100, body);
  EXPECT_TRUE(structural_equal(tighten_loops(body, {}), body));
}

// A micro-kernel that asks for the rows of the next tile knows as little of the shapes around it as any other.
TEST(Lower, MicroKernelsThatAskAheadDoNotDependOnTheShapeAround) {
  const auto names = [](int m, int k) {
    const std::string text = gemm(m, 32, k, "exact", "pad");
    const std::string loop = fmt::format("    for i0 in {} tail(exact)", (m + 3) / 4);
    const size_t at = text.find(loop);
    EXPECT_NE(at, std::string::npos) << text;
    const LoweredKernel lowered =
        lower(parse_func(std::string(text).replace(at, loop.size(), loop + " {prefetch = 1}")).value(),
              parse_target("x86-64-avx512").value())
            .value();
    std::vector<std::string> result;
    for (const auto& [name, f] : lowered.kernel.funcs)
      if (name != lowered.kernel.entry) result.push_back(name);
    return result;
  };
  EXPECT_EQ(names(64, 128), names(32, 256));
}

// A step's first statement may only copy what the step before has left, for the scan to take up: the buffer stays.
TEST(Lower, WhatACopyTakesFromTheStepBeforeStays) {
  expect_same(parsed(R"(
func f(A: f32[16], B: f32[1] output):
  alloc Sum: f32[1]
  alloc Before: f32[1]
  for k in 16:
    for u in 1:
      block copy(vu: spatial[1] = u):
        reads Sum[vu]
        writes Before[vu]
        Before[vu] = Sum[vu]
    for u in 1:
      block sum(vu: spatial[1] = u, step: scan[16] = k):
        reads Before[vu], A[step]
        writes Sum[vu]
        Sum[vu] = select(step == 0, 0.0, Before[vu]) + A[step]
    for u in 1:
      block B(vu: spatial[1] = u) where k == 15:
        reads Sum[vu]
        writes B[vu]
        B[vu] = Sum[vu]
)"));
}

// A loop of which the sum asks only whether to take a step has iterations that leave the sum to later ones.
TEST(Lower, ASumThatTheFirstOfItsIterationsMakesStays) {
  expect_same(parsed(R"(
func f(A: f32[16], B: f32[2] output):
  alloc Sum: f32[2] @register
  for i in 2:
    for p in 3:
      for k in 16:
        block sum(vi: spatial[2] = i, vk: reduce[16] = k) where p < 1:
          reads A[vk]
          writes Sum[vi]
          init:
            Sum[vi] = 0.0
          Sum[vi] = Sum[vi] + select(vk <= vi, A[vk], 0.0)
        block B(vi: spatial[2] = i) where p == 2 && k == 15:
          reads Sum[vi]
          writes B[vi]
          B[vi] = Sum[vi]
)"));
}

// So does what is not summed: the iterations after the first copy what the first has left.
TEST(Lower, WhatTheFirstOfItsIterationsWritesStays) {
  expect_same(parsed(R"(
func f(A: f32[16], B: f32[16] output):
  alloc Before: f32[16]
  for p in 3:
    for i in 16:
      block before(vi: spatial[16] = i) where p < 1:
        reads A[vi]
        writes Before[vi]
        Before[vi] = A[vi]
      block B(vi: spatial[16] = i):
        reads Before[vi]
        writes B[vi]
        B[vi] = Before[vi]
)"));
}

// What a nest of the program reads may not have been updated at compile time.
TEST(Lower, APrologueDoesNotOvertakeReaders) {
  expect_same(parsed(R"(
func f(A: f32[5] constant, C: f32[5] output, D: f32[5] output):
  alloc B: f32[5]
  for i in 5:
    block B(vi: spatial[5] = i):
      reads A[vi]
      writes B[vi]
      B[vi] = A[vi]
  for i in 5:
    block C(vi: spatial[5] = i):
      reads B[vi]
      writes C[vi]
      C[vi] = B[vi] + 1.0
  for i in 5:
    block again(vi: spatial[5] = i):
      reads B[vi]
      writes B[vi]
      B[vi] = B[vi] * 2.0
  for i in 5:
    block D(vi: spatial[5] = i):
      reads B[vi]
      writes D[vi]
      D[vi] = B[vi] + 3.0
)"));
}

// The guard of a store to registers goes only where it keeps surplus lanes out, which nothing reads; not where the
// other lanes hold something else.
TEST(Lower, LanesThatAreReadKeepTheirGuards) {
  const auto program = [](const char* first, const char* last) {
    return fmt::format(R"(
func f(A: f32[16], B: f32[16], C: f32[16] output):
  alloc R: f32[16] @register
  for o in 2:
    for i in 8 vectorized:
      block R(vi: spatial[16] = o * 8 + i):
        reads A[vi]
        writes R[vi]
        R[vi] = A[vi]
    for i in 8 vectorized:
      block again(vi: spatial[16] = o * 8 + i){}:
        reads B[vi]
        writes R[vi]
        R[vi] = B[vi]
    for i in 8 vectorized:
      block C(vi: spatial[16] = o * 8 + i){}:
        reads R[vi]
        writes C[vi]
        C[vi] = R[vi]
)",
                       first, last);
  };
  const auto text_of = [](const std::string& program) {
    const auto lowered = lower(parsed(program), parse_target("x86-64-avx512").value());
    std::string text;
    for (const auto& [name, func] : lowered->kernel.funcs) text += to_text(func);
    return text;
  };
  const std::string partly = program(" where o * 8 + i < 11", "");
  expect_same(parsed(partly));
  EXPECT_NE(text_of(partly).find("if ramp(0, 1, 8) < broadcast(3, 8)"), std::string::npos) << text_of(partly);
  // All of them stop there: only the store to memory has a mask.
  const std::string tail = text_of(program(" where o * 8 + i < 11", " where o * 8 + i < 11"));
  EXPECT_EQ(tail.find("R[ramp(0, 1, 8) if"), std::string::npos) << tail;
}

// What surplus lanes hold may be zero, by which integers cannot be divided.
TEST(Lower, SurplusLanesDoNotDivide) {
  const Func func = parsed(R"(
func f(A: i64[16], B: i64[16], C: i64[11] output):
  alloc R: i64[16] @register
  for o in 2:
    for i in 8 unrolled:
      block R(vi: spatial[16] = o * 8 + i) where o * 8 + i < 11:
        reads A[vi], B[vi]
        writes R[vi]
        R[vi] = A[vi] // B[vi]
    for i in 8 unrolled:
      block C(vi: spatial[11] = o * 8 + i) where o * 8 + i < 11:
        reads R[vi]
        writes C[vi]
        C[vi] = R[vi]
)");
  std::vector<int64_t> a(16, 7), b(16, 2), c(11);
  std::fill(b.begin() + 11, b.end(), 0);
  std::vector<BufferArg> args;
  for (auto* x : {&a, &b, &c}) args.push_back({x->data(), static_cast<int64_t>(x->size() * 8)});
  const auto lowered = lower(func, parse_target("x86-64-avx512").value());
  ASSERT_TRUE(lowered);
  ASSERT_TRUE(interpret(lowered->kernel, args));
  EXPECT_EQ(c, std::vector<int64_t>(11, 3));
}

// A condition on what registers hold cannot be asked outside of the kernel.
TEST(Lower, ConditionsOnRegistersStayInside) {
  const Func func = parsed(R"(
func f(A: i64[3], B: i64[3] output):
  alloc R: i64[3] @register
  for i in 3:
    block R(vi: spatial[3] = i):
      reads A[vi]
      writes R[vi]
      R[vi] = A[vi]
    block B(vi: spatial[3] = i):
      reads R[vi]
      writes B[vi]
      B[vi] = select(R[vi] < 1, R[vi], 1)
)");
  const auto lowered = lower(func, parse_target("x86-64-avx512").value());
  ASSERT_TRUE(lowered);
  const std::string text = to_text(lowered->kernel.funcs.at(lowered->kernel.entry));
  EXPECT_EQ(text.find("R["), std::string::npos) << text;
}

}  // namespace
}  // namespace fettle
