// Tensor intrinsics from their annotation to machine code: schedule, lower, compile, run, and compare with the meaning.
#include <bit>
#include <cmath>
#include <cstring>
#include <random>

#include <gtest/gtest.h>

#include "codegen/llvm/jit_module.h"
#include "codegen/llvm/llvm_codegen.h"
#include "codegen/test_util.h"
#include "ir/text.h"
#include "lower/lower.h"
#include "schedule/primitives/get_block.h"
#include "schedule/primitives/get_loops.h"
#include "schedule/primitives/tensorize.h"
#include "target/tensor_intrinsic.h"

namespace fettle {
namespace {

using testing::Bytes;
using testing::interpreted;

// The meaning as a program whose only tile is annotated.
Func tensorized(const TensorIntrinsicDef& intrinsic, const Target& target) {
  Schedule s(meaning_of(intrinsic));
  s.set_target(std::make_shared<const Target>(target));
  const BlockRef block = get_block(s, {.name = "C"}).value();
  const LoopRef outermost = get_loops(s, {.block = block}).value().front();
  const auto done = tensorize(s, {outermost, std::string(intrinsic.name)});
  EXPECT_TRUE(done) << done.error().to_string();
  return s.func();
}

Bytes filled(const Func& func, std::mt19937& random) {
  Bytes data;
  for (const Param& param : func->params) {
    int64_t count = param.buffer->dtype.element_bytes();
    for (const Expr& extent : param.buffer->shape) count *= *as_int(extent);
    auto& bytes = data.emplace_back(static_cast<size_t>(count));
    for (auto& byte : bytes) byte = static_cast<unsigned char>(random());
  }
  return data;
}

class Compiled {
 public:
  Compiled(const Func& scheduled, const Target& target) {
    const auto lowered = lower(scheduled, target);
    EXPECT_TRUE(lowered) << lowered.error().to_string();
    text = to_text(lowered->kernel);
    const auto object = compile_object(lowered->kernel, target, {.entry_name = "entry", .verify = true});
    EXPECT_TRUE(object) << object.error().to_string();
    auto loaded = JitModule::load(*object);
    EXPECT_TRUE(loaded) << loaded.error().to_string();
    module_ = std::make_unique<JitModule>(std::move(*loaded));
    entry_ = module_->function<int32_t(void*, void**, const int64_t*)>("entry");
  }
  Bytes run(Bytes data) const {
    std::vector<void*> args;
    for (auto& bytes : data) args.push_back(bytes.data());
    EXPECT_EQ(entry_(nullptr, args.data(), nullptr), 0);
    return data;
  }
  std::string text;

 private:
  std::unique_ptr<JitModule> module_;
  int32_t (*entry_)(void*, void**, const int64_t*) = nullptr;
};

// But for those of the tile unit (amx_test.cpp).
std::vector<const TensorIntrinsicDef*> of_this_machine() {
  std::vector<const TensorIntrinsicDef*> found;
  const Target host = detect_host(1);
  for (const TensorIntrinsicDef* intrinsic : tensor_intrinsics())
    if (intrinsic->available(host) && !intrinsic->name.starts_with("amx_")) found.push_back(intrinsic);
  return found;
}

TEST(TensorIntrinsics, AreInlinedWhereTheTargetHasThem) {
  const Target host = detect_host(1);
  for (const TensorIntrinsicDef* intrinsic : of_this_machine()) {
    SCOPED_TRACE(intrinsic->name);
    const Func scheduled = tensorized(*intrinsic, host);
    const auto lowered = lower(scheduled, host);
    ASSERT_TRUE(lowered) << lowered.error().to_string();
    const std::string text = to_text(lowered->kernel);
    EXPECT_EQ(text.find("for "), std::string::npos) << text;
    EXPECT_EQ(text.find("tensorize"), std::string::npos) << text;
    EXPECT_EQ(text.find("llvm.") != std::string::npos, intrinsic->name != "scalar_matmul_f32") << text;
    // A target without it takes the loops, as lanes.
    Target other = host;
    other.features = "+sse2";
    other.kind = "c";
    const auto plain = lower(scheduled, other);
    ASSERT_TRUE(plain) << plain.error().to_string();
    EXPECT_EQ(to_text(plain->kernel).find("llvm."), std::string::npos);
    EXPECT_EQ(to_text(plain->kernel).find("tensorize"), std::string::npos);
  }
}

TEST(TensorIntrinsics, IntegersAreExactOverAllOperands) {
  const Target host = detect_host(1);
  std::mt19937 random(3);
  for (const TensorIntrinsicDef* intrinsic : of_this_machine()) {
    const Func meaning = meaning_of(*intrinsic);
    const DType type = meaning->params[0].buffer->dtype;
    if (!type.is_int() || type.bits != 8) continue;
    SCOPED_TRACE(intrinsic->name);
    const Compiled compiled(tensorized(*intrinsic, host), host);
    // Every pair of bytes, each step of the dot product in turn; the other operands at their extremes.
    Bytes data = filled(meaning, random);
    const size_t depth = data[0].size(), columns = data[1].size() / depth;
    for (int a = 0; a < 256; ++a)
      for (int b = 0; b < 256; b += static_cast<int>(columns)) {
        const unsigned char extreme[] = {0x80, 0x7f, 0xff, 0x00};
        for (size_t k = 0; k < depth; ++k)
          data[0][k] = k == static_cast<size_t>(a) % depth ? static_cast<unsigned char>(a) : extreme[random() % 4];
        for (size_t i = 0; i < data[1].size(); ++i)
          data[1][i] = i % depth == static_cast<size_t>(a) % depth
                           ? static_cast<unsigned char>(b + static_cast<int>(i / depth))
                           : extreme[random() % 4];
        for (auto& byte : data[2]) byte = static_cast<unsigned char>(random());
        ASSERT_EQ(compiled.run(data)[2], interpreted(meaning, data)[2]) << compiled.text;
      }
    // All at their extremes: no intermediate sum saturates.
    for (const unsigned char x : {0x00, 0x7f, 0x80, 0xff})
      for (const unsigned char y : {0x00, 0x7f, 0x80, 0xff}) {
        std::ranges::fill(data[0], x);
        std::ranges::fill(data[1], y);
        ASSERT_EQ(compiled.run(data)[2], interpreted(meaning, data)[2]) << int{x} << " " << int{y};
      }
  }
}

float as_float(uint16_t bf16) { return std::bit_cast<float>(static_cast<uint32_t>(bf16) << 16); }

// c + a[1] b[1] + a[0] b[0] in this order, each sum rounded once; denormals are zero.
float vdpbf16ps(float c, const uint16_t* a, const uint16_t* b) {
  const auto flushed = [](float x) { return std::fpclassify(x) == FP_SUBNORMAL ? std::copysign(0.0f, x) : x; };
  for (int k = 1; k >= 0; --k) c = flushed(std::fma(flushed(as_float(a[k])), flushed(as_float(b[k])), flushed(c)));
  return c;
}

TEST(TensorIntrinsics, Bf16RoundsAsDocumented) {
  const Target host = detect_host(1);
  const TensorIntrinsicDef& intrinsic = *find_tensor_intrinsic("vdpbf16ps_512");
  if (!intrinsic.available(host)) GTEST_SKIP() << "no AVX-512 BF16";
  const Compiled compiled(tensorized(intrinsic, host), host);
  std::mt19937 random(5);
  int denormals = 0;
  for (int round = 0; round < 2000; ++round) {
    uint16_t a[2], b[32];
    float c[16];
    const auto finite = [&](int exponents) {  // of exponents around 1; all of them where 255
      const uint32_t exponent =
          exponents == 255 ? random() % 255
                           : 127 - static_cast<uint32_t>(exponents) / 2 + random() % static_cast<uint32_t>(exponents);
      return static_cast<uint16_t>((random() % 2) << 15 | exponent << 7 | random() % 128);
    };
    const int spread = round % 2 ? 255 : 16;
    for (uint16_t& x : a) x = finite(spread);
    for (uint16_t& x : b) x = finite(spread);
    for (float& x : c) x = as_float(finite(spread)) + 1e-3f * as_float(finite(16));
    Bytes data(3);
    const auto put = [&](int p, const void* from, size_t n) {
      data[static_cast<size_t>(p)].resize(n);
      std::memcpy(data[static_cast<size_t>(p)].data(), from, n);
    };
    put(0, a, sizeof a);
    put(1, b, sizeof b);
    put(2, c, sizeof c);
    const Bytes result = compiled.run(data);
    for (int j = 0; j < 16; ++j) {
      float got;
      std::memcpy(&got, result[2].data() + j * 4, 4);
      const float expected = vdpbf16ps(c[j], a, b + 2 * j);
      denormals += std::fpclassify(as_float(a[0])) == FP_SUBNORMAL;
      ASSERT_EQ(std::isnan(got), std::isnan(expected));
      if (std::isnan(expected)) continue;
      ASSERT_EQ(std::bit_cast<uint32_t>(got), std::bit_cast<uint32_t>(expected)) << got << " " << expected;
    }
  }
  EXPECT_GT(denormals, 0);
}

TEST(TensorIntrinsics, Bf16OfSmallIntegersIsTheMeaning) {
  const Target host = detect_host(1);
  const TensorIntrinsicDef& intrinsic = *find_tensor_intrinsic("vdpbf16ps_512");
  if (!intrinsic.available(host)) GTEST_SKIP() << "no AVX-512 BF16";
  const Compiled compiled(tensorized(intrinsic, host), host);
  std::mt19937 random(9);
  for (int round = 0; round < 50; ++round) {
    Bytes data = filled(meaning_of(intrinsic), random);
    for (size_t p = 0; p < 2; ++p)
      for (size_t i = 0; i < data[p].size(); i += 2) {
        const auto bits = static_cast<uint16_t>(
            std::bit_cast<uint32_t>(static_cast<float>(static_cast<int>(random() % 255) - 127)) >> 16);
        std::memcpy(data[p].data() + i, &bits, 2);
      }
    for (size_t i = 0; i < data[2].size(); i += 4) {
      const float value = static_cast<float>(static_cast<int>(random() % 2001) - 1000);
      std::memcpy(data[2].data() + i, &value, 4);
    }
    ASSERT_EQ(compiled.run(data)[2], interpreted(meaning_of(intrinsic), data)[2]);
  }
}

}  // namespace
}  // namespace fettle
