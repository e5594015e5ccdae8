// The dumps of docs/architecture.md.

#include <gtest/gtest.h>

#include "conv_example.h"
#include "ir/text.h"
#include "lower/lower.h"
#include "page_check.h"
#include "schedule/testing.h"

namespace fettle::docs {
namespace {

TEST(Architecture, BordersAreDispatched) {
  Schedule s(conv_program());
  const auto target = std::make_shared<const Target>(parse_target("x86-64-avx512").value());
  s.set_target(target);
  ASSERT_OK(conv_schedule(s));
  const LoweredKernel lowered = lower(s.func(), *target).value();
  EXPECT_EQ(lowered.kernel.funcs.size(),
            4u);  // the nest, and atoms for the left border, the middle and the right border
  for (const auto& [name, func] : lowered.kernel.funcs) {
    if (name != lowered.kernel.entry) {
      EXPECT_EQ(to_text(func).find("if "), std::string::npos) << to_text(func);
    }
  }
  check_dump("docs/architecture.md", "dispatch", to_text(lowered.kernel.funcs.at(lowered.kernel.entry)));
}

TEST(Architecture, BordersAreRight) {
  const Func program = conv_program(14, 2);
  Schedule s(program);
  ASSERT_OK(conv_schedule(s));
  EXPECT_TRUE(testing::same_result(program, s.func()));
}

}  // namespace
}  // namespace fettle::docs
