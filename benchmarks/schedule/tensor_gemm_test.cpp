#include "schedule/tensor_gemm.h"

#include <gtest/gtest.h>

#include <bit>
#include <cstring>
#include <random>

#include "ir/text.h"
#include "lower/lower.h"
#include "measure/local_kernel.h"
#include "target/tensor_intrinsic.h"

namespace fettle::bench {
namespace {

// All bytes there are; small integers as bf16, whose sums are exact.
std::vector<std::byte> content(DType type, int64_t elems, std::mt19937& random) {
  std::vector<std::byte> bytes(static_cast<size_t>(elems * type.element_bytes()));
  if (type != kBF16) {
    for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
    return bytes;
  }
  for (size_t i = 0; i < bytes.size(); i += 2) {
    const auto value = static_cast<float>(static_cast<int>(random() % 31) - 15);
    const auto bits = static_cast<uint16_t>(std::bit_cast<uint32_t>(value) >> 16);
    std::memcpy(bytes.data() + i, &bits, 2);
  }
  return bytes;
}

std::vector<std::byte> result_of(const Func& func, const Target& target, bool plain) {
  auto kernel = LocalKernel::build(func, target, {.plain = plain});
  EXPECT_TRUE(kernel) << kernel.error().to_string();
  if (!kernel) return {};
  std::mt19937 random(4);
  for (int p = 0; p < 2; ++p)
    kernel->set_logical_bytes(p, content(kernel->param(p).buffer->dtype, kernel->logical_elems(p), random));
  EXPECT_TRUE(kernel->run_prologue());
  EXPECT_TRUE(kernel->run());
  return kernel->logical_bytes(2);
}

// Every step of the tiles is one instruction, and the product is that of plain code.
void expect_product(const Func& func, const TensorGemmTiles& tiles) {
  const Target host = detect_host(1);
  if (!find_tensor_intrinsic(tiles.intrinsic)->available(host)) GTEST_SKIP() << "no " << tiles.intrinsic;
  Schedule s(func);
  s.set_target(std::make_shared<const Target>(host));
  const auto done = schedule_tensor_gemm(s, tiles);
  ASSERT_TRUE(done) << explain(done.error());
  const auto lowered = lower(s.func(), host);
  ASSERT_TRUE(lowered) << lowered.error().to_string();
  EXPECT_NE(to_text(lowered->kernel).find("llvm."), std::string::npos);
  EXPECT_EQ(result_of(s.func(), host, false), result_of(func, host, true));
}

TEST(TensorGemm, Int8) {
  expect_product(tensor_gemm_func(64, 128, 128, kU8, kI8, kI32), {});
  expect_product(tensor_gemm_func(37, 64, 68, kU8, kI8, kI32), {});
}
TEST(TensorGemm, Int8InBlocksOfTheReduction) {
  expect_product(tensor_gemm_func(40, 64, 128, kU8, kI8, kI32), {.depth = 32});
}
TEST(TensorGemm, Bf16) {
  expect_product(tensor_gemm_func(64, 128, 128, kBF16, kBF16, kF32), {.intrinsic = "vdpbf16ps_512", .steps = 2});
  expect_product(
      tensor_gemm_func(45, 32, 62, kBF16, kBF16, kF32),
      {.intrinsic = "vdpbf16ps_512", .steps = 2, .rows = 14, .vectors = 2, .rows_outside = false, .ask_panel = true});
}

}  // namespace
}  // namespace fettle::bench
