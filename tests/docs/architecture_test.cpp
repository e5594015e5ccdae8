// The dumps of docs/architecture.md.

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "codegen/llvm/llvm_codegen.h"
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
            4u);  // the nest, and micro-kernels for the left border, the middle and the right border
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

// Wherever nodes lie in memory.
TEST(Architecture, EqualProgramsGiveEqualObjects) {
  const Target target = parse_target("x86-64-avx512").value();
  std::vector<std::vector<uint8_t>> objects;
  std::vector<Schedule> alive;  // so that every round has other addresses
  for (int round = 0; round < 8; ++round) {
    alive.emplace_back(conv_program());
    ASSERT_OK(conv_schedule(alive.back()));
    const LoweredKernel lowered = lower(alive.back().func(), target).value();
    objects.push_back(compile_object(lowered.kernel, target).value());
    EXPECT_EQ(objects.back(), objects.front()) << "round " << round;
  }
}

}  // namespace
}  // namespace fettle::docs
