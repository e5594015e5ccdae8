#include "codegen/build.h"

#include <gtest/gtest.h>

#include "codegen/test_util.h"
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

TEST(BuildKernel, MicroKernelsAreCompiledOnce) {
  TempFolder folder;
  const Target target = *parse_target("x86-64-avx512");
  const auto cache = std::make_shared<ObjectCache>(folder.path);
  auto first = build_kernel(scheduled(), target, *cache);
  ASSERT_TRUE(first) << first.error().to_string();
  EXPECT_FALSE(first->prologue_entry.empty());
  ASSERT_GE(first->image.size(), 2u) << "the tile is not a function of its own";
  const int64_t compiled = cache->misses();
  EXPECT_GE(compiled, 1);

  auto second = build_kernel(scheduled(), target, *cache, {.entry_name = "other"});
  ASSERT_TRUE(second);
  EXPECT_EQ(cache->misses(), compiled);
  EXPECT_EQ(second->entry, "other");
  EXPECT_EQ(second->prologue_entry, "other_prologue");
  ASSERT_EQ(second->image.size(), first->image.size());
  for (size_t i = 1; i < first->image.size(); ++i) {
    EXPECT_EQ(second->image[i].name, first->image[i].name);
    EXPECT_EQ(second->image[i].bytes, first->image[i].bytes) << "not the very same object";
  }

  // Another process finds them on disk; another instruction set does not.
  const auto from_disk = std::make_shared<ObjectCache>(folder.path);
  ASSERT_TRUE(build_kernel(scheduled(), target, *from_disk));
  EXPECT_EQ(from_disk->misses(), 0);
  ASSERT_TRUE(build_kernel(scheduled(), *parse_target("x86-64-avx2"), *cache));
  EXPECT_GT(cache->misses(), compiled);
}

/// What the program computes of small integers.
std::vector<float> computed(bool plain) {
  const Target target = detect_host(1);
  ObjectCache cache;
  const auto built = build_kernel(scheduled(), target, cache, {.plain = plain});
  EXPECT_TRUE(built) << (built ? "" : built.error().to_string());
  return built ? testing::run_built(*built, 1) : std::vector<float>();
}

TEST(BuildKernel, TheTileComputesWhatThePlainProgramDoes) {
  const std::vector<float> tiled = computed(false);
  EXPECT_EQ(tiled, computed(true));
  EXPECT_NE(tiled[0], 0);
}

TEST(BuildKernel, SaysWhatIsKnownOfTheKernel) {
  ObjectCache cache;
  const auto built = build_kernel(scheduled(), *parse_target("x86-64-avx2"), cache);
  ASSERT_TRUE(built) << built.error().to_string();
  const KernelInfo& info = built->info;
  EXPECT_TRUE(info.computes_once);
  EXPECT_EQ(info.numerics, Numerics::kExact);
  ASSERT_EQ(info.params.size(), 4u);  // A, B, C, and B in panels
  EXPECT_FALSE(info.params[1].is_read);
  EXPECT_EQ(info.params[3].source, -1);
  EXPECT_EQ(info.params[3].packed_from, std::vector<int>{1});
  EXPECT_EQ(built->prologue_params, (std::vector<int>{1, 3}));
  // The reference packs nothing.
  const auto plain = build_kernel(scheduled(), *parse_target("x86-64-avx2"), cache, {.plain = true});
  ASSERT_TRUE(plain) << plain.error().to_string();
  EXPECT_EQ(plain->info.params.size(), 3u);
  EXPECT_EQ(plain->prologue_entry, "");
}

TEST(BuildKernel, TargetsWithoutADeviceAreRefused) {
  ObjectCache cache;
  Target target = *parse_target("x86-64-avx2");
  target.kind = "abacus";
  const auto built = build_kernel(scheduled(), target, cache);
  ASSERT_FALSE(built);
  EXPECT_EQ(built.error().code, ErrorCode::E301);
}

/// Code, memory, and runs, by the definition alone.
TEST(CpuDevice, RunsWhatItBuilt) {
  const Target target = detect_host(1);
  const DeviceDef* device = *device_of(target);
  ObjectCache cache;
  const auto built = build_kernel(parsed(R"(
func add(A: f32[40], B: f32[40] output):
  for i in 40:
    block B(v: spatial[40] = i):
      reads A[v]
      writes B[v]
      B[v] = A[v] + 1.0
)"),
                                  target, cache);
  ASSERT_TRUE(built) << built.error().to_string();
  const auto image = load_image(built->image, built->entry);
  ASSERT_TRUE(image) << image.error().to_string();
  const auto a = *device->allocate(160), b = *device->allocate(160);
  const std::vector<float> values(40, 2);
  ASSERT_TRUE(device->copy_to(a.get(), values.data(), 160));
  const std::vector<void*> buffers = {a.get(), b.get()};
  ASSERT_TRUE(device->launch(*device->open_stream(1), *image, buffers, {}));
  EXPECT_EQ(reinterpret_cast<const float*>(b.get())[39], 3);
}

TEST(BuildKernel, VersionsNameWhatCodeDependsOn) {
  const std::string versions = program_versions();
  EXPECT_EQ(versions.find("lower "), 0u);
  EXPECT_NE(versions.find(" codegen "), std::string::npos);
  EXPECT_NE(versions.find(" primitives "), std::string::npos);
  EXPECT_EQ(versions, program_versions());
}

}  // namespace
}  // namespace fettle
