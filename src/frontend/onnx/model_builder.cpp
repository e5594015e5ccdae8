#include "frontend/onnx/model_builder.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <atomic>
#include <unordered_map>
#include <unordered_set>

#include "frontend/onnx/importer.h"
#include "frontend/onnx/model_check.h"
#include "frontend/onnx/schema.h"
#include "frontend/onnx/tensor_reader.h"
#include "graph/passes/passes.h"
#include "graph/small_types.h"
#include "graph/strings.h"
#include "onnx-ml.pb.h"

namespace fettle {

using namespace onnx_reader;
using onnx::TensorProto;

namespace {

// Names that no two values of any builder share, so that bodies may speak of values around them. What a value is to be
// called stands behind the colon.
std::string new_id(std::string_view wanted) {
  static std::atomic<int64_t> count{0};
  return fmt::format("{}:{}", ++count, wanted);
}
std::string wanted_name(std::string_view id) { return std::string(id.substr(id.find(':') + 1)); }

std::string type_text(DType dtype) {
  return fmt::format("tensor({})", data_type_name(static_cast<int>(onnx_number(dtype))));
}

/// Gives values the names of the finished model.
class Renaming {
 public:
  /// False: the name is taken.
  bool set(const std::string& id, const std::string& name) {
    return taken_.insert(name).second && names_.emplace(id, name).second;
  }
  bool has(const std::string& id) const { return names_.contains(id); }
  const std::string& get(const std::string& id) {
    const auto [it, is_new] = names_.try_emplace(id);
    if (!is_new) return it->second;
    const std::string wanted = wanted_name(id);
    it->second = wanted;
    for (int& i = suffixes_[wanted]; !taken_.insert(it->second).second;) it->second = fmt::format("{}_{}", wanted, ++i);
    return it->second;
  }
  void apply(GraphProto& graph) {
    for (auto& input : *graph.mutable_input()) input.set_name(get(input.name()));
    for (auto& tensor : *graph.mutable_initializer()) {
      tensor.set_name(get(tensor.name()));
      rename_data(tensor);
    }
    for (NodeProto& node : *graph.mutable_node()) {
      for (std::string& input : *node.mutable_input())
        if (!input.empty()) input = get(input);
      for (AttributeProto& a : *node.mutable_attribute()) {
        if (a.has_g()) apply(*a.mutable_g());
        if (a.has_t()) rename_data(*a.mutable_t());
      }
      for (std::string& output : *node.mutable_output()) output = get(output);
    }
    for (auto& output : *graph.mutable_output()) output.set_name(get(output.name()));
  }

  /// What the tensors are made of, under the names that they have for it now.
  std::map<std::string, MappedFile> renamed(const std::map<std::string, MappedFile>& data) const {
    std::map<std::string, MappedFile> made;
    for (const auto& [location, content] : data)
      if (const auto name = locations_.find(location); name != locations_.end()) made.emplace(name->second, content);
    return made;
  }

 private:
  void rename_data(TensorProto& tensor) {
    for (auto& entry : *tensor.mutable_external_data())
      entry.set_value(
          locations_.try_emplace(entry.value(), fmt::format("constant.{}", locations_.size())).first->second);
  }

  std::unordered_map<std::string, std::string> locations_;
  std::unordered_map<std::string, std::string> names_;
  std::unordered_set<std::string> taken_;
  std::unordered_map<std::string, int> suffixes_;
};

MappedFile packed(const ConstantTensor& data) {
  const int bits = data.dtype.bits, per_byte = 8 / bits;
  const int64_t bytes = (data.n_elems() + per_byte - 1) / per_byte;
  const std::shared_ptr<std::byte[]> made(new std::byte[static_cast<size_t>(bytes)]());
  const auto elems = data.elems<uint8_t>();
  const auto mask = static_cast<uint8_t>((1 << bits) - 1);
  for (size_t i = 0; i < elems.size(); ++i) {
    const size_t at = i / static_cast<size_t>(per_byte), place = i % static_cast<size_t>(per_byte);
    made[at] |= static_cast<std::byte>((elems[i] & mask) << (bits * static_cast<int>(place)));
  }
  return {std::shared_ptr<const std::byte>(made, made.get()), bytes};
}

}  // namespace

struct ModelBuilder::State {
  struct Output {
    std::string name, id;
  };
  GraphProto graph;
  int opset = kMaxOpset;
  Opsets opsets;
  std::vector<std::string> values;                     // their ids
  std::unordered_map<std::string, std::string> types;  // of values, captured ones too; empty: not known
  std::vector<Output> outputs;
  std::vector<BuilderValue> captured;
  std::map<std::string, MappedFile> data;  // of constants, those of bodies too
  std::unordered_map<std::string, int> counts;
  std::unordered_map<std::string, TensorType> inferred;  // by id
  bool is_body = false;

  int add_value(const std::string& id, std::string type) {
    values.push_back(id);
    types.emplace(id, std::move(type));
    return static_cast<int>(values.size()) - 1;
  }

  // Their bytes are external data in memory, so that none are copied and no file's largest size counts.
  void fill(TensorProto& tensor, const ConstantTensor& content) {
    tensor.set_data_type(static_cast<int>(onnx_number(content.dtype)));
    for (const int64_t extent : content.shape) tensor.add_dims(extent);
    if (content.dtype.is_string()) {
      for (const int64_t number : content.elems<int64_t>()) tensor.add_string_data(std::string(string_of(number)));
      return;
    }
    if (content.size_bytes == 0) {
      tensor.set_raw_data("");
      return;
    }
    const std::string location = new_id("constant");
    tensor.set_data_location(TensorProto::EXTERNAL);
    auto* entry = tensor.add_external_data();
    entry->set_key("location");
    entry->set_value(location);
    data.emplace(location, is_small(content.dtype) && content.dtype.bits < 8
                               ? packed(content)
                               : MappedFile{content.bytes, content.size_bytes});
  }

  ModelProto model_of(GraphProto content) const {
    ModelProto model;
    model.set_ir_version(newest_ir_version());
    for (const auto& [domain, version] : opsets) {
      auto* entry = model.add_opset_import();
      entry->set_domain(domain);
      entry->set_version(version);
    }
    *model.mutable_graph() = std::move(content);
    return model;
  }
};

ModelBuilder::ModelBuilder(std::unique_ptr<State> state) : state_(std::move(state)) {}
ModelBuilder::~ModelBuilder() = default;

Result<std::shared_ptr<ModelBuilder>> ModelBuilder::make(std::string name, int opset) {
  if (opset < kMinOpset || opset > kMaxOpset)
    return fail(ErrorCode::E609, fmt::format("opset {}; {} to {} are read", opset, kMinOpset, kMaxOpset));
  auto state = std::make_unique<State>();
  state->graph.set_name(std::move(name));
  state->opset = opset;
  state->opsets.emplace("", opset);
  return std::make_shared<ModelBuilder>(std::move(state));
}

const std::string& ModelBuilder::name() const { return state_->graph.name(); }
int ModelBuilder::opset() const { return state_->opset; }
int ModelBuilder::n_nodes() const { return state_->graph.node_size(); }
std::string ModelBuilder::value_name(int value) const {
  return wanted_name(state_->values[static_cast<size_t>(value)]);
}

Result<> ModelBuilder::check_open() const {
  if (!state_->is_body) return {};
  return fail(ErrorCode::E709, "the graph is a node's body already, and stays as it is", name());
}

Result<int> ModelBuilder::add_input(const std::string& name, std::optional<DType> dtype,
                                    const std::optional<std::vector<BuilderDim>>& shape) {
  FETTLE_TRY_VOID(check_open());
  if (name.empty()) return fail(ErrorCode::E606, "an input without a name", this->name());
  for (const auto& input : state_->graph.input())
    if (wanted_name(input.name()) == name) return fail(ErrorCode::E605, "two inputs have one name", name);
  if (shape && !dtype) return fail(ErrorCode::E606, "a shape without a type of elements", name);
  auto* input = state_->graph.add_input();
  input->set_name(new_id(name));
  if (dtype) {
    auto* type = input->mutable_type()->mutable_tensor_type();
    type->set_elem_type(static_cast<int>(onnx_number(*dtype)));
    if (shape) {
      auto* dims = type->mutable_shape();
      for (const BuilderDim& extent : *shape) {
        auto* dim = dims->add_dim();
        if (const auto* number = std::get_if<int64_t>(&extent)) {
          if (*number < 0) return fail(ErrorCode::E606, fmt::format("the extent {} is negative", *number), name);
          dim->set_dim_value(*number);
        } else if (const auto* size = std::get_if<std::string>(&extent)) {
          dim->set_dim_param(*size);
        }
      }
    }
  }
  return state_->add_value(input->name(), dtype ? type_text(*dtype) : std::string());
}

Result<int> ModelBuilder::add_constant(const std::string& name, const ConstantTensor& data) {
  FETTLE_TRY_VOID(check_open());
  TensorProto* tensor = state_->graph.add_initializer();
  tensor->set_name(new_id(name.empty() ? "constant" : name));
  state_->fill(*tensor, data);
  return state_->add_value(tensor->name(), type_text(data.dtype));
}

const std::string& ModelBuilder::use(const BuilderValue& value) {
  const State& owner = *value.graph->state_;
  const std::string& id = owner.values[static_cast<size_t>(value.index)];
  if (&owner != state_.get() && state_->types.emplace(id, owner.types.at(id)).second) state_->captured.push_back(value);
  return id;
}

Result<> ModelBuilder::take_body(const ModelBuilder& body) {
  if (&body == this) return fail(ErrorCode::E709, "a graph cannot be a body in itself", name());
  State& content = *body.state_;
  if (content.opset != state_->opset)
    return fail(ErrorCode::E609, fmt::format("a body of opset {} in a graph of opset {}", content.opset, opset()));
  content.is_body = true;
  for (const BuilderValue& value : content.captured) (void)use(value);
  for (const auto& [location, bytes] : content.data) state_->data.emplace(location, bytes);
  state_->opsets.insert(content.opsets.begin(), content.opsets.end());
  return {};
}

namespace {

struct FilledAttribute {
  AttributeProto* made;
  const OperatorSchema* schema;
  ModelBuilder::State* state;

  int kind() const {
    if (!schema) return AttributeProto::UNDEFINED;
    const auto known = std::ranges::find(schema->attributes, made->name(), &AttributeSchema::name);
    return known == schema->attributes.end() ? AttributeProto::UNDEFINED : known->kind;
  }
  void operator()(int64_t value) const {
    if (kind() == AttributeProto::FLOAT) return (*this)(static_cast<double>(value));
    made->set_type(AttributeProto::INT);
    made->set_i(value);
  }
  void operator()(double value) const {
    made->set_type(AttributeProto::FLOAT);
    made->set_f(static_cast<float>(value));
  }
  void operator()(const std::string& value) const {
    made->set_type(AttributeProto::STRING);
    made->set_s(value);
  }
  void operator()(DType value) const { (*this)(onnx_number(value)); }
  void operator()(const std::vector<int64_t>& values) const {
    if (kind() == AttributeProto::FLOATS) return (*this)(std::vector<double>(values.begin(), values.end()));
    if (values.empty() && kind() == AttributeProto::STRINGS) return (*this)(std::vector<std::string>());
    made->set_type(AttributeProto::INTS);
    for (const int64_t value : values) made->add_ints(value);
  }
  void operator()(const std::vector<double>& values) const {
    made->set_type(AttributeProto::FLOATS);
    for (const double value : values) made->add_floats(static_cast<float>(value));
  }
  void operator()(const std::vector<std::string>& values) const {
    made->set_type(AttributeProto::STRINGS);
    for (const std::string& value : values) made->add_strings(value);
  }
  void operator()(const ConstantTensor& value) const {
    made->set_type(AttributeProto::TENSOR);
    state->fill(*made->mutable_t(), value);
  }
  void operator()(const std::shared_ptr<ModelBuilder>&) const {}  // the builder itself takes it
};

}  // namespace

Result<std::vector<int>> ModelBuilder::add_node(const BuilderNode& given) {
  FETTLE_TRY_VOID(check_open());
  NodeProto node;
  node.set_op_type(given.op);
  if (!is_standard_domain(given.domain)) node.set_domain(given.domain);
  const std::string label = op_label(node), called = given.name.empty() ? label : given.name;
  if (!is_known_operator(node)) return fail(ErrorCode::E603, label, called);
  if (!state_->opsets.contains(node.domain()))
    state_->opsets.emplace(node.domain(), std::max(1, newest_opset(node.domain())));
  const OperatorSchema* schema = find_schema(node.domain(), given.op, state_->opsets.find(node.domain())->second);
  node.set_name(given.name);
  std::unordered_map<std::string, std::string> types;
  for (const std::optional<BuilderValue>& input : given.inputs) {
    std::string* name = node.add_input();
    if (!input) continue;
    *name = use(*input);
    types[*name] = state_->types.at(*name);
  }
  while (node.input_size() > 0 && node.input(node.input_size() - 1).empty()) node.mutable_input()->RemoveLast();
  for (const auto& [name, value] : given.attributes) {
    AttributeProto* made = node.add_attribute();
    made->set_name(name);
    std::visit(FilledAttribute{made, schema, state_.get()}, value);
    const auto* body = std::get_if<std::shared_ptr<ModelBuilder>>(&value);
    if (!body) continue;
    if (auto taken = take_body(**body); !taken) return fail(std::move(taken.error()));
    made->set_type(AttributeProto::GRAPH);
    *made->mutable_g() = (*body)->state_->graph;
    for (const State::Output& output : (*body)->state_->outputs) made->mutable_g()->add_output()->set_name(output.id);
    for (const BuilderValue& read : (*body)->state_->captured) {
      const std::string& id = read.graph->state_->values[static_cast<size_t>(read.index)];
      types[id] = state_->types.at(id);
    }
  }
  for (int i = 0; i < given.n_outputs; ++i) {
    const std::string base = given.name.empty() ? given.op : given.name;
    *node.add_output() = new_id(i == 0 ? base : fmt::format("{}.{}", base, i));
  }
  auto made = check_node(node, state_->opsets, types, {});
  if (!made) {
    made.error().where = called;
    return fail(std::move(made.error()));
  }
  std::vector<int> outputs;
  for (int i = 0; i < node.output_size(); ++i)
    outputs.push_back(state_->add_value(node.output(i), std::move((*made)[static_cast<size_t>(i)])));
  *state_->graph.add_node() = std::move(node);
  return outputs;
}

Result<> ModelBuilder::add_output(const std::string& name, const BuilderValue& value) {
  FETTLE_TRY_VOID(check_open());
  if (name.empty()) return fail(ErrorCode::E606, "an output without a name", this->name());
  for (const State::Output& output : state_->outputs)
    if (output.name == name) return fail(ErrorCode::E605, "two outputs have one name", name);
  state_->outputs.push_back({name, use(value)});
  return {};
}

Result<OnnxModel> ModelBuilder::finish() const {
  const State& state = *state_;
  if (state.outputs.empty()) return fail(ErrorCode::E605, "the model has no outputs", name());
  if (!state.captured.empty()) {
    const BuilderValue& value = state.captured.front();
    return fail(ErrorCode::E605,
                fmt::format("\"{}\" is of another graph, and only bodies of its nodes may use it",
                            value.graph->value_name(value.index)),
                name());
  }
  GraphProto graph = state.graph;
  Renaming names;
  std::unordered_set<std::string> made;
  for (const NodeProto& node : graph.node()) made.insert(node.output().begin(), node.output().end());
  for (const auto& input : graph.input()) names.set(input.name(), wanted_name(input.name()));
  for (const State::Output& output : state.outputs) {
    std::string id = output.id;
    // What is no node's, or has a name already, is an output under another one.
    if (!made.contains(id) || names.has(id)) {
      NodeProto* copy = graph.add_node();
      copy->set_op_type("Identity");
      copy->add_input(id);
      id = new_id(output.name);
      copy->add_output(id);
    }
    if (!names.set(id, output.name)) return fail(ErrorCode::E605, "an input and an output have one name", output.name);
    graph.add_output()->set_name(id);
  }
  names.apply(graph);
  return OnnxModel{
      std::make_shared<const ModelProto>(state.model_of(std::move(graph))), {{}, names.renamed(state.data)}, name()};
}

std::optional<DType> ModelBuilder::dtype_of(int value) const {
  const std::string& id = state_->values[static_cast<size_t>(value)];
  if (const auto known = state_->inferred.find(id); known != state_->inferred.end()) return known->second.dtype;
  const std::string& text = state_->types.at(id);
  for (int number = 1; number < TensorProto::DataType_ARRAYSIZE; ++number)
    if (const auto dtype = element_type(number); dtype && text == type_text(*dtype)) return dtype;
  return std::nullopt;
}

Result<> ModelBuilder::infer() {
  State& state = *state_;
  GraphProto graph = state.graph;
  for (const BuilderValue& value : state.captured) {
    FETTLE_TRY(const TensorType type, value.graph->type_of(value.index));
    auto* input = graph.add_input();
    input->set_name(value.graph->state_->values[static_cast<size_t>(value.index)]);
    auto* tensor = input->mutable_type()->mutable_tensor_type();
    tensor->set_elem_type(static_cast<int>(onnx_number(type.dtype)));
    auto* dims = tensor->mutable_shape();
    for (const Dim& dim : type.shape) {
      if (dim.is_number())
        dims->add_dim()->set_dim_value(dim.value());
      else
        dims->add_dim()->set_dim_param(dim.to_string());
    }
  }
  Renaming names;
  names.apply(graph);
  for (const std::string& id : state.values)
    if (const std::string& type = state.types.at(id); type.empty() || type.starts_with("tensor("))
      graph.add_output()->set_name(names.get(id));
  const OnnxModel model{
      std::make_shared<const ModelProto>(state.model_of(std::move(graph))), {{}, names.renamed(state.data)}, name()};
  FETTLE_TRY(Graph made, import_onnx(model));
  made.sort();
  FETTLE_TRY_VOID(passes::infer_shapes(made, {}));
  std::unordered_map<std::string_view, const Value*> found;
  for (const GraphOutput& output : made.outputs()) found.emplace(output.name, output.value);
  for (const std::string& id : state.values)
    if (const auto it = found.find(names.get(id)); it != found.end() && it->second->type)
      state.inferred.insert_or_assign(id, *it->second->type);
  return {};
}

Result<TensorType> ModelBuilder::type_of(int value) {
  const std::string& id = state_->values[static_cast<size_t>(value)];
  if (!state_->inferred.contains(id)) FETTLE_TRY_VOID(infer());
  const auto found = state_->inferred.find(id);
  if (found == state_->inferred.end()) return fail(ErrorCode::E604, "it is no tensor", wanted_name(id));
  return found->second;
}

std::string ModelBuilder::to_text() const {
  const auto ids = [](const auto& list) {
    std::vector<std::string> names;
    for (const std::string& id : list) names.push_back(id.empty() ? "_" : wanted_name(id));
    return fmt::format("{}", fmt::join(names, ", "));
  };
  std::string text;
  for (const auto& input : state_->graph.input())
    text += fmt::format("input {}: {}\n", wanted_name(input.name()), state_->types.at(input.name()));
  for (const NodeProto& node : state_->graph.node())
    text += fmt::format("{} = {}({})\n", ids(node.output()), op_label(node), ids(node.input()));
  for (const State::Output& output : state_->outputs)
    text += fmt::format("output {}: {}\n", output.name, wanted_name(output.id));
  return text;
}

}  // namespace fettle
