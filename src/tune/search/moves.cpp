#include "tune/search/moves.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace fettle {
namespace {

// "register_tiling/C" of "register_tiling/C/tile": what one rule decided about one block.
std::string_view rule_part(std::string_view address) { return address.substr(0, address.rfind('/')); }

}  // namespace

DecisionMap mutated(const Workbench& bench, DecisionMap decisions, RandomStream& stream, double forget) {
  if (decisions.empty()) return decisions;
  const auto chosen = std::next(decisions.begin(), static_cast<std::ptrdiff_t>(stream.below(decisions.size())));
  const std::set<Decision>& choices = bench.decisions_at(chosen->first);
  if (choices.size() > 1 && stream.uniform() >= forget) {
    auto other = std::next(choices.begin(), static_cast<std::ptrdiff_t>(stream.below(choices.size())));
    if (*other == chosen->second) ++other;
    chosen->second = other == choices.end() ? *choices.begin() : *other;
  } else {
    decisions.erase(chosen);
  }
  return decisions;
}

DecisionMap crossed(const DecisionMap& mother, const DecisionMap& father, RandomStream& stream) {
  DecisionMap decisions = mother;
  std::string_view part;
  bool from_father = false;
  for (const auto& [address, decision] : father) {
    if (rule_part(address) != part) {
      part = rule_part(address);
      from_father = stream.below(2) == 1;
    }
    if (from_father) decisions[address] = decision;
  }
  return decisions;
}

std::vector<DecisionMap> next_along_each_axis(const Workbench& bench, const DecisionMap& decisions) {
  std::vector<DecisionMap> result;
  for (const auto& one : decisions) {
    const std::set<Decision>& choices = bench.decisions_at(one.first);
    const auto at = choices.find(one.second);
    if (at == choices.end()) continue;
    const auto with_choice = [&](const Decision& choice) {
      result.push_back(decisions);
      result.back()[one.first] = choice;
    };
    if (at != choices.begin()) with_choice(*std::prev(at));
    if (std::next(at) != choices.end()) with_choice(*std::next(at));
  }
  return result;
}

void note_observations(std::span<const Observation> observations, std::set<int64_t>& known,
                       std::vector<Observation>& measured) {
  for (const Observation& o : observations) {
    known.insert(o.candidate->number);
    if (std::isfinite(o.seconds)) measured.push_back(o);
  }
  std::ranges::stable_sort(measured, {}, &Observation::seconds);
}

std::vector<const Candidate*> ranked(Workbench& bench, const std::vector<const Candidate*>& candidates) {
  const std::vector<double> seconds = bench.predict(candidates);
  std::vector<size_t> order(candidates.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return seconds[a] < seconds[b]; });
  std::vector<const Candidate*> result;
  result.reserve(order.size());
  for (const size_t i : order) result.push_back(candidates[i]);
  return result;
}

}  // namespace fettle
