#include "graph/plan/plan.h"

#include <gtest/gtest.h>

#include <unordered_set>

#include "arith/int_eval.h"
#include "graph/op.h"
#include "graph/plan/partition.h"
#include "graph/plan/testing.h"
#include "graph/testing.h"
#include "ir/text.h"

namespace fettle {
namespace {

Plan planned(GraphMaker& m) {
  m.graph.sort();
  auto made = make_plan(m.graph);
  EXPECT_TRUE(made.has_value()) << (made ? "" : made.error().to_string());
  assign_memory(*made, [](int) { return true; });
  return std::move(*made);
}

TEST(Partition, EpiloguesJoinTheirAnchor) {
  GraphMaker m;
  Value* x = m.input("x", {1, 8, 6, 6});
  Value* c = m.conv(x, 16, 1);
  Value* s = m.node("Sigmoid", {c});
  Value* silu = m.node("Mul", {c, s});  // two users of c that meet
  Value* d = m.conv(silu, 16, 3);
  m.graph.add_output("y", m.node("Add", {d, silu}));  // a residual from outside the group
  m.graph.sort();
  const std::vector<Group> groups = partition(m.graph);
  ASSERT_EQ(groups.size(), 2u);
  EXPECT_EQ(groups[0].name(), "Conv_Sigmoid_Mul");
  EXPECT_EQ(groups[1].name(), "Conv_Add");
  EXPECT_EQ(groups[1].inputs.size(), 2u);  // what is convolved and added, and the weights
}

// What dequantises for one elementwise node reads bytes in the kernel of that node; a product reads floats.
TEST(Partition, DequantisingJoinsItsReader) {
  GraphMaker m;
  const auto steps = [&](const char* name, Shape shape) {
    Value* bytes = m.graph.add_input(name, {kU8, std::move(shape)});
    Value* scale = m.graph.add_constant("scale", scalar(0.25));
    return m.node("DequantizeLinear", {bytes, scale});
  };
  Value* residual = steps("residual", {1, 16, 6, 6});
  m.graph.add_output("y", m.node("Add", {m.conv(steps("x", {1, 8, 6, 6}), 16, 1), residual}));
  m.graph.sort();
  const std::vector<Group> groups = partition(m.graph);
  ASSERT_EQ(groups.size(), 2u);
  EXPECT_EQ(groups[0].name(), "DequantizeLinear");
  EXPECT_EQ(groups[1].name(), "Conv_DequantizeLinear_Add");
}

TEST(Partition, ValuesUsedTwiceEndAGroup) {
  GraphMaker m;
  Value* x = m.input("x", {1, 8, 6, 6});
  Value* r = m.node("Relu", {m.conv(x, 8, 1)});
  m.graph.add_output("a", m.conv(r, 8, 1));
  m.graph.add_output("b", m.conv(r, 4, 1));
  m.graph.sort();
  const std::vector<Group> groups = partition(m.graph);
  ASSERT_EQ(groups.size(), 3u);
  EXPECT_EQ(groups[0].name(), "Conv_Relu");
}

/// 1x1, depthwise, 1x1 with a residual: what MobileNetV2 repeats; and a convolution of neither kind.
Value* inverted_residual(GraphMaker& m) {
  Value* x = m.input("x", {1, 8, 6, 6});
  Value* expanded = m.node("Relu", {m.conv(x, 24, 1)});
  Value* filtered = m.node("Relu", {m.conv(expanded, 24, 3, 24)});
  Value* y = m.node("Add", {m.conv(filtered, 8, 1), x});
  return m.conv(y, 8, 3);
}

// Elementwise work of one shape goes through memory once, if no other work lies between and the arrays are few.
TEST(Partition, ElementwiseGroupsOfCommonValuesAreJoined) {
  const auto n_groups = [](bool between, bool other_shape, int arrays) {
    GraphMaker m;
    Value* x = m.input("x", {8, 8});
    Value* a = m.node("Exp", {x});
    m.graph.add_output("a", a);
    Value* shares = between ? m.node("Softmax", {a}) : nullptr;
    if (shares) m.graph.add_output("shares", shares);  // so nothing joins its group
    Value* b = shares ? shares : other_shape ? m.node("Add", {a, m.input("row", {2, 8, 8})}) : a;
    m.graph.add_output("b", m.node("Sub", {b, x}));
    for (int i = 0; i < arrays; ++i)
      m.graph.add_output("c" + std::to_string(i), m.node("Mul", {a, m.input("c" + std::to_string(i), {8, 8})}));
    m.graph.sort();
    return partition(m.graph).size();
  };
  EXPECT_EQ(n_groups(false, false, 0), 1u);
  EXPECT_EQ(n_groups(true, false, 0), 3u);
  EXPECT_EQ(n_groups(false, true, 0), 2u);
  EXPECT_EQ(n_groups(false, false, 3), 1u);
  EXPECT_GT(n_groups(false, false, 9), 1u) << "more arrays than are walked through at once";
}

TEST(Partition, DepthwiseAndPointwiseConvolutionsMayBeFused) {
  GraphMaker m;
  m.graph.add_output("y", inverted_residual(m));
  m.graph.sort();
  const std::vector<const Node*> fusible = fusible_nodes(m.graph);
  ASSERT_EQ(fusible.size(), 1u);
  const auto names = [&](const std::vector<const Node*>& fused) {
    std::vector<std::string> made;
    for (const Group& group : partition(m.graph, fused)) made.push_back(group.name());
    return made;
  };
  EXPECT_EQ(names({}), (std::vector<std::string>{"Conv_Relu", "Conv_Relu", "Conv_Add", "Conv"}));
  EXPECT_EQ(names(fusible), (std::vector<std::string>{"Conv_Relu", "Conv_Relu_Conv_Add", "Conv"}));
}

TEST(Partition, WhatIsUsedTwiceIsNotFused) {
  GraphMaker m;
  Value* x = m.input("x", {1, 8, 6, 6});
  Value* filtered = m.conv(x, 8, 3, 8);
  m.graph.add_output("y", m.node("Add", {m.conv(filtered, 8, 1), filtered}));
  m.graph.sort();
  EXPECT_TRUE(fusible_nodes(m.graph).empty());
}

/// Of 4 heads with 300 queries and keys, as models write it; `shares` is what reads the softmax.
/// Where there is `otherwise`, shares that are no numbers become that.
Value* attention(GraphMaker& m, const std::string& softmax = "Softmax", int64_t axis = -1, int64_t keys = 300,
                 std::optional<double> otherwise = {}) {
  Value *q = m.input("q", {2, 4, 300, 16}), *k = m.input("k", {2, 4, 16, keys}), *v = m.input("v", {2, 4, keys, 24});
  Value* scaled = m.node("Mul", {m.node("MatMul", {q, k}), m.input("scale", {1})});
  Value* masked = m.node("Add", {scaled, m.input("mask", {2, 1, 1, keys})});
  Value* shares = m.node(softmax, {masked}, {{"axis", axis}});
  if (otherwise) shares = m.node("Where", {m.node("IsNaN", {shares}), m.constant("other", {}, *otherwise), shares});
  return m.node("MatMul", {shares, v});
}

TEST(Partition, AttentionMayBeOneKernel) {
  GraphMaker m;
  m.graph.add_output("y", m.node("Relu", {attention(m)}));
  m.graph.sort();
  const std::vector<const Node*> fusible = fusible_nodes(m.graph);
  ASSERT_EQ(fusible.size(), 1u);
  EXPECT_EQ(partition(m.graph).size(), 3u);
  const std::vector<Group> groups = partition(m.graph, fusible);
  ASSERT_EQ(groups.size(), 1u);
  EXPECT_EQ(groups[0].name(), "MatMul_Mul_Add_Softmax_MatMul_Relu");
  EXPECT_EQ(groups[0].anchor, fusible[0]);
  EXPECT_EQ(groups[0].inputs.size(), 5u);
}

TEST(Partition, WhatIsNoAttentionStaysApart) {
  const auto is_fusible = [](const auto& make) {
    GraphMaker m;
    make(m);
    m.graph.sort();
    return !fusible_nodes(m.graph).empty();
  };
  EXPECT_TRUE(is_fusible([](GraphMaker& m) { m.graph.add_output("y", attention(m)); }));
  EXPECT_TRUE(is_fusible([](GraphMaker& m) { m.graph.add_output("y", attention(m, "Softmax", 3)); }));
  EXPECT_TRUE(is_fusible([](GraphMaker& m) { m.graph.add_output("y", attention(m, "Softmax", -1, 300, 0)); }));
  EXPECT_FALSE(is_fusible([](GraphMaker& m) { m.graph.add_output("y", attention(m, "Softmax", -1, 300, 1)); }));
  EXPECT_FALSE(is_fusible([](GraphMaker& m) { m.graph.add_output("y", attention(m, "Softmax", 2)); }));
  EXPECT_FALSE(is_fusible([](GraphMaker& m) { m.graph.add_output("y", attention(m, "LogSoftmax")); }));
  EXPECT_TRUE(is_fusible([](GraphMaker& m) { m.graph.add_output("y", attention(m, "Softmax", -1, 128)); }));
  // Scores, or weights, that something else reads, too.
  for (const int inputs_back : {1, 2})
    EXPECT_FALSE(is_fusible([&](GraphMaker& m) {
      Value* y = attention(m);
      Value* read = y->producer->input(0);
      if (inputs_back == 2) read = read->producer->input(0);
      m.graph.add_output("y", y);
      m.graph.add_output("read", read);
    }));
}

// The scores of few keys stay in the caches of a CPU.
TEST(Partition, AttentionPaysWithManyKeys) {
  for (const int64_t keys : {300, 64}) {
    GraphMaker m;
    m.graph.add_output("y", attention(m, "Softmax", -1, keys));
    m.graph.sort();
    EXPECT_EQ(may_pay_in_caches(*fusible_nodes(m.graph).at(0)), keys == 300);
  }
}

/// One kernel of two convolutions costs `together`, another 1; handing over costs `between`.
class FusionCosts : public KernelCosts {
 public:
  FusionCosts(double together, double between) : together_(together), between_(between) {}
  double seconds(const Func& workload, int) override {
    return workload->name.find("Conv_Relu_Conv") == std::string::npos ? 1 : together_;
  }
  double intermediate_seconds(int64_t bytes, int) override {
    EXPECT_EQ(bytes, 24 * 6 * 6 * 4);
    return between_;
  }

 private:
  double together_, between_;
};

TEST(Plan, FusesWhereOneKernelCostsLess) {
  GraphMaker m;
  m.graph.add_output("y", inverted_residual(m));
  m.graph.sort();
  FusionCosts dear(1.6, 0), cheap(1.4, 0), far(1.99, 0.5);
  EXPECT_TRUE(choose_fused(m.graph, ImageLayout::kChannelsLast, 1, dear)->empty());
  EXPECT_EQ(*choose_fused(m.graph, ImageLayout::kChannelsLast, 1, far), std::vector<int>{0});
  Plans plans(m.graph);
  const auto plan = choose_plan(plans, 1, cheap);
  ASSERT_TRUE(plan);
  EXPECT_EQ((*plan)->calls.size(), 4u);  // the last copies to the model's layout
  EXPECT_EQ((*plan)->fused, std::vector<int>{0});
  // Both layouts, and what is chosen; each again is one that there is.
  EXPECT_EQ(plans.made(), 3);
  EXPECT_EQ(*plans.get({.layout = ImageLayout::kChannelsLast, .fused = {0}}), *plan);
  EXPECT_EQ(plans.made(), 3);
}

TEST(Plan, EqualWorkIsOneWorkload) {
  GraphMaker m;
  Value* x = m.input("x", {1, 16, 6, 6});
  Value* a = m.node("Relu", {m.conv(x, 16, 1)});
  Value* b = m.node("Relu", {m.conv(a, 16, 1)});
  Value* c = m.node("Relu", {m.conv(b, 16, 1)});
  m.graph.add_output("y", m.conv(c, 16, 1));
  const Plan plan = planned(m);
  // the first reads the model's layout, the two between are the same, the last has no Relu, and back
  EXPECT_EQ(plan.calls.size(), 5u);
  EXPECT_EQ(plan.workloads.size(), 4u);
  EXPECT_EQ(plan.calls[1].workload, plan.calls[2].workload);
  EXPECT_LE(plan.arena_bytes.value(), 2 * 16 * 36 * 4);
}

// At the model's edges, where kernels would take vectors apart; pictures are read as they are, and so is what is pooled
// step by step or as a whole.
TEST(Plan, ImagesOfManyChannelsAreTurnedAtTheEdges) {
  const auto calls = [](int64_t channels, const std::function<Value*(GraphMaker&, Value*)>& network) {
    GraphMaker m;
    Value* x = m.input("x", {1, channels, 12, 12});
    m.graph.add_output("y", network(m, x));
    return planned(m).calls.size();
  };
  const auto convolution = [](GraphMaker& m, Value* x) { return m.conv(x, 16, 3); };
  EXPECT_EQ(calls(16, convolution), 3u);
  EXPECT_EQ(calls(3, convolution), 2u);  // what it hands out is
  EXPECT_EQ(calls(16, [](GraphMaker& m, Value* x) { return m.conv(x, 4, 3); }), 2u);
  const auto pool = [](int64_t stride) {
    return [stride](GraphMaker& m, Value* x) {
      Attrs attrs;
      attrs.set("kernel_shape", std::vector<int64_t>{2, 2});
      attrs.set("strides", std::vector<int64_t>{stride, stride});
      return m.node("MaxPool", {x}, std::move(attrs));
    };
  };
  EXPECT_EQ(calls(16, pool(2)), 3u);
  EXPECT_EQ(calls(16, pool(1)), 1u);
  EXPECT_EQ(calls(16, [](GraphMaker& m, Value* x) { return m.node("GlobalAveragePool", {x}); }), 1u);
  const auto enlarged = [](double times) {
    return [times](GraphMaker& m, Value* x) {
      Attrs attrs;
      attrs.set("scales", std::vector<double>{1, 1, times, times});
      return m.node("Resize", {x}, std::move(attrs));
    };
  };
  EXPECT_EQ(calls(16, enlarged(2)), 1u);
  EXPECT_EQ(calls(16, enlarged(1.3)), 3u);
  EXPECT_EQ(calls(16, [&](GraphMaker& m, Value* x) { return m.conv(enlarged(2)(m, x), 16, 3); }), 4u);
  // A product of matrices either way.
  EXPECT_EQ(calls(16, [](GraphMaker& m, Value* x) { return m.conv(x, 16, 1); }), 1u);
  EXPECT_EQ(calls(16, [](GraphMaker& m, Value* x) { return m.conv(m.conv(x, 16, 1), 16, 1); }), 3u);
  // Also read by what works row by row: it stays.
  EXPECT_EQ(calls(16, [](GraphMaker& m, Value* x) { return m.node("Add", {m.conv(x, 16, 3), x}); }), 2u);
}

TEST(Plan, RenamingMemoryCostsNothing) {
  GraphMaker m;
  Value* x = m.input("x", {1, 4, 24});
  Value* r = m.node("Relu", {x});
  Value* shaped = m.node("Reshape", {r}, with_ints("shape", {1, 4, 3, 8}));
  Value* transposed = m.node("Transpose", {shaped}, with_ints("perm", {2, 0, 1, 3}));
  m.graph.add_output("y", m.node("Sigmoid", {transposed}));
  const Plan plan = planned(m);
  EXPECT_EQ(plan.views, 2);
  EXPECT_EQ(plan.calls.size(), 2u);
}

TEST(Plan, ElementwiseKernelsRunInPlace) {
  GraphMaker m;
  Value* x = m.input("x", {4, 4});
  Value* w = m.constant("w", {4, 4});
  Value* product = m.node("MatMul", {x, w});
  Value* transposed = m.node("Transpose", {product}, with_ints("perm", {1, 0}));
  Value* r = m.node("Relu", {transposed});
  m.graph.add_output("y", m.node("MatMul", {r, w}));
  const Plan plan = planned(m);
  EXPECT_EQ(plan.calls.size(), 3u);
  EXPECT_EQ(plan.in_place, 1);
  EXPECT_EQ(plan.arena_bytes.value(), 64);
}

TEST(Plan, OutputsMayLieWhereInputsAreReadNoMore) {
  GraphMaker m;
  Value *x = m.input("x", {4, 4}), *y = m.input("y", {4, 4}), *z = m.input("z", {4, 4});
  Value* product = m.node("MatMul", {x, y});
  m.graph.add_output("step", m.node("Sub", {z, m.node("Relu", {m.node("MatMul", {product, y})})}));
  m.graph.add_output("product", product);
  const Plan plan = planned(m);
  const auto pairs = [&](bool may_run_in_place) {
    std::vector<std::pair<int, int>> made;
    for (const OverwrittenInput& pair : overwritten_inputs(plan, [&](int) { return may_run_in_place; }))
      made.emplace_back(pair.output, pair.input);
    return made;
  };
  // The product is written while its factors are read, the step, behind another product, where x is read no more.
  const std::vector<std::pair<int, int>> found = pairs(true);
  EXPECT_TRUE(std::ranges::count(found, std::pair(0, 0))) << to_text(plan);
  EXPECT_FALSE(std::ranges::count(found, std::pair(1, 0)) || std::ranges::count(found, std::pair(1, 1)) ||
               std::ranges::count(found, std::pair(1, 2)))
      << to_text(plan);
}

TEST(Plan, ElementwiseKernelsMayWriteOverInputs) {
  GraphMaker m;
  Value *x = m.input("x", {4, 4}), *y = m.input("y", {4, 4}), *row = m.input("row", {1, 4});
  m.graph.add_output("z",
                     m.node("Mul", {m.node("Add", {x, row}), m.node("Transpose", {y}, with_ints("perm", {1, 0}))}));
  const Plan plan = planned(m);
  EXPECT_EQ(overwritten_inputs(plan, [](int) { return true; }), (std::vector<OverwrittenInput>{{0, 0}}))
      << to_text(plan);
  EXPECT_TRUE(overwritten_inputs(plan, [](int) { return false; }).empty());
}

// A step of an optimiser: each result may lie where it is read last, though one kernel makes both.
TEST(Plan, JoinedKernelsMayWriteOverInputs) {
  GraphMaker m;
  Value *w = m.input("w", {4, 4}), *momentum = m.input("m", {4, 4}), *gradient = m.input("g", {4, 4});
  Value* next = m.node("Sub", {momentum, gradient});
  m.graph.add_output("m'", next);
  m.graph.add_output("w'", m.node("Sub", {w, m.node("Exp", {next})}));
  const Plan plan = planned(m);
  EXPECT_EQ(plan.calls.size(), 1u) << to_text(plan);
  const auto found = overwritten_inputs(plan, [](int) { return true; });
  const auto may = [&](int input, int output) {
    return std::ranges::count(found, OverwrittenInput{input, output}) > 0;
  };
  EXPECT_TRUE(may(1, 0) && may(0, 1)) << to_text(plan);
  EXPECT_FALSE(may(0, 0)) << "w is read when m' has been written";
}

// What a cache holds already is neither copied nor written again.
TEST(Plan, AStepWritesItsNewRowsOnly) {
  GraphMaker m;
  const Dim batch = Dim::symbol("B", 1, 2), past = Dim::symbol("P", 0, 1024), steps = Dim::symbol("S", 1, 1024);
  Value* cache = m.graph.add_input("past", {kF32, {batch, 2, past, 16}});
  Value* x = m.graph.add_input("x", {kF32, {batch, 2, steps, 16}});
  Attrs axis;
  axis.set("axis", int64_t{2});
  Value* present = m.node("Concat", {cache, m.node("Relu", {x})}, axis);
  m.graph.add_output("present", present);
  m.graph.add_output("y", m.node("MatMul", {x, m.node("Transpose", {present}, with_ints("perm", {0, 1, 3, 2}))}));
  m.graph.add_state({.input = cache, .output = 0, .axis = 2, .capacity = {2, 2, 1024, 16}});
  const Plan plan = planned(m);
  for (const int64_t length : {0, 1, 17, 700})
    for (const int64_t rows : {1, 5, 300})
      EXPECT_EQ(state_bytes_written(plan, {{"B", 2}, {"P", length}, {"S", rows}}), 2 * 2 * rows * 16 * 4)
          << length << " " << rows;
}

// Of a product over N * 4 rows, and what reduces nothing.
TEST(Plan, KernelsForClassesOfSizes) {
  GraphMaker m;
  const Dim n = Dim::symbol("N", 1, 4096, 1, 64);
  Value* x = m.graph.add_input("x", {kF32, {n, 4, 32}});
  Value* y = m.node("MatMul", {x, m.constant("w", {32, 16})});
  m.graph.add_output("y", m.node("Sigmoid", {m.node("Transpose", {y}, with_ints("perm", {1, 0, 2}))}));
  m.graph.add_size_classes({n, {1, 9, 64}});
  const Plan plan = planned(m);
  size_t classes = 0;
  for (const PlannedWorkload& workload : plan.workloads) {
    classes += workload.classes.size();
    if (workload.classes.empty()) continue;
    ASSERT_EQ(workload.classes.size(), 2u);
    const SizeClass &one = workload.classes[0], &nine = workload.classes[1];
    const int64_t scale = workload.func->int_params[0].typical / 64;  // the parameter is N, or the rows
    EXPECT_EQ(one.most, 3 * scale);
    EXPECT_EQ(nine.most, 24 * scale);
    EXPECT_EQ(nine.func->int_params[0].min, one.most + 1);
    EXPECT_EQ(nine.func->int_params[0].max, nine.most);
    EXPECT_EQ(nine.func->int_params[0].typical, 9 * scale);
    EXPECT_NE(one.hash, nine.hash);
    EXPECT_EQ(workload.func->int_params[0].max, 4096 * scale);
  }
  EXPECT_EQ(classes, 2u);
  EXPECT_NE(to_text(plan).find(" <= "), std::string::npos);
}

/// Says what it is told of workloads by the first dimension of their first parameter.
class FakeCosts : public KernelCosts {
 public:
  explicit FakeCosts(bool likes_channels_last) : likes_channels_last_(likes_channels_last) {}
  double seconds(const Func& workload, int) override {
    // 4 channels of 6 by 6: the output's last dimension is the channels' or the columns'
    const Buffer& out = workload->params.back().buffer;
    return (*as_int(out->shape.back()) == 4) == likes_channels_last_ ? 1 : 2;
  }

 private:
  bool likes_channels_last_;
};

TEST(Plan, LayoutsFollowCosts) {
  for (bool last : {true, false}) {
    GraphMaker m;
    Value* x = m.input("x", {1, 4, 6, 6});
    m.graph.add_output("y", m.conv(m.conv(m.conv(x, 4, 3), 4, 3), 4, 3));
    m.graph.sort();
    FakeCosts costs(last);
    Plans plans(m.graph);
    const auto plan = choose_plan(plans, 1, costs);
    ASSERT_TRUE(plan.has_value());
    EXPECT_EQ((*plan)->layout, last ? ImageLayout::kChannelsLast : ImageLayout::kChannelsFirst);
  }
}

TEST(Plan, OutputsThatNobodyMakesAreCopied) {
  GraphMaker m;
  Value* x = m.input("x", {2, 3});
  m.graph.add_output("same", x);
  m.graph.add_output("transposed", m.node("Transpose", {x}, with_ints("perm", {1, 0})));
  const Plan plan = planned(m);
  EXPECT_EQ(plan.calls.size(), 2u);
  std::unordered_set<int> written;
  for (const PlannedCall& call : plan.calls)
    written.insert(plan.storages[static_cast<size_t>(call.operands.back().storage)].index);
  EXPECT_EQ(written.size(), 2u);
}

// Weights lie as the image that they are multiplied with; what is computed stays the same.
TEST(Plan, WeightsFollowImages) {
  GraphMaker m;
  Value* x = m.input("x", {1, 3, 9, 9});                     // as the model says, of few channels: channels first
  Value* first = m.node("Relu", {m.conv(x, 8, 3)});          // [8, 3, 3, 3] stays
  Value* each = m.node("Relu", {m.conv(first, 8, 3, 8)});    // [8, 1, 3, 3] → 3, 3, 8
  Value* grouped = m.node("Relu", {m.conv(each, 8, 3, 2)});  // [8, 4, 3, 3] → 8, 3, 3, 4
  Value* y = m.node("Relu", {m.conv(grouped, 6, 3)});        // [6, 8, 3, 3] → 6, 3, 3, 8
  m.graph.add_output("y", m.node("GlobalAveragePool", {y}));
  m.graph.sort();
  std::map<std::string, ConstantTensor> given;
  TensorBuilder image = make_tensor(kF32, {1, 3, 9, 9}).value();
  for (size_t i = 0; i < 243; ++i) image.elems<float>()[i] = static_cast<float>(i % 13) - 6;
  given.emplace("x", std::move(image).finish());
  Plan as_given = make_plan(m.graph).value(),
       as_images = make_plan(m.graph, {.weights = WeightOrder::kAsImages}).value();
  for (Plan* plan : {&as_given, &as_images}) assign_memory(*plan, [](int) { return true; });
  std::vector<std::vector<int64_t>> turned;
  for (const Storage& storage : as_images.storages)
    if (storage.turned) turned.push_back(storage.turned->shape);
  EXPECT_EQ(turned, (std::vector<std::vector<int64_t>>{{1, 3, 3, 8}, {8, 3, 3, 4}, {6, 3, 3, 8}}));
  for (const Storage& storage : as_given.storages) EXPECT_EQ(storage.turned, nullptr);
  const ConstantTensor want = run_plan(m.graph, as_given, given).at("y"),
                       got = run_plan(m.graph, as_images, given).at("y");
  for (int64_t i = 0; i < want.n_elems(); ++i) EXPECT_NEAR(got.at(i), want.at(i), 1e-5 * std::abs(want.at(i)));
  // Terms that are neighbours in the image are so in the weights.
  const PlannedWorkload& last = as_images.workloads[static_cast<size_t>(as_images.calls[3].workload)];
  const Func& func = last.func;
  const auto weights = std::ranges::find(func->params, ParamKind::kConstant, &Param::kind);
  ASSERT_NE(weights, func->params.end());
  EXPECT_EQ(*as_int(weights->buffer->shape.back()), 8) << to_text(func);
}

// Who else reads the weights has them as they are.
TEST(Plan, SharedWeightsStay) {
  GraphMaker m;
  Value* x = m.input("x", {1, 4, 9, 9});
  Value* w = m.constant("w", {4, 4, 3, 3}, 0.5);
  Value* c = m.node("Relu", {m.conv(x, 4, 1)});
  m.graph.add_output("y", m.node("Conv", {c, w}));
  m.graph.add_output("z", m.node("Add", {m.input("v", {4, 4, 3, 3}), w}));
  m.graph.sort();
  const Plan plan = make_plan(m.graph, {.weights = WeightOrder::kAsImages}).value();
  for (const Storage& storage : plan.storages) EXPECT_EQ(storage.turned, nullptr);
}

}  // namespace
}  // namespace fettle
