#pragma once
// NamedValues: what a categorical step chooses among.

#include <initializer_list>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "schedule/refs.h"

namespace fettle {

/// Integers, whose names are their digits, or values of another kind, each by the name that a decision records: 14x2.
class NamedValues {
 public:
  NamedValues() = default;
  NamedValues(std::vector<int64_t> integers) : values_(std::move(integers)) {}
  NamedValues(std::initializer_list<int64_t> integers) : values_(std::vector<int64_t>(integers)) {}
  NamedValues(std::vector<std::string> names) : values_(std::move(names)) {}

  size_t size() const;
  std::string name(size_t i) const;
  /// The value itself, if it is an integer.
  std::optional<int64_t> integer(size_t i) const;
  /// The one of this name.
  std::optional<size_t> find(const std::string& name) const;
  /// Whether each name may be recorded, and no two are the same.
  bool are_distinct() const;
  uint64_t hash() const;

  friend ArgValue to_arg(const NamedValues& x);
  friend bool from_arg(const ArgValue& a, NamedValues& x);
  friend bool operator==(const NamedValues&, const NamedValues&) = default;

 private:
  std::variant<std::vector<int64_t>, std::vector<std::string>> values_;
};

ArgValue to_arg(const NamedValues& x);
bool from_arg(const ArgValue& a, NamedValues& x);

}  // namespace fettle
