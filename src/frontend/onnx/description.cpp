#include "frontend/onnx/description.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <set>
#include <string_view>

#include "frontend/onnx/structures.h"
#include "onnx-ml.pb.h"

namespace fettle {
namespace {

using onnx::GraphProto;
using onnx::ModelProto;
using onnx::TensorProto;
using onnx::TypeProto;

/// The tensor that a type is made of; null: there is none, or it is a map's.
TypeProto::Tensor* tensor_in(TypeProto& type) {
  if (type.has_tensor_type()) return type.mutable_tensor_type();
  if (type.has_optional_type()) return tensor_in(*type.mutable_optional_type()->mutable_elem_type());
  if (type.has_sequence_type()) return tensor_in(*type.mutable_sequence_type()->mutable_elem_type());
  return nullptr;
}

DescribedValue described(const onnx::ValueInfoProto& info) {
  DescribedValue value{.name = info.name(), .type = onnx_reader::type_text(info.type())};
  const TypeProto* type = &info.type();
  if (type->has_optional_type()) type = &type->optional_type().elem_type();
  if (!type->has_tensor_type() || !type->tensor_type().has_shape()) return value;
  value.has_shape = true;
  for (const auto& dim : type->tensor_type().shape().dim()) {
    if (dim.has_dim_value() && dim.dim_value() >= 0)
      value.dims.push_back({dim.dim_value(), {}});
    else
      value.dims.push_back({-1, dim.dim_param()});
  }
  return value;
}

std::set<std::string_view> initializers_of(const GraphProto& graph) {
  std::set<std::string_view> names;
  for (const auto& tensor : graph.initializer()) names.insert(tensor.name());
  for (const auto& tensor : graph.sparse_initializer()) names.insert(tensor.values().name());
  return names;
}

void fix_dims(TypeProto::Tensor& tensor, const ModelChanges& changes) {
  if (!tensor.has_shape()) return;
  for (auto& dim : *tensor.mutable_shape()->mutable_dim()) {
    if (dim.has_dim_value() && dim.dim_value() >= 0) continue;
    auto known = changes.named_dims.find(dim.dim_param());
    bool is_known = !dim.dim_param().empty() && known != changes.named_dims.end();
    if (!is_known && !dim.denotation().empty()) {
      known = changes.denoted_dims.find(dim.denotation());
      is_known = known != changes.denoted_dims.end();
    }
    if (is_known) dim.set_dim_value(known->second);
  }
}

void set_shape(TypeProto::Tensor& tensor, const std::vector<int64_t>& extents) {
  auto& shape = *tensor.mutable_shape();
  shape.clear_dim();
  for (const int64_t extent : extents) {
    auto* dim = shape.add_dim();
    if (extent >= 0) dim->set_dim_value(extent);
  }
}

void fill(TensorProto& tensor, const std::string& name, const GivenInitializer& given) {
  tensor.Clear();
  tensor.set_name(name);
  tensor.set_data_type(given.type);
  for (const int64_t extent : given.shape) tensor.add_dims(extent);
  if (given.type == TensorProto::STRING) {
    for (const std::string& text : given.strings) tensor.add_string_data(text);
  } else {
    tensor.set_raw_data(given.bytes);
  }
}

/// What the file says of other shapes need not hold where inputs have others.
void forget_shapes(GraphProto& graph) {
  graph.clear_value_info();
  for (auto& output : *graph.mutable_output()) {
    if (!output.type().has_tensor_type()) continue;
    auto& tensor = *output.mutable_type()->mutable_tensor_type();
    if (tensor.shape().dim_size() == 0)
      tensor.clear_shape();
    else
      for (auto& dim : *tensor.mutable_shape()->mutable_dim()) dim.clear_value();
  }
}

Result<> set_initializer(GraphProto& graph, const std::string& name, const GivenInitializer& given) {
  auto& sparse = *graph.mutable_sparse_initializer();
  bool is_known = false;
  for (int i = sparse.size(); i-- > 0;)
    if (sparse[i].values().name() == name) {
      is_known = true;
      sparse.DeleteSubrange(i, 1);
    }
  for (auto& tensor : *graph.mutable_initializer())
    if (tensor.name() == name) {
      fill(tensor, name, given);
      return {};
    }
  is_known = is_known || std::ranges::any_of(graph.input(), [&](const auto& input) { return input.name() == name; });
  if (!is_known && given.is_optional) return {};
  if (!is_known) return fail(ErrorCode::E704, fmt::format("the model has no initializer \"{}\"", name));
  fill(*graph.add_initializer(), name, given);
  return {};
}

}  // namespace

ModelDescription describe_model(const OnnxModel& source) {
  const ModelProto& model = *source.proto;
  const GraphProto& graph = model.graph();
  ModelDescription made{.producer = model.producer_name(),
                        .producer_version = model.producer_version(),
                        .domain = model.domain(),
                        .description = model.doc_string(),
                        .graph_name = graph.name(),
                        .graph_description = graph.doc_string(),
                        .version = model.model_version(),
                        .ir_version = model.ir_version()};
  for (const auto& entry : model.opset_import()) made.opsets.emplace_back(entry.domain(), entry.version());
  for (const auto& entry : model.metadata_props()) made.metadata.emplace(entry.key(), entry.value());
  const auto initializers = initializers_of(graph);
  for (const auto& input : graph.input())
    (initializers.contains(input.name()) ? made.overridable : made.inputs).push_back(described(input));
  for (const auto& output : graph.output()) made.outputs.push_back(described(output));
  for (const auto& node : graph.node()) made.nodes.push_back({node.name(), node.op_type(), node.domain()});
  return made;
}

Result<OnnxModel> changed_model(const OnnxModel& source, const ModelChanges& changes) {
  auto model = std::make_shared<ModelProto>(*source.proto);
  GraphProto& graph = *model->mutable_graph();
  for (auto& input : *graph.mutable_input()) {
    TypeProto::Tensor* tensor = tensor_in(*input.mutable_type());
    if (!tensor) continue;
    fix_dims(*tensor, changes);
    const auto shape = changes.input_shapes.find(input.name());
    if (shape != changes.input_shapes.end()) set_shape(*tensor, shape->second);
  }
  if (!changes.input_shapes.empty()) forget_shapes(graph);
  for (const auto& [name, given] : changes.initializers) FETTLE_TRY_VOID(set_initializer(graph, name, given));
  OnnxModel made{std::move(model), source.data, source.label};
  for (const auto& [location, file] : changes.files) made.data.in_memory.insert_or_assign(location, file);
  return made;
}

}  // namespace fettle
