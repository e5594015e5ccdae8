// The forms that StableHLO, CHLO, func and check print their operators in.

#include <fmt/format.h>

#include <algorithm>

#include "frontend/stablehlo/text_reader.h"

namespace fettle::stablehlo {
namespace {

/// How an operator is written after its name: parts, between blanks.
///   $  $*  $*,       a value; values; values with a comma after each
///   kind:attribute   an attribute: int, float, ints, bool, string, symbol, name (a symbol as text), any, or one of an
///                    enumeration ("enum.precision")
///   ?name=kind:attribute, ?kind:attribute   the same where a comma says that it is there
///   @name            a form of its own, see kCustomParts
///   {}               other attributes, where there are any
///   :name            types, see read_types_as
///   all else         stands as it is
struct Form {
  std::string_view names;  // of operators
  std::string_view parts;
};

constexpr std::string_view kUnary =
    "stablehlo.abs stablehlo.cbrt stablehlo.ceil stablehlo.convert stablehlo.count_leading_zeros stablehlo.cosine "
    "stablehlo.exponential stablehlo.exponential_minus_one stablehlo.floor stablehlo.imag stablehlo.log "
    "stablehlo.log_plus_one stablehlo.logistic stablehlo.not stablehlo.negate stablehlo.popcnt stablehlo.real "
    "stablehlo.round_nearest_afz stablehlo.round_nearest_even stablehlo.rsqrt stablehlo.sign stablehlo.sine "
    "stablehlo.sqrt stablehlo.tan stablehlo.tanh stablehlo.uniform_quantize stablehlo.uniform_dequantize";
constexpr std::string_view kBinary =
    "stablehlo.add stablehlo.atan2 stablehlo.divide stablehlo.maximum stablehlo.minimum stablehlo.multiply "
    "stablehlo.power stablehlo.remainder stablehlo.shift_left stablehlo.shift_right_arithmetic "
    "stablehlo.shift_right_logical stablehlo.subtract stablehlo.and stablehlo.or stablehlo.xor";
constexpr std::string_view kOperandsOnly =
    "stablehlo.dynamic_update_slice stablehlo.bitcast_convert stablehlo.reshape stablehlo.dynamic_reshape "
    "stablehlo.real_dynamic_slice stablehlo.dynamic_pad stablehlo.is_finite";
constexpr std::string_view kChloBinary =
    "chlo.broadcast_add chlo.broadcast_atan2 chlo.broadcast_divide chlo.broadcast_maximum chlo.broadcast_minimum "
    "chlo.broadcast_multiply chlo.broadcast_next_after chlo.broadcast_polygamma chlo.broadcast_power "
    "chlo.broadcast_remainder chlo.broadcast_shift_left chlo.broadcast_shift_right_arithmetic "
    "chlo.broadcast_shift_right_logical chlo.broadcast_subtract chlo.broadcast_zeta chlo.broadcast_and "
    "chlo.broadcast_or chlo.broadcast_xor chlo.broadcast_complex chlo.broadcast_compare chlo.broadcast_select "
    "chlo.next_after chlo.polygamma chlo.zeta chlo.mulhi";
constexpr std::string_view kChloUnary =
    "chlo._asin_acos_kernel chlo.acos chlo.acosh chlo.asin chlo.asinh chlo.atan chlo.atanh chlo.bessel_i1e chlo.conj "
    "chlo.cosh chlo.sinh chlo.tan chlo.digamma chlo.erf chlo.erf_inv chlo.erfc chlo.is_inf chlo.is_neg_inf "
    "chlo.is_pos_inf chlo.lgamma chlo.square";

constexpr Form kForms[] = {
    {kUnary, "$ {} :same"},
    {kBinary, "$ , $ {} :same"},
    {kOperandsOnly, "$* {} :function"},
    {kChloUnary, "$* {} :chlo"},
    {kChloBinary, "$* {} :chlo"},
    {"stablehlo.return func.return return", "$* {} :operands"},
    {"stablehlo.constant", "@constant"},
    {"chlo.constant", "{} any:value :value"},
    {"stablehlo.iota", "dim = int:iota_dimension {} :results"},
    {"stablehlo.dynamic_iota", "$ , dim = int:iota_dimension {} :function"},
    {"stablehlo.create_token stablehlo.replica_id stablehlo.partition_id", "{} :results"},
    {"stablehlo.after_all", "$* {} :same"},
    {"stablehlo.complex", "$ , $ {} :complex"},
    {"stablehlo.tuple", "$* {} :tuple"},
    {"stablehlo.get_tuple_element", "$ [ int:index ] {} :function"},
    {"stablehlo.compare",
     "enum.comparison_direction:comparison_direction , $ , $ ?enum.comparison_type:compare_type {} :function"},
    {"stablehlo.select", "$* {} :select"},
    {"stablehlo.clamp", "$ , $ , $ {} :same"},
    {"stablehlo.slice", "$ @slice {} :function"},
    {"stablehlo.dynamic_slice", "$*, sizes = ints:slice_sizes {} :function"},
    {"stablehlo.broadcast", "$ , sizes = ints:broadcast_sizes {} :function"},
    {"stablehlo.broadcast_in_dim", "$ , dims = ints:broadcast_dimensions {} :function"},
    {"stablehlo.dynamic_broadcast_in_dim", "$ , $ , dims = ints:broadcast_dimensions {} :function"},
    {"stablehlo.cholesky", "$ ?lower=bool:lower {} :same"},
    {"stablehlo.concatenate", "$*, dim = int:dimension {} :function"},
    {"stablehlo.composite", "string:name $* @regions {} :function"},
    {"stablehlo.convolution", "( $* ) dim_numbers = @conv , window = @window {} :function"},
    {"stablehlo.custom_call", "name:call_target_name ( $* ) {} :function"},
    {"stablehlo.dot", "$ , $ @precision {} :function"},
    {"stablehlo.dot_general", "$ , $ , @dot @precision {} :function"},
    {"stablehlo.einsum", "$ , $ , config = string:einsum_config {} :function"},
    {"stablehlo.unary_einsum", "$ , config = string:einsum_config {} :function"},
    {"stablehlo.fft", "$ , type = enum.fft_type:fft_type , length = ints:fft_length {} :function"},
    {"stablehlo.get_dimension_size", "$ , dim = int:dimension {} :function"},
    {"stablehlo.set_dimension_size", "$ , $ , dim = int:dimension {} :function"},
    {"stablehlo.reverse", "$ , dims = ints:dimensions {} :same"},
    {"stablehlo.pad",
     "$ , $ , low = ints:edge_padding_low , high = ints:edge_padding_high , interior = ints:interior_padding {} "
     ":function"},
    {"stablehlo.transpose", "$ , dims = ints:permutation {} :function"},
    {"stablehlo.optimization_barrier", "{} @barrier"},
    {"stablehlo.rng", "$ , $ , $ , distribution = enum.rng_distribution:rng_distribution {} :function"},
    {"stablehlo.rng_bit_generator", "$ , algorithm = enum.rng_algorithm:rng_algorithm {} :function"},
    {"stablehlo.reduce_precision", "$ , format = @exponent_mantissa {} :same"},
    {"stablehlo.reduce", "@reduce"},
    {"stablehlo.while", "@while"},
    {"chlo.top_k", "( $ , k = int:k ?is_stable=bool:is_stable ) {} :chlo"},
    {"chlo.scan", "@scan"},
    {"func.call call", "symbol:callee ( $* ) {} :function"},
    {"check.expect_eq_const", "$ , any:value {}"},
    {"check.expect_almost_eq_const", "$ , any:value ?tolerance=float:tolerance {}"},
    {"check.expect_eq", "$ , $ {} :each"},
    {"check.expect_almost_eq", "$ , $ ?tolerance=float:tolerance {} :each"},
    {"check.expect_close",
     "$ , $ , max_ulp_difference = int:max_ulp_difference ?min_ulp_difference=int:min_ulp_difference : {} :types"},
    {"check.expect_serialized_eq", "$ , probe_id = string:probe_id ?iter=int:iteration {} :each"},
};

// Calls f with each part between blanks, until it says false.
template <class F>
bool all_of_parts(std::string_view text, F f) {
  while (!text.empty()) {
    const size_t end = std::min(text.find(' '), text.size());
    if (!f(text.substr(0, end))) return false;
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return true;
}

const Form* form_of(std::string_view op) {
  for (const Form& form : kForms)
    if (!all_of_parts(form.names, [&](std::string_view name) { return name != op; })) return &form;
  return nullptr;
}

Attribute of(auto value) {
  Attribute attribute;
  attribute.value = std::move(value);
  return attribute;
}

void set(Op& op, std::string_view name, Attribute value) { op.attributes.emplace_back(name, std::move(value)); }

Attribute read_value_as(TextReader& r, std::string_view kind) {
  if (kind == "int") return of(r.in.integer());
  if (kind == "float") return of(r.in.number().as_double());
  if (kind == "ints") {
    // Older text has the attribute as it is: array<i64: …> or dense<…>.
    return r.in.peek() == '[' ? of(read_extents(r)) : read_attribute(r);
  }
  if (kind == "string") return of(r.in.string());
  if (kind == "symbol") return of(SymbolRef{read_symbol(r)});
  if (kind == "name") return of(read_symbol(r));
  if (kind == "bool" || kind == "any") return read_attribute(r);
  std::string value(r.in.word());
  if (value.empty()) r.in.expected("an enumerator");
  return of(EnumValue{std::string(kind.substr(kind.find('.') + 1)), std::move(value)});
}

void read_attributes(TextReader& r, Op& op) {
  if (r.in.peek() != '{') return;
  for (auto& attribute : read_dictionary(r)) op.attributes.push_back(std::move(attribute));
}

const Type& type_of(const TextReader& r, ValueId value) { return r.types[static_cast<size_t>(value)]; }

void take_types(Op& op, Type function) {
  op.operand_types = std::move(function.inputs);
  op.result_types = std::move(function.results);
}

// A type for all, or what goes in and comes out.
void read_same_types(TextReader& r, Op& op) {
  Type type = read_type(r);
  if (type.kind == Type::Kind::kFunction) return take_types(op, std::move(type));
  op.operand_types.assign(op.operands.size(), type);
  op.result_types = {std::move(type)};
}

void read_types_as(TextReader& r, std::string_view form, Op& op, int64_t n_results) {
  if (form == "value") {
    const auto* elements = op.attributes.back().second.get_if<DenseElements>();
    if (elements) op.result_types = {elements->type};
    if (!elements) r.in.expected("dense<…> before this");
    return;
  }
  if (form == "operands") {  // of return
    if (r.in.consume(":")) op.operand_types = read_types(r);
    return;
  }
  if (form == "types") {
    op.operand_types = read_types(r);
    return;
  }
  r.in.expect(":");
  if (form == "function") return take_types(op, read_function_type(r));
  if (form == "results") {
    op.result_types = read_types(r);
    if (n_results > 0 && n_results != std::ssize(op.result_types)) r.in.expected("a type for each result");
    return;
  }
  if (form == "same") return read_same_types(r, op);
  if (form == "each") {
    op.operand_types.assign(op.operands.size(), read_type(r));
    return;
  }
  if (form == "tuple") {
    Type type = read_type(r);
    op.operand_types = type.inputs;
    op.result_types = {std::move(type)};
    return;
  }
  if (form == "complex") {
    Type type = read_type(r);
    if (type.kind == Type::Kind::kFunction) return take_types(op, std::move(type));
    Type part = type;
    part.element.is_complex = false;
    op.operand_types.assign(op.operands.size(), part);
    op.result_types = {std::move(type)};
    return;
  }
  if (form == "select") {
    std::vector<Type> types = read_types(r);
    if (types.size() == 1 && types[0].kind == Type::Kind::kFunction) return take_types(op, std::move(types[0]));
    if (types.size() != 2) return r.in.expected("a type of the predicate and one of the result");
    op.operand_types = {types[0], types[1], types[1]};
    op.result_types = {types[1]};
    return;
  }
  // CHLO's: types -> types, with or without parentheses.
  if (r.in.peek() == '(') return take_types(op, read_function_type(r));
  op.operand_types = read_types(r);
  r.in.expect("->");
  if (r.in.peek() == '(')
    r.in.list("(", ")", [&] { op.result_types.push_back(read_type(r)); });
  else
    op.result_types = read_types(r);
}

// dense<…> or generic: () <{value = …}> : () -> type
void read_constant(TextReader& r, Op& op) {
  if (r.in.consume("(")) {
    r.in.expect(")");
    if (r.in.starts_with("<{")) op.attributes = read_dictionary(r, "<{", "}>");
    read_attributes(r, op);
    return read_types_as(r, "function", op, 1);
  }
  read_attributes(r, op);
  set(op, "value", read_attribute(r));
  read_types_as(r, "value", op, 1);
}

// [0:2, 1:5:2]
void read_slice(TextReader& r, Op& op) {
  std::vector<int64_t> starts, limits, strides;
  r.in.list("[", "]", [&] {
    starts.push_back(r.in.integer());
    r.in.expect(":");
    limits.push_back(r.in.integer());
    strides.push_back(r.in.consume(":") ? r.in.integer() : 1);
  });
  set(op, "start_indices", of(std::move(starts)));
  set(op, "limit_indices", of(std::move(limits)));
  set(op, "strides", of(std::move(strides)));
}

// batching_dims = [0] x [0], contracting_dims = [1] x [0]
void read_dot_dims(TextReader& r, Op& op) {
  StructValue dims;
  dims.kind = "dot";
  const auto pair = [&](std::string_view name) {
    r.in.expect("=");
    std::vector<int64_t> lhs = read_extents(r);
    r.in.expect("x");
    dims.fields.emplace_back(fmt::format("lhs_{}_dimensions", name), of(std::move(lhs)));
    dims.fields.emplace_back(fmt::format("rhs_{}_dimensions", name), of(read_extents(r)));
  };
  const bool has_batch = r.in.consume("batching_dims") || r.in.consume("batch_dims");
  if (has_batch) {
    pair("batching");
    r.in.expect(",");
  }
  r.in.expect("contracting_dims");
  pair("contracting");
  // In the order of the fields: batch, then contraction.
  if (!has_batch)
    for (const std::string_view side : {"rhs", "lhs"})
      dims.fields.emplace(dims.fields.begin(), fmt::format("{}_batching_dimensions", side), of(std::vector<int64_t>()));
  set(op, "dot_dimension_numbers", of(std::move(dims)));
}

// , precision = [DEFAULT, HIGHEST], algorithm = <…>
void read_precision(TextReader& r, Op& op) {
  while (r.in.consume(",")) {
    if (r.in.consume("precision")) {
      r.in.expect("=");
      std::vector<Attribute> list;
      r.in.list("[", "]", [&] { list.push_back(read_value_as(r, "enum.precision")); });
      set(op, "precision_config", of(std::move(list)));
    } else {
      r.in.expect("algorithm");
      r.in.expect("=");
      set(op, "algorithm", of(read_structure(r, "dot_algorithm")));
    }
  }
}

// {stride = [1, 1], pad = [[0, 0], [1, 1]], lhs_dilate = …, rhs_dilate = …, reverse = [false, true]}
void read_window(TextReader& r, Op& op) {
  r.in.list("{", "}", [&] {
    const std::string_view name = r.in.word();
    r.in.expect("=");
    if (name == "pad") {
      std::vector<Literal> literals;
      int64_t rows = 0;
      r.in.list("[", "]", [&] {
        ++rows;
        for (const int64_t amount : read_extents(r)) literals.push_back({.bits = amount});
      });
      Type type;
      type.element.dtype = kI64;
      type.shape = {rows, 2};
      if (!r.in.ok()) return;
      auto elements = elements_of(type, literals, r.limits);
      if (!elements) return r.fail(std::move(elements).error());
      set(op, "padding", of(*std::move(elements)));
    } else if (name == "reverse") {
      std::vector<bool> reversed;
      r.in.list("[", "]", [&] {
        const bool is_true = r.in.consume("true") || r.in.consume("1");
        if (!is_true && !r.in.consume("false")) r.in.expect("0");
        reversed.push_back(is_true);
      });
      set(op, "window_reversal", of(std::move(reversed)));
    } else {
      const std::string_view attribute = name == "stride"       ? "window_strides"
                                         : name == "lhs_dilate" ? "lhs_dilation"
                                         : name == "rhs_dilate" ? "rhs_dilation"
                                                                : "";
      if (attribute.empty()) return r.in.expected("stride, pad, lhs_dilate, rhs_dilate or reverse before this");
      set(op, attribute, of(read_extents(r)));
    }
  });
}

// e5m10
void read_exponent_mantissa(TextReader& r, Op& op) {
  r.in.skip_blanks();
  const auto part = [&](char letter) {
    if (!r.in.consume_here(letter)) r.in.expected("e…m…");
    const auto digits = r.in.digits_here();
    if (!digits) r.in.expected("digits");
    return of(digits.value_or(0));
  };
  set(op, "exponent_bits", part('e'));
  set(op, "mantissa_bits", part('m'));
}

// (%a init: %b), … applies stablehlo.add across dimensions = [0] {…} : types
// (%a init: %b), … across dimensions = [0] {…} : types reducer(%x: t, %y: t) … {…}
void read_reduce(TextReader& r, Op& op) {
  std::vector<ValueId> inits;
  do {
    r.in.expect("(");
    op.operands.push_back(read_value(r));
    r.in.expect("init");
    r.in.expect(":");
    inits.push_back(read_value(r));
    r.in.expect(")");
  } while (r.in.ok() && r.in.consume(","));
  op.operands.insert(op.operands.end(), inits.begin(), inits.end());
  std::string inner;
  r.in.skip_blanks();
  const std::string location = r.in.place_of(r.in.position());
  if (r.in.consume("applies")) inner = r.in.peek() == '"' ? r.in.string() : std::string(r.in.word());
  r.in.expect("across");
  r.in.expect("dimensions");
  r.in.expect("=");
  set(op, "dimensions", of(read_extents(r)));
  read_attributes(r, op);
  read_types_as(r, "function", op, 0);
  if (!r.in.ok()) return;
  if (inner.empty()) {
    read_location(r);
    r.in.expect("reducer");
    std::vector<std::string_view> names, accumulators;
    std::vector<Type> types, accumulator_types;
    const auto argument = [&](std::vector<std::string_view>& to, std::vector<Type>& to_types) {
      to.push_back(read_value_name(r));
      r.in.expect(":");
      to_types.push_back(read_type(r));
      read_location(r);
    };
    while (r.in.consume("(")) {
      argument(names, types);
      r.in.expect(",");
      argument(accumulators, accumulator_types);
      r.in.expect(")");
    }
    names.insert(names.end(), accumulators.begin(), accumulators.end());
    types.insert(types.end(), accumulator_types.begin(), accumulator_types.end());
    op.regions.push_back(read_region(r, names, types));
    return;
  }
  if (op.operand_types.empty()) return r.in.expected("types of operands before this");
  Type scalar;
  scalar.element = op.operand_types[0].element;
  Op apply, end;
  apply.name = inner;
  end.name = "stablehlo.return";
  Block block;
  for (int i = 0; i < 2; ++i) {
    block.arguments.push_back(define_value(r, scalar));
    block.argument_types.push_back(scalar);
  }
  apply.operands = block.arguments;
  apply.operand_types = block.argument_types;
  apply.results = {define_value(r, scalar)};
  apply.result_types = {scalar};
  end.operands = apply.results;
  end.operand_types = apply.result_types;
  apply.location = end.location = location;
  block.ops = {std::move(apply), std::move(end)};
  op.regions.emplace_back().blocks.push_back(std::move(block));
}

// (%arg = %a, …) : types attributes {…} cond {…} do {…}
void read_while(TextReader& r, Op& op) {
  std::vector<std::string_view> names;
  r.in.list("(", ")", [&] {
    names.push_back(read_value_name(r));
    r.in.expect("=");
    op.operands.push_back(read_value(r));
  });
  if (r.in.consume(":")) op.operand_types = read_types(r);
  if (r.in.ok() && op.operand_types.size() != names.size()) r.in.expected("a type for each value before this");
  op.result_types = op.operand_types;
  if (r.in.consume("attributes")) read_attributes(r, op);
  for (const std::string_view part : {"cond", "do"}) {
    r.in.expect(part);
    if (r.in.ok()) op.regions.push_back(read_region(r, names, op.operand_types));
  }
}

// (%a) inits (%b) dimension=0 attributes {…} {…} : types
void read_scan(TextReader& r, Op& op) {
  r.in.expect("(");
  op.operands = read_values(r);
  r.in.expect(")");
  r.in.expect("inits");
  r.in.expect("(");
  const std::vector<ValueId> inits = read_values(r);
  r.in.expect(")");
  const int64_t n_inputs = std::ssize(op.operands), n_inits = std::ssize(inits);
  op.operands.insert(op.operands.end(), inits.begin(), inits.end());
  r.in.expect("dimension");
  r.in.expect("=");
  set(op, "dimension", of(r.in.integer()));
  if (r.in.consume("attributes")) read_attributes(r, op);
  op.regions.push_back(read_region(r));
  read_types_as(r, "function", op, 0);
  set(op, "operandSegmentSizes", of(std::vector<int64_t>{n_inputs, n_inits}));
  set(op, "resultSegmentSizes", of(std::vector<int64_t>{std::ssize(op.result_types) - n_inits, n_inits}));
}

// (), or %a, %b : types
void read_barrier(TextReader& r, Op& op) {
  if (r.in.consume("(")) return r.in.expect(")");
  op.operands = read_values(r);
  if (op.operands.empty()) return;
  r.in.expect(":");
  op.operand_types = op.result_types = read_types(r);
}

void read_regions(TextReader& r, Op& op) {
  if (r.in.peek() == '(') r.in.list("(", ")", [&] { op.regions.push_back(read_region(r)); });
}

void read_conv(TextReader& r, Op& op) { set(op, "dimension_numbers", of(read_conv_dimensions(r))); }

struct CustomPart {
  std::string_view name;
  void (*read)(TextReader&, Op&);
};
constexpr CustomPart kCustomParts[] = {
    {"constant", read_constant},   {"slice", read_slice},     {"dot", read_dot_dims},
    {"precision", read_precision}, {"window", read_window},   {"exponent_mantissa", read_exponent_mantissa},
    {"reduce", read_reduce},       {"while", read_while},     {"scan", read_scan},
    {"barrier", read_barrier},     {"regions", read_regions}, {"conv", read_conv},
};

// kind:attribute, perhaps after name=
void read_named_value(TextReader& r, std::string_view part, Op& op) {
  if (const size_t equals = part.find('='); equals != std::string_view::npos) {
    r.in.expect(part.substr(0, equals));
    r.in.expect("=");
    part.remove_prefix(equals + 1);
  }
  const size_t colon = part.find(':');
  set(op, part.substr(colon + 1), read_value_as(r, part.substr(0, colon)));
}

void read_part(TextReader& r, std::string_view part, Op& op, int64_t n_results) {
  if (part == "$") return op.operands.push_back(read_value(r));
  if (part == "$*") {
    for (const ValueId value : read_values(r)) op.operands.push_back(value);
    return;
  }
  if (part == "$*,") {
    while (r.in.peek() == '%') {
      op.operands.push_back(read_value(r));
      r.in.expect(",");
    }
    return;
  }
  if (part == "{}") return read_attributes(r, op);
  if (part.size() > 1 && part[0] == '@')
    return std::ranges::find(kCustomParts, part.substr(1), &CustomPart::name)->read(r, op);
  if (part.size() > 1 && part[0] == ':') return read_types_as(r, part.substr(1), op, n_results);
  if (part.size() > 1 && part[0] == '?') {
    if (r.in.consume(",")) read_named_value(r, part.substr(1), op);
    return;
  }
  if (part.size() > 1 && part.find(':') != std::string_view::npos) return read_named_value(r, part, op);
  r.in.expect(part);
}

}  // namespace

bool has_form(std::string_view op) { return form_of(op) != nullptr; }

bool read_pretty(TextReader& r, Op& op, int64_t n_results) {
  const Form* form = form_of(op.name);
  if (!form) return false;
  if (op.name.find('.') == std::string::npos) op.name = "func." + op.name;
  all_of_parts(form->parts, [&](std::string_view part) {
    read_part(r, part, op, n_results);
    return r.in.ok();
  });
  sort_attributes(r, op.attributes);
  if (r.in.ok() && op.operand_types.empty())
    for (const ValueId value : op.operands) op.operand_types.push_back(type_of(r, value));
  return true;
}

// @name(%arg0: type {…}, …) -> (type {…}, …) attributes {…} {…}
Function read_function(TextReader& r) {
  Function function;
  r.op = "func.func";
  function.is_public = !r.in.consume("private") && !r.in.consume("nested");
  if (function.is_public) r.in.consume("public");
  function.name = read_symbol(r);
  std::vector<std::string_view> names;
  std::vector<Type> types;
  r.in.list("(", ")", [&] {
    r.check(&Limits::inputs, std::ssize(types) + 1);
    if (r.in.peek() == '%') {
      names.push_back(read_value_name(r));
      r.in.expect(":");
    }
    types.push_back(read_type(r));
    function.argument_attributes.push_back(r.in.peek() == '{' ? read_dictionary(r) : Attributes());
    read_location(r);
  });
  // "{" after a single type without parentheses begins the body.
  const bool has_parentheses = r.in.consume("->") && r.in.peek() == '(';
  const auto result = [&] {
    r.check(&Limits::outputs, std::ssize(function.result_types) + 1);
    function.result_types.push_back(read_type(r));
    function.result_attributes.push_back(has_parentheses && r.in.peek() == '{' ? read_dictionary(r) : Attributes());
  };
  if (has_parentheses)
    r.in.list("(", ")", result);
  else if (is_type_next(r))
    result();
  if (r.in.consume("attributes")) read_dictionary(r);
  if (r.in.ok() && r.in.peek() == '{') {
    if (names.size() != types.size()) {
      r.in.expected("names of all arguments before this");
      return function;
    }
    Region region = read_region(r, names, types);
    if (!region.blocks.empty()) function.body = std::move(region.blocks[0]);
  } else {
    for (const Type& type : types) function.body.arguments.push_back(define_value(r, type));
    function.body.argument_types = std::move(types);
  }
  read_location(r);
  return function;
}

}  // namespace fettle::stablehlo
