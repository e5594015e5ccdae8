#pragma once
// A generation of tuning compilers as it was published: a space, a strategy, a cost model and a task scheduler.

#include <memory>
#include <span>
#include <string_view>

#include "generations/ansor/ansor_scheduler.h"
#include "tune/cost_model_def.h"
#include "tune/search/search_strategy.h"
#include "tune/space/space.h"
#include "tune/task_scheduler.h"

namespace fettle {

/// A space as a user names it.
struct SpaceDef {
  std::string_view name;
  std::string_view meaning;  // one sentence
  /// It may remember what it has derived, and is used by one thread.
  std::unique_ptr<Space> (*make)();
  bool on_gpus = false;  // it has programs for targets with threads (Target::has_threads), too
};

/// A task scheduler as a user names it.
struct SchedulerDef {
  std::string_view name;
  std::string_view meaning;  // one sentence
  MakeScheduler (*make)(const AnsorGoal& goal);
  bool has_goals = false;  // it makes something else small than a model's time, if asked
};

/// What a user can name of one generation, and what the generation itself takes.
struct GenerationDef {
  std::string_view name;
  std::string_view meaning;  // one sentence
  std::span<const SpaceDef> spaces;
  std::span<const StrategyDef> strategies;
  std::span<const CostModelDef> cost_models;
  std::span<const SchedulerDef> schedulers;
  /// Its own choice, by names of the registry.
  std::string_view space, strategy, cost_model, scheduler;
  int batch = 64;                // candidates measured before the cost model learns
  bool train_each_batch = true;  // the cost model is trained anew after every batch
};

}  // namespace fettle
