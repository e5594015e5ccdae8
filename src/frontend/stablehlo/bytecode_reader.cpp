#include "frontend/stablehlo/bytecode_reader.h"

#include <fmt/format.h>

#include "frontend/stablehlo/text_reader.h"

namespace fettle::stablehlo {

void BytecodeFile::fail(Diagnostic problem) {
  if (error) return;
  if (problem.where.empty()) problem.where = label;
  error = std::move(problem);
}

void BytecodeFile::fail(ErrorCode code, std::string message) { fail(Diagnostic(code, std::move(message), label)); }

void ByteReader::fail(std::string_view what) {
  if (ok()) file_.fail(Diagnostic(ErrorCode::E602, std::string(what), fmt::format("{}, byte {}", file_.label, at_)));
}

uint8_t ByteReader::byte() {
  if (left() < 1) {
    fail("the bytes end too early");
    return 0;
  }
  return static_cast<uint8_t>(file_.bytes[at_++]);
}

uint64_t ByteReader::number() {
  const uint8_t first = byte();
  // Zeros below the lowest one say how many bytes follow.
  int more = 0;
  while (more < 8 && !(first >> more & 1)) ++more;
  uint64_t value = more < 7 ? first >> (more + 1) : 0;
  const int shift = more < 8 ? 7 - more : 0;
  for (int i = 0; i < more; ++i) value |= static_cast<uint64_t>(byte()) << (shift + 8 * i);
  return value;
}

int64_t ByteReader::signed_number() {
  const uint64_t value = number();
  return static_cast<int64_t>(value >> 1 ^ (~(value & 1) + 1));
}

size_t ByteReader::count() {
  const uint64_t n = number();
  if (n <= left()) return static_cast<size_t>(n);
  fail(fmt::format("{} things are said to follow, in {} bytes", n, left()));
  return 0;
}

std::span<const std::byte> ByteReader::take(size_t n) {
  if (n > left()) {
    fail(fmt::format("{} bytes are said to follow, and {} are left", n, left()));
    return {};
  }
  at_ += n;
  return file_.bytes.subspan(at_ - n, n);
}

void ByteReader::align(uint64_t to) {
  if (to == 0 || (to & (to - 1)) != 0) return fail("an alignment that is no power of two");
  while (ok() && at_ % to != 0)
    if (byte() != 0xCB) return fail("padding of other bytes than 0xCB");
}

std::string_view ByteReader::text() {
  const size_t start = at_;
  while (ok() && byte() != 0) {
  }
  if (!ok()) return {};
  return {reinterpret_cast<const char*>(file_.bytes.data()) + start, at_ - start - 1};
}

std::string_view ByteReader::string_at_index() {
  const uint64_t index = number();
  if (index < file_.strings.size()) return file_.strings[index];
  fail("a string that the file does not have");
  return {};
}

Attribute ByteReader::attribute() { return attribute_at(file_, number()); }
Type ByteReader::type() { return type_at(file_, number()); }

std::vector<int64_t> ByteReader::signed_numbers() {
  std::vector<int64_t> values(count());
  for (int64_t& value : values) value = signed_number();
  return values;
}

std::vector<Type> ByteReader::types() {
  std::vector<Type> values;
  for (size_t n = count(); ok() && n > 0; --n) values.push_back(type());
  return values;
}

uint64_t ByteReader::bits(int width) {
  const uint64_t value = width <= 8 ? byte() : static_cast<uint64_t>(signed_number());
  return width >= 64 ? value : value & ((uint64_t{1} << width) - 1);
}

namespace {

constexpr int kMaxEntryDepth = 128;

// The text of an attribute or type, of a dialect without an encoding of its own.
template <class F>
auto from_text(ByteReader& r, F read) {
  TextReader text = {.in = Scanner(r.text(), r.file().label), .limits = r.file().limits};
  auto value = read(text);
  if (text.in.ok() && !text.in.at_end()) text.in.expected("the end");
  if (!text.in.ok()) r.file().fail(text.in.error());
  return value;
}

// read(reader): the value of an entry, as an attribute.
template <class F>
const BytecodeEntry* entry_at(BytecodeFile& file, std::vector<BytecodeEntry>& table, uint64_t index, F read) {
  if (file.error) return nullptr;
  if (index >= table.size()) {
    file.fail(ErrorCode::E602, "an attribute or type that the file does not have");
    return nullptr;
  }
  BytecodeEntry& entry = table[index];
  if (entry.is_open || file.depth >= kMaxEntryDepth) {
    file.fail(entry.is_open ? ErrorCode::E602 : ErrorCode::E608, "attributes or types are too deep within one another");
    return nullptr;
  }
  if (!entry.is_read) {
    entry.is_open = true;
    ++file.depth;
    const int64_t before = file.copied;
    ByteReader reader(file, entry.begin, entry.end);
    entry.value = read(reader, entry);
    if (!reader.at_end()) reader.fail("an attribute or type has bytes after its end");
    entry.size = 1 + (file.copied - before);
    entry.is_read = true;
    entry.is_open = false;
    --file.depth;
  }
  file.copied += entry.size;
  // Every one that is handed out takes a byte of the file, but those within it take none.
  const int64_t most = file.limits.attribute_elements + 64 * std::ssize(file.bytes);
  if (auto fits = check_limit(file.limits, &Limits::attribute_elements, file.copied <= most ? 0 : file.copied); !fits)
    file.fail(std::move(fits).error());
  return file.error ? nullptr : &entry;
}

void unknown_encoding(ByteReader& r, std::string_view dialect) {
  r.file().fail(ErrorCode::E602,
                fmt::format("dialect {} in its own encoding is not read: write the program as a portable artifact of "
                            "StableHLO",
                            dialect));
}

}  // namespace

Attribute attribute_at(BytecodeFile& file, uint64_t index) {
  const auto* entry = entry_at(file, file.attributes, index, [&](ByteReader& r, const BytecodeEntry& e) {
    if (!e.is_custom) return from_text(r, read_attribute);
    if (file.dialects[e.dialect] == "builtin") return read_builtin_attribute(r);
    if (file.dialects[e.dialect] == "vhlo") return read_vhlo_attribute(r);
    unknown_encoding(r, file.dialects[e.dialect]);
    return Attribute();
  });
  return entry ? entry->value : Attribute();
}

Type type_at(BytecodeFile& file, uint64_t index) {
  const auto* entry = entry_at(file, file.types, index, [&](ByteReader& r, const BytecodeEntry& e) {
    Attribute value;
    if (!e.is_custom)
      value.value = from_text(r, read_type);
    else if (file.dialects[e.dialect] == "builtin")
      value.value = read_builtin_type(r);
    else if (file.dialects[e.dialect] == "vhlo")
      value.value = read_vhlo_type(r);
    else
      unknown_encoding(r, file.dialects[e.dialect]);
    return value;
  });
  const Type* type = entry ? entry->value.get_if<Type>() : nullptr;
  return type ? *type : Type();
}

std::string location_at(BytecodeFile& file, uint64_t index) {
  const Attribute location = attribute_at(file, index);
  const auto* text = location.get_if<OpaqueValue>();
  return text ? text->text : "";
}

}  // namespace fettle::stablehlo
