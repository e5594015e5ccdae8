#include "generations/tensor_comprehensions/device_mapping.h"

#include <fmt/format.h>

#include <set>

#include "analysis/verify.h"
#include "codegen/device/testing.h"
#include "generations/tensor_comprehensions/polyhedral_space.h"

namespace fettle {
namespace {

using namespace fettle::testing;

// A program that begins with a copy of X, of rows by columns, in `out`.
std::string after_copy(const std::string& head, const std::string& out, int rows, int columns, const std::string& body,
                       const std::string& allocation = "") {
  return fmt::format(R"({0}:
{5}  for a in {2}:
    for b in {3}:
      block copy(va: spatial[{2}] = a, vb: spatial[{3}] = b):
        reads X[va, vb]
        writes {1}[va, vb]
        {1}[va, vb] = X[va, vb]
{4})",
                     head, out, rows, columns, body, allocation);
}

const std::string kProduct =
    after_copy("func product(A: f32[40, 50], B: f32[50, 70], X: f32[40, 70], C: f32[40, 70] output)", "C", 40, 70,
               R"(  for i in 40:
    for j in 70:
      for k in 50:
        block C(vi: spatial[40] = i, vj: spatial[70] = j, vk: scan[50] = k):
          reads A[vi, vk], B[vk, vj], C[vi, vj]
          writes C[vi, vj]
          C[vi, vj] = C[vi, vj] + A[vi, vk]*B[vk, vj]
)");

// Elements of a triangle, each of its own row and column.
const std::string kTriangle =
    after_copy("func triangle(A: f32[45, 30], X: f32[45, 45], C: f32[45, 45] output)", "C", 45, 45, R"(  for i in 45:
    for j in i + 1:
      for k in 30:
        block C(vi: spatial[45] = i, vj: spatial[45] = j, vk: scan[30] = k):
          reads A[vi, vk], A[vj, vk], C[vi, vj]
          writes C[vi, vj]
          C[vi, vj] = C[vi, vj] + A[vi, vk]*A[vj, vk]
)");

const std::string kJacobi =
    after_copy("func jacobi(X: f32[40, 50], A: f32[40, 50] output)", "A", 40, 50, R"(  for t in 5:
    for i in 38:
      for j in 48:
        block B(vt: scan[5] = t, vi: spatial[38] = i, vj: spatial[48] = j):
          reads A[vi +: 3, vj +: 3]
          writes B[vi + 1, vj + 1]
          B[vi + 1, vj + 1] = A[vi, vj + 1] + A[vi + 1, vj] - A[vi + 2, vj + 1] + A[vi + 1, vj + 2]
    for i in 38:
      for j in 48:
        block A(vt: scan[5] = t, vi: spatial[38] = i, vj: spatial[48] = j):
          reads B[vi + 1, vj + 1], X[vi +: 3, vj + 1]
          writes A[vi + 1, vj + 1]
          A[vi + 1, vj + 1] = B[vi + 1, vj + 1] + X[vi, vj + 1] - X[vi + 2, vj + 1]
)",
               "  alloc B: f32[40, 50]\n");

// isl takes seconds to scan fronts of the one of two dimensions.
const std::string kJacobiOfRows = R"(func jacobi(X: f32[70], A: f32[70] output):
  alloc B: f32[70]
  for a in 70:
    block copy(va: spatial[70] = a):
      reads X[va]
      writes A[va]
      A[va] = X[va]
  for t in 9:
    for i in 68:
      block B(vt: scan[9] = t, vi: spatial[68] = i):
        reads A[vi +: 3]
        writes B[vi + 1]
        B[vi + 1] = A[vi] - A[vi + 1] + A[vi + 2]
    for i in 68:
      block A(vt: scan[9] = t, vi: spatial[68] = i):
        reads B[vi + 1]
        writes A[vi + 1]
        A[vi + 1] = B[vi + 1]
)";

// Rows that are read by two blocks.
const std::string kRows = R"(func rows(X: f32[60, 70], Y: f32[60, 70] output):
  alloc S: f32[60]
  for i in 60:
    for j in 70:
      block S(vi: spatial[60] = i, vj: reduce[70] = j):
        reads X[vi, vj]
        writes S[vi]
        init:
          S[vi] = 0.0
        S[vi] = S[vi] + X[vi, vj]
    for j in 70:
      block Y(vi: spatial[60] = i, vj: spatial[70] = j):
        reads X[vi, vj], S[vi]
        writes Y[vi, vj]
        Y[vi, vj] = X[vi, vj] - S[vi]
)";

std::shared_ptr<const Target> opencl() { return std::make_shared<const Target>(*parse_target("opencl")); }

class Mapped : public ::testing::TestWithParam<std::string> {};

TEST_P(Mapped, ProgramsOfTheSpaceAreTheSameOnADevice) {
  const Func workload = schedule_from(GetParam()).original;
  const auto space = make_polyhedral_space();
  size_t made = 0;
  std::set<std::string> programs;
  for (uint64_t seed = 0; seed < 8; ++seed) {
    const auto s = space->generate(workload, opencl(), 1, seed, nullptr);
    if (!s) continue;
    ++made;
    EXPECT_OK(verify(s->func(), *opencl()));
    if (!programs.insert(to_text(s->func())).second) continue;
    EXPECT_TRUE(same_on_devices(workload, s->func())) << to_text(s->func());
  }
  EXPECT_GT(made, 4u);
  EXPECT_GT(programs.size(), 3u);
}

INSTANTIATE_TEST_SUITE_P(Programs, Mapped, ::testing::Values(kProduct, kTriangle, kJacobiOfRows, kRows));

// With what is asked for in place of what would be preferred.
Schedule mapped(const std::string& text, PreferringDecider::Instead instead) {
  Schedule s = schedule_from(text);
  s.set_target(opencl());
  PreferringDecider decider(std::move(instead));
  EXPECT_OK(map_to_device(s, *opencl(), decider));
  return s;
}

bool says(const Schedule& s, const std::string& text) { return to_text(s.func()).find(text) != std::string::npos; }

TEST(DeviceMapping, APromotedProductUpdatesItsOwnAndReadsSharedMemory) {
  const Schedule s = mapped(kProduct, {.values = {{"threads_x", 32}, {"threads_y", 4}, {"turns_y", 2}}});
  EXPECT_TRUE(says(s, "A_shared[")) << to_text(s.func());
  EXPECT_TRUE(says(s, "B_shared[")) << to_text(s.func());
  EXPECT_TRUE(says(s, "C_local[")) << to_text(s.func());
  EXPECT_TRUE(same_on_devices(schedule_from(kProduct).original, s.func()));
  const Schedule plain = mapped(kProduct, {.ranks = {{"shared_memory", 1}, {"private_memory", 1}}});
  EXPECT_FALSE(says(plain, "_shared[")) << to_text(plain.func());
  EXPECT_FALSE(says(plain, "_local[")) << to_text(plain.func());
}

TEST(DeviceMapping, BothLoopsOfATriangleAreDealtOut) {
  const Schedule s = mapped(kTriangle, {.values = {{"threads_y", 2}}});
  EXPECT_TRUE(says(s, "threadIdx.y")) << to_text(s.func());
  EXPECT_TRUE(same_on_devices(schedule_from(kTriangle).original, s.func()));
}

TEST(DeviceMapping, TheHostKeepsLoopsInOrder) {
  const Schedule s = mapped(kJacobi, {});
  const auto program = lower_for_device(s.func(), *opencl());
  ASSERT_OK(program);
  EXPECT_EQ(program->kernels.size(), 3u);
  EXPECT_TRUE(says(s, "A_shared[")) << to_text(s.func());
}

TEST(DeviceMapping, InnerLoopsOfSeveralBlocksMayBeTheThreads) {
  const Schedule s = mapped(kRows, {.ranks = {{"threads_of", 1}}});
  const auto program = lower_for_device(s.func(), *opencl());
  ASSERT_OK(program);
  ASSERT_EQ(program->kernels.size(), 1u);
  EXPECT_EQ(*as_int(program->kernels.begin()->second.grid[0]), 60);
  EXPECT_TRUE(same_on_devices(schedule_from(kRows).original, s.func()));
}

}  // namespace
}  // namespace fettle
