#include "schedule/primitives/bind.h"

#include "schedule/primitives/blockize.h"
#include "schedule/primitives/cache_read.h"
#include "schedule/primitives/compute_at.h"
#include "schedule/primitives/split.h"
#include "schedule/testing.h"

namespace fettle {
namespace {

using testing::schedule_from;

constexpr const char* kMatmul = "for i in 8: for j in 6: for k in 5: C[i, j] += A[i, k] * B[k, j]";

TEST(Bind, BlocksThreadsAndVirtualThreads) {
  auto s = schedule_from(kMatmul);
  auto i = split(s, {s.loop("i"), {2, 2, 2}});
  ASSERT_OK(i);
  ASSERT_OK(bind(s, {(*i)[0], "blockIdx.x"}));
  ASSERT_OK(bind(s, {(*i)[1], "vthread"}));
  ASSERT_OK(bind(s, {(*i)[2], "threadIdx.x"}));
  ASSERT_OK(bind(s, {s.loop("j"), "threadIdx.y"}));
  EXPECT_GOLDEN(s.func());
  EXPECT_REPLAYS(s);
  EXPECT_SAME_RESULT(s);
}

TEST(Bind, VirtualThreadsMayBeNested) {
  auto s = schedule_from(kMatmul);
  ASSERT_OK(bind(s, {s.loop("i"), "vthread"}));
  ASSERT_OK(bind(s, {s.loop("j"), "vthread"}));
  EXPECT_REPLAYS(s);
  EXPECT_SAME_RESULT(s);
}

TEST(Bind, ANestInsideFillsABufferTogether) {
  auto s = schedule_from("for i in 8: for k in 5: C[i] += A[k] * B[i]");
  s.set_target(std::make_shared<Target>(*parse_target("opencl")));
  const auto copy = cache_read(s, {s.block("C"), 0, "shared", {}});
  ASSERT_OK(copy);
  const LoopRef i = s.loop("i");
  ASSERT_OK(compute_at(s, {*copy, i}));
  ASSERT_OK(bind(s, {i, "threadIdx.x"}));
  const auto loops = get_loops(s, {*copy});
  ASSERT_OK(loops);
  ASSERT_OK(bind(s, {loops->back(), "threadIdx.x"}));
  EXPECT_REPLAYS(s);
  EXPECT_SAME_RESULT(s);

  // Not where it fills what each thread has of its own …
  auto own = schedule_from("for i in 8: for k in 5: C[i] += A[k] * B[i]");
  own.set_target(std::make_shared<Target>(*parse_target("opencl")));
  const auto local = cache_read(own, {own.block("C"), 0, "local", {}});
  ASSERT_OK(local);
  const LoopRef outer = own.loop("i");
  ASSERT_OK(compute_at(own, {*local, outer}));
  ASSERT_OK(bind(own, {outer, "threadIdx.x"}));
  EXPECT_ERROR(bind(own, {get_loops(own, {*local})->back(), "threadIdx.x"}), E207);
  // … nor for blocks, which do not wait for each other.
  EXPECT_ERROR(bind(own, {get_loops(own, {own.block("C")})->back(), "threadIdx.x"}), E207);
}

// The iterators of a block between the two loops are the outer loop's.
TEST(Bind, E207DependsThroughAnOuterBlock) {
  auto s = schedule_from("for i in 5: for j in 3: C[i, j] = A[i, j]");
  const BlockRef block = s.block("C");
  const auto loops = get_loops(s, {block});
  ASSERT_OK(loops);
  ASSERT_OK(bind(s, {loops->front(), "threadIdx.x"}));
  ASSERT_OK(blockize(s, {loops->back()}));
  EXPECT_ERROR(bind(s, {get_loops(s, {block})->back(), "threadIdx.x"}), E207);
  ASSERT_OK(bind(s, {get_loops(s, {block})->back(), "threadIdx.y"}));
  EXPECT_SAME_RESULT(s);
}

TEST(Bind, Errors) {
  auto s = schedule_from(kMatmul);
  const LoopRef i = s.loop("i"), j = s.loop("j"), k = s.loop("k");
  EXPECT_ERROR(bind(s, {k, "threadIdx.x"}), E210);  // a reduction
  EXPECT_ERROR(bind(s, {i, "threadIdx"}), E241);
  EXPECT_ERROR(bind(s, {i, "vthread.w"}), E241);
  ASSERT_OK(bind(s, {i, "threadIdx.x"}));
  EXPECT_ERROR(bind(s, {i, "threadIdx.y"}), E201);
  EXPECT_ERROR(bind(s, {j, "threadIdx.x"}), E207);

  auto inner = schedule_from(kMatmul);
  ASSERT_OK(bind(inner, {inner.loop("j"), "threadIdx.x"}));
  EXPECT_ERROR(bind(inner, {inner.loop("i"), "threadIdx.x"}), E207);

  auto gone = schedule_from(kMatmul);
  const LoopRef old = gone.loop("i");
  ASSERT_OK(split(gone, {old, {2, 4}}));
  EXPECT_ERROR(bind(gone, {old, "threadIdx.x"}), E206);
}

}  // namespace
}  // namespace fettle
