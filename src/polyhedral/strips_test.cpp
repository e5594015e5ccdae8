#include "polyhedral/strips.h"

#include <fmt/format.h>

#include "analysis/verify.h"
#include "ir/query.h"
#include "ir/text.h"
#include "schedule/primitives.h"
#include "schedule/testing.h"
#include "target/target.h"

namespace fettle {
namespace {

using namespace fettle::testing;

// Sums of a matrix's rows and columns, row by row. `factor`: what the second one multiplies by.
std::string two_sums(int rows, const std::string& factor) {
  return fmt::format(R"(func sums(M: f32[{0}, 20], x: f32[20], y: f32[{0}], q: f32[{0}] output, s: f32[20] output):
  for i in {0}:
    block q_zero(vi: spatial[{0}] = i):
      writes q[vi]
      q[vi] = 0.0
  for i in 20:
    block s_zero(vi: spatial[20] = i):
      writes s[vi]
      s[vi] = 0.0
  for i in {0}:
    for j in 20:
      block q(vi: spatial[{0}] = i, vj: reduce[20] = j):
        reads q[vi], M[vi, vj], x[vj]
        writes q[vi]
        q[vi] = q[vi] + M[vi, vj] * x[vj]
    for j in 20:
      block s(vi: reduce[{0}] = i, vj: spatial[20] = j):
        reads s[vj], M[vi, vj], {1}
        writes s[vj]
        s[vj] = s[vj] + M[vi, vj] * {1}
)",
                     rows, factor);
}

ForKind kind_of(const Schedule& s, const LoopRef& loop) { return (*s.loop(loop)).as<ForNode>()->loop_kind; }

TEST(Strips, GoOverRowsOfAMatrixOnce) {
  for (const char* factor : {"y[vi]", "q[vi]"}) {
    auto s = schedule_from(two_sums(15, factor));
    ASSERT_OK(strip_shared_loop(s, {"q", "s"}, 4));
    EXPECT_REPLAYS(s);
    EXPECT_SAME_RESULT(s);
    EXPECT_OK(verify(s.func(), *parse_target("host")));
    const auto of_rows = get_loops(s, {*get_block(s, {"q"})}), of_columns = get_loops(s, {*get_block(s, {"s"})});
    ASSERT_OK(of_rows);
    ASSERT_OK(of_columns);
    ASSERT_EQ(of_rows->size(), 3u);
    ASSERT_EQ(of_columns->size(), 4u);
    EXPECT_EQ(*as_int((*s.loop(of_rows->front())).as<ForNode>()->extent), 3) << "five rows at once";
    EXPECT_EQ(*s.loop(of_rows->front()), *s.loop(of_columns->front()));
    EXPECT_EQ(kind_of(s, of_rows->back()), ForKind::kUnrolled);
    EXPECT_EQ(kind_of(s, (*of_columns)[2]), ForKind::kUnrolled);
    EXPECT_EQ(kind_of(s, (*of_columns)[3]), ForKind::kVectorized);
  }
}

TEST(Strips, AreRefusedWhereNothingFits) {
  auto s = schedule_from(two_sums(13, "y[vi]"));
  EXPECT_ERROR(strip_shared_loop(s, {"q", "s"}, 4), E211);  // nothing divides 13
  EXPECT_ERROR(strip_shared_loop(s, {"q_zero", "s_zero"}, 4), E211);
  EXPECT_EQ(s.trace().size(), 0u);
}

// A sum of columns up to each row, which the next row's needs.
TEST(Strips, KeepDependences) {
  auto s = schedule_from(R"(func f(M: f32[16, 8], A: f32[8] output, B: f32[16, 8] output):
  for i in 16:
    for j in 8:
      block a(vi: reduce[16] = i, vj: spatial[8] = j):
        reads A[vj], M[vi, vj]
        writes A[vj]
        A[vj] = A[vj] + M[vi, vj]
    for j in 8:
      block b(vi: spatial[16] = i, vj: spatial[8] = j):
        reads A[vj]
        writes B[vi, vj]
        B[vi, vj] = A[vj] * 2.0
)");
  EXPECT_ERROR(strip_shared_loop(s, {"a", "b"}, 4), E227);
}

// Rows wait for each other as wholes.
TEST(Strips, KeepTheOrderOfRows) {
  auto s = schedule_from(R"(func f(A: f32[16, 8] output, B: f32[16, 8] output):
  for i in 15:
    for j in 8:
      block a(vi: scan[15] = i, vj: spatial[8] = j):
        reads B[vi, vj]
        writes A[vi, vj]
        A[vi, vj] = B[vi, vj] + 1.0
    for j in 8:
      block b(vi: scan[15] = i, vj: spatial[8] = j):
        reads A[vi, vj]
        writes B[vi + 1, vj]
        B[vi + 1, vj] = A[vi, vj] * 2.0
)");
  EXPECT_ERROR(strip_shared_loop(s, {"a", "b"}, 4), E227);
}

// A triangular system: eight rows read what is known of the solution once, and end in turn.
TEST(Strips, OfRowsThatRunInOrder) {
  auto s = schedule_from(R"(func solve(L: f32[24, 24], b: f32[24], x: f32[24] output):
  for i in 24:
    block begin(vi: spatial[24] = i):
      reads b[vi]
      writes x[vi]
      x[vi] = b[vi]
    for j in i:
      block update(vi: scan[24] = i, vj: scan[23] = j):
        reads x[vi], L[vi, vj], x[vj]
        writes x[vi]
        x[vi] = x[vi] - L[vi, vj] * x[vj]
    block end(vi: spatial[24] = i):
      reads x[vi], L[vi, vi]
      writes x[vi]
      x[vi] = x[vi] * (L[vi, vi] + 2.0)
)");
  ASSERT_OK(strip_shared_loop(s, {"begin", "update", "end"}, 4));
  EXPECT_REPLAYS(s);
  EXPECT_SAME_RESULT(s);
  EXPECT_OK(verify(s.func(), *parse_target("host")));
  int written_out = 0;
  each_node<ForNode>(s.func()->body, [&](const ForNode& loop) {
    written_out += loop.loop_kind == ForKind::kUnrolled && *as_int(loop.extent) == 8;
  });
  EXPECT_EQ(written_out, 2) << to_text(s.func());  // what begins them, and what they read
}

}  // namespace
}  // namespace fettle
