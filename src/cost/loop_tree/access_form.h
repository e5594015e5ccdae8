#pragma once
// The address of an access as a linear form: what one iteration of each loop around moves it by, without expressions.

#include <array>
#include <cstdint>
#include <vector>

#include "arith/int_eval.h"
#include "ir/expr.h"

namespace fettle {

/// A loop that will be unrolled: its body stands for `extent` copies of itself.
struct UnrolledLoop {
  const VarNode* var = nullptr;
  int64_t min = 0, extent = 1;
};

/// The loop that will become lanes; null: none.
struct LaneLoop {
  const VarNode* var = nullptr;
  int lanes = 1;
};

/// Where an expression stands. In `env`: serial loops in the middle of their ranges, unrolled ones and lanes at their
/// first value.
struct LoopContext {
  const std::vector<std::pair<const VarNode*, double>>* loops = nullptr;  // outermost first, and how often each runs
  const std::vector<UnrolledLoop>* unrolled = nullptr;
  const LaneLoop* lane = nullptr;
  IntEnv* env = nullptr;
};

struct AccessForm {
  static constexpr size_t kMost = 40;
  int64_t value = 0;                  // in env
  std::array<int64_t, kMost> steps;   // one a loop; 0 for those that run once
  std::array<int64_t, kMost> copies;  // one an unrolled loop
  int64_t lane = 0;                   // from one lane to the next
  bool uses_lane = false;             // at all
  bool lanes_are_linear = true;       // they lie `lane` apart
  bool copies_are_linear = true;      // else each copy is to be looked at
};

/// Of the sum that `e` is. There are at most kMost loops of each kind.
AccessForm access_form(const Expr& e, const LoopContext& context);

}  // namespace fettle
