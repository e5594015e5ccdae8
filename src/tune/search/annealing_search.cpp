#include <algorithm>
#include <cmath>
#include <set>

#include "tune/search/moves.h"
#include "tune/search/search_strategy.h"

namespace fettle {
namespace {

class AnnealingSearch : public SearchStrategy {
 public:
  AnnealingSearch(Workbench& bench, const AnnealingOptions& options) : bench_(bench), options_(options) {}
  std::string name() const override { return "annealing"; }

  std::vector<const Candidate*> propose(size_t n) override {
    RandomStream stream{options_.seed, static_cast<uint64_t>(batch_++)};
    std::vector<const Candidate*> batch;
    const auto n_random =
        std::min(n, static_cast<size_t>(std::floor(options_.random_share * static_cast<double>(n) + stream.uniform())));
    take_diverse(annealed(stream), n - n_random, batch);
    for (size_t attempt = 0; batch.size() < n && attempt < options_.attempts * n; ++attempt) {
      const Candidate* candidate = bench_.make({}, stream.next());
      if (candidate && seen_.insert(candidate->number).second) batch.push_back(candidate);
    }
    return batch;
  }

  void observe(std::span<const Observation> observations) override {
    for (const Observation& o : observations) seen_.insert(o.candidate->number);
  }

 private:
  // Walks `chains` points through the space by what is predicted; returns those met and not yet proposed, the best
  // predicted first. The chains go on from batch to batch, since the model changes slowly.
  std::vector<const Candidate*> annealed(RandomStream& stream) {
    while (chains_.size() < options_.chains) {
      const Candidate* start = bench_.make({}, stream.next());
      if (!start && ++failures_ > options_.chains * options_.attempts) break;
      if (start) chains_.push_back(start);
    }
    std::set<int64_t> met;
    std::vector<const Candidate*> found;
    const auto meet = [&](const Candidate* c) {
      if (!seen_.contains(c->number) && met.insert(c->number).second) found.push_back(c);
    };
    std::vector<double> energy = log_seconds(chains_);
    for (const Candidate* c : chains_) meet(c);
    for (int step = 0; step < options_.steps; ++step) {
      const double temperature = options_.temperature * (1 - static_cast<double>(step) / options_.steps);
      std::vector<const Candidate*> next;
      for (const Candidate* c : chains_) {
        const Candidate* moved = bench_.make(mutated(bench_, c->decisions, stream, 0), stream.next());
        next.push_back(moved ? moved : c);
      }
      const std::vector<double> next_energy = log_seconds(next);
      for (size_t i = 0; i < chains_.size(); ++i) {
        const double rise = next_energy[i] - energy[i];
        const double draw = stream.uniform();
        meet(next[i]);
        if (rise > 0 && (temperature <= 0 || draw >= std::exp(-rise / temperature))) continue;
        chains_[i] = next[i];
        energy[i] = next_energy[i];
      }
    }
    return ranked(bench_, found);
  }

  std::vector<double> log_seconds(const std::vector<const Candidate*>& candidates) {
    std::vector<double> result = bench_.predict(candidates);
    for (double& value : result) value = std::log(std::max(value, 1e-12));
    return result;
  }

  // Greedy: each time the candidate that adds most to L(S) = -Σ f(s) + α Σ_j |∪ s_j|, f being the predicted time over
  // the best predicted, j an address, and s_j what s decided there.
  void take_diverse(const std::vector<const Candidate*>& found, size_t n, std::vector<const Candidate*>& batch) {
    std::vector<const Candidate*> plan(
        found.begin(), found.begin() + static_cast<std::ptrdiff_t>(std::min(found.size(), options_.plan * n)));
    const std::vector<double> seconds = bench_.predict(plan);
    std::set<std::pair<std::string_view, Decision>> covered;
    while (batch.size() < n && !plan.empty()) {
      size_t best = plan.size();
      double best_gain = -INFINITY;
      for (size_t i = 0; i < plan.size(); ++i) {
        if (!plan[i]) continue;
        double gain = -seconds[i] / std::max(seconds.front(), 1e-12);
        for (const auto& [address, decision] : plan[i]->decisions)
          if (!covered.contains({address, decision})) gain += options_.diversity;
        if (gain > best_gain) {
          best_gain = gain;
          best = i;
        }
      }
      if (best == plan.size()) break;
      const Candidate* chosen = plan[best];
      plan[best] = nullptr;
      for (const auto& [address, decision] : chosen->decisions) covered.insert({address, decision});
      seen_.insert(chosen->number);
      batch.push_back(chosen);
    }
  }

  Workbench& bench_;
  AnnealingOptions options_;
  int64_t batch_ = 0;
  size_t failures_ = 0;
  std::vector<const Candidate*> chains_;
  std::set<int64_t> seen_;  // proposed or observed
};

}  // namespace

std::unique_ptr<SearchStrategy> make_annealing_search(Workbench& bench, const AnnealingOptions& options) {
  return std::make_unique<AnnealingSearch>(bench, options);
}

}  // namespace fettle
