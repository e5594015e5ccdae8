#include "frontend/onnx/model_check.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <climits>
#include <cstdint>
#include <map>
#include <numeric>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "frontend/onnx/importer.h"
#include "frontend/onnx/schema.h"

namespace fettle::onnx_reader {
namespace {

using onnx::TensorProto;
using onnx::TypeProto;

std::string shortened(const std::string& name) { return name.size() <= 80 ? name : name.substr(0, 80) + "…"; }

std::string tensor_of(int64_t element) {
  return element > 0 && TensorProto::DataType_IsValid(static_cast<int>(element))
             ? "tensor(" + data_type_name(static_cast<int>(element)) + ")"
             : std::string();
}

// As schemas write it; empty where it is not known.
std::string type_name(const TypeProto& type) {
  const auto within = [](const char* kind, const std::string& element) {
    return element.empty() ? element : fmt::format("{}({})", kind, element);
  };
  switch (type.value_case()) {
    case TypeProto::kTensorType:
      return tensor_of(type.tensor_type().elem_type());
    case TypeProto::kSparseTensorType:
      return "sparse_" + tensor_of(type.sparse_tensor_type().elem_type());
    case TypeProto::kSequenceType:
      return within("seq", type_name(type.sequence_type().elem_type()));
    case TypeProto::kOptionalType:
      return within("optional", type_name(type.optional_type().elem_type()));
    case TypeProto::kMapType: {
      const std::string value = type_name(type.map_type().value_type());
      const int key = type.map_type().key_type();
      return value.empty() || !TensorProto::DataType_IsValid(key)
                 ? std::string()
                 : fmt::format("map({},{})", data_type_name(key), value);
    }
    default:
      return {};
  }
}

// How many letters have to be put in, taken out or changed.
size_t edits_between(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 0; i < a.size(); ++i) {
    size_t corner = row[0]++;
    for (size_t j = 0; j < b.size(); ++j) {
      const size_t changed = corner + (a[i] != b[j]);
      corner = row[j + 1];
      row[j + 1] = std::min({row[j + 1] + 1, row[j] + 1, changed});
    }
  }
  return row.back();
}

std::string unknown_attribute(const OperatorSchema& schema, const std::string& name) {
  std::string text = fmt::format("{} has no attribute \"{}\"", schema.name, shortened(name));
  if (schema.attributes.empty()) return text + ", and no other";
  const auto distance = [&](const AttributeSchema& a) { return edits_between(a.name, name.substr(0, 80)); };
  const AttributeSchema& nearest = *std::ranges::min_element(schema.attributes, {}, distance);
  if (distance(nearest) <= std::max<size_t>(2, nearest.name.size() / 3))
    return text + fmt::format("; is \"{}\" meant?", nearest.name);
  std::vector<std::string_view> known;
  for (const AttributeSchema& a : schema.attributes) known.push_back(a.name);
  return text + fmt::format("; it has {}", fmt::join(known, ", "));
}

/// What is known of names while nodes are looked at, one after the other.
struct Names {
  const Names* around = nullptr;
  std::unordered_map<std::string_view, std::string> types;  // empty: not known

  const std::string* find(std::string_view name) const {
    for (const Names* at = this; at; at = at->around)
      if (const auto found = at->types.find(name); found != at->types.end()) return &found->second;
    return nullptr;
  }
};

class Checker {
 public:
  explicit Checker(const Limits& limits, Opsets opsets = {}) : limits_(limits), opsets_(std::move(opsets)) {}

  Result<> check(const ModelProto& model) {
    if (model.has_ir_version() && (model.ir_version() < 1 || model.ir_version() > newest_ir_version()))
      return fail(ErrorCode::E609,
                  fmt::format("IR version {}; 1 to {} are read", model.ir_version(), newest_ir_version()));
    FETTLE_TRY(opsets_, read_opsets(model.opset_import()));
    if (opsets_.empty()) opsets_.emplace("", 1);  // of a file of the format's first versions
    for (const auto& function : model.functions()) functions_.emplace(function.domain(), function.name());
    const GraphProto& graph = model.graph();
    FETTLE_TRY_VOID(check_limit(limits_, &Limits::inputs, graph.input_size()));
    FETTLE_TRY_VOID(check_limit(limits_, &Limits::outputs, graph.output_size()));
    Names names;
    FETTLE_TRY_VOID(check_graph(graph, names, 0));
    for (const auto& function : model.functions()) FETTLE_TRY_VOID(check_function(function));
    return {};
  }

  Result<std::vector<std::string>> check_one(const NodeProto& node,
                                             const std::unordered_map<std::string, std::string>& types) {
    Names names;
    for (const auto& [name, type] : types) names.types.emplace(name, type);
    FETTLE_TRY_VOID(check_node(node, names, 0));
    std::vector<std::string> made;
    for (const std::string& output : node.output()) made.push_back(output.empty() ? output : names.types[output]);
    return made;
  }

 private:
  static Result<Opsets> read_opsets(const google::protobuf::RepeatedPtrField<onnx::OperatorSetIdProto>& imports) {
    Opsets opsets;
    for (const auto& entry : imports) {
      const std::string domain = is_standard_domain(entry.domain()) ? std::string() : entry.domain();
      const int64_t newest = domain.empty() ? kMaxOpset : is_onnx_domain(domain) ? newest_opset(domain) : INT64_MAX;
      if (entry.version() < 1 || entry.version() > newest)
        return fail(ErrorCode::E609, fmt::format("opset {} of \"{}\"", entry.version(), shortened(domain)));
      // Tools that merge models state the same one twice.
      if (const auto [known, is_new] = opsets.emplace(domain, entry.version());
          !is_new && known->second != entry.version())
        return fail(ErrorCode::E609, fmt::format("two opsets of \"{}\"", shortened(domain)));
    }
    return opsets;
  }

  // In its own opsets, or those of the model. Of its inputs' types nothing is known.
  Result<> check_function(const FunctionProto& function) {
    FETTLE_TRY(Opsets own, read_opsets(function.opset_import()));
    own.insert(opsets_.begin(), opsets_.end());
    opsets_.swap(own);
    Names names;
    for (const std::string& input : function.input()) names.types.emplace(input, std::string());
    nodes_ += function.node_size();
    FETTLE_TRY_VOID(check_limit(limits_, &Limits::nodes, nodes_));
    for (const NodeProto& node : function.node())
      if (auto checked = check_node(node, names, 0); !checked) {
        if (checked.error().where.empty()) checked.error().where = shortened(function.name() + "/" + node_label(node));
        return checked;
      }
    opsets_.swap(own);
    return {};
  }

  Result<> check_text(const std::string& text, std::string_view where) const {
    return check_limit(limits_, &Limits::string_bytes, static_cast<int64_t>(text.size()), where);
  }

  Result<> check_shape(const onnx::ValueInfoProto& value) const {
    FETTLE_TRY_VOID(check_text(value.name(), "a name"));
    const auto& type = value.type();
    if (!type.has_tensor_type()) return {};
    return check_limit(limits_, &Limits::rank, type.tensor_type().shape().dim_size(), value.name());
  }

  Result<> check_tensor(const TensorProto& tensor) const {
    FETTLE_TRY_VOID(check_text(tensor.name(), "a name"));
    return check_limit(limits_, &Limits::rank, tensor.dims_size(), tensor.name());
  }

  static Result<> check_same(const onnx::ValueInfoProto& input, const TensorProto& tensor) {
    const std::string declared = type_name(input.type()), stored = tensor_of(tensor.data_type());
    bool same = declared.empty() || declared == stored;
    const auto& type = input.type().tensor_type();
    if (same && type.has_shape()) {
      same = type.shape().dim_size() == tensor.dims_size();
      for (int d = 0; same && d < tensor.dims_size(); ++d) {
        const auto& dim = type.shape().dim(d);
        same = !dim.has_dim_value() || dim.dim_value() < 0 || dim.dim_value() == tensor.dims(d);
      }
    }
    if (same) return {};
    return fail(ErrorCode::E605, "the initializer has another type than the input of its name", input.name());
  }

  Result<> check_graph(const GraphProto& graph, Names& names, int depth) {
    FETTLE_TRY_VOID(check_limit(limits_, &Limits::nesting, depth, graph.name()));
    nodes_ += graph.node_size();
    FETTLE_TRY_VOID(check_limit(limits_, &Limits::nodes, nodes_));
    std::unordered_map<std::string_view, const TensorProto*> initializers;
    for (const TensorProto& tensor : graph.initializer()) {
      FETTLE_TRY_VOID(check_tensor(tensor));
      initializers.emplace(tensor.name(), &tensor);
      names.types.emplace(tensor.name(), tensor_of(tensor.data_type()));
    }
    for (const auto& tensor : graph.sparse_initializer()) {
      FETTLE_TRY_VOID(check_tensor(tensor.values()));
      FETTLE_TRY_VOID(check_limit(limits_, &Limits::rank, tensor.dims_size(), tensor.values().name()));
      names.types.emplace(tensor.values().name(), tensor_of(tensor.values().data_type()));
    }
    std::unordered_set<std::string_view> inputs, outputs;
    for (const auto& input : graph.input()) {
      FETTLE_TRY_VOID(check_shape(input));
      if (input.name().empty()) return fail(ErrorCode::E606, "an input without a name", graph.name());
      if (!inputs.insert(input.name()).second) return fail(ErrorCode::E605, "two inputs have one name", input.name());
      if (const auto found = initializers.find(input.name()); found != initializers.end())
        FETTLE_TRY_VOID(check_same(input, *found->second));
      names.types.emplace(input.name(), type_name(input.type()));
    }
    for (const NodeProto& node : graph.node())
      if (auto checked = check_node(node, names, depth); !checked) {
        if (checked.error().where.empty()) checked.error().where = shortened(node_label(node));
        return checked;
      }
    for (const auto& output : graph.output()) {
      FETTLE_TRY_VOID(check_shape(output));
      // A body may return a value twice: as what it carries and as a row, say.
      if (depth == 0 && !outputs.insert(output.name()).second)
        return fail(ErrorCode::E605, "two outputs have one name", output.name());
      FETTLE_TRY_VOID(check_declared(output, names));
    }
    for (const auto& value : graph.value_info()) {
      FETTLE_TRY_VOID(check_shape(value));
      FETTLE_TRY_VOID(check_declared(value, names));
    }
    return {};
  }

  // What the file says of a value's type, beside what makes it.
  static Result<> check_declared(const onnx::ValueInfoProto& value, const Names& names) {
    const std::string* found = names.find(value.name());
    const std::string declared = type_name(value.type());
    if (!found || found->empty() || declared.empty() || *found == declared) return {};
    return fail(ErrorCode::E605, fmt::format("the file declares it as {}, and it is {}", declared, *found),
                value.name());
  }

  Result<> check_node(const NodeProto& node, Names& names, int depth) {
    FETTLE_TRY_VOID(check_text(node.name(), "a name"));
    const std::string domain = is_standard_domain(node.domain()) ? std::string() : node.domain();
    const OperatorSchema* schema = nullptr;
    if (const int first = first_version(domain, node.op_type());
        first > 0 && !functions_.contains(std::pair(node.domain(), node.op_type()))) {
      const auto opset = opsets_.find(domain);
      if (opset == opsets_.end()) return fail(ErrorCode::E609, fmt::format("the model states no opset of {}", domain));
      schema = find_schema(domain, node.op_type(), opset->second);
      if (!schema)
        return fail(ErrorCode::E603, fmt::format("{} comes with opset {}, and the model is of opset {}", node.op_type(),
                                                 first, opset->second));
    }
    FETTLE_TRY_VOID(check_attributes(node, schema));
    for (const AttributeProto& a : node.attribute()) {
      const auto check_body = [&](const GraphProto& body) {
        Names inside{.around = &names};
        return check_graph(body, inside, depth + 1);
      };
      if (a.has_g()) FETTLE_TRY_VOID(check_body(a.g()));
      for (const GraphProto& body : a.graphs()) FETTLE_TRY_VOID(check_body(body));
    }
    for (const std::string& output : node.output()) FETTLE_TRY_VOID(check_text(output, "a name"));
    std::map<std::string_view, std::string> variables;
    if (schema) {
      FETTLE_TRY_VOID(check_counts(node, *schema));
      FETTLE_TRY_VOID(check_inputs(node, *schema, names, variables));
    }
    for (int i = 0; i < node.output_size(); ++i)
      if (!node.output(i).empty())
        names.types.emplace(node.output(i), schema ? output_type(node, *schema, i, variables) : std::string());
    return {};
  }

  Result<> check_attributes(const NodeProto& node, const OperatorSchema* schema) const {
    std::unordered_set<std::string_view> given;
    for (const AttributeProto& a : node.attribute()) {
      if (a.name().empty()) return fail(ErrorCode::E606, "an attribute without a name");
      FETTLE_TRY_VOID(check_text(a.name(), "the name of an attribute"));
      if (!given.insert(a.name()).second)
        return fail(ErrorCode::E606, fmt::format("the attribute \"{}\" is given twice", shortened(a.name())));
      const int64_t elements = std::max({a.ints_size(), a.floats_size(), a.strings_size(), a.tensors_size()});
      FETTLE_TRY_VOID(check_limit(limits_, &Limits::attribute_elements, elements, a.name()));
      FETTLE_TRY_VOID(check_text(a.s(), a.name()));
      if (a.has_t()) FETTLE_TRY_VOID(check_tensor(a.t()));
      if (!schema) continue;
      const auto known = std::ranges::lower_bound(schema->attributes, a.name(), {}, &AttributeSchema::name);
      if (known == schema->attributes.end() || known->name != a.name())
        return fail(ErrorCode::E606, unknown_attribute(*schema, a.name()));
      if (kind_of(a) != known->kind)
        return fail(ErrorCode::E606, fmt::format("the attribute \"{}\" of {} is of kind {}, not {}", a.name(),
                                                 schema->name, kind_name(known->kind), kind_name(kind_of(a))));
    }
    if (!schema) return {};
    for (const AttributeSchema& known : schema->attributes)
      if (known.is_required && !given.contains(known.name))
        return fail(ErrorCode::E606, fmt::format("{} lacks the attribute \"{}\"", schema->name, known.name));
    return {};
  }

  static Result<> check_counts(const NodeProto& node, const OperatorSchema& schema) {
    const auto check = [&](const char* what, int count, int least, int most) -> Result<> {
      if (count >= least && count <= most) return {};
      const std::string wanted = most == INT_MAX ? fmt::format("at least {}", least)
                                 : least == most ? fmt::format("{}", least)
                                                 : fmt::format("{} to {}", least, most);
      return fail(ErrorCode::E606, fmt::format("{} has {} {} instead of {}", schema.name, count, what, wanted));
    };
    FETTLE_TRY_VOID(check("inputs", node.input_size(), schema.min_inputs, schema.max_inputs));
    FETTLE_TRY_VOID(check("outputs", node.output_size(), schema.min_outputs, schema.max_outputs));
    for (int i = 0; i < node.input_size(); ++i) {
      const FormalSchema* formal = OperatorSchema::formal(schema.inputs, i);
      if (formal && formal->option == FormalSchema::kSingle && node.input(i).empty())
        return fail(ErrorCode::E606, fmt::format("{} lacks its input \"{}\"", schema.name, formal->name));
    }
    return {};
  }

  static Result<> check_inputs(const NodeProto& node, const OperatorSchema& schema, const Names& names,
                               std::map<std::string_view, std::string>& variables) {
    for (int i = 0; i < node.input_size(); ++i) {
      const FormalSchema* formal = OperatorSchema::formal(schema.inputs, i);
      if (node.input(i).empty() || !formal) continue;
      const std::string* type = names.find(node.input(i));
      if (!type) return fail(ErrorCode::E605, fmt::format("nothing makes the input \"{}\"", shortened(node.input(i))));
      if (type->empty()) continue;
      if (std::ranges::find(formal->types, *type) == formal->types.end())
        return fail(ErrorCode::E606, fmt::format("{} of this opset takes no {} as \"{}\"; it takes {}", schema.name,
                                                 *type, formal->name, fmt::join(formal->types, ", ")));
      if (formal->variable.empty()) continue;
      const auto [known, is_new] = variables.emplace(formal->variable, *type);
      if (!is_new && known->second != *type)
        return fail(ErrorCode::E605, fmt::format("{} takes inputs of one type as {}, not {} and {}", schema.name,
                                                 formal->variable, known->second, *type));
    }
    return {};
  }

  // As far as inputs and attributes tell it.
  static std::string output_type(const NodeProto& node, const OperatorSchema& schema, int i,
                                 const std::map<std::string_view, std::string>& variables) {
    const FormalSchema* formal = OperatorSchema::formal(schema.outputs, i);
    if (!formal) return {};
    if (const auto known = variables.find(formal->variable); known != variables.end()) return known->second;
    if (formal->types.size() == 1) return std::string(formal->types[0]);
    for (const AttributeProto& a : node.attribute()) {
      std::string type;
      if (a.type() == AttributeProto::INT && (a.name() == "to" || a.name() == "dtype"))
        type = tensor_of(a.i());
      else if (schema.name == "Constant" && a.type() == AttributeProto::TENSOR)
        type = tensor_of(a.t().data_type());
      if (std::ranges::find(formal->types, type) != formal->types.end()) return type;
    }
    return {};
  }

  const Limits& limits_;
  Opsets opsets_;
  std::set<std::pair<std::string, std::string>> functions_;
  int64_t nodes_ = 0;
};

}  // namespace

Result<> check_model(const ModelProto& model, const Limits& limits) { return Checker(limits).check(model); }

Result<std::vector<std::string>> check_node(const NodeProto& node, const Opsets& opsets,
                                            const std::unordered_map<std::string, std::string>& types,
                                            const Limits& limits) {
  return Checker(limits, opsets).check_one(node, types);
}

}  // namespace fettle::onnx_reader
