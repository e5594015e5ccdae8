#include <cmath>

#include "base/random.h"
#include "ir/annotations.h"
#include "schedule/primitives/reformulate.h"
#include "schedule/reformulation.h"
#include "schedule/test_programs.h"
#include "schedule/testing.h"

namespace fettle {
namespace {

using testing::schedule_from;

constexpr const char* kConv =
    "for o in 3: for h in 6: for w in 5: for c in 2: for r in 3: for q in 3:"
    " C[o, h, w] += A[c, h + r, w + q] * F[o, c, r, q]";

// Every parameter with values in [-1, 1], the same in all programs; the outputs in double precision where `Type` is
// double.
template <class Type>
std::vector<double> run(const Func& func) {
  std::vector<std::vector<Type>> data;
  std::vector<BufferArg> args;
  std::vector<Type>* output = nullptr;
  data.reserve(func->params.size());
  for (size_t p = 0; p < func->params.size(); ++p) {
    int64_t elements = 1;
    for (const Expr& extent : func->params[p].buffer->shape) elements *= *as_int(extent);
    auto& values = data.emplace_back(static_cast<size_t>(elements));
    RandomStream stream{11, p};
    for (Type& x : values) x = static_cast<float>(stream.below(2001)) / 1000.0f - 1.0f;
    if (func->params[p].kind == ParamKind::kOutput) output = &values;
    args.push_back({values.data(), elements * static_cast<int64_t>(sizeof(Type))});
  }
  const auto done = interpret(func, args);
  EXPECT_TRUE(done) << (done ? "" : done.error().to_string());
  return {output->begin(), output->end()};
}

double largest_difference(const std::vector<double>& a, const std::vector<double>& b) {
  double largest = 0;
  for (size_t i = 0; i < a.size(); ++i) largest = std::max(largest, std::abs(a[i] - b[i]));
  return largest;
}

double bound_of(const Func& func) { return std::get<double>(*func->annotations.find(kErrorBoundKey)); }

constexpr double kEpsilon = 1.1920929e-7;

// The values are at most 1, so that the sum of |terms| at their largest is the number of terms.
void expect_within_bound(const std::string& text, int64_t m, double terms) {
  auto s = schedule_from(text);
  auto blocks = reformulate(s, {s.block("C"), "winograd", {m}});
  ASSERT_OK(blocks);
  EXPECT_EQ(blocks->size(), 6u);
  ASSERT_OK(check_well_formed(s.func()));
  const std::vector<double> expected = run<float>(s.original), computed = run<float>(s.func());
  const double error = largest_difference(expected, computed);
  EXPECT_LE(error, bound_of(s.func()) * kEpsilon * terms);
  EXPECT_LE(error, 2e-5 * terms) << "far beyond what rounding does";
  EXPECT_REPLAYS(s);
}

TEST(Winograd, TilesOfTwo) {
  auto s = schedule_from(kConv);
  ASSERT_OK(reformulate(s, {s.block("C"), "winograd", {2}}));
  EXPECT_GOLDEN(s.func());
  expect_within_bound(kConv, 2, 18);
}

TEST(Winograd, TilesOfFourAndSix) {
  expect_within_bound(kConv, 3, 18);
  expect_within_bound(kConv, 4, 18);
  expect_within_bound(kConv, 6, 18);
}

// Rules obey the annotations, and need not know where the blocks come from.
TEST(Winograd, BlocksAreNotedByTheirRoles) {
  auto s = schedule_from(kConv);
  const auto blocks = reformulate(s, {s.block("C"), "winograd", {2}});
  ASSERT_OK(blocks);
  const std::string_view roles[] = {kWeightsRole, kDataRole, kDataRole, kProductRole, kOutputsRole, ""};
  for (size_t i = 0; i < blocks->size(); ++i) {
    const Stmt stmt = s.Schedule::block(blocks->at(i)).value();
    const auto& block = *stmt.as<BlockNode>();
    EXPECT_EQ(role_of(block), roles[i]);
    EXPECT_EQ(part_of(block), roles[i].empty() ? "" : "C");
    const Attribute* tiles = block.annotations.find(kTilesKey);
    ASSERT_EQ(tiles != nullptr, roles[i] == kOutputsRole);
    if (tiles) {
      EXPECT_EQ(*tiles, Attribute(std::vector<int64_t>{1, 2, 2}));
    }
  }
}

// In f64 what is left is rounding of f64: the algorithm is right, not just nearly so.
TEST(Winograd, IsAConvolution) {
  const std::string f32 = to_text(schedule_from(kConv).func());
  const std::string text = testing::replaced(testing::replaced(f32, "f32", "f64"), "= 0.0\n", "= 0.0f64\n");
  for (const int64_t m : {2, 3, 4, 5, 6}) {
    auto s = schedule_from(text);
    ASSERT_OK(reformulate(s, {s.block("C"), "winograd", {m}}));
    EXPECT_LE(largest_difference(run<double>(s.original), run<double>(s.func())), 1e-12) << m;
  }
}

TEST(Winograd, ChannelsLastAndBatch) {
  expect_within_bound(
      "for n in 2: for h in 7: for w in 4: for o in 3: for r in 3: for q in 3: for c in 2:"
      " C[n, h, w, o] += A[n, h + r, w + q, c] * F[r, q, c, o]",
      4, 18);
}

TEST(Winograd, WeightsFirstAndOtherTaps) {
  expect_within_bound(
      "for o in 3: for h in 6: for w in 5: for c in 2: for r in 5: for q in 5:"
      " C[o, h, w] += F[o, c, r, q] * A[c, h + r, w + q]",
      2, 50);
  expect_within_bound(
      "for o in 3: for h in 6: for w in 5: for c in 2: for r in 2: for q in 2:"
      " C[o, h, w] += F[o, c, r, q] * A[c, h + r, w + q]",
      4, 8);
}

TEST(Winograd, PaddingInsideTheTerm) {
  expect_within_bound(
      "for o in 3: for h in 6: for w in 6: for c in 2: for r in 3: for q in 3:"
      " C[o, h, w] += select(h + r >= 1 && h + r < 7 && w + q >= 1 && w + q < 7,"
      " A[c, h + r - 1, w + q - 1], 0.0) * F[o, c, r, q]",
      4, 18);
}

TEST(Winograd, LargerTilesHaveLargerBounds) {
  double before = 0;
  for (const int64_t m : {2, 4, 6}) {
    auto s = schedule_from(kConv);
    ASSERT_OK(reformulate(s, {s.block("C"), "winograd", {m}}));
    EXPECT_EQ(std::get<std::string>(*s.func()->annotations.find(kNumericsKey)), "approximate");
    EXPECT_GT(bound_of(s.func()), before);
    before = bound_of(s.func());
  }
}

TEST(Winograd, E228WhereThePatternDoesNotFit) {
  const auto refuses = [](const std::string& text, const std::vector<IntRef>& numbers = {2}, const char* why = "") {
    auto s = schedule_from(text);
    const auto done = reformulate(s, {s.block("C"), "winograd", numbers});
    if (done || done.error().code != ErrorCode::E228) return false;
    return done.error().message.find(why) != std::string::npos;
  };
  EXPECT_TRUE(refuses(kConv, {}));
  EXPECT_TRUE(refuses(kConv, {1}));
  EXPECT_TRUE(refuses(kConv, {9}, "interpolation points"));
  EXPECT_TRUE(
      refuses("for c in 3: for h in 6: for w in 5: for r in 3: for q in 3:"
              " C[c, h, w] += A[c, h + r, w + q] * F[c, r, q]",
              {2}, "groups"));
  EXPECT_TRUE(
      refuses("for o in 3: for h in 6: for w in 5: for c in 2: for r in 3: for q in 3:"
              " C[o, h, w] += A[c, h * 2 + r, w * 2 + q] * F[o, c, r, q]",
              {2}, "slide"));
  EXPECT_TRUE(
      refuses("for o in 3: for h in 6: for w in 5: for c in 2: for r in 3: for q in 3:"
              " C[o, h, w] += A[c, h + r * 2, w + q * 2] * F[o, c, r, q]",
              {2}, "slide"));
  EXPECT_TRUE(
      refuses("for o in 3: for h in 6: for w in 5: for c in 2: for r in 3: for q in 1:"
              " C[o, h, w] += A[c, h + r, w + q] * F[o, c, r, q]"));
  EXPECT_TRUE(refuses("for i in 3: for j in 6: for k in 5: C[i, j] += A[i, k] * B[k, j]", {2}, "slide"));
  EXPECT_TRUE(refuses("for i in 3: C[i] = A[i]"));
}

}  // namespace
}  // namespace fettle
