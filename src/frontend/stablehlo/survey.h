#pragma once
// What a module says of itself: its functions, and the operators and constants that one of them reaches.

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "base/result.h"
#include "frontend/stablehlo/module.h"

namespace fettle::stablehlo {

/// What those are called that may become the graph: `main`, and all that are public.
std::vector<std::string> entry_names(const Module& module);
/// The function that becomes the graph: the one called `name`; empty: `main`, or the only one. E602 there is none ·
/// E709 there is none of this name
Result<const Function*> entry_of(const Module& module, std::string_view name);
/// Functions that the operator names: the callee, the decomposition, what a custom_call calls.
std::vector<std::string_view> called_functions(const Op& op);
/// What argument or result i is called: as the attribute `key` says, else `otherwise` and the number.
std::string name_of(const std::vector<Attributes>& attributes, size_t i, std::string_view key, const char* otherwise);

bool is_return(const Op& op);
/// Where the program says that the operator comes from, and where it stands in the file.
std::string place_of(const Op& op);
/// The same in a diagnostic of the operator.
Diagnostic placed(Diagnostic diagnostic, const Op& op);

/// Operators that a program reaches and that are not known, each by its name, with where it stands first.
class Survey {
 public:
  /// function: as entry_of has it; nothing is surveyed where there is no such one.
  Survey(const Module& module, std::string_view function);

  const std::vector<const Op*>& unknown() const { return unknown_; }
  /// How many there are of each.
  const std::map<std::string, int64_t>& operators() const { return operators_; }
  const std::vector<const DenseElements*>& constants() const { return constants_; }
  std::vector<Diagnostic> problems() const;

 private:
  void visit(const Function& function);
  void visit(const Block& block);

  const Module& module_;
  std::unordered_set<const Function*> seen_;
  std::map<std::string, int64_t> operators_;
  std::vector<const Op*> unknown_;
  std::vector<const DenseElements*> constants_;
};

}  // namespace fettle::stablehlo
