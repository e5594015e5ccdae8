// Operators and layers whose sizes are open: one plan, run with several sizes, against the graph of those sizes alone.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "base/random.h"
#include "graph/evaluate.h"
#include "graph/op.h"
#include "graph/passes/passes.h"
#include "graph/passes/pipeline.h"
#include "graph/plan/plan.h"
#include "graph/plan/testing.h"

namespace fettle {
namespace {

using Ints = std::vector<int64_t>;
using Sizes = std::map<std::string, int64_t>;

class OpenSizes : public testing::Test {
 protected:
  Graph g{"g"};

  static Dim size(const std::string& name, int64_t min = 0, int64_t max = kMaxDim, int64_t divisor = 1) {
    return Dim::symbol(name, min, max, divisor);
  }
  Value* input(std::string name, Shape shape, DType dtype = kF32) {
    return g.add_input(std::move(name), {dtype, std::move(shape)});
  }
  Node* node(Graph& graph, std::string_view op, std::vector<Value*> inputs, Attrs attrs = {}, size_t n_outputs = 1) {
    return graph.add_node(find_op(op), fmt::format("n{}", graph.nodes().size()), std::move(inputs), std::move(attrs),
                          {}, n_outputs);
  }
  Value* op(std::string_view name, std::vector<Value*> inputs, Attrs attrs = {}) {
    return node(g, name, std::move(inputs), std::move(attrs))->output();
  }
  Value* ints(Ints values) { return g.add_constant("ints", int_list(values)); }
  Value* integer(int64_t value) { return g.add_constant("int", reshaped(int_list(Ints{value}), {})); }
  Value* number(double value) { return g.add_constant("number", scalar(value)); }
  Value* random(Ints shape, double scale = 1) {
    TensorBuilder t = make_tensor(kF32, std::move(shape)).value();
    for (float& x : t.elems<float>()) x = static_cast<float>(scale * (2 * stream_.uniform() - 1));
    return g.add_constant("w", std::move(t).finish());
  }
  void output(Value* value) { g.add_output(fmt::format("y{}", g.outputs().size()), value); }
  /// An extent as a list of one, from `Shape`.
  Value* extent(Value* x, int64_t axis) { return op("Shape", {x}, {{"start", axis}, {"end", axis + 1}}); }
  Value* list(std::vector<Value*> parts) { return op("Concat", std::move(parts), {{"axis", int64_t{0}}}); }

  /// What the graph has for these sizes alone.
  Graph bound(const Sizes& sizes) const {
    Graph fixed = g.clone();
    std::map<std::string, Ints> shapes;
    for (const Value* in : fixed.inputs())
      for (const Dim& d : in->shape()) shapes[in->name].push_back(number_of(d, sizes));
    EXPECT_TRUE(bind_shapes(fixed, shapes));
    return fixed;
  }

  /// One plan for all sizes computes what a graph of each case's sizes does.
  void check(const std::vector<Sizes>& cases) {
    g.sort();
    Graph open = g.clone();
    const auto plan = optimised_plan(open);
    ASSERT_TRUE(plan) << plan.error().to_string();
    for (const Sizes& sizes : cases) {
      std::string text;
      for (const auto& [name, value] : sizes) text += fmt::format("{}={} ", name, value);
      SCOPED_TRACE(text);
      for (const SizeCheck& rule : open.size_checks()) {
        const int64_t value = number_of(rule.value, sizes);
        ASSERT_TRUE(rule.is_zero ? value == 0 : value >= 0) << rule.message;
      }
      Graph fixed = bound(sizes);
      const auto typed = passes::infer_shapes(fixed, {});
      ASSERT_TRUE(typed) << typed.error().to_string();
      fixed.sort();
      const std::map<std::string, ConstantTensor> inputs = contents(fixed);
      const auto want = evaluate(fixed, inputs, interpreter_executor());
      ASSERT_TRUE(want) << want.error().to_string();
      compare(run_plan(open, *plan, inputs), *want);
    }
  }

  /// The passes make of the open graph what they make of one with these sizes, where what sizes tell are constants.
  void check_operators(const Sizes& sizes) {
    g.sort();
    Graph open = g.clone(), fixed = bound(sizes);
    ASSERT_TRUE(optimize(open));
    ASSERT_TRUE(optimize(fixed));
    EXPECT_EQ(operators(open), operators(fixed)) << to_text(open) << to_text(fixed);
  }
  static std::map<std::string, int> operators(const Graph& graph) {
    std::map<std::string, int> counts;
    for_each_graph(graph, [&](const Graph& of) {
      for (const Node* node : of.nodes())
        if (!node->output()->content && !node->inputs.empty()) ++counts[std::string(node->op->name)];
    });
    return counts;
  }

  static int64_t number_of(const Dim& dim, const Sizes& sizes) {
    return dim.substitute([&](std::string_view name) { return std::optional<Dim>(sizes.at(std::string(name))); })
        .value();
  }

  std::map<std::string, int64_t> below;  // of integer inputs: what their elements are less than

 private:
  std::map<std::string, ConstantTensor> contents(const Graph& fixed) {
    std::map<std::string, ConstantTensor> inputs;
    for (const Value* in : fixed.inputs()) {
      TensorBuilder t = make_tensor(in->dtype(), in->extents()).value();
      if (in->dtype() == kI64)
        for (int64_t& x : t.elems<int64_t>())
          x = static_cast<int64_t>(stream_.below(below.count(in->name) ? static_cast<uint64_t>(below[in->name]) : 9));
      else if (in->dtype() == kBool)
        for (uint8_t& x : t.elems<uint8_t>()) x = stream_.below(2) != 0;
      else
        for (float& x : t.elems<float>()) x = static_cast<float>(4 * stream_.uniform() - 2);
      inputs.emplace(in->name, std::move(t).finish());
    }
    return inputs;
  }

  static void compare(const std::map<std::string, ConstantTensor>& got,
                      const std::map<std::string, ConstantTensor>& want) {
    for (const auto& [name, tensor] : want) {
      const ConstantTensor& other = got.at(name);
      ASSERT_EQ(other.shape, tensor.shape) << name;
      ASSERT_EQ(other.dtype, tensor.dtype) << name;
      double scale = 1;
      for (int64_t i = 0; i < tensor.n_elems(); ++i)
        if (std::isfinite(tensor.at(i))) scale = std::max(scale, std::abs(tensor.at(i)));
      for (int64_t i = 0; i < tensor.n_elems(); ++i) {
        const double x = other.at(i), y = tensor.at(i);
        if (x == y || (std::isnan(x) && std::isnan(y))) continue;
        ASSERT_NEAR(x, y, 2e-5 * scale) << name << " " << i;
      }
    }
  }

  RandomStream stream_{7};
};

Attrs window(Ints kernel, Ints strides, Ints pads, Ints dilations = {1, 1}) {
  return {{"kernel_shape", kernel}, {"strides", strides}, {"pads", pads}, {"dilations", dilations}};
}

// --- windows

TEST_F(OpenSizes, Convolutions) {
  Value* x = input("x", {size("N"), 4, size("H", 1), size("W", 1)});
  output(op("Conv", {x, random({6, 4, 3, 3}), random({6})}, window({3, 3}, {1, 1}, {1, 1, 1, 1})));
  output(op("Conv", {x, random({6, 4, 3, 3})}, window({3, 3}, {2, 2}, {1, 1, 1, 1})));
  output(op("Conv", {x, random({4, 1, 3, 3})},
            {{"group", int64_t{4}}, {"auto_pad", std::string("SAME_UPPER")}, {"strides", Ints{2, 2}}}));
  output(op("Conv", {x, random({6, 2, 2, 3})},
            {{"group", int64_t{2}}, {"auto_pad", std::string("SAME_LOWER")}, {"strides", Ints{1, 3}}}));
  check({{{"N", 1}, {"H", 5}, {"W", 8}}, {{"N", 2}, {"H", 1}, {"W", 1}}, {{"N", 0}, {"H", 4}, {"W", 7}}});
}

TEST_F(OpenSizes, ChannelsOfConvolutions) {
  Value* x = input("x", {1, size("C"), 5, 5});
  Value* w = input("w", {size("O"), size("C"), 3, 3});
  output(op("Conv", {x, w, input("b", {size("B")})}));
  output(op("ConvTranspose", {x, input("v", {size("C"), size("P"), 2, 2})}, {{"strides", Ints{2, 2}}}));
  check({{{"C", 3}, {"O", 4}, {"B", 4}, {"P", 2}}, {{"C", 0}, {"O", 1}, {"B", 1}, {"P", 0}}});
}

TEST_F(OpenSizes, KernelExtentsMustBeFixed) {
  Value* x = input("x", {1, 2, 5, 5});
  output(op("Conv", {x, input("w", {2, 2, size("K"), 3})}));
  g.sort();
  const auto done = optimize(g);
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().code, ErrorCode::E604);
  EXPECT_NE(done.error().to_string().find("kernel extents"), std::string::npos);
}

TEST_F(OpenSizes, TransposedConvolutions) {
  Value* x = input("x", {size("N"), 3, size("H", 1), size("W", 1)});
  Value* w = random({3, 2, 3, 3});
  output(op("ConvTranspose", {x, w}, {{"strides", Ints{2, 2}}}));
  output(op("ConvTranspose", {x, w, random({2})},
            {{"strides", Ints{2, 2}}, {"pads", Ints{1, 1, 1, 1}}, {"output_padding", Ints{1, 1}}}));
  output(op("ConvTranspose", {x, w}, {{"strides", Ints{2, 1}}, {"auto_pad", std::string("SAME_UPPER")}}));
  output(op("ConvTranspose", {x, w}, {{"strides", Ints{3, 3}}, {"output_shape", Ints{16, 14}}}));
  output(op("ConvTranspose", {x, w}, {{"strides", Ints{2, 2}}, {"dilations", Ints{2, 2}}}));
  check({{{"N", 1}, {"H", 5}, {"W", 4}}, {{"N", 2}, {"H", 5}, {"W", 5}}, {{"N", 0}, {"H", 6}, {"W", 5}}});
}

TEST_F(OpenSizes, Pooling) {
  Value* x = input("x", {size("N"), 3, size("H", 3), size("W", 3)});
  for (const char* pool : {"MaxPool", "AveragePool"}) {
    for (const int64_t ceil : {0, 1}) {
      Attrs attrs = window({3, 3}, {2, 2}, {1, 0, 1, 1});
      attrs.set("ceil_mode", ceil);
      if (pool[0] == 'A') attrs.set("count_include_pad", ceil);
      output(op(pool, {x}, attrs));
    }
    output(op(pool, {x},
              {{"kernel_shape", Ints{2, 3}}, {"auto_pad", std::string("SAME_UPPER")}, {"strides", Ints{2, 2}}}));
    output(op(std::string("Global") + pool, {x}));
  }
  check({{{"N", 1}, {"H", 6}, {"W", 9}}, {{"N", 2}, {"H", 3}, {"W", 3}}, {{"N", 0}, {"H", 7}, {"W", 4}}});
}

// --- resampling

TEST_F(OpenSizes, ResizedByScales) {
  Value* x = input("x", {size("N"), 2, size("H"), size("W")});
  const auto scales = [&](double h, double w) { return std::vector<double>{1, 1, h, w}; };
  for (const char* where : {"half_pixel", "pytorch_half_pixel", "half_pixel_symmetric", "asymmetric", "align_corners"})
    for (const char* mode : {"nearest", "linear", "cubic"})
      for (const auto& list : {scales(2, 3), scales(0.5, 1.5)})
        output(op(
            "Resize", {x},
            {{"scales", list}, {"mode", std::string(mode)}, {"coordinate_transformation_mode", std::string(where)}}));
  for (const char* rounding : {"round_prefer_floor", "round_prefer_ceil", "floor", "ceil"})
    output(op("Resize", {x}, {{"scales", scales(2, 0.25)}, {"nearest_mode", std::string(rounding)}}));
  // As f32 has it, which is no ratio of small numbers.
  output(op("Resize", {x}, {{"scales", scales(0.6F, 1)}, {"mode", std::string("linear")}}));
  check({{{"N", 1}, {"H", 4}, {"W", 6}},
         {{"N", 1}, {"H", 7}, {"W", 5}},
         {{"N", 2}, {"H", 1}, {"W", 1}},
         {{"N", 1}, {"H", 0}, {"W", 3}}});
}

TEST_F(OpenSizes, ResizedToSizes) {
  Value* x = input("x", {1, 2, size("H", 1), size("W", 1)});
  Value* like = input("like", {1, 5, size("P"), size("Q")});
  Value* sizes = list({extent(x, 0), extent(x, 1), op("Shape", {like}, {{"start", int64_t{2}}})});
  for (const char* mode : {"nearest", "linear", "cubic"}) {
    output(op("Resize", {x, nullptr, nullptr, sizes}, {{"mode", std::string(mode)}}));
    output(op("Resize", {x},
              {{"sizes", Ints{1, 2, 7, 9}},
               {"mode", std::string(mode)},
               {"coordinate_transformation_mode", std::string("align_corners")}}));
    for (const char* policy : {"not_larger", "not_smaller"})
      output(op("Resize", {x},
                {{"sizes", Ints{7, 9}},
                 {"axes", Ints{2, 3}},
                 {"mode", std::string(mode)},
                 {"keep_aspect_ratio_policy", std::string(policy)}}));
  }
  check({{{"H", 4}, {"W", 6}, {"P", 8}, {"Q", 3}},
         {{"H", 1}, {"W", 5}, {"P", 1}, {"Q", 11}},
         {{"H", 3}, {"W", 3}, {"P", 0}, {"Q", 2}}});
}

// --- moving elements

TEST_F(OpenSizes, Slices) {
  Value* x = input("x", {size("N"), size("M")});
  const auto slice = [&](Ints starts, Ints ends, Ints axes, Ints steps) {
    output(op("Slice", {x, ints(starts), ints(ends), ints(axes), ints(steps)}));
  };
  slice({1}, {INT64_MAX}, {0}, {1});
  slice({-3}, {INT64_MAX}, {0}, {1});
  slice({2}, {-1}, {1}, {1});
  slice({-4}, {-2}, {1}, {1});
  slice({0, 1}, {5, 100}, {0, 1}, {2, 3});
  slice({-1}, {INT64_MIN}, {0}, {-1});
  slice({-2, 5}, {0, -100}, {0, 1}, {-1, -2});
  slice({4}, {1}, {1}, {-1});
  slice({3}, {2}, {0}, {1});
  // A part whose place depends on another size.
  output(op("Slice", {x, extent(x, 1), extent(x, 0), ints({0})}));
  check(
      {{{"N", 7}, {"M", 5}}, {{"N", 1}, {"M", 1}}, {{"N", 0}, {"M", 6}}, {{"N", 3}, {"M", 0}}, {{"N", 12}, {"M", 9}}});
}

TEST_F(OpenSizes, Padding) {
  Value* x = input("x", {size("N", 3), size("M", 3)});
  for (const char* mode : {"constant", "reflect", "edge", "wrap"}) {
    output(op("Pad", {x, ints({1, 0, 2, 1})}, {{"mode", std::string(mode)}}));
  }
  output(op("Pad", {x, ints({-1, 1, 0, -2})}));
  // To a multiple of four.
  Value* rest = op("Mod", {extent(x, 0), ints({4})});
  Value* more = op("Mod", {op("Sub", {ints({4}), rest}), ints({4})});
  output(op("Pad", {x, list({ints({0, 0}), more, ints({0})})}));
  check({{{"N", 5}, {"M", 3}}, {{"N", 8}, {"M", 4}}});
}

TEST_F(OpenSizes, EmptyPadding) {
  Value* x = input("x", {size("N"), 2});
  output(op("Pad", {x, ints({1, 0, 1, 0})}));
  check({{{"N", 0}}, {{"N", 1}}});
}

TEST_F(OpenSizes, GathersAndParts) {
  below["i"] = 3;
  Value* x = input("x", {size("N", 1), size("M"), 4});
  Value* i = input("i", {size("K"), 2}, kI64);
  output(op("Gather", {input("t", {size("V", 3), 5}), i}));
  output(op("Gather", {x, integer(-1)}));
  output(op("Transpose", {x}, {{"perm", Ints{2, 0, 1}}}));
  output(op("Concat", {x, x, op("Relu", {x})}, {{"axis", int64_t{1}}}));
  for (Value* part : node(g, "Split", {x}, {{"axis", int64_t{1}}}, 2)->outputs) output(part);
  output(op("Trilu", {x}, {{"k", int64_t{1}}}));
  output(op("Trilu", {op("Transpose", {x})}, {{"upper", int64_t{0}}}));
  check({{{"N", 2}, {"M", 5}, {"K", 3}, {"V", 4}},
         {{"N", 1}, {"M", 1}, {"K", 1}, {"V", 3}},
         {{"N", 3}, {"M", 0}, {"K", 0}, {"V", 7}}});
}

TEST_F(OpenSizes, WhatIsGatheredMustBeThere) {
  Value* x = input("x", {size("N"), 2});
  output(op("Gather", {x, integer(0)}));
  g.sort();
  ASSERT_TRUE(optimize(g));
  ASSERT_EQ(g.size_checks().size(), 1u);
  EXPECT_EQ(g.size_checks()[0].value.to_string(), "N - 1");
}

// --- where data say

TEST_F(OpenSizes, Scatters) {
  below["i"] = below["p"] = 3;
  Value *x = input("x", {size("N"), size("M"), 4}), *i = input("i", {size("K"), size("M"), 4}, kI64),
        *u = input("u", {size("K"), size("M"), 4});
  for (const char* how : {"none", "add", "mul", "max", "min"})
    output(op("ScatterElements", {x, i, u}, {{"axis", int64_t{0}}, {"reduction", std::string(how)}}));
  output(op("ScatterElements", {x, op("Neg", {i}), u}, {{"axis", int64_t{-1}}}));
  output(op("ScatterND", {x, input("p", {size("K"), 1}, kI64), u}));
  output(op("ScatterND", {x, input("q", {size("K"), 2}, kI64), op("Gather", {u, integer(0)}, {{"axis", int64_t{1}}})},
            {{"reduction", std::string("add")}}));
  output(op("GatherND", {input("t", {size("K"), size("V", 3)}), input("p", {size("K"), 1}, kI64)},
            {{"batch_dims", int64_t{1}}}));
  check({{{"N", 3}, {"M", 5}, {"K", 4}, {"V", 3}},
         {{"N", 2}, {"M", 1}, {"K", 6}, {"V", 4}},
         {{"N", 0}, {"M", 2}, {"K", 1}, {"V", 3}},
         {{"N", 4}, {"M", 3}, {"K", 0}, {"V", 5}}});
}

TEST_F(OpenSizes, TheLargestAndTheLeast) {
  Value* x = input("x", {size("N"), size("M"), 3});
  Value* k = extent(input("like", {size("K")}), 0);
  for (const int64_t axis : {0, 1})
    for (const int64_t largest : {0, 1})
      for (Value* part : node(g, "TopK", {x, k}, {{"axis", axis}, {"largest", largest}}, 2)->outputs) output(part);
  for (Value* part : node(g, "TopK", {x, ints({2})}, {}, 2)->outputs) output(part);
  check({{{"N", 6}, {"M", 5}, {"K", 3}},
         {{"N", 4}, {"M", 7}, {"K", 4}},
         {{"N", 1}, {"M", 1}, {"K", 1}},
         {{"N", 2}, {"M", 3}, {"K", 0}}});
}

TEST_F(OpenSizes, BoundedOperators) {
  below["i"] = 4;
  Value* x = input("x", {size("N"), size("M")});
  Value* i = input("i", {size("N"), size("K")}, kI64);
  const auto all = [&](const char* name, std::vector<Value*> inputs, Attrs attrs, size_t n) {
    for (Value* part : node(g, name, std::move(inputs), std::move(attrs), n)->outputs) output(part);
  };
  all("BoundedNonZero", {op("Relu", {x})}, {}, 2);
  all("BoundedNonZero", {i}, {}, 2);
  for (const int64_t sorted : {0, 1}) all("BoundedUnique", {i}, {{"sorted", sorted}}, 4);
  Value *boxes = input("boxes", {size("B"), size("M"), 4}), *scores = input("scores", {size("B"), 2, size("M")});
  all("BoundedNonMaxSuppression", {boxes, scores, ints({3}), number(0.2), number(-1)}, {}, 2);
  all("BoundedNonMaxSuppression", {boxes, scores, input("most", {1}, kI64)}, {{"center_point_box", int64_t{1}}}, 2);
  check({{{"N", 6}, {"M", 9}, {"K", 1}, {"B", 2}},
         {{"N", 9}, {"M", 4}, {"K", 2}, {"B", 1}},
         {{"N", 1}, {"M", 1}, {"K", 1}, {"B", 1}},
         {{"N", 0}, {"M", 0}, {"K", 0}, {"B", 1}},
         {{"N", 3}, {"M", 2}, {"K", 0}, {"B", 0}}});
}

TEST_F(OpenSizes, BlocksOfChannels) {
  Value* x = input("x", {1, size("C", 0, kMaxDim, 4), size("H"), 4});
  output(op("DepthToSpace", {x}, {{"blocksize", int64_t{2}}}));
  output(op("DepthToSpace", {x}, {{"blocksize", int64_t{2}}, {"mode", std::string("CRD")}}));
  Value* y = input("y", {1, size("K"), size("P", 0, kMaxDim, 2), 4});
  output(op("SpaceToDepth", {y}, {{"blocksize", int64_t{2}}}));
  check({{{"C", 8}, {"H", 3}, {"K", 2}, {"P", 4}}, {{"C", 4}, {"H", 0}, {"K", 0}, {"P", 2}}});
}

// --- tensors from sizes

TEST_F(OpenSizes, TensorsOfSizes) {
  below["i"] = 4;
  Value* x = input("x", {size("N"), size("M")});
  Value *n = op("Squeeze", {extent(x, 0), ints({0})}), *m = op("Squeeze", {extent(x, 1), ints({0})});
  output(op("Range", {integer(0), n, integer(1)}));
  output(op("Range", {n, op("Mul", {m, integer(3)}), integer(2)}));
  output(op("Range", {n, op("Neg", {m}), integer(-2)}));
  output(op("ConstantOfShape", {op("Shape", {x})}));
  output(op("EyeLike", {x}, {{"k", int64_t{-1}}}));
  output(op("OneHot", {input("i", {size("K")}, kI64), n, random({2})}));
  output(op("Expand", {input("row", {1, size("M")}), op("Shape", {x})}));
  output(op("Expand", {x, ints({1, 1})}));
  output(op("Tile", {x, list({extent(x, 1), ints({2})})}));
  check({{{"N", 3}, {"M", 5}, {"K", 4}},
         {{"N", 1}, {"M", 1}, {"K", 1}},
         {{"N", 0}, {"M", 2}, {"K", 0}},
         {{"N", 6}, {"M", 0}, {"K", 3}}});
}

TEST_F(OpenSizes, ShapeArithmetic) {
  Value* x = input("x", {size("N"), size("S"), 12});
  Value *n = extent(x, 0), *s = extent(x, 1);
  // Heads of attention, and back.
  Value* heads = op("Reshape", {x, list({n, s, ints({3, 4})})});
  Value* turned = op("Transpose", {heads}, {{"perm", Ints{0, 2, 1, 3}}});
  output(op("Reshape", {turned, list({op("Mul", {n, ints({3})}), ints({-1}), ints({4})})}));
  // -1 stands for an extent, as exporters of expansions write it.
  Value* wanted = list({n, ints({-1}), ints({12})});
  Value* is_one = op("Equal", {wanted, ints({-1})});
  Value* ones = op("ConstantOfShape", {op("Shape", {wanted})}, {{"value", int_list(Ints{1})}});
  output(op("Expand", {input("row", {1, 1, 12}), op("Where", {is_one, ones, wanted})}));
  // The first half.
  Value* half = op("Div", {op("Add", {s, ints({1})}), ints({2})});
  output(op("Slice", {x, ints({0}), half, ints({1})}));
  Value* all = op("ReduceProd", {op("Shape", {x})}, {{"keepdims", int64_t{1}}});
  output(
      op("Reshape", {x, op("Unsqueeze", {op("Squeeze", {all, ints({0})}), ints({0})})}, {{"allowzero", int64_t{1}}}));
  output(op("Reshape", {x, list({op("Max", {n, n}), op("Min", {s, op("Add", {s, n})}), ints({12})})}));
  output(op("Flatten", {x}, {{"axis", int64_t{2}}}));
  check({{{"N", 2}, {"S", 5}}, {{"N", 1}, {"S", 1}}, {{"N", 3}, {"S", 0}}});
}

TEST_F(OpenSizes, BroadcastSizesMustBeEqual) {
  output(op("Add", {input("x", {size("N"), size("M")}), input("y", {size("K"), 3})}));
  g.sort();
  ASSERT_TRUE(optimize(g));
  EXPECT_EQ(to_string(g.inputs()[0]->shape()), "[K, 3]");
  EXPECT_EQ(to_string(g.inputs()[1]->shape()), "[K, 3]");
}

// --- reductions

TEST_F(OpenSizes, SumsInTurn) {
  Value* x = input("x", {size("N"), 3});
  Value* i = input("i", {2, size("N")}, kI64);
  for (const int64_t reverse : {0, 1})
    for (const int64_t exclusive : {0, 1}) {
      output(op("CumSum", {x, integer(0)}, {{"reverse", reverse}, {"exclusive", exclusive}}));
      output(op("CumSum", {i, integer(1)}, {{"reverse", reverse}, {"exclusive", exclusive}}));
    }
  check({{{"N", 5}}, {{"N", 0}}, {{"N", 1}}, {{"N", 64}}, {{"N", 65}}, {{"N", 4100}}});
}

TEST_F(OpenSizes, Reductions) {
  Value* x = input("x", {size("N"), size("M"), 3});
  Value* i = input("i", {size("N"), 4}, kI64);
  for (const char* reduction : {"ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceL1",
                                "ReduceL2", "ReduceLogSumExp", "ReduceSumSquare"}) {
    output(op(reduction, {x}, {{"axes", Ints{0, 2}}}));
    output(op(reduction, {x}, {{"axes", Ints{1}}, {"keepdims", int64_t{0}}}));
  }
  output(op("ReduceMean", {i}, {{"axes", Ints{0}}}));
  for (const char* extreme : {"ArgMax", "ArgMin"}) output(op(extreme, {x}, {{"axis", int64_t{2}}}));
  for (const int64_t axis : {0, 1, 2}) {
    output(op("Softmax", {x}, {{"axis", axis}}));
    output(op("LogSoftmax", {x}, {{"axis", axis}}));
  }
  output(op("LayerNormalization", {x, random({3}), random({3})}));
  output(op("LayerNormalization", {x, input("w", {size("M"), 3})}, {{"axis", int64_t{1}}}));
  output(op("LpNormalization", {x}, {{"axis", int64_t{1}}}));
  check({{{"N", 2}, {"M", 5}}, {{"N", 1}, {"M", 1}}, {{"N", 4}, {"M", 0}}});
}

TEST_F(OpenSizes, PlacesOfExtremes) {
  Value* x = input("x", {size("N", 1), size("M")});
  for (const char* extreme : {"ArgMax", "ArgMin"})
    for (const int64_t last : {0, 1}) output(op(extreme, {x}, {{"axis", int64_t{0}}, {"select_last_index", last}}));
  check({{{"N", 7}, {"M", 5}}, {{"N", 1}, {"M", 1}}, {{"N", 3}, {"M", 0}}});
}

TEST_F(OpenSizes, NormsOfImages) {
  Value* x = input("x", {size("N"), size("C", 0, kMaxDim, 4), size("H"), size("W")});
  Value *scale = input("scale", {size("C", 0, kMaxDim, 4)}), *bias = input("bias", {size("C", 0, kMaxDim, 4)});
  output(op("GroupNormalization", {x, scale, bias}, {{"num_groups", int64_t{4}}}));
  output(op("InstanceNormalization", {x, scale, bias}));
  output(op("LRN", {x}, {{"size", int64_t{3}}}));
  output(op("BatchNormalization", {x, scale, bias, bias, op("Abs", {scale})}));
  check({{{"N", 2}, {"C", 8}, {"H", 3}, {"W", 5}},
         {{"N", 1}, {"C", 4}, {"H", 1}, {"W", 1}},
         {{"N", 0}, {"C", 4}, {"H", 2}, {"W", 2}}});
}

// --- products

TEST_F(OpenSizes, Products) {
  Value* x = input("x", {size("B"), size("M"), size("K")});
  output(op("MatMul", {x, input("y", {size("B"), size("K"), size("N")})}));
  output(op("MatMul", {x, input("z", {size("K")})}));
  output(op("Gemm", {input("a", {size("K"), size("M")}), input("b", {size("N"), size("K")}), input("c", {size("N")})},
            {{"transA", int64_t{1}}, {"transB", int64_t{1}}, {"alpha", 0.5}}));
  check({{{"B", 2}, {"M", 3}, {"K", 4}, {"N", 5}},
         {{"B", 1}, {"M", 1}, {"K", 1}, {"N", 1}},
         {{"B", 3}, {"M", 2}, {"K", 0}, {"N", 4}},
         {{"B", 0}, {"M", 2}, {"K", 3}, {"N", 4}}});
}

// --- control flow

TEST_F(OpenSizes, RecurrentLayers) {
  Value* x = input("x", {size("T"), size("N"), 3});
  const auto layer = [&](const char* name, int64_t gates, const char* direction) {
    const int64_t directions = direction == std::string("bidirectional") ? 2 : 1;
    Node* made = node(
        g, name,
        {x, random({directions, gates * 4, 3}), random({directions, gates * 4, 4}), random({directions, 8 * gates})},
        {{"hidden_size", int64_t{4}}, {"direction", std::string(direction)}}, 2);
    for (Value* result : made->outputs) output(result);
  };
  layer("LSTM", 4, "bidirectional");
  layer("GRU", 3, "forward");
  layer("RNN", 1, "reverse");
  check({{{"T", 5}, {"N", 2}}, {{"T", 1}, {"N", 1}}, {{"T", 0}, {"N", 3}}, {{"T", 3}, {"N", 0}}});
}

TEST_F(OpenSizes, HiddenSizeMustBeFixed) {
  Value* x = input("x", {size("T"), 2, 3});
  Value *w = input("w", {1, size("G"), 3}), *r = input("r", {1, size("G"), size("H")});
  output(node(g, "RNN", {x, w, r}, {}, 1)->output());
  g.sort();
  const auto done = optimize(g);
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().code, ErrorCode::E604);
  EXPECT_NE(done.error().to_string().find("hidden size must be fixed"), std::string::npos);
}

TEST_F(OpenSizes, LoopsAndBranches) {
  Value* x = input("x", {size("T"), size("N")});
  Value* steps = op("Squeeze", {extent(x, 0), ints({0})});
  // Sums of rows, and each sum so far.
  auto body = std::make_shared<Graph>("body");
  Value *i = body->add_input("i"), *condition = body->add_input("condition"), *sum = body->add_input("sum");
  Value* rows = body->add_input("rows");
  Value* row = node(*body, "Gather", {rows, i})->output();
  Value* next = node(*body, "Add", {sum, row})->output();
  body->add_output("condition", condition);
  body->add_output("sum", next);
  body->add_output("row", node(*body, "Relu", {next})->output());
  Value* zeros = op("ConstantOfShape", {extent(x, 1)});
  Node* loop = node(g, "Loop", {steps, nullptr, zeros, x}, {{"carried", int64_t{1}}}, 2);
  loop->bodies.push_back(body);
  for (Value* result : loop->outputs) output(result);
  // One or the other, by an element.
  Node* branch = node(g, "If", {input("takes", {}, kBool), x});
  for (const char* name : {"Exp", "Neg"}) {
    auto taken = std::make_shared<Graph>(name);
    taken->add_output("y", node(*taken, name, {taken->add_input("x")})->output());
    branch->bodies.push_back(taken);
  }
  output(branch->output());
  check({{{"T", 4}, {"N", 3}}, {{"T", 1}, {"N", 1}}, {{"T", 0}, {"N", 2}}, {{"T", 2}, {"N", 0}}});
}

TEST_F(OpenSizes, RulesOfABranchHoldWhereItIsTaken) {
  Value* x = input("x", {size("N")});
  Value* n = op("Squeeze", {extent(x, 0), ints({0})});
  Node* branch = node(g, "If", {op("Equal", {n, integer(3)}), x});
  for (const bool adds : {true, false}) {
    auto body = std::make_shared<Graph>(adds ? "then" : "else");
    Value* y = body->add_input("x");
    if (adds) y = node(*body, "Add", {y, body->add_constant("c", *filled(0.5, kF32, {3}))})->output();
    body->add_output("y", node(*body, "ReduceSum", {y})->output());
    branch->bodies.push_back(body);
  }
  output(branch->output());
  check({{{"N", 3}}, {{"N", 5}}, {{"N", 0}}});
}

// What a loop without iterations would divide by is not divided by before it, either.
TEST_F(OpenSizes, NothingFailsBeforeALoopWithoutIterations) {
  Value* x = input("x", {size("T"), 2});
  Value* steps = op("Squeeze", {extent(x, 0), ints({0})});
  Value* divisor = input("divisor", {size("T")}, kI64);
  auto body = std::make_shared<Graph>("body");
  Value *i = body->add_input("i"), *condition = body->add_input("condition"), *sum = body->add_input("sum");
  Value *all = body->add_input("all"), *divisors = body->add_input("divisors");
  static_cast<void>(i);
  Value* zero = body->add_constant("zero", reshaped(int_list(Ints{0}), {}));
  Value* first = node(*body, "Gather", {all, zero})->output();
  Value* one = body->add_constant("one", reshaped(int_list(Ints{1}), {}));
  Value* least = node(*body, "Max", {node(*body, "Gather", {divisors, zero})->output(), one})->output();
  Value* quotient = node(*body, "Div", {one, least})->output();
  Value* factor = node(*body, "Cast", {quotient}, {{"to", int64_t{1}}})->output();
  body->add_output("condition", condition);
  body->add_output("sum", node(*body, "Add", {sum, node(*body, "Mul", {first, factor})->output()})->output());
  Node* loop = node(g, "Loop", {steps, nullptr, random({2}), x, divisor}, {{"carried", int64_t{1}}}, 1);
  loop->bodies.push_back(body);
  output(loop->output());
  check({{{"T", 3}}, {{"T", 0}}});
}

// --- what passes make of open graphs

TEST_F(OpenSizes, AttentionIsOptimizedAlike) {
  Value* x = input("x", {size("N"), size("S"), 16});
  Value *n = extent(x, 0), *s = extent(x, 1);
  const auto heads = [&](Value* of) {
    Value* split =
        op("Reshape", {op("Add", {op("MatMul", {of, random({16, 16})}), random({16})}), list({n, s, ints({4, 4})})});
    return op("Transpose", {split}, {{"perm", Ints{0, 2, 1, 3}}});
  };
  Value *q = heads(x), *k = op("Transpose", {heads(x)}, {{"perm", Ints{0, 1, 3, 2}}}), *v = heads(x);
  Value* scores = op("Softmax", {op("Div", {op("MatMul", {q, k}), number(2)})}, {{"axis", int64_t{-1}}});
  Value* context = op("Transpose", {op("MatMul", {scores, v})}, {{"perm", Ints{0, 2, 1, 3}}});
  Value* joined = op("Reshape", {context, list({n, s, ints({16})})});
  Value* y = op("Add", {x, op("Add", {op("MatMul", {joined, random({16, 16})}), random({16})})});
  // A layer norm, as exporters spell it.
  Value* d = op("Sub", {y, op("ReduceMean", {y}, {{"axes", Ints{-1}}})});
  Value* variance = op("ReduceMean", {op("Pow", {d, number(2)})}, {{"axes", Ints{-1}}});
  Value* norm = op("Div", {d, op("Sqrt", {op("Add", {variance, number(1e-5)})})});
  y = op("Add", {op("Mul", {norm, random({16})}), random({16})});
  Value* wide = op("MatMul", {y, random({16, 32})});
  Value* erf = op("Add", {op("Erf", {op("Div", {wide, number(M_SQRT2)})}), number(1)});
  output(op("MatMul", {op("Mul", {op("Mul", {wide, erf}), number(0.5)}), random({32, 16})}));
  check_operators({{"N", 2}, {"S", 5}});
  check({{{"N", 2}, {"S", 5}}, {{"N", 1}, {"S", 1}}, {{"N", 1}, {"S", 0}}});
}

TEST_F(OpenSizes, ImageNetworksAreOptimizedAlike) {
  Value* x = input("x", {size("N"), 3, size("H", 8), size("W", 8)});
  const auto norm = [&](Value* of, int64_t channels) {
    Value* variance = g.add_constant("variance", *filled(0.7, kF32, {channels}));
    return op("BatchNormalization", {of, random({channels}), random({channels}), random({channels}), variance});
  };
  const auto swish = [&](Value* of) { return op("Mul", {of, op("Sigmoid", {of})}); };
  Value* y = swish(norm(op("Conv", {x, random({8, 3, 3, 3})}, window({3, 3}, {2, 2}, {1, 1, 1, 1})), 8));
  Value* z = op("Conv", {y, random({8, 1, 3, 3})},
                {{"group", int64_t{8}}, {"pads", Ints{1, 1, 1, 1}}, {"kernel_shape", Ints{3, 3}}});
  z = op("Clip", {norm(z, 8)}, {{"min", 0.0}, {"max", 6.0}});
  y = op("Add", {norm(op("Conv", {z, random({8, 8, 1, 1})}), 8), y});
  // A head: what is coarse joins what is fine; two convolutions read the same.
  Value* coarse = op("MaxPool", {y}, window({2, 2}, {2, 2}, {0, 0, 0, 0}));
  Value* fine = op("Resize", {coarse},
                   {{"scales", std::vector<double>{1, 1, 2, 2}},
                    {"coordinate_transformation_mode", std::string("asymmetric")},
                    {"nearest_mode", std::string("floor")}});
  Value* down = op("Resize", {y, nullptr, nullptr, op("Shape", {fine})}, {{"mode", std::string("linear")}});
  Value* both = op("Concat", {fine, down}, {{"axis", int64_t{1}}});
  Value *a = op("Conv", {both, random({4, 16, 1, 1})}), *b = op("Conv", {both, random({4, 16, 1, 1})});
  output(op("Transpose", {a}, {{"perm", Ints{0, 2, 3, 1}}}));
  output(op("Reshape", {b, list({extent(b, 0), ints({4, -1})})}));
  output(op("ConvTranspose", {y, random({8, 2, 2, 2})}, {{"strides", Ints{2, 2}}}));
  output(op("ConvTranspose", {y, random({8, 9, 3, 3})}, {{"strides", Ints{2, 2}}}));
  check_operators({{"N", 2}, {"H", 9}, {"W", 12}});
  check({{{"N", 2}, {"H", 9}, {"W", 12}}, {{"N", 1}, {"H", 8}, {"W", 8}}, {{"N", 3}, {"H", 11}, {"W", 16}}});
}

TEST_F(OpenSizes, RecurrentLayersAreOptimizedAlike) {
  Value* x = input("x", {size("T"), size("N"), 3});
  Node* layer = node(g, "LSTM", {x, random({2, 16, 3}), random({2, 16, 4}), random({2, 32})},
                     {{"hidden_size", int64_t{4}}, {"direction", std::string("bidirectional")}}, 3);
  Value* rows = op("Reshape", {op("Transpose", {layer->output()}, {{"perm", Ints{0, 2, 1, 3}}}), ints({0, 0, -1})});
  output(op("Softmax", {op("MatMul", {rows, random({8, 5})})}));
  check_operators({{"T", 6}, {"N", 2}});
}

}  // namespace
}  // namespace fettle
