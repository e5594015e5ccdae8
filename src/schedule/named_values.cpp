#include "schedule/named_values.h"

#include <algorithm>
#include <charconv>

#include "base/hash.h"
#include "schedule/decision.h"

namespace fettle {

size_t NamedValues::size() const {
  return std::visit([](const auto& list) { return list.size(); }, values_);
}

std::string NamedValues::name(size_t i) const {
  if (const auto number = integer(i)) return std::to_string(*number);
  return std::get<std::vector<std::string>>(values_)[i];
}

std::optional<int64_t> NamedValues::integer(size_t i) const {
  const auto* integers = std::get_if<std::vector<int64_t>>(&values_);
  return integers ? std::optional((*integers)[i]) : std::nullopt;
}

std::optional<size_t> NamedValues::find(const std::string& wanted) const {
  const auto place_in = [](const auto& list, const auto& value) -> std::optional<size_t> {
    const auto found = std::ranges::find(list, value);
    return found == list.end() ? std::nullopt : std::optional(static_cast<size_t>(found - list.begin()));
  };
  if (const auto* names = std::get_if<std::vector<std::string>>(&values_)) return place_in(*names, wanted);
  int64_t number = 0;
  const auto [end, error] = std::from_chars(wanted.data(), wanted.data() + wanted.size(), number);
  if (error != std::errc() || std::to_string(number) != wanted) return std::nullopt;
  return place_in(std::get<std::vector<int64_t>>(values_), number);
}

bool NamedValues::are_distinct() const {
  const auto distinct = [](const auto& list) {
    // A search asks this of each short list, for each candidate.
    if (list.size() <= 32) {
      for (auto i = list.begin(); i != list.end(); ++i)
        if (std::find(list.begin(), i, *i) != i) return false;
      return true;
    }
    auto sorted = list;
    std::ranges::sort(sorted);
    return std::ranges::adjacent_find(sorted) == sorted.end();
  };
  const auto* names = std::get_if<std::vector<std::string>>(&values_);
  return (!names || std::ranges::all_of(*names, is_value_name)) && std::visit(distinct, values_);
}

uint64_t NamedValues::hash() const {
  uint64_t hash = hash_combine(size(), values_.index());
  if (const auto* integers = std::get_if<std::vector<int64_t>>(&values_)) {
    for (const int64_t value : *integers) hash = hash_combine(hash, static_cast<uint64_t>(value));
  } else {
    for (const std::string& name : std::get<std::vector<std::string>>(values_)) hash = hash_bytes(name, hash);
  }
  return hash;
}

ArgValue to_arg(const NamedValues& x) {
  return std::visit([](const auto& list) { return to_arg(list); }, x.values_);
}

bool from_arg(const ArgValue& a, NamedValues& x) {
  if (std::vector<int64_t> integers; from_arg(a, integers)) {
    x = NamedValues(std::move(integers));
    return true;
  }
  std::vector<std::string> names;
  if (!from_arg(a, names)) return false;
  x = NamedValues(std::move(names));
  return true;
}

}  // namespace fettle
