// Strings in graphs: evaluated, planned, refused.

#include "graph/strings.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "graph/evaluate.h"
#include "graph/late_sizes.h"
#include "graph/op.h"
#include "graph/passes/passes.h"
#include "graph/passes/pipeline.h"
#include "graph/plan/plan.h"
#include "graph/plan/testing.h"

namespace fettle {
namespace {

using Ints = std::vector<int64_t>;
using Texts = std::vector<std::string>;

class StringGraph : public testing::Test {
 protected:
  Graph g{"g"};

  Value* input(std::string name, Shape shape) { return g.add_input(std::move(name), {kString, std::move(shape)}); }
  Value* texts(const Texts& list) { return g.add_constant("texts", string_tensor(list, {std::ssize(list)}).value()); }
  Node* node(std::string_view op, std::vector<Value*> inputs, Attrs attrs = {}, size_t n_outputs = 1) {
    return g.add_node(find_op(op), fmt::format("n{}", g.nodes().size()), std::move(inputs), std::move(attrs), {},
                      n_outputs);
  }
  Value* op(std::string_view name, std::vector<Value*> inputs, Attrs attrs = {}) {
    return node(name, std::move(inputs), std::move(attrs))->output();
  }
  void output(Value* value) { g.add_output(fmt::format("y{}", g.outputs().size()), value); }

  /// What the plan's steps make.
  std::map<std::string, ConstantTensor> planned(const std::map<std::string, ConstantTensor>& inputs) {
    g.sort();
    const auto done = optimize(g);
    EXPECT_TRUE(done) << (done ? "" : done.error().to_string());
    if (!done) return {};
    auto plan = make_plan(g);
    EXPECT_TRUE(plan) << (plan ? "" : plan.error().to_string());
    if (!plan) return {};
    assign_memory(*plan, [](int) { return true; });
    text = to_text(*plan);
    return run_plan(g, *plan, inputs);
  }
  void expect(const ConstantTensor& got, const Texts& wanted, const Ints& shape) {
    EXPECT_EQ(to_strings(got), wanted);
    EXPECT_EQ(got.shape, shape);
  }
  Result<> optimized() {
    g.sort();
    return optimize(g);
  }

  std::string text;  // of the plan
};

TEST_F(StringGraph, EqualStringsHaveOneNumber) {
  EXPECT_EQ(string_number(""), 0);
  EXPECT_EQ(string_number("Grüße"), string_number("Grüße"));
  EXPECT_NE(string_number("a"), string_number("b"));
  EXPECT_EQ(string_of(string_number("Grüße")), "Grüße");
}

TEST_F(StringGraph, MovesAndComparesThem) {
  Value* x = input("x", {2, 3});
  Value* turned = op("Transpose", {x}, {{"perm", Ints{1, 0}}});
  Value* both = op("Concat", {turned, op("Transpose", {x}, {{"perm", Ints{1, 0}}})}, {{"axis", int64_t{1}}});
  Value* same = op("Equal", {x, texts({"a", "", "c"})});
  output(op("Where", {same, x, g.add_constant("other", string_scalar("-"))}));
  output(op("Gather", {both, g.add_constant("rows", int_list(Ints{2, 0}))}));
  output(op("Cast", {same}, {{"to", int64_t{7}}}));
  output(op("ScatterElements",
            {x, g.add_constant("places", reshaped(int_list(Ints{2}), {1, 1})),
             g.add_constant("update", reshaped(string_scalar("!"), {1, 1}))},
            {{"axis", int64_t{1}}}));
  Attrs around;
  around.set("pads", Ints{0, 1, 0, 0});
  output(op("Pad", {x, nullptr, g.add_constant("filler", string_scalar("<"))}, std::move(around)));
  output(op("Pad", {x}, {{"pads", Ints{0, 0, 0, 1}}}));
  output(op("Shape", {x}));
  const auto made = planned({{"x", string_tensor(Texts{"a", "b", "c", "d", "", "f"}, {2, 3}).value()}});
  expect(made.at("y0"), {"a", "-", "c", "-", "", "-"}, {2, 3});
  expect(made.at("y1"), {"c", "f", "c", "f", "a", "d", "a", "d"}, {2, 4});
  EXPECT_EQ(to_ints(made.at("y2")), (Ints{1, 0, 1, 0, 1, 0}));
  expect(made.at("y3"), {"a", "b", "!", "d", "", "f"}, {2, 3});
  expect(made.at("y4"), {"<", "a", "b", "c", "<", "d", "", "f"}, {2, 4});
  expect(made.at("y5"), {"a", "b", "c", "", "d", "", "f", ""}, {2, 4});
  EXPECT_EQ(to_ints(made.at("y6")), (Ints{2, 3}));
}

// What a host function reads lies densely, whatever view it is of; what it writes may be a part of a concatenation.
TEST_F(StringGraph, HostFunctionsReadAndWriteDensely) {
  const Dim n = Dim::symbol("n", 0, 100);
  Value* x = input("x", {n, 2});
  Value* turned = op("Transpose", {x}, {{"perm", Ints{1, 0}}});
  Value* louder = op("StringConcat", {turned, g.add_constant("mark", string_scalar("!"))});
  Value* twice = op("Concat", {louder, turned}, {{"axis", int64_t{0}}});
  output(twice);
  output(op("StringConcat", {op("Reshape", {twice}, {{"shape", Ints{-1}}}), texts({"?"})}));
  const auto made = planned({{"x", string_tensor(Texts{"a", "b", "c", "d", "e", "f"}, {3, 2}).value()}});
  expect(made.at("y0"), {"a!", "c!", "e!", "b!", "d!", "f!", "a", "c", "e", "b", "d", "f"}, {4, 3});
  EXPECT_EQ(to_strings(made.at("y1")).at(11), "f?");
  EXPECT_NE(text.find("fettle_host_string_concat"), std::string::npos) << text;
}

TEST_F(StringGraph, HowManyPartsThereAreIsALateSize) {
  Value* x = input("x", {Dim::symbol("n", 0, 100)});
  Node* split = node("StringSplit", {x}, {{"delimiter", std::string("-")}}, 2);
  output(split->outputs[0]);
  output(split->outputs[1]);
  output(op("Equal", {split->outputs[0], g.add_constant("b", string_scalar("b"))}));
  const auto made = planned({{"x", string_tensor(Texts{"a-b", "", "b--b-ü"}, {3}).value()}});
  expect(made.at("y0"), {"a", "b", "", "", "", "", "", "", "b", "", "b", "ü"}, {3, 4});
  EXPECT_EQ(to_ints(made.at("y1")), (Ints{2, 1, 4}));
  EXPECT_EQ(to_ints(made.at("y2")), (Ints{0, 1, 0, 0, 0, 0, 0, 0, 1, 0, 1, 0}));
}

TEST_F(StringGraph, ConstantsAreFolded) {
  Node* split = node("StringSplit", {texts({"a b", " c d  e "})}, {}, 2);
  output(op("StringConcat", {split->outputs[0], g.add_constant("mark", string_scalar("."))}));
  output(op("StringNormalizer", {texts({"Ä", "b", "Ä"})},
            {{"stopwords", Texts{"B"}}, {"case_change_action", std::string("LOWER")}}));
  const auto made = planned({});
  expect(made.at("y0"), {"a.", "b.", ".", "c.", "d.", "e."}, {2, 3});
  expect(made.at("y1"), {"ä", "ä"}, {2});
  EXPECT_EQ(text.find("fettle_host"), std::string::npos) << text;
}

TEST_F(StringGraph, NormalizerDropsStopWords) {
  Value* x = input("x", {1, Dim::symbol("n", 0, 100)});
  output(op("StringNormalizer", {x}, {{"stopwords", Texts{"monday", "ÄRA"}}}));
  output(op("StringNormalizer", {x},
            {{"stopwords", Texts{"Monday"}},
             {"is_case_sensitive", int64_t{1}},
             {"case_change_action", std::string("UPPER")}}));
  output(op("StringNormalizer", {x}, {{"case_change_action", std::string("LOWER")}}));
  const auto inputs = [](const Texts& list) {
    return std::map<std::string, ConstantTensor>{{"x", string_tensor(list, {1, std::ssize(list)}).value()}};
  };
  const auto made = planned(inputs({"Monday", "ära", "Öl"}));
  expect(made.at("y0"), {"Öl"}, {1, 1});
  expect(made.at("y1"), {"ÄRA", "ÖL"}, {1, 2});
  expect(made.at("y2"), {"monday", "ära", "öl"}, {1, 3});
  Plan plan = make_plan(g).value();
  assign_memory(plan, [](int) { return true; });
  expect(run_plan(g, plan, inputs({"MONDAY"})).at("y0"), {""}, {1, 1});
}

TEST_F(StringGraph, CastsReadAndPrintNumbers) {
  Value* x = input("x", {4});
  output(op("Cast", {x}, {{"to", int64_t{1}}}));
  output(op("Cast", {op("Cast", {x}, {{"to", int64_t{11}}})}, {{"to", int64_t{8}}}));
  output(op("CastLike", {x, g.add_constant("like", scalar(0, kF16))}));
  const auto made = planned({{"x", string_tensor(Texts{"1.5", " -2e-3 ", "1e10", "NaN"}, {4}).value()}});
  EXPECT_EQ(made.at("y0").at(0), 1.5);
  EXPECT_EQ(made.at("y0").at(1), static_cast<double>(-2e-3f));
  expect(made.at("y1"), {"1.5", "-0.002", "1e+10", "NaN"}, {4});
  EXPECT_EQ(made.at("y2").at(0), 1.5);
  EXPECT_TRUE(std::isinf(made.at("y2").at(2)));
}

TEST_F(StringGraph, UniqueOnesAreInTheOrderOfTexts) {
  Value* x = input("x", {6});
  const Texts given = {"b", "ä", "a", "b", "", "B"};
  for (const int64_t sorted : {1, 0}) {
    Node* unique = node("Unique", {x}, {{"sorted", sorted}}, 4);
    for (Value* value : unique->outputs) output(value);
  }
  const auto made = planned({{"x", string_tensor(given, {6}).value()}});
  expect(made.at("y0"), {"", "B", "a", "b", "ä"}, {5});
  EXPECT_EQ(to_ints(made.at("y1")), (Ints{4, 5, 2, 0, 1}));
  EXPECT_EQ(to_ints(made.at("y2")), (Ints{3, 4, 2, 3, 0, 1}));
  EXPECT_EQ(to_ints(made.at("y3")), (Ints{1, 1, 1, 2, 1}));
  expect(made.at("y4"), {"b", "ä", "a", "", "B"}, {5});
  EXPECT_EQ(to_ints(made.at("y5")), (Ints{0, 1, 2, 4, 5}));
  EXPECT_EQ(to_ints(made.at("y6")), (Ints{0, 1, 2, 0, 3, 4}));
  EXPECT_EQ(to_ints(made.at("y7")), (Ints{2, 1, 1, 1, 1}));
}

TEST_F(StringGraph, LabelEncoderMapsInEitherDirection) {
  Value* x = input("x", {4});
  const Texts keys = {"z", "ä", "a", "z"};  // the first "z" counts
  Value* number = op("ai.onnx.ml.LabelEncoder", {x},
                     {{"keys_strings", keys}, {"values_int64s", Ints{1, 2, 3, 4}}, {"default_int64", int64_t{-9}}});
  output(number);
  output(op("ai.onnx.ml.LabelEncoder", {number},
            {{"keys_int64s", Ints{3, 1}}, {"values_strings", Texts{"three", "one"}}}));
  output(op("ai.onnx.ml.LabelEncoder", {x}, {{"classes_strings", Texts{"a", "z"}}, {"default_int64", int64_t{7}}}));
  Value* f = g.add_input("f", {kF32, {3}});
  output(op("ai.onnx.ml.LabelEncoder", {f},
            {{"keys_floats", std::vector<double>{NAN, 2, 1}},
             {"values_strings", Texts{"nan", "two", "one"}},
             {"default_string", std::string("?")}}));
  const auto made = planned({{"x", string_tensor(Texts{"z", "b", "a", "ä"}, {4}).value()},
                             {"f", to_tensor(std::vector<double>{1, NAN, 3}, kF32, {3}).value()}});
  EXPECT_EQ(to_ints(made.at("y0")), (Ints{1, -9, 3, 2}));
  expect(made.at("y1"), {"one", "_Unused", "three", "_Unused"}, {4});
  EXPECT_EQ(to_ints(made.at("y2")), (Ints{1, 7, 0, 7}));
  expect(made.at("y3"), {"one", "nan", "?"}, {3});
}

// A loop whose body calls a host function: y = x, with "." behind it three times.
TEST_F(StringGraph, LoopsCarryThem) {
  Value* x = input("x", {2});
  auto body = std::make_shared<Graph>("body");
  body->add_input("i");
  Value* condition = body->add_input("condition");
  Value* carried = body->add_input("carried");
  Node* longer =
      body->add_node(find_op("StringConcat"), "longer", {carried, body->add_constant("dot", string_scalar("."))});
  body->add_output("condition", condition);
  body->add_output("carried", longer->output());
  body->add_output("row", longer->output());
  Node* loop = node("Loop", {g.add_constant("three", reshaped(int_list(Ints{3}), {})), nullptr, x},
                    {{"carried", int64_t{1}}}, 2);
  loop->bodies.push_back(std::move(body));
  output(loop->outputs[0]);
  output(loop->outputs[1]);
  const auto made = planned({{"x", string_tensor(Texts{"a", ""}, {2}).value()}});
  expect(made.at("y0"), {"a...", "..."}, {2});
  expect(made.at("y1"), {"a.", ".", "a..", "..", "a...", "..."}, {3, 2});
}

// In a loop small elementwise kernels become one; a host function stays by itself.
TEST_F(StringGraph, LoopsPrintNumbers) {
  Value* x = g.add_input("x", {kI64, {2}});
  auto body = std::make_shared<Graph>("body");
  body->add_input("i");
  Value* condition = body->add_input("condition");
  Value* carried = body->add_input("carried");
  const auto add = [&](const char* op, std::vector<Value*> inputs, Attrs attrs = {}) {
    return body->add_node(find_op(op), std::string("in_") + op, std::move(inputs), std::move(attrs))->output();
  };
  Value* next = add("Add", {carried, body->add_constant("one", int_list(Ints{1}))});
  body->add_output("condition", condition);
  body->add_output("carried", next);
  body->add_output("text", add("Cast", {next}, {{"to", int64_t{8}}}));
  body->add_output("square", add("Mul", {next, next}));
  Node* loop =
      node("Loop", {g.add_constant("two", reshaped(int_list(Ints{2}), {})), nullptr, x}, {{"carried", int64_t{1}}}, 3);
  loop->bodies.push_back(std::move(body));
  for (Value* value : loop->outputs) output(value);
  const auto made = planned({{"x", int_list(Ints{5, -1})}});
  EXPECT_EQ(to_ints(made.at("y0")), (Ints{7, 1}));
  expect(made.at("y1"), {"6", "0", "7", "1"}, {2, 2});
  EXPECT_EQ(to_ints(made.at("y2")), (Ints{36, 0, 49, 1}));
}

TEST_F(StringGraph, ArithmeticIsRefused) {
  Value* x = input("x", {3});
  output(op("Add", {x, x}));
  const auto refused = optimized();
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::E605);
  EXPECT_EQ(refused.error().message, "Add does not take strings");
}

TEST_F(StringGraph, WhatStringOperatorsRefuse) {
  const auto refused = [&](std::string_view name, DType dtype, Attrs attrs, ErrorCode code, std::string_view why) {
    Graph before = g.clone();
    Value* x = g.add_input("x", {dtype, {3}});
    output(op(name, name == "StringConcat" ? std::vector{x, x} : std::vector{x}, std::move(attrs)));
    const auto done = optimized();
    ASSERT_FALSE(done) << name;
    EXPECT_EQ(done.error().code, code);
    EXPECT_NE(done.error().message.find(why), std::string::npos) << done.error().message;
    g = std::move(before);
  };
  refused("StringConcat", kI64, {}, ErrorCode::E605, "input 0 is of i64, not of strings");
  refused("StringSplit", kF32, {}, ErrorCode::E605, "not of strings");
  refused("StringNormalizer", kString, {{"case_change_action", std::string("TITLE")}}, ErrorCode::E606,
          "case_change_action is TITLE");
  refused("RegexFullMatch", kString, {}, ErrorCode::E606, "it has no pattern");
  refused("RegexFullMatch", kString, {{"pattern", std::string("a(")}}, ErrorCode::E606, "a '(' is not closed");
  refused("Cast", kString, {{"to", int64_t{17}}}, ErrorCode::E605, "go by f32 or i32");
  refused("ai.onnx.ml.LabelEncoder", kString, {{"keys_int64s", Ints{1}}, {"values_int64s", Ints{1}}}, ErrorCode::E605,
          "keys are of i64");
  refused("ai.onnx.ml.LabelEncoder", kString, {{"keys_strings", Texts{"a"}}}, ErrorCode::E606, "lacks keys or values");
  refused("TfIdfVectorizer", kString, {{"pool_int64s", Ints{1}}, {"mode", std::string("TF")}}, ErrorCode::E605,
          "unlike its pool");
}

}  // namespace
}  // namespace fettle
