#include "lower/packings.h"

#include <gtest/gtest.h>

#include "ir/text.h"
#include "schedule/schedule.h"
#include "schedule/trace/trace.h"

namespace fettle {
namespace {

Func matmul(int rows) {
  std::string text = R"(
func matmul(A: f32[ROWS, 40], B: f32[40, 64] constant, C: f32[ROWS, 64] output):
  for i in ROWS:
    for j in 64:
      for k in 40:
        block C(vi: spatial[ROWS] = i, vj: spatial[64] = j, vk: reduce[40] = k):
          reads A[vi, vk], B[vk, vj]
          writes C[vi, vj]
          init:
            C[vi, vj] = 0.0
          C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]
)";
  for (size_t at; (at = text.find("ROWS")) != std::string::npos;) text.replace(at, 4, std::to_string(rows));
  const auto parsed = parse_func(text);
  EXPECT_TRUE(parsed) << parsed.error().to_string();
  return *parsed;
}

KernelConstants constants_after(const Func& func, const std::string& steps) {
  Schedule schedule(func);
  const auto trace = parse_trace("b0 = get_block(name=\"C\")\n" + steps);
  EXPECT_TRUE(trace) << trace.error().to_string();
  const auto replayed = replay(schedule, *trace);
  EXPECT_TRUE(replayed) << replayed.error().to_string();
  return constants_of(schedule.func());
}

std::string packed(int width) {
  return R"(b1 = cache_read(block=b0, read_index=1, scope="global", consumer_blocks=[])
transform_layout(block=b1, buffer_index=0, buffer_index_type="write", index_map="(k, n) -> (n // )" +
         std::to_string(width) + ", k, n % " + std::to_string(width) + ")\", pad=true)\n";
}

TEST(Packings, AnUnscheduledProgramReadsItsConstantsAsTheyLie) {
  const KernelConstants constants = constants_of(matmul(28));
  EXPECT_EQ(constants.params.size(), 3u);
  EXPECT_TRUE(constants.is_read[1]);
  EXPECT_TRUE(constants.packings.empty());
}

TEST(Packings, EqualPackingsAreEqualWhateverReadsThem) {
  const KernelConstants few = constants_after(matmul(3), packed(32)), many = constants_after(matmul(500), packed(32)),
                        narrow = constants_after(matmul(500), packed(16));
  ASSERT_EQ(few.packings.size(), 1u);
  EXPECT_EQ(few.packings[0].made, 3u);
  EXPECT_EQ(few.packings[0].sources, std::vector<size_t>{1});
  EXPECT_FALSE(few.is_read[1]);
  EXPECT_TRUE(few.is_read[3]);
  EXPECT_EQ(few.packings[0].digest, many.packings.at(0).digest);
  EXPECT_NE(few.packings[0].digest, narrow.packings.at(0).digest);
}

TEST(Packings, LoopsOfThePrologueDoNotMatter) {
  const std::string tiled = packed(32) + R"(l2, l3, l4 = get_loops(block=b1)
l5, l6 = split(loop=l3, factors=[-1, 8], tail="exact")
vectorize(loop=l4)
)";
  const KernelConstants plain = constants_after(matmul(28), packed(32)), vectors = constants_after(matmul(28), tiled);
  EXPECT_EQ(plain.packings.at(0).digest, vectors.packings.at(0).digest);
}

}  // namespace
}  // namespace fettle
