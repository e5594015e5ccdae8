#pragma once
// What readers of MLIR's bytecode share: a place in its bytes, and the tables of strings, dialects, attributes and
// types. After an error every reader is at its end, and results mean nothing.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "frontend/stablehlo/module.h"
#include "graph/limits.h"

namespace fettle::stablehlo {

/// An attribute or a type, read when it is asked for.
struct BytecodeEntry {
  size_t begin = 0, end = 0;  // its bytes
  size_t dialect = 0;
  bool is_custom = false;  // of the dialect's own encoding; else text
  bool is_read = false, is_open = false;
  int64_t size = 0;  // attributes and types within
  Attribute value;   // of a type: a Type
};

struct BytecodeOpName {
  size_t dialect = 0;
  std::string_view name;
};

struct BytecodeFile {
  std::span<const std::byte> bytes;
  std::string label;
  const Limits& limits;
  std::optional<Diagnostic> error = std::nullopt;
  uint64_t version = 0;      // of the bytecode
  std::string release = {};  // of StableHLO: "1.8.0"
  std::vector<std::string_view> strings = {}, dialects = {};
  std::vector<BytecodeOpName> op_names = {};
  std::vector<BytecodeEntry> attributes = {}, types = {};
  std::vector<std::span<const std::byte>> properties = {};
  int depth = 0;       // attributes and types within one another
  int64_t copied = 0;  // attributes and types that were handed out
  int64_t constant_bytes = 0;

  void fail(ErrorCode code, std::string message);
  void fail(Diagnostic problem);
};

/// A part of the file's bytes, read from the left to the right.
class ByteReader {
 public:
  ByteReader(BytecodeFile& file, size_t begin, size_t end) : file_(file), at_(begin), end_(end) {}

  BytecodeFile& file() { return file_; }
  bool ok() const { return !file_.error; }
  bool at_end() const { return !ok() || at_ >= end_; }
  size_t left() const { return ok() ? end_ - at_ : 0; }
  size_t position() const { return at_; }
  /// E602 with the place.
  void fail(std::string_view what);

  uint8_t byte();
  uint64_t number();        // of a variable number of bytes
  int64_t signed_number();  // with the sign in the lowest bit
  /// A number of things that each take a byte or more.
  size_t count();
  std::span<const std::byte> take(size_t n);
  void align(uint64_t to);
  std::string_view text();  // up to a zero, which is not of it

  std::string_view string_at_index();
  Attribute attribute();
  Type type();
  std::vector<int64_t> signed_numbers();
  std::vector<Type> types();
  /// An integer of so many bits, of which the low ones count.
  uint64_t bits(int width);

 private:
  BytecodeFile& file_;
  size_t at_, end_;
};

/// The attribute or type of this number; its size is counted as copied.
Attribute attribute_at(BytecodeFile& file, uint64_t index);
Type type_at(BytecodeFile& file, uint64_t index);
/// Where an operator stands, of its location's number.
std::string location_at(BytecodeFile& file, uint64_t index);

/// An attribute or a type in the encoding of its dialect.
Attribute read_builtin_attribute(ByteReader& r);
Type read_builtin_type(ByteReader& r);
Attribute read_vhlo_attribute(ByteReader& r);
Type read_vhlo_type(ByteReader& r);

}  // namespace fettle::stablehlo
