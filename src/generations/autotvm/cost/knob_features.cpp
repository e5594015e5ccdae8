#include "generations/autotvm/cost/knob_features.h"

#include <charconv>

#include "base/hash.h"

namespace fettle {
namespace {

float number_of(std::string_view part) {
  const char* end = part.data() + part.size();
  double number = 0;
  if (const auto whole = std::from_chars(part.data(), end, number); whole.ptr == end) return static_cast<float>(number);
  constexpr uint64_t kWords = 1024;
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  if (part.empty() || !is_digit(part.front())) return static_cast<float>(hash_bytes(part) % kWords);
  double product = 1;
  for (const char* at = part.data(); at != end;) {
    uint64_t factor = 1;
    const auto read = std::from_chars(at, end, factor);
    product *= static_cast<double>(factor);
    at = read.ptr == at ? at + 1 : read.ptr;
  }
  return static_cast<float>(product);
}

std::vector<float> numbers_of(const Decision& decision) {
  std::vector<float> numbers;
  for (const int64_t part : decision.list()) numbers.push_back(static_cast<float>(part));
  for (std::string_view rest = decision.value(); !rest.empty();) {
    const size_t end = std::min(rest.find(','), rest.size());
    numbers.push_back(number_of(rest.substr(0, end)));
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return numbers;
}

}  // namespace

KnobFeatures knob_features(const DecisionMap& decisions) {
  KnobFeatures result;
  for (const auto& [address, decision] : decisions) {
    const std::vector<float> numbers = numbers_of(decision);
    for (size_t i = 0; i < numbers.size(); ++i) {
      result.values.push_back(numbers[i]);
      result.names.push_back(numbers.size() == 1 ? address : address + "[" + std::to_string(i) + "]");
    }
  }
  for (const std::string& name : result.names) result.columns = hash_bytes(name, result.columns);
  return result;
}

}  // namespace fettle
