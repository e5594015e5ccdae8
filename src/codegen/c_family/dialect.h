#pragma once
// The spellings in which languages of the C family differ. Differences in structure (parallel loops, kernels, …) are
// overrides in SourcePrinter.

#include <map>
#include <string>
#include <vector>

#include "ir/type.h"

namespace fettle::c_family {

/// How memory of one scope is written.
struct ScopeSpelling {
  std::string declaration;  // before a local array: "__local "
  std::string pointer;      // before a pointer's element type: "__global "
  std::string initializer;  // behind a local array: " = {0}"
  /// Declared at the top of the function, whatever encloses its accesses.
  bool at_top = false;
};

/// The defaults are those of C11.
struct Dialect {
  std::string name = "C";

  // Types: of 8, 16, 32 and 64 bits.
  std::string int_types[4] = {"int8_t", "int16_t", "int32_t", "int64_t"};
  std::string uint_types[4] = {"uint8_t", "uint16_t", "uint32_t", "uint64_t"};
  std::string bool_type = "bool";  // of values; in memory a bool is an 8-bit integer
  std::string i64_suffix = "LL";
  std::string u64_suffix = "ULL";

  /// Before every helper function ("min_f32" and the like).
  std::string helper_qualifier = "static inline ";
  /// Behind the names of mathematics functions of f32: expf.
  std::string f32_math_suffix = "f";
  /// Mathematics functions under another name, by ours (before the suffix): {"round", "rint"}.
  std::map<std::string, std::string> math_names = {{"round", "nearbyint"}, {"abs", "fabs"}};

  /// By the name of a scope; what is not listed has no qualifiers.
  std::map<std::string, ScopeSpelling> scopes;
  /// Index along an axis that a loop may be bound to: {"threadIdx.x", "get_local_id(0)"}. Not listed: refused.
  std::map<std::string, std::string> thread_axes;
  /// Statements for evaluate(name(…)) without arguments: {"barrier", "__syncthreads();"}. Not listed: refused.
  std::map<std::string, std::string> statements;
  /// Values of name() without arguments. Not listed: refused.
  std::map<std::string, std::string> values;
  /// Helper functions of which the language has its own definition, by name, without qualifier (helpers.h).
  std::map<std::string, std::string, std::less<>> helpers;
  /// Functions of other values, with {} for the arguments: {"lane_value", "__shfl_sync(0xffffffffu, {})"}.
  std::map<std::string, std::string> functions;
  /// A line before a loop that is to be unrolled; empty: none.
  std::string unroll_hint;

  /// Words that no variable may be called, besides those of C and C++.
  std::vector<std::string> reserved;

  /// Of an element in memory. f16 and bf16 are kept as 16-bit unsigned integers, bools as 8-bit ones.
  std::string storage_type(DType type) const;
  /// Of a value. f16 and bf16 are computed in float and rounded after each operation.
  std::string value_type(DType type) const;
  const ScopeSpelling& scope(const std::string& name) const;
};

}  // namespace fettle::c_family
