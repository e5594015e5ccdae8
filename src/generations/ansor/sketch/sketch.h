#pragma once
// Sketches: the high-level structures that a program may get, derived rule by rule over its graph of blocks from the
// output backwards. (Zheng et al.: Ansor, OSDI 2020, section 4.1.)
//
//   auto derived = derive_sketches(func, {.cores = 16});
//   Schedule s = *instantiate(derived->sketches[0], seed);        // tile sizes drawn
//   puts(to_text(derived->sketches[0]).c_str());                  // for i_0 in TILE_I0: …

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "generations/ansor/sketch/multi_level_tiling.h"
#include "schedule/schedule.h"

namespace fettle {

struct DerivationRule;

struct DeriveOptions {
  /// The rules that may be applied, in this order; empty: all of derivation_rules(). A user's own join here.
  std::vector<const DerivationRule*> rules = {};
  /// Cores that want work (has_more_reduction_parallel).
  int cores = 1;
  /// What the sketches are for, where steps ask (memory scopes); null: a CPU.
  std::shared_ptr<const Target> target = nullptr;
  /// How blocks with reuse are tiled. "SSRSRS" has the consumer joined behind its first and its second S.
  MultiLevelTiling tiling = {};
  /// States looked at, at most: E236 where there are more.
  size_t max_states = 10'000;
};

/// A state (S, i) of the derivation: a partly derived program and the node that is worked on.
struct SketchState {
  Schedule schedule;
  /// The nodes: inputs by the parameter's name, computed ones by the block's, producers first.
  std::vector<std::string> nodes;
  /// The working node i is nodes[i - 1]; 0: the state is terminal, its program is a sketch.
  size_t working = 0;
  /// Which computation it is: 0 as written; a rule that turns to another algorithm gives it a number of its own.
  size_t computation = 0;
  /// The names of the rules that led here.
  std::vector<std::string> derivation;
  const DeriveOptions* options = nullptr;

  /// The working node's block; null where it is an input.
  const BlockNode* block() const;
  /// It, for steps.
  Result<BlockRef> working_block();
  /// Whether the last rule gave the working node a cache stage: then it is tiled with that, or not at all.
  bool has_cache_stage() const;
};

/// One rule: where it may be applied, and the next states, in which i is smaller or the working node's part is done.
struct DerivationRule {
  std::string_view name;
  int number;  // in the order of Ansor's table 1; rules are tried in this order
  bool (*applies)(const SketchState& state);
  /// Next states with their schedule, nodes and working node; the derivation is written by the caller.
  Result<std::vector<SketchState>> (*apply)(const SketchState& state);
};

/// Every built-in rule, from the sources in generations/ansor/sketch/rules/.
std::span<const DerivationRule* const> derivation_rules();

/// A sketch: the steps that lead to it, sizes still open, and how it was derived.
struct Sketch {
  Func workload;
  ParsedTrace steps;
  std::vector<std::string> derivation;
  std::shared_ptr<const Target> target = nullptr;  // DeriveOptions::target
  size_t computation = 0;                          // SketchState::computation
};

struct Derivation {
  std::vector<Sketch> sketches;
  /// Rules whose condition held but whose steps were refused: "add_rfactor at E", and why.
  struct Refusal {
    std::string rule, node;
    Diagnostic why;
  };
  std::vector<Refusal> refused;
};

/// All sketches of a program whose blocks stand under the root, in the order in which they are found (breadth first).
/// Every rule whose condition holds is applied to every state. Errors: E236 too many states
Result<Derivation> derive_sketches(const Func& workload, const DeriveOptions& options = {});
/// The nodes of a program: producers first, in the order of a walk from the outputs along what each block reads.
std::vector<std::string> nodes_of(const Func& func);
/// The initial state (naive program, number of the last node). `options` must outlive it.
SketchState initial_state(const Func& workload, const DeriveOptions& options);

/// A point of the sketch: sizes from `decisions`, by address, while valid; others drawn, keyed by `seed`. Errors: those
/// of the steps, where a size does not suit them (E212: a part of one iteration is no reduction to factor)
Result<Schedule> instantiate(const Sketch& sketch, uint64_t seed,
                             std::shared_ptr<const DecisionMap> decisions = nullptr);

/// The sketch as loops, the way the paper prints it: extents that follow from open sizes by their names (TILE_I0 is the
/// first part of the loop i), index lists left out.
///   for ax0 in TILE_I2 * TILE_I3:
///     D[...] = max(C[...], 0.0)
std::string to_text(const Sketch& sketch);
/// A program in the same form; loops of one iteration are left out.
std::string loops_text(const Func& func);

}  // namespace fettle
