#include "driver/constants.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "driver/bench.h"
#include "driver/compile.h"
#include "graph/passes/pipeline.h"
#include "graph/testing.h"
#include "schedule/dataflow/dataflow.h"

namespace fettle {
namespace {

CompiledModel compiled(GraphMaker& m) {
  EXPECT_TRUE(optimize(m.graph));
  CompileOptions options;
  options.target = detect_host(1);
  auto made = compile_model(m.graph, options);
  EXPECT_TRUE(made.has_value()) << (made ? "" : made.error().to_string());
  return *made;
}

using Floats = std::vector<float>;

/// All outputs.
std::vector<Floats> results(const CompiledModel& compiled, const std::vector<NamedTensor>& inputs) {
  auto model = compiled.instantiate();
  EXPECT_TRUE(model.has_value()) << (model ? "" : model.error().to_string());
  const auto outputs = model->run(inputs);
  EXPECT_TRUE(outputs.has_value()) << (outputs ? "" : outputs.error().to_string());
  std::vector<Floats> found;
  for (const NamedTensor& output : *outputs) {
    const auto elems = output.tensor.elems<float>();
    found.emplace_back(elems.begin(), elems.end());
  }
  return found;
}

/// The one at `i`, under this name.
std::vector<NamedTensor> take_one(std::vector<NamedTensor>& inputs, size_t i, const std::string& name) {
  std::vector<NamedTensor> one;
  one.push_back({name, std::move(inputs.at(i).tensor)});
  return one;
}

void expect_close(const Floats& a, const Floats& b) {
  ASSERT_EQ(a.size(), b.size());
  float scale = 0, largest = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    scale = std::max(scale, std::abs(b[i]));
    largest = std::max(largest, std::abs(a[i] - b[i]));
  }
  EXPECT_GT(scale, 0);
  EXPECT_LE(largest, 1e-5f * scale);
}

constexpr int64_t kN = 192;
constexpr int64_t kMatrixBytes = kN * kN * 4;

/// `layers` times two products with the weights that `weights(layer, which)` gives.
template <class Weights>
void add_layers(GraphMaker& m, int layers, Weights weights) {
  Value* x = m.input("x", {24, kN});
  for (int layer = 0; layer < layers; ++layer)
    x = m.node("Relu",
               {m.node("MatMul", {m.node("Relu", {m.node("MatMul", {x, weights(layer, 0)})}), weights(layer, 1)})});
  m.graph.add_output("y", x);
}

Value* matrix(GraphMaker& m, const std::string& name, uint64_t seed) {
  return m.weights(name, {kN, kN}, std::sqrt(static_cast<double>(kN)) / 2, seed);
}

TEST(Constants, ALayerThatIsCalledEightTimesIsPackedOnce) {
  GraphMaker one, eight, copies;
  const auto shared = [](GraphMaker& m) {
    return [&m, w = std::vector<Value*>{matrix(m, "a", 1), matrix(m, "b", 2)}](int, int which) {
      return w[static_cast<size_t>(which)];
    };
  };
  add_layers(one, 1, shared(one));
  add_layers(eight, 8, shared(eight));
  std::vector<ConstantTensor> contents;
  {
    GraphMaker m;
    contents = {*matrix(m, "a", 1)->constant, *matrix(m, "b", 2)->constant};
  }
  // Equal tensors under names of their own.
  add_layers(copies, 8, [&](int layer, int which) {
    ConstantTensor copy = std::move(*make_tensor(kF32, {kN, kN})).finish();
    std::memcpy(const_cast<std::byte*>(copy.bytes.get()), contents[static_cast<size_t>(which)].data(),
                static_cast<size_t>(copy.size_bytes));
    Value* made = copies.graph.add_constant("w" + std::to_string(layer) + std::to_string(which), std::move(copy));
    made->type = TensorType{kF32, {kN, kN}};
    return made;
  });

  const CompiledModel single = compiled(one);
  EXPECT_GE(single.constant_bytes(), 2 * kMatrixBytes);
  std::vector<Floats> expected;
  std::vector<NamedTensor> given;
  {
    // Layer by layer, by a model that has nothing to share.
    auto model = single.instantiate();
    ASSERT_TRUE(model.has_value());
    given = *random_inputs(*model, 3);
    auto inputs = *random_inputs(*model, 3);
    for (int layer = 0; layer < 8; ++layer) {
      auto outputs = model->run(inputs);
      ASSERT_TRUE(outputs.has_value());
      inputs.at(0).tensor = std::move(outputs->at(0).tensor);
    }
    const auto elems = inputs.at(0).tensor.elems<float>();
    expected.emplace_back(elems.begin(), elems.end());
  }
  for (GraphMaker* m : {&eight, &copies}) {
    const CompiledModel model = compiled(*m);
    EXPECT_EQ(model.weight_bytes(), 2 * kMatrixBytes);
    EXPECT_EQ(model.constant_bytes(), single.constant_bytes());
    EXPECT_EQ(results(model, given), expected);
  }
}

// Rows of so many numbers each, times one matrix: their kernels like panels of different widths.
TEST(Constants, ProductsOfManyShapesShareTwoPackings) {
  const std::vector<int64_t> rows = {1, 2, 3, 5, 8, 24, 100, 333};
  constexpr int64_t kColumns = 1000;
  const auto build = [&](GraphMaker& m, const std::vector<int64_t>& of) {
    Value* w = m.weights("w", {kN, kColumns}, kN, 5);
    for (size_t i = 0; i < of.size(); ++i)
      m.graph.add_output("y" + std::to_string(i), m.node("MatMul", {m.input("x" + std::to_string(i), {of[i], kN}), w}));
  };
  GraphMaker m;
  build(m, rows);
  const CompiledModel all = compiled(m);
  EXPECT_EQ(all.weight_bytes(), kN * kColumns * 4);
  // As it is, and in two ways with their padding.
  EXPECT_LE(static_cast<double>(all.constant_bytes()), 3 * 1.1 * static_cast<double>(all.weight_bytes()));

  auto model = all.instantiate();
  ASSERT_TRUE(model.has_value());
  auto inputs = *random_inputs(*model, 3);
  const std::vector<Floats> got = results(all, inputs);
  for (size_t i = 0; i < rows.size(); ++i) {
    GraphMaker alone;
    build(alone, {rows[i]});
    expect_close(got[i], results(compiled(alone), take_one(inputs, i, "x0")).at(0));
  }
}

/// Packs the second operand of a product in panels of so many columns.
std::string packing_trace(const Func& product, int64_t columns) {
  return "b0 = get_block(name=\"" + blocks_of(product.root()).front()->name +
         "\")\n"
         "b1 = cache_read(block=b0, read_index=1, scope=\"global\", consumer_blocks=[])\n"
         "transform_layout(block=b1, buffer_index=0, buffer_index_type=\"write\", index_map=\"(k, n) -> (n // " +
         std::to_string(columns) + ", k, n % " + std::to_string(columns) + ")\", pad=true)\n";
}

constexpr int64_t kWide = 960;

/// Products of one weight with so many rows each, beside the same untuned. panels: the columns of each one's recorded
/// schedule; 0: none is recorded.
CompiledModel compiled_in_panels(const std::vector<std::pair<int64_t, int64_t>>& rows_and_panels) {
  GraphMaker m;
  Value* w = m.weights("w", {kN, kWide}, kN, 5);
  for (const auto& [rows, panel] : rows_and_panels)
    m.graph.add_output("y" + std::to_string(rows),
                       m.node("MatMul", {m.input("x" + std::to_string(rows), {rows, kN}), w}));
  const CompiledModel untuned = compiled(m);
  CompileOptions options;
  options.target = detect_host(1);
  options.find_trace = [&](const Func& workload) -> std::optional<std::string> {
    for (const auto& [rows, panel] : rows_and_panels)
      if (panel > 0 && rows == *as_int(workload->params.back().buffer->shape[0])) return packing_trace(workload, panel);
    return std::nullopt;
  };
  options.warn = [](const std::string& what) { ADD_FAILURE() << what; };
  const auto made = compile_model(m.graph, options);
  EXPECT_TRUE(made.has_value()) << made.error().to_string();
  auto model = made->instantiate();
  EXPECT_TRUE(model.has_value());
  const auto inputs = *random_inputs(*model, 3);
  const std::vector<Floats> got = results(*made, inputs), expected = results(untuned, inputs);
  for (size_t i = 0; i < got.size(); ++i) expect_close(got[i], expected[i]);
  return *made;
}

TEST(Constants, WhatWouldPackAWeightInAThirdWayReadsItAsItIs) {
  const CompiledModel made = compiled_in_panels({{24, 12}, {32, 20}, {40, 24}, {48, 40}});
  ASSERT_EQ(made.tasks().size(), 4u);
  for (size_t i = 0; i < 4; ++i) EXPECT_EQ(made.tasks()[i].tuned, i < 2) << i;
  EXPECT_EQ(made.weight_bytes(), kN * kWide * 4);
  EXPECT_EQ(made.constant_bytes(), 3 * made.weight_bytes());  // panels of 12 and of 20 columns, and as it is
}

TEST(Constants, WhatWouldPackAWeightInAThirdWayTakesASchedulePackedLikeAnother) {
  const CompiledModel made = compiled_in_panels({{24, 0}, {32, 20}, {40, 12}});
  ASSERT_EQ(made.tasks().size(), 3u);
  EXPECT_TRUE(made.tasks()[1].tuned);
  EXPECT_FALSE(made.tasks()[2].tuned);
  EXPECT_LE(static_cast<double>(made.constant_bytes()), 2 * 1.1 * static_cast<double>(made.weight_bytes()));
}

TEST(Constants, TiedEmbeddingsAreStoredAsTheyAreAndPacked) {
  constexpr int64_t kWords = 800;
  const auto build = [&](GraphMaker& m, bool embed, bool project) {
    Value* table = m.weights("table", {kWords, kN}, kN, 7);
    if (embed) {
      Value* ids = m.graph.add_constant("ids", int_list(std::vector<int64_t>{3, 700, 5, 5}));
      ids->type = TensorType{kI64, {4}};
      m.graph.add_output("rows", m.node("Mul", {m.node("Gather", {table, ids}), m.input("scale", {kN})}));
    }
    if (project)
      m.graph.add_output(
          "words", m.node("MatMul", {m.input("x", {24, kN}), m.node("Transpose", {table}, with_ints("perm", {1, 0}))}));
  };
  GraphMaker both, embed, project;
  build(both, true, true);
  build(embed, true, false);
  build(project, false, true);
  const CompiledModel tied = compiled(both), first = compiled(embed), second = compiled(project);
  auto model = tied.instantiate();
  ASSERT_TRUE(model.has_value());
  auto inputs = *random_inputs(*model, 3);
  const std::vector<Floats> got = results(tied, inputs);
  EXPECT_EQ(got.at(0), results(first, take_one(inputs, 0, "scale")).at(0));
  EXPECT_EQ(got.at(1), results(second, take_one(inputs, 1, "x")).at(0));
  EXPECT_EQ(tied.constant_bytes(), first.constant_bytes() + second.constant_bytes());
}

TEST(Constants, ContentsAreEqualByTheirBytes) {
  Contents contents;
  const ConstantTensor a = *filled(2, kF32, {8, 4}), b = *filled(2, kF32, {32}), c = *filled(3, kF32, {32});
  EXPECT_EQ(contents.number_of(a), 0);
  EXPECT_EQ(contents.number_of(b), 0);
  EXPECT_EQ(contents.number_of(c), 1);
  EXPECT_EQ(contents.number_of(a), 0);
  EXPECT_EQ(contents.total_bytes(), 256);
}

}  // namespace
}  // namespace fettle
