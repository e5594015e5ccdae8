#include "frontend/onnx/import.h"

#include <fmt/format.h>
#include <google/protobuf/stubs/logging.h>

#include <algorithm>
#include <climits>
#include <filesystem>
#include <map>
#include <set>
#include <unordered_map>

#include "frontend/onnx/model_file.h"
#include "frontend/onnx/normalize.h"
#include "frontend/onnx/tensor_reader.h"
#include "graph/op.h"
#include "onnx-ml.pb.h"

namespace fettle {
namespace {

using namespace onnx_reader;
using onnx::AttributeProto;
using onnx::GraphProto;
using onnx::ModelProto;
using onnx::NodeProto;

// Models that ask for more are refused before anything is built.
constexpr int kMaxNodes = 1'000'000;
constexpr int kMaxRank = 64;
constexpr int kMaxNesting = 16;

bool is_standard_domain(const std::string& domain) { return domain.empty() || domain == "ai.onnx"; }

std::string node_label(const NodeProto& node) {
  if (!node.name().empty()) return node.name();
  return node.output_size() > 0 ? node.output(0) : node.op_type();
}

std::string op_label(const NodeProto& node) {
  return is_standard_domain(node.domain()) ? node.op_type() : node.domain() + "." + node.op_type();
}

class Importer {
 public:
  Importer(std::shared_ptr<const ModelProto> model, const std::string& folder)
      : model_(std::move(model)), files_(folder), graph_(model_->graph().name()) {}

  Result<Graph> run() {
    FETTLE_TRY_VOID(read_opset());
    const GraphProto& graph = model_->graph();
    if (graph.node_size() > kMaxNodes) return fail(ErrorCode::E608, fmt::format("more than {} nodes", kMaxNodes));
    FETTLE_TRY_VOID(check_operators(graph));
    FETTLE_TRY_VOID(add_initializers(graph));
    for (const auto& input : graph.input()) FETTLE_TRY_VOID(add_input(input));
    FETTLE_TRY_VOID(add_nodes(graph, 0));
    if (graph.output_size() == 0) return fail(ErrorCode::E605, "the model has no outputs");
    for (const auto& output : graph.output()) {
      Value* value = find(output.name());
      if (!value) return fail(ErrorCode::E605, fmt::format("nothing makes the output \"{}\"", output.name()));
      graph_.add_output(output.name(), value);
    }
    graph_.sort();
    return std::move(graph_);
  }

 private:
  Result<> read_opset() {
    for (const auto& entry : model_->opset_import())
      if (is_standard_domain(entry.domain()))
        opset_ = static_cast<int>(std::clamp<int64_t>(entry.version(), 0, INT_MAX));
    if (opset_ < kMinOpset || opset_ > kMaxOpset)
      return fail(ErrorCode::E609, fmt::format("opset {}; {} to {} are read", opset_, kMinOpset, kMaxOpset));
    return {};
  }

  bool is_supported(const NodeProto& node) const {
    if (!is_standard_domain(node.domain())) return find_op(op_label(node)) != nullptr;
    const std::string& op = node.op_type();
    return op == "Constant" || op == "If" || is_renamed_operator(op) || find_op(op) != nullptr;
  }

  Result<> check_operators(const GraphProto& graph) {
    std::map<std::string, std::vector<std::string>> missing;
    for (const NodeProto& node : graph.node())
      if (!is_supported(node)) missing[op_label(node)].push_back(node_label(node));
    return report(missing);
  }

  static Result<> report(const std::map<std::string, std::vector<std::string>>& missing) {
    if (missing.empty()) return {};
    constexpr size_t kNamed = 8;
    std::string text;
    for (const auto& [op, nodes] : missing) {
      std::string names;
      for (size_t i = 0; i < std::min(nodes.size(), kNamed); ++i) names += (i ? ", " : "") + nodes[i];
      if (nodes.size() > kNamed) names += fmt::format(" and {} more", nodes.size() - kNamed);
      text += fmt::format("{}{} ({})", text.empty() ? "" : "; ", op, names);
    }
    return fail(ErrorCode::E603, text);
  }

  Result<> add_initializers(const GraphProto& graph) {
    for (const auto& tensor : graph.initializer()) {
      FETTLE_TRY(ConstantTensor data, read_tensor(tensor, model_, files_));
      FETTLE_TRY_VOID(define(tensor.name(), graph_.add_constant(tensor.name(), std::move(data)), "initializer"));
    }
    if (graph.sparse_initializer_size() > 0) return fail(ErrorCode::E603, "sparse initializers");
    return {};
  }

  Result<> add_input(const onnx::ValueInfoProto& input) {
    if (values_.count(input.name())) return {};  // an initializer that old models list as an input too
    if (!input.type().has_tensor_type()) return fail(ErrorCode::E603, "an input that is no tensor", input.name());
    const auto& type = input.type().tensor_type();
    const auto dtype = element_type(type.elem_type());
    if (!dtype) return fail(ErrorCode::E603, "an input of " + data_type_name(type.elem_type()), input.name());
    if (!type.has_shape()) return fail(ErrorCode::E604, "the input's rank is unknown", input.name());
    if (type.shape().dim_size() > kMaxRank)
      return fail(ErrorCode::E608, fmt::format("a rank above {}", kMaxRank), input.name());
    Shape shape;
    for (int d = 0; d < type.shape().dim_size(); ++d) {
      const auto& dim = type.shape().dim(d);
      if (dim.has_dim_value() && dim.dim_value() >= 0) {
        if (dim.dim_value() > kMaxDim) return fail(ErrorCode::E608, "an extent is too large", input.name());
        shape.push_back(dim.dim_value());
      } else if (dim.has_dim_param() && !dim.dim_param().empty() && dim.dim_param() != "?") {
        shape.push_back(Dim::symbol(dim.dim_param()));
      } else {
        shape.push_back(Dim::symbol(fmt::format("{}.{}", input.name(), d)));
      }
    }
    return define(input.name(), graph_.add_input(input.name(), {*dtype, std::move(shape)}), "input");
  }

  Result<> define(const std::string& name, Value* value, const std::string& where) {
    if (name.empty()) return fail(ErrorCode::E606, "a tensor without a name", where);
    if (!values_.emplace(name, value).second)
      return fail(ErrorCode::E605, fmt::format("\"{}\" is made twice", name), where);
    return {};
  }

  Value* find(const std::string& name) const {
    const auto it = values_.find(name);
    return it == values_.end() ? nullptr : it->second;
  }

  Result<> add_nodes(const GraphProto& graph, int depth) {
    for (const NodeProto& node : graph.node()) {
      const std::string op = op_label(node);
      auto added = op == "Constant" ? add_constant(node) : op == "If" ? add_branch(node, depth) : add_node(node);
      if (!added) {
        if (added.error().where.empty()) added.error().where = node_label(node);
        return added;
      }
    }
    return {};
  }

  Result<> add_constant(const NodeProto& node) {
    if (node.attribute_size() != 1 || node.output_size() != 1)
      return fail(ErrorCode::E606, "a Constant has one attribute and one output");
    const AttributeProto& a = node.attribute(0);
    const auto from_list = [&](DType dtype, const auto& list, bool is_scalar) -> Result<ConstantTensor> {
      std::vector<int64_t> shape;
      if (!is_scalar) shape.push_back(list.size());
      FETTLE_TRY(TensorBuilder out, make_tensor(dtype, shape));
      for (int i = 0; i < list.size(); ++i) {
        if (dtype == kI64)
          out.elems<int64_t>()[static_cast<size_t>(i)] = static_cast<int64_t>(list.Get(i));
        else
          out.elems<float>()[static_cast<size_t>(i)] = static_cast<float>(list.Get(i));
      }
      return std::move(out).finish();
    };
    Result<ConstantTensor> data;
    if (a.name() == "value")
      data = read_tensor(a.t(), model_, files_);
    else if (a.name() == "value_float")
      data = scalar(a.f());
    else if (a.name() == "value_int") {
      data = reshaped(int_list(std::vector<int64_t>{a.i()}), {});
    } else if (a.name() == "value_floats")
      data = from_list(kF32, a.floats(), false);
    else if (a.name() == "value_ints")
      data = from_list(kI64, a.ints(), false);
    else
      return fail(ErrorCode::E603, "Constant with " + a.name());
    if (!data) return fail(std::move(data.error()));
    return define(node.output(0), graph_.add_constant(node.output(0), std::move(*data)), node_label(node));
  }

  // An If whose condition is known becomes the branch that it takes.
  Result<> add_branch(const NodeProto& node, int depth) {
    const Value* condition = node.input_size() == 1 ? find(node.input(0)) : nullptr;
    if (!condition || !condition->is_constant() || condition->constant->n_elems() != 1)
      return fail(ErrorCode::E603, "If with a condition that is not constant");
    if (depth >= kMaxNesting) return fail(ErrorCode::E608, "branches are nested too deeply");
    const std::string taken = condition->constant->int_at(0) ? "then_branch" : "else_branch";
    for (const AttributeProto& a : node.attribute()) {
      if (a.name() != taken) continue;
      const GraphProto& branch = a.g();
      if (branch.output_size() < node.output_size()) return fail(ErrorCode::E605, taken + " has too few outputs");
      FETTLE_TRY_VOID(check_operators(branch));
      FETTLE_TRY_VOID(add_initializers(branch));
      FETTLE_TRY_VOID(add_nodes(branch, depth + 1));
      for (int i = 0; i < node.output_size(); ++i) {
        Value* value = find(branch.output(i).name());
        if (!value) return fail(ErrorCode::E605, fmt::format("nothing makes \"{}\"", branch.output(i).name()));
        if (node.output(i) != branch.output(i).name()) FETTLE_TRY_VOID(define(node.output(i), value, node_label(node)));
      }
      return {};
    }
    return fail(ErrorCode::E606, "If without " + taken);
  }

  Result<AttrValue> read_attribute(const AttributeProto& a) {
    switch (a.type()) {
      case AttributeProto::INT:
        return AttrValue(a.i());
      case AttributeProto::FLOAT:
        return AttrValue(static_cast<double>(a.f()));
      case AttributeProto::STRING:
        return AttrValue(a.s());
      case AttributeProto::INTS:
        return AttrValue(std::vector<int64_t>(a.ints().begin(), a.ints().end()));
      case AttributeProto::FLOATS:
        return AttrValue(std::vector<double>(a.floats().begin(), a.floats().end()));
      case AttributeProto::STRINGS:
        return AttrValue(std::vector<std::string>(a.strings().begin(), a.strings().end()));
      case AttributeProto::TENSOR: {
        FETTLE_TRY(ConstantTensor data, read_tensor(a.t(), model_, files_));
        return AttrValue(std::move(data));
      }
      default:
        return fail(ErrorCode::E603, fmt::format("attribute \"{}\" of a kind that is not supported", a.name()));
    }
  }

  Result<> add_node(const NodeProto& proto) {
    ModelNode node;
    node.op = op_label(proto);
    node.name = node_label(proto);
    for (const std::string& input : proto.input()) {
      Value* value = input.empty() ? nullptr : find(input);
      if (!value && !input.empty()) return fail(ErrorCode::E605, fmt::format("nothing makes the input \"{}\"", input));
      node.inputs.push_back(value);
    }
    node.outputs.assign(proto.output().begin(), proto.output().end());
    for (const AttributeProto& a : proto.attribute()) {
      FETTLE_TRY(AttrValue value, read_attribute(a));
      node.attrs.set(a.name(), std::move(value));
    }
    while (!node.outputs.empty() && node.outputs.back().empty()) node.outputs.pop_back();
    if (node.outputs.empty()) return {};
    FETTLE_TRY_VOID(normalize(node, opset_));
    while (!node.inputs.empty() && !node.inputs.back()) node.inputs.pop_back();

    const OpDef* op = find_op(node.op);
    const int n_inputs = static_cast<int>(node.inputs.size());
    bool complete = n_inputs >= op->min_inputs && (op->max_inputs < 0 || n_inputs <= op->max_inputs);
    for (int i = 0; complete && i < op->min_inputs; ++i) complete = node.inputs[static_cast<size_t>(i)] != nullptr;
    if (!complete) return fail(ErrorCode::E606, fmt::format("{} has {} inputs", node.op, n_inputs));
    if (op->n_outputs >= 0 && static_cast<int>(node.outputs.size()) > op->n_outputs)
      return fail(ErrorCode::E603, fmt::format("{} with {} outputs", node.op, node.outputs.size()));

    Node* made = graph_.add_node(op, node.name, node.inputs, std::move(node.attrs), node.outputs);
    made->provenance = {{op_label(proto), node_label(proto)}};
    for (size_t i = 0; i < node.outputs.size(); ++i)
      if (!node.outputs[i].empty()) FETTLE_TRY_VOID(define(node.outputs[i], made->outputs[i], made->name));
    return {};
  }

  std::shared_ptr<const ModelProto> model_;
  ExternalFiles files_;
  Graph graph_;
  int opset_ = 0;
  std::unordered_map<std::string, Value*> values_;  // by the model's names
};

}  // namespace

Result<Graph> import_onnx_bytes(std::span<const std::byte> bytes, const std::string& folder, const std::string& label) {
  if (bytes.size() > INT_MAX)
    return fail(ErrorCode::E608, "a model file above 2 GiB; keep its weights as external data", label);
  auto model = std::make_shared<ModelProto>();
  google::protobuf::LogSilencer quiet;
  if (!model->ParseFromArray(bytes.data(), static_cast<int>(bytes.size())) || !model->has_graph() ||
      model->opset_import_size() == 0)
    return fail(ErrorCode::E602, {}, label);
  auto graph = Importer(std::move(model), folder).run();
  if (!graph && graph.error().where.empty()) graph.error().where = label;
  return graph;
}

Result<Graph> import_onnx(const std::string& path) {
  FETTLE_TRY(const MappedFile file, map_file(path));
  return import_onnx_bytes({file.bytes.get(), static_cast<size_t>(file.size_bytes)},
                           std::filesystem::path(path).parent_path().string(), path);
}

}  // namespace fettle
