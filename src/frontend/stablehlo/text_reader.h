#pragma once
// What readers of MLIR's text share: a place in it, aliases, values, and how types, attributes and regions are read.
// Every function reads from where `in` stands. After an error `in` is at its end, and results mean nothing.

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "frontend/stablehlo/elements.h"
#include "frontend/stablehlo/module.h"
#include "frontend/stablehlo/scanner.h"
#include "graph/limits.h"

namespace fettle::stablehlo {

/// A value's name: the first of its numbers, and how many there are.
struct NamedValues {
  ValueId first = 0;
  size_t count = 0;
};

/// `#name = …` and `!name = …`: where it stands, and what it is once it was read.
struct Alias {
  size_t position = 0;
  bool is_read = false;
  int64_t size = 0;  // attributes and types within
  Attribute value;
  std::string location;
};

struct TextReader {
  Scanner in;
  const Limits& limits;
  std::map<std::string_view, Alias> aliases = {};               // by "#map" or "!type"
  std::map<std::string_view, std::string_view> resources = {};  // hexadecimal bytes of dense_resource<…>
  std::vector<Type> types = {};                                 // of the function's values, by number
  std::map<std::string_view, NamedValues> values = {};
  /// What names meant before: undone at the end of a region.
  std::vector<std::pair<std::string_view, std::optional<NamedValues>>> shadowed = {};
  std::string_view op;  // the operator that is read
  int depth = 0;        // types and attributes within one another
  int64_t region_depth = 0;
  int64_t n_ops = 0;
  int64_t constant_bytes = 0;
  int64_t alias_sizes = 0;

  void fail(Diagnostic error) { in.fail(std::move(error)); }
  /// E608 unless within the limit.
  void check(int64_t Limits::* limit, int64_t asked) {
    if (auto fits = check_limit(limits, limit, asked, op); !fits) fail(std::move(fits).error());
  }
};

/// Types and attributes stand within one another at most this deep.
inline constexpr int kMaxDepth = 128;

/// Counts one level of nesting while it lives. E608
class Deeper {
 public:
  explicit Deeper(TextReader& r);
  ~Deeper() { --r_.depth; }
  Deeper(const Deeper&) = delete;
  Deeper& operator=(const Deeper&) = delete;

 private:
  TextReader& r_;
};

// Types.
Type read_type(TextReader& r);
/// type, type, …: at least one.
std::vector<Type> read_types(TextReader& r);
/// (type, …) -> type, or -> (type, …).
Type read_function_type(TextReader& r);
bool is_type_next(TextReader& r);

// Attributes.
Attribute read_attribute(TextReader& r);
/// {name = value, name, …}, in order of the names; E602 one twice.
Attributes read_dictionary(TextReader& r, std::string_view open = "{", std::string_view close = "}");
/// [1, 2]; "?" is kDynamic.
std::vector<int64_t> read_extents(TextReader& r, std::string_view open = "[", std::string_view close = "]");
/// "<…>" of a structure of StableHLO's or CHLO's, with all its fields.
StructValue read_structure(TextReader& r, std::string_view kind);
/// [b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1], the fields of "conv".
StructValue read_conv_dimensions(TextReader& r);
std::string read_symbol(TextReader& r);
void sort_attributes(TextReader& r, Attributes& attributes);
/// loc(…), where one stands.
std::string read_location(TextReader& r);
/// The content of `text` as bytes: hexadecimal digits after "0x".
std::vector<std::byte> hex_bytes(TextReader& r, std::string_view text);

// Values.
ValueId define_value(TextReader& r, const Type& type);
/// %name, or %name#1.
ValueId read_value(TextReader& r);
/// value, value, …: nothing is fine.
std::vector<ValueId> read_values(TextReader& r);
/// The name after "%".
std::string_view read_value_name(TextReader& r);
void name_values(TextReader& r, std::string_view name, NamedValues values);

// Operators.
/// Reads one operator, of either form, with the results before it and the location after it.
Op read_op(TextReader& r);
/// "{…}" of at most one block. argument_names: of its arguments, where they stand outside of it.
Region read_region(TextReader& r, const std::vector<std::string_view>& argument_names = {},
                   const std::vector<Type>& argument_types = {});
/// The form that StableHLO, CHLO, func and check have for an operator: all after its name. False: there is none of
/// that name. n_results: that names stand for.
bool read_pretty(TextReader& r, Op& op, int64_t n_results);
bool has_form(std::string_view op);
/// The function of a func.func in pretty form, whose name was read.
Function read_function(TextReader& r);
/// A name for values of a function is forgotten at its end; numbers begin anew.
void forget_values(TextReader& r);
/// @name(…), of the block's own arguments. After "(": %name: type {attributes} loc(…), …
void read_arguments(TextReader& r, Block& block, std::vector<Attributes>* attributes = nullptr);

}  // namespace fettle::stablehlo
