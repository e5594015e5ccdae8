#pragma once
// Seam: which candidates of a space are measured next.

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

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
/// The default, made for few trials. First: random points, all of them predicted. Most of a batch are the candidates
/// with the best predicted time, corrected by the measured effect of each decision, and chosen to differ from each
/// other. The rest are those that the cost model ranks highest, and a few at random. They are chosen among random
/// points, neighbours of the best measured (one decision changed: coordinate descent) and its evolution. Mutation
/// changes one decision or draws it again. Crossover takes decisions by rule from either parent. Selection is by
/// predicted time.
std::unique_ptr<SearchStrategy> make_evolutionary_search(Workbench& bench, const EvolutionOptions& options = {});

/// One strategy as a user names it.
struct StrategyDef {
  std::string_view name;
  std::string_view meaning;  // one sentence
  std::unique_ptr<SearchStrategy> (*make)(Workbench& bench, uint64_t seed);
};

}  // namespace fettle
