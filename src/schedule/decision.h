#pragma once
// Decision: what a sampling step chose, as traces, maps and records hold it.

#include <compare>
#include <cstdint>
#include <initializer_list>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace fettle {

/// A list of integers that say it all, such as the sizes of a tile, [32, 16]; or one of several named values by its
/// name: 14x2, unroll, 256. Never a place in a list of candidates: a list may be ordered anew.
class Decision {
 public:
  using List = std::vector<int64_t>;

  Decision() = default;
  Decision(List list) : list_(std::move(list)) {}
  Decision(std::initializer_list<int64_t> list) : list_(list) {}
  Decision(std::string value) : value_(std::move(value)) {}
  Decision(const char* value) : value_(value) {}

  /// Nothing was decided.
  bool empty() const { return list_.empty() && value_.empty(); }
  /// Empty where it is a named value.
  const List& list() const { return list_; }
  /// Empty where it is a list.
  const std::string& value() const { return value_; }
  /// The named value, if it is an integer.
  std::optional<int64_t> integer() const;

  uint64_t hash() const;
  friend bool operator==(const Decision&, const Decision&) = default;
  /// Lists by their numbers, then values: integers by size, others by the numbers in their names (6x2 before 14x2).
  friend std::strong_ordering operator<=>(const Decision& a, const Decision& b);

 private:
  List list_;
  std::string value_;
};

/// "[32, 16]" or "14x2".
std::string to_text(const Decision& decision);
/// Whether a text may be the name of a value: printable, without blanks, quotes or '#', and not the beginning of a
/// list.
bool is_value_name(std::string_view text);

/// address → decision: what a search edits and a replay reuses.
using DecisionMap = std::map<std::string, Decision>;

}  // namespace fettle
