// Products by the tile unit from a schedule by hand to machine code, compared with the program as it was written.
#include <bit>
#include <cstring>
#include <random>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "codegen/llvm/jit_module.h"
#include "codegen/llvm/llvm_codegen.h"
#include "codegen/test_util.h"
#include "ir/text.h"
#include "lower/lower.h"
#include "rt/context.h"
#include "rt/tiles.h"
#include "schedule/primitives/cache_read.h"
#include "schedule/primitives/cache_write.h"
#include "schedule/primitives/decompose_reduction.h"
#include "schedule/primitives/parallel.h"
#include "schedule/primitives/reorder.h"
#include "schedule/primitives/reverse_compute_at.h"
#include "schedule/primitives/split.h"
#include "schedule/primitives/tensorize.h"
#include "schedule/primitives/transform_layout.h"
#include "schedule/primitives/unroll.h"
#include "schedule/testing.h"
#include "target/tensor_intrinsic.h"

namespace fettle {
namespace {

using testing::Bytes;
using testing::interpreted;
using testing::schedule_from;
using testing::TestSchedule;

const Target& amx() {
  static const Target target = parse_target("x86-64-amx").value();
  return target;
}

// C = A B, 64 x 64 x 128, two by two tiles of sums in registers, both factors' panels as they are best.
struct Product {
  std::string intrinsic, a, b, c;
  int64_t k, group;
};

TestSchedule tiled(const Product& p, bool parallel_panels = false) {
  TestSchedule s = schedule_from(fmt::format(R"(
func gemm(A: {0}[64, 128], B: {1}[128, 64], C: {2}[64, 64] output):
  for i in 64:
    for j in 64:
      for k in 128:
        block C(vi: spatial[64] = i, vj: spatial[64] = j, vk: reduce[128] = k):
          reads A[vi, vk], B[vk, vj]
          writes C[vi, vj]
          init:
            C[vi, vj] = {3}
          C[vi, vj] = C[vi, vj] + {2}(A[vi, vk]) * {2}(B[vk, vj])
)",
                                             p.a, p.b, p.c, p.c == "f32" ? "0.0" : "0i32"));
  s.set_target(std::make_shared<const Target>(amx()));
  const BlockRef c = s.block("C");
  const auto pack = cache_read(s, {.block = c, .read_index = 1});
  IndexMap map;
  EXPECT_TRUE(from_arg(ArgValue{fmt::format("(k, n) -> (n // 16, k // {0}, n % 16, k % {0})", p.group)}, map));
  EXPECT_OK(transform_layout(s, {.block = *pack, .index_map = map}));
  const auto back = cache_write(s, {.block = c, .scope = kScopeTile});
  const auto i = split(s, {.loop = s.loop("i"), .factors = {kInfer, 2, 16}});
  const auto j = split(s, {.loop = s.loop("j"), .factors = {kInfer, 2, 16}});
  const auto k = split(s, {.loop = s.loop("k"), .factors = {kInfer, p.k}});
  EXPECT_OK(reorder(s, {.loops = {(*j)[0], (*i)[0], (*k)[0], (*i)[1], (*j)[1], (*i)[2], (*j)[2], (*k)[1]}}));
  EXPECT_OK(unroll(s, {.loop = (*i)[1]}));
  EXPECT_OK(unroll(s, {.loop = (*j)[1]}));
  EXPECT_OK(reverse_compute_at(s, {.block = *back, .loop = (*i)[0]}));
  const std::vector<LoopRef> copy = s.loops(*back);
  const auto row = split(s, {.loop = copy[2], .factors = {kInfer, 16}});
  const auto column = split(s, {.loop = copy[3], .factors = {kInfer, 16}});
  EXPECT_OK(reorder(s, {.loops = {(*row)[0], (*column)[0], (*row)[1], (*column)[1]}}));
  EXPECT_OK(unroll(s, {.loop = (*row)[0]}));
  EXPECT_OK(unroll(s, {.loop = (*column)[0]}));
  EXPECT_OK(tensorize(s, {.target = (*row)[1], .intrinsic = "amx_store_" + p.c}));
  const auto init = decompose_reduction(s, {.block = c, .loop = (*k)[0]});
  EXPECT_OK(tensorize(s, {.target = s.loops(*init)[4], .intrinsic = "amx_zero_" + p.c}));
  EXPECT_OK(tensorize(s, {.target = (*i)[2], .intrinsic = p.intrinsic}));
  if (parallel_panels) {
    EXPECT_OK(parallel(s, {.loop = (*j)[0]}));
  }
  return s;
}

std::vector<Product> products() {
  std::vector<Product> all;
  for (const TensorIntrinsicDef* intrinsic : tensor_intrinsics()) {
    const Func meaning = meaning_of(*intrinsic);
    if (!intrinsic->name.starts_with("amx_") || meaning->params.size() != 3) continue;
    const auto type = [&](size_t p) { return meaning->params[p].buffer->dtype.to_string(); };
    all.push_back({std::string(intrinsic->name), type(0), type(1), type(2),
                   *as_int(meaning->params[0].buffer->shape[1]), intrinsic->row_group});
  }
  return all;
}

// Bytes of any value; bf16 small whole numbers, whose sums are exact.
Bytes filled(const Func& func, std::mt19937& random) {
  Bytes data;
  for (const Param& param : func->params) {
    const Buffer& buffer = param.buffer;
    auto& bytes = data.emplace_back(
        static_cast<size_t>(*as_int(buffer->shape[0]) * *as_int(buffer->shape[1]) * buffer->dtype.element_bytes()));
    for (auto& byte : bytes) byte = static_cast<unsigned char>(random());
    if (buffer->dtype != kBF16) continue;
    for (size_t i = 0; i < bytes.size(); i += 2) {
      const auto value = static_cast<float>(static_cast<int>(random() % 255) - 127);
      const auto bits = static_cast<uint16_t>(std::bit_cast<uint32_t>(value) >> 16);
      std::memcpy(bytes.data() + i, &bits, 2);
    }
  }
  return data;
}

bool this_machine_has_tiles() { return detect_host(1).find_scope(kScopeTile) != nullptr; }

TEST(Amx, EveryProductIsItsMeaning) {
  std::mt19937 random(11);
  ASSERT_EQ(products().size(), 20u);
  for (const Product& product : products()) {
    SCOPED_TRACE(product.intrinsic);
    const TestSchedule s = tiled(product);
    const auto lowered = lower(s.func(), amx());
    ASSERT_OK(lowered);
    const auto object = compile_object(lowered->kernel, amx(), {.entry_name = "entry", .verify = true});
    ASSERT_OK(object);
    if (!this_machine_has_tiles()) continue;
    const auto module = JitModule::load(*object);
    ASSERT_OK(module);
    rt::OwnedContext context(1);
    auto* entry = module->function<int32_t(void*, void**, const int64_t*)>("entry");
    Bytes data = filled(s.original, random);
    const Bytes expected = interpreted(s.original, data);
    std::vector<void*> args;
    for (auto& bytes : data) args.push_back(bytes.data());
    ASSERT_EQ(entry(context.get(), args.data(), nullptr), 0);
    EXPECT_EQ(data[2], expected[2]);
  }
}

TEST(Amx, SumsStayInRegisters) {
  const TestSchedule s = tiled({"amx_bf16", "bf16", "bf16", "f32", 32, 2});
  EXPECT_SAME_RESULT(s);
  const auto lowered = lower(s.func(), amx());
  ASSERT_OK(lowered);
  EXPECT_TRUE(testing::matches_golden(to_text(lowered->kernel)));
}

TEST(Amx, EveryThreadSetsItsUnitUp) {
  const TestSchedule s = tiled({"amx_bf16_stream_a", "bf16", "bf16", "f32", 32, 2}, true);
  const auto lowered = lower(s.func(), amx());
  ASSERT_OK(lowered);
  const auto text = emit_assembly(lowered->kernel, amx(), {.entry_name = "entry"});
  ASSERT_OK(text);
  const size_t body = text->find("parallel0:");
  ASSERT_NE(body, std::string::npos) << *text;
  EXPECT_NE(text->find("fettle_tiles_begin"), std::string::npos);
  if (!this_machine_has_tiles()) GTEST_SKIP() << "no tile unit";
  const auto object = compile_object(lowered->kernel, amx(), {.entry_name = "entry"});
  ASSERT_OK(object);
  const auto module = JitModule::load(*object);
  ASSERT_OK(module);
  auto* entry = module->function<int32_t(void*, void**, const int64_t*)>("entry");
  std::mt19937 random(12);
  Bytes data = filled(s.original, random);
  const Bytes expected = interpreted(s.original, data);
  std::vector<void*> args;
  for (auto& bytes : data) args.push_back(bytes.data());
  rt::OwnedContext context(2);
  for (int repeat = 0; repeat < 50; ++repeat) {
    std::ranges::fill(data[2], static_cast<unsigned char>(repeat));
    ASSERT_EQ(entry(context.get(), args.data(), nullptr), 0);
    ASSERT_EQ(data[2], expected[2]);
  }
}

TEST(Amx, WithoutTheUnitTheLoopsRun) {
  const TestSchedule s = tiled({"amx_u8s8", "u8", "i8", "i32", 64, 4});
  const Target other = parse_target("x86-64-avx512").value();
  const auto lowered = lower(s.func(), other);
  ASSERT_OK(lowered);
  EXPECT_EQ(to_text(lowered->kernel).find("tdpb"), std::string::npos);
  ASSERT_OK(compile_object(lowered->kernel, other, {.entry_name = "entry", .verify = true}));
}

}  // namespace
}  // namespace fettle
