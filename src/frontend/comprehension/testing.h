#pragma once
// For tests of comprehensions: functions run with fixed and with open sizes.

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "base/random.h"
#include "frontend/comprehension/import.h"
#include "graph/evaluate.h"
#include "graph/passes/passes.h"
#include "graph/passes/pipeline.h"
#include "graph/plan/testing.h"

namespace fettle {

/// Numbers, row by row.
struct Table {
  std::vector<int64_t> shape;
  std::vector<double> data;
  DType dtype = kF32;

  explicit Table(std::vector<int64_t> of_shape = {}, DType of = kF32) : shape(std::move(of_shape)), dtype(of) {
    int64_t count = 1;
    for (const int64_t extent : shape) count *= extent;
    data.assign(static_cast<size_t>(count), 0);
  }
  template <class... Index>
  double& operator()(Index... index) {
    return data[place({static_cast<int64_t>(index)...})];
  }
  size_t place(const std::vector<int64_t>& at) const {
    EXPECT_EQ(at.size(), shape.size());
    int64_t flat = 0;
    for (size_t d = 0; d < at.size(); ++d) {
      EXPECT_TRUE(at[d] >= 0 && at[d] < shape[d]) << "dim " << d << ": " << at[d] << " of " << shape[d];
      flat = flat * shape[d] + at[d];
    }
    return static_cast<size_t>(flat);
  }
};
using Tables = std::map<std::string, Table>;

/// Small whole numbers, the same each time: sums of them are exact.
inline Table some(std::vector<int64_t> shape, DType dtype = kF32, int64_t least = -4, int64_t most = 4) {
  Table table(std::move(shape), dtype);
  uint64_t seed = static_cast<uint64_t>(least + 7 * most) + 17;
  for (const int64_t extent : table.shape) seed = seed * 31 + static_cast<uint64_t>(extent);
  RandomStream random{seed};
  if (dtype.code == TypeCode::kUInt) least = 0;
  for (double& x : table.data)
    x = static_cast<double>(least + static_cast<int64_t>(random.below(static_cast<uint64_t>(most - least + 1))));
  return table;
}

/// What the function makes of these tables, by a plan after all passes. open: of a plan that holds for all sizes.
/// nothing where it is refused: `problem` then says why.
inline Tables run_comprehension(std::string_view text, const Tables& inputs, bool open, std::string* problem,
                                std::string_view function = {}) {
  Result<Graph> graph = import_comprehension(text, function);
  if (!graph) return *problem = graph.error().to_string(), Tables{};
  std::map<std::string, std::vector<int64_t>> shapes;
  std::map<std::string, ConstantTensor> given;
  for (const auto& [name, table] : inputs) {
    shapes.emplace(name, table.shape);
    given.emplace(name, to_tensor(table.data, table.dtype, table.shape).value());
  }
  if (!open)
    if (const auto bound = bind_shapes(*graph, shapes); !bound) return *problem = bound.error().to_string(), Tables{};
  const auto plan = optimised_plan(*graph);
  if (!plan) return *problem = plan.error().to_string(), Tables{};
  PlanRunner runner(*graph, *plan, given);
  if (const auto broken = runner.broken_rule()) return *problem = *broken, Tables{};
  Tables results;
  for (const auto& [name, tensor] : runner.run()) {
    Table& table = results.emplace(name, Table(tensor.shape, tensor.dtype)).first->second;
    for (size_t i = 0; i < table.data.size(); ++i) table.data[i] = tensor.at(static_cast<int64_t>(i));
  }
  return results;
}

/// The function makes `wanted` of `inputs`, with fixed and with open sizes.
inline void expect_makes(std::string_view text, const Tables& inputs, const Tables& wanted, double tolerance = 0,
                         std::string_view function = {}) {
  for (const bool open : {false, true}) {
    SCOPED_TRACE(open ? "open sizes" : "fixed sizes");
    std::string problem;
    const Tables made = run_comprehension(text, inputs, open, &problem, function);
    ASSERT_EQ(problem, "");
    ASSERT_EQ(made.size(), wanted.size());
    for (const auto& [name, want] : wanted) {
      ASSERT_TRUE(made.contains(name)) << name;
      const Table& got = made.at(name);
      EXPECT_EQ(got.dtype, want.dtype) << name;
      ASSERT_EQ(got.shape, want.shape) << name;
      for (size_t i = 0; i < want.data.size(); ++i) {
        const double x = got.data[i], y = want.data[i];
        if ((std::isnan(x) && std::isnan(y)) || x == y) continue;
        ASSERT_NEAR(x, y, tolerance * std::max(1.0, std::abs(y))) << name << " element " << i;
      }
    }
  }
}

}  // namespace fettle
