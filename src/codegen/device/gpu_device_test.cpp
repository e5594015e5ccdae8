// GPUs as devices, by their definitions alone: code, memory, and runs. By OpenCL, where there is one; CUDA's code is
// made where there is NVRTC.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>

#include "codegen/cuda/cuda_compile.h"
#include "codegen/device/gpu_device.h"
#include "codegen/device/host_stub.h"
#include "codegen/test_util.h"
#include "ir/annotations.h"
#include "ir/device_annotations.h"
#include "rt/device.h"

namespace fettle {
namespace {

using testing::parsed;

// Nothing of it is bound to threads: one thread does each nest. The weights' sum depends on constants alone.
constexpr const char* kProgram = R"(
func scaled(A: f32[n, 5], W: f32[5, 3] constant, B: f32[n, 5] output, n: i64):
  alloc S: f32[5]
  alloc T: f32[n, 5]
  for i in 5:
    for k in 3:
      block S(vi: spatial[5] = i, vk: reduce[3] = k):
        reads W[vi, vk]
        writes S[vi]
        init:
          S[vi] = 0.0
        S[vi] = S[vi] + W[vi, vk]
  for i in n:
    for j in 5:
      block T(vi: spatial[n] = i, vj: spatial[5] = j):
        reads A[vi, vj], S[vj]
        writes T[vi, vj]
        T[vi, vj] = A[vi, vj] * S[vj]
  for i in n:
    for j in 5:
      block B(vi: spatial[n] = i, vj: spatial[5] = j):
        reads T[vi, vj]
        writes B[vi, vj]
        B[vi, vj] = T[vi, vj] + 1.0
)";

class OpenClDevice : public ::testing::Test {
 protected:
  void SetUp() override {
    setenv("POCL_CACHE_DIR", FETTLE_BINARY_DIR "/pocl-cache", 0);
    if (const auto stream = opencl_device.open_stream(1); !stream) GTEST_SKIP() << stream.error().to_string();
  }
};

TEST_F(OpenClDevice, RunsWhatItBuilt) {
  ObjectCache cache;
  const auto built = build_kernel(parsed(kProgram), *parse_target("opencl"), cache);
  ASSERT_TRUE(built) << built.error().to_string();
  ASSERT_EQ(built->info.params.size(), 4u);  // A, W, B, and the packed sums
  EXPECT_FALSE(built->info.params[1].is_read);
  ASSERT_FALSE(built->prologue_entry.empty());

  // The prologue is the host's.
  const std::vector<float> w = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
  std::vector<float> sums(5);
  const auto prologue = load_image(built->prologue_image, built->prologue_entry);
  ASSERT_TRUE(prologue) << prologue.error().to_string();
  const std::vector<void*> packing = {const_cast<float*>(w.data()), sums.data()};
  ASSERT_TRUE(cpu_device.launch(*cpu_device.open_stream(1), *prologue, packing, {}));
  EXPECT_EQ(sums, (std::vector<float>{6, 15, 24, 33, 42}));

  const auto image = load_image(built->image, built->entry);
  ASSERT_TRUE(image) << image.error().to_string();
  const DeviceStream stream = *opencl_device.open_stream(1);
  for (const int64_t n : {3, 1, 0, 40}) {
    std::vector<float> a(static_cast<size_t>(5 * n)), b(a.size());
    for (size_t i = 0; i < a.size(); ++i) a[i] = static_cast<float>(i % 7);
    const int64_t bytes = 20 * n;
    const auto on_device = [](const void* data, int64_t size) {
      auto block = opencl_device.allocate(size).value();
      EXPECT_TRUE(opencl_device.copy_to(block.get(), data, size));
      return block;
    };
    const auto in = on_device(a.data(), bytes), packed = on_device(sums.data(), 20), out = on_device(b.data(), bytes);
    const std::vector<void*> buffers = {in.get(), nullptr, out.get(), packed.get()};
    const std::vector<int64_t> ints = {n};
    const auto done = opencl_device.launch(stream, *image, buffers, ints);
    ASSERT_TRUE(done) << done.error().to_string();
    ASSERT_TRUE(opencl_device.copy_from(b.data(), out.get(), bytes));
    for (size_t i = 0; i < b.size(); ++i) EXPECT_EQ(b[i], a[i] * sums[i % 5] + 1) << i;
  }
}

TEST_F(OpenClDevice, WhatDoesNotBuildIsTold) {
  const Func func = parsed(
      "func f(A: f32[4], B: f32[4] output):\n  for i in 4:\n    block B(v: spatial[4] = i):\n"
      "      reads A[v]\n      writes B[v]\n      B[v] = A[v]\n");
  const auto program = lower_for_device(func, *parse_target("opencl"));
  ASSERT_TRUE(program);
  const auto none = [](const DeviceKernel&) { return int64_t{0}; };
  auto object = compile_stub(*program, device_code(*program, {"this is no OpenCL C"}, none), "f");
  ASSERT_TRUE(object) << object.error().to_string();
  const auto image = load_image({{"f", std::make_shared<const std::vector<uint8_t>>(std::move(*object))}}, "f");
  ASSERT_TRUE(image);
  const auto memory = opencl_device.allocate(16).value();
  const std::vector<void*> buffers = {memory.get(), memory.get()};
  const auto done = opencl_device.launch(*opencl_device.open_stream(1), *image, buffers, {});
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().code, ErrorCode::E710);
  EXPECT_NE(done.error().message.find("clBuildProgram failed"), std::string::npos) << done.error().message;
}

/// Each launch has its kernel's number, and grids in the caller's integers.
TEST(HostStub, LaunchesByNumbers) {
  const auto program = lower_for_device(parsed(kProgram), *parse_target("opencl"));
  ASSERT_TRUE(program) << program.error().to_string();
  const auto stub = host_stub(*program);
  ASSERT_TRUE(stub) << stub.error().to_string();
  EXPECT_EQ((*stub)->annotations.get_int(kDeviceHostKey, 0), 1);
  const std::string text = to_text(*stub);
  for (int k = 0; k < 3; ++k) EXPECT_NE(text.find(fmt::format(", {}, 1, 1, 1", k)), std::string::npos) << text;
}

TEST(HostStub, CodeIsLaidOutForTheRunTimeSystem) {
  const auto program = lower_for_device(parsed(kProgram), *parse_target("opencl"));
  ASSERT_TRUE(program);
  const auto shared = [](const DeviceKernel&) { return int64_t{50000}; };
  const std::vector<uint8_t> bytes = device_code(*program, {"first", "the second"}, shared);
  const auto& code = *reinterpret_cast<const rt::DeviceCode*>(bytes.data());
  ASSERT_EQ(code.n_images, 2);
  ASSERT_EQ(code.n_kernels, 3);
  EXPECT_STREQ(code.at(code.images()[0].at), "first");
  EXPECT_STREQ(code.at(code.images()[1].at), "the second");
  EXPECT_EQ(code.images()[1].at % 64, 0);
  int k = 0;
  for (const auto& [name, kernel] : program->kernels) {
    EXPECT_EQ(code.at(code.kernels()[k].name_at), name);
    EXPECT_EQ(code.kernels()[k].n_buffers, static_cast<int32_t>(kernel.func->params.size()));
    EXPECT_EQ(code.kernels()[k].shared_bytes, 50000);
    ++k;
  }
}

/// A tensor map's numbers go behind the kernel's integers: extents, then strides in bytes.
TEST(HostStub, TensorMapsAreArgumentsOfLaunches) {
  auto program = lower_for_device(parsed(kProgram), *parse_target("opencl"));
  ASSERT_TRUE(program);
  DeviceKernel& kernel = program->kernels.begin()->second;
  ASSERT_FALSE(kernel.func->params.empty());
  kernel.tensor_maps.push_back({.param = 0, .extents = {Expr(71), Expr(9)}, .strides = {Expr(12)}, .box = {64, 8}});
  const auto stub = host_stub(*program);
  ASSERT_TRUE(stub) << stub.error().to_string();
  EXPECT_NE(to_text(*stub).find(", 71, 9, 48)"), std::string::npos) << to_text(*stub);
  const std::vector<uint8_t> bytes = device_code(*program, {"x"}, [](const DeviceKernel&) { return int64_t{0}; });
  const auto& code = *reinterpret_cast<const rt::DeviceCode*>(bytes.data());
  ASSERT_EQ(code.kernels()[0].n_maps, 1);
  EXPECT_EQ(code.kernels()[1].n_maps, 0);
  EXPECT_EQ(code.kernels()[0].maps_at % 4, 0);
  const auto& map = *reinterpret_cast<const rt::DeviceTensorMap*>(code.at(code.kernels()[0].maps_at));
  EXPECT_EQ(map.buffer, 0);
  EXPECT_EQ(map.element, tensor_map_element(kF32));
  EXPECT_EQ(map.rank, 2);
  EXPECT_EQ(map.box[0], 64);
  EXPECT_EQ(map.box[1], 8);
}

TEST(CudaDevice, MakesMachineCodeAndPtx) {
  if (!has_nvrtc()) GTEST_SKIP() << "there is no NVRTC (FETTLE_NVRTC may name it)";
  ObjectCache cache;
  const auto built = build_kernel(parsed(kProgram), *parse_target("cuda -arch sm_90a"), cache);
  ASSERT_TRUE(built) << built.error().to_string();
  ASSERT_EQ(built->image.size(), 1u);
  const std::string object(built->image[0].bytes->begin(), built->image[0].bytes->end());
  EXPECT_NE(object.find("\177ELF", 1), std::string::npos);  // machine code, in the host's object
  EXPECT_NE(object.find(".target sm_80"), std::string::npos);
  EXPECT_EQ(object.find(".target sm_90"), std::string::npos);
}

TEST(CudaDevice, SaysWhatIsMissing) {
  if (has_nvrtc()) GTEST_SKIP() << "there is NVRTC";
  ObjectCache cache;
  const auto built = build_kernel(parsed(kProgram), *parse_target("cuda"), cache);
  ASSERT_FALSE(built);
  EXPECT_EQ(built.error().code, ErrorCode::E708);
}

}  // namespace
}  // namespace fettle
