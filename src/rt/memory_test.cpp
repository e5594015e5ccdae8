#include "rt/memory.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <set>
#include <thread>
#include <vector>

#include "rt/context.h"

namespace {

TEST(Pages, AreAlignedAndZero) {
  for (const int64_t bytes : {int64_t{0}, int64_t{1}, int64_t{4096}, int64_t{100'000}, int64_t{5} << 20}) {
    for (const int32_t huge : {0, 1}) {
      auto* block = static_cast<char*>(fettle_pages_alloc(bytes, huge));
      ASSERT_NE(block, nullptr);
      const int64_t alignment = huge != 0 && bytes >= 1 << 20 ? 2 << 20 : 4096;
      EXPECT_EQ(reinterpret_cast<uintptr_t>(block) % static_cast<uintptr_t>(alignment), 0u);
      EXPECT_TRUE(std::all_of(block, block + bytes, [](char c) { return c == 0; }));
      std::memset(block, 1, static_cast<size_t>(bytes));
      fettle_pages_free(block, bytes, huge);
    }
  }
}

TEST(Pages, RefuseWhatCannotBe) {
  EXPECT_EQ(fettle_pages_alloc(-1, 0), nullptr);
  EXPECT_EQ(fettle_pages_alloc(INT64_MAX, 0), nullptr);
  EXPECT_EQ(fettle_pages_alloc(INT64_MAX, 1), nullptr);
  fettle_pages_free(nullptr, 4096, 0);
}

class Scratch : public testing::Test {
 protected:
  void SetUp() override { context.scratch = fettle_scratch_create(); }
  void TearDown() override { fettle_scratch_destroy(context.scratch); }
  FettleContext context{};
};

TEST_F(Scratch, GivesTheLastBlockAgain) {
  void* first = fettle_scratch_acquire(&context, 10'000);
  ASSERT_NE(first, nullptr);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(first) % 64, 0u);
  std::memset(first, 1, 10'000);
  fettle_scratch_release(&context, first);
  void* second = fettle_scratch_acquire(&context, 9'000);
  EXPECT_EQ(second, first);
  void* third = fettle_scratch_acquire(&context, 9'000);
  EXPECT_NE(third, second);
  fettle_scratch_release(&context, second);
  fettle_scratch_release(&context, third);
}

TEST_F(Scratch, GrowsInPlaceOfHoarding) {
  for (int64_t bytes = 1; bytes < int64_t{64} << 20; bytes *= 2) {
    auto* block = static_cast<char*>(fettle_scratch_acquire(&context, bytes));
    ASSERT_NE(block, nullptr);
    block[0] = block[bytes - 1] = 1;
    fettle_scratch_release(&context, block);
  }
  void* largest = fettle_scratch_acquire(&context, int64_t{32} << 20);
  void* none_left = fettle_scratch_acquire(&context, 1);
  fettle_scratch_release(&context, largest);
  void* again = fettle_scratch_acquire(&context, 1);
  EXPECT_EQ(again, largest) << "smaller blocks were replaced, not kept";
  fettle_scratch_release(&context, again);
  fettle_scratch_release(&context, none_left);
}

// A kernel of several buffers asks for the same ones in each run, and gets them from the second on.
TEST_F(Scratch, BlocksOfSeveralSizesAreAllKept) {
  const std::vector<int64_t> sizes = {24'000, 18'000, 18'500, 700, 60'000, 12'000};
  std::set<void*> seen;
  for (int run = 0; run < 20; ++run) {
    std::vector<void*> blocks;
    for (const int64_t bytes : sizes) blocks.push_back(fettle_scratch_acquire(&context, bytes));
    if (run == 10) seen.insert(blocks.begin(), blocks.end());
    for (void* block : blocks) EXPECT_TRUE(run <= 10 || seen.contains(block)) << run;
    std::ranges::reverse(blocks);
    for (void* block : blocks) fettle_scratch_release(&context, block);
  }
}

TEST_F(Scratch, RefusesWhatCannotBe) {
  EXPECT_EQ(fettle_scratch_acquire(&context, -1), nullptr);
  EXPECT_EQ(fettle_scratch_acquire(&context, INT64_MAX), nullptr);
  fettle_scratch_release(&context, nullptr);
}

TEST_F(Scratch, ManyBlocksAtOnceAreDisjoint) {
  std::vector<char*> blocks;
  for (int i = 0; i < 100; ++i) {
    blocks.push_back(static_cast<char*>(fettle_scratch_acquire(&context, 5000)));
    ASSERT_NE(blocks.back(), nullptr);
    std::memset(blocks.back(), i, 5000);
  }
  for (int i = 0; i < 100; ++i) {
    EXPECT_EQ(blocks[static_cast<size_t>(i)][0], i);
    EXPECT_EQ(blocks[static_cast<size_t>(i)][4999], i);
    fettle_scratch_release(&context, blocks[static_cast<size_t>(i)]);
  }
}

TEST_F(Scratch, ThreadsNeverShareABlock) {
  auto work = [this](char mark) {
    for (int round = 0; round < 2000; ++round) {
      const int64_t bytes = 64 + round % 7 * 3000;
      auto* block = static_cast<char*>(fettle_scratch_acquire(&context, bytes));
      std::memset(block, mark, static_cast<size_t>(bytes));
      if (!std::all_of(block, block + bytes, [mark](char c) { return c == mark; })) ADD_FAILURE() << "shared";
      fettle_scratch_release(&context, block);
    }
  };
  std::vector<std::thread> threads;
  for (char mark = 1; mark <= 4; ++mark) threads.emplace_back(work, mark);
  for (auto& thread : threads) thread.join();
}

TEST(ScratchWithoutPool, ComesFromTheSystem) {
  FettleContext context{};
  auto* block = static_cast<char*>(fettle_scratch_acquire(&context, 100));
  ASSERT_NE(block, nullptr);
  std::memset(block, 1, 100);
  fettle_scratch_release(&context, block);
}

TEST(OwnedContext, HasATeamAndScratch) {
  fettle::rt::OwnedContext context(3);
  EXPECT_EQ(context.threads(), 3);
  void* block = fettle_scratch_acquire(context.get(), 100);
  EXPECT_NE(block, nullptr);
  fettle_scratch_release(context.get(), block);
  EXPECT_NE(context.get()->scratch, nullptr);
}

}  // namespace
