#include "rt/onednn.h"

#include <gtest/gtest.h>

#include <cstring>

namespace fettle::rt {
namespace {

// Of version 9 there is no library on any machine: either none is found, or it is another.
TEST(OnednnCall, SaysWhyThereIsNoKernel) {
  OnednnCall call{};
  call.version[0] = 9;
  FettleContext context{};
  std::atomic<uintptr_t> state{0};
  EXPECT_EQ(fettle_onednn_run(&context, nullptr, nullptr, &call, &state), FETTLE_KERNEL_FAILED);
  ASSERT_NE(context.reason, nullptr);
  EXPECT_NE(std::strstr(context.reason, "libdnnl.so.3"), nullptr) << context.reason;
  EXPECT_EQ(state.load(), 0u) << "a later call tries again";
  context.reason = nullptr;
  EXPECT_EQ(fettle_onednn_pack(&context, nullptr, nullptr, &call, &state), FETTLE_KERNEL_FAILED);
  EXPECT_NE(context.reason, nullptr);
  OnednnReport report;
  onednn_prepare(&call, &report);
  EXPECT_NE(report.reason, nullptr);
}

}  // namespace
}  // namespace fettle::rt
