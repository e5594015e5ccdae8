#include "cost/learned/learned_correction.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>

#include "base/check.h"
#include "base/hash.h"
#include "cost/predict/predict.h"
#include "learned_correction_text.h"

namespace fettle {
namespace {

// The next number of a line or of several; false: there is none, or something else.
template <class Number, class... Format>
bool take_number(std::string_view& text, Number& number, Format... format) {
  text.remove_prefix(std::min(text.find_first_not_of(" \n"), text.size()));
  const auto read = std::from_chars(text.data(), text.data() + text.size(), number, format...);
  text.remove_prefix(static_cast<size_t>(read.ptr - text.data()));
  return read.ec == std::errc();
}

}  // namespace

double sum_of_trees(std::span<const CorrectionTree> trees, std::span<const float> features) {
  double sum = 0;
  for (const CorrectionTree& tree : trees) {
    int node = 0;
    for (int depth = 0; depth < CorrectionTree::kDepth; ++depth)
      node = 2 * node + (features[tree.feature[node]] < tree.threshold[node] ? 1 : 2);
    sum += tree.leaf[node - CorrectionTree::kSplits];
  }
  return sum;
}

double learned_correction(std::span<const float> features) {
  return std::clamp(sum_of_trees(kept_correction().trees, features), -1.0, 1.0);
}

uint64_t hash_of_features() {
  uint64_t hash = 0;
  for (const std::string& name : feature_names()) hash = hash_bytes(name, hash);
  return hash;
}

std::string to_text(const Correction& correction) {
  std::string text = fmt::format("{:x}\n", correction.features);
  for (const CorrectionTree& tree : correction.trees)
    text += fmt::format("{} {:.6g} {:.4g}\n", fmt::join(tree.feature, " "), fmt::join(tree.threshold, " "),
                        fmt::join(tree.leaf, " "));
  return text;
}

Result<Correction> parse_correction(std::string_view text) {
  Correction correction;
  bool sane = take_number(text, correction.features, 16);
  const auto take_floats = [&](std::span<float> numbers) {
    for (float& number : numbers) {
      double read = 0;
      sane = sane && take_number(text, read);
      number = static_cast<float>(read);
    }
  };
  while (sane && text.find_first_not_of(" \n") != std::string_view::npos) {
    CorrectionTree& tree = correction.trees.emplace_back();
    for (uint8_t& feature : tree.feature) sane = sane && take_number(text, feature) && feature < feature_names().size();
    take_floats(tree.threshold);
    take_floats(tree.leaf);
  }
  if (!sane) return fail(ErrorCode::E503, "a correction's trees are damaged");
  return correction;
}

const Correction& kept_correction() {
  static const Correction correction = [] {
    auto read = parse_correction(learned_correction_text);
    FETTLE_CHECK_MSG(read.has_value(), "the correction that comes with Fettle is one");
    return std::move(*read);
  }();
  return correction;
}

}  // namespace fettle
