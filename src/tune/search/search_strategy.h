#pragma once
// Seam: which candidates of a space are measured next.

#include <memory>
#include <span>
#include <string>
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
  int random_points = 256;    // the first generation, all of them predicted
  int population = 32;        // children of each later one, selected by predicted time
  int generations = 2;        // of mutation and crossover between two batches
  int elites = 8;             // best measured, which every population starts from
  double crossover = 0.25;    // share of children with two parents
  double random_share = 0.1;  // of a batch: drawn whatever is predicted
  size_t pool = 512;          // made and not measured: of more than twice as many, the worst by prediction are forgotten
};
/// First: random points, of which the best by prediction are proposed. Then each batch is one part neighbours of the
/// best (one decision changed: coordinate descent), one part evolution of the best measured (mutation: one decision is
/// changed or drawn again; crossover: decisions by rule of either parent; selection by predicted time), and a few at
/// random.
std::unique_ptr<SearchStrategy> make_evolutionary_search(Workbench& bench, const EvolutionOptions& options = {});

}  // namespace fettle
