// MLIR's types in text.

#include <fmt/format.h>

#include <algorithm>

#include "frontend/stablehlo/text_reader.h"
#include "frontend/stablehlo/types.h"
#include "graph/dim.h"
#include "graph/small_types.h"

namespace fettle::stablehlo {

Deeper::Deeper(TextReader& r) : r_(r) {
  if (++r.depth > kMaxDepth && r.in.ok())
    r.in.fail_at(r.in.position(), ErrorCode::E608,
                 fmt::format("types and attributes are more than {} within one another", kMaxDepth));
}

namespace {

// <-128:127> after a type of integers.
void read_storage_range(TextReader& r, Quantization& q) {
  if (!r.in.consume("<")) return;
  q.storage_min = r.in.integer();
  r.in.expect(":");
  q.storage_max = r.in.integer();
  r.in.expect(">");
}

// Quantized types have "u8" where others have "ui8".
DType read_number_type(TextReader& r) {
  const size_t at = r.in.position();
  std::string name(r.in.word());
  if (name.size() > 1 && name[0] == 'u' && name[1] != 'i') name.insert(1, "i");
  const auto element = element_named(name);
  if (!element || !element->unknown.empty() || element->is_index) {
    r.in.seek(at);
    r.in.expected("a type of numbers");
    return kF32;
  }
  return element->dtype;
}

// 0.5:3, or {…} of such, which are counted along each dim.
void read_scales(TextReader& r, Quantization& q, size_t level, std::vector<int64_t>& counts) {
  const Deeper deeper(r);
  if (r.in.peek() != '{') {
    const Number scale = r.in.number();
    q.scales.push_back(scale.as_double());
    q.zero_points.push_back(r.in.consume(":") ? r.in.integer() : 0);
    return;
  }
  int64_t count = 0;
  r.in.list("{", "}", [&] {
    ++count;
    read_scales(r, q, level + 1, counts);
  });
  if (counts.size() <= level) counts.resize(level + 1, 0);
  counts[level] = std::max(counts[level], count);
}

ElementType read_quantized(TextReader& r) {
  auto q = std::make_shared<Quantization>();
  r.in.expect("<");
  q->storage = read_number_type(r);
  if (r.in.ok() && (!q->storage.is_int() || q->storage.bits > 32)) r.in.expected("a type of at most 32 bits");
  if (!r.in.ok()) return {};
  q->storage_min = least_int(q->storage);
  q->storage_max = greatest_int(q->storage);
  read_storage_range(r, *q);
  r.in.expect(":");
  q->expressed = read_number_type(r);
  bool is_blocked = false;
  if (r.in.consume(":")) {
    if (r.in.peek() == '{') {
      is_blocked = true;
      r.in.list("{", "}", [&] {
        q->dims.push_back(r.in.integer());
        r.in.expect(":");
        q->blocks.push_back(r.in.integer());
      });
    } else {
      q->dims.push_back(r.in.integer());
    }
  }
  r.in.expect(",");
  std::vector<int64_t> counts;
  read_scales(r, *q, 0, counts);
  if (is_blocked) q->scale_shape = counts;
  size_t wanted = 1;
  for (const int64_t count : counts) wanted *= static_cast<size_t>(count);
  if (r.in.ok() && wanted != q->scales.size()) r.in.expected("as many scales in each row");
  r.in.expect(">");
  ElementType element = {.dtype = q->storage};
  element.quantization = std::move(q);
  return element;
}

Type scalar_type(ElementType element) {
  Type type;
  type.kind = Type::Kind::kScalar;
  type.element = std::move(element);
  return type;
}

Type unknown_type(std::string name) {
  Type type;
  type.kind = Type::Kind::kNone;
  type.element.unknown = std::move(name);
  return type;
}

// What follows "!".
Type read_dialect_type(TextReader& r) {
  const size_t start = r.in.position();
  r.in.expect("!");
  const std::string_view name = r.in.suffix();
  if (name == "stablehlo.token") {
    Type type;
    type.kind = Type::Kind::kToken;
    return type;
  }
  if (name == "quant.uniform") return scalar_type(read_quantized(r));
  const auto found = r.aliases.find(r.in.text().substr(start, r.in.position() - start));
  if (found == r.aliases.end()) {
    if (r.in.peek_here() == '<') r.in.balanced();
    return unknown_type(std::string(r.in.text().substr(start, r.in.position() - start)));
  }
  Alias& alias = found->second;
  if (!alias.is_read) {
    const size_t after = r.in.position();
    r.in.seek(alias.position);
    const int64_t before = r.alias_sizes;
    Type type = read_type(r);
    alias.size = 1 + r.alias_sizes - before + std::ssize(type.inputs) + std::ssize(type.results);
    alias.value.value = std::move(type);
    alias.is_read = true;
    r.in.seek(after);
  }
  r.check(&Limits::attribute_elements, r.alias_sizes += alias.size);
  if (const Type* type = alias.value.get_if<Type>()) return *type;
  return {};
}

ElementType read_element(TextReader& r) {
  const size_t at = r.in.position();
  if (r.in.peek() == '!') {
    const Type type = read_dialect_type(r);
    if (type.kind == Type::Kind::kScalar) return type.element;
    return {.unknown = type.to_string()};
  }
  const std::string_view name = r.in.word();
  if (name == "complex") {
    r.in.expect("<");
    const Deeper deeper(r);
    ElementType part = r.in.ok() ? read_element(r) : ElementType{};
    r.in.expect(">");
    part.is_complex = true;
    return part;
  }
  if (auto element = element_named(name)) return *std::move(element);
  if (name.empty()) {
    r.in.seek(at);
    r.in.expected("a type");
  }
  return {.unknown = std::string(name)};
}

// What follows "tensor".
Type read_tensor(TextReader& r) {
  Type type;
  r.in.expect("<");
  r.in.skip_blanks();
  if (r.in.consume_here('*')) {
    type.is_ranked = false;
    if (!r.in.consume_here('x')) r.in.expected("'x'");
  }
  while (r.in.ok()) {
    int64_t extent = kDynamic;
    if (!r.in.consume_here('?')) {
      const auto digits = r.in.digits_here();
      if (!digits) break;
      extent = *digits;
      if (extent > kMaxDim)
        r.in.fail_at(r.in.position(), ErrorCode::E608,
                     fmt::format("an extent of {}; at most {} is allowed", extent, kMaxDim));
    }
    type.shape.push_back(extent);
    r.check(&Limits::rank, std::ssize(type.shape));
    if (!r.in.consume_here('x')) r.in.expected("'x'");
  }
  if (r.in.ok()) type.element = read_element(r);
  if (r.in.consume(",")) {
    if (r.in.consume("#stablehlo.bounds") || r.in.consume("#stablehlo.type_extensions")) {
      if (r.in.starts_with("<bounds")) {
        r.in.expect("<");
        r.in.expect("bounds");
        r.in.expect("=");
        type.bounds = read_extents(r);
        r.in.expect(">");
      } else {
        type.bounds = read_extents(r, "<", ">");
      }
      if (r.in.ok() && type.bounds.size() != type.shape.size()) r.in.expected("as many bounds as dims");
    } else {
      const size_t start = r.in.position();
      read_attribute(r);
      type.element.unknown = std::string(r.in.text().substr(start, r.in.position() - start));
    }
  }
  r.in.expect(">");
  return type;
}

}  // namespace

bool is_type_next(TextReader& r) {
  const char c = r.in.peek();
  if (c == '!' || c == '(') return true;
  const size_t at = r.in.position();
  const std::string_view name = r.in.word();
  r.in.seek(at);
  return name == "tensor" || name == "memref" || name == "vector" || name == "tuple" || name == "complex" ||
         name == "none" || element_named(name).has_value();
}

Type read_type(TextReader& r) {
  const Deeper deeper(r);
  if (!r.in.ok()) return {};
  const char c = r.in.peek();
  if (c == '(') return read_function_type(r);
  if (c == '!') return read_dialect_type(r);
  if (r.in.consume("tensor")) return read_tensor(r);
  if (r.in.consume("none")) return unknown_type("");
  for (const std::string_view name : {"memref", "vector"})
    if (r.in.consume(name)) return unknown_type(std::string(name) + std::string(r.in.balanced()));
  if (r.in.consume("tuple")) {
    Type type;
    type.kind = Type::Kind::kTuple;
    r.in.list("<", ">", [&] { type.inputs.push_back(read_type(r)); });
    return type;
  }
  const size_t at = r.in.position();
  ElementType element = read_element(r);
  if (!element.unknown.empty() && r.in.ok() && !element_named(element.unknown)) {
    r.in.seek(at);
    r.in.expected("a type");
  }
  return scalar_type(std::move(element));
}

std::vector<Type> read_types(TextReader& r) {
  std::vector<Type> types;
  do types.push_back(read_type(r));
  while (r.in.ok() && r.in.consume(","));
  return types;
}

Type read_function_type(TextReader& r) {
  Type type;
  type.kind = Type::Kind::kFunction;
  r.in.list("(", ")", [&] { type.inputs.push_back(read_type(r)); });
  r.in.expect("->");
  if (r.in.peek() == '(')
    r.in.list("(", ")", [&] { type.results.push_back(read_type(r)); });
  else
    type.results.push_back(read_type(r));
  return type;
}

}  // namespace fettle::stablehlo
