// MLIR's bytecode, versions 0 to 6, of portable artifacts of StableHLO.
//
// The format is described in MLIR's BytecodeFormat.md, the encoding of VHLO in StableHLO's VhloBytecode.cpp.

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>

#include "frontend/stablehlo/bytecode_reader.h"
#include "frontend/stablehlo/functions.h"
#include "frontend/stablehlo/read.h"
#include "frontend/stablehlo/vhlo.h"

namespace fettle::stablehlo {
namespace {

constexpr uint64_t kNewestBytecode = 6;
// Versions from which on the bytecode has what these are called.
constexpr uint64_t kDialectVersions = 1, kLazyRegions = 2, kUseListOrders = 3, kShortArguments = 4, kProperties = 5;

enum SectionId : uint8_t {
  kStrings,
  kDialects,
  kAttributes,
  kAttributeOffsets,
  kOperators,
  kResources,
  kResourceOffsets,
  kVersions,
  kPropertyTable,
  kSectionCount
};

enum OpPart : uint8_t {
  kHasAttributes = 1,
  kHasResults = 2,
  kHasOperands = 4,
  kHasSuccessors = 8,
  kHasRegions = 16,
  kHasUseListOrders = 32,
  kHasProperties = 64
};

struct Section {
  uint8_t id = 0;
  size_t begin = 0, end = 0;
};

Section read_section(ByteReader& r) {
  Section section;
  const uint8_t id = r.byte();
  const auto length = static_cast<size_t>(r.number());
  if ((id & 0x80) != 0) r.align(r.number());
  section.id = id & 0x7f;
  section.begin = r.position();
  r.take(length);
  section.end = r.position();
  return section;
}

void read_strings(BytecodeFile& file, Section section) {
  ByteReader r(file, section.begin, section.end);
  std::vector<size_t> lengths(r.count());
  for (auto length = lengths.rbegin(); length != lengths.rend(); ++length) *length = static_cast<size_t>(r.number());
  for (const size_t length : lengths) {
    const auto bytes = r.take(length);
    if (r.ok() && (bytes.empty() || bytes.back() != std::byte{0})) r.fail("a string without a zero at its end");
    if (!r.ok()) return;
    file.strings.emplace_back(reinterpret_cast<const char*>(bytes.data()), length - 1);
  }
}

std::string_view string_of(ByteReader& r, uint64_t index) {
  if (index < r.file().strings.size()) return r.file().strings[index];
  r.fail("a string that the file does not have");
  return {};
}

void read_dialects(BytecodeFile& file, Section section) {
  ByteReader r(file, section.begin, section.end);
  for (size_t n = r.count(); r.ok() && n > 0; --n) {
    const uint64_t encoded = r.number();
    const bool has_version = file.version >= kDialectVersions && (encoded & 1) != 0;
    file.dialects.push_back(string_of(r, file.version >= kDialectVersions ? encoded >> 1 : encoded));
    if (has_version) read_section(r);
  }
  if (file.version >= kShortArguments) r.number();  // of all operators
  while (!r.at_end()) {
    const uint64_t dialect = r.number();
    if (dialect >= file.dialects.size()) return r.fail("a dialect that the file does not have");
    for (size_t n = r.count(); r.ok() && n > 0; --n) {
      const uint64_t encoded = r.number();
      file.op_names.push_back(
          {static_cast<size_t>(dialect), string_of(r, file.version >= kProperties ? encoded >> 1 : encoded)});
    }
  }
}

void read_entries(BytecodeFile& file, Section offsets, Section data) {
  ByteReader r(file, offsets.begin, offsets.end);
  const size_t n_attributes = r.count(), n_types = r.count();
  size_t at = data.begin;
  for (auto [table, wanted] : {std::pair(&file.attributes, n_attributes), std::pair(&file.types, n_types)}) {
    while (r.ok() && table->size() < wanted) {
      const uint64_t dialect = r.number();
      if (dialect >= file.dialects.size()) return r.fail("a dialect that the file does not have");
      for (size_t n = r.count(); r.ok() && n > 0; --n) {
        const uint64_t encoded = r.number(), size = encoded >> 1;
        if (size > data.end - at || table->size() >= wanted) return r.fail("attributes and types do not fit");
        BytecodeEntry entry;
        entry.begin = at;
        entry.end = at += static_cast<size_t>(size);
        entry.dialect = static_cast<size_t>(dialect);
        entry.is_custom = (encoded & 1) != 0;
        table->push_back(std::move(entry));
      }
    }
  }
}

void read_properties(BytecodeFile& file, Section section) {
  ByteReader r(file, section.begin, section.end);
  for (size_t n = r.count(); r.ok() && n > 0; --n) file.properties.push_back(r.take(static_cast<size_t>(r.number())));
}

// Values of an isolated region and of the regions in it.
struct ValueScope {
  struct Value {
    ValueId id = -1;  // none yet
    Type type;
  };
  std::vector<Value> values;
  size_t next = 0;  // the place of the value that comes next
};

class OperatorReader {
 public:
  OperatorReader(BytecodeFile& file, Module& module) : file_(file), module_(module) {}

  void read(Section section) {
    ByteReader r(file_, section.begin, section.end);
    ValueScope scope;
    const Block block = read_block(r, scope, Parent::kFile);
    if (r.ok() && !r.at_end()) r.fail("bytes after the end of the operators");
    if (r.ok() && (block.ops.size() != 1 || block.ops[0].name != "builtin.module"))
      r.fail("one module is expected, and nothing beside it");
    if (r.ok()) name_module(module_, block.ops[0].attributes);
  }

 private:
  enum class Parent : uint8_t { kFile, kModule, kFunction, kOperator };

  Block read_block(ByteReader& r, ValueScope& scope, Parent parent);
  Region read_region(ByteReader& r, ValueScope& scope, Parent parent);
  Op read_op(ByteReader& r, ValueScope& scope, Parent parent);
  void read_regions(ByteReader& r, ValueScope& scope, Op& op, Parent parent);
  void read_attributes(ByteReader& r, Op& op, uint8_t parts);
  void skip_use_list_orders(ByteReader& r, size_t n_values);
  std::string op_name(ByteReader& r);
  /// Around where Shardy says on which devices a value is: with one device, the value itself.
  static bool is_of_placement(const Op& op) {
    return op.name == "sdy.sharding_constraint" || op.name == "builtin.unrealized_conversion_cast";
  }
  /// Devices side by side, of Shardy's dialect: beside functions.
  static bool is_mesh(const Op& op) { return op.name == "sdy.mesh"; }
  void skip_mesh(ByteReader& r);
  ValueId define(ByteReader& r, ValueScope& scope, const Type& type);

  BytecodeFile& file_;
  Module& module_;
  int64_t n_ops_ = 0, nesting_ = 0;
  ValueId next_id_ = 0;
};

ValueId OperatorReader::define(ByteReader& r, ValueScope& scope, const Type& type) {
  if (scope.next >= scope.values.size()) {
    r.fail("a region has more values than it says");
    return 0;
  }
  scope.values[scope.next++] = {next_id_, type};
  return next_id_++;
}

// How uses of values are ordered, which says nothing here.
void OperatorReader::skip_use_list_orders(ByteReader& r, size_t n_values) {
  size_t n = 1;
  if (n_values > 1) n = r.count();
  for (; r.ok() && n > 0; --n) {
    if (n_values > 1) r.number();
    for (uint64_t indices = r.number() >> 1; r.ok() && indices > 0; --indices) r.number();
  }
}

std::string OperatorReader::op_name(ByteReader& r) {
  const uint64_t index = r.number();
  if (index >= file_.op_names.size()) {
    r.fail("an operator that the file does not have");
    return {};
  }
  const BytecodeOpName& name = file_.op_names[index];
  return fmt::format("{}.{}", file_.dialects[name.dialect], name.name);
}

void OperatorReader::read_attributes(ByteReader& r, Op& op, uint8_t parts) {
  if ((parts & kHasAttributes) != 0) {
    const Attribute attributes = r.attribute();
    const auto* entries = attributes.get_if<Attributes>();
    if (r.ok() && !entries) r.fail("attributes of an operator that are no dictionary");
    if (entries) op.attributes = *entries;
  }
  if ((parts & kHasProperties) == 0) return;
  const uint64_t index = r.number();
  if (r.ok() && index >= file_.properties.size()) return r.fail("properties that the file does not have");
  if (!r.ok() || is_of_placement(op)) return;
  const std::span<const std::byte> bytes = file_.properties[index];
  const auto begin = static_cast<size_t>(bytes.data() - file_.bytes.data());
  ByteReader properties(file_, begin, begin + bytes.size());
  if (op.name == "builtin.module") {
    for (const std::string_view name : {"sym_name", "sym_visibility"})
      if (const uint64_t given = properties.number(); (given & 1) != 0)
        op.attributes.emplace_back(name, attribute_at(file_, given >> 1));
  } else {
    std::string_view names = *vhlo_attributes(op.name.substr(std::string_view("vhlo.").size()));
    while (r.ok() && !names.empty()) {
      const std::string_view name = names.substr(0, names.find(' '));
      op.attributes.emplace_back(name, properties.attribute());
      names.remove_prefix(std::min(name.size() + 1, names.size()));
    }
  }
  if (!properties.at_end()) properties.fail(fmt::format("properties of {} have bytes after their end", op.name));
  const std::string* twice = sort_by_name(op.attributes);
  if (r.ok() && twice) r.fail(fmt::format("{} has attribute {} twice", op.name, *twice));
}

// It has a name and the devices' order, which a program for one device does not look at.
void OperatorReader::skip_mesh(ByteReader& r) {
  const uint8_t parts = r.byte();
  r.number();  // where it stands
  for (const uint8_t part : {kHasAttributes, kHasProperties})
    if ((parts & part) != 0) r.number();
  if ((parts & ~(kHasAttributes | kHasProperties)) != 0) r.fail("a mesh that has more than attributes");
}

Op OperatorReader::read_op(ByteReader& r, ValueScope& scope, Parent parent) {
  Op op;
  if (auto fits = check_limit(file_.limits, &Limits::nodes, ++n_ops_); !fits) file_.fail(std::move(fits).error());
  op.name = op_name(r);
  if (!r.ok()) return op;
  if (is_mesh(op) && parent == Parent::kModule) {
    skip_mesh(r);
    return op;
  }
  const bool is_vhlo = op.name.starts_with("vhlo.");
  const bool is_module = op.name == "builtin.module" && parent == Parent::kFile;
  if (!is_module && !(is_of_placement(op) && (parent == Parent::kFunction || parent == Parent::kOperator)) &&
      !(is_vhlo && vhlo_attributes(op.name.substr(std::string_view("vhlo.").size())))) {
    file_.fail(ErrorCode::E602,
               fmt::format("operator {} is not known; the file is of StableHLO {}, and what is read are portable "
                           "artifacts up to {}",
                           op.name, file_.release.empty() ? "no version" : file_.release, kNewestVersion));
    return op;
  }
  const bool is_function = is_vhlo && op.name.starts_with("vhlo.func_v");
  if ((parent == Parent::kModule) != is_function && !is_module) {
    r.fail(fmt::format("{} stands where it may not", op.name));
    return op;
  }
  const uint8_t parts = r.byte();
  const uint64_t location = r.number();
  read_attributes(r, op, parts);
  if ((parts & kHasResults) != 0) op.result_types = r.types();
  if ((parts & kHasOperands) != 0) {
    for (size_t n = r.count(); r.ok() && n > 0; --n) {
      const uint64_t index = r.number();
      if (index >= scope.values.size() || scope.values[index].id < 0) {
        r.fail(fmt::format("an operand of {} that is not there before it", op.name));
        return op;
      }
      op.operands.push_back(scope.values[index].id);
      op.operand_types.push_back(scope.values[index].type);
    }
  }
  if ((parts & kHasSuccessors) != 0) file_.fail(ErrorCode::E603, "operators that go to blocks are not supported");
  for (const Type& type : op.result_types) op.results.push_back(define(r, scope, type));
  if ((parts & kHasUseListOrders) != 0) skip_use_list_orders(r, op.results.size());
  op.location = location_at(file_, location);
  if ((parts & kHasRegions) != 0)
    read_regions(r, scope, op, is_module ? Parent::kModule : is_function ? Parent::kFunction : Parent::kOperator);
  if (!r.ok()) return op;
  if (is_vhlo)
    if (auto upgraded = from_vhlo(op, parent == Parent::kFunction); !upgraded) file_.fail(std::move(upgraded).error());
  return op;
}

void OperatorReader::read_regions(ByteReader& r, ValueScope& scope, Op& op, Parent parent) {
  const uint64_t encoded = r.number();
  const bool is_isolated = (encoded & 1) != 0;
  const uint64_t n_regions = encoded >> 1;
  if (r.ok() && n_regions > r.left()) return r.fail("more regions than there are bytes");
  // A function's values begin anew.
  ValueScope own;
  ValueScope& inner = is_isolated ? own : scope;
  if (parent == Parent::kFunction) next_id_ = 0;
  const auto read_all = [&](ByteReader& from) {
    for (uint64_t i = 0; from.ok() && i < n_regions; ++i) op.regions.push_back(read_region(from, inner, parent));
  };
  if (!is_isolated || file_.version < kLazyRegions) return read_all(r);
  const Section section = read_section(r);
  if (r.ok() && section.id != kOperators) return r.fail("a section of operators is expected");
  if (!r.ok()) return;
  ByteReader part(file_, section.begin, section.end);
  read_all(part);
}

Region OperatorReader::read_region(ByteReader& r, ValueScope& scope, Parent parent) {
  Region region;
  const uint64_t n_blocks = r.number();
  if (n_blocks == 0 || !r.ok()) return region;
  if (n_blocks > 1) {
    file_.fail(ErrorCode::E603, "a region of several blocks is not supported");
    return region;
  }
  if (parent == Parent::kOperator) {
    if (auto fits = check_limit(file_.limits, &Limits::nesting, ++nesting_); !fits) file_.fail(std::move(fits).error());
    if (nesting_ > 1000) file_.fail(ErrorCode::E608, "regions are too deep within one another");
  }
  const size_t n_values = r.count(), before = scope.values.size(), next = scope.next;
  if (!r.ok()) return region;
  scope.values.resize(before + n_values);
  scope.next = before;
  region.blocks.push_back(read_block(r, scope, parent));
  scope.values.resize(before);
  scope.next = next;
  if (parent == Parent::kOperator) --nesting_;
  return region;
}

Block OperatorReader::read_block(ByteReader& r, ValueScope& scope, Parent parent) {
  Block block;
  const uint64_t encoded = r.number();
  if ((encoded & 1) != 0) {
    for (size_t n = r.count(); r.ok() && n > 0; --n) {
      const uint64_t type = r.number();
      const bool is_short = file_.version >= kShortArguments;
      block.argument_types.push_back(type_at(file_, is_short ? type >> 1 : type));
      if (!is_short || (type & 1) != 0) r.number();  // where it stands
      block.arguments.push_back(define(r, scope, block.argument_types.back()));
    }
    if (file_.version >= kUseListOrders && r.byte() != 0) skip_use_list_orders(r, block.arguments.size());
  }
  for (uint64_t n = encoded >> 1; r.ok() && n > 0; --n) {
    Op op = read_op(r, scope, parent);
    if (!r.ok()) break;
    if (is_mesh(op)) continue;
    if (op.name != "func.func") {
      block.ops.push_back(std::move(op));
    } else if (auto function = to_function(std::move(op))) {
      module_.functions.push_back(*std::move(function));
    } else {
      file_.fail(std::move(function).error());
    }
  }
  return block;
}

// "1.13.0": major and minor. Nothing: it is no version.
std::optional<std::pair<int, int>> version_of(std::string_view release) {
  std::array<int, 3> parts{};
  const char *at = release.data(), *const end = at + release.size();
  for (size_t i = 0; i < parts.size(); ++i) {
    if (i > 0 && (at == end || *at++ != '.')) return {};
    const auto [next, error] = std::from_chars(at, end, parts[i]);
    if (error != std::errc() || parts[i] < 0) return {};
    at = next;
  }
  if (at != end) return {};
  return std::pair(parts[0], parts[1]);
}

// What later versions mean by an operator is not known, even where its name is. Versions of one minor number differ in
// nothing that is written.
Result<> check_release(std::string_view release, const std::string& label) {
  const auto version = version_of(release);
  if (version && *version >= *version_of(kOldestVersion) && *version <= *version_of(kNewestVersion)) return {};
  return fail(ErrorCode::E602,
              fmt::format("an artifact of StableHLO {}; versions {} to {} are read: write it again for version {}, as "
                          "`stablehlo-translate --serialize --target={}` or serialize_portable_artifact of Python do",
                          release, kOldestVersion, kNewestVersion, kNewestVersion, kNewestVersion),
              label);
}

}  // namespace

Result<Module> parse_bytecode(std::span<const std::byte> bytes, const std::string& label, const Limits& limits) {
  BytecodeFile file = {.bytes = bytes, .label = label, .limits = limits};
  if (!is_bytecode(bytes)) return fail(ErrorCode::E602, "the bytes do not begin as MLIR's bytecode does", label);
  ByteReader r(file, 4, bytes.size());
  file.version = r.number();
  if (r.ok() && file.version > kNewestBytecode)
    return fail(ErrorCode::E602,
                fmt::format("bytecode of version {}; versions up to {} are read", file.version, kNewestBytecode),
                label);
  const std::string_view producer = r.text();
  constexpr std::string_view kProducer = "StableHLO_v";
  if (producer.starts_with(kProducer)) {
    file.release = producer.substr(kProducer.size());
    FETTLE_TRY_VOID(check_release(file.release, label));
  }
  std::array<std::optional<Section>, kSectionCount> sections;
  while (!r.at_end()) {
    const Section section = read_section(r);
    if (section.id >= kSectionCount) r.fail(fmt::format("a section {} that is not known", section.id));
    if (r.ok() && sections[section.id]) r.fail(fmt::format("section {} stands there twice", section.id));
    if (r.ok()) sections[section.id] = section;
  }
  for (const SectionId id : {kStrings, kDialects, kAttributes, kAttributeOffsets, kOperators})
    if (r.ok() && !sections[id]) r.fail(fmt::format("section {} is missing", static_cast<int>(id)));
  Module module;
  if (r.ok()) read_strings(file, *sections[kStrings]);
  if (r.ok()) read_dialects(file, *sections[kDialects]);
  if (r.ok()) read_entries(file, *sections[kAttributeOffsets], *sections[kAttributes]);
  if (r.ok() && sections[kPropertyTable]) read_properties(file, *sections[kPropertyTable]);
  if (r.ok()) OperatorReader(file, module).read(*sections[kOperators]);
  if (file.error) return fail(*std::move(file.error));
  module.version = file.release;
  FETTLE_TRY_VOID(check_names(module, label));
  return module;
}

}  // namespace fettle::stablehlo
