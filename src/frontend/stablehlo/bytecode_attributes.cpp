// Attributes and types of builtin and VHLO in MLIR's bytecode.

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "frontend/stablehlo/bytecode_reader.h"
#include "frontend/stablehlo/elements.h"
#include "frontend/stablehlo/structures.h"
#include "frontend/stablehlo/types.h"
#include "graph/dim.h"

namespace fettle::stablehlo {
namespace {

Attribute of(auto value) {
  Attribute attribute;
  attribute.value = std::move(value);
  return attribute;
}

Type scalar_of(std::string_view name) {
  Type type;
  type.kind = Type::Kind::kScalar;
  type.element = element_named(name).value_or(ElementType{.unknown = std::string(name)});
  return type;
}

Type of_kind(Type::Kind kind) {
  Type type;
  type.kind = kind;
  return type;
}

void read_shape(ByteReader& r, Type& type) {
  type.shape = r.signed_numbers();
  if (auto fits = check_limit(r.file().limits, &Limits::rank, std::ssize(type.shape)); !fits)
    r.file().fail(std::move(fits).error());
  for (int64_t& extent : type.shape) {
    if (extent == std::numeric_limits<int64_t>::min()) {
      extent = kDynamic;
    } else if (extent < 0 || extent > kMaxDim) {
      r.file().fail(ErrorCode::E608, fmt::format("an extent of {}; at most {} is allowed", extent, kMaxDim));
    }
  }
}

// A number type, or a quantized one, as what elements are.
ElementType element_of(const Type& type) {
  if (type.kind == Type::Kind::kScalar) return type.element;
  return {.unknown = type.to_string()};
}

Type read_tensor(ByteReader& r, bool has_encoding) {
  Type type;
  const Attribute encoding = has_encoding ? r.attribute() : Attribute();
  read_shape(r, type);
  type.element = element_of(r.type());
  if (!has_encoding) return type;
  if (const auto* bounds = encoding.get_if<std::vector<int64_t>>()) {
    type.bounds = *bounds;
    for (int64_t& bound : type.bounds)
      if (bound == std::numeric_limits<int64_t>::min()) bound = kDynamic;
    if (type.bounds.size() != type.shape.size()) r.fail("as many bounds as extents are expected");
  } else {
    type.element.unknown = "an encoding of a dialect";
  }
  return type;
}

Type complex_of(Type type) {
  type.element.is_complex = true;
  return type;
}

Attribute read_dense(ByteReader& r, Type type, std::span<const std::byte> bytes) {
  if (!r.ok()) return {};
  if (type.kind == Type::Kind::kScalar) type.kind = Type::Kind::kTensor;
  auto elements = elements_of(type, bytes, r.file().limits);
  if (!elements) {
    r.file().fail(std::move(elements).error());
    return {};
  }
  r.file().constant_bytes += elements->data.size_bytes;
  if (auto fits = check_limit(r.file().limits, &Limits::constant_bytes, r.file().constant_bytes); !fits)
    r.file().fail(std::move(fits).error());
  return of(*std::move(elements));
}

std::span<const std::byte> read_blob(ByteReader& r) { return r.take(static_cast<size_t>(r.number())); }

int width_of(const ElementType& element) { return element.is_index ? 64 : element.dtype.bits; }

Attribute read_integer(ByteReader& r) {
  const ElementType element = element_of(r.type());
  const int width = width_of(element);
  const uint64_t bits = r.bits(width);
  if (element.dtype.is_bool()) return of(bits != 0);
  if (element.dtype.code == TypeCode::kUInt || width == 64) return of(static_cast<int64_t>(bits));
  return of(static_cast<int64_t>(bits << (64 - width)) >> (64 - width));
}

double read_float_of(ByteReader& r, const ElementType& element) {
  const uint64_t bits = r.bits(width_of(element));
  Type type;
  type.element = element;
  const auto one = elements_of(type, std::as_bytes(std::span(&bits, 1)).first(element.dtype.element_bytes()), {});
  if (!one) r.file().fail(one.error());
  return one ? one->data.at(0) : 0;
}

double read_double(ByteReader& r) { return read_float_of(r, {.dtype = kF64}); }

Attribute location_of(std::string text) {
  constexpr size_t kMaxLocation = 400;  // locations are for people
  if (text.size() > kMaxLocation) text.resize(kMaxLocation);
  return of(OpaqueValue{"location", std::move(text)});
}

std::string text_of(const Attribute& attribute) {
  if (const auto* text = attribute.get_if<std::string>()) return *text;
  const auto* location = attribute.get_if<OpaqueValue>();
  return location ? location->text : "";
}

Attribute read_fused_location(ByteReader& r) {
  std::string first;
  for (size_t n = r.count(); r.ok() && n > 0; --n) {
    const std::string one = text_of(r.attribute());
    if (first.empty()) first = one;
  }
  return location_of(std::move(first));
}

Attribute read_list(ByteReader& r) {
  std::vector<Attribute> items;
  for (size_t n = r.count(); r.ok() && n > 0; --n) items.push_back(r.attribute());
  return of(std::move(items));
}

Attribute read_dictionary(ByteReader& r) {
  Attributes entries;
  for (size_t n = r.count(); r.ok() && n > 0; --n) {
    const Attribute name = r.attribute();
    if (r.ok() && !name.get_if<std::string>()) r.fail("a name that is no string");
    entries.emplace_back(text_of(name), r.attribute());
  }
  std::ranges::stable_sort(entries, {}, &Attributes::value_type::first);
  return of(std::move(entries));
}

Attribute read_array(ByteReader& r) {
  Type type;
  type.element = element_of(r.type());
  type.shape = {static_cast<int64_t>(r.number())};
  const std::span<const std::byte> bytes = read_blob(r);
  if (r.ok() && static_cast<int64_t>(bytes.size()) / type.element.dtype.element_bytes() != type.shape[0])
    r.fail("an array's bytes are not as many as its elements take");
  if (!r.ok()) return {};
  const Attribute dense = read_dense(r, type, bytes);
  const auto* elements = dense.get_if<DenseElements>();
  if (!elements) return {};
  const auto filled = [&](auto values, auto at) {
    for (int64_t i = 0; i < type.shape[0]; ++i) values.push_back(at(elements->is_splat ? 0 : i));
    return of(std::move(values));
  };
  const ConstantTensor& data = elements->data;
  if (data.dtype.is_bool()) return filled(std::vector<bool>(), [&](int64_t i) { return data.int_at(i) != 0; });
  if (data.dtype.is_float()) return filled(std::vector<double>(), [&](int64_t i) { return data.at(i); });
  return filled(std::vector<int64_t>(), [&](int64_t i) { return data.int_at(i); });
}

Type function_of(std::vector<Type> inputs, std::vector<Type> results) {
  Type type = of_kind(Type::Kind::kFunction);
  type.inputs = std::move(inputs);
  type.results = std::move(results);
  return type;
}

}  // namespace

Attribute read_builtin_attribute(ByteReader& r) {
  switch (const uint64_t code = r.number(); code) {
    case 0:
      return read_list(r);
    case 1:
      return read_dictionary(r);
    case 2:
      return of(std::string(r.string_at_index()));
    case 3: {
      std::string text(r.string_at_index());
      r.type();
      return of(std::move(text));
    }
    case 4:
      return of(SymbolRef{text_of(r.attribute())});
    case 5: {
      SymbolRef symbol = {text_of(r.attribute())};
      for (size_t n = r.count(); r.ok() && n > 0; --n)
        if (const Attribute part = r.attribute(); const auto* name = part.get_if<SymbolRef>())
          symbol.name += "::" + name->name;
      return of(std::move(symbol));
    }
    case 6:
      return of(r.type());
    case 7:
      return of(UnitValue());
    case 8:
      return read_integer(r);
    case 9: {
      const ElementType element = element_of(r.type());
      return of(read_float_of(r, element));
    }
    case 10: {
      const std::string callee = text_of(r.attribute()), caller = text_of(r.attribute());
      return location_of(callee.empty() ? caller : callee);
    }
    case 11: {
      const std::string file = text_of(r.attribute());
      const uint64_t line = r.number(), column = r.number();
      return location_of(fmt::format("{}:{}:{}", file, line, column));
    }
    case 12:
      return read_fused_location(r);
    case 13: {
      Attribute location = read_fused_location(r);
      r.attribute();
      return location;
    }
    case 14: {
      const std::string name = text_of(r.attribute()), child = text_of(r.attribute());
      return location_of(child.empty() ? name : name + " (" + child + ")");
    }
    case 15:
      return location_of("");
    case 17:
      return read_array(r);
    case 18: {
      Type type = r.type();
      return read_dense(r, std::move(type), read_blob(r));
    }
    case 22: {
      // A file, and lines and columns, the first of which are where it begins.
      const std::string file = text_of(r.attribute());
      std::vector<uint64_t> places;
      for (size_t n = r.count(); r.ok() && n > 0; --n) places.push_back(r.number());
      std::string text = file;
      for (size_t i = 0; i < std::min<size_t>(places.size(), 2); ++i) text += fmt::format(":{}", places[i]);
      return location_of(std::move(text));
    }
    default:
      r.fail(fmt::format("attribute {} of dialect builtin is not read", code));
      return {};
  }
}

Type read_builtin_type(ByteReader& r) {
  constexpr std::string_view kFloats[] = {"bf16", "f16", "f32", "f64"};
  switch (const uint64_t code = r.number(); code) {
    case 0: {
      const uint64_t width_and_sign = r.number();
      return scalar_of(fmt::format("{}i{}", (width_and_sign & 3) == 2 ? "u" : "", width_and_sign >> 2));
    }
    case 1:
      return scalar_of("index");
    case 2: {
      std::vector<Type> inputs = r.types();
      return function_of(std::move(inputs), r.types());
    }
    case 3:
    case 4:
    case 5:
    case 6:
      return scalar_of(kFloats[code - 3]);
    case 9:
      return complex_of(r.type());
    case 12:
      return of_kind(Type::Kind::kNone);
    case 13:
    case 14:
      return read_tensor(r, code == 14);
    case 15: {
      Type type = of_kind(Type::Kind::kTuple);
      type.inputs = r.types();
      return type;
    }
    case 18: {
      Type type;
      type.is_ranked = false;
      type.element = element_of(r.type());
      return type;
    }
    default:
      r.fail(fmt::format("type {} of dialect builtin is not read", code));
      return {};
  }
}

namespace {

struct EnumDef {
  uint64_t code;
  std::string_view kind;
  std::string_view names;  // of 0, 1, …, between blanks
};
constexpr EnumDef kEnums[] = {
    {3, "comparison_direction", "EQ NE GE GT LE LT"},
    {4, "comparison_type", "NOTYPE FLOAT TOTALORDER SIGNED UNSIGNED"},
    {7, "fft_type", "FFT IFFT RFFT IRFFT"},
    {11, "precision", "DEFAULT HIGH HIGHEST"},
    {12, "rng_algorithm", "DEFAULT THREE_FRY PHILOX"},
    {13, "rng_distribution", "- UNIFORM NORMAL"},
    {16, "transpose", "TRANSPOSE_INVALID NO_TRANSPOSE TRANSPOSE ADJOINT"},
    {19, "result_accuracy_mode", "DEFAULT HIGHEST TOLERANCE"},
};

Attribute read_enum(ByteReader& r, const EnumDef& def) {
  std::string_view names = def.names;
  for (uint64_t n = r.number(); n > 0 && !names.empty(); --n)
    names.remove_prefix(std::min(names.find(' '), names.size() - 1) + 1);
  const std::string_view name = names.substr(0, names.find(' '));
  if (name.empty() || name == "-") r.fail(fmt::format("an enumerator of {} that is not known", def.kind));
  return of(EnumValue{std::string(def.kind), std::string(name)});
}

StructValue structure(std::string_view kind, std::vector<Attribute> values) {
  StructValue result;
  result.kind = kind;
  const auto fields = fields_of(kind);
  for (size_t i = 0; i < values.size(); ++i) result.fields.emplace_back(fields[i].name, std::move(values[i]));
  return result;
}

Type read_quantized(ByteReader& r, bool has_axis) {
  auto q = std::make_shared<Quantization>();
  r.number();  // flags, which the storage type says, too
  q->storage = r.type().element.dtype;
  q->expressed = r.type().element.dtype;
  if (has_axis)
    q->dims = {static_cast<int64_t>(r.number())};
  else
    q->scales = {read_double(r)}, q->zero_points = {r.signed_number()};
  q->storage_min = r.signed_number();
  q->storage_max = r.signed_number();
  if (has_axis) {
    for (size_t n = r.count(); r.ok() && n > 0; --n) q->scales.push_back(read_double(r));
    q->zero_points = r.signed_numbers();
    if (q->scales.size() != q->zero_points.size()) r.fail("as many zero points as scales are expected");
  }
  Type type = of_kind(Type::Kind::kScalar);
  type.element.dtype = q->storage;
  type.element.quantization = std::move(q);
  return type;
}

struct NumberTypeDef {
  uint64_t code;
  std::string_view name;
};
constexpr NumberTypeDef kNumberTypes[] = {
    {0, "i1"},        {2, "bf16"},       {3, "f16"},         {4, "f32"},         {5, "f64"},
    {6, "f8E4M3FN"},  {7, "f8E5M2"},     {9, "index"},       {10, "i4"},         {11, "i8"},
    {12, "i16"},      {13, "i32"},       {14, "i64"},        {15, "ui4"},        {16, "ui8"},
    {17, "ui16"},     {18, "ui32"},      {19, "ui64"},       {31, "i2"},         {32, "ui2"},
    {34, "tf32"},     {35, "f8E4M3"},    {36, "f8E3M4"},     {37, "f4E2M1FN"},   {38, "f6E2M3FN"},
    {39, "f6E3M2FN"}, {40, "f8E8M0FNU"}, {27, "f8E4M3FNUZ"}, {28, "f8E5M2FNUZ"}, {29, "f8E4M3B11FNUZ"},
};

}  // namespace

Attribute read_vhlo_attribute(ByteReader& r) {
  const uint64_t code = r.number();
  if (const auto* def = std::ranges::find(kEnums, code, &EnumDef::code); def != std::end(kEnums))
    return read_enum(r, *def);
  switch (code) {
    case 1:
      return read_list(r);
    case 2:
      return of(r.number() != 0);
    case 5:  // the version of a custom call's interface
      return of(static_cast<int64_t>(r.number()));
    case 6:
      return read_dictionary(r);
    case 8: {
      const ElementType element = element_of(r.type());
      return of(read_float_of(r, element));
    }
    case 9:
      return read_integer(r);
    case 10: {
      std::vector<int64_t> outputs = r.signed_numbers();
      const int64_t operand = r.signed_number();
      return of(structure("output_operand_alias", {of(std::move(outputs)), of(operand), of(r.signed_numbers())}));
    }
    case 14:
      return of(std::string(r.string_at_index()));
    case 15: {
      Type type = r.type();
      return read_dense(r, std::move(type), read_blob(r));
    }
    case 17:
      return of(r.type());
    case 18:
      return of(r.signed_numbers());
    case 20: {
      const double atol = read_double(r), rtol = read_double(r);
      const int64_t ulps = r.signed_number();
      return of(structure("result_accuracy", {of(atol), of(rtol), of(ulps), r.attribute()}));
    }
    case 21: {
      const int64_t before = r.signed_number();
      return of(OpaqueValue{"stablehlo", fmt::format("({}){}", before, r.signed_number())});
    }
    case 22: {
      std::string text = text_of(r.attribute());
      if (r.number() != 0) text += ":" + text_of(r.attribute());
      return of(OpaqueValue{"stablehlo", "#stablehlo.axis_ref<name = \"" + text + "\">"});
    }
    case 23: {
      r.attribute();
      r.attribute();
      return of(OpaqueValue{"stablehlo", "#stablehlo.replica_group_mesh_axes<>"});
    }
    case 24: {
      const std::string name = text_of(r.attribute());
      return of(OpaqueValue{"stablehlo", fmt::format("#stablehlo.mesh_axis<\"{}\", {}>", name, r.signed_number())});
    }
    case 25: {
      r.attribute();
      if (r.number() != 0) r.attribute();
      return of(OpaqueValue{"stablehlo", "#stablehlo.mesh<>"});
    }
    default:
      r.file().fail(ErrorCode::E602, fmt::format("attribute {} of VHLO is not known; the file is of StableHLO {}", code,
                                                 r.file().release));
      return {};
  }
}

Type read_vhlo_type(ByteReader& r) {
  const uint64_t code = r.number();
  if (const auto* def = std::ranges::find(kNumberTypes, code, &NumberTypeDef::code); def != std::end(kNumberTypes))
    return scalar_of(def->name);
  switch (code) {
    case 1:
      return complex_of(r.type());
    case 8: {
      std::vector<Type> inputs = r.types();
      return function_of(std::move(inputs), r.types());
    }
    case 20:
    case 21:
      return read_tensor(r, code == 21);
    case 22:
      return of_kind(Type::Kind::kToken);
    case 23: {
      Type type = of_kind(Type::Kind::kTuple);
      type.inputs = r.types();
      return type;
    }
    case 24:
    case 30:
      return read_quantized(r, code == 30);
    case 25: {
      Type type;
      type.is_ranked = false;
      type.element = element_of(r.type());
      return type;
    }
    case 33:
      return of_kind(Type::Kind::kNone);
    case 41:
    case 42: {
      Type type = of_kind(Type::Kind::kNone);
      std::string inner;
      if (code == 41) {
        const Type tensor = read_tensor(r, false);
        inner = tensor.to_string().substr(std::string_view("tensor<").size());
        type.element.unknown = "memref<" + inner;
      } else {
        for (const Type& each : r.types()) inner += (inner.empty() ? "" : ", ") + each.to_string();
        type.element.unknown = "!stablehlo.future<" + inner + ">";
      }
      return type;
    }
    default:
      r.file().fail(ErrorCode::E602,
                    fmt::format("type {} of VHLO is not known; the file is of StableHLO {}", code, r.file().release));
      return {};
  }
}

}  // namespace fettle::stablehlo
