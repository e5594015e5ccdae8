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
#include "graph/control.h"
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

/// The graph that is being read: the model's, or a body in one around it.
struct Scope {
  Graph graph;
  std::unordered_map<std::string, Value*> values;  // by the model's names
  Scope* around = nullptr;
  int depth = 0;
  std::vector<std::pair<std::string, Value*>> captured;  // from around, by their names: the body's inputs
};

class Importer {
 public:
  Importer(std::shared_ptr<const ModelProto> model, const std::string& folder)
      : model_(std::move(model)), files_(folder) {}

  Result<Graph> run() {
    FETTLE_TRY_VOID(read_opset());
    const GraphProto& graph = model_->graph();
    if (graph.node_size() > kMaxNodes) return fail(ErrorCode::E608, fmt::format("more than {} nodes", kMaxNodes));
    Scope scope{.graph = Graph(graph.name())};
    scope_ = &scope;
    FETTLE_TRY_VOID(check_operators(graph));
    FETTLE_TRY_VOID(add_initializers(graph));
    for (const auto& input : graph.input()) FETTLE_TRY_VOID(add_input(input));
    FETTLE_TRY_VOID(add_nodes(graph));
    if (graph.output_size() == 0) return fail(ErrorCode::E605, "the model has no outputs");
    FETTLE_TRY_VOID(add_outputs(graph));
    scope.graph.sort();
    return std::move(scope.graph);
  }

 private:
  Result<> read_opset() {
    bool is_stated = false;
    for (const auto& entry : model_->opset_import())
      if (is_standard_domain(entry.domain())) {
        opset_ = static_cast<int>(std::clamp<int64_t>(entry.version(), 0, INT_MAX));
        is_stated = true;
      }
    // A model without ONNX's own operators states no opset of them.
    const auto& nodes = model_->graph().node();
    if (!is_stated && std::ranges::none_of(nodes, [](const auto& n) { return is_standard_domain(n.domain()); }))
      opset_ = kMaxOpset;
    if (opset_ < kMinOpset || opset_ > kMaxOpset)
      return fail(ErrorCode::E609, fmt::format("opset {}; {} to {} are read", opset_, kMinOpset, kMaxOpset));
    return {};
  }

  bool is_supported(const NodeProto& node) const {
    const std::string op = op_label(node);
    return op == "Constant" || find_op(newest_name(op)) != nullptr;
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

  Result<> add_outputs(const GraphProto& proto) {
    for (const auto& output : proto.output()) {
      Value* value = find(output.name());
      if (!value) return fail(ErrorCode::E605, fmt::format("nothing makes the output \"{}\"", output.name()));
      scope_->graph.add_output(output.name(), value);
    }
    return {};
  }

  Result<> add_initializers(const GraphProto& graph) {
    for (const auto& tensor : graph.initializer()) {
      FETTLE_TRY(ConstantTensor data, read_tensor(tensor, model_, files_));
      FETTLE_TRY_VOID(define(tensor.name(), scope_->graph.add_constant(tensor.name(), std::move(data)), "initializer"));
    }
    if (graph.sparse_initializer_size() > 0) return fail(ErrorCode::E603, "sparse initializers");
    return {};
  }

  // What an extent that the model leaves open often is: one image or text at a time, unless nothing else is open.
  static int64_t typical_size(const onnx::TensorShapeProto& shape, int axis) {
    constexpr int64_t kUsual = 128, kImageSide = 224, kImageRank = 4;
    const auto is_open = [&](int d) { return !shape.dim(d).has_dim_value() || shape.dim(d).dim_value() < 0; };
    if (axis > 0) return shape.dim_size() >= kImageRank ? kImageSide : kUsual;
    for (int d = 1; d < shape.dim_size(); ++d)
      if (is_open(d)) return 1;
    return shape.dim_size() >= kImageRank ? 1 : kUsual;
  }

  Result<> add_input(const onnx::ValueInfoProto& input) {
    if (scope_->values.contains(input.name())) return {};  // an initializer that old models list as an input too
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
        shape.push_back(Dim::symbol(dim.dim_param(), 0, kMaxDim, 1, typical_size(type.shape(), d)));
      } else {
        shape.push_back(
            Dim::symbol(fmt::format("{}.{}", input.name(), d), 0, kMaxDim, 1, typical_size(type.shape(), d)));
      }
    }
    return define(input.name(), scope_->graph.add_input(input.name(), {*dtype, std::move(shape)}), "input");
  }

  Result<> define(const std::string& name, Value* value, const std::string& where) {
    if (name.empty()) return fail(ErrorCode::E606, "a tensor without a name", where);
    if (!scope_->values.emplace(name, value).second)
      return fail(ErrorCode::E605, fmt::format("\"{}\" is made twice", name), where);
    return {};
  }

  Value* find(const std::string& name) { return find(name, *scope_); }

  // What a body uses of the graphs around becomes an input of it, or a constant of its own.
  static Value* find(const std::string& name, Scope& scope) {
    if (const auto it = scope.values.find(name); it != scope.values.end()) return it->second;
    if (!scope.around) return nullptr;
    Value* outside = find(name, *scope.around);
    if (!outside) return nullptr;
    Value* inside = nullptr;
    if (outside->is_constant()) {
      inside = scope.graph.add_constant(name, *outside->constant);
    } else {
      inside = scope.graph.add_input(name);
      scope.captured.emplace_back(name, outside);
    }
    scope.values.emplace(name, inside);
    return inside;
  }

  Result<> add_nodes(const GraphProto& graph) {
    for (const NodeProto& node : graph.node()) {
      const std::string op = op_label(node);
      auto added = op == "Constant" ? add_constant(node)
                   : op == "If"     ? add_branch(node)
                   : op == "Loop"   ? add_loop(node)
                   : op == "Scan"   ? add_scan(node)
                                    : add_node(node);
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
    return define(node.output(0), scope_->graph.add_constant(node.output(0), std::move(*data)), node_label(node));
  }

  /// One of a node's graphs. `n_inputs` of its inputs are its own; those that it captures follow.
  Result<> read_body(const NodeProto& node, std::string_view name, Scope& scope, int n_inputs) {
    const auto& attributes = node.attribute();
    const auto found = std::find_if(attributes.begin(), attributes.end(),
                                    [&](const AttributeProto& a) { return a.name() == name && a.has_g(); });
    if (found == attributes.end()) return fail(ErrorCode::E606, fmt::format("{} without {}", node.op_type(), name));
    const GraphProto& proto = found->g();
    scope.graph = Graph(std::string(name));
    scope.around = scope_;
    scope.depth = scope_->depth + 1;
    if (scope.depth > kMaxNesting) return fail(ErrorCode::E608, "bodies are nested too deeply");
    if (proto.node_size() > kMaxNodes) return fail(ErrorCode::E608, fmt::format("more than {} nodes", kMaxNodes));
    if (proto.input_size() != n_inputs)
      return fail(ErrorCode::E605, fmt::format("{} takes {} inputs instead of {}", name, proto.input_size(), n_inputs));
    scope_ = &scope;
    auto read = [&]() -> Result<> {
      FETTLE_TRY_VOID(check_operators(proto));
      // Their types are those of what the node gives.
      for (const auto& input : proto.input())
        FETTLE_TRY_VOID(define(input.name(), scope_->graph.add_input(input.name()), "input"));
      FETTLE_TRY_VOID(add_initializers(proto));
      FETTLE_TRY_VOID(add_nodes(proto));
      return add_outputs(proto);
    }();
    scope_ = scope.around;
    if (read) scope.graph.sort();
    return read;
  }

  /// Adds what the bodies captured to the node's inputs, in one order, and the bodies to the node.
  Node* add_control(const OpDef* op, const NodeProto& proto, std::vector<Value*> inputs, Attrs attrs,
                    std::vector<Scope>& bodies, std::vector<std::string> outputs) {
    std::vector<std::pair<std::string, Value*>> captured;
    for (const Scope& body : bodies)
      for (const auto& value : body.captured)
        if (std::find(captured.begin(), captured.end(), value) == captured.end()) captured.push_back(value);
    for (const auto& [name, value] : captured) inputs.push_back(value);
    Node* made = scope_->graph.add_node(op, node_label(proto), std::move(inputs), std::move(attrs), std::move(outputs));
    for (Scope& body : bodies) {
      std::vector<Value*> order;
      for (const auto& [name, value] : captured) {
        const auto it = body.values.find(name);
        const bool reads =
            std::find(body.captured.begin(), body.captured.end(), std::pair(name, value)) != body.captured.end();
        order.push_back(reads ? it->second : body.graph.add_input(name));
      }
      body.graph.order_last_inputs(order);
      made->bodies.push_back(std::make_shared<Graph>(std::move(body.graph)));
    }
    return made;
  }

  Result<> finish(const NodeProto& proto, Node* made) {
    made->provenance = {{op_label(proto), node_label(proto)}};
    for (int i = 0; i < std::min<int>(proto.output_size(), static_cast<int>(made->outputs.size())); ++i)
      if (!proto.output(i).empty())
        FETTLE_TRY_VOID(define(proto.output(i), made->outputs[static_cast<size_t>(i)], made->name));
    return {};
  }

  Result<std::vector<Value*>> find_inputs(const NodeProto& node) {
    std::vector<Value*> inputs;
    for (const std::string& name : node.input()) {
      inputs.push_back(name.empty() ? nullptr : find(name));
      if (!inputs.back() && !name.empty())
        return fail(ErrorCode::E605, fmt::format("nothing makes the input \"{}\"", name));
    }
    return inputs;
  }

  Result<> add_branch(const NodeProto& node) {
    FETTLE_TRY(std::vector<Value*> inputs, find_inputs(node));
    if (inputs.size() != 1 || !inputs[0]) return fail(ErrorCode::E606, "If has one input");
    std::vector<Scope> bodies(2);
    FETTLE_TRY_VOID(read_body(node, "then_branch", bodies[0], 0));
    FETTLE_TRY_VOID(read_body(node, "else_branch", bodies[1], 0));
    std::vector<std::string> outputs(node.output().begin(), node.output().end());
    for (const Scope& body : bodies)
      if (body.graph.outputs().size() != outputs.size())
        return fail(ErrorCode::E605, fmt::format("If has {} outputs, {} of {}", outputs.size(),
                                                 body.graph.outputs().size(), body.graph.name()));
    return finish(node, add_control(find_op("If"), node, std::move(inputs), {}, bodies, std::move(outputs)));
  }

  Result<> add_loop(const NodeProto& node) {
    FETTLE_TRY(std::vector<Value*> inputs, find_inputs(node));
    if (inputs.size() < 2) inputs.resize(2, nullptr);
    const int n_carried = static_cast<int>(inputs.size()) - 2;
    if (std::find(inputs.begin() + 2, inputs.end(), nullptr) != inputs.end())
      return fail(ErrorCode::E606, "Loop lacks a value that it carries");
    std::vector<Scope> bodies(1);
    FETTLE_TRY_VOID(read_body(node, "body", bodies[0], n_carried + 2));
    if (static_cast<int>(bodies[0].graph.outputs().size()) < n_carried + 1)
      return fail(ErrorCode::E605, fmt::format("Loop carries {} values, and its body returns {}", n_carried,
                                               bodies[0].graph.outputs().size()));
    Attrs attrs;
    attrs.set("carried", int64_t{n_carried});
    std::vector<std::string> outputs(node.output().begin(), node.output().end());
    if (outputs.size() > bodies[0].graph.outputs().size() - 1)
      return fail(ErrorCode::E605, "Loop has too many outputs");
    outputs.resize(bodies[0].graph.outputs().size() - 1);
    return finish(node,
                  add_control(find_op("Loop"), node, std::move(inputs), std::move(attrs), bodies, std::move(outputs)));
  }

  Result<> add_scan(const NodeProto& node) {
    if (opset_ < 9) return fail(ErrorCode::E603, "Scan of opset 8; opset 9 and later are read");
    FETTLE_TRY(std::vector<Value*> inputs, find_inputs(node));
    if (std::find(inputs.begin(), inputs.end(), nullptr) != inputs.end())
      return fail(ErrorCode::E606, "Scan lacks an input");
    std::vector<Scope> bodies(1);
    FETTLE_TRY_VOID(read_body(node, "body", bodies[0], static_cast<int>(inputs.size())));
    Attrs attrs;
    for (const AttributeProto& a : node.attribute())
      if (a.name() != "body") {
        FETTLE_TRY(AttrValue value, read_attribute(a));
        attrs.set(a.name(), std::move(value));
      }
    const int64_t n_scanned = attrs.get_int("num_scan_inputs", 0), n_inputs = static_cast<int64_t>(inputs.size());
    if (n_scanned < 1 || n_scanned > n_inputs) return fail(ErrorCode::E606, "num_scan_inputs does not fit");
    attrs.set("carried", n_inputs - n_scanned);
    std::vector<std::string> outputs(node.output().begin(), node.output().end());
    if (outputs.size() > bodies[0].graph.outputs().size()) return fail(ErrorCode::E605, "Scan has too many outputs");
    outputs.resize(bodies[0].graph.outputs().size());
    return finish(node,
                  add_control(find_op("Scan"), node, std::move(inputs), std::move(attrs), bodies, std::move(outputs)));
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
    FETTLE_TRY(node.inputs, find_inputs(proto));
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

    Node* made = scope_->graph.add_node(op, node.name, node.inputs, std::move(node.attrs), node.outputs);
    return finish(proto, made);
  }

  std::shared_ptr<const ModelProto> model_;
  ExternalFiles files_;
  Scope* scope_ = nullptr;
  int opset_ = 0;
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
