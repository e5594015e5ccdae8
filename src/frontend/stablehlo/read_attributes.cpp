// MLIR's attributes and locations in text.

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "frontend/stablehlo/structures.h"
#include "frontend/stablehlo/text_reader.h"
#include "frontend/stablehlo/types.h"

namespace fettle::stablehlo {
namespace {

Attribute of(auto value) {
  Attribute attribute;
  attribute.value = std::move(value);
  return attribute;
}

Literal literal_of(TextReader& r) {
  if (r.in.consume("true")) return {.bits = 1};
  if (r.in.consume("false")) return {.bits = 0};
  r.in.skip_blanks();
  const size_t at = r.in.position();
  const Number number = r.in.number();
  if (number.is_float) return {.kind = Literal::Kind::kFloat, .value = number.as_double()};
  const auto bits = number.as_int();
  if (r.in.ok() && !bits) r.in.fail_at(at, ErrorCode::E602, "a number of more than 64 bits");
  return {.kind = number.is_hex ? Literal::Kind::kBits : Literal::Kind::kInt, .bits = bits.value_or(0)};
}

// Elements within brackets, as deep as the tensor has dims; each level has as many as its extent says.
void read_elements(TextReader& r, const Type& type, size_t dim, std::vector<Literal>& literals) {
  if (r.in.peek() == '[') {
    if (dim >= type.shape.size()) return r.in.expected("a number, for the constant has no more dims");
    int64_t count = 0;
    r.in.list("[", "]", [&] {
      ++count;
      read_elements(r, type, dim + 1, literals);
    });
    if (r.in.ok() && count != type.shape[dim]) r.in.expected(fmt::format("{} elements before this", type.shape[dim]));
    return;
  }
  if (dim != type.shape.size() && dim != 0) return r.in.expected("'['");
  if (!type.element.is_complex) return literals.push_back(literal_of(r));
  r.in.expect("(");
  literals.push_back(literal_of(r));
  r.in.expect(",");
  literals.push_back(literal_of(r));
  r.in.expect(")");
}

DenseElements checked(TextReader& r, Result<DenseElements> elements, size_t at) {
  if (!elements) {
    r.in.fail_at(at, elements.error().code, elements.error().message);
    return {};
  }
  r.check(&Limits::constant_bytes, r.constant_bytes += elements->data.size_bytes);
  return *std::move(elements);
}

// The content stands before the type that says how it is to be read.
Attribute read_dense(TextReader& r, bool is_resource) {
  const size_t at = r.in.position();
  const std::string_view content = r.in.balanced();
  r.in.expect(":");
  const Type type = read_type(r);
  const size_t after = r.in.position();
  if (!r.in.ok()) return {};
  if (is_resource) {
    const std::string name = std::string(content.substr(1, content.size() - 2));
    const auto found = r.resources.find(name);
    if (found == r.resources.end()) {
      r.in.fail_at(at, ErrorCode::E602,
                   name == "__elided__"
                       ? "the printer left the numbers out: print the program without "
                         "--mlir-elide-elementsattrs-if-larger and --mlir-elide-resource-strings-if-larger; from "
                         "Python, without large_elements_limit and large_resource_limit"
                       : fmt::format("the text does not have the resource '{}'", name));
      return {};
    }
    std::vector<std::byte> bytes = hex_bytes(r, found->second);
    // Four bytes before a resource's content say how it is aligned.
    if (bytes.size() >= 4) bytes.erase(bytes.begin(), bytes.begin() + 4);
    return of(checked(r, elements_of(type, bytes, r.limits), at));
  }
  r.in.seek(at);
  r.in.expect("<");
  DenseElements elements;
  if (r.in.peek() == '"') {
    const std::vector<std::byte> bytes = hex_bytes(r, r.in.string_source());
    if (r.in.ok()) elements = checked(r, elements_of(type, bytes, r.limits), at);
  } else {
    std::vector<Literal> literals;
    if (r.in.peek() != '>') read_elements(r, type, 0, literals);
    if (r.in.ok()) elements = checked(r, elements_of(type, literals, r.limits), at);
  }
  r.in.expect(">");
  r.in.seek(after);
  return of(std::move(elements));
}

Attribute read_array(TextReader& r) {
  r.in.expect("<");
  const Type type = read_type(r);
  const DType dtype = type.element.dtype;
  std::vector<Literal> literals;
  if (r.in.consume(":")) {
    do literals.push_back(literal_of(r));
    while (r.in.ok() && r.in.consume(","));
  }
  r.in.expect(">");
  if (dtype.is_bool()) {
    std::vector<bool> values;
    for (const Literal& literal : literals) values.push_back(literal.bits != 0);
    return of(std::move(values));
  }
  if (dtype.is_float()) {
    Type list;
    list.element = type.element;
    list.shape = {std::ssize(literals)};
    std::vector<double> values;
    if (!literals.empty()) {
      const DenseElements elements = checked(r, elements_of(list, literals, r.limits), r.in.position());
      if (!r.in.ok()) return {};
      for (size_t i = 0; i < literals.size(); ++i)
        values.push_back(elements.data.at(elements.is_splat ? 0 : static_cast<int64_t>(i)));
    }
    return of(std::move(values));
  }
  std::vector<int64_t> values;
  for (const Literal& literal : literals) values.push_back(literal.bits);
  return of(std::move(values));
}

Attribute read_number(TextReader& r) {
  const Literal literal = literal_of(r);
  const size_t at = r.in.position();
  if (!r.in.consume(":")) {
    if (literal.kind == Literal::Kind::kFloat) return of(literal.value);
    return of(literal.bits);
  }
  Type type = read_type(r);
  if (!r.in.ok()) return {};
  if (type.kind != Type::Kind::kScalar || type.element.is_complex) {
    r.in.fail_at(at, ErrorCode::E602, "expected a type of numbers");
    return {};
  }
  const DType dtype = type.element.dtype;
  if (!dtype.is_float() && type.element.unknown.empty()) {
    if (dtype.is_bool()) return of(literal.bits != 0);
    return of(literal.bits);
  }
  type.kind = Type::Kind::kTensor;
  const DenseElements one = checked(r, elements_of(type, std::span(&literal, 1), r.limits), at);
  if (!r.in.ok()) return {};
  return of(one.data.at(0));
}

// A field of a structure: lists of numbers, and structures within it, are known by how they begin.
Attribute read_field(TextReader& r, std::string_view field) {
  if (r.in.peek() == '[') {
    const size_t at = r.in.position();
    r.in.expect("[");
    const bool is_numbers = r.in.is_number() || r.in.peek() == ']';
    r.in.seek(at);
    if (is_numbers) return of(read_extents(r));
  }
  if (r.in.peek() == '<' && field == "mode") {
    r.in.expect("<");
    Attribute mode = of(EnumValue{"result_accuracy_mode", std::string(r.in.word())});
    r.in.expect(">");
    return mode;
  }
  return read_attribute(r);
}

// #map, #stablehlo<precision DEFAULT>, #stablehlo.dot<…>, #sdy.sharding<…>
Attribute read_dialect_attribute(TextReader& r) {
  const Deeper deeper(r);
  if (!r.in.ok()) return {};
  const size_t start = r.in.position();
  r.in.expect("#");
  const std::string_view name = r.in.suffix();
  const auto found = r.aliases.find(r.in.text().substr(start, r.in.position() - start));
  if (found != r.aliases.end()) {
    Alias& alias = found->second;
    if (!alias.is_read) {
      const size_t after = r.in.position();
      r.in.seek(alias.position);
      const int64_t before = r.alias_sizes;
      Attribute value = read_attribute(r);
      alias.size = 1 + r.alias_sizes - before + static_cast<int64_t>(r.in.position() - alias.position);
      alias.value = std::move(value);
      alias.is_read = true;
      r.in.seek(after);
    }
    r.check(&Limits::attribute_elements, r.alias_sizes += alias.size);
    return r.in.ok() ? alias.value : Attribute();
  }
  const size_t dot = name.find('.');
  const std::string_view dialect = name.substr(0, dot);
  const bool is_known = dialect == "stablehlo" || dialect == "chlo" || dialect == "mhlo";
  if (is_known && dot == std::string_view::npos && r.in.consume("<")) {
    EnumValue value;
    value.kind = r.in.word();
    if (value.kind.empty()) r.in.expected("the name of an enumeration");
    // #stablehlo<dot <…>> is how text has structures in some places.
    if (r.in.peek() == '<' || r.in.peek() == '[') {
      StructValue structure = value.kind == "conv" ? read_conv_dimensions(r) : read_structure(r, value.kind);
      r.in.expect(">");
      return of(std::move(structure));
    }
    value.value = r.in.word();
    if (value.value.empty()) r.in.expected("an enumerator");
    r.in.expect(">");
    return of(std::move(value));
  }
  if (is_known && dot != std::string_view::npos && r.in.peek() == '<') {
    const std::string_view kind = name.substr(dot + 1);
    if (kind == "conv") {
      r.in.expect("<");
      StructValue structure;
      if (r.in.peek() == '[') {
        structure = read_conv_dimensions(r);
        r.in.expect(">");
      } else {
        r.in.fail_at(start, ErrorCode::E602, "expected '[', of the input's dims");
      }
      return of(std::move(structure));
    }
    if (!fields_of(kind).empty()) return of(read_structure(r, kind));
    const size_t open = r.in.position();
    r.in.expect("<");
    const std::string_view enumerator = r.in.word();
    if (!enumerator.empty() && r.in.consume(">")) return of(EnumValue{std::string(kind), std::string(enumerator)});
    r.in.seek(open);
  }
  if (r.in.peek_here() == '<') r.in.balanced();
  return of(OpaqueValue{std::string(dialect), std::string(r.in.text().substr(start, r.in.position() - start))});
}

}  // namespace

std::vector<std::byte> hex_bytes(TextReader& r, std::string_view text) {
  std::vector<std::byte> bytes;
  const size_t at = r.in.position();
  const bool is_hex = text.starts_with("0x") && text.size() % 2 == 0;
  if (is_hex) bytes.reserve(text.size() / 2);
  for (size_t i = 2; is_hex && i < text.size(); i += 2) {
    const int high = hex_digit(text[i]), low = hex_digit(text[i + 1]);
    if (high < 0 || low < 0) {
      r.in.fail_at(at, ErrorCode::E602, "expected pairs of hexadecimal digits");
      return {};
    }
    bytes.push_back(static_cast<std::byte>(high * 16 + low));
  }
  if (!is_hex) r.in.fail_at(at, ErrorCode::E602, "expected a string of \"0x\" and pairs of hexadecimal digits");
  return bytes;
}

std::vector<int64_t> read_extents(TextReader& r, std::string_view open, std::string_view close) {
  std::vector<int64_t> extents;
  r.in.list(open, close, [&] { extents.push_back(r.in.consume("?") ? kDynamic : r.in.integer()); });
  return extents;
}

StructValue read_structure(TextReader& r, std::string_view kind) {
  const Deeper deeper(r);
  StructValue structure;
  structure.kind = kind;
  const auto known = fields_of(kind);
  const size_t start = r.in.position();
  r.in.list("<", ">", [&] {
    const size_t at = r.in.position();
    const std::string name(r.in.word());
    if (name.empty() || (!known.empty() && std::ranges::find(known, name, &FieldDef::name) == known.end())) {
      r.in.seek(at);
      return r.in.expected(fmt::format("a field of #stablehlo.{}", kind));
    }
    if (find_attribute(structure.fields, name)) return r.in.expected(fmt::format("'{}' but once", name));
    r.in.expect("=");
    structure.fields.emplace_back(name, read_field(r, name));
  });
  complete(structure);
  for (const FieldDef& field : known)
    if (!find_attribute(structure.fields, field.name))
      r.in.fail_at(start, ErrorCode::E602, fmt::format("#stablehlo.{} has no {}", kind, field.name));
  return structure;
}

StructValue read_conv_dimensions(TextReader& r) {
  // Letters of the two dims that are not spatial, of each of the three lists.
  struct Part {
    std::string_view name, first, first_name, second, second_name;
  };
  constexpr Part kParts[] = {{"input", "b", "batch", "f", "feature"},
                             {"kernel", "i", "input_feature", "o", "output_feature"},
                             {"output", "b", "batch", "f", "feature"}};
  StructValue structure;
  structure.kind = "conv";
  for (const Part& part : kParts) {
    if (part.name == "kernel" && !r.in.consume_here('x')) r.in.expect("x");
    if (part.name == "output") r.in.expect("->");
    int64_t at = 0, first = -1, second = -1;
    std::vector<std::pair<int64_t, int64_t>> spatial;  // which, where
    r.in.list("[", "]", [&] {
      if (r.in.consume(part.first))
        first = at;
      else if (r.in.consume(part.second))
        second = at;
      else
        spatial.emplace_back(r.in.integer(), at);
      ++at;
    });
    std::ranges::sort(spatial);
    std::vector<int64_t> dims;
    for (const auto& [which, where] : spatial) {
      if (which != std::ssize(dims)) r.in.expected("each of the spatial dims once");
      dims.push_back(where);
    }
    if (r.in.ok() && (first < 0 || second < 0))
      r.in.expected(fmt::format("'{}' and '{}' before this", part.first, part.second));
    const auto name = [&](std::string_view dim) { return fmt::format("{}_{}_dimension", part.name, dim); };
    structure.fields.emplace_back(name(part.first_name), of(first));
    structure.fields.emplace_back(name(part.second_name), of(second));
    structure.fields.emplace_back(name("spatial") + "s", of(std::move(dims)));
  }
  complete(structure);
  return structure;
}

std::string read_symbol(TextReader& r) {
  r.in.expect("@");
  std::string name = r.in.peek_here() == '"' ? r.in.string() : std::string(r.in.suffix());
  while (r.in.consume("::@")) name += "::" + (r.in.peek_here() == '"' ? r.in.string() : std::string(r.in.suffix()));
  return name;
}

void sort_attributes(TextReader& r, Attributes& attributes) {
  if (const std::string* twice = sort_by_name(attributes))
    r.in.expected(fmt::format("attribute '{}' but once", *twice));
}

Attributes read_dictionary(TextReader& r, std::string_view open, std::string_view close) {
  const Deeper deeper(r);
  Attributes attributes;
  r.in.list(open, close, [&] {
    std::string name = r.in.peek() == '"' ? r.in.string() : std::string(r.in.word());
    if (name.empty()) r.in.expected("the name of an attribute");
    attributes.emplace_back(std::move(name), r.in.consume("=") ? read_attribute(r) : of(UnitValue()));
  });
  sort_attributes(r, attributes);
  return attributes;
}

Attribute read_attribute(TextReader& r) {
  const Deeper deeper(r);
  if (!r.in.ok()) return {};
  switch (r.in.peek()) {
    case '"': {
      std::string text = r.in.string();
      if (r.in.consume(":")) read_type(r);
      return of(std::move(text));
    }
    case '[': {
      std::vector<Attribute> items;
      r.in.list("[", "]", [&] { items.push_back(read_attribute(r)); });
      return of(std::move(items));
    }
    case '{':
      return of(read_dictionary(r));
    case '@':
      return of(SymbolRef{read_symbol(r)});
    case '#':
      return read_dialect_attribute(r);
    default:
      break;
  }
  if (r.in.is_number()) return read_number(r);
  if (r.in.consume("true")) return of(true);
  if (r.in.consume("false")) return of(false);
  if (r.in.consume("unit")) return of(UnitValue());
  if (r.in.consume("dense")) return read_dense(r, false);
  if (r.in.consume("dense_resource")) return read_dense(r, true);
  if (r.in.consume("array")) return read_array(r);
  if (is_type_next(r)) return of(read_type(r));
  const size_t start = r.in.position();
  if (r.in.starts_with("loc(")) return of(OpaqueValue{"builtin", read_location(r)});
  for (const std::string_view builtin : {"affine_map", "affine_set", "strided", "sparse", "opaque", "distinct"}) {
    if (!r.in.consume(builtin)) continue;
    r.in.balanced();
    return of(OpaqueValue{"builtin", std::string(r.in.text().substr(start, r.in.position() - start))});
  }
  r.in.expected("an attribute");
  return {};
}

namespace {

// Locations are for people: a long one is cut.
constexpr size_t kMaxLocation = 400;

std::string location_content(TextReader& r) {
  const Deeper deeper(r);
  if (!r.in.ok()) return {};
  std::string result;
  if (r.in.peek() == '"') {
    result = r.in.string();
    if (r.in.consume(":")) {
      // file:line:column, perhaps to another line and column
      result += fmt::format(":{}", r.in.integer());
      if (r.in.consume(":")) result += fmt::format(":{}", r.in.integer());
      if (r.in.consume("to")) {
        if (r.in.is_number()) r.in.integer();
        if (r.in.consume(":")) r.in.integer();
      }
    } else if (r.in.consume("(")) {
      const std::string where = location_content(r);
      r.in.expect(")");
      if (!where.empty()) result += " (" + where + ")";
    }
  } else if (r.in.consume("unknown")) {
  } else if (r.in.consume("callsite")) {
    r.in.expect("(");
    result = location_content(r);
    r.in.expect("at");
    const std::string caller = location_content(r);
    if (result.empty()) result = caller;
    r.in.expect(")");
  } else if (r.in.consume("fused")) {
    if (r.in.peek() == '<') r.in.balanced();
    r.in.list("[", "]", [&] {
      const std::string one = location_content(r);
      if (result.empty()) result = one;
    });
  } else if (r.in.peek() == '#') {
    const size_t start = r.in.position();
    r.in.expect("#");
    r.in.suffix();
    const auto found = r.aliases.find(r.in.text().substr(start, r.in.position() - start));
    if (found == r.aliases.end()) {
      r.in.seek(start);
      r.in.expected("a location that the text has");
    } else if (!found->second.is_read) {
      const size_t after = r.in.position();
      r.in.seek(found->second.position);
      r.in.expect("loc");
      r.in.expect("(");
      result = location_content(r);
      r.in.expect(")");
      r.in.seek(after);
      found->second.location = result;
      found->second.is_read = true;
    } else {
      result = found->second.location;
    }
  } else {
    r.in.expected("a location");
  }
  if (result.size() > kMaxLocation) result.resize(kMaxLocation);
  return result;
}

}  // namespace

std::string read_location(TextReader& r) {
  if (!r.in.consume("loc")) return {};
  r.in.expect("(");
  std::string result = location_content(r);
  r.in.expect(")");
  return result;
}

}  // namespace fettle::stablehlo
