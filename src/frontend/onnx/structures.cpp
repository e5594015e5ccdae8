#include "frontend/onnx/structures.h"

#include <fmt/format.h>

#include <algorithm>

#include "frontend/onnx/importer.h"
#include "graph/late_sizes.h"
#include "graph/ops/sequence.h"

namespace fettle::onnx_reader {
namespace {

using Content = StructureKind::Content;
using onnx::TypeProto;

constexpr StructureKind kTensorKind{};
constexpr StructureKind kSequenceKind{StructureKind::kSequence};

/// What an operator takes, the last for all that follow, and gives.
struct StructureOp {
  std::string_view name;
  std::vector<Content> takes;
  Content gives;
};
const std::vector<StructureOp>& structure_ops() {
  using enum StructureKind::Content;
  static const std::vector<StructureOp> ops = {
      {"SequenceEmpty", {}, kSequence},
      {"SequenceConstruct", {kTensor}, kSequence},
      {"SequenceInsert", {kSequence, kTensor}, kSequence},
      {"SequenceErase", {kSequence, kTensor}, kSequence},
      {"SequenceAt", {kSequence, kTensor}, kTensor},
      {"SequenceLength", {kSequence}, kTensor},
      {"SplitToSequence", {kTensor}, kSequence},
      {"ConcatFromSequence", {kSequence}, kTensor},
      {"ai.onnx.ml.ZipMap", {kTensor}, kMaps},
      {"ai.onnx.ml.DictVectorizer", {kMap}, kTensor},
      {"ai.onnx.ml.CastMap", {kMap}, kTensor},
  };
  return ops;
}
const StructureOp* find_structure_op(std::string_view name) {
  const auto found = std::ranges::find(structure_ops(), name, &StructureOp::name);
  return found == structure_ops().end() ? nullptr : &*found;
}

Result<ConstantTensor> zeros(DType dtype, const std::vector<int64_t>& shape) {
  FETTLE_TRY(TensorBuilder tensor, make_tensor(dtype, shape));
  return std::move(tensor).finish();
}

ConstantTensor truth(bool value) { return scalar(value ? 1 : 0, kBool); }

const TypeProto& inner_type(const TypeProto& type) {
  return type.has_optional_type() ? type.optional_type().elem_type() : type;
}
/// The tensor that a sequence's elements, or a map's values, are.
const TypeProto::Tensor* element_of(const TypeProto& type) {
  if (type.has_tensor_type()) return &type.tensor_type();
  if (type.has_sequence_type()) return element_of(type.sequence_type().elem_type());
  if (type.has_map_type()) return element_of(type.map_type().value_type());
  return nullptr;
}
const TypeProto::Map* map_of(const TypeProto& type) {
  if (type.has_sequence_type()) return map_of(type.sequence_type().elem_type());
  return type.has_map_type() ? &type.map_type() : nullptr;
}

Result<DType> dtype_of(int code, const std::string& where) {
  if (const auto dtype = element_type(code)) return *dtype;
  return fail(ErrorCode::E603, "elements of " + data_type_name(code), where);
}

// A size that each call decides.
Dim open_size(const std::string& name, int64_t typical) { return Dim::symbol(name, 0, kMaxDim, 1, typical); }

}  // namespace

std::vector<std::string_view> StructureKind::suffixes() const {
  std::vector<std::string_view> list;
  if (is_optional) list.emplace_back(".present");
  if (content == kTensor) list.emplace_back("");
  if (content == kSequence) list.insert(list.end(), {".data", ".dims"});
  if (content == kMap || content == kMaps) list.insert(list.end(), {".keys", ".values"});
  return list;
}

std::vector<int64_t> StructureKind::parts() const {
  std::vector<int64_t> list;
  if (is_optional) list.push_back(kPlainPart);
  if (content == kTensor) list.push_back(is_optional ? kAbsentPart : kPlainPart);
  if (content == kSequence) list.insert(list.end(), {kPlainPart, kDimsPart});
  if (content == kMap || content == kMaps) list.insert(list.end(), {kPlainPart, kPlainPart});
  return list;
}

std::string StructureKind::to_string() const {
  static constexpr const char* kNames[] = {"tensor", "sequence", "map", "sequence of maps"};
  return (is_optional ? "an optional " : "a ") + std::string(kNames[content]);
}

Result<StructureKind> kind_of(const TypeProto& type, const std::string& where) {
  StructureKind kind{StructureKind::kTensor, type.has_optional_type()};
  const TypeProto& inner = inner_type(type);
  const auto has_tensors = [](const TypeProto::Map& map) { return map.value_type().has_tensor_type(); };
  if (inner.has_tensor_type()) return kind;
  if (inner.has_map_type() && has_tensors(inner.map_type())) {
    kind.content = StructureKind::kMap;
    return kind;
  }
  if (inner.has_sequence_type()) {
    const TypeProto& elem = inner.sequence_type().elem_type();
    kind.content = elem.has_map_type() ? StructureKind::kMaps : StructureKind::kSequence;
    if (elem.has_tensor_type() || (elem.has_map_type() && has_tensors(elem.map_type()))) return kind;
  }
  return fail(ErrorCode::E603, "a value of type " + type_text(type), where);
}

std::string type_text(const TypeProto& type) {
  if (type.has_tensor_type()) return fmt::format("tensor({})", data_type_name(type.tensor_type().elem_type()));
  if (type.has_sequence_type()) return fmt::format("seq({})", type_text(type.sequence_type().elem_type()));
  if (type.has_optional_type()) return fmt::format("optional({})", type_text(type.optional_type().elem_type()));
  if (type.has_map_type())
    return fmt::format("map({}, {})", data_type_name(type.map_type().key_type()),
                       type_text(type.map_type().value_type()));
  if (type.has_sparse_tensor_type())
    return fmt::format("sparse_tensor({})", data_type_name(type.sparse_tensor_type().elem_type()));
  return "nothing";
}

bool is_structure_op(std::string_view op) {
  return find_structure_op(op) || op == "SequenceMap" || op == "Optional" || op == "OptionalHasElement" ||
         op == "OptionalGetElement";
}

// --- names

Result<> Importer::define(const std::string& name, Structure structure, const std::string& where) {
  if (structure.kind.is_tensor()) return define(name, structure.tensors[0], where);
  if (name.empty()) return fail(ErrorCode::E606, "a value without a name", where);
  if (scope_->values.contains(name) || !scope_->structures.emplace(name, std::move(structure)).second)
    return fail(ErrorCode::E605, fmt::format("\"{}\" is made twice", name), where);
  return {};
}

Result<> Importer::define_outputs(const NodeProto& proto, const Node* made, const std::vector<StructureKind>& kinds) {
  size_t next = 0;
  for (size_t i = 0; i < kinds.size(); ++i) {
    const size_t count = kinds[i].suffixes().size();
    const auto first = made->outputs.begin() + static_cast<int64_t>(next);
    next += count;
    if (static_cast<int>(i) >= proto.output_size() || proto.output(static_cast<int>(i)).empty()) continue;
    FETTLE_TRY_VOID(define(proto.output(static_cast<int>(i)),
                           Structure{kinds[i], {first, first + static_cast<int64_t>(count)}}, made->name));
  }
  return {};
}

std::optional<Structure> Importer::find_structure(const std::string& name, Scope& scope) {
  if (Value* tensor = find(name, scope)) return Structure{kTensorKind, {tensor}};
  if (const auto it = scope.structures.find(name); it != scope.structures.end()) return it->second;
  if (!scope.around) return std::nullopt;
  const auto outside = find_structure(name, *scope.around);
  if (!outside) return std::nullopt;
  Structure inside{outside->kind, {}};
  const std::vector<std::string_view> suffixes = outside->kind.suffixes();
  for (size_t k = 0; k < suffixes.size(); ++k)
    inside.tensors.push_back(capture(name + std::string(suffixes[k]), outside->tensors[k], scope));
  scope.structures.emplace(name, inside);
  return inside;
}

Result<std::vector<Structure>> Importer::find_structures(const NodeProto& node) {
  std::vector<Structure> inputs;
  for (const std::string& name : node.input()) {
    if (name.empty() || is_left_out(name)) {
      inputs.push_back({kTensorKind, {nullptr}});
      continue;
    }
    auto found = find_structure(name, *scope_);
    if (!found) return fail(ErrorCode::E605, fmt::format("nothing makes the input \"{}\"", name));
    inputs.push_back(std::move(*found));
  }
  return inputs;
}

std::vector<std::string> tensor_names(const std::string& name, const StructureKind& kind) {
  std::vector<std::string> names;
  for (const std::string_view suffix : kind.suffixes()) names.push_back(name.empty() ? "" : name + std::string(suffix));
  return names;
}

void append_tensors(std::vector<Value*>& list, const Structure& structure) {
  list.insert(list.end(), structure.tensors.begin(), structure.tensors.end());
}

// --- inputs and outputs of the model

Result<> Importer::add_structure_input(const onnx::ValueInfoProto& input) {
  const std::string& name = input.name();
  FETTLE_TRY(const StructureKind kind, kind_of(input.type(), name));
  const TypeProto& type = inner_type(input.type());
  const TypeProto::Tensor& elem = *element_of(type);
  FETTLE_TRY(const DType dtype, dtype_of(elem.elem_type(), name));
  FETTLE_TRY_VOID(check_limit(limits_, &Limits::rank, elem.shape().dim_size(), name));
  const int first = static_cast<int>(scope_->graph.inputs().size());
  Structure made{kind, {}};
  const auto add = [&](std::string_view suffix, DType of, Shape shape) {
    made.tensors.push_back(scope_->graph.add_input(name + std::string(suffix), {of, std::move(shape)}));
  };
  if (kind.is_optional) add(".present", kBool, {});
  constexpr int64_t kUsual = 128, kUsualCount = 4;
  const Dim n = open_size(name + ".n", kUsualCount);
  if (kind.content == StructureKind::kTensor) {
    // Where it is absent its sizes are no other's.
    if (!elem.has_shape()) return fail(ErrorCode::E604, "the input's rank is unknown", name);
    FETTLE_TRY(const Shape shape, read_shape(elem.shape(), name, /*own_sizes=*/true));
    add("", dtype, shape);
  } else if (kind.content == StructureKind::kSequence) {
    add(".data", dtype, {open_size(name + ".total", kUsual)});
    add(".dims", kI64, {n, elem.has_shape() ? Dim(elem.shape().dim_size()) : open_size(name + ".rank", 1)});
  } else {
    FETTLE_TRY(const DType key, dtype_of(map_of(type)->key_type(), name));
    Shape shape{n};
    if (kind.content == StructureKind::kMaps) shape.push_back(open_size(name + ".k", kUsualCount));
    add(".keys", key, shape);
    add(".values", dtype, shape);
  }
  scope_->graph.add_structure({name, type_text(input.type()), false, first, static_cast<int>(made.tensors.size())});
  return define(name, std::move(made), "input");
}

Result<Structure> Importer::as_kind(const Structure& given, const StructureKind& kind, const std::string& name) {
  if (given.kind == kind) return given;
  if (given.kind.content != kind.content)
    return fail(ErrorCode::E605,
                fmt::format("\"{}\" is {} instead of {}", name, given.kind.to_string(), kind.to_string()));
  Structure made{kind, given.tensors};
  if (kind.is_optional) {
    made.tensors.insert(made.tensors.begin(), scope_->graph.add_constant(name + ".present", truth(true)));
    return made;
  }
  const Node* node = scope_->graph.add_node(find_op("OptionalGetElement"), name, given.tensors, {},
                                            tensor_names(name, kind), given.tensors.size() - 1);
  made.tensors = node->outputs;
  return made;
}

Result<> Importer::add_result(const std::string& name, const Structure& result) {
  const std::vector<std::string> names = tensor_names(name, result.kind);
  for (size_t k = 0; k < names.size(); ++k) scope_->graph.add_output(names[k], result.tensors[k]);
  return {};
}

namespace {

// As ONNX writes a type, but for what its tensors hold: "seq(tensor)".
std::string untyped_text(const StructureKind& kind) {
  static constexpr const char* kTexts[] = {"tensor", "seq(tensor)", "map", "seq(map)"};
  const std::string text = kTexts[kind.content];
  return kind.is_optional ? "optional(" + text + ")" : text;
}

}  // namespace

Result<> Importer::add_structure_output(const onnx::ValueInfoProto& output, const Structure& value) {
  // Graphs that programs make do not say what their outputs are.
  const bool is_typed = output.type().value_case() != TypeProto::VALUE_NOT_SET;
  FETTLE_TRY(const StructureKind kind,
             is_typed ? kind_of(output.type(), output.name()) : Result<StructureKind>(value.kind));
  FETTLE_TRY(const Structure result, as_kind(value, kind, output.name()));
  const int first = static_cast<int>(scope_->graph.outputs().size());
  if (!kind.is_tensor())
    scope_->graph.add_structure({output.name(), is_typed ? type_text(output.type()) : untyped_text(kind), true, first,
                                 static_cast<int>(result.tensors.size())});
  return add_result(output.name(), result);
}

// --- nodes

Result<bool> Importer::add_structure_node(const NodeProto& proto) {
  const std::string op = op_label(proto);
  if (op == "SequenceMap") {
    FETTLE_TRY_VOID(add_sequence_map(proto));
    return true;
  }
  const StructureOp* known = find_structure_op(op);
  if (!known && op != "Identity" && !op.starts_with("Optional")) return false;
  FETTLE_TRY(const std::vector<Structure> inputs, find_structures(proto));
  if (!known) {
    if (op == "Identity" && (inputs.size() != 1 || inputs[0].kind.is_tensor())) return false;
    FETTLE_TRY_VOID(add_optional_node(proto, inputs));
    return true;
  }
  std::vector<Value*> tensors;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (known->takes.empty()) return fail(ErrorCode::E606, fmt::format("{} has {} inputs", op, inputs.size()));
    const StructureKind wanted{known->takes[std::min(i, known->takes.size() - 1)], false};
    if (!(inputs[i].kind == wanted))
      return fail(ErrorCode::E605, fmt::format("{} takes {}, and \"{}\" is {}", op, wanted.to_string(),
                                               proto.input(static_cast<int>(i)), inputs[i].kind.to_string()));
    append_tensors(tensors, inputs[i]);
  }
  const StructureKind gives{known->gives, false};
  if (proto.output_size() != 1) return fail(ErrorCode::E606, fmt::format("{} has {} outputs", op, proto.output_size()));
  FETTLE_TRY(Node * made,
             add_operator(proto, find_op(op), std::move(tensors), tensor_names(output_name(proto, 0), gives)));
  FETTLE_TRY_VOID(define_outputs(proto, made, {gives}));
  return true;
}

// Identity of what is no tensor, Optional, OptionalHasElement and OptionalGetElement only rename.
Result<> Importer::add_optional_node(const NodeProto& proto, const std::vector<Structure>& inputs) {
  const std::string& op = proto.op_type();
  if (proto.output_size() != 1 || inputs.size() > 1)
    return fail(ErrorCode::E606,
                fmt::format("{} has {} inputs and {} outputs", op, inputs.size(), proto.output_size()));
  const std::string& name = proto.output(0);
  const bool is_given = !inputs.empty() && inputs[0].tensors[0];
  const auto flag = [&](bool value) { return scope_->graph.add_constant(name, truth(value)); };
  if (op == "OptionalHasElement") {
    Value* present = !is_given ? flag(false) : inputs[0].kind.is_optional ? inputs[0].tensors[0] : flag(true);
    return define(name, present, label_of(proto));
  }
  if (op == "Optional") {
    if (is_given) {
      if (inputs[0].kind.is_optional) return fail(ErrorCode::E605, "an optional in an optional");
      FETTLE_TRY(Structure made, as_kind(inputs[0], {inputs[0].kind.content, true}, name));
      return define(name, std::move(made), label_of(proto));
    }
    for (const AttributeProto& a : proto.attribute())
      if (a.name() == "type" && a.has_tp()) {
        FETTLE_TRY(Structure made, absent(a.tp(), name));
        return define(name, std::move(made), label_of(proto));
      }
    return fail(ErrorCode::E606, "Optional has neither an input nor a type");
  }
  if (!is_given) return fail(ErrorCode::E606, fmt::format("{} has no input", op));
  if (op == "Identity") return define(name, inputs[0], label_of(proto));
  FETTLE_TRY(Structure element, as_kind(inputs[0], {inputs[0].kind.content, false}, name));
  return define(name, std::move(element), label_of(proto));
}

Result<Structure> Importer::absent(const TypeProto& type, const std::string& name) {
  FETTLE_TRY(StructureKind kind, kind_of(type, name));
  if (kind.is_optional) return fail(ErrorCode::E605, "an optional in an optional");
  kind.is_optional = true;
  const TypeProto::Tensor& elem = *element_of(type);
  FETTLE_TRY(const DType dtype, dtype_of(elem.elem_type(), name));
  const int64_t rank = elem.has_shape() ? elem.shape().dim_size() : 0;
  FETTLE_TRY_VOID(check_limit(limits_, &Limits::rank, rank, name));
  Structure made{kind, {scope_->graph.add_constant(name + ".present", truth(false))}};
  const auto add = [&](std::string_view suffix, DType of, const std::vector<int64_t>& shape) -> Result<> {
    FETTLE_TRY(ConstantTensor tensor, zeros(of, shape));
    made.tensors.push_back(scope_->graph.add_constant(name + std::string(suffix), std::move(tensor)));
    return {};
  };
  if (kind.content == StructureKind::kTensor) {
    FETTLE_TRY_VOID(add("", dtype, std::vector<int64_t>(elem.has_shape() ? static_cast<size_t>(rank) : 1, 0)));
  } else if (kind.content == StructureKind::kSequence) {
    FETTLE_TRY_VOID(add(".data", dtype, {0}));
    FETTLE_TRY_VOID(add(".dims", kI64, {0, rank}));
  } else {
    FETTLE_TRY(const DType key, dtype_of(map_of(type)->key_type(), name));
    const std::vector<int64_t> shape(kind.content == StructureKind::kMaps ? 2 : 1, 0);
    FETTLE_TRY_VOID(add(".keys", key, shape));
    FETTLE_TRY_VOID(add(".values", dtype, shape));
  }
  return made;
}

// The body is run for each position of the sequences, with their elements there.
Result<> Importer::add_sequence_map(const NodeProto& node) {
  FETTLE_TRY(const std::vector<Structure> inputs, find_structures(node));
  std::vector<Value*> tensors;
  std::vector<int64_t> kinds, dtypes;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const StructureKind& kind = inputs[i].kind;
    if (!inputs[i].tensors[0] || !(kind.is_tensor() || kind == kSequenceKind))
      return fail(ErrorCode::E605, fmt::format("SequenceMap takes sequences and tensors, and \"{}\" is {}",
                                               node.input(static_cast<int>(i)), kind.to_string()));
    kinds.push_back(kind.is_tensor() ? 0 : 1);
    append_tensors(tensors, inputs[i]);
  }
  std::vector<Scope> bodies(1);
  FETTLE_TRY_VOID(read_body(node, "body", bodies[0], std::vector<StructureKind>(inputs.size())));
  if (static_cast<int>(bodies[0].results.size()) != node.output_size())
    return fail(ErrorCode::E605, fmt::format("SequenceMap has {} outputs, {} of its body", node.output_size(),
                                             bodies[0].results.size()));
  for (const AttributeProto& a : node.attribute())
    if (a.name() == "body")
      for (const auto& output : a.g().output()) dtypes.push_back(output.type().tensor_type().elem_type());
  std::vector<std::string> names;
  const std::vector<StructureKind> gives(bodies[0].results.size(), kSequenceKind);
  for (size_t i = 0; i < gives.size(); ++i) {
    FETTLE_TRY_VOID(return_from(bodies[0], i, kTensorKind));
    FETTLE_TRY_VOID(dtype_of(static_cast<int>(dtypes[i]), bodies[0].results[i].first));
    for (std::string& name : tensor_names(output_name(node, static_cast<int>(i)), kSequenceKind))
      names.push_back(std::move(name));
  }
  Attrs attrs;
  attrs.set("kinds", std::move(kinds));
  attrs.set("dtypes", std::move(dtypes));
  Node* made =
      add_control(find_op("SequenceMap"), node, std::move(tensors), std::move(attrs), bodies, std::move(names));
  return define_outputs(node, made, gives);
}

}  // namespace fettle::onnx_reader
