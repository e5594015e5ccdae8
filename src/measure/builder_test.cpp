#include "measure/builder.h"

#include <gtest/gtest.h>

#include "measure/local_kernel.h"
#include "measure/test_util.h"
#include "schedule/schedule.h"

namespace fettle {
namespace {

using testing::parsed;
using testing::TempFolder;

constexpr std::string_view kMatmul = R"(
func matmul(A: f32[28, 40], B: f32[40, 70] constant, C: f32[28, 70] output):
  for i in 28:
    for j in 70:
      for k in 40:
        block C(vi: spatial[28] = i, vj: spatial[70] = j, vk: reduce[40] = k):
          reads A[vi, vk], B[vk, vj]
          writes C[vi, vj]
          init:
            C[vi, vj] = 0.0
          C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]
)";

// Panels of 32 columns packed ahead of time, and a tile of 14x32 in registers.
constexpr std::string_view kTrace = R"trace(
b0 = get_block(name="C")
b1 = cache_read(block=b0, read_index=1, scope="global", consumer_blocks=[])
transform_layout(block=b1, buffer_index=0, buffer_index_type="write", index_map="(k, n) -> (n // 32, k, n % 32)", pad=true)
b2 = cache_write@2(block=b0, write_index=0, scope="register")
l3, l4, l5 = get_loops(block=b0)
l6, l7 = split(loop=l3, factors=[-1, 14], tail="balance")
l8, l9, l10 = split(loop=l4, factors=[-1, 2, 16], tail="pad")
reorder(loops=[l8, l6, l5, l7, l9, l10])
unroll(loop=l7)
unroll(loop=l9)
vectorize(loop=l10)
reverse_compute_at@2(block=b2, loop=l6, preserve_unit_loops=true)
l11, l12, l13, l14 = get_loops(block=b2)
l15, l16 = split(loop=l14, factors=[-1, 16], tail="mask")
unroll(loop=l13)
unroll(loop=l15)
vectorize(loop=l16)
b17 = decompose_reduction(block=b0, loop=l5)
)trace";

Func scheduled() {
  Schedule schedule(parsed(kMatmul));
  const auto trace = parse_trace(kTrace);
  EXPECT_TRUE(trace) << trace.error().to_string();
  const auto replayed = replay(schedule, *trace);
  EXPECT_TRUE(replayed) << replayed.error().to_string();
  return schedule.func();
}

TEST(Builder, AtomsAreCompiledOnce) {
  TempFolder folder;
  const Target target = *parse_target("x86-64-avx512");
  const auto cache = std::make_shared<ObjectCache>(folder.path);
  auto first = LocalBuilder(cache).build(scheduled(), target);
  ASSERT_TRUE(first) << first.error().to_string();
  EXPECT_FALSE(first->prologue_entry.empty());
  ASSERT_GE(first->objects.size(), 2u) << "the tile is not a function of its own";
  const int64_t compiled = cache->misses();
  EXPECT_GE(compiled, 1);

  auto second = LocalBuilder(cache, {.entry_name = "other"}).build(scheduled(), target);
  ASSERT_TRUE(second);
  EXPECT_EQ(cache->misses(), compiled);
  EXPECT_EQ(second->entry, "other");
  EXPECT_EQ(second->prologue_entry, "other_prologue");
  ASSERT_EQ(second->objects.size(), first->objects.size());
  for (size_t i = 1; i < first->objects.size(); ++i) {
    EXPECT_EQ(second->objects[i].name, first->objects[i].name);
    EXPECT_EQ(second->objects[i].bytes, first->objects[i].bytes) << "not the very same object";
  }

  // Another process finds them on disk; another instruction set does not.
  const auto from_disk = std::make_shared<ObjectCache>(folder.path);
  ASSERT_TRUE(LocalBuilder(from_disk).build(scheduled(), target));
  EXPECT_EQ(from_disk->misses(), 0);
  ASSERT_TRUE(LocalBuilder(cache).build(scheduled(), *parse_target("x86-64-avx2")));
  EXPECT_GT(cache->misses(), compiled);
}

TEST(Builder, TheTileComputesWhatThePlainProgramDoes) {
  const Target target = detect_host(1);
  auto tiled = LocalKernel::build(scheduled(), target);
  auto plain = LocalKernel::build(parsed(kMatmul), target, {.plain = true});
  ASSERT_TRUE(tiled) << tiled.error().to_string();
  ASSERT_TRUE(plain);
  ASSERT_TRUE(tiled->run());
  ASSERT_TRUE(plain->run());
  EXPECT_EQ(tiled->logical<float>(2), plain->logical<float>(2));
}

TEST(Builder, VersionsNameWhatCodeDependsOn) {
  const std::string versions = program_versions();
  EXPECT_EQ(versions.find("lower "), 0u);
  EXPECT_NE(versions.find(" codegen "), std::string::npos);
  EXPECT_NE(versions.find(" primitives "), std::string::npos);
  EXPECT_EQ(versions, program_versions());
}

}  // namespace
}  // namespace fettle
