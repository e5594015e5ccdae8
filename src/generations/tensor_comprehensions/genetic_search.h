#pragma once
// The genetic tuner of Tensor Comprehensions, as a strategy of a search.

#include <cstdint>
#include <memory>

#include "tune/search/search_strategy.h"

namespace fettle {

struct RouletteOptions {
  uint64_t seed = 0;
  size_t elites = 10;      // best observed, which stay in the population
  double crossover = 0.8;  // share of children with three parents
  double mutation = 0.07;  // of each decision of a child
  size_t attempts = 20;    // for each candidate wanted
};
/// With the numbers that Tensor Comprehensions has by default; its generations are the batches of 100. Parents are
/// drawn by 1 / seconds from the generation before and the elites. A child has each decision from one of three parents,
/// or all from one. The first generation is drawn at random, beside what earlier sessions found. Needs no model.
/// (Vasilache et al., Tensor Comprehensions, arXiv:1802.04730, section 5.)
std::unique_ptr<SearchStrategy> make_roulette_search(Workbench& bench, const RouletteOptions& options = {});

}  // namespace fettle
