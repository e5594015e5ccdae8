#include "polyhedral/row_lanes.h"

#include <fmt/format.h>

#include "analysis/verify.h"
#include "ir/query.h"
#include "schedule/testing.h"
#include "target/target.h"

namespace fettle {
namespace {

using namespace fettle::testing;

// Steps over rows, of a recurrence along each; `read` is of what the row before has.
std::string rows_of(const std::string& read) {
  return fmt::format(R"(func f(X: f64[11, 20], A: f64[11, 20] output, B: f64[11, 20] output):
  for a in 11:
    for b in 20:
      block copy(va: spatial[11] = a, vb: spatial[20] = b):
        reads X[va, vb]
        writes A[va, vb]
        A[va, vb] = X[va, vb]
  for a in 11:
    for b in 20:
      block copy_B(va: spatial[11] = a, vb: spatial[20] = b):
        reads X[va, vb]
        writes B[va, vb]
        B[va, vb] = X[va, vb]
  for t in 3:
    for i in 10:
      block begin(vt: scan[3] = t, vi: scan[10] = i):
        writes B[vi + 1, 0]
        B[vi + 1, 0] = 1.0f64
      for j in 19:
        block S(vt: scan[3] = t, vi: scan[10] = i, vj: scan[19] = j):
          reads A[vi + 1, vj +: 2], {0}
          writes A[vi + 1, vj + 1]
          A[vi + 1, vj + 1] = A[vi + 1, vj + 1] * 0.5f64 - A[vi + 1, vj] * {0}
        block T(vt: scan[3] = t, vi: scan[10] = i, vj: scan[19] = j):
          reads B[vi + 1, vj], A[vi + 1, vj]
          writes B[vi + 1, vj + 1]
          B[vi + 1, vj + 1] = B[vi + 1, vj] * A[vi + 1, vj]
)",
                     read);
}

TEST(RowLanes, GoAroundRecurrences) {
  auto s = schedule_from(rows_of("X[vi, vj]"));
  std::vector<std::string> made;
  ASSERT_OK(make_rows_lanes(s, {"S", "T"}, 4, false, made));
  EXPECT_EQ(made, (std::vector<std::string>{"begin", "S", "T"}));
  EXPECT_REPLAYS(s);
  EXPECT_SAME_RESULT(s);
  EXPECT_OK(verify(s.func(), *parse_target("host")));
  int lanes = 0;
  each_node<ForNode>(s.func()->body, [&](const ForNode& loop) {
    lanes += loop.loop_kind == ForKind::kVectorized &&
             contains<ForNode>(loop.body, [](const ForNode& inner) { return is_int(inner.extent, 19); });
  });
  EXPECT_EQ(lanes, 1) << to_text(s.func());
}

TEST(RowLanes, AreSharedByThreads) {
  auto s = schedule_from(rows_of("X[vi, vj]"));
  std::vector<std::string> made;
  ASSERT_OK(make_rows_lanes(s, {"S", "T"}, 4, true, made));
  EXPECT_TRUE(contains<ForNode>(s.func()->body, [](const ForNode& l) { return l.loop_kind == ForKind::kParallel; }));
  EXPECT_SAME_RESULT(s);
}

// Rows that need the row before, too few of them, or none.
TEST(RowLanes, AreRefusedElsewhere) {
  std::vector<std::string> made;
  auto dependent = schedule_from(rows_of("A[vi, vj]"));
  EXPECT_ERROR(make_rows_lanes(dependent, {"S", "T"}, 4, false, made), E211);
  auto s = schedule_from(rows_of("X[vi, vj]"));
  EXPECT_ERROR(make_rows_lanes(s, {"S", "T"}, 16, false, made), E211);
  EXPECT_ERROR(make_rows_lanes(s, {"copy"}, 4, false, made), E211);
  EXPECT_EQ(s.trace().size(), 0u);
}

}  // namespace
}  // namespace fettle
