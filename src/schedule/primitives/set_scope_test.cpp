#include "schedule/primitives/set_scope.h"

#include "schedule/testing.h"

namespace fettle {
namespace {

using testing::schedule_from;

constexpr const char* kChain = R"(
func chain(A: f32[8], C: f32[8] output):
  alloc B: f32[8]
  for i in 8:
    block B(vi: spatial[8] = i):
      reads A[vi]
      writes B[vi]
      B[vi] = A[vi] + 1.0
  for j in 8:
    block C(vj: spatial[8] = j):
      reads B[vj]
      writes C[vj]
      C[vj] = B[vj]
)";

TEST(SetScope, InternalBuffer) {
  auto s = schedule_from(kChain);
  ASSERT_OK(set_scope(s, {s.block("B"), 0, "register"}));
  EXPECT_GOLDEN(s.func());
  EXPECT_REPLAYS(s);
  EXPECT_SAME_RESULT(s);
}

TEST(SetScope, ScopeAsItIsChangesNothing) {
  auto s = schedule_from(kChain);
  ASSERT_OK(set_scope(s, {s.block("B"), 0, "global"}));
  EXPECT_EQ(s.func(), s.original);
}

TEST(SetScope, ScopeOfTheTarget) {
  auto s = schedule_from(kChain);
  auto target = std::make_shared<Target>();
  target->scopes.push_back({.name = "scratch", .parent = "global"});
  s.set_target(target);
  ASSERT_OK(set_scope(s, {s.block("B"), 0, "scratch"}));
  EXPECT_REPLAYS(s);
}

TEST(SetScope, E218Parameter) {
  auto s = schedule_from(kChain);
  EXPECT_ERROR(set_scope(s, {s.block("C"), 0, "register"}), E218);
}

TEST(SetScope, E219NoSuchScope) {
  auto s = schedule_from(kChain);
  EXPECT_ERROR(set_scope(s, {s.block("B"), 0, "shared"}), E219);
}

TEST(SetScope, E220NoSuchWrite) {
  auto s = schedule_from(kChain);
  EXPECT_ERROR(set_scope(s, {s.block("B"), 1, "register"}), E220);
  EXPECT_ERROR(set_scope(s, {s.block("B"), -1, "register"}), E220);
}

TEST(SetScope, E225NoBlock) {
  auto s = schedule_from(kChain);
  EXPECT_ERROR(set_scope(s, {BlockRef(s.loop("i")), 0, "register"}), E225);
}

}  // namespace
}  // namespace fettle
