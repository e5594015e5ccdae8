#pragma once
// Moves from decisions to others near them. Several strategies share them.

#include <set>
#include <span>
#include <vector>

#include "base/random.h"
#include "tune/search/search_strategy.h"
#include "tune/search/workbench.h"

namespace fettle {

/// One decision is replaced by another one known at its address or, with probability `forget`, forgotten, and so drawn
/// again.
DecisionMap mutated(const Workbench& bench, DecisionMap decisions, RandomStream& stream, double forget = 0.2);

/// Each rule's decisions about a block come from one of the two, the rest from the mother.
DecisionMap crossed(const DecisionMap& mother, const DecisionMap& father, RandomStream& stream);

/// All maps that differ from `decisions` at one address, by its next smaller or next larger known choice (the order of
/// Decision). Of choices without order, such as layouts, these are just two others.
std::vector<DecisionMap> next_along_each_axis(const Workbench& bench, const DecisionMap& decisions);

/// The numbers of observed candidates join `known`; of those that ran, the observations join `measured`, fastest first.
void note_observations(std::span<const Observation> observations, std::set<int64_t>& known,
                       std::vector<Observation>& measured);

/// The same candidates, the best by prediction first; equal ones keep their order.
std::vector<const Candidate*> ranked(Workbench& bench, const std::vector<const Candidate*>& candidates);

}  // namespace fettle
