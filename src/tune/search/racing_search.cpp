#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "tune/search/moves.h"
#include "tune/search/search_strategy.h"

namespace fettle {
namespace {

// What measured candidates missed of their prediction, by decision: few measurements already say that a layout, or a
// tile, is better than the model believes.
class DecisionEffects {
 public:
  /// `missed`: log(measured / predicted).
  void learn(const DecisionMap& decisions, double missed) {
    sum_ += missed;
    ++count_;
    for (const auto& [address, decision] : decisions) {
      Effect& effect = effects_[address][decision];
      effect.sum += missed;
      ++effect.count;
    }
  }
  void clear() { *this = {}; }
  /// Of a candidate with these decisions: a mean over them, each drawn towards the mean of all by how little is known
  /// of it.
  double expected(const DecisionMap& decisions) const {
    if (count_ == 0 || decisions.empty()) return 0;
    constexpr double kPrior = 2;
    const double mean = sum_ / count_;
    double total = 0;
    for (const auto& [address, decision] : decisions) {
      const auto known = effects_.find(address);
      if (known == effects_.end()) continue;
      const auto effect = known->second.find(decision);
      if (effect == known->second.end()) continue;
      total += (effect->second.sum - effect->second.count * mean) / (effect->second.count + kPrior);
    }
    return mean + total / std::sqrt(static_cast<double>(decisions.size()));
  }

 private:
  struct Effect {
    double sum = 0, count = 0;
  };
  std::map<std::string, std::map<Decision, Effect>> effects_;
  double sum_ = 0, count_ = 0;
};

class RacingSearch : public SearchStrategy {
 public:
  RacingSearch(Workbench& bench, const RacingOptions& options) : bench_(bench), options_(options) {}
  std::string name() const override { return "racing"; }

  std::vector<const Candidate*> propose(size_t n) override {
    RandomStream stream{options_.seed, static_cast<uint64_t>(batch_++)};
    learn_effects();
    draw(stream, batch_ == 1 ? options_.points : options_.refill);
    walk_downhill(stream);
    std::vector<const Candidate*> batch;
    if (!measured_.empty()) {
      look_around(stream);
      const auto n_around = static_cast<size_t>(std::ceil(options_.descent * static_cast<double>(n)));
      take_best(around_, n_around, batch);
    }
    const auto n_random =
        static_cast<size_t>(std::floor(options_.random_share * static_cast<double>(n) + stream.uniform()));
    take_best(pool_, n - std::min(n, n_random), batch);
    for (size_t attempt = 0; batch.size() < n && attempt < 20 * n; ++attempt)
      take(bench_.make({}, stream.next()), batch);
    shrink();
    return batch;
  }

  void observe(std::span<const Observation> observations) override {
    note_observations(observations, known_, measured_);
  }

 private:
  // The model changes from batch to batch, and with it what it misses.
  void learn_effects() {
    effects_.clear();
    std::vector<const Candidate*> candidates;
    for (const Observation& o : measured_) candidates.push_back(o.candidate);
    const std::vector<double> predicted = bench_.predict(candidates);
    for (size_t i = 0; i < candidates.size(); ++i)
      if (predicted[i] > 0) effects_.learn(candidates[i]->decisions, std::log(measured_[i].seconds / predicted[i]));
  }

  std::vector<double> log_seconds(const std::vector<const Candidate*>& candidates) {
    std::vector<double> result = bench_.predict(candidates);
    for (size_t i = 0; i < result.size(); ++i)
      result[i] = std::log(std::max(result[i], 1e-12)) + effects_.expected(candidates[i]->decisions);
    return result;
  }

  // True where it is new.
  bool pooled(const Candidate* candidate) {
    if (!candidate || known_.contains(candidate->number) || !met_.insert(candidate->number).second) return false;
    pool_.push_back(candidate);
    return true;
  }

  void draw(RandomStream& stream, int n) {
    for (int i = 0; i < n; ++i) (void)pooled(bench_.make({}, stream.next()));
  }

  // From each of the best predicted, the best predicted program that differs in one decision, for some steps.
  void walk_downhill(RandomStream& stream) {
    constexpr size_t kWalkers = 3, kTried = 8;
    const std::vector<double> seconds = log_seconds(pool_);
    std::vector<std::pair<double, const Candidate*>> walkers;
    for (size_t i = 0; i < pool_.size(); ++i) walkers.emplace_back(seconds[i], pool_[i]);
    std::stable_sort(walkers.begin(), walkers.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
    walkers.resize(std::min(walkers.size(), kWalkers));
    if (batch_ > 1) walkers.resize(std::min<size_t>(walkers.size(), 1));
    for (auto& [best_s, walker] : walkers)
      for (int step = 0; step < options_.walk; ++step) {
        std::vector<const Candidate*> near;
        for (size_t i = 0; i < kTried; ++i) {
          const Candidate* c = bench_.make(mutated(bench_, walker->decisions, stream, 0), stream.next());
          if (pooled(c)) near.push_back(c);
        }
        if (near.empty()) break;
        const std::vector<double> near_s = log_seconds(near);
        const auto best = static_cast<size_t>(std::ranges::min_element(near_s) - near_s.begin());
        if (near_s[best] >= best_s) break;
        best_s = near_s[best];
        walker = near[best];
      }
  }

  // All programs that differ from the best measured in one decision.
  void look_around(RandomStream& stream) {
    std::erase_if(around_, [&](const Candidate* c) { return known_.contains(c->number); });
    if (center_ == measured_.front().candidate) return;
    center_ = measured_.front().candidate;
    around_.clear();
    for (const auto& [address, current] : center_->decisions) {
      const std::set<Decision> choices = bench_.decisions_at(address);  // grows below
      for (const Decision& choice : choices) {
        if (choice == current) continue;
        DecisionMap decisions = center_->decisions;
        decisions[address] = choice;
        const Candidate* candidate = bench_.make(decisions, stream.next());
        if (!candidate || known_.contains(candidate->number)) continue;
        (void)pooled(candidate);
        if (std::ranges::find(around_, candidate) == around_.end()) around_.push_back(candidate);
      }
    }
  }

  void take(const Candidate* candidate, std::vector<const Candidate*>& batch) {
    if (candidate && known_.insert(candidate->number).second) batch.push_back(candidate);
  }

  // Fills `batch` up to `size`; each time the best predicted, what it repeats of the batch counting against it.
  void take_best(const std::vector<const Candidate*>& from, size_t size, std::vector<const Candidate*>& batch) {
    const std::vector<double> seconds = log_seconds(from);
    std::vector<size_t> order(from.size());
    for (size_t i = 0; i < order.size(); ++i) order[i] = i;
    std::ranges::stable_sort(order, {}, [&](size_t i) { return seconds[i]; });
    order.resize(
        std::min(order.size(), 8 * size));  // what is far from the best does not become good by being different
    while (batch.size() < size) {
      const Candidate* best = nullptr;
      double best_s = INFINITY;
      for (const size_t i : order) {
        if (known_.contains(from[i]->number)) continue;
        double repeated = 0;
        for (const Candidate* other : batch) repeated = std::max(repeated, common_share(*from[i], *other));
        const double s = seconds[i] + options_.diversity * repeated * static_cast<double>(from[i]->decisions.size());
        if (s >= best_s) continue;
        best_s = s;
        best = from[i];
      }
      if (!best) return;
      take(best, batch);
    }
  }

  static double common_share(const Candidate& a, const Candidate& b) {
    size_t common = 0;
    for (const auto& [address, decision] : a.decisions) {
      const auto other = b.decisions.find(address);
      common += other != b.decisions.end() && other->second == decision ? 1 : 0;
    }
    return a.decisions.empty() ? 0 : static_cast<double>(common) / static_cast<double>(a.decisions.size());
  }

  void shrink() {
    std::erase_if(pool_, [&](const Candidate* c) { return known_.contains(c->number); });
    constexpr size_t kPool = 512;
    if (pool_.size() <= 2 * kPool) return;
    std::vector<const Candidate*> kept;
    for (const Candidate* candidate : ranked(bench_, pool_)) {
      if (kept.size() < kPool || std::ranges::find(around_, candidate) != around_.end()) {
        kept.push_back(candidate);
      } else {
        met_.erase(candidate->number);
        bench_.forget(candidate);
      }
    }
    pool_ = std::move(kept);
  }

  Workbench& bench_;
  RacingOptions options_;
  int64_t batch_ = 0;
  std::vector<const Candidate*> pool_;    // made, neither proposed nor observed
  std::vector<const Candidate*> around_;  // one decision away from center_
  std::vector<Observation> measured_;     // fastest first
  std::set<int64_t> met_;                 // that have been in the pool
  std::set<int64_t> known_;               // proposed or observed
  const Candidate* center_ = nullptr;
  DecisionEffects effects_;
};

}  // namespace

std::unique_ptr<SearchStrategy> make_racing_search(Workbench& bench, const RacingOptions& options) {
  return std::make_unique<RacingSearch>(bench, options);
}

}  // namespace fettle
