#pragma once
// Seam: which candidates of a space are measured next.

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tune/search/mutators.h"
#include "tune/search/workbench.h"

namespace fettle {

/// What was measured of a candidate.
struct Observation {
  const Candidate* candidate = nullptr;
  double seconds = 0;  // infinity: it failed
};

/// Decides by logical time alone: the same seed and the same observations give the same proposals.
class SearchStrategy {
 public:
  virtual ~SearchStrategy() = default;
  virtual std::string name() const = 0;
  /// Up to n candidates that were neither proposed nor observed before, most promising first. Fewer: it knows no more.
  virtual std::vector<const Candidate*> propose(size_t n) = 0;
  /// What came of candidates, proposed or not.
  virtual void observe(std::span<const Observation> observations) = 0;
};

struct RandomSearchOptions {
  uint64_t seed = 0;
  int attempts = 20;  // points drawn for each candidate wanted, before the space counts as exhausted
};
/// Points drawn at random, in the order of drawing.
std::unique_ptr<SearchStrategy> make_random_search(Workbench& bench, const RandomSearchOptions& options = {});

/// Every point in turn, by the order of addresses and of the choices that are known there: all of a categorical
/// decision.
std::unique_ptr<SearchStrategy> make_grid_search(Workbench& bench);

struct GeneticOptions {
  uint64_t seed = 0;
  size_t population = 64;  // observed before there is evolution
  size_t elites = 3;       // best of the batch before, among the parents of the next
  double mutation = 0.1;   // of a child
  size_t attempts = 20;    // for each candidate wanted
};
/// AutoTVM's genetic tuner (Chen et al., Learning to Optimize Tensor Programs, 2018, section 6): random points until
/// the population is reached; then children, by crossover and mutation, of the best of the batch before and of random
/// points. Needs no model.
std::unique_ptr<SearchStrategy> make_genetic_search(Workbench& bench, const GeneticOptions& options = {});

struct AnnealingOptions {
  uint64_t seed = 0;
  size_t chains = 128;        // walked side by side; they go on from batch to batch
  int steps = 500;            // of each chain between two batches, at most,
  int early_stop = 50;        // as long as so many do not all fail to better the best of a batch,
  int64_t made = 1024;        // and so many points that were not known are not made
  double temperature = 0.3;   // at the first step, in units of log seconds; falls to 0
  double random_share = 0.1;  // ε: of a batch, at random
  double diversity = 0.05;    // α: what a decision that no other of the batch has counts, in best predicted times
  size_t plan = 8;            // a batch is chosen among so many times its size, the best predicted
  size_t attempts = 20;
};
/// Simulated annealing on the cost model, with the chains, steps and early stop that TVM has, then the batch S that maximises predicted speed and diversity, -Σ f(s) + α
/// Σ_j |∪ s_j| over the decisions j, greedily (Chen et al., 2018, sections 3.3 and 3.4).
std::unique_ptr<SearchStrategy> make_annealing_search(Workbench& bench, const AnnealingOptions& options = {});

struct DescentOptions {
  uint64_t seed = 0;
  double progress = 0.005;  // relative: less is noise
  int starts = 100;         // points tried where nothing that works is known yet
};
/// From the best observed (else a random point): everything one choice away along each decision, then on from the best
/// of it, as far as there is progress (after Canesche et al., The Droplet Search Algorithm for Kernel Scheduling, TACO
/// 2024).
std::unique_ptr<SearchStrategy> make_coordinate_descent(Workbench& bench, const DescentOptions& options = {});

struct EvolutionOptions {
  uint64_t seed = 0;
  int random_points = 256;     // the first generation, all of them predicted
  int walkers = 3;             // of the best predicted of these, so many walk downhill by what is predicted,
  int walk = 3;                // so many steps
  int population = 32;         // children of each later generation, selected by predicted time
  int generations = 2;         // of mutation and crossover between two batches
  int elites = 8;              // best measured, which every population starts from
  double crossover = 0.25;     // share of children with two parents
  double by_effects = 0.875;   // of a batch: by what decisions do beyond the prediction (decision_effects.h);
  int effects_alone = 2;       // so many batches are that and nothing else: a model learned from fewer errs
  double random_share = 0.05;  // of a batch: drawn whatever is predicted
  size_t pool = 512;  // made and not measured: of more than twice as many, the worst by prediction are forgotten
};
/// The default, made for few trials. First: random points, all of them predicted. Most of each batch is what may be
/// the fastest by the prediction and by what decisions did to the candidates measured so far, and diverse; the rest is
/// what the cost model likes best, and a few at random. What they are chosen from grows by neighbours of the best
/// measured (one decision changed: coordinate descent), by random points and by evolution of the best measured
/// (mutation: one decision is changed or drawn again; crossover: decisions by rule of either parent; selection by
/// predicted time).
std::unique_ptr<SearchStrategy> make_evolutionary_search(Workbench& bench, const EvolutionOptions& options = {});

struct PopulationOptions {
  uint64_t seed = 0;
  size_t population = 2048;
  int generations = 4;          // of mutation and crossover for each batch
  double measured_share = 0.2;  // of the first generation, at most: the best measured; the rest is drawn at random
  double mutation = 0.85;       // share of children that are their parent with one change
  double crossover = 0.05;      // that have two parents; the rest is as its parent
  double random_share = 0.05;   // ε: of a batch, drawn whatever is predicted
  double random_share_at_first = 0.05;  // the same until the model has learned enough to rank (CostModel::can_rank)
  int attempts = 10;                    // at a mutation whose program is not legal
  size_t pool = 2048;  // made and not measured: of more, the worst by prediction are forgotten after a batch
  std::span<const WeightedMutator> mutators = {};  // empty: any decision
};
/// Evolutionary search as Ansor (OSDI 2020, section 5.1) and MetaSchedule have it: for each batch a population of the
/// best measured and of random programs; parents in proportion to predicted speed; the best predicted of all
/// generations are measured.
std::unique_ptr<SearchStrategy> make_population_search(Workbench& bench, const PopulationOptions& options = {});
/// Their defaults.
PopulationOptions ansor_evolution(uint64_t seed);         // 512 programs, crossover 0.05
PopulationOptions metaschedule_evolution(uint64_t seed);  // 512 programs, mutation alone

/// One strategy as a user names it.
struct StrategyDef {
  std::string_view name;
  std::string_view meaning;  // one line
  std::unique_ptr<SearchStrategy> (*make)(Workbench& bench, uint64_t seed);
};
/// "evolutionary" (the default), "ansor", "metaschedule", "annealing", "genetic", "descent", "grid",
/// "random".
std::span<const StrategyDef> strategies();
/// The strategy named `name`, or null.
const StrategyDef* find_strategy(std::string_view name);

}  // namespace fettle
