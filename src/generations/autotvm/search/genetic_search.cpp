#include <algorithm>
#include <set>

#include "generations/autotvm/search/tuners.h"
#include "tune/search/moves.h"

namespace fettle {
namespace {

class GeneticSearch : public SearchStrategy {
 public:
  GeneticSearch(Workbench& bench, const GeneticOptions& options) : bench_(bench), options_(options) {}
  std::string name() const override { return "genetic"; }

  std::vector<const Candidate*> propose(size_t n) override {
    RandomStream stream{options_.seed, static_cast<uint64_t>(generation_++)};
    std::vector<const Candidate*> batch;
    if (n_observed_ < options_.population) {
      add_random(batch, n, stream);
      return batch;
    }
    // The k best of the batch before, and others at random, are the parents.
    std::vector<const Candidate*> parents;
    for (const Observation& o : last_) {
      if (parents.size() >= options_.elites) break;
      parents.push_back(o.candidate);
    }
    const size_t n_parents = std::max(n, parents.size() + 1);
    for (size_t i = 0; parents.size() < n_parents && i < 4 * n_parents; ++i)
      if (const Candidate* c = bench_.make({}, stream.next())) parents.push_back(c);
    if (parents.empty()) return batch;
    for (size_t attempt = 0; batch.size() < n && attempt < options_.attempts * n; ++attempt) {
      const Candidate* mother = parents[stream.below(parents.size())];
      const Candidate* father = parents[stream.below(parents.size())];
      DecisionMap child = crossed(mother->decisions, father->decisions, stream);
      if (stream.uniform() < options_.mutation) child = mutated(bench_, std::move(child), stream);
      take(bench_.make(child, stream.next()), batch);
    }
    add_random(batch, n, stream);
    return batch;
  }

  void observe(std::span<const Observation> observations) override {
    for (const Observation& o : observations) seen_.insert(o.candidate->number);
    n_observed_ += observations.size();
    last_.assign(observations.begin(), observations.end());
    std::stable_sort(last_.begin(), last_.end(),
                     [](const Observation& a, const Observation& b) { return a.seconds < b.seconds; });
  }

 private:
  // Never the same candidate twice.
  void take(const Candidate* candidate, std::vector<const Candidate*>& batch) {
    if (candidate && seen_.insert(candidate->number).second) batch.push_back(candidate);
  }
  void add_random(std::vector<const Candidate*>& batch, size_t n, RandomStream& stream) {
    for (size_t attempt = 0; batch.size() < n && attempt < options_.attempts * n; ++attempt)
      take(bench_.make({}, stream.next()), batch);
  }

  Workbench& bench_;
  GeneticOptions options_;
  int64_t generation_ = 0;
  size_t n_observed_ = 0;
  std::vector<Observation> last_;  // the batch before, fastest first
  std::set<int64_t> seen_;         // proposed or observed
};

}  // namespace

std::unique_ptr<SearchStrategy> make_genetic_search(Workbench& bench, const GeneticOptions& options) {
  return std::make_unique<GeneticSearch>(bench, options);
}

}  // namespace fettle
