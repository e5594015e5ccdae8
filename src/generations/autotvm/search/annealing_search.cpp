#include <algorithm>
#include <cmath>
#include <map>
#include <queue>
#include <unordered_map>
#include <unordered_set>

#include "generations/autotvm/search/tuners.h"
#include "tune/search/moves.h"

namespace fettle {
namespace {

class AnnealingSearch : public SearchStrategy {
 public:
  AnnealingSearch(Workbench& bench, const AnnealingOptions& options) : bench_(bench), options_(options) {
    bench.rank_by_model_alone();
  }
  std::string name() const override { return "annealing"; }

  std::vector<const Candidate*> propose(size_t n) override {
    RandomStream stream{options_.seed, static_cast<uint64_t>(batch_++)};
    std::vector<const Candidate*> batch;
    const auto n_random =
        std::min(n, static_cast<size_t>(std::floor(options_.random_share * static_cast<double>(n) + stream.uniform())));
    take_diverse(annealed(stream, n), n - n_random, batch);
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
  // The n best energies met, the worst of them first.
  class Best {
   public:
    explicit Best(size_t n) : n_(n) {}
    /// Whether it is one of them.
    bool add(double energy) {
      if (n_ == 0 || (worst_first_.size() == n_ && energy >= worst_first_.top())) return false;
      worst_first_.push(energy);
      if (worst_first_.size() > n_) worst_first_.pop();
      return true;
    }

   private:
    size_t n_;
    std::priority_queue<double> worst_first_;
  };

  // Walks `chains` points through the space by what is predicted, until no step of many finds any better than the n
  // best; returns those met and not yet proposed, the best predicted first. The chains go on from batch to batch, since
  // the model changes slowly.
  std::vector<const Candidate*> annealed(RandomStream& stream, size_t n) {
    start_chains(stream);
    energies_.clear();
    met_.clear();
    std::vector<const Candidate*> found;
    Best best(n);
    bool better = false;
    const auto meet = [&](const Candidate* c, double energy) {
      if (seen_.contains(c->number) || !met_.insert(c->number).second) return;
      found.push_back(c);
      better = best.add(energy) || better;
    };
    std::vector<double> energy = log_seconds(chains_);
    for (size_t i = 0; i < chains_.size(); ++i) meet(chains_[i], energy[i]);
    const int64_t before = bench_.made();
    int last_better = 0;
    for (int step = 0; step < options_.steps; ++step) {
      if (step - last_better >= options_.early_stop || bench_.made() - before >= options_.made) break;
      const double temperature = options_.temperature * (1 - static_cast<double>(step) / options_.steps);
      std::vector<PointRequest> asked;
      asked.reserve(chains_.size());
      for (const Candidate* c : chains_) {
        asked.push_back({mutated(bench_, c->decisions, stream, 0), 0});
        asked.back().key = stream.next();
      }
      std::vector<const Candidate*> next = bench_.make_all(asked);
      for (size_t i = 0; i < next.size(); ++i)
        if (!next[i]) next[i] = chains_[i];
      const std::vector<double> next_energy = log_seconds(next);
      better = false;
      for (size_t i = 0; i < chains_.size(); ++i) {
        const double rise = next_energy[i] - energy[i];
        const double draw = stream.uniform();
        meet(next[i], next_energy[i]);
        if (rise > 0 && (temperature <= 0 || draw >= std::exp(-rise / temperature))) continue;
        chains_[i] = next[i];
        energy[i] = next_energy[i];
      }
      if (better) last_better = step;
    }
    return ranked(bench_, found);
  }

  void start_chains(RandomStream& stream) {
    while (chains_.size() < options_.chains) {
      std::vector<PointRequest> asked(options_.chains - chains_.size());
      for (PointRequest& request : asked) request.key = stream.next();
      for (const Candidate* start : bench_.make_all(asked)) {
        if (start) chains_.push_back(start);
        failures_ += start ? 0 : 1;
      }
      if (failures_ > options_.chains * options_.attempts) break;
    }
  }

  // Each is predicted once, as long as the model is the same.
  std::vector<double> log_seconds(const std::vector<const Candidate*>& candidates) {
    std::vector<const Candidate*> unknown;
    for (const Candidate* c : candidates)
      if (energies_.try_emplace(c->number, 0.0).second) unknown.push_back(c);
    const std::vector<double> seconds = bench_.predict(unknown);
    for (size_t i = 0; i < unknown.size(); ++i) energies_[unknown[i]->number] = std::log(std::max(seconds[i], 1e-12));
    std::vector<double> result;
    result.reserve(candidates.size());
    for (const Candidate* c : candidates) result.push_back(energies_.at(c->number));
    return result;
  }

  // Greedy: each time the candidate that adds most to L(S) = -Σ f(s) + α Σ_j |∪ s_j|, f being the predicted time over
  // the best predicted, j an address, and s_j what s decided there.
  void take_diverse(const std::vector<const Candidate*>& found, size_t n, std::vector<const Candidate*>& batch) {
    std::vector<const Candidate*> plan(
        found.begin(), found.begin() + static_cast<std::ptrdiff_t>(std::min(found.size(), options_.plan * n)));
    const std::vector<double> seconds = bench_.predict(plan);
    // What each decides, as numbers.
    std::map<std::pair<std::string_view, const Decision&>, size_t> numbers;
    std::vector<std::vector<size_t>> decided;
    for (const Candidate* c : plan) {
      std::vector<size_t>& own = decided.emplace_back();
      for (const auto& [address, decision] : c->decisions)
        own.push_back(numbers.try_emplace({address, decision}, numbers.size()).first->second);
    }
    std::vector<bool> covered(numbers.size(), false);
    while (batch.size() < n) {
      size_t best = plan.size();
      double best_gain = -INFINITY;
      for (size_t i = 0; i < plan.size(); ++i) {
        if (!plan[i]) continue;
        double gain = -seconds[i] / std::max(seconds.front(), 1e-12);
        for (const size_t number : decided[i])
          if (!covered[number]) gain += options_.diversity;
        if (gain > best_gain) {
          best_gain = gain;
          best = i;
        }
      }
      if (best == plan.size()) break;
      for (const size_t number : decided[best]) covered[number] = true;
      seen_.insert(plan[best]->number);
      batch.push_back(plan[best]);
      plan[best] = nullptr;
    }
  }

  Workbench& bench_;
  AnnealingOptions options_;
  int64_t batch_ = 0;
  size_t failures_ = 0;
  std::vector<const Candidate*> chains_;
  std::unordered_set<int64_t> seen_;  // proposed or observed
  // Of the walk at hand: by candidate; and those met that were not seen before.
  std::unordered_map<int64_t, double> energies_;
  std::unordered_set<int64_t> met_;
};

}  // namespace

std::unique_ptr<SearchStrategy> make_annealing_search(Workbench& bench, const AnnealingOptions& options) {
  return std::make_unique<AnnealingSearch>(bench, options);
}

}  // namespace fettle
