#include <algorithm>
#include <cmath>
#include <set>

#include "tune/search/decision_effects.h"
#include "tune/search/moves.h"
#include "tune/search/search_strategy.h"

namespace fettle {
namespace {

class EvolutionarySearch : public SearchStrategy {
 public:
  EvolutionarySearch(Workbench& bench, const EvolutionOptions& options) : bench_(bench), options_(options) {}
  std::string name() const override { return "evolutionary"; }

  std::vector<const Candidate*> propose(size_t n) override {
    RandomStream stream{options_.seed, static_cast<uint64_t>(generation_)};
    if (generation_++ == 0) {
      draw_points(stream, options_.random_points);
      walk_downhill(stream);
    } else {
      make_neighbours(stream);
      evolve(stream);
      draw_points(stream, static_cast<int>(n));
    }
    const bool alone = generation_ <= options_.effects_alone;
    const size_t by_effects =
        alone ? n : static_cast<size_t>(std::lround(options_.by_effects * static_cast<double>(n)));
    std::vector<const Candidate*> batch;
    for (const Candidate* candidate : effects_.choose(measured_, pool_, by_effects)) take(candidate, batch);
    if (!alone) {
      const auto n_random =
          static_cast<size_t>(std::floor(options_.random_share * static_cast<double>(n) + stream.uniform()));
      for (size_t i = 0; i < n_random && batch.size() < n && !drawn_now_.empty(); ++i) {
        const Candidate* chosen = drawn_now_[stream.below(drawn_now_.size())];
        std::erase(drawn_now_, chosen);
        take(chosen, batch);
      }
    }
    forget_known();
    take_best(ranked(bench_, pool_), batch, n);
    drawn_now_.clear();
    if (pool_.size() > 2 * options_.pool) shrink_pool();
    return batch;
  }

  void observe(std::span<const Observation> observations) override {
    note_observations(observations, known_, measured_);
    forget_known();
  }

 private:
  // A candidate enters the pool once.
  const Candidate* pooled(const Candidate* candidate) {
    if (!candidate || !met_.insert(candidate->number).second || known_.contains(candidate->number)) return nullptr;
    pool_.push_back(candidate);
    return candidate;
  }

  void draw_points(RandomStream& stream, int n) {
    drawn_now_.clear();
    std::vector<PointRequest> points(static_cast<size_t>(n));
    for (PointRequest& point : points) point.key = stream.next();
    for (const Candidate* made : bench_.make_all(points))
      if (const Candidate* candidate = pooled(made)) drawn_now_.push_back(candidate);
  }

  // From each of the best predicted, the best predicted program that differs in one decision, for some steps.
  void walk_downhill(RandomStream& stream) {
    constexpr size_t kTried = 8;
    std::vector<const Candidate*> walkers = ranked(bench_, pool_);
    walkers.resize(std::min(walkers.size(), static_cast<size_t>(options_.walkers)));
    for (const Candidate* walker : walkers)
      for (int step = 0; step < options_.walk; ++step) {
        std::vector<const Candidate*> near = {walker};
        for (size_t i = 0; i < kTried; ++i)
          if (const Candidate* c = pooled(bench_.make(mutated(bench_, walker->decisions, stream, 0), stream.next())))
            near.push_back(c);
        const Candidate* best = ranked(bench_, near).front();
        if (best == walker) break;
        walker = best;
      }
  }

  // All programs that differ from the best in one decision; made once for each best.
  void make_neighbours(RandomStream& stream) {
    if (measured_.empty() || best_ == measured_.front().candidate) return;
    best_ = measured_.front().candidate;
    neighbours_.clear();
    std::vector<PointRequest> points;
    for (const auto& [address, current] : best_->decisions)
      for (const Decision& choice : bench_.decisions_at(address)) {
        if (choice == current) continue;
        points.push_back({best_->decisions, stream.next()});
        points.back().decisions[address] = choice;
      }
    for (const Candidate* candidate : bench_.make_all(points)) {
      if (!candidate || known_.contains(candidate->number)) continue;
      (void)pooled(candidate);
      if (std::find(neighbours_.begin(), neighbours_.end(), candidate) == neighbours_.end())
        neighbours_.push_back(candidate);
    }
  }

  void evolve(RandomStream& stream) {
    // Parents: the best measured, then the best predicted.
    std::vector<const Candidate*> parents;
    for (const Observation& o : measured_) {
      if (static_cast<int>(parents.size()) >= options_.elites) break;
      parents.push_back(o.candidate);
    }
    const size_t n_elites = parents.size();
    for (const Candidate* candidate : ranked(bench_, pool_)) {
      if (parents.size() >= 2 * std::max<size_t>(n_elites, 1)) break;
      parents.push_back(candidate);
    }
    if (parents.empty()) return;
    for (int g = 0; g < options_.generations; ++g) {
      std::vector<PointRequest> points;
      for (int i = 0; i < options_.population; ++i) {
        const Candidate* mother = parents[stream.below(parents.size())];
        const Candidate* father = parents[stream.below(parents.size())];
        DecisionMap child = mother != father && stream.uniform() < options_.crossover
                                ? crossed(mother->decisions, father->decisions, stream)
                                : mutated(bench_, mother->decisions, stream);
        points.push_back({std::move(child), stream.next()});
      }
      std::vector<const Candidate*> children;
      for (const Candidate* made : bench_.make_all(points))
        if (const Candidate* candidate = pooled(made)) children.push_back(candidate);
      if (children.empty()) return;
      // The next generation: the elites, and the best predicted of parents and children.
      std::vector<const Candidate*> others(parents.begin() + static_cast<std::ptrdiff_t>(n_elites), parents.end());
      others.insert(others.end(), children.begin(), children.end());
      others = ranked(bench_, others);
      others.resize(std::min(others.size(), std::max<size_t>(n_elites, 4)));
      parents.resize(n_elites);
      parents.insert(parents.end(), others.begin(), others.end());
    }
  }

  void shrink_pool() {
    std::vector<const Candidate*> kept;
    for (const Candidate* candidate : ranked(bench_, pool_)) {
      const bool near = std::find(neighbours_.begin(), neighbours_.end(), candidate) != neighbours_.end();
      if (near || kept.size() < options_.pool) {
        kept.push_back(candidate);
      } else {
        met_.erase(candidate->number);
        effects_.forget(candidate);
        bench_.forget(candidate);
      }
    }
    pool_ = std::move(kept);
  }

  void take(const Candidate* candidate, std::vector<const Candidate*>& batch) {
    if (known_.insert(candidate->number).second) batch.push_back(candidate);
  }

  // Fills `batch` up to `size`.
  void take_best(const std::vector<const Candidate*>& best_first, std::vector<const Candidate*>& batch, size_t size) {
    for (const Candidate* candidate : best_first) {
      if (batch.size() >= size) break;
      take(candidate, batch);
    }
    forget_known();
  }

  void forget_known() {
    const auto known = [&](const Candidate* c) { return known_.contains(c->number); };
    std::erase_if(pool_, known);
    std::erase_if(neighbours_, known);
  }

  Workbench& bench_;
  EvolutionOptions options_;
  DecisionEffects effects_;
  int64_t generation_ = 0;
  std::vector<const Candidate*> pool_;        // made, neither proposed nor observed
  std::vector<const Candidate*> neighbours_;  // of best_, as far as they are in the pool
  std::vector<const Candidate*> drawn_now_;   // at random, in this generation
  std::vector<Observation> measured_;         // fastest first
  std::set<int64_t> met_;                     // that have been in the pool
  std::set<int64_t> known_;                   // proposed or observed
  const Candidate* best_ = nullptr;           // whose neighbours were made
};

}  // namespace

std::unique_ptr<SearchStrategy> make_evolutionary_search(Workbench& bench, const EvolutionOptions& options) {
  return std::make_unique<EvolutionarySearch>(bench, options);
}

}  // namespace fettle
