#include "target/accelerator.h"

#include <gtest/gtest.h>

#include "target/tensor_intrinsic.h"
#include "target/thread_axes.h"

namespace fettle {
namespace {

TEST(Accelerator, IsATargetWithScratchpads) {
  const Target target = parse_target("dae").value();
  EXPECT_EQ(target.kind, "dae");
  ASSERT_TRUE(target.accelerator);
  EXPECT_EQ(target.accelerator->macs_per_cycle(), 256);
  for (const char* name : {"inp", "wgt", "acc"}) {
    const MemoryScope* scope = target.find_scope(name);
    ASSERT_NE(scope, nullptr) << name;
    EXPECT_EQ(scope->parent, "global");
    EXPECT_EQ(scope->shared_by, "vthread");
    EXPECT_EQ(scope->capacity_bytes % scope->alignment_bytes, 0);
  }
  EXPECT_EQ(target.find_scope("register"), nullptr);
  EXPECT_TRUE(has_thread_axis(target, "vthread"));
  EXPECT_FALSE(has_thread_axis(target, "threadIdx.x"));
  EXPECT_EQ(describe(target), "accelerator with 16 x 16 products a cycle and 8 bytes a cycle of memory");
}

TEST(Accelerator, HasItsIntrinsicAlone) {
  const TensorIntrinsicDef& gemm = *find_tensor_intrinsic("dae_gemm_16x16");
  EXPECT_TRUE(gemm.available(parse_target("dae").value()));
  EXPECT_FALSE(gemm.available(parse_target("x86-64-avx512").value()));
  EXPECT_FALSE(find_tensor_intrinsic("vpdpbusd_512")->available(parse_target("dae").value()));
}

}  // namespace
}  // namespace fettle
