#pragma once
// For tests of general operators: nodes with bodies, each run with fixed and with open sizes, before and after passes.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/random.h"
#include "graph/evaluate.h"
#include "graph/op.h"
#include "graph/passes/passes.h"
#include "graph/passes/pipeline.h"
#include "graph/plan/testing.h"

namespace fettle {

using Ints = std::vector<int64_t>;
using Doubles = std::vector<double>;

/// An array of numbers, row by row, for references by definition.
struct Array {
  Ints shape;
  Doubles data;

  explicit Array(Ints of_shape, double value = 0) : shape(std::move(of_shape)) {
    int64_t count = 1;
    for (const int64_t extent : shape) count *= extent;
    data.assign(static_cast<size_t>(count), value);
  }
  size_t rank() const { return shape.size(); }
  int64_t count() const { return std::ssize(data); }
  double& operator()(const Ints& at) { return data[place(at)]; }
  double operator()(const Ints& at) const { return data[place(at)]; }
  bool has(const Ints& at) const {
    for (size_t d = 0; d < at.size(); ++d)
      if (at[d] < 0 || at[d] >= shape[d]) return false;
    return true;
  }
  size_t place(const Ints& at) const {
    int64_t flat = 0;
    for (size_t d = 0; d < at.size(); ++d) flat = flat * shape[d] + at[d];
    return static_cast<size_t>(flat);
  }
};

/// Calls `visit` with each index of a shape, in row-major order.
inline void for_each_index(const Ints& shape, const std::function<void(const Ints&)>& visit) {
  if (std::ranges::count(shape, 0) > 0) return;
  Ints at(shape.size(), 0);
  for (;;) {
    visit(at);
    size_t d = shape.size();
    while (d > 0 && ++at[d - 1] == shape[d - 1]) at[--d] = 0;
    if (d == 0) return;
  }
}

class GeneralOps : public testing::Test {
 protected:
  using Values = std::vector<Value*>;
  using Body = std::function<Values(Graph& body, const Values& elements)>;

  struct Input {
    Array array;
    DType dtype = kF32;
    bool is_constant = false;
  };
  struct Case {
    std::string op;
    std::vector<Input> inputs;
    Attrs attrs;
    std::vector<std::pair<size_t, Body>> bodies;  // how many elements each takes
    size_t n_outputs = 1;
    double tolerance = 0;
    std::vector<std::string> body_names = {"body"};
  };

  static Value* node(Graph& graph, std::string_view op, Values inputs, Attrs attrs = {}) {
    return graph.add_node(find_op(op), fmt::format("b{}", graph.nodes().size()), std::move(inputs), std::move(attrs))
        ->output();
  }
  static Body pairwise(const char* op) {
    return [op](Graph& body, const Values& e) { return Values{node(body, op, {e[0], e[1]})}; };
  }

  // Other numbers with --gtest_shuffle and a --gtest_random_seed.
  RandomStream random{static_cast<uint64_t>(11 + testing::UnitTest::GetInstance()->random_seed())};
  int64_t below(int64_t n) { return static_cast<int64_t>(random.below(static_cast<uint64_t>(n))); }
  bool coin() { return below(2) == 1; }
  Ints random_shape(size_t rank, int64_t most) {
    Ints shape;
    for (size_t d = 0; d < rank; ++d) shape.push_back(below(10) == 0 ? 0 : 1 + below(most));
    return shape;
  }
  /// Small whole numbers, so that sums are exact; truths of bools.
  Array random_array(Ints shape, DType dtype, int64_t least = -4, int64_t most = 4) {
    Array array(std::move(shape));
    if (dtype.is_bool()) least = 0, most = 1;
    if (dtype == kU8) least = 0;
    for (double& x : array.data) x = static_cast<double>(least + below(most - least + 1));
    return array;
  }

  /// The case gives these arrays: evaluated as it is, by a plan after all passes, and by a plan of open sizes.
  void check(const Case& c, const std::vector<Array>& want) {
    check_fixed(c, want);
    if (!HasFailure()) check_with(c, want, true);
  }
  /// The same without open sizes, which are never 1 where something broadcasts.
  void check_fixed(const Case& c, const std::vector<Array>& want) { check_with(c, want, false); }
  /// What the passes make of the case, with fixed sizes.
  Graph optimized(const Case& c) {
    Graph graph{"g"};
    build(graph, c, false);
    const auto done = optimize(graph);
    EXPECT_TRUE(done) << (done ? "" : done.error().to_string());
    return graph;
  }
  static bool has_op(const Graph& graph, std::string_view op) {
    return std::ranges::any_of(graph.nodes(), [&](const Node* made) { return made->op->name == op; });
  }
  /// The error that the case is refused with.
  Diagnostic refusal(const Case& c) {
    Graph graph{"g"};
    build(graph, c, false);
    auto done = optimize(graph);
    EXPECT_FALSE(done);
    return done ? Diagnostic{} : std::move(done.error());
  }

 private:
  void check_with(const Case& c, const std::vector<Array>& want, bool open) {
    SCOPED_TRACE(open ? "open sizes" : "fixed sizes");
    Graph graph{"g"};
    build(graph, c, open);
    const auto inputs = given(c);
    if (!open) {
      Graph typed = graph.clone();
      const auto inferred = passes::infer_shapes(typed, {});
      ASSERT_TRUE(inferred) << inferred.error().to_string();
      typed.sort();
      const auto got = evaluate(typed, inputs, interpreter_executor());
      ASSERT_TRUE(got) << got.error().to_string();
      compare(c, *got, want);
    }
    const auto plan = optimised_plan(graph);
    ASSERT_TRUE(plan) << plan.error().to_string();
    PlanRunner runner(graph, *plan, inputs);
    ASSERT_EQ(runner.broken_rule(), std::nullopt) << *runner.broken_rule();
    compare(c, runner.run(), want);
    if (HasFailure()) ADD_FAILURE() << to_text(graph);
  }

  static ConstantTensor tensor(const Input& input) {
    return to_tensor(input.array.data, input.dtype, input.array.shape).value();
  }
  static std::string name(size_t i) { return fmt::format("x{}", i); }

  static void build(Graph& graph, const Case& c, bool open) {
    Values values;
    for (size_t i = 0; i < c.inputs.size(); ++i) {
      if (c.inputs[i].is_constant) {
        values.push_back(graph.add_constant(name(i), tensor(c.inputs[i])));
        continue;
      }
      Shape shape;
      for (const int64_t extent : c.inputs[i].array.shape)
        shape.push_back(open ? Dim::symbol(fmt::format("s{}_{}", i, shape.size())) : Dim(extent));
      values.push_back(graph.add_input(name(i), {c.inputs[i].dtype, std::move(shape)}));
    }
    Node* made = graph.add_node(find_op(c.op), "general", values, c.attrs, {}, c.n_outputs);
    for (const auto& [n_elements, body] : c.bodies) {
      auto inner = std::make_shared<Graph>(c.body_names[made->bodies.size()]);
      Values elements;
      for (size_t i = 0; i < n_elements; ++i) elements.push_back(inner->add_input(fmt::format("e{}", i)));
      for (Value* result : body(*inner, elements)) inner->add_output("r", result);
      inner->sort();
      made->bodies.push_back(std::move(inner));
    }
    for (size_t i = 0; i < c.n_outputs; ++i) graph.add_output(fmt::format("y{}", i), made->outputs[i]);
    graph.sort();
  }
  static std::map<std::string, ConstantTensor> given(const Case& c) {
    std::map<std::string, ConstantTensor> inputs;
    for (size_t i = 0; i < c.inputs.size(); ++i)
      if (!c.inputs[i].is_constant) inputs.emplace(name(i), tensor(c.inputs[i]));
    return inputs;
  }
  static void compare(const Case& c, const std::map<std::string, ConstantTensor>& got, const std::vector<Array>& want) {
    for (size_t k = 0; k < want.size(); ++k) {
      const ConstantTensor& is = got.at(fmt::format("y{}", k));
      ASSERT_EQ(is.shape, want[k].shape) << "output " << k;
      for (int64_t i = 0; i < want[k].count(); ++i) {
        const double x = is.at(i), y = want[k].data[static_cast<size_t>(i)];
        if (std::isnan(x) && std::isnan(y)) continue;
        if (x == y) continue;
        // Integers beyond what doubles have exactly: the expected one is rounded, and that of 64 bits may have wrapped.
        constexpr double kExact = 9007199254740992.0;
        if (is.dtype.is_int() && std::abs(y) > kExact) continue;
        ASSERT_NEAR(x, y, c.tolerance * std::max(1.0, std::abs(y))) << "output " << k << " element " << i;
      }
    }
  }
};

}  // namespace fettle
