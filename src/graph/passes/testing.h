#pragma once
// For tests of passes: graphs under construction, and their results before and after.

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/random.h"
#include "graph/op.h"
#include "graph/passes/passes.h"

namespace fettle {

class PassFixture : public testing::Test {
 protected:
  Graph g{"g"};

  Value* input(std::string name, Shape shape, DType dtype = kF32) {
    return g.add_input(std::move(name), {dtype, std::move(shape)});
  }
  Value* op(std::string_view name, std::vector<Value*> inputs, Attrs attrs = {}) {
    Node* node = g.add_node(find_op(name), "n" + std::to_string(g.nodes().size()), std::move(inputs), std::move(attrs));
    node->provenance = {{std::string(name), node->name}};
    return node->output();
  }
  Value* number(double value) { return g.add_constant("c", scalar(value)); }
  Value* numbers(std::vector<int64_t> values) { return g.add_constant("ints", int_list(values)); }
  Value* random(std::vector<int64_t> shape) {
    TensorBuilder t = make_tensor(kF32, std::move(shape)).value();
    for (float& x : t.elems<float>()) x = static_cast<float>(stream_.uniform() + 0.25);
    return g.add_constant("w", std::move(t).finish());
  }
  static Attrs ints(std::string name, std::vector<int64_t> values) {
    Attrs attrs;
    attrs.set(std::move(name), std::move(values));
    return attrs;
  }
  static Attrs axis(int64_t value) {
    Attrs attrs;
    attrs.set("axis", value);
    return attrs;
  }

  /// Optimises without a pass and with it. The outputs are equal, of whole numbers drawn for the inputs; `what` stands
  /// in the histogram of the graph with the pass. Returns that of the graph without it.
  std::string compare_without(const std::string& pass, const std::string& what) {
    g.sort();
    Graph plain = g.clone();
    const auto results = [&](Graph& graph, const PassContext& context) {
      const auto done = optimize(graph, context);
      EXPECT_TRUE(done) << done.error().to_string();
      RandomStream draws{7};
      std::map<std::string, ConstantTensor> inputs;
      for (const Value* value : graph.inputs()) {
        TensorBuilder t = make_tensor(value->dtype(), value->extents()).value();
        if (value->dtype() == kF32)
          for (float& x : t.elems<float>()) x = static_cast<float>(draws.below(33)) - 16;
        else
          for (uint8_t& x : t.elems<uint8_t>()) x = static_cast<uint8_t>(draws.below(256));
        inputs.emplace(value->name, std::move(t).finish());
      }
      auto made = evaluate(graph, inputs, interpreter_executor());
      EXPECT_TRUE(made) << made.error().to_string() << to_text(graph);
      return std::move(*made);
    };
    PassContext without;
    without.without = {pass};
    const auto wanted = results(plain, without);
    const auto made = results(g, {});
    EXPECT_NE(histogram(g).find(what), std::string::npos) << to_text(g);
    EXPECT_EQ(made.size(), wanted.size());
    for (const auto& [name, want] : wanted) EXPECT_TRUE(made.at(name) == want) << name << "\n" << to_text(g);
    return histogram(plain);
  }

  /// Optimises, and checks that the outputs stay the same: as typed before any other pass, and after all of them.
  void optimize_and_compare() {
    g.sort();
    ASSERT_TRUE(passes::infer_shapes(g, {}));
    g.sort();
    ASSERT_TRUE(validate(g, true));
    std::map<std::string, ConstantTensor> inputs;
    for (const Value* value : g.inputs()) {
      TensorBuilder t = make_tensor(value->dtype(), value->extents()).value();
      if (value->dtype() == kI64)
        for (int64_t& x : t.elems<int64_t>()) x = static_cast<int64_t>(stream_.below(12)) - 3;
      else
        for (float& x : t.elems<float>()) x = static_cast<float>(4 * stream_.uniform() - 2);
      inputs.emplace(value->name, std::move(t).finish());
    }
    const auto before = evaluate(g, inputs, interpreter_executor());
    ASSERT_TRUE(before) << before.error().to_string();
    const auto done = optimize(g);
    ASSERT_TRUE(done) << done.error().to_string();
    const auto after = evaluate(g, inputs, interpreter_executor());
    ASSERT_TRUE(after) << after.error().to_string() << to_text(g);
    for (const auto& [name, want] : *before) {
      const ConstantTensor& got = after->at(name);
      ASSERT_EQ(got.shape, want.shape);
      double scale = 0;
      for (int64_t i = 0; i < want.n_elems(); ++i) scale = std::max(scale, std::abs(want.at(i)));
      for (int64_t i = 0; i < want.n_elems(); ++i) ASSERT_NEAR(got.at(i), want.at(i), 1e-5 * scale) << name << " " << i;
    }
  }

 private:
  RandomStream stream_{42};
};

}  // namespace fettle
