#pragma once
// Everything that a user can name: spaces, strategies, cost models, schedulers and generations. The command line, the
// driver, Python and benchmarks resolve names here. The product's own come first, its defaults before all others.

#include <span>
#include <string_view>

#include "generations/generation.h"

namespace fettle {

std::span<const SpaceDef> spaces();
std::span<const StrategyDef> strategies();
std::span<const CostModelDef> cost_models();
std::span<const SchedulerDef> schedulers();
/// The published generations, from the sources in generations/.
std::span<const GenerationDef* const> generations();

/// Null: there is none of this name. "template" is "autotvm", too.
const SpaceDef* find_space(std::string_view name);
const StrategyDef* find_strategy(std::string_view name);
const CostModelDef* find_cost_model(std::string_view name);
const SchedulerDef* find_scheduler(std::string_view name);
const GenerationDef* find_generation(std::string_view name);

/// How one search is put together.
struct SearchSetup {
  const SpaceDef* space = nullptr;
  const StrategyDef* strategy = nullptr;  // null: none is named; the default has the numbers of TuneOptions
  const CostModelDef* cost_model = nullptr;
  const SchedulerDef* scheduler = nullptr;
  const GenerationDef* generation = nullptr;  // null: the product's own, or a mixture
};
/// Names as a user gives them; an empty one is that of the generation, without one the product's default.
struct SearchNames {
  std::string_view generation, space, strategy, cost_model, scheduler;
};
/// A name that stands for an object of the user's own: it is resolved to null, and no generation has it.
inline constexpr std::string_view kOwn = "one's own";
/// Errors: E709 there is no such name; it contradicts the generation; the space has no programs for the target
Result<SearchSetup> resolve_search(const SearchNames& names, const Target& target);

}  // namespace fettle
