#include "frontend/onnx/survey.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <memory>
#include <set>

#include "frontend/onnx/importer.h"

namespace fettle {

using namespace onnx_reader;

namespace {

using Names = std::set<std::string, std::less<>>;

// All nodes, those of bodies behind the nodes that have them.
void for_each_node(const GraphProto& graph, const std::function<void(const NodeProto&)>& visit) {
  for (const NodeProto& node : graph.node()) {
    visit(node);
    for (const AttributeProto& a : node.attribute()) {
      if (a.has_g()) for_each_node(a.g(), visit);
      for (const GraphProto& body : a.graphs()) for_each_node(body, visit);
    }
  }
}

// The node and all in its bodies.
void for_each_inside(const NodeProto& node, const std::function<void(const NodeProto&)>& visit) {
  visit(node);
  for (const AttributeProto& a : node.attribute()) {
    if (a.has_g()) for_each_node(a.g(), visit);
    for (const GraphProto& body : a.graphs()) for_each_node(body, visit);
  }
}

void each_graph_of(const GraphProto& graph, const std::function<void(const GraphProto&)>& visit) {
  visit(graph);
  for (const NodeProto& node : graph.node())
    for (const AttributeProto& a : node.attribute()) {
      if (a.has_g()) each_graph_of(a.g(), visit);
      for (const GraphProto& body : a.graphs()) each_graph_of(body, visit);
    }
}

// What the node reads, its bodies included; and what these return.
Names values_read(const NodeProto& node) {
  Names names;
  for_each_inside(node, [&](const NodeProto& inside) {
    names.insert(inside.input().begin(), inside.input().end());
    for (const AttributeProto& a : inside.attribute())
      if (a.has_g())
        for (const auto& output : a.g().output()) names.insert(output.name());
  });
  return names;
}

std::string tensor_type(const onnx::TypeProto::Tensor& tensor) {
  std::string text = data_type_name(tensor.elem_type());
  if (!tensor.has_shape()) return text;
  text += "[";
  for (int d = 0; d < tensor.shape().dim_size(); ++d) {
    const auto& dim = tensor.shape().dim(d);
    text += d > 0 ? ", " : "";
    text += dim.has_dim_value() ? std::to_string(dim.dim_value()) : dim.dim_param().empty() ? "?" : dim.dim_param();
  }
  return text + "]";
}

// As ONNX writes types: "float[N, 3]", "seq(float[?])", "map(int64, float)".
std::string declared_type(const onnx::TypeProto& type) {
  if (type.has_tensor_type()) return tensor_type(type.tensor_type());
  if (type.has_sequence_type()) return "seq(" + declared_type(type.sequence_type().elem_type()) + ")";
  if (type.has_optional_type()) return "optional(" + declared_type(type.optional_type().elem_type()) + ")";
  if (type.has_map_type())
    return fmt::format("map({}, {})", data_type_name(type.map_type().key_type()),
                       declared_type(type.map_type().value_type()));
  return type.has_sparse_tensor_type() ? "sparse tensor" : "unknown";
}

int64_t elements_of(const onnx::TensorProto& tensor) {
  int64_t count = 1;
  for (const int64_t dim : tensor.dims())
    if (dim < 0 || __builtin_mul_overflow(count, dim, &count)) return 0;  // no tensor, which importing tells
  return count;
}

bool is_called(const NodeProto& node, const std::string& name) {
  return node_label(node) == name || std::ranges::count(node.output(), name) > 0;
}

}  // namespace

struct SurveyedModel::Parts {
  std::shared_ptr<ModelProto> model;
  std::string path, folder;

  // Whether an operator is refused before its nodes are looked at.
  bool is_missing(const NodeProto& node) const {
    auto alone = std::make_shared<ModelProto>();
    *alone->mutable_opset_import() = model->opset_import();
    *alone->mutable_functions() = model->functions();
    NodeProto* made = alone->mutable_graph()->add_node();
    made->set_op_type(node.op_type());
    made->set_domain(node.domain());
    made->set_name(node.name());
    made->add_output("made");
    alone->mutable_graph()->add_output()->set_name("made");
    const auto graph = Importer({alone, {folder}}, {}, {}).run();
    return !graph && graph.error().code == ErrorCode::E603 && graph.error().where.empty();
  }

  // Takes out what `is_cut` says, and all that needs results of it, or an input called so.
  std::vector<std::string> cut(const std::function<bool(const NodeProto&)>& is_cut, std::string_view input = {}) {
    GraphProto& graph = *model->mutable_graph();
    Names gone;
    std::vector<std::string> names;
    for (int i = graph.input_size(); i-- > 0;)
      if (graph.input(i).name() == input) {
        gone.emplace(input);
        names.emplace_back(input);
        graph.mutable_input()->DeleteSubrange(i, 1);
      }
    std::vector<bool> stays(static_cast<size_t>(graph.node_size()), true);
    for (bool changed = true; changed;) {
      changed = false;
      for (int i = 0; i < graph.node_size(); ++i) {
        const NodeProto& node = graph.node(i);
        if (!stays[static_cast<size_t>(i)]) continue;
        const Names read = values_read(node);
        const bool needs = std::ranges::any_of(read, [&](const std::string& name) { return gone.contains(name); });
        bool itself = false;
        for_each_inside(node, [&](const NodeProto& inside) { itself = itself || is_cut(inside); });
        if (!needs && !itself) continue;
        for (const std::string& output : node.output())
          if (!output.empty()) gone.insert(output);
        names.push_back(node_label(node));
        stays[static_cast<size_t>(i)] = false;
        changed = true;
      }
    }
    if (names.empty()) return names;
    GraphProto left;
    Names read;
    for (int i = 0; i < graph.node_size(); ++i)
      if (stays[static_cast<size_t>(i)]) {
        left.add_node()->Swap(graph.mutable_node(i));
        read.merge(values_read(left.node(left.node_size() - 1)));
      }
    graph.mutable_node()->Swap(left.mutable_node());
    Names outputs;
    google::protobuf::RepeatedPtrField<onnx::ValueInfoProto> kept;
    for (const auto& output : graph.output())
      if (!gone.contains(output.name()) && outputs.insert(output.name()).second) *kept.Add() = output;
    graph.mutable_output()->Swap(&kept);
    for (const NodeProto& node : graph.node())
      for (const std::string& output : node.output())
        if (!output.empty() && !read.contains(output) && outputs.insert(output).second)
          graph.add_output()->set_name(output);
    return names;
  }
};

Result<SurveyedModel> SurveyedModel::read(const std::string& path) {
  FETTLE_TRY(const OnnxModel model, read_onnx(path));
  SurveyedModel surveyed;
  surveyed.parts_ = std::make_shared<Parts>();
  // Nobody else has what was just read.
  *surveyed.parts_ = {std::const_pointer_cast<ModelProto>(model.proto), path,
                      std::filesystem::path(path).parent_path().string()};
  return surveyed;
}

ModelSurvey SurveyedModel::survey() const {
  const ModelProto& model = *parts_->model;
  ModelSurvey survey;
  survey.ir_version = model.ir_version();
  survey.producer = model.producer_name();
  if (!model.producer_version().empty()) survey.producer += " " + model.producer_version();
  for (const auto& entry : model.opset_import()) survey.opsets.emplace_back(entry.domain(), entry.version());
  std::map<std::string, const NodeProto*> first;
  for_each_node(model.graph(), [&](const NodeProto& node) {
    ++survey.operators[op_label(node)];
    first.emplace(op_label(node), &node);
  });
  for (const auto& [op, node] : first)
    if (parts_->is_missing(*node)) survey.missing[op];
  for_each_node(model.graph(), [&](const NodeProto& node) {
    if (const auto it = survey.missing.find(op_label(node)); it != survey.missing.end())
      it->second.push_back(node_label(node));
  });
  const auto add_parameters = [&](const onnx::TensorProto& tensor) {
    const int64_t count = elements_of(tensor);
    survey.parameters += count;
    survey.parameter_types[data_type_name(tensor.data_type())] += count;
    if (const auto type = element_type(tensor.data_type()))
      survey.parameter_bytes += count * std::max(1, type->element_bytes());
  };
  Names initialized;
  each_graph_of(model.graph(), [&](const GraphProto& graph) {
    // Some exporters write weights as nodes.
    for (const NodeProto& node : graph.node())
      for (const onnx::AttributeProto& a : node.attribute())
        if (node.op_type() == "Constant" && a.has_t()) add_parameters(a.t());
    for (const auto& tensor : graph.initializer()) {
      initialized.insert(tensor.name());
      add_parameters(tensor);
    }
  });
  for (const auto& input : model.graph().input())
    if (!initialized.contains(input.name())) survey.inputs.emplace_back(input.name(), declared_type(input.type()));
  for (const auto& output : model.graph().output())
    survey.outputs.emplace_back(output.name(), declared_type(output.type()));
  return survey;
}

Result<Graph> SurveyedModel::import(const InputNames& given, const Limits& limits) const {
  return import_onnx({parts_->model, {parts_->folder}, parts_->path}, given, limits);
}

std::vector<std::string> SurveyedModel::cut(const std::string& node) {
  return parts_->cut([&](const NodeProto& other) { return is_called(other, node); }, node);
}

std::vector<std::string> SurveyedModel::cut_operators(const std::vector<std::string>& operators) {
  return parts_->cut([&](const NodeProto& node) { return std::ranges::count(operators, op_label(node)) > 0; });
}

bool SurveyedModel::has_nodes() const { return parts_->model->graph().node_size() > 0; }

}  // namespace fettle
