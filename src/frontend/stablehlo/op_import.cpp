#include <fmt/format.h>

#include <algorithm>

#include "frontend/stablehlo/importer.h"
#include "frontend/stablehlo/survey.h"
#include "graph/late_sizes.h"
#include "graph/op_registry.h"

namespace fettle::stablehlo {
namespace {

std::string short_label(const Op& op) {
  const size_t dot = op.name.find('.');
  return dot == std::string::npos ? op.name : op.name.substr(dot + 1);
}

// Operators that move elements, of whatever they are, as they are.
bool moves(std::string_view name) {
  constexpr std::string_view kMoves[] = {"broadcast_in_dim",
                                         "concatenate",
                                         "dynamic_broadcast_in_dim",
                                         "dynamic_reshape",
                                         "dynamic_slice",
                                         "dynamic_gather",
                                         "dynamic_update_slice",
                                         "gather",
                                         "reshape",
                                         "reverse",
                                         "select",
                                         "slice",
                                         "transpose",
                                         "pad",
                                         "dynamic_pad",
                                         "real_dynamic_slice",
                                         "optimization_barrier"};
  constexpr std::string_view kDialect = "stablehlo.";
  return name.starts_with(kDialect) && std::ranges::find(kMoves, name.substr(kDialect.size())) != std::end(kMoves);
}

// Operators whose functions know of quantized tensors, or hand them on.
bool knows_quantized(std::string_view name) {
  constexpr std::string_view kKnow[] = {"stablehlo.uniform_quantize",
                                        "stablehlo.uniform_dequantize",
                                        "stablehlo.constant",
                                        "func.call",
                                        "stablehlo.composite",
                                        "stablehlo.tuple",
                                        "stablehlo.get_tuple_element",
                                        "stablehlo.while",
                                        "stablehlo.case",
                                        "stablehlo.if",
                                        "stablehlo.bitcast_convert"};
  return std::ranges::find(kKnow, name) != std::end(kKnow);
}

void make_expressed(Type& type) {
  if (!type.element.quantization) return;
  type.element.dtype = type.element.quantization->expressed;
  type.element.quantization = nullptr;
}

}  // namespace

const OpEntry* find_entry(const Op& op) {
  static const auto table = [] {
    std::unordered_map<std::string_view, const OpEntry*> all;
    for (const OpEntries* entries : op_entries())
      for (const OpEntry& entry : entries->list) all.emplace(entry.name, &entry);
    return all;
  }();
  const std::string label = label_of(op);
  const auto found = table.find(label);
  return found == table.end() ? nullptr : found->second;
}

Result<Tensors> import_with(OpImport& o, const OpEntry& entry) {
  const auto is_quantized = [](const Tensor& tensor) { return tensor.quantization != nullptr; };
  const auto has_quantization = [](const Type& type) { return type.element.quantization != nullptr; };
  const bool any = std::ranges::any_of(o.in, is_quantized) || std::ranges::any_of(o.op.result_types, has_quantization);
  if (!any || knows_quantized(entry.name)) return entry.import(o);
  if (moves(entry.name)) {
    // As the integers that they are; blocks of scales that would move with them are not followed.
    const auto per_axis = [](const Tensor& tensor) {
      return tensor.quantization && !tensor.quantization->dims.empty();
    };
    const bool same = std::ranges::all_of(o.op.result_types, [&](const Type& type) {
      return type.element.quantization && std::ranges::all_of(o.in, [&](const Tensor& tensor) {
               return !tensor.quantization || *tensor.quantization == *type.element.quantization;
             });
    });
    if (same && std::ranges::none_of(o.in, per_axis)) {
      FETTLE_TRY(Tensors results, entry.import(o));
      for (size_t i = 0; i < results.size(); ++i) results[i].quantization = o.result_type(i).element.quantization;
      return results;
    }
  }
  Op real = o.op;
  Tensors operands;
  for (Tensor& tensor : o.in) {
    FETTLE_TRY(operands.emplace_back(), dequantized(o, tensor));
  }
  for (Type& type : real.operand_types) make_expressed(type);
  for (Type& type : real.result_types) make_expressed(type);
  for (Region& region : real.regions)
    for (Block& block : region.blocks) {
      for (Type& type : block.argument_types) make_expressed(type);
      for (Op& inner : block.ops) {
        for (Type& type : inner.operand_types) make_expressed(type);
        for (Type& type : inner.result_types) make_expressed(type);
      }
    }
  OpImport inner(o.importer, real, std::move(operands));
  FETTLE_TRY(Tensors results, entry.import(inner));
  FETTLE_TRY_VOID(inner.g.status());
  for (size_t i = 0; i < results.size(); ++i)
    if (const auto& quantization = o.result_type(i).element.quantization) {
      FETTLE_TRY(results[i], quantized(o, results[i], quantization));
    }
  return results;
}

OpImport::OpImport(Importer& of, const Op& the_op, Tensors operands)
    : importer(of),
      op(the_op),
      in(std::move(operands)),
      node{.name = short_label(the_op), .provenance = {{label_of(the_op), the_op.location}}},
      g(of.scope().graph, node) {}

tl::unexpected<Diagnostic> OpImport::refuse(std::string message) const {
  return fail(ErrorCode::E603, std::move(message));
}
tl::unexpected<Diagnostic> OpImport::mistaken(std::string message) const {
  return fail(ErrorCode::E606, std::move(message));
}

Result<Value*> OpImport::real(size_t i) const {
  if (i >= in.size() || !in[i].re) return mistaken(fmt::format("operand {} is missing", i));
  if (in[i].is_complex()) return refuse(fmt::format("of complex numbers (operand {})", i));
  return in[i].re;
}

Result<Shape> OpImport::result_shape(size_t i, const Shape* open) const {
  const Type& type = result_type(i);
  Shape shape;
  for (size_t d = 0; d < type.shape.size(); ++d) {
    if (type.shape[d] != kDynamic)
      shape.emplace_back(type.shape[d]);
    else if (open && open->size() == type.shape.size())
      shape.push_back((*open)[d]);
    else
      return fail(ErrorCode::E604, fmt::format("extent {} of its result is not known", d));
  }
  return shape;
}

Ints OpImport::ints(std::string_view name, Ints otherwise) const {
  const Attribute* attribute = find_attribute(op.attributes, name);
  if (!attribute) return otherwise;
  if (const auto* list = attribute->get_if<Ints>()) return *list;
  if (const auto* list = attribute->get_if<std::vector<bool>>()) return {list->begin(), list->end()};
  if (const auto* one = attribute->get_if<int64_t>()) return {*one};
  if (const auto* elements = attribute->get_if<DenseElements>()) {
    Ints list = to_ints(elements->data);
    int64_t count = 1;
    for (const int64_t extent : elements->type.shape) count *= extent;
    if (elements->is_splat && list.size() == 1) list.assign(static_cast<size_t>(count), Ints(list)[0]);
    return list;
  }
  if (const auto* all = attribute->get_if<std::vector<Attribute>>()) {
    Ints list;
    for (const Attribute& element : *all)
      if (const auto* number = element.get_if<int64_t>()) list.push_back(*number);
    return list;
  }
  return otherwise;
}
int64_t OpImport::integer(std::string_view name, int64_t otherwise) const {
  const Attribute* attribute = find_attribute(op.attributes, name);
  if (!attribute) return otherwise;
  if (const auto* number = attribute->get_if<int64_t>()) return *number;
  if (const auto* truth = attribute->get_if<bool>()) return *truth ? 1 : 0;
  return otherwise;
}
double OpImport::real_number(std::string_view name, double otherwise) const {
  const Attribute* attribute = find_attribute(op.attributes, name);
  if (!attribute) return otherwise;
  const auto* number = attribute->get_if<double>();
  return number ? *number : otherwise;
}
std::string OpImport::text(std::string_view name, std::string otherwise) const {
  const Attribute* attribute = find_attribute(op.attributes, name);
  if (!attribute) return otherwise;
  if (const auto* text = attribute->get_if<std::string>()) return *text;
  if (const auto* symbol = attribute->get_if<SymbolRef>()) return symbol->name;
  if (const auto* value = attribute->get_if<EnumValue>()) return value->value;
  return otherwise;
}
const Attributes* OpImport::fields(std::string_view name) const {
  const Attribute* attribute = find_attribute(op.attributes, name);
  const auto* value = attribute ? attribute->get_if<StructValue>() : nullptr;
  return value ? &value->fields : nullptr;
}

Ints field_ints(const Attributes* fields, std::string_view name) {
  const Attribute* attribute = fields ? find_attribute(*fields, name) : nullptr;
  if (!attribute) return {};
  if (const auto* list = attribute->get_if<Ints>()) return *list;
  if (const auto* one = attribute->get_if<int64_t>()) return {*one};
  return {};
}
int64_t field_int(const Attributes* fields, std::string_view name, int64_t otherwise) {
  const Ints list = field_ints(fields, name);
  return list.size() == 1 ? list[0] : otherwise;
}

Value* OpImport::expand(Value* x, const Shape& shape) {
  if (!g.status() || x->shape() == shape) return x;
  Value* wide = g("Expand", {x}, {{{"shape", dims_attr(shape)}}});
  if (g.status()) importer.scope().narrow[wide] = x;
  return wide;
}

Value* OpImport::integer_constant(uint64_t bits, DType dtype) const {
  auto made = make_tensor(dtype, {});
  for (int k = 0; k < dtype.element_bytes(); ++k) made->bytes.get()[k] = static_cast<std::byte>(bits >> (8 * k));
  return g.constant(std::move(*made).finish());
}

Value* OpImport::elementwise(std::string_view name, Values inputs, Attrs attrs) {
  if (!g.status()) return g(name, std::move(inputs), std::move(attrs));
  const auto& narrow = importer.scope().narrow;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const auto found = narrow.find(inputs[i]);
    if (found == narrow.end()) continue;
    // Another operand that stays as it is has the shape.
    for (size_t k = 0; k < inputs.size(); ++k)
      if (k != i && inputs[k]->shape() == inputs[i]->shape() && (k < i || !narrow.contains(inputs[k]))) {
        inputs[i] = found->second;
        break;
      }
  }
  return g(name, std::move(inputs), std::move(attrs));
}

Result<Values> OpImport::add(std::string_view name, Values inputs, Attrs attrs, const std::vector<TensorType>& types,
                             std::span<Scope> bodies) {
  FETTLE_TRY_VOID(g.status());
  Values captured;
  std::unordered_map<Value*, size_t> place;
  for (const Scope& body : bodies)
    for (const Scope::Captured& one : body.captured)
      if (place.emplace(one.outside, captured.size()).second) captured.push_back(one.outside);
  inputs.insert(inputs.end(), captured.begin(), captured.end());
  Graph& graph = importer.scope().graph;
  const OpDef* def = find_op(name);
  Node* made = graph.add_node(def, fmt::format("{}.{}", node.name, short_name(*def)), std::move(inputs),
                              std::move(attrs), {}, types.size());
  g.nodes().remember(made);
  for (Scope& body : bodies) {
    Values order(captured.size(), nullptr);
    for (const Scope::Captured& one : body.captured) order[place[one.outside]] = one.inside;
    for (size_t i = 0; i < order.size(); ++i)
      if (!order[i]) order[i] = body.graph.add_input(captured[i]->name, *captured[i]->type);
    body.graph.order_last_inputs(order);
    body.graph.sort();
    made->bodies.push_back(std::make_shared<Graph>(std::move(body.graph)));
  }
  const auto is_open = [](const TensorType& type) { return std::ranges::count(type.shape, Dim(kDynamic)) > 0; };
  if (std::ranges::none_of(types, is_open)) {
    for (size_t i = 0; i < types.size(); ++i) made->outputs[i]->type = types[i];
    if (def->lower)
      for (size_t i = 0; i < types.size(); ++i) made->outputs[i]->declared = types[i];
    return made->outputs;
  }
  // Who uses the results sees what they become.
  std::vector<Node*> users;
  for (Value* output : made->outputs) users.push_back(graph.add_node(find_op("Identity"), node.name, {output}));
  FETTLE_TRY_VOID(def->lower(graph, made));
  Values results;
  for (Node* user : users) {
    results.push_back(user->inputs[0]);
    graph.erase(user);
  }
  return results;
}

Result<Value*> OpImport::add_one(std::string_view name, Values inputs, Attrs attrs, const TensorType& type) {
  FETTLE_TRY(const Values made, add(name, std::move(inputs), std::move(attrs), {type}));
  return made[0];
}

std::vector<TensorType> OpImport::part_types() const {
  std::vector<TensorType> types;
  for (const Type& type : op.result_types)
    for (int k = 0; k < (type.element.is_complex ? 2 : 1); ++k)
      types.push_back({type.element.dtype, Shape(type.shape.begin(), type.shape.end())});
  return types;
}

Result<Tensors> OpImport::of_parts(const std::function<Result<Value*>(Value* part)>& function) const {
  Tensor result;
  if (in.empty() || !in[0].re) return mistaken("it has no operand");
  FETTLE_TRY(result.re, function(in[0].re));
  if (in[0].im) {
    FETTLE_TRY(result.im, function(in[0].im));
  }
  return Tensors{result};
}

Tensors OpImport::as_results(const Values& parts) const {
  Tensors results;
  size_t next = 0;
  for (const Type& type : op.result_types) {
    Tensor& tensor = results.emplace_back();
    tensor.re = parts[next++];
    if (type.element.is_complex) tensor.im = parts[next++];
  }
  return results;
}

Result<> OpImport::element_body(Scope& body, std::string name, const Region& region, bool in_pairs) {
  if (region.blocks.size() != 1) return mistaken(fmt::format("a region of {} blocks", region.blocks.size()));
  return element_body(
      body, std::move(name), region.blocks[0].argument_types,
      [&](const Tensors& arguments) { return importer.import_region(region, arguments); }, in_pairs);
}

Result<> OpImport::element_body_of_call(Scope& body, std::string name) {
  const std::vector<std::string_view> names = called_functions(op);
  if (names.size() != 1) return mistaken(fmt::format("it names {} functions, not one", names.size()));
  const Function* function = importer.module().find(names[0]);
  if (!function) return mistaken(fmt::format("there is no function @{}", names[0]));
  return element_body(
      body, std::move(name), function->body.argument_types,
      [&](const Tensors& arguments) { return importer.call(function->name, arguments, op.location); }, false);
}

Result<> OpImport::element_body(Scope& body, std::string name, const std::vector<Type>& types, const Import& import,
                                bool in_pairs) {
  body.repeats = true;
  return importer.in_body(body, std::move(name), [&]() -> Result<> {
    Tensors arguments(types.size());
    const auto add_part = [&](size_t i, bool imaginary) {
      if (imaginary && !types[i].element.is_complex) return;
      Value* made = body.graph.add_input(fmt::format("element.{}", i), {types[i].element.dtype, {}});
      (imaginary ? arguments[i].im : arguments[i].re) = made;
    };
    const size_t group = in_pairs ? 2 : 1;
    if (types.size() % group != 0) return mistaken("a region of pairs has an odd number of arguments");
    for (size_t i = 0; i < types.size(); i += group)
      for (const bool imaginary : {false, true})
        for (size_t k = i; k < i + group; ++k) add_part(k, imaginary);
    FETTLE_TRY(Tensors results, import(arguments));
    for (Tensor& result : results) for_each_part(result, [&](Value* value) { body.graph.add_output("result", value); });
    return {};
  });
}

std::vector<Dim> dims_of(OpImport& o, Value* integers) { return o.g.sizes(o.g.cast(integers, kI64), 0, kMaxDim); }

Result<Shape> sizes_of(OpImport& o, size_t i) {
  FETTLE_TRY(Value * integers, o.real(i));
  Shape sizes = o.g.sizes(o.g.reshape(o.g.cast(integers, kI64), {element_count(integers->shape())}));
  FETTLE_TRY_VOID(o.g.status());
  return sizes;
}

Result<Ints> numbers_of(OpImport& o, size_t i, std::string_view what) {
  FETTLE_TRY(const Shape sizes, sizes_of(o, i));
  const auto numbers = static_shape(sizes);
  if (!numbers) return fail(ErrorCode::E604, fmt::format("{} is not known", what));
  return *numbers;
}

}  // namespace fettle::stablehlo
