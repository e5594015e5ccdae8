// `fettle explain MODEL --why NODE`.

#include <algorithm>
#include <nlohmann/json.hpp>
#include <sstream>

#include "onnx-ml.pb.h"
#include "runtime/npy.h"
#include "support/support.h"

namespace fettle::testing_support {
namespace {

using nlohmann::json;

class Why : public Misuse {
 protected:
  /// y = Relu(x @ w) of write_model, and behind it: nodes of (operator, inputs, output), each called as its output.
  void make(const std::vector<std::tuple<std::string, std::vector<std::string>, std::string>>& nodes,
            const std::vector<std::pair<std::string, std::vector<float>>>& constants = {}) {
    write_model("model.onnx", [&](onnx::ModelProto& model) {
      for (const auto& [op, inputs, output] : nodes) {
        onnx::NodeProto& node = *model.mutable_graph()->add_node();
        node.set_op_type(op);
        node.set_name(output);
        for (const std::string& input : inputs) node.add_input(input);
        node.add_output(output);
      }
      for (const auto& [name, values] : constants) {
        onnx::TensorProto& constant = *model.mutable_graph()->add_initializer();
        constant.set_name(name);
        constant.set_data_type(onnx::TensorProto::FLOAT);
        constant.add_dims(static_cast<int64_t>(values.size()));
        for (const float value : values) constant.add_float_data(value);
      }
      onnx::ValueInfoProto& output = *model.mutable_graph()->mutable_output(0);
      output = model.graph().output(0);
      output.set_name(std::get<2>(nodes.back()));
      output.mutable_type()->mutable_tensor_type()->clear_shape();
    });
  }
  json why(const std::string& node) {
    const Outcome outcome = fettle({"explain", path("model.onnx"), "--why", node, "--json"});
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    const json said = json::parse(outcome.out, nullptr, false);
    return said.is_object() ? said : json::object();
  }
};

/// The reason that a group's `list` gives for the node; "-" where it is not there.
std::string reason_of(const json& group, const std::string& list, const std::string& node) {
  for (const json& entry : group.at(list))
    if (entry.at("node") == node) return entry.at("reason");
  return "-";
}

TEST_F(Why, TellsMembersAndEnds) {
  make({{"Sigmoid", {"y"}, "s"}, {"Softmax", {"s"}, "m"}, {"Exp", {"m"}, "e"}});
  const json sigmoid = why("s");
  ASSERT_EQ(sigmoid.at("groups").size(), 1u) << sigmoid;
  const json& group = sigmoid.at("groups").at(0);
  EXPECT_EQ(group.at("kind"), "kernel");
  ASSERT_EQ(group.at("members").size(), 3u) << group;
  EXPECT_EQ(group.at("members").at(0).at("reason"), "") << "the product begins it";
  EXPECT_EQ(reason_of(group, "members", "Sigmoid s"), "it works on elements of what the group makes");
  EXPECT_EQ(reason_of(group, "behind", "Softmax m"), "a reduction begins a group of its own");
  // The same from the other side.
  const json softmax = why("Softmax m").at("groups").at(0);
  EXPECT_EQ(reason_of(softmax, "before", "Sigmoid s"), "a reduction begins a group of its own");
  EXPECT_EQ(reason_of(softmax, "members", "Exp e"), "it works on elements of what the group makes");
  EXPECT_EQ(reason_of(softmax, "behind", ""), "its result is handed out");
}

TEST_F(Why, TellsOfSeveralUsers) {
  make({{"Softmax", {"y"}, "m"}, {"Exp", {"y"}, "e"}, {"Add", {"m", "e"}, "a"}});
  const json product = why("y").at("groups").at(0);
  EXPECT_EQ(reason_of(product, "behind", ""), "several nodes read its result, and one of them does not follow");
  EXPECT_EQ(reason_of(product, "behind", "Softmax m"), "a reduction begins a group of its own");
}

TEST_F(Why, TellsOfViews) {
  make({{"Transpose", {"y"}, "t"}, {"Softmax", {"t"}, "s"}});
  const json view = why("t").at("groups").at(0);
  EXPECT_EQ(view.at("kind"), "view") << view;
  EXPECT_EQ(view.at("kernel"), "");
  EXPECT_EQ(reason_of(why("s").at("groups").at(0), "before", "Transpose t"),
            "it only renames memory, where strides allow that");
}

TEST_F(Why, TellsWhichPassChangedIt) {
  make({{"Identity", {"y"}, "i"},
        {"Mul", {"i", "two"}, "m"},
        {"Add", {"one", "two"}, "folded"},
        {"Add", {"m", "folded"}, "a"}},
       {{"one", {1}}, {"two", {2}}});
  const auto passes = [&](const std::string& node) {
    std::vector<std::string> names;
    const json said = why(node);
    for (const json& pass : said.at("passes")) names.push_back(pass.at("pass"));
    return names;
  };
  EXPECT_GE(passes("i").size(), 2u) << "an identity goes";
  const json folded = why("folded");
  EXPECT_GE(folded.at("passes").size(), 2u) << folded;
  for (const json& pass : folded.at("passes")) EXPECT_EQ(pass.at("pass") == "", pass.at("what") == "");
  // Who is given what was computed stands for it.
  ASSERT_EQ(folded.at("groups").size(), 1u) << folded;
  EXPECT_EQ(why("y").at("passes").size(), 1u) << "it stays what it is";
}

TEST_F(Why, TellsWhatIsNotNeeded) {
  make({{"Exp", {"y"}, "unused"}, {"Sigmoid", {"y"}, "s"}});
  const json unused = why("unused");
  EXPECT_TRUE(unused.at("groups").empty()) << unused;
  EXPECT_EQ(unused.at("passes").back().at("pass"), "drop_dead");
  EXPECT_TRUE(unused.at("passes").back().at("nodes").empty());
  const Outcome text = fettle({"explain", path("model.onnx"), "--why", "unused"});
  EXPECT_NE(text.out.find("nothing is left of it"), std::string::npos) << text.out;
}

TEST_F(Why, OfModelsWithBodies) {
  const std::string model = std::string(FETTLE_SOURCE_DIR) + "/tests/cases/gru_ocr_linear_before_reset/model.onnx";
  const Outcome outcome = fettle({"explain", model, "--why", "y1", "--json"});
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  const json said = json::parse(outcome.out);
  EXPECT_TRUE(std::ranges::any_of(said.at("groups"), [](const json& group) { return group.at("kind") == "control"; }))
      << said;
  EXPECT_TRUE(std::ranges::any_of(said.at("groups"), [](const json& group) { return group.at("kind") == "kernel"; }));
}

TEST_F(Why, NearestNamesAndMisuse) {
  make({{"Sigmoid", {"y"}, "sigmoid_of_product"}});
  const Outcome near = fettle({"explain", path("model.onnx"), "--why", "sigmod_of_product"});
  EXPECT_EQ(near.status, 2);
  EXPECT_NE(near.err.find("the nearest are \"sigmoid_of_product\""), std::string::npos) << near.err;
  EXPECT_EQ(fettle({"explain", "--why", "y"}).status, 2);
  EXPECT_EQ(fettle({"explain", path("none.onnx"), "--why", "y"}).status, 1);
  EXPECT_EQ(fettle({"explain", path("model.so"), "--why", "y"}).status, 2);
  EXPECT_EQ(fettle({"explain", "--task", "00"}).status, 2);
}

}  // namespace
}  // namespace fettle::testing_support
