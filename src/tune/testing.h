#pragma once
// A small space whose best point is known, and a runner that knows every program's time: for tests only.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "base/check.h"
#include "ir/text.h"
#include "ir/visit.h"
#include "measure/runner.h"
#include "schedule/primitives.h"
#include "tune/search/workbench.h"

namespace fettle::testing {

inline Func toy_workload(int64_t n = 96) {
  const std::string size = std::to_string(n);
  auto func = parse_func("func copy(A: f32[" + size + ", 96], B: f32[" + size + ", 96] output):\n  for i in " + size +
                         ":\n    for j in 96:\n      block B(vi: spatial[" + size +
                         "] = i, vj: spatial[96] = j):\n        reads A[vi, vj]\n        writes B[vi, vj]\n"
                         "        B[vi, vj] = A[vi, vj]\n");
  FETTLE_CHECK_MSG(func.has_value(), func ? "" : func.error().to_string());
  return *func;
}

inline const std::vector<int64_t>& toy_tiles() {
  static const std::vector<int64_t> tiles = {1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48};
  return tiles;
}
/// Distinct programs of the toy space: two tiles, unrolled or not; a fourth decision changes nothing.
inline size_t toy_programs() { return toy_tiles().size() * toy_tiles().size() * 2; }

/// Those of the workload, whose target is this.
inline Result<std::vector<LoopRef>> toy_loops(Schedule& s, std::shared_ptr<const Target> target) {
  s.set_target(std::move(target));
  FETTLE_TRY(const BlockRef block, get_block(s, {.name = "B"}));
  return get_loops(s, {.block = block});
}

class ToySpace : public Space {
 public:
  std::string name() const override { return "toy"; }
  Result<Schedule> generate(const Func& workload, std::shared_ptr<const Target> target, int, DecisionSource source,
                            std::shared_ptr<const DecisionMap> decisions) const override {
    Schedule s(workload, source, std::move(decisions));
    FETTLE_TRY(const std::vector<LoopRef> loops, toy_loops(s, std::move(target)));
    const auto choose = [&](const char* rule, const char* name, const std::vector<int64_t>& candidates) {
      s.set_address_prefix(rule);
      std::vector<double> weights(candidates.size(), 1.0);
      return sample_categorical(s, {.candidates = candidates, .probabilities = weights, .name = name});
    };
    FETTLE_TRY(const ValueRef rows, choose("tile/B", "i", toy_tiles()));
    FETTLE_TRY(const ValueRef columns, choose("tile/B", "j", toy_tiles()));
    FETTLE_TRY(const ValueRef unrolled, choose("unroll/B", "unroll", {0, 1}));
    FETTLE_TRY_VOID(choose("unroll/B", "nothing", {0, 1}));
    FETTLE_TRY_VOID(split(s, {.loop = loops[0], .factors = {kInfer, IntRef(rows)}, .tail = Tail::kGuard}));
    FETTLE_TRY(const auto inner,
               split(s, {.loop = loops[1], .factors = {kInfer, IntRef(columns)}, .tail = Tail::kGuard}));
    FETTLE_TRY(const int64_t on, s.value(IntRef(unrolled)));
    if (on != 0) FETTLE_TRY_VOID(unroll(s, {inner[1]}));
    return s;
  }
};

struct ToyShape {
  double rows = 1, columns = 1;
  bool unrolled = false;
  bool toy = false;  // it comes from the toy space
};

inline ToyShape toy_shape(const Func& func) {
  std::vector<double> extents;
  ToyShape shape;
  walk(func->body, [&](const Stmt& s) {
    if (const auto* loop = s.as<ForNode>()) {
      extents.push_back(static_cast<double>(*as_int(loop->extent)));
      shape.unrolled = shape.unrolled || loop->loop_kind == ForKind::kUnrolled;
    }
    return true;
  });
  if (extents.size() != 4) return shape;
  shape.rows = extents[1];
  shape.columns = extents[3];
  shape.toy = true;
  return shape;
}

/// The time of a program: best at 8 x 16, unrolled (1 ms).
inline double toy_seconds(const Func& func) {
  const ToyShape shape = toy_shape(func);
  if (!shape.toy) return 1.5e-3;
  return 1e-3 * (1 + 0.1 * std::pow(std::log2(shape.rows / 8), 2) + 0.2 * std::pow(std::log2(shape.columns / 16), 2) +
                 (shape.unrolled ? 0 : 0.04));
}

/// A prediction that is right but for a factor of two in the best tiles, and does not see unrolling.
inline DescribeFn toy_describe() {
  return [](const Schedule& schedule) -> Result<Description> {
    const Func& func = schedule.func();
    const ToyShape shape = toy_shape(func);
    Description description;
    description.features.values = {static_cast<float>(shape.rows), static_cast<float>(shape.columns)};
    description.features.predicted_seconds =
        1e-3 * (1 + 0.1 * std::pow(std::log2(shape.rows / 16), 2) + 0.2 * std::pow(std::log2(shape.columns / 32), 2));
    description.timed = func;
    return description;
  };
}

/// No learning; counts what it was given.
class CountingModel : public CostModel {
 public:
  std::string name() const override { return "counting"; }
  Result<> update(std::span<const CandidateFeatures> candidates, std::span<const double> seconds) override {
    EXPECT_EQ(candidates.size(), seconds.size());
    ++updates;
    rows += candidates.size();
    return {};
  }
  std::vector<double> predict(std::span<const CandidateFeatures> candidates) override {
    std::vector<double> seconds;
    for (const CandidateFeatures& c : candidates) seconds.push_back(c.predicted_seconds);
    return seconds;
  }
  Result<> save(const std::string&) const override { return {}; }
  Result<> load(const std::string&) override { return {}; }

  int updates = 0;
  size_t rows = 0;
};

/// Replays each trace and says what `outcome` says; by default, toy_seconds.
class FakeRunner : public Runner {
 public:
  /// Of the scheduled program; `times` tells how often this trace was measured before.
  std::function<MeasureResult(const Func& func, int times, const MeasureRequest& request)> outcome =
      [](const Func& func, int, const MeasureRequest&) { return timed(toy_seconds(func)); };
  /// Whether a workload is accepted.
  std::function<Result<>(const Func&)> accepts = [](const Func&) -> Result<> { return {}; };
  /// Whether a request is.
  std::function<Result<>(std::span<const std::string>, const MeasureRequest&)> takes =
      [](std::span<const std::string>, const MeasureRequest&) -> Result<> { return {}; };

  static MeasureResult timed(double seconds) {
    MeasureResult result;
    result.median_s = result.min_s = seconds;
    result.half_width = 0.01;
    result.repeats = 5;
    return result;
  }
  static MeasureResult failed(ErrorCode error) {
    MeasureResult result;
    result.error = error;
    result.message = "as the test wants";
    return result;
  }

  Result<> set_workload(const Func& workload, const WorkloadOptions& options) override {
    FETTLE_TRY_VOID(accepts(workload));
    EXPECT_FALSE(options.reference_trace.empty());
    workload_ = workload;
    return {};
  }
  Result<std::vector<MeasureResult>> measure(std::span<const std::string> traces,
                                             const MeasureRequest& request) override {
    FETTLE_TRY_VOID(takes(traces, request));
    // What a tracker insists on.
    EXPECT_GE(request.timing.min_samples, 0);
    EXPECT_GE(request.timing.max_samples, std::max(1, request.timing.min_samples));
    std::vector<MeasureResult> results;
    for (const std::string& trace : traces) {
      MeasureResult& result = results.emplace_back();
      if (request.should_stop && request.should_stop()) {
        result = failed(ErrorCode::E407);
      } else {
        Schedule schedule(workload_);
        const auto parsed = parse_trace(trace);
        EXPECT_TRUE(parsed && replay(schedule, *parsed)) << trace;
        result = outcome(schedule.func(), times_[trace]++, request);
        measured.push_back(trace);
        if (!result.ok()) ++failures_[result.error];
      }
      if (request.on_result) request.on_result(results.size() - 1, result);
    }
    return results;
  }
  const std::map<ErrorCode, int64_t>& failures() const override { return failures_; }

  std::vector<std::string> measured;  // every trace, as often as it was measured

 private:
  Func workload_;
  std::map<std::string, int> times_;
  std::map<ErrorCode, int64_t> failures_;
};

}  // namespace fettle::testing
