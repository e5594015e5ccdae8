#include "generations/ansor/search/population_search.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>

#include "tune/search/moves.h"

namespace fettle {
namespace {

class PopulationSearch : public SearchStrategy {
 public:
  PopulationSearch(Workbench& bench, const PopulationOptions& options) : bench_(bench), options_(options) {
    bench_.rank_by_model_alone();
  }
  std::string name() const override { return "population"; }

  std::vector<const Candidate*> propose(size_t n) override {
    RandomStream stream{options_.seed, static_cast<uint64_t>(batch_++)};
    const double random_share = bench_.can_rank() ? options_.random_share : options_.random_share_at_first;
    std::vector<const Candidate*> population = first_population(stream);
    const std::vector<const Candidate*> drawn = drawn_;
    for (int g = 0; g < options_.generations && !population.empty(); ++g) population = next(population, stream);
    std::vector<const Candidate*> batch;
    const auto n_random = static_cast<size_t>(std::floor(random_share * static_cast<double>(n) + stream.uniform()));
    const auto take = [&](const Candidate* candidate) {
      if (candidate && known_.insert(candidate->number).second) batch.push_back(candidate);
    };
    for (size_t i = 0; i < 4 * n_random && batch.size() < std::min(n, n_random) && !drawn.empty(); ++i)
      take(drawn[stream.below(drawn.size())]);
    const std::vector<const Candidate*> best = ranked(bench_, pool());
    for (const Candidate* candidate : best) {
      if (batch.size() >= n) break;
      take(candidate);
    }
    for (size_t attempt = 0; batch.size() < n && attempt < 20 * n; ++attempt) take(met(bench_.make({}, stream.next())));
    // Of what was made and not measured, the best are kept for later batches.
    size_t kept = 0;
    for (const Candidate* candidate : best)
      if (!known_.contains(candidate->number) && kept++ >= options_.pool) {
        met_.erase(candidate);
        bench_.forget(candidate);
      }
    drawn_.clear();
    return batch;
  }

  void observe(std::span<const Observation> observations) override {
    note_observations(observations, known_, measured_);
  }

 private:
  struct ByNumber {
    bool operator()(const Candidate* a, const Candidate* b) const { return a->number < b->number; }
  };

  const Candidate* met(const Candidate* candidate) {
    if (candidate) met_.insert(candidate);
    return candidate;
  }
  std::vector<const Candidate*> pool() const {
    std::vector<const Candidate*> result;
    for (const Candidate* candidate : met_)
      if (!known_.contains(candidate->number)) result.push_back(candidate);
    return result;
  }

  // The best measured, and the rest at random.
  std::vector<const Candidate*> first_population(RandomStream& stream) {
    std::vector<const Candidate*> population;
    const auto n_measured = static_cast<size_t>(options_.measured_share * static_cast<double>(options_.population));
    for (size_t i = 0; i < measured_.size() && i < n_measured; ++i) population.push_back(measured_[i].candidate);
    drawn_.clear();
    const size_t n_random = options_.population - population.size();
    std::vector<PointRequest> points(n_random);
    for (PointRequest& point : points) point.key = stream.next();
    for (const Candidate* made : bench_.make_all(points))
      if (const Candidate* candidate = met(made)) drawn_.push_back(candidate);
    population.insert(population.end(), drawn_.begin(), drawn_.end());
    return population;
  }

  // Parents are chosen in proportion to how fast they are predicted to be.
  std::vector<const Candidate*> next(const std::vector<const Candidate*>& population, RandomStream& stream) {
    const std::vector<double> seconds = bench_.predict(population);
    std::vector<double> below(population.size());
    double total = 0;
    for (size_t i = 0; i < below.size(); ++i) below[i] = total += 1 / std::max(seconds[i], 1e-12);
    const auto parent = [&] {
      const auto at = std::upper_bound(below.begin(), below.end(), stream.uniform() * total);
      return population[std::min(static_cast<size_t>(at - below.begin()), population.size() - 1)];
    };
    struct Child {
      const Candidate* mother;
      bool mutates;
      const Candidate* made = nullptr;
    };
    std::vector<Child> children;
    std::vector<PointRequest> points;  // of `open`, in turn
    std::vector<size_t> open;
    const auto ask = [&](size_t child, DecisionMap decisions) {
      points.push_back({std::move(decisions), stream.next()});
      open.push_back(child);
    };
    const auto mutate = [&](size_t child) {
      const DecisionMap& decisions = children[child].mother->decisions;
      const auto changed = options_.mutators.empty() ? std::optional(mutated(bench_, decisions, stream, 0))
                                                     : mutated_by(options_.mutators, bench_, decisions, stream);
      if (changed) ask(child, *changed);
    };
    for (size_t i = 0; i < options_.population; ++i) {
      const Candidate* mother = parent();
      const double draw = stream.uniform();
      children.push_back({mother, draw >= options_.crossover && draw < options_.crossover + options_.mutation});
      if (draw < options_.crossover)
        ask(i, crossed_by_node(mother->decisions, parent()->decisions, stream));
      else if (children[i].mutates)
        mutate(i);
    }
    // Mutations whose program is not legal are drawn again, all at once.
    for (int attempt = 1; !open.empty(); ++attempt) {
      const std::vector<const Candidate*> made = bench_.make_all(points);
      std::vector<size_t> again;
      for (size_t i = 0; i < made.size(); ++i) {
        Child& child = children[open[i]];
        child.made = made[i];
        if (!made[i] && child.mutates && attempt < options_.attempts) again.push_back(open[i]);
      }
      points.clear();
      open.clear();
      for (const size_t child : again) mutate(child);
    }
    std::vector<const Candidate*> result;
    for (const Child& child : children) result.push_back(child.made ? met(child.made) : child.mother);
    return result;
  }

  Workbench& bench_;
  PopulationOptions options_;
  int64_t batch_ = 0;
  std::set<const Candidate*, ByNumber> met_;  // made, and not forgotten
  std::vector<const Candidate*> drawn_;       // at random, for this batch
  std::vector<Observation> measured_;         // fastest first
  std::set<int64_t> known_;                   // proposed or observed
};

}  // namespace

std::unique_ptr<SearchStrategy> make_population_search(Workbench& bench, const PopulationOptions& options) {
  return std::make_unique<PopulationSearch>(bench, options);
}

PopulationOptions ansor_evolution(uint64_t seed) {
  static constexpr WeightedMutator kMutators[] = {{&mutate_tile_size, 0.90},
                                                  {&mutate_unroll, 0.04},
                                                  {&mutate_parallel, 0.02},
                                                  {&mutate_compute_location, 0.02},
                                                  {&mutate_vectorize, 0.02}};
  return {.seed = seed, .population = 512, .crossover = 0.05, .random_share_at_first = 0.5, .mutators = kMutators};
}

}  // namespace fettle
