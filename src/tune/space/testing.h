#pragma once
// Checks the points of a space: their results as scheduled and as lowered, by the interpreter.

#include <gtest/gtest.h>

#include "analysis/verify.h"
#include "lower/lower.h"
#include "schedule/testing.h"
#include "tune/space/space.h"

namespace fettle::testing {

inline std::shared_ptr<const Target> avx512() {
  static const auto target = std::make_shared<const Target>(parse_target("x86-64-avx512").value());
  return target;
}

using Buffers = std::vector<std::vector<float>>;

inline int64_t elements(const BufferNode& buffer) {
  int64_t count = 1;
  for (const Expr& extent : buffer.shape) count *= *as_int(extent);
  return count;
}

// The logical values of the parameters, row-major, small integers.
inline Buffers inputs_of(const Func& func) {
  Buffers buffers;
  uint64_t state = 12345;
  for (const Param& param : func->params) {
    auto& values = buffers.emplace_back(static_cast<size_t>(elements(*param.buffer)));
    for (float& x : values) {
      state = state * 6364136223846793005u + 1442695040888963407u;
      x = param.kind == ParamKind::kOutput ? -99.0f : static_cast<float>(static_cast<int>((state >> 33) % 7) - 3);
    }
  }
  return buffers;
}

// Moves values between the logical order and that of a parameter whose layout was changed.
inline void relayout(const BufferNode& physical, std::vector<float>& logical_values,
                     std::vector<float>& physical_values, bool to_physical) {
  if (!physical.layout) {
    (to_physical ? physical_values : logical_values) = to_physical ? logical_values : physical_values;
    return;
  }
  std::vector<int64_t> extents;
  for (const Expr& e : physical.layout->logical_shape) extents.push_back(*as_int(e));
  if (to_physical) physical_values.assign(static_cast<size_t>(elements(physical)), 0.0f);
  std::vector<int64_t> at(extents.size(), 0);
  for (size_t flat = 0; flat < logical_values.size(); ++flat) {
    size_t rest = flat;
    VarMap values;
    for (size_t d = extents.size(); d-- > 0;) {
      at[d] = static_cast<int64_t>(rest) % extents[d];
      rest /= static_cast<size_t>(extents[d]);
      values[physical.layout->to_physical.inputs[d].get()] = int_imm(at[d]);
    }
    int64_t index = 0;
    for (size_t d = 0; d < physical.shape.size(); ++d)
      index = index * *as_int(physical.shape[d]) +
              *as_int(simplify(substitute(physical.layout->to_physical.outputs[d], values)));
    float& p = physical_values[static_cast<size_t>(index)];
    float& l = logical_values[flat];
    (to_physical ? p : l) = to_physical ? l : p;
  }
}

inline std::vector<BufferArg> views(Buffers& buffers) {
  std::vector<BufferArg> list;
  for (auto& values : buffers) list.push_back({values.data(), static_cast<int64_t>(values.size() * sizeof(float))});
  return list;
}

// Outputs (logical) of the program as written.
inline Buffers expected_of(const Func& func) {
  Buffers buffers = inputs_of(func);
  auto args = views(buffers);
  EXPECT_OK(interpret(func, args));
  return buffers;
}

inline void expect_close(const Buffers& actual, const Buffers& expected, const Func& original,
                         const std::string& what) {
  for (size_t p = 0; p < expected.size(); ++p) {
    if (original->params[p].kind != ParamKind::kOutput) continue;
    float scale = 1;
    for (float x : expected[p]) scale = std::max(scale, std::abs(x));
    for (size_t i = 0; i < expected[p].size(); ++i)
      ASSERT_NEAR(actual[p][i], expected[p][i], 1e-5f * scale) << what << " element " << i;
  }
}

// Scheduled, and lowered with its prologue.
inline void expect_same(const Func& original, const Schedule& schedule) {
  const std::string trace = to_text(schedule.trace());
  const auto verified = verify(schedule.func(), *avx512());
  ASSERT_TRUE(verified) << error_text(verified.error()) << trace;
  const Buffers expected = expected_of(original);

  Buffers logical = inputs_of(original), physical(logical.size());
  for (size_t p = 0; p < logical.size(); ++p)
    relayout(*schedule.func()->params[p].buffer, logical[p], physical[p], true);
  Buffers scheduled = physical;
  auto args = views(scheduled);
  const auto done = interpret(schedule.func(), args);
  ASSERT_TRUE(done) << error_text(done.error()) << trace << to_text(schedule.func());
  Buffers result = logical;
  for (size_t p = 0; p < logical.size(); ++p)
    relayout(*schedule.func()->params[p].buffer, result[p], scheduled[p], false);
  expect_close(result, expected, original, "scheduled\n" + trace + to_text(schedule.func()));
  if (::testing::Test::HasFatalFailure()) return;

  const auto lowered = lower(schedule.func(), *avx512());
  ASSERT_TRUE(lowered) << error_text(lowered.error()) << trace << to_text(schedule.func());
  Buffers run = physical;
  for (size_t p = physical.size(); p < lowered->kernel_params.size(); ++p)
    run.emplace_back(static_cast<size_t>(elements(*lowered->kernel_params[p].buffer)), -55.0f);
  if (!lowered->prologue.entry.empty()) {
    std::vector<BufferArg> prologue_args;
    for (const Param& param : lowered->prologue_params)
      for (size_t p = 0; p < lowered->kernel_params.size(); ++p)
        if (lowered->kernel_params[p].buffer == param.buffer)
          prologue_args.push_back({run[p].data(), static_cast<int64_t>(run[p].size() * sizeof(float))});
    ASSERT_EQ(prologue_args.size(), lowered->prologue_params.size());
    ASSERT_OK(interpret(lowered->prologue, prologue_args));
  }
  auto kernel_args = views(run);
  const auto ran = interpret(lowered->kernel, kernel_args);
  ASSERT_TRUE(ran) << error_text(ran.error()) << trace << to_text(lowered->kernel);
  for (size_t p = 0; p < logical.size(); ++p) relayout(*schedule.func()->params[p].buffer, result[p], run[p], false);
  expect_close(result, expected, original, "lowered\n" + trace + to_text(schedule.func()));
}

inline std::string choices(const Schedule& schedule) {
  std::string text;
  for (const auto& [address, decision] : schedule.decisions()) text += address + ": " + to_text(decision) + "\n";
  return text;
}

// Of the default that computes as written.
inline Decision decision_of(const Func& func, int threads, const std::string& name, const auto& target) {
  const auto s = default_schedule(func, target, threads, nullptr, 0);
  EXPECT_TRUE(s.has_value());
  for (const auto& step : s->trace().steps)
    if (step->address.ends_with("/" + name)) return step->decision;
  return {};
}

inline int64_t decided(const Func& func, int threads, const std::string& name, const auto& target) {
  return decision_of(func, threads, name, target).integer().value_or(-1);
}

inline int64_t decided(const Func& func, int threads, const std::string& name) {
  return decided(func, threads, name, avx512());
}

}  // namespace fettle::testing
