#pragma once
// Mutations of a point. The address of a decision ("RULE/BLOCK/…" or "KIND/BLOCK") tells what the decision is about.
// Ansor (OSDI 2020, section 5.1) and MetaSchedule share them.

#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "base/random.h"
#include "tune/search/workbench.h"

namespace fettle {

struct MutatorDef {
  std::string_view name;
  /// The decisions after one change; nothing where there is none to make.
  std::optional<DecisionMap> (*apply)(const Workbench& bench, const DecisionMap& decisions, RandomStream& stream);
};

/// A factor moves from one level of a tiling to another: [8, 4, 16] → [4, 8, 16]. Their product stays.
extern const MutatorDef mutate_tile_size;
/// Another choice of "parallel", "unroll", "vector" or "thread_binding" of one block.
extern const MutatorDef mutate_parallel, mutate_unroll, mutate_vectorize, mutate_thread_binding;
/// Another place of one block ("location").
extern const MutatorDef mutate_compute_location;

/// A mutator and how often it is chosen, in proportion to the others' weights.
struct WeightedMutator {
  const MutatorDef* mutator = nullptr;
  double weight = 1;
};
/// One of them by weight; where it has nothing to change, the next. Nothing where none has.
std::optional<DecisionMap> mutated_by(std::span<const WeightedMutator> mutators, const Workbench& bench,
                                      const DecisionMap& decisions, RandomStream& stream);

/// Node-based crossover: all decisions about a block come from one of the two; what is about no block is the mother's.
DecisionMap crossed_by_node(const DecisionMap& mother, const DecisionMap& father, RandomStream& stream);

}  // namespace fettle
