#pragma once
// Helpers for tests of schedules; included by tests only.
//
//   TEST(Split, InfersAndGuards) {
//     auto s = schedule_from("for i in 100: B[i] = A[i]");
//     ASSERT_OK(split(s, {s.loop("i"), {kInfer, 32}, Tail::kGuard}));
//     EXPECT_GOLDEN(s.func());      // tests/golden/Split.InfersAndGuards.txt; FETTLE_UPDATE_GOLDEN=1 writes it
//     EXPECT_REPLAYS(s);            // JSON and text → replay → the same program and trace
//     EXPECT_SAME_RESULT(s);        // interpreter: before == after, on small integers
//   }

#include <gtest/gtest.h>

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "arith/int_eval.h"
#include "base/random.h"
#include "ir/compare.h"
#include "ir/interpret.h"
#include "ir/text.h"
#include "ir/visit.h"
#include "schedule/edit/edit.h"
#include "schedule/primitives/get_block.h"
#include "schedule/primitives/get_loops.h"
#include "schedule/schedule.h"

namespace fettle::testing {

std::string error_text(const Diagnostic& diagnostic);

template <class T>
::testing::AssertionResult is_ok(const Result<T>& result) {
  if (result) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure() << error_text(result.error());
}

template <class T>
::testing::AssertionResult fails_with(const Result<T>& result, ErrorCode code) {
  if (result) return ::testing::AssertionFailure() << "it succeeded";
  if (result.error().code == code) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure() << error_text(result.error());
}

/// A schedule that remembers where it began, and whose loops and blocks are found by name.
struct TestSchedule : Schedule {
  Func original;

  explicit TestSchedule(const Func& func, uint64_t seed = 0);

  using Schedule::block;
  using Schedule::loop;
  /// get_block; the test ends where there is none.
  BlockRef block(const std::string& name);
  /// get_block and get_loops of the first block beneath the loop of that name.
  LoopRef loop(const std::string& name);
  /// get_loops; the test ends where there is no such block.
  std::vector<LoopRef> loops(BlockRef block);
};

/// From "func …" as it is, from bare loops as parse_loops infers.
TestSchedule schedule_from(const std::string& text, uint64_t seed = 0);

// --- goldens ------------------------------------------------------------------------------------------------------

inline std::string golden_text(const std::string& x) { return x; }
template <class T>
std::string golden_text(const T& x) {
  return to_text(x);
}

/// Compares with tests/golden/SUITE.TEST.txt (SUITE.TEST.2.txt for a test's second, and so on).
::testing::AssertionResult matches_golden(const std::string& text);

// --- replay -------------------------------------------------------------------------------------------------------

::testing::AssertionResult replays(const TestSchedule& s);

// --- results ------------------------------------------------------------------------------------------------------

using Env = IntEnv;

/// The value of an integer expression, which must have one.
int64_t eval_int(const Expr& e, const Env& env);

/// A parameter's memory, addressed by logical indices through its layout.
class TestTensor {
 public:
  TestTensor(const Buffer& buffer, Env env);

  std::vector<int64_t> logical_shape() const;
  /// Where the element at these logical indices lies.
  char* at(const std::vector<int64_t>& logical);
  void set(const std::vector<int64_t>& logical, int64_t value);
  /// Of an integer of at most 11 bits.
  static uint16_t half_of(int64_t value);
  void fill(unsigned char byte);
  BufferArg arg() { return {bytes_.data(), static_cast<int64_t>(bytes_.size())}; }
  int element_bytes() const { return buffer_->dtype.element_bytes(); }

 private:
  Buffer buffer_;
  Env env_;
  std::vector<char> bytes_;
};

/// Calls `fn` with every index tuple of the shape.
template <class Fn>
void for_each_index(const std::vector<int64_t>& shape, const Fn& fn) {
  for (int64_t extent : shape)
    if (extent <= 0) return;
  std::vector<int64_t> index(shape.size(), 0);
  for (;;) {
    fn(index);
    size_t d = shape.size();
    while (d > 0 && ++index[d - 1] == shape[d - 1]) index[--d] = 0;
    if (d == 0) return;
  }
}

using RunFn = std::function<Result<>(std::span<const BufferArg>, std::span<const int64_t> ints)>;

/// Runs both functions (parameters pairwise of one logical shape) on the same small integers, where reassociation is
/// exact, and compares the outputs bit by bit. `ints` are the values of the integer parameters; by default small ones.
/// The interpreter runs the first, and the second, too, unless `run_after` does.
::testing::AssertionResult same_result(const Func& before, const Func& after, std::vector<int64_t> ints = {},
                                       const RunFn& run_after = nullptr);

}  // namespace fettle::testing

#define ASSERT_OK(expression) ASSERT_TRUE(::fettle::testing::is_ok((expression)))
#define EXPECT_OK(expression) EXPECT_TRUE(::fettle::testing::is_ok((expression)))
/// EXPECT_ERROR(split(…), E204)
#define EXPECT_ERROR(expression, code) \
  EXPECT_TRUE(::fettle::testing::fails_with((expression), ::fettle::ErrorCode::code))
#define EXPECT_GOLDEN(x) EXPECT_TRUE(::fettle::testing::matches_golden(::fettle::testing::golden_text(x)))
#define EXPECT_REPLAYS(schedule) EXPECT_TRUE(::fettle::testing::replays(schedule))
#define EXPECT_SAME_RESULT(schedule) EXPECT_TRUE(::fettle::testing::same_result((schedule).original, (schedule).func()))
