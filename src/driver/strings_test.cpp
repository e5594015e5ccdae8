// Models of strings, compiled: in this process and as a file.

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "driver/compile.h"
#include "graph/op.h"
#include "graph/passes/pipeline.h"
#include "graph/strings.h"

namespace fettle {
namespace {

using Texts = std::vector<std::string>;

CompileOptions host_options() {
  CompileOptions options;
  options.target = detect_host(1);
  options.threads = 1;
  options.name = "test";
  return options;
}

/// One input, a list.
std::vector<NamedTensor> given(const Texts& texts) {
  std::vector<NamedTensor> inputs(1);
  inputs[0] = {"x", Tensor::of_strings(texts, {std::ssize(texts)}).value()};
  return inputs;
}

Texts texts_of(const Tensor& tensor) {
  const auto strings = tensor.strings();
  return {strings.begin(), strings.end()};
}

/// labels: what is a key becomes its value, else "none"; parts: words; known: whether it is a key.
Graph words_graph() {
  Graph g("words");
  Value* x = g.add_input("x", {kString, {Dim::symbol("n", 0, 100000)}});
  Attrs labels{{"keys_strings", Texts{"ü", "a", "z"}}, {"default_string", std::string("none")}};
  labels.set("values_strings", Texts{"Umlaut", "Ä", "last"});
  g.add_output("labels", g.add_node(find_op("ai.onnx.ml.LabelEncoder"), "encode", {x}, std::move(labels))->output());
  Node* split = g.add_node(find_op("StringSplit"), "split", {x}, {}, {}, 2);
  g.add_output("parts", split->outputs[0]);
  g.add_output("count", split->outputs[1]);
  Node* match = g.add_node(find_op("RegexFullMatch"), "match", {x}, {{"pattern", std::string("[a-zü]")}});
  g.add_output("known", match->output());
  Value* one = g.add_constant("one", string_tensor(Texts{"a"}, {1}).value());
  g.add_output("is_a", g.add_node(find_op("Equal"), "equal", {x, one})->output());
  g.sort();
  EXPECT_TRUE(optimize(g));
  return g;
}

void expect_words(const Model& model) {
  for (int repeat = 0; repeat < 3; ++repeat) {
    const auto outputs = model.run(given({"z", "", "a b  c", "ü", std::string("a\0", 2), "a"}));
    ASSERT_TRUE(outputs) << outputs.error().to_string();
    const auto at = [&](std::string_view name) -> const Tensor& {
      return std::ranges::find(*outputs, name, &NamedTensor::name)->tensor;
    };
    EXPECT_EQ(texts_of(at("labels")), (Texts{"last", "none", "none", "Umlaut", "none", "Ä"}));
    EXPECT_EQ(texts_of(at("parts")),
              (Texts{"z", "", "", "", "", "", "a", "b", "c", "ü", "", "", std::string("a\0", 2), "", "", "a", "", ""}));
    const auto counts = at("count").elems<int64_t>();
    EXPECT_EQ(std::vector<int64_t>(counts.begin(), counts.end()), (std::vector<int64_t>{1, 0, 3, 1, 1, 1}));
    const auto known = at("known").elems<uint8_t>(), is_a = at("is_a").elems<uint8_t>();
    EXPECT_EQ(std::vector<uint8_t>(known.begin(), known.end()), (std::vector<uint8_t>{1, 0, 0, 1, 0, 1}));
    EXPECT_EQ(std::vector<uint8_t>(is_a.begin(), is_a.end()), (std::vector<uint8_t>{0, 0, 0, 0, 0, 1}));
  }
}

TEST(StringModels, AnArtefactHasATableOfItsOwn) {
  for (int i = 0; i < 1000; ++i) string_number("not the model's " + std::to_string(i));
  const Graph g = words_graph();
  const auto compiled = compile_model(g, host_options());
  ASSERT_TRUE(compiled) << compiled.error().to_string();
  const auto info = compiled->load();
  ASSERT_TRUE(info) << info.error().to_string();
  EXPECT_GE((*info)->n_strings, 6);
  EXPECT_LE((*info)->n_strings, 10);  // its own alone
  const auto model = compiled->instantiate();
  ASSERT_TRUE(model) << model.error().to_string();
  expect_words(*model);

  const auto path = std::filesystem::path(testing::TempDir()) / ("words" + std::to_string(getpid()) + ".so");
  ASSERT_TRUE(compiled->write(path));
  {
    const auto loaded = Model::load(path, {});
    ASSERT_TRUE(loaded) << loaded.error().to_string();
    expect_words(*loaded);
  }
  std::filesystem::remove(path);
  std::filesystem::remove(std::filesystem::path(path).replace_extension(".h"));
}

TEST(StringModels, WhatFailsIsTold) {
  Graph g("numbers");
  Value* x = g.add_input("x", {kString, {2}});
  Node* cast = g.add_node(find_op("Cast"), "to_number", {x}, {{"to", int64_t{7}}});
  cast->provenance = {{"Cast", "to_number"}};
  g.add_output("y", cast->output());
  g.sort();
  ASSERT_TRUE(optimize(g));
  const auto model = compile_model(g, host_options())->instantiate();
  ASSERT_TRUE(model) << model.error().to_string();
  EXPECT_TRUE(model->run(given({"1", "-2"})));
  const auto failed = model->run(given({"1", "two"}));
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().code, ErrorCode::E710);
  EXPECT_EQ(failed.error().message,
            "running 'test' failed: compiled code failed in kernel 0 'to_number: Cast', from Cast to_number: "
            "the string 'two' is no number of type i64");
}

TEST(StringModels, StatesOfStringsAreRefused) {
  Graph g("states");
  Value* past = g.add_input("past", {kString, {2}});
  g.add_output("present", g.add_node(find_op("StringConcat"), "concat", {past, past})->output());
  g.add_state({.input = past, .output = 0, .axis = -1, .capacity = {2}});
  g.sort();
  ASSERT_TRUE(optimize(g));
  const auto refused = compile_model(g, host_options());
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::E605);
  EXPECT_EQ(refused.error().message, "a state cannot hold strings: they last for one call");
}

}  // namespace
}  // namespace fettle
