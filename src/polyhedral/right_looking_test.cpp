#include "polyhedral/right_looking.h"

#include <fmt/format.h>

#include "analysis/verify.h"
#include "ir/query.h"
#include "schedule/dataflow/dataflow.h"
#include "schedule/testing.h"
#include "target/target.h"

namespace fettle {
namespace {

using namespace fettle::testing;

// Rows from the last one on, each from left to right, of what lies left and below: `type` has maxima, or sums.
std::string split_points(const std::string& type, const std::string& combined) {
  return fmt::format(R"(func parts(X: {0}[20, 20], T: {0}[20, 20] output):
  for a in 20:
    for b in 20:
      block copy(va: spatial[20] = a, vb: spatial[20] = b):
        reads X[va, vb]
        writes T[va, vb]
        T[va, vb] = X[va, vb]
  for r in 19:
    for j in 18 - r +: r + 1:
      block left(vr: scan[19] = r, vj: scan[19] = j):
        reads T[18 - vr, vj +: 2]
        writes T[18 - vr, vj + 1]
        T[18 - vr, vj + 1] = max(T[18 - vr, vj + 1], T[18 - vr, vj])
      for k in 18 - r +: j + r - 18:
        block S(vr: scan[19] = r, vj: scan[19] = j, vk: scan[18] = k):
          reads T[18 - vr, vj + 1], T[18 - vr, vk + 1], T[vk + 2, vj + 1]
          writes T[18 - vr, vj + 1]
          T[18 - vr, vj + 1] = {1}
)",
                     type, combined);
}

const char* const kMaximum = "max(T[18 - vr, vj + 1], T[18 - vr, vk + 1] + T[vk + 2, vj + 1])";

TEST(RightLooking, GivesMaximaLanes) {
  auto s = schedule_from(split_points("i32", kMaximum));
  ASSERT_OK(look_right(s, {"left", "S"}, 4));
  EXPECT_REPLAYS(s);
  EXPECT_SAME_RESULT(s);
  EXPECT_OK(verify(s.func(), *parse_target("host")));
  bool has_lanes = false;
  each_node<ForNode>(s.func()->body, [&](const ForNode& loop) {
    has_lanes = has_lanes || (loop.loop_kind == ForKind::kVectorized &&
                              blocks_under(Stmt(Ref<const ForNode>(&loop))).front()->name.starts_with("S"));
  });
  EXPECT_TRUE(has_lanes) << to_text(s.func());
}

// Maxima of floats tell NaNs by their order. Sums and maxima do not change places.
TEST(RightLooking, KeepsOrderWhereItCounts) {
  auto floats = schedule_from(split_points("f32", kMaximum));
  EXPECT_ERROR(look_right(floats, {"left", "S"}, 4), E227);
  auto sums = schedule_from(split_points("i32", "T[18 - vr, vj + 1] + T[18 - vr, vk + 1] * T[vk + 2, vj + 1]"));
  EXPECT_ERROR(look_right(sums, {"left", "S"}, 4), E227);
  EXPECT_EQ(sums.trace().size(), 0u);
}

TEST(RightLooking, NeedsAnElementThatGoesOn) {
  auto s = schedule_from(split_points("i32", kMaximum));
  EXPECT_ERROR(look_right(s, {"copy"}, 4), E211);
}

}  // namespace
}  // namespace fettle
