#pragma once
// Evolution as Ansor published it, which MetaSchedule took over.

#include <cstdint>
#include <memory>
#include <span>

#include "generations/ansor/search/mutators.h"
#include "tune/search/search_strategy.h"

namespace fettle {

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
/// Ansor's numbers: 512 programs, crossover 0.05.
PopulationOptions ansor_evolution(uint64_t seed);

}  // namespace fettle
