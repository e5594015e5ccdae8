#pragma once
// Tuning a model: its tasks, one budget, and the proof that it was worth it.

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "database/database.h"
#include "graph/graph.h"
#include "target/target.h"
#include "tune/cost_model_def.h"
#include "tune/tuner.h"

namespace fettle {

struct TuneModelOptions {
  Target target;  // with several streams: tasks and the model are timed while its copies run on the other ones
  int threads = 1;
  double seconds = std::numeric_limits<double>::infinity();  // while the machine is awake, all in all
  int64_t trials = std::numeric_limits<int64_t>::max();
  uint64_t seed = 0;
  int search_threads = 0;        // that make candidates between measurements; 0: all there are
  const Space* space = nullptr;  // what programs may become; null: rule_space()
  double max_error_bound = std::numeric_limits<double>::infinity();  // TuneOptions::max_error_bound
  KernelSources kernel_sources = {};                                 // TuneOptions::kernel_sources
  const StrategyDef* strategy = nullptr;                             // how spaces are searched; null: evolution
  const CostModelDef* learner = nullptr;                             // what ranks candidates; null: boosted trees
  MakeScheduler make_scheduler;   // which task gets the next batch; empty: the product's own
  int batch = 0;                  // candidates measured before the cost model learns; 0: TuneOptions::batch
  bool train_each_batch = false;  // TuneOptions::train_each_batch
  /// The cost model: read where the file exists, so that what was learned of other models counts, and written at the
  /// end.
  std::filesystem::path cost_model;
  std::string name;                         // of the model, for people; empty: the graph's
  const std::atomic<bool>* stop = nullptr;  // set: end soon; what was measured is kept
  std::function<void(const TuneProgress&)> progress;
  std::function<void(const std::string&)> say;  // a line on what is being done
  /// How candidates are timed; null: by workers on this machine.
  Runner* runner = nullptr;
  std::filesystem::path worker_path;  // of these workers; empty: fettle-worker beside this program
  /// The runner's machines are not like this one: nothing is timed here, the whole model neither.
  bool elsewhere = false;
  /// Elsewhere: the micro-kernel table there (MicroKernelTable::to_numbers); may be empty.
  std::vector<double> micro_kernels;
  /// Of the micro-kernel table, measured once a machine; empty: default_cache_folder().
  std::filesystem::path cache_folder;
};

/// Where the micro-kernel table of `target` is kept; cache_folder empty: default_cache_folder(). Empty: nowhere.
std::filesystem::path micro_kernel_table_file(const Target& target, const std::filesystem::path& cache_folder = {});

struct TuneModelResult {
  TuneReport report;
  uint64_t run = 0;  // TuningRun::id, under which the database has it
  /// Of one run of the model, with as many others at once as the target has further streams: median, the two
  /// interleaved; 0: not timed.
  double untuned_ms = 0;
  double tuned_ms = 0;
  bool kept_untuned = false;  // the tuned model was slower, so the defaults are what compile will use
  int other_schedules = 0;    // tasks whose schedule is another than the default's, in what compile will make
  int kept_defaults = 0;      // tasks whose recorded schedule was slower inside the model, so they keep their defaults
};

/// Chooses the layout of images by KernelCosts, tunes every task of the model, recording as it goes, then times the
/// whole model tuned and untuned side by side. Where tuning made it slower, which single tasks cannot tell, the
/// database is told to use the defaults for this model; where it made single kernels slower inside the model, for
/// these. Errors: those of make_plan, compile_model and tune_tasks · E406 no worker can be started · E710 the target's
/// device is not there.
Result<TuneModelResult> tune_model(const Graph& graph, std::shared_ptr<Database> database,
                                   const TuneModelOptions& options);

}  // namespace fettle
