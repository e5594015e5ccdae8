#include "schedule/primitives/get_output_blocks.h"

#include "schedule/testing.h"

namespace fettle {
namespace {

using testing::schedule_from;

TEST(GetOutputBlocks, ThoseThatWriteOutputs) {
  auto s = schedule_from(R"(
func two(A: f32[8], C: f32[8] output, D: f32[8] output):
  alloc B: f32[8]
  for i in 8:
    block B(vi: spatial[8] = i):
      reads A[vi]
      writes B[vi]
      B[vi] = A[vi]
  for i in 8:
    block D(vi: spatial[8] = i):
      reads B[vi]
      writes D[vi]
      D[vi] = B[vi]
  for i in 8:
    block C(vi: spatial[8] = i):
      reads B[vi]
      writes C[vi]
      C[vi] = B[vi]
)");
  auto blocks = get_output_blocks(s, {});
  ASSERT_OK(blocks);
  ASSERT_EQ(blocks->size(), 2u);
  EXPECT_EQ(s.block((*blocks)[0])->as<BlockNode>()->name, "D");
  EXPECT_EQ(s.block((*blocks)[1])->as<BlockNode>()->name, "C");
  EXPECT_REPLAYS(s);
}

}  // namespace
}  // namespace fettle
