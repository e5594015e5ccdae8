// The constructed defaults of targets with threads, run by OpenCL (and CUDA, where a device is) beside the interpreter.

#include <gtest/gtest.h>

#include <fmt/format.h>

#include <algorithm>

#include "analysis/verify.h"
#include "codegen/cuda/cuda_codegen.h"
#include "codegen/cuda/cuda_compile.h"
#include "codegen/device/testing.h"
#include "lower/passes/passes.h"
#include "tune/space/open_list.h"
#include "tune/space/open_testing.h"
#include "tune/space/space.h"
#include "tune/space/test_workloads.h"

namespace fettle {
namespace {

using testing::NamedWorkload;
using testing::OpenWorkload;

std::shared_ptr<const Target> target_named(const char* name) {
  return std::make_shared<const Target>(parse_target(name).value());
}

// Kernels have many threads, but for those that make one element.
void expect_threads(const Func& workload, const DeviceProgram& program) {
  for (const auto& [name, kernel] : program.kernels) {
    const bool alone = is_one(kernel.grid[0]) && kernel.block[0] * kernel.block[1] * kernel.block[2] == 1;
    const bool one_element = std::ranges::all_of(kernel.func->params, [](const Param& param) {
      return param.kind != ParamKind::kOutput || is_one(param.buffer->shape[0]);
    });
    EXPECT_FALSE(alone && !one_element) << workload->name << ": one thread runs all of\n" << to_text(kernel.func);
  }
}

// NVRTC takes the program as it is for CUDA.
void expect_compiles(const Func& workload, const char* arch) {
  const auto target = target_named((std::string("cuda -arch ") + arch).c_str());
  const auto s = default_schedule(workload, target, 1);
  ASSERT_OK(s);
  const auto program = lower_for_device(s->func(), *target);
  ASSERT_OK(program) << to_text(s->func());
  const auto source = emit_cuda(*program);
  ASSERT_OK(source) << to_text(*program);
  if (!has_nvrtc()) return;
  EXPECT_OK(compile_cuda(*source, arch)) << *source;
}

testing::RunFn on_opencl(const DeviceProgram& program) {
  setenv("POCL_CACHE_DIR", FETTLE_BINARY_DIR "/pocl-cache", 0);
  return [&program](std::span<const BufferArg> args, std::span<const int64_t> ints) {
    return run_opencl(program, args, ints);
  };
}

DeviceProgram default_kernels(const Func& workload, const char* target_name = "cuda -arch sm_90") {
  const auto target = target_named(target_name);
  const auto s = default_schedule(workload, target, 1);
  EXPECT_OK(s);
  auto program = lower_for_device(split_prologue(s->func()).main, *target);
  EXPECT_OK(program);
  return std::move(*program);
}

bool says(const DeviceProgram& program, const std::string& text) {
  return to_text(program).find(text) != std::string::npos;
}

size_t count_of(const std::string& text, const std::string& what) {
  size_t count = 0;
  for (size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++count;
  return count;
}

Func loops_of(const std::string& text) {
  const auto made = parse_loops(text);
  EXPECT_OK(made);
  return *made;
}

// Means of columns of halves, rounded to halves.
Func column_means(int64_t rows, int64_t columns) {
  const te::Tensor x = te::placeholder({rows, columns}, kF16, "X");
  const te::ReduceAxis k = te::reduce_axis(rows, "k");
  const te::Tensor s =
      te::compute({columns}, [&](const testing::Indices& i) { return te::sum(cast(kF32, x(k, i[0])), {k}); }, "S");
  const te::Tensor y = te::compute(
      {columns},
      [&](const testing::Indices& i) { return cast(kF16, s(i[0]) * float_imm(1.0 / static_cast<double>(rows))); }, "Y");
  return te::create_func("column_means", {x}, {y});
}

Func layer_norm_of_halves(int64_t rows, int64_t columns) {
  const te::Tensor x = te::placeholder({rows, columns}, kF16, "X");
  const te::ReduceAxis k = te::reduce_axis(columns, "k"), q = te::reduce_axis(columns, "q");
  const Expr share = float_imm(1.0 / static_cast<double>(columns));
  const te::Tensor s =
      te::compute({rows}, [&](const testing::Indices& i) { return te::sum(cast(kF32, x(i[0], k)), {k}); }, "S");
  const te::Tensor m = te::compute({rows}, [&](const testing::Indices& i) { return s(i[0]) * share; }, "M");
  const auto centred = [&](const Expr& i, const Expr& j) { return cast(kF32, x(i, j)) - m(i); };
  const te::Tensor v = te::compute(
      {rows}, [&](const testing::Indices& i) { return te::sum(centred(i[0], q) * centred(i[0], q), {q}); }, "V");
  const te::Tensor y = te::compute(
      {rows, columns},
      [&](const testing::Indices& i) {
        return cast(kF16, centred(i[0], i[1]) * math("rsqrt", {v(i[0]) * share + float_imm(1e-5)}));
      },
      "Y");
  return te::create_func("layer_norm", {x}, {y});
}

TEST(GpuDefault, ElementwiseWorkIsInAccessesOf16Bytes) {
  const DeviceProgram program = default_kernels(testing::elementwise_workload(64, 128, 256));
  EXPECT_EQ(program.kernels.size(), 1u);
  EXPECT_TRUE(says(program, "X_lanes[ramp(0, 1, 4)] = X[ramp(")) << to_text(program);
  EXPECT_TRUE(says(program, "] = Y_lanes[ramp(")) << to_text(program);
}

TEST(GpuDefault, ASoftmaxReadsEachRowOnce) {
  const DeviceProgram program = default_kernels(testing::softmax_workload(4096, 4096));
  ASSERT_EQ(program.kernels.size(), 1u);
  const DeviceKernel& kernel = program.kernels.begin()->second;
  EXPECT_EQ(as_int(kernel.grid[0]) ? *as_int(kernel.grid[0]) : 0, 4096);
  EXPECT_EQ(kernel.block[0], 256);
  EXPECT_TRUE(says(program, "X_local[ramp(0, 1, 4)] = X[ramp(")) << to_text(program);
  const std::string text = to_text(kernel.func);
  size_t reads = 0;
  for (size_t at = text.find("= X["); at != std::string::npos; at = text.find("= X[", at + 1)) ++reads;
  EXPECT_EQ(reads, 4u) << text;
}

TEST(GpuDefault, AFewLongSumsAreAddedUpByAllMultiprocessors) {
  const DeviceProgram program = default_kernels(testing::reduction_workload(1, 1, 1 << 22, false));
  ASSERT_EQ(program.kernels.size(), 2u) << to_text(program);
  EXPECT_GE(*as_int(program.kernels.begin()->second.grid[0]), 132);
}

TEST(GpuDefault, SumsOfColumnsAreReadInAccessesOf16BytesSeveralAtOnce) {
  const DeviceProgram program =
      default_kernels(loops_of("X: f32[8192, 4096]\n"
                               "for j in 4096: for k in 8192: Y[j] += X[k, j]"));
  ASSERT_EQ(program.kernels.size(), 2u) << to_text(program);  // parts, and their sums
  const std::string text = to_text(program.kernels.begin()->second.func);
  EXPECT_GE(count_of(text, " = X[ramp("), 8u) << text;
}

TEST(GpuDefault, GatheredRowsAreReadInAccessesOf16Bytes) {
  const DeviceProgram program =
      default_kernels(loops_of("T: f32[512, 1024]\nI: i64[512]\n"
                               "for i in 512: for j in 1024: Y[i, j] = T[max(0, min(I[i], 511)), j]"));
  ASSERT_EQ(program.kernels.size(), 1u) << to_text(program);
  EXPECT_TRUE(says(program, ", 1, 4)] = T[ramp(")) << to_text(program);
}

TEST(GpuDefault, WindowsOfChannelsLastAreReadInAccessesOf16Bytes) {
  const DeviceProgram program =
      default_kernels(testing::conv_workload({.h = 128, .w = 128, .ic = 64, .oc = 64, .groups = 64}));
  ASSERT_EQ(program.kernels.size(), 1u) << to_text(program);
  const std::string text = to_text(program.kernels.begin()->second.func);
  EXPECT_EQ(count_of(text, "] = X[ramp("), 9u) << text;
}

TEST(GpuDefault, AFewTermsAreInFlightTogetherAndTheEpilogueBelongsToThem) {
  const DeviceProgram program = default_kernels(column_means(49, 2048));
  ASSERT_EQ(program.kernels.size(), 1u) << to_text(program);
  EXPECT_EQ(count_of(to_text(program), "for "), count_of(to_text(program), "thread axis")) << to_text(program);
}

// The mean of a row, which all its elements share, does not hide that they lie side by side.
TEST(GpuDefault, ALayerNormOfHalvesReadsEachRowOnce) {
  const DeviceProgram program = default_kernels(layer_norm_of_halves(197, 768));
  ASSERT_EQ(program.kernels.size(), 1u) << to_text(program);
  const std::string text = to_text(program.kernels.begin()->second.func);
  EXPECT_EQ(count_of(text, " = X[ramp("), 6u) << text;
  EXPECT_EQ(count_of(text, "X["), 6u) << text;
}

TEST(GpuDefault, ATransposeGoesThroughSharedMemory) {
  const DeviceProgram program = default_kernels(testing::transpose_workload(64, 256, 512));
  ASSERT_EQ(program.kernels.size(), 1u);
  EXPECT_GT(program.kernels.begin()->second.shared_bytes, 32 * 32 * 4) << to_text(program);
}

TEST(GpuDefault, AProductTakesItsEpilogueAlong) {
  for (const int64_t n : {512, 500}) {  // what tiles do not divide, too
    const DeviceProgram program = default_kernels(testing::matmul_workload(n, n, n, false, false, true, true));
    ASSERT_EQ(program.kernels.size(), 1u) << to_text(program);
    EXPECT_GT(program.kernels.begin()->second.shared_bytes, 0);
  }
}

TEST(GpuDefault, AConvolutionIsAProductWithoutAMatrixInMemory) {
  const DeviceProgram program =
      default_kernels(testing::conv_workload({.h = 28, .w = 28, .ic = 64, .oc = 64, .padding = 1, .epilogue = true}));
  ASSERT_EQ(program.kernels.size(), 1u) << to_text(program);
  EXPECT_EQ(program.kernels.begin()->second.func->params.size(), 4u);
  EXPECT_GT(program.kernels.begin()->second.shared_bytes, 0);
}

TEST(GpuDefault, AnOpenGridHasAsManyBlocksAsThereIsWork) {
  const std::vector<IntParam> sizes = {testing::size("n", 1, int64_t{1} << 40),
                                       testing::size("m", 1, int64_t{1} << 40)};
  const DeviceProgram program = default_kernels(testing::open_elementwise({sizes[0].var, sizes[1].var}, sizes));
  ASSERT_EQ(program.kernels.size(), 1u);
  for (const Expr& blocks : program.kernels.begin()->second.grid) EXPECT_TRUE(!as_int(blocks) || is_one(blocks));
}

TEST(GpuDefault, AReductionOfOneTermIsANest) {
  const Func sums = testing::reduction_workload(3, 7, 1, false);
  const DeviceProgram program = default_kernels(sums, "opencl");
  expect_threads(sums, program);
}

// The default of a program for OpenCL's devices.
struct Default {
  Func scheduled;
  DeviceProgram program;
};
Default checked_default(const Func& func) {
  const auto target = target_named("opencl");
  const auto s = default_schedule(func, target, 1);
  EXPECT_OK(s);
  EXPECT_OK(verify(s->func(), *target)) << to_text(s->func());
  auto program = lower_for_device(s->func(), *target);
  EXPECT_OK(program) << to_text(s->func());
  const auto without_packing = lower_for_device(split_prologue(s->func()).main, *target);
  EXPECT_OK(without_packing) << to_text(s->func());
  expect_threads(func, *without_packing);
  return {s->func(), std::move(*program)};
}

class GpuDefaults : public ::testing::TestWithParam<NamedWorkload> {};

TEST_P(GpuDefaults, AgreeWithTheInterpreter) {
  const Func func = GetParam().func;
  const Default made = checked_default(func);
  const OpenWorkload workload = {.name = GetParam().name, .sizes = {}, .make = {}, .tolerance = 1e-5};
  EXPECT_TRUE(testing::agrees(workload, func, made.scheduled, {}, on_opencl(made.program))) << to_text(made.program);
}

TEST_P(GpuDefaults, CompileForCuda) { expect_compiles(GetParam().func, "sm_90"); }

INSTANTIATE_TEST_SUITE_P(Workloads, GpuDefaults, ::testing::ValuesIn(testing::small_workloads()),
                         [](const auto& info) { return info.param.name; });

// What only moves memory, of sizes at which threads have neighbours, wide tiles and parts.
std::vector<NamedWorkload> large_moves() {
  return {
      {"columns", loops_of("X: f32[72, 1500]\nfor j in 1500: for k in 72: Y[j] += X[k, j]")},
      {"columns_few_terms", loops_of("X: f32[5, 1028]\nfor j in 1028: for k in 5: Y[j] += X[k, j]")},
      {"columns_odd_terms", loops_of("X: f32[67, 1024]\nfor j in 1024: for k in 67: Y[j] += X[k, j]")},
      {"columns_greatest", loops_of("X: f32[40, 1024]\nfor j in 1024: for k in 40: Y[j] max= X[k, j]")},
      {"columns_of_halves", column_means(40, 2048)},
      {"columns_of_halves_few", column_means(49, 96)},
      {"columns_of_planes",
       loops_of("X: f32[3, 20, 1024]\nfor i in 3: for j in 1024: for k in 20: Y[i, j] += X[i, k, j]")},
      {"columns_rounded", loops_of("X: f32[20, 1024]\nB: f32[1024]\nfor j in 1024: for k in 20: S[j] += X[k, j]\n"
                                   "for j in 1024: Y[j] = max(S[j] + B[j], 0.0)")},
      {"gathered_rows", loops_of("T: f32[20, 64]\nI: i64[130]\n"
                                 "for i in 130: for j in 64: Y[i, j] = T[max(0, min(I[i], 19)), j]")},
      {"max_pool_wide", testing::pool_workload(9, 12, 64, false, true)},
      {"average_pool_wide", testing::pool_workload(10, 11, 64, true, true)},
      {"depthwise_wide", testing::conv_workload({.h = 9, .w = 11, .ic = 64, .oc = 64, .groups = 64, .epilogue = true})},
      {"depthwise_wide_stride",
       testing::conv_workload(
           {.h = 19, .w = 21, .ic = 64, .oc = 64, .kernel = 5, .stride = 2, .padding = 2, .groups = 64})},
      {"transpose_of_halves",
       loops_of("X: f16[150, 70]\nY: f16[70, 150]\nfor i in 70: for j in 150: Y[i, j] = X[j, i]")},
      {"transpose_of_bytes", loops_of("X: i8[130, 70]\nY: i8[70, 130]\nfor i in 70: for j in 130: Y[i, j] = X[j, i]")},
      {"layer_norm_of_halves", layer_norm_of_halves(5, 768)},
      {"layer_norm_of_halves_odd", layer_norm_of_halves(5, 197)},
  };
}

INSTANTIATE_TEST_SUITE_P(Moves, GpuDefaults, ::testing::ValuesIn(large_moves()),
                         [](const auto& info) { return info.param.name; });

class OpenGpuDefaults : public ::testing::TestWithParam<OpenWorkload> {};

TEST_P(OpenGpuDefaults, AgreeWithTheInterpreter) {
  OpenWorkload workload = GetParam();
  workload.tolerance = std::max(workload.tolerance, 1e-5);
  const Func func = workload.open(), written = testing::with_identities(func);
  const Default made = checked_default(func);
  const testing::RunFn run = on_opencl(made.program);
  const auto all = testing::values_of(workload);
  for (size_t i = 0; i < all.size(); i += 1 + all.size() / 12)  // each takes OpenCL some milliseconds
    ASSERT_TRUE(testing::agrees(workload, written, made.scheduled, all[i], run))
        << testing::print(all[i]) << to_text(made.program);
}

TEST_P(OpenGpuDefaults, CompileForCuda) { expect_compiles(GetParam().open(), "sm_90"); }

INSTANTIATE_TEST_SUITE_P(Workloads, OpenGpuDefaults, ::testing::ValuesIn(testing::open_workloads()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace fettle
