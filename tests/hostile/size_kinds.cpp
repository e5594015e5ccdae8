// Models that ask for too much: ranks, sizes, numbers, depths.

#include <array>

#include "hostile/models.h"

namespace fettle::hostile {
namespace {

using onnx::ModelProto;
using onnx::TensorProto;

constexpr int64_t kHuge = int64_t{1} << 39;

void chain(ModelProto& m, const char* op, const std::vector<std::string>& more, int length, bool twice) {
  auto* graph = m.mutable_graph();
  std::string at = "x";
  for (int i = 0; i < length; ++i) {
    const std::string next = "v" + std::to_string(i);
    std::vector<std::string> inputs = {at};
    if (twice) inputs.push_back(at);
    inputs.insert(inputs.end(), more.begin(), more.end());
    auto* node = add_node(graph, op, inputs, {next});
    if (std::string(op) == "Concat") add_int(node, "axis", 0);
    at = next;
  }
  graph->add_output()->set_name(at);
}

// Ifs in both bodies of an If.
void nest(onnx::GraphProto* graph, int depth) {
  const std::string name = "y" + std::to_string(depth);
  if (depth == 0) {
    add_node(graph, "Relu", {"x"}, {name});
  } else {
    auto* branch = add_node(graph, "If", {"c"}, {name});
    for (const char* body : {"then_branch", "else_branch"}) {
      auto* a = branch->add_attribute();
      a->set_name(body);
      a->set_type(onnx::AttributeProto::GRAPH);
      nest(a->mutable_g(), body[0] == 't' ? depth - 1 : 0);
    }
  }
  graph->add_output()->set_name(name);
}

}  // namespace

std::vector<Kind> size_kinds() {
  return {
      model_kind("a rank above the limit",
                 [](ModelProto& m, int v) {
                   const std::vector<int64_t> ones(static_cast<size_t>(65 + 1000 * v), 1);
                   if (v == 0) add_value(m.mutable_graph()->add_input(), "z", ones);
                   if (v == 1) add_value(m.mutable_graph()->add_value_info(), "h", ones);
                   if (v == 2) {
                     add_ints_tensor(m.mutable_graph(), "s", ones);
                     add_node(m.mutable_graph(), "Expand", {"x", "s"}, {"z"});
                     m.mutable_graph()->add_output()->set_name("z");
                   }
                 }),
      model_kind("extents above the limit",
                 [](ModelProto& m, int v) {
                   m.mutable_graph()
                       ->mutable_input(0)
                       ->mutable_type()
                       ->mutable_tensor_type()
                       ->mutable_shape()
                       ->mutable_dim(0)
                       ->set_dim_value(std::array<int64_t, 3>{INT64_MAX, int64_t{1} << 41,
                                                              int64_t{1} << 40}[static_cast<size_t>(v)]);
                 }),
      model_kind("a tensor of too many elements",
                 [](ModelProto& m, int v) {
                   add_ints_tensor(m.mutable_graph(), "s",
                                   v == 0   ? std::vector<int64_t>{kHuge, 2, 4}
                                   : v == 1 ? std::vector<int64_t>{1 << 20, 1 << 20, 2, 4}
                                            : std::vector<int64_t>(40, 2));
                   add_node(m.mutable_graph(), v == 2 ? "ConstantOfShape" : "Expand",
                            v == 2 ? std::vector<std::string>{"s"} : std::vector<std::string>{"x", "s"}, {"z"});
                   m.mutable_graph()->add_output()->set_name("z");
                 }),
      model_kind("a long range",
                 [](ModelProto& m, int v) {
                   auto* g = m.mutable_graph();
                   add_ints_tensor(g, "from", {0})->clear_dims();
                   add_ints_tensor(
                       g, "to",
                       {std::array<int64_t, 3>{1'000'000'000'000, INT64_MAX, INT64_MIN}[static_cast<size_t>(v)]})
                       ->clear_dims();
                   add_ints_tensor(g, "step", {v == 2 ? -1 : 1})->clear_dims();
                   add_node(g, "Range", {"from", "to", "step"}, {"z"});
                   g->add_output()->set_name("z");
                 }),
      model_kind("a range without steps",
                 [](ModelProto& m, int v) {
                   auto* g = m.mutable_graph();
                   add_ints_tensor(g, "from", {v})->clear_dims();
                   add_ints_tensor(g, "to", {100})->clear_dims();
                   add_ints_tensor(g, "step", {0})->clear_dims();
                   add_node(g, "Range", {"from", "to", "step"}, {"z"});
                   g->add_output()->set_name("z");
                 }),
      model_kind("sequences of words with all gaps between them",
                 [](ModelProto& m, int v) {
                   auto* g = m.mutable_graph();
                   auto* words = g->add_input();
                   add_value(words, "i", {1}, TensorProto::INT64);
                   words->mutable_type()->mutable_tensor_type()->mutable_shape()->mutable_dim(0)->set_dim_param("N");
                   auto* node = add_node(g, "TfIdfVectorizer", {"i"}, {"z"});
                   auto* mode = node->add_attribute();
                   mode->set_name("mode");
                   mode->set_type(onnx::AttributeProto::STRING);
                   mode->set_s("TF");
                   add_int(node, "min_gram_length", 1);
                   add_int(node, "max_gram_length", 2);
                   add_int(node, "max_skip_count",
                           std::array<int64_t, 3>{100'000, int64_t{1} << 40, INT64_MAX - 1}[static_cast<size_t>(v)]);
                   add_ints(node, "ngram_counts", {0, 1});
                   add_ints(node, "ngram_indexes", {0, 1});
                   add_ints(node, "pool_int64s", {7, 1, 2});
                   g->add_output()->set_name("z");
                 }),
      model_kind("repeats that double",
                 [](ModelProto& m, int v) {
                   add_ints_tensor(m.mutable_graph(), "r",
                                   v == 2 ? std::vector<int64_t>{1, 4} : std::vector<int64_t>{2, 2});
                   chain(m, "Tile", {"r"}, 30 + 10 * v, false);
                 }),
      model_kind("concatenations that double",
                 [](ModelProto& m, int v) { chain(m, "Concat", {}, 60 + 100 * v, true); }),
      model_kind("one-hot rows of a huge depth",
                 [](ModelProto& m, int v) {
                   auto* g = m.mutable_graph();
                   add_value(g->add_input(), "i", {1 << 20}, TensorProto::INT64);
                   add_ints_tensor(g, "depth", {v == 0 ? kHuge : v == 1 ? INT64_MAX : -1});
                   auto* values = g->add_initializer();
                   values->set_name("values");
                   values->set_data_type(TensorProto::FLOAT);
                   values->add_dims(2);
                   values->add_float_data(0);
                   values->add_float_data(1);
                   add_node(g, "OneHot", {"i", "depth", "values"}, {"z"});
                   g->add_output()->set_name("z");
                 }),
      model_kind("pads that are huge",
                 [](ModelProto& m, int v) {
                   add_ints_tensor(m.mutable_graph(), "p", {0, kHuge, v == 1 ? kHuge : 0, v == 2 ? INT64_MAX : 0});
                   add_node(m.mutable_graph(), "Pad", {"x", "p"}, {"z"});
                   m.mutable_graph()->add_output()->set_name("z");
                 }),
      model_kind("an image that becomes huge",
                 [](ModelProto& m, int v) {
                   auto* g = m.mutable_graph();
                   add_value(g->add_input(), "i", {1, 1, 8, 8});
                   add_ints_tensor(g, "s", {1, 1, 1 << 20, v == 0 ? 1 << 20 : v == 1 ? INT64_MAX : -5});
                   add_node(g, "Resize", {"i", "", "", "s"}, {"z"});
                   g->add_output()->set_name("z");
                 }),
      model_kind("bodies nested too deeply",
                 [](ModelProto& m, int v) {
                   add_value(m.mutable_graph()->add_input(), "c", {}, TensorProto::BOOL);
                   nest(m.mutable_graph(), 17 + 2 * v);
                 }),
      model_kind("too many inputs of the model",
                 [](ModelProto& m, int v) {
                   for (int i = 0; i <= 100'000 + v; ++i)
                     m.mutable_graph()->add_input()->set_name("i" + std::to_string(i));
                 }),
      model_kind("too many outputs of the model",
                 [](ModelProto& m, int v) {
                   for (int i = 0; i <= 100'000 + v; ++i)
                     m.mutable_graph()->add_output()->set_name("i" + std::to_string(i));
                 }),
      model_kind("a name that is too long",
                 [](ModelProto& m, int v) {
                   const std::string name((1 << 24) + 1, 'n');
                   if (v == 0) m.mutable_graph()->mutable_node(0)->set_name(name);
                   if (v == 1) add_value(m.mutable_graph()->add_input(), name, {1});
                   if (v == 2) m.mutable_graph()->mutable_node(1)->set_output(0, name);
                 }),
      model_kind("an attribute that is too long",
                 [](ModelProto& m, int v) {
                   auto* node = add_node(m.mutable_graph(), "Constant", {}, {"z"});
                   auto* a = add_ints(node, v == 1 ? "value_floats" : "value_ints", {});
                   if (v == 0) a->mutable_ints()->Resize((1 << 24) + 1, 1);
                   if (v == 1) a->set_type(onnx::AttributeProto::FLOATS), a->mutable_floats()->Resize((1 << 24) + 1, 1);
                   if (v == 2)
                     a->set_name("value_string"), a->set_type(onnx::AttributeProto::STRING),
                         a->set_s(std::string((1 << 24) + 1, 's'));
                 }),
      model_kind("a window of a size that is none",
                 [](ModelProto& m, int v) {
                   auto* g = m.mutable_graph();
                   add_ints_tensor(g, "n", {std::array<int64_t, 3>{kHuge, INT64_MAX, -4}[static_cast<size_t>(v)]})
                       ->clear_dims();
                   add_node(g, "HannWindow", {"n"}, {"z"});
                   g->add_output()->set_name("z");
                 }),
      model_kind("a matrix of ones on a diagonal, too large",
                 [](ModelProto& m, int v) {
                   auto* g = m.mutable_graph();
                   add_ints_tensor(g, "s", {1 << 20, 1 << (19 + v)});
                   add_node(g, "ConstantOfShape", {"s"}, {"c"});
                   add_node(g, "EyeLike", {"c"}, {"z"});
                   g->add_output()->set_name("z");
                 }),
      model_kind("top rows of a number that is none",
                 [](ModelProto& m, int v) {
                   auto* g = m.mutable_graph();
                   add_ints_tensor(g, "k", {std::array<int64_t, 3>{5, -1, INT64_MAX}[static_cast<size_t>(v)]});
                   add_node(g, "TopK", {"x", "k"}, {"z", "i"});
                   g->add_output()->set_name("z");
                 }),
  };
}

}  // namespace fettle::hostile
