#include "generations/tensor_comprehensions/genetic_search.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <set>

#include "tune/search/moves.h"

namespace fettle {
namespace {

class RouletteSearch : public SearchStrategy {
 public:
  RouletteSearch(Workbench& bench, const RouletteOptions& options) : bench_(bench), options_(options) {}
  std::string name() const override { return "roulette"; }

  std::vector<const Candidate*> propose(size_t n) override {
    RandomStream stream{options_.seed, static_cast<uint64_t>(generation_++)};
    std::vector<const Candidate*> batch;
    if (!population_.empty()) fill(batch, n, stream, [&] { return child(stream); });
    fill(batch, n, stream, [] { return DecisionMap(); });
    return batch;
  }

  void observe(std::span<const Observation> observations) override {
    if (population_.size() > options_.elites) population_.resize(options_.elites);
    note_observations(observations, seen_, population_);
  }

 private:
  // As many rounds as there are attempts, each of as many points as are still wanted.
  template <class Draw>
  void fill(std::vector<const Candidate*>& batch, size_t n, RandomStream& stream, Draw draw) {
    for (size_t round = 0; batch.size() < n && round < options_.attempts; ++round) {
      std::vector<PointRequest> requests;
      for (size_t i = batch.size(); i < n; ++i) {
        DecisionMap decisions = draw();
        requests.push_back({std::move(decisions), stream.next()});
      }
      for (const Candidate* made : bench_.make_all(requests))
        if (made && seen_.insert(made->number).second) batch.push_back(made);
    }
  }

  const DecisionMap& parent(RandomStream& stream) const {
    double whole = 0;
    for (const Observation& o : population_) whole += 1 / o.seconds;
    double at = stream.uniform() * whole;
    for (const Observation& o : population_)
      if ((at -= 1 / o.seconds) <= 0) return o.candidate->decisions;
    return population_.back().candidate->decisions;
  }

  DecisionMap child(RandomStream& stream) const {
    DecisionMap made = parent(stream);
    if (stream.uniform() < options_.crossover) {
      const std::array<const DecisionMap*, 2> others = {&parent(stream), &parent(stream)};
      for (auto& [address, decision] : made) {
        const size_t from = stream.below(3);
        if (from == 2) continue;
        if (const auto other = others[from]->find(address); other != others[from]->end()) decision = other->second;
      }
    }
    for (auto& [address, decision] : made) {
      if (stream.uniform() >= options_.mutation) continue;
      const std::set<Decision>& choices = bench_.decisions_at(address);
      if (!choices.empty())
        decision = *std::next(choices.begin(), static_cast<std::ptrdiff_t>(stream.below(choices.size())));
    }
    return made;
  }

  Workbench& bench_;
  const RouletteOptions options_;
  int64_t generation_ = 0;
  std::vector<Observation> population_;  // that ran, fastest first
  std::set<int64_t> seen_;               // proposed or observed
};

}  // namespace

std::unique_ptr<SearchStrategy> make_roulette_search(Workbench& bench, const RouletteOptions& options) {
  return std::make_unique<RouletteSearch>(bench, options);
}

}  // namespace fettle
