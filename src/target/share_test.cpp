#include <gtest/gtest.h>

#include "target/target.h"

namespace fettle {
namespace {

/// 16 threads, two a core; eight share a cache of the third level.
Target machine() {
  Target target = *parse_target("x86-64-avx512");
  target.threads = 16;
  target.caches = {{48 << 10, 12, 64, 2}, {2 << 20, 16, 64, 2}, {32 << 20, 16, 64, 8}};
  return target;
}

std::vector<int64_t> sizes(const Target& target) {
  std::vector<int64_t> all;
  for (const CacheLevel& cache : target.caches) all.push_back(cache.size_bytes);
  return all;
}

TEST(Share, ThreadsAndSharedCachesAreDivided) {
  const Target half = *share_of(machine(), 2);
  EXPECT_EQ(half.threads, 8);
  EXPECT_EQ(half.streams, 2);
  EXPECT_EQ(sizes(half), sizes(machine())) << "each has a third level of its own";

  const Target eighth = *share_of(machine(), 8);
  EXPECT_EQ(eighth.threads, 2);
  EXPECT_EQ(sizes(eighth), (std::vector<int64_t>{48 << 10, 2 << 20, 8 << 20}));
  EXPECT_EQ(eighth.caches[2].shared_by_threads, 2);

  const Target least = *share_of(machine(), 16);
  EXPECT_EQ(least.threads, 1);
  EXPECT_EQ(sizes(least), (std::vector<int64_t>{24 << 10, 1 << 20, 4 << 20}));
  for (const CacheLevel& cache : least.caches) EXPECT_EQ(cache.shared_by_threads, 1);
}

TEST(Share, ThreadsMayBeFewer) {
  const Target one = *share_of(machine(), 2, 1);
  EXPECT_EQ(one.threads, 1);
  EXPECT_EQ(sizes(one), sizes(machine())) << "they need not share a core";
  EXPECT_EQ(share_of(machine(), 5)->threads, 3);
}

TEST(Share, OneStreamIsTheMachine) {
  EXPECT_EQ(share_of(machine(), 1)->fingerprint(), machine().fingerprint());
  EXPECT_EQ(share_of(machine(), 1)->threads, 16);
  EXPECT_EQ(share_of(machine(), 1, 40)->threads, 40);
}

TEST(Share, FingerprintsDiffer) {
  EXPECT_NE(share_of(machine(), 2)->fingerprint(), machine().fingerprint());
  EXPECT_NE(share_of(machine(), 2)->fingerprint(), share_of(machine(), 4)->fingerprint());
  EXPECT_EQ(share_of(machine(), 2)->feature_key(), machine().feature_key()) << "the same code";
  // That of a target without streams is what it was before there were any.
  EXPECT_EQ(parse_target("x86-64-avx512")->fingerprint().hex(), "e84508b76d75bce2c48bdbad71ddffed");
}

TEST(Share, WhatCannotBeShared) {
  const auto refused = [](const Result<Target>& result, std::string_view why) {
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().code, ErrorCode::E709);
    EXPECT_NE(result.error().message.find(why), std::string::npos) << result.error().message;
  };
  refused(share_of(machine(), 0), "one stream at least");
  refused(share_of(machine(), 17), "17 streams of 1 thread need 17, there are 16; take fewer");
  refused(share_of(machine(), 4, 5), "4 streams of 5 threads need 20, there are 16; take fewer");
  refused(share_of(*parse_target("cuda"), 2), "without --streams");
}

TEST(Share, HostIsFoundByItsFingerprint) {
  const Target host = detect_host();
  ASSERT_TRUE(host_of(host.fingerprint(), 1));
  EXPECT_EQ(host_of(host.fingerprint(), 1)->streams, 1);
  EXPECT_EQ(host_of(host.fingerprint(), 1)->threads, 1);
  EXPECT_FALSE(host_of(machine().fingerprint(), 1));
  if (host.threads < 2) GTEST_SKIP() << "one thread cannot be shared";
  const auto shared = share_of(host, 2);
  ASSERT_TRUE(host_of(shared->fingerprint(), 1));
  EXPECT_EQ(host_of(shared->fingerprint(), 1)->streams, 2);
}

}  // namespace
}  // namespace fettle
