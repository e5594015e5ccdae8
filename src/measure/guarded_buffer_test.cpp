#include "measure/guarded_buffer.h"

#include <gtest/gtest.h>

#include <cstdint>

#include "measure/child.h"

namespace fettle {
namespace {

constexpr int64_t kSizes[] = {1, 4095, 4096, 100'000, (2 << 20) - 320, (2 << 20) + 1, 5 << 20};

// Whether touching the byte `offset` beyond the start ends a process.
bool kills(const GuardedBuffer& buffer, int64_t offset) {
  const ChildOutcome outcome = run_in_child(
      [&] {
        static_cast<volatile char*>(buffer.data())[offset] = 1;
        return 0;
      },
      {});
  return outcome.end == ChildOutcome::End::kSignalled;
}

TEST(GuardedBuffer, NobodyGetsFarBeyondItsEnds) {
  for (const Sharing sharing : {Sharing::kShared, Sharing::kPrivate}) {
    for (const int64_t bytes : kSizes) {
      const auto buffer = GuardedBuffer::make(bytes, 320, sharing).value();
      EXPECT_EQ(reinterpret_cast<uintptr_t>(buffer->data()) % 4096, 320u);
      EXPECT_GE(buffer->held_bytes(), bytes);
      EXPECT_EQ(buffer->data()[0], 0);
      EXPECT_EQ(buffer->data()[bytes - 1], 0);
      EXPECT_FALSE(kills(*buffer, 0));
      EXPECT_FALSE(kills(*buffer, bytes - 1));
      EXPECT_TRUE(kills(*buffer, bytes + 4096)) << bytes;
      buffer->forbid_writing();
      EXPECT_TRUE(kills(*buffer, bytes - 1)) << bytes;
    }
  }
}

TEST(GuardedBuffer, WhatAChildWritesIsSeenWhereItIsShared) {
  for (const Sharing sharing : {Sharing::kShared, Sharing::kPrivate}) {
    const auto buffer = GuardedBuffer::make(1 << 20, 0, sharing).value();
    const auto write = [&] {
      buffer->data()[77] = 5;
      return 0;
    };
    EXPECT_EQ(run_in_child(write, {}).end, ChildOutcome::End::kExited);
    EXPECT_EQ(buffer->data()[77], sharing == Sharing::kShared ? 5 : 0);
  }
}

}  // namespace
}  // namespace fettle
