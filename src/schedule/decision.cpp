#include "schedule/decision.h"

#include <algorithm>
#include <charconv>

#include "base/hash.h"

namespace fettle {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }

/// The digits that a text begins with, without zeros in front; they are taken off.
std::string_view take_number(std::string_view& text) {
  const auto n = static_cast<size_t>(std::ranges::find_if_not(text, is_digit) - text.begin());
  std::string_view digits = text.substr(0, n);
  text.remove_prefix(n);
  digits.remove_prefix(std::min(digits.find_first_not_of('0'), n));
  return digits;
}

std::strong_ordering by_numbers(std::string_view a, std::string_view b) {
  while (!a.empty() && !b.empty()) {
    if (is_digit(a.front()) && is_digit(b.front())) {
      const std::string_view x = take_number(a), y = take_number(b);
      if (x.size() != y.size()) return x.size() <=> y.size();
      if (x != y) return x <=> y;
      continue;
    }
    if (a.front() != b.front()) return a.front() <=> b.front();
    a.remove_prefix(1);
    b.remove_prefix(1);
  }
  return a.size() <=> b.size();
}

/// Digits that no zero stands before, few enough for an integer.
bool is_plain_number(std::string_view text) {
  return !text.empty() && text.size() < 19 && text.front() != '0' && std::ranges::all_of(text, is_digit);
}

}  // namespace

std::optional<int64_t> Decision::integer() const {
  int64_t number = 0;
  const char* end = value_.data() + value_.size();
  const auto [at, error] = std::from_chars(value_.data(), end, number);
  return error == std::errc() && at == end ? std::optional(number) : std::nullopt;
}

uint64_t Decision::hash() const {
  uint64_t hash = hash_bytes(value_, list_.size());
  for (const int64_t part : list_) hash = hash_combine(hash, static_cast<uint64_t>(part));
  return hash;
}

std::strong_ordering operator<=>(const Decision& a, const Decision& b) {
  if (a.value_.empty() || b.value_.empty()) {
    const auto order = a.value_.empty() <=> b.value_.empty();
    return order != 0 ? 0 <=> order : a.list_ <=> b.list_;
  }
  // Searches keep sets of choices, most of which are such numbers.
  if (is_plain_number(a.value_) && is_plain_number(b.value_)) {
    const auto order = a.value_.size() <=> b.value_.size();
    return order != 0 ? order : a.value_ <=> b.value_;
  }
  const auto x = a.integer(), y = b.integer();
  if (x && y && *x != *y) return *x <=> *y;
  if (x.has_value() != y.has_value()) return y.has_value() <=> x.has_value();
  const auto order = by_numbers(a.value_, b.value_);
  return order != 0 ? order : a.value_ <=> b.value_;  // 7 and 07
}

std::string to_text(const Decision& decision) {
  if (!decision.value().empty()) return decision.value();
  std::string text = "[";
  for (const int64_t part : decision.list()) text.append(text.size() > 1 ? ", " : "").append(std::to_string(part));
  return text + "]";
}

bool is_value_name(std::string_view text) {
  const auto fits = [](char c) { return c > ' ' && c <= '~' && c != '"' && c != '#' && c != '\\'; };
  return !text.empty() && text.front() != '[' && std::ranges::all_of(text, fits);
}

}  // namespace fettle
