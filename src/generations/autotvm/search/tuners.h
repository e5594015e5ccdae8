#pragma once
// AutoTVM's tuners, as strategies of a search.

#include <cstdint>
#include <memory>

#include "tune/search/search_strategy.h"

namespace fettle {

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
/// Simulated annealing on the cost model, with the chains, steps and early stop that TVM has. Then the batch S that
/// maximises predicted speed and diversity, -Σ f(s) + α Σ_j |∪ s_j| over the decisions j, greedily (Chen et al., 2018,
/// sections 3.3 and 3.4).
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

}  // namespace fettle
