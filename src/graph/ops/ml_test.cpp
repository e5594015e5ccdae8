// Operators of ai.onnx.ml: what is refused, and results of small models. python/tests/test_ml.py compares them with
// ONNX Runtime.

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>

#include "graph/evaluate.h"
#include "graph/ops/forest.h"
#include "graph/passes/pipeline.h"
#include "graph/strings.h"

namespace fettle {
namespace {

using Ints = std::vector<int64_t>;
using Numbers = std::vector<double>;
using Texts = std::vector<std::string>;
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

ConstantTensor rows(const Numbers& x, Ints shape, DType dtype = kF32) { return *to_tensor(x, dtype, std::move(shape)); }

/// The outputs of one node over x: rows of them, by the interpreter.
Result<std::vector<Numbers>> run(const std::string& op, const ConstantTensor& x, Attrs attrs, size_t n_outputs = 1) {
  Graph g("g");
  Value* input = g.add_input("x", {x.dtype, Shape(x.shape.begin(), x.shape.end())});
  Node* node = g.add_node(find_op("ai.onnx.ml." + op), "layer", {input}, std::move(attrs), {}, n_outputs);
  for (size_t i = 0; i < n_outputs; ++i) g.add_output("y" + std::to_string(i), node->outputs[i]);
  FETTLE_TRY_VOID(optimize(g));
  FETTLE_TRY(const auto made, evaluate(g, {{"x", x}}, interpreter_executor()));
  std::vector<Numbers> all;
  for (size_t i = 0; i < n_outputs; ++i) all.push_back(to_doubles(made.at("y" + std::to_string(i))));
  return all;
}

void expect_refused(const std::string& op, Attrs attrs, ErrorCode code, const std::string& part, Ints shape = {1, 2}) {
  const size_t n_outputs = op.ends_with("Classifier") ? 2 : 1;
  const auto made = run(op, *filled(0, kF32, std::move(shape)), std::move(attrs), n_outputs);
  ASSERT_FALSE(made) << part;
  EXPECT_EQ(made.error().code, code) << part;
  EXPECT_NE(made.error().to_string().find(part), std::string::npos) << made.error().to_string();
}

Attrs with(Attrs attrs, const Attrs& more) {
  for (const auto& [name, value] : more.entries) attrs.set(name, value);
  return attrs;
}

// x[1] <= 0.5 ? (x[0] < 0 ? 1 : 2) : 4, with the names of `prefix`
Attrs two_branches(const std::string& prefix) {
  Attrs attrs{{"nodes_treeids", Ints{7, 7, 7, 7, 7}},
              {"nodes_nodeids", Ints{0, 1, 2, 3, 4}},
              {"nodes_featureids", Ints{1, 0, 0, 0, 0}},
              {"nodes_modes", Texts{"BRANCH_LEQ", "BRANCH_LT", "LEAF", "LEAF", "LEAF"}},
              {"nodes_truenodeids", Ints{1, 2, 0, 0, 0}},
              {"nodes_falsenodeids", Ints{4, 3, 0, 0, 0}},
              {"nodes_values", Numbers{0.5, 0, 0, 0, 0}}};
  attrs.set(prefix + "_treeids", Ints{7, 7, 7});
  attrs.set(prefix + "_nodeids", Ints{2, 3, 4});
  attrs.set(prefix + "_ids", Ints{0, 0, 0});
  attrs.set(prefix + "_weights", Numbers{1, 2, 4});
  return attrs;
}
Attrs regressor(const Attrs& more = {}) {
  return with(with(two_branches("target"), {{"n_targets", int64_t{1}}}), more);
}

TEST(TreeEnsembles, AWalkComparesAtEachBranch) {
  const auto x = rows({-1, 0.5, 0, 0.5, 0, 0.625, kNan, 0, 0, kNan}, {5, 2});
  const auto y = run("TreeEnsembleRegressor", x, regressor());
  ASSERT_TRUE(y) << y.error().to_string();
  EXPECT_EQ((*y)[0], (Numbers{1, 2, 4, 2, 4}));
  const auto tracked =
      run("TreeEnsembleRegressor", x, regressor({{"nodes_missing_value_tracks_true", Ints{1, 1, 0, 0, 0}}}));
  ASSERT_TRUE(tracked);
  EXPECT_EQ((*tracked)[0], (Numbers{1, 2, 4, 1, 2}));
}

TEST(TreeEnsembles, AMalformedTreeIsRefusedByName) {
  const auto refused = [](const Attrs& more, const std::string& part) {
    expect_refused("TreeEnsembleRegressor", regressor(more), ErrorCode::E606, part);
  };
  refused({{"nodes_modes", Texts{"BRANCH_LEQ"}}}, "nodes_modes has 1 elements instead of 5");
  refused({{"nodes_values", Numbers{1}}}, "nodes_values has 1 elements");
  refused({{"nodes_values_as_tensor", *filled(0, kF32, {5})}}, "nodes_values and nodes_values_as_tensor");
  refused({{"nodes_missing_value_tracks_true", Ints{1}}}, "nodes_missing_value_tracks_true has 1");
  refused({{"nodes_treeids", Ints{}}}, "no nodes");
  refused({{"nodes_modes", Texts{"BRANCH_LEQ", "BRANCH_NE", "LEAF", "LEAF", "LEAF"}}}, "the mode \"BRANCH_NE\"");
  refused({{"nodes_nodeids", Ints{0, 1, 2, 3, 3}}}, "node 3 of tree 7 is there twice");
  refused({{"nodes_falsenodeids", Ints{9, 3, 0, 0, 0}}}, "node 0 of tree 7 has a child 9 that is not there");
  refused({{"nodes_falsenodeids", Ints{4, 0, 0, 0, 0}}}, "tree 7 has no root");
  refused({{"nodes_falsenodeids", Ints{4, 1, 0, 0, 0}}}, "node 1 of tree 7 has two parents");
  refused({{"nodes_featureids", Ints{-1, 0, 0, 0, 0}}}, "feature -1");
  refused({{"nodes_values", Numbers{kNan, 0, 0, 0, 0}}}, "NaN");
  refused({{"target_ids", Ints{0, 0}}}, "target_treeids has 3 elements instead of 2");
  refused({{"target_ids", Ints{0, 0, 1}}}, "target_ids has the element 1");
  refused({{"target_nodeids", Ints{2, 3, 8}}}, "node 8 of tree 7, which is not there");
  refused({{"target_nodeids", Ints{2, 3, 3}}}, "node 4 of tree 7 is a leaf without a weight");
  refused({{"n_targets", int64_t{0}}}, "n_targets is 0");
  refused({{"n_targets", int64_t{1} << 40}}, "n_targets is");
  refused({{"base_values", Numbers{1, 2}}}, "base_values has 2 elements");
  refused({{"aggregate_function", std::string("MEDIAN")}}, "aggregate_function is \"MEDIAN\"");
  refused({{"post_transform", std::string("TANH")}}, "post_transform is \"TANH\"");
  refused({{"colour", int64_t{1}}}, "colour");
  expect_refused("TreeEnsembleRegressor", regressor({{"nodes_featureids", Ints{2, 0, 0, 0, 0}}}), ErrorCode::E605,
                 "ask for feature 2");
}

TEST(TreeEnsembles, LabelsOfOneScore) {
  const Attrs model = with(two_branches("class"), {{"classlabels_int64s", Ints{10, 20}}});
  const auto x = rows({-1, 0, 0, 0, 0, 1}, {3, 2});
  // All weights are positive: a score above a half is that of the second class.
  const auto y = run("TreeEnsembleClassifier", x, with(model, {{"class_weights", Numbers{0.25, 0.5, 0.75}}}), 2);
  ASSERT_TRUE(y) << y.error().to_string();
  EXPECT_EQ((*y)[0], (Numbers{10, 10, 20}));
  EXPECT_EQ((*y)[1], (Numbers{0.75, 0.25, 0.5, 0.5, 0.25, 0.75}));
  const auto z = run("TreeEnsembleClassifier", x, with(model, {{"class_weights", Numbers{-0.25, 0, 0.25}}}), 2);
  ASSERT_TRUE(z);
  EXPECT_EQ((*z)[0], (Numbers{10, 10, 20}));
  EXPECT_EQ((*z)[1], (Numbers{0.25, -0.25, 0, 0, -0.25, 0.25}));
  expect_refused("TreeEnsembleClassifier", with(model, {{"post_transform", std::string("PROBIT")}}), ErrorCode::E606,
                 "PROBIT");
  expect_refused("TreeEnsembleClassifier", with(model, {{"class_ids", Ints{0, 1, 0}}, {"base_values", Numbers{1}}}),
                 ErrorCode::E606, "base_values");
  expect_refused("TreeEnsembleClassifier", two_branches("class"), ErrorCode::E606, "classlabels_int64s");
}

Attrs ensemble_of_leaves(const Attrs& more = {}) {
  return with({{"n_targets", int64_t{1}},
               {"tree_roots", Ints{0}},
               {"nodes_featureids", Ints{0, 1}},
               {"nodes_modes", rows({6, 0}, {2}, kU8)},
               {"nodes_splits", rows({0, 0.5}, {2})},
               {"nodes_truenodeids", Ints{0, 1}},
               {"nodes_trueleafs", Ints{1, 1}},
               {"nodes_falsenodeids", Ints{1, 2}},
               {"nodes_falseleafs", Ints{0, 1}},
               {"membership_values", rows({5, -1, 3, 3, 8, 2}, {6})},
               {"leaf_targetids", Ints{0, 0, 0}},
               {"leaf_weights", rows({1, 2, 4}, {3})}},
              more);
}

TEST(TreeEnsembles, MembersAreSearched) {
  Numbers x, want;
  for (const double member : {-1.0, 2.0, 3.0, 5.0, 8.0, -2.0, 0.0, 2.5, 9.0, kNan}) {
    const bool is_member = member == -1 || member == 2 || member == 3 || member == 5 || member == 8;
    x.insert(x.end(), {member, 0});
    want.push_back(is_member ? 1 : 2);
  }
  const auto y = run("TreeEnsemble", rows(x, {10, 2}), ensemble_of_leaves());
  ASSERT_TRUE(y) << y.error().to_string();
  EXPECT_EQ((*y)[0], want);
  want.back() = 1;
  const auto tracked =
      run("TreeEnsemble", rows(x, {10, 2}), ensemble_of_leaves({{"nodes_missing_value_tracks_true", Ints{1, 0}}}));
  ASSERT_TRUE(tracked);
  EXPECT_EQ((*tracked)[0], want);
}

TEST(TreeEnsembles, AMalformedEnsembleOfLeavesIsRefused) {
  const auto refused = [](const Attrs& more, const std::string& part) {
    expect_refused("TreeEnsemble", ensemble_of_leaves(more), ErrorCode::E606, part);
  };
  refused({{"tree_roots", Ints{2}}}, "root is 2");
  refused({{"tree_roots", Ints{}}}, "no trees");
  refused({{"tree_roots", Ints{0, 1}}}, "two parents: branch 1");
  refused({{"nodes_falsenodeids", Ints{0, 2}}}, "a cycle");
  refused({{"nodes_falsenodeids", Ints{1, 3}}}, "node 1 has a child 3");
  refused({{"nodes_modes", rows({7, 0}, {2}, kU8)}}, "mode is 7");
  refused({{"membership_values", rows({kNan}, {1})}}, "membership_values has none for node 0");
  refused({{"leaf_weights", rows({1}, {1})}}, "leaf_weights has 1");
  refused({{"leaf_targetids", Ints{0, 0, 1}}}, "leaf_targetids has the element 1");
  refused({{"aggregate_function", int64_t{4}}}, "aggregate_function is 4");
  refused({{"post_transform", int64_t{5}}}, "post_transform is 5");
}

TEST(TreeEnsembles, AWalkThroughADeepTreeStopsEarly) {
  // A chain: x <= i leads to leaf i.
  Graph g("g");
  Value* x = g.add_input("x", {kF32, {3, 1}});
  Node* node = g.add_node(find_op("ai.onnx.ml.TreeEnsemble"), "chain", {x});
  ops::Forest forest{.dtype = kF32, .n_targets = 1};
  for (size_t i = 0; i < 40; ++i) {
    forest.branches.push_back({.outcomes = ops::kLess | ops::kSame,
                               .split = static_cast<double>(i),
                               .on_true = {true, i},
                               .on_false = {i == 39, i == 39 ? 40 : i + 1}});
    forest.leaves.push_back({{0, 1.0}});
  }
  forest.leaves.push_back({{0, 2.0}});
  forest.roots = {{false, 0}};
  const auto arrays = ops::lay_out(*node, forest, 0);
  ASSERT_TRUE(arrays);
  EXPECT_EQ(arrays->trees, (Ints{0, 2, 0}));
  EXPECT_EQ(arrays->first_leaf, 40);
  EXPECT_EQ(arrays->features.size(), 81u);
  EXPECT_EQ(arrays->children[2 * 40], 40);  // a leaf leads to itself
}

Attrs linear(const Attrs& more = {}) {
  return with({{"coefficients", Numbers{1, 2}}, {"intercepts", Numbers{0.5}}}, more);
}

TEST(LinearModels, ScoresAndLabels) {
  const auto x = rows({1, 1, -1, -1}, {2, 2});
  const auto y = run("LinearRegressor", x, linear());
  ASSERT_TRUE(y) << y.error().to_string();
  EXPECT_EQ((*y)[0], (Numbers{3.5, -2.5}));
  const auto z = run("LinearClassifier", x, linear({{"classlabels_ints", Ints{4, 9}}}), 2);
  ASSERT_TRUE(z) << z.error().to_string();
  EXPECT_EQ((*z)[0], (Numbers{9, 4}));
  EXPECT_EQ((*z)[1], (Numbers{-2.5, 3.5, 3.5, -2.5}));
}

TEST(LinearModels, WhatDoesNotFitIsRefused) {
  expect_refused("LinearRegressor", linear({{"intercepts", Numbers{1, 2}}}), ErrorCode::E606, "intercepts has 2");
  expect_refused("LinearRegressor", linear({{"targets", int64_t{4}}, {"intercepts", Numbers{1, 2, 3, 4}}}),
                 ErrorCode::E606, "coefficients has 2 elements for 4 rows");
  expect_refused("LinearRegressor", linear(), ErrorCode::E605, "features", {1, 3});
  expect_refused("LinearClassifier", linear({{"classlabels_ints", Ints{1, 2, 3}}}), ErrorCode::E606, "3 labels");
  expect_refused("LinearClassifier", linear(), ErrorCode::E606, "classlabels_ints");
}

Attrs svm(const Attrs& more = {}) {
  return with({{"classlabels_ints", Ints{4, 9}},
               {"coefficients", Numbers{1, -1}},
               {"kernel_type", std::string("LINEAR")},
               {"rho", Numbers{0.25}},
               {"support_vectors", Numbers{1, 0, 0, 1}},
               {"vectors_per_class", Ints{1, 1}}},
              more);
}

TEST(SupportVectorMachines, AVoteForEachPair) {
  const auto y = run("SVMClassifier", rows({1, 0, 0, 1}, {2, 2}), svm(), 2);
  ASSERT_TRUE(y) << y.error().to_string();
  EXPECT_EQ((*y)[0], (Numbers{4, 9}));
  EXPECT_EQ((*y)[1], (Numbers{-1.25, 1.25, 0.75, -0.75}));
}

// With classes that are told apart by every pair alike, the probabilities are those of the pairs.
TEST(SupportVectorMachines, ProbabilitiesOfPairs) {
  Graph g("g");
  Value* r = g.add_input("r", {kF32, {1, 3, 3}});
  Node* node = g.add_node(find_op("PairwiseCoupling"), "p", {r});
  g.add_output("y", node->output());
  ASSERT_TRUE(optimize(g));
  // p = (1/2, 1/3, 1/6): r[i, j] = p[i] / (p[i] + p[j])
  const auto made =
      evaluate(g, {{"r", rows({0, 0.6, 0.75, 0.4, 0, 2.0 / 3, 0.25, 1.0 / 3, 0}, {1, 3, 3})}}, interpreter_executor());
  ASSERT_TRUE(made) << made.error().to_string();
  const Numbers p = to_doubles(made->at("y"));
  EXPECT_NEAR(p[0], 0.5, 0.005);
  EXPECT_NEAR(p[1], 1.0 / 3, 0.005);
  EXPECT_NEAR(p[2], 1.0 / 6, 0.005);
}

TEST(SupportVectorMachines, WhatDoesNotFitIsRefused) {
  const auto refused = [](const Attrs& more, const std::string& part) {
    expect_refused("SVMClassifier", svm(more), ErrorCode::E606, part);
  };
  refused({{"kernel_type", std::string("COSINE")}}, "kernel_type is \"COSINE\"");
  refused({{"kernel_params", Numbers{1}}}, "kernel_params has 1");
  refused({{"vectors_per_class", Ints{1}}}, "vectors_per_class has 1");
  refused({{"vectors_per_class", Ints{1, -1}}}, "vectors_per_class has the element -1");
  refused({{"vectors_per_class", Ints{4, 4}}}, "more than support_vectors");
  refused({{"coefficients", Numbers{1}}}, "coefficients has 1");
  refused({{"rho", Numbers{1, 2}}}, "rho has 2");
  refused({{"prob_a", Numbers{1}}}, "prob_b has 0");
  refused({{"classlabels_strings", Texts{"a", "b"}}}, "classlabels_strings");
  expect_refused("SVMRegressor",
                 {{"coefficients", Numbers{1, 1}}, {"rho", Numbers{0}}, {"post_transform", std::string("SOFTMAX")}},
                 ErrorCode::E606, "post_transform");
}

TEST(MlPreprocessing, Results) {
  const auto x = rows({1, -2, 0, kNan}, {2, 2});
  const auto scaled = run("Scaler", x, {{"scale", Numbers{2, 3}}, {"offset", Numbers{1, -1}}});
  ASSERT_TRUE(scaled) << scaled.error().to_string();
  EXPECT_EQ((*scaled)[0][1], -3);
  const auto imputed = run("Imputer", x, {{"imputed_value_floats", Numbers{7, 8}}, {"replaced_value_float", kNan}});
  ASSERT_TRUE(imputed) << imputed.error().to_string();
  EXPECT_EQ((*imputed)[0], (Numbers{1, -2, 0, 8}));
  const auto divided = run("Normalizer", rows({3, 4, 0, 0}, {2, 2}), {{"norm", std::string("L2")}});
  ASSERT_TRUE(divided) << divided.error().to_string();
  EXPECT_NEAR((*divided)[0][0], 0.6, 1e-6);
  EXPECT_EQ((*divided)[0][2], 0);
}

Texts texts_of(const Numbers& numbers) {
  Texts all;
  for (const double number : numbers) all.emplace_back(string_of(static_cast<int64_t>(number)));
  return all;
}

TEST(MlStrings, LabelsAndCategories) {
  const auto x = rows({1, 1, -1, -1}, {2, 2});
  const auto labels = run("LinearClassifier", x, linear({{"classlabels_strings", Texts{"no", "yes"}}}), 2);
  ASSERT_TRUE(labels) << labels.error().to_string();
  EXPECT_EQ(texts_of((*labels)[0]), (Texts{"yes", "no"}));
  const Attrs lists{{"cats_strings", Texts{"a", "b"}}, {"cats_int64s", Ints{5, 7}}};
  const auto names = run("CategoryMapper", int_list(Ints{7, 6, 5}), lists);
  ASSERT_TRUE(names) << names.error().to_string();
  EXPECT_EQ(texts_of((*names)[0]), (Texts{"b", "_Unused", "a"}));
  const ConstantTensor words = string_tensor(Texts{"b", "c", "a"}, {3}).value();
  const auto numbers = run("CategoryMapper", words, lists);
  ASSERT_TRUE(numbers) << numbers.error().to_string();
  EXPECT_EQ((*numbers)[0], (Numbers{7, -1, 5}));
  const auto columns = run("OneHotEncoder", words, {{"cats_strings", Texts{"a", "b"}}});
  ASSERT_TRUE(columns) << columns.error().to_string();
  EXPECT_EQ((*columns)[0], (Numbers{0, 1, 0, 0, 1, 0}));
  expect_refused("CategoryMapper", {{"cats_strings", Texts{"a"}}}, ErrorCode::E606, "cats_int64s 0");
  expect_refused("OneHotEncoder", {{"cats_strings", Texts{"a"}}}, ErrorCode::E606, "cats_strings is given");
}

TEST(MlPreprocessing, WhatDoesNotFitIsRefused) {
  expect_refused("Scaler", {{"scale", Numbers{1}}}, ErrorCode::E606, "offset 0");
  expect_refused("Scaler", {{"scale", Numbers(3, 1)}, {"offset", Numbers(3, 1)}}, ErrorCode::E605, "scale");
  expect_refused("Normalizer", {{"norm", std::string("L3")}}, ErrorCode::E606, "norm is \"L3\"");
  expect_refused("Imputer", {}, ErrorCode::E606, "imputed_value_floats is empty");
  expect_refused("Imputer", {{"imputed_value_int64s", Ints{1}}}, ErrorCode::E606, "imputed_value_int64s is given");
  expect_refused("Imputer", {{"imputed_value_floats", Numbers(3, 1)}}, ErrorCode::E605, "imputed_value_floats");
  expect_refused("OneHotEncoder", {}, ErrorCode::E606, "cats_int64s is empty");
  expect_refused("OneHotEncoder", {{"cats_int64s", Ints{1, 1}}}, ErrorCode::E606, "twice");
  expect_refused("FeatureVectorizer", {{"inputdimensions", Ints{1, 2}}}, ErrorCode::E606, "inputdimensions has 2");
  expect_refused("FeatureVectorizer", {{"inputdimensions", Ints{-1}}}, ErrorCode::E606, "inputdimensions");
}

}  // namespace
}  // namespace fettle
