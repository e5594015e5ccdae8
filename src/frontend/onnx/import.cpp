#include "frontend/onnx/import.h"

#include <fmt/format.h>
#include <google/protobuf/stubs/logging.h>

#include <algorithm>
#include <climits>
#include <filesystem>
#include <set>

#include "base/large_digest.h"
#include "frontend/onnx/importer.h"
#include "frontend/onnx/model_check.h"
#include "frontend/onnx/model_file.h"
#include "frontend/onnx/model_writer.h"
#include "graph/random_calls.h"

namespace fettle {
namespace onnx_reader {
namespace {

// What an extent that the model leaves open often is: one image or text at a time, unless nothing else is open.
int64_t typical_size(const onnx::TensorShapeProto& shape, int axis) {
  constexpr int64_t kUsual = 128, kImageSide = 224, kImageRank = 4;
  const auto is_open = [&](int d) { return !shape.dim(d).has_dim_value() || shape.dim(d).dim_value() < 0; };
  if (axis > 0) return shape.dim_size() >= kImageRank ? kImageSide : kUsual;
  for (int d = 1; d < shape.dim_size(); ++d)
    if (is_open(d)) return 1;
  return shape.dim_size() >= kImageRank ? 1 : kUsual;
}

}  // namespace

bool is_standard_domain(const std::string& domain) { return domain.empty() || domain == "ai.onnx"; }

Result<Graph> Importer::run() {
  const GraphProto& graph = model_->graph();
  FETTLE_TRY(opset_, opset_of(model_->opset_import(), graph.node(), /*otherwise=*/0));
  FETTLE_TRY_VOID(index_functions());
  Scope scope{.graph = Graph(graph.name())};
  scope_ = &scope;
  FETTLE_TRY_VOID(check_operators());
  FETTLE_TRY_VOID(check_model(*model_, limits_));
  FETTLE_TRY_VOID(measure(graph.node()));
  FETTLE_TRY_VOID(add_initializers(graph));
  for (const auto& input : graph.input()) FETTLE_TRY_VOID(add_input(input));
  FETTLE_TRY_VOID(add_nodes(graph.node()));
  if (graph.output_size() == 0) return fail(ErrorCode::E605, "the model has no outputs");
  FETTLE_TRY_VOID(add_outputs(graph));
  if (scope.calls) count_random_calls(scope.graph, scope.calls);
  declare_types(graph);
  scope.graph.sort();
  return std::move(scope.graph);
}

Result<int> Importer::opset_of(const google::protobuf::RepeatedPtrField<onnx::OperatorSetIdProto>& imports,
                               const Nodes& nodes, int otherwise) const {
  int opset = otherwise;
  bool is_stated = false;
  for (const auto& entry : imports)
    if (is_standard_domain(entry.domain())) {
      opset = static_cast<int>(std::clamp<int64_t>(entry.version(), 0, INT_MAX));
      is_stated = true;
    }
  // Files of the first versions of the format name no opsets. One without ONNX's own operators states none of them.
  if (imports.empty() && otherwise == 0)
    opset = 1;
  else if (!is_stated && otherwise == 0 &&
           std::ranges::none_of(nodes, [](const auto& n) { return is_standard_domain(n.domain()); }))
    opset = kMaxOpset;
  if (opset < kMinOpset || opset > kMaxOpset)
    return fail(ErrorCode::E609, fmt::format("opset {}; {} to {} are read", opset, kMinOpset, kMaxOpset));
  return opset;
}

Result<> Importer::add_outputs(const GraphProto& proto) {
  for (const auto& output : proto.output()) {
    const auto value = find_structure(output.name(), *scope_);
    if (!value) return fail(ErrorCode::E605, fmt::format("nothing makes the output \"{}\"", output.name()));
    if (scope_->parent) {
      scope_->results.emplace_back(output.name(), *value);
    } else {
      const bool is_tensor = value->kind.is_tensor() && !output.type().has_optional_type();
      FETTLE_TRY_VOID(is_tensor ? add_result(output.name(), *value) : add_structure_output(output, *value));
    }
  }
  return {};
}

// An initializer that the model lists as an input is what it has where the caller gives nothing.
bool Importer::is_given(const GraphProto& graph, const std::string& name) const {
  return given_.contains(name) && &graph == &model_->graph() &&
         std::ranges::any_of(graph.input(), [&](const auto& input) { return input.name() == name; });
}

Result<> Importer::add_initializers(const GraphProto& graph) {
  for (const auto& tensor : graph.initializer()) {
    if (is_given(graph, tensor.name())) continue;
    FETTLE_TRY(ConstantTensor data, read_constant(tensor));
    FETTLE_TRY_VOID(define(tensor.name(), scope_->graph.add_constant(tensor.name(), std::move(data)), "initializer"));
  }
  for (const auto& tensor : graph.sparse_initializer()) {
    const std::string& name = tensor.values().name();
    if (is_given(graph, name)) continue;
    FETTLE_TRY(ConstantTensor data, read_sparse_constant(tensor));
    FETTLE_TRY_VOID(define(name, scope_->graph.add_constant(name, std::move(data)), "sparse initializer"));
  }
  return {};
}

Result<ConstantTensor> Importer::read_constant(const onnx::TensorProto& tensor) {
  FETTLE_TRY(ConstantTensor data, read_tensor(tensor, model_, files_));
  return counted(std::move(data), tensor.name());
}

Result<ConstantTensor> Importer::read_sparse_constant(const onnx::SparseTensorProto& tensor) {
  FETTLE_TRY(ConstantTensor data, read_sparse_tensor(tensor, model_, files_));
  return counted(std::move(data), tensor.values().name());
}

Result<ConstantTensor> Importer::counted(ConstantTensor data, const std::string& name) {
  FETTLE_TRY_VOID(check_limit(limits_, &Limits::elements, data.n_elems(), name));
  constant_bytes_ += data.size_bytes;
  FETTLE_TRY_VOID(check_limit(limits_, &Limits::constant_bytes, constant_bytes_, name));
  return data;
}

void Importer::declare_types(const GraphProto& proto) {
  const auto declare = [&](const onnx::ValueInfoProto& info) {
    const auto found = scope_->values.find(info.name());
    if (found == scope_->values.end() || !found->second->producer || !info.type().has_tensor_type()) return;
    const auto& type = info.type().tensor_type();
    const auto dtype = element_type(type.elem_type());
    if (!dtype || !type.has_shape()) return;
    TensorType declared{*dtype, {}};
    for (const auto& dim : type.shape().dim()) {
      const bool is_known = dim.has_dim_value() && dim.dim_value() >= 0 && dim.dim_value() <= kMaxDim;
      declared.shape.push_back(is_known ? Dim(dim.dim_value()) : Dim::symbol("?"));
    }
    found->second->declared = std::move(declared);
  };
  for (const auto& info : proto.value_info()) declare(info);
  for (const auto& info : proto.output()) declare(info);
}

Result<> Importer::add_input(const onnx::ValueInfoProto& input) {
  if (scope_->values.contains(input.name())) return {};  // an initializer that old models list as an input too
  if (!input.type().has_tensor_type()) return add_structure_input(input);
  const auto& type = input.type().tensor_type();
  const auto dtype = element_type(type.elem_type());
  if (!dtype) return fail(ErrorCode::E603, "an input of " + data_type_name(type.elem_type()), input.name());
  if (!type.has_shape()) return fail(ErrorCode::E604, "the input's rank is unknown", input.name());
  FETTLE_TRY(Shape shape, read_shape(type.shape(), input.name(), /*own_sizes=*/false));
  return define(input.name(), scope_->graph.add_input(input.name(), {*dtype, std::move(shape)}), "input");
}

Result<Shape> Importer::read_shape(const onnx::TensorShapeProto& stated, const std::string& input,
                                   bool own_sizes) const {
  FETTLE_TRY_VOID(check_limit(limits_, &Limits::rank, stated.dim_size(), input));
  Shape shape;
  for (int d = 0; d < stated.dim_size(); ++d) {
    const auto& dim = stated.dim(d);
    const bool is_named = dim.has_dim_param() && !dim.dim_param().empty() && dim.dim_param() != "?" && !own_sizes;
    if (dim.has_dim_value() && dim.dim_value() >= 0) {
      if (dim.dim_value() > kMaxDim) return fail(ErrorCode::E608, "an extent is too large", input);
      shape.push_back(dim.dim_value());
    } else {
      shape.push_back(Dim::symbol(is_named ? dim.dim_param() : fmt::format("{}.{}", input, d), 0, kMaxDim, 1,
                                  typical_size(stated, d)));
    }
  }
  return shape;
}

Result<> Importer::define(const std::string& name, Value* value, const std::string& where) {
  if (name.empty()) return fail(ErrorCode::E606, "a tensor without a name", where);
  if (scope_->structures.contains(name) || !scope_->values.emplace(name, value).second)
    return fail(ErrorCode::E605, fmt::format("\"{}\" is made twice", name), where);
  return {};
}

// What a body uses of the graphs around becomes an input of it, or a constant of its own.
Value* Importer::find(const std::string& name, Scope& scope) {
  if (const auto it = scope.values.find(name); it != scope.values.end()) return it->second;
  if (!scope.around || scope.structures.contains(name)) return nullptr;
  Value* outside = find(name, *scope.around);
  if (!outside) return nullptr;
  Value* inside = capture(name, outside, scope);
  scope.values.emplace(name, inside);
  return inside;
}

Value* Importer::capture(const std::string& name, Value* outside, Scope& scope) {
  if (outside->is_constant()) return scope.graph.add_constant(name, *outside->constant);
  for (const Scope::Captured& before : scope.captured)
    if (before.outside == outside) return before.inside;
  scope.captured.push_back({outside, scope.graph.add_input(name)});
  return scope.captured.back().inside;
}

bool Importer::is_left_out(const std::string& name) const {
  for (const Scope* scope = scope_; scope; scope = scope->around)
    if (const auto it = scope->values.find(name); it != scope->values.end()) return it->second == nullptr;
  return false;
}

}  // namespace onnx_reader

using namespace onnx_reader;

bool lacks_graph(std::span<const std::byte> bytes) {
  ModelProto model;
  google::protobuf::LogSilencer quiet;
  return bytes.size() <= INT_MAX && model.ParseFromArray(bytes.data(), static_cast<int>(bytes.size())) &&
         !model.has_graph();
}

Result<OnnxModel> parse_onnx(std::span<const std::byte> bytes, std::optional<std::string> folder, std::string label) {
  if (bytes.size() > INT_MAX)
    return fail(ErrorCode::E608, "a model file above 2 GiB; keep its weights as external data", label);
  auto model = std::make_shared<ModelProto>();
  google::protobuf::LogSilencer quiet;
  constexpr int64_t kFirstWithOpsets = 3;
  if (!model->ParseFromArray(bytes.data(), static_cast<int>(bytes.size())))
    return fail(ErrorCode::E602, "the bytes are no ModelProto of ONNX, or end too early", label);
  if (!model->has_graph()) return fail(ErrorCode::E602, "there is no graph in it", label);
  if (model->opset_import_size() == 0 && (model->ir_version() < 1 || model->ir_version() >= kFirstWithOpsets))
    return fail(ErrorCode::E609, "it names no opset", label);
  return OnnxModel{std::move(model), {std::move(folder)}, std::move(label)};
}

namespace {

// Calls `visit` with each tensor that is stored in the graph, bodies and attributes included.
template <class Visit>
void for_each_tensor(const google::protobuf::RepeatedPtrField<NodeProto>& nodes, const Visit& visit);

template <class Visit>
void for_each_tensor(const GraphProto& graph, const Visit& visit) {
  for (const auto& tensor : graph.initializer()) visit(tensor);
  for (const auto& tensor : graph.sparse_initializer()) {
    visit(tensor.values());
    visit(tensor.indices());
  }
  for_each_tensor(graph.node(), visit);
}

template <class Visit>
void for_each_tensor(const google::protobuf::RepeatedPtrField<NodeProto>& nodes, const Visit& visit) {
  for (const NodeProto& node : nodes)
    for (const AttributeProto& a : node.attribute()) {
      if (a.has_t()) visit(a.t());
      for (const auto& tensor : a.tensors()) visit(tensor);
      if (a.has_sparse_tensor()) {
        visit(a.sparse_tensor().values());
        visit(a.sparse_tensor().indices());
      }
      if (a.has_g()) for_each_tensor(a.g(), visit);
      for (const GraphProto& graph : a.graphs()) for_each_tensor(graph, visit);
    }
}

}  // namespace

std::vector<std::string> external_files(const OnnxModel& model) {
  std::set<std::string> files;
  const auto add = [&](const onnx::TensorProto& tensor) {
    if (tensor.data_location() != onnx::TensorProto::EXTERNAL) return;
    for (const auto& entry : tensor.external_data())
      if (entry.key() == "location" && !model.data.in_memory.contains(entry.value())) files.insert(entry.value());
  };
  for_each_tensor(model.proto->graph(), add);
  for (const FunctionProto& function : model.proto->functions()) for_each_tensor(function.node(), add);
  return {files.begin(), files.end()};
}

Result<Digest> digest_of(const OnnxModel& model) {
  FETTLE_TRY(const std::string text, onnx_bytes(model));
  Digest digest = digest_large(std::as_bytes(std::span(text)));
  for (const auto& [location, content] : model.data.in_memory) {
    const Digest data = digest_large({content.bytes.get(), static_cast<size_t>(content.size_bytes)});
    digest = digest_bytes(digest.hex() + location + "\n" + data.hex());
  }
  return digest;
}

Result<OnnxModel> read_onnx(const std::string& path) {
  FETTLE_TRY(const MappedFile file, map_file(path));
  return parse_onnx({file.bytes.get(), static_cast<size_t>(file.size_bytes)},
                    std::filesystem::path(path).parent_path().string(), path);
}

Result<Graph> import_onnx(const OnnxModel& model, const InputNames& given, const Limits& limits) {
  auto graph = Importer(model, given, limits).run();
  if (!graph && graph.error().where.empty()) graph.error().where = model.label;
  return graph;
}

Result<Graph> import_onnx(const std::string& path, const InputNames& given, const Limits& limits) {
  FETTLE_TRY(const OnnxModel model, read_onnx(path));
  return import_onnx(model, given, limits);
}

Result<Graph> import_onnx_bytes(std::span<const std::byte> bytes, const std::string& folder, const std::string& label,
                                const InputNames& given, const Limits& limits) {
  FETTLE_TRY(const OnnxModel model, parse_onnx(bytes, folder, label));
  return import_onnx(model, given, limits);
}

}  // namespace fettle
