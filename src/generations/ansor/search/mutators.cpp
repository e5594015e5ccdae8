#include "generations/ansor/search/mutators.h"

#include <algorithm>
#include <map>
#include <string>

namespace fettle {
namespace {

std::string_view part_of(std::string_view address, size_t number) {
  for (; number > 0; --number) {
    const size_t slash = address.find('/');
    if (slash == std::string_view::npos) return {};
    address.remove_prefix(slash + 1);
  }
  return address.substr(0, address.find('/'));
}

bool is_about(std::string_view address, std::string_view kind) {
  std::string_view last = address.substr(address.rfind('/') + 1);
  last = last.substr(0, last.find('#'));
  return part_of(address, 0) == kind || last == kind;
}

std::optional<DecisionMap> change_one(const Workbench& bench, const DecisionMap& decisions, RandomStream& stream,
                                      std::string_view kind) {
  std::vector<const std::string*> places;
  for (const auto& [address, decision] : decisions)
    if (is_about(address, kind) && bench.decisions_at(address).size() > 1) places.push_back(&address);
  if (places.empty()) return std::nullopt;
  const std::string& address = *places[stream.below(places.size())];
  const std::set<Decision>& choices = bench.decisions_at(address);
  auto other = std::next(choices.begin(), static_cast<std::ptrdiff_t>(stream.below(choices.size())));
  DecisionMap changed = decisions;
  Decision& decision = changed[address];
  if (*other == decision && ++other == choices.end()) other = choices.begin();
  decision = *other;
  return changed;
}

std::optional<DecisionMap> change_tile(const Workbench&, const DecisionMap& decisions, RandomStream& stream) {
  const auto is_tile = [](const Decision& decision) {
    const Decision::List& d = decision.list();
    return d.size() > 1 && std::ranges::all_of(d, [](int64_t x) { return x >= 1; }) &&
           std::ranges::any_of(d, [](int64_t x) { return x > 1; });
  };
  std::vector<const std::string*> places;
  for (const auto& [address, decision] : decisions)
    if (is_tile(decision)) places.push_back(&address);
  if (places.empty()) return std::nullopt;
  DecisionMap changed = decisions;
  Decision& decision = changed[*places[stream.below(places.size())]];
  Decision::List sizes = decision.list();
  std::vector<size_t> from;
  for (size_t i = 0; i < sizes.size(); ++i)
    if (sizes[i] > 1) from.push_back(i);
  const size_t source = from[stream.below(from.size())];
  size_t sink = stream.below(sizes.size() - 1);
  if (sink >= source) ++sink;
  std::vector<int64_t> factors;
  for (int64_t factor = 2; factor <= sizes[source]; ++factor)
    if (sizes[source] % factor == 0) factors.push_back(factor);
  const int64_t factor = factors[stream.below(factors.size())];
  sizes[source] /= factor;
  sizes[sink] *= factor;
  decision = std::move(sizes);
  return changed;
}

template <const char* kKind>
std::optional<DecisionMap> change_kind(const Workbench& bench, const DecisionMap& decisions, RandomStream& stream) {
  return change_one(bench, decisions, stream, kKind);
}
constexpr char kParallel[] = "parallel", kUnroll[] = "unroll", kVector[] = "vector", kThreads[] = "thread_binding",
               kLocation[] = "location";

}  // namespace

constinit const MutatorDef mutate_tile_size{"mutate_tile_size", change_tile};
constinit const MutatorDef mutate_parallel{"mutate_parallel", change_kind<kParallel>};
constinit const MutatorDef mutate_unroll{"mutate_unroll", change_kind<kUnroll>};
constinit const MutatorDef mutate_vectorize{"mutate_vectorize", change_kind<kVector>};
constinit const MutatorDef mutate_thread_binding{"mutate_thread_binding", change_kind<kThreads>};
constinit const MutatorDef mutate_compute_location{"mutate_compute_location", change_kind<kLocation>};

std::optional<DecisionMap> mutated_by(std::span<const WeightedMutator> mutators, const Workbench& bench,
                                      const DecisionMap& decisions, RandomStream& stream) {
  double total = 0;
  for (const WeightedMutator& m : mutators) total += m.weight;
  double at = stream.uniform() * total;
  size_t chosen = 0;
  while (chosen + 1 < mutators.size() && at >= mutators[chosen].weight) at -= mutators[chosen++].weight;
  for (size_t i = 0; i < mutators.size(); ++i)
    if (auto changed = mutators[(chosen + i) % mutators.size()].mutator->apply(bench, decisions, stream))
      return changed;
  return std::nullopt;
}

DecisionMap crossed_by_node(const DecisionMap& mother, const DecisionMap& father, RandomStream& stream) {
  DecisionMap child = mother;
  std::map<std::string_view, bool> from_father;
  for (const auto& [address, decision] : father) {
    const std::string_view node = part_of(address, 1);
    if (node.empty() || part_of(address, 0) == "sketch_space") continue;
    const auto [known, fresh] = from_father.try_emplace(node, false);
    if (fresh) known->second = stream.below(2) == 1;
    if (known->second) child[address] = decision;
  }
  return child;
}

}  // namespace fettle
