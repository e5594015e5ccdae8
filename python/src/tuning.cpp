// Tuning one program, with whatever space, strategy, cost model and runner; and the records of it.

#include <fmt/format.h>

#include <limits>

#include <fmt/ranges.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "codegen/build.h"
#include "database/sqlite_database.h"
#include "generations/metaschedule/databases.h"
#include "generations/metaschedule/workload_equality.h"
#include "generations/registry.h"
#include "program.h"
#include "schedule.h"
#include "space.h"
#include "tune/describe.h"
#include "tune/tuner.h"

namespace fettle::python {
namespace {

struct PyDatabase {
  std::shared_ptr<Database> database;
};

struct PyReport {
  TaskReport report;
  Func workload;
  TargetPtr target;
};

// A strategy's definition is a plain function, so the Python factory in use stands here.
std::vector<nb::object>& factories() {
  static auto* stack = new std::vector<nb::object>;
  return *stack;
}
constexpr StrategyDef kPythonStrategy{"python", "written in Python", [](Workbench& bench, uint64_t seed) {
                                        return make_python_strategy(factories().back(), bench, seed);
                                      }};
class FactoryInUse {
 public:
  explicit FactoryInUse(nb::handle factory) { factories().push_back(nb::borrow(factory)); }
  ~FactoryInUse() { factories().pop_back(); }
};

nb::dict record_to_python(const Record& r) {
  nb::dict record;
  record["trace"] = r.trace;
  record["decisions"] = nb::cast(r.decisions);
  record["error"] = r.ok() ? std::string() : std::string(error_info(r.error).name);
  record["median_s"] = r.median_s;
  record["min_s"] = r.min_s;
  record["checked"] = r.checked;
  record["raced_out"] = r.raced_out;
  record["pace"] = r.pace;
  record["seed"] = r.seed;
  record["generation"] = r.generation;
  return record;
}

/// A callback of the package, or a function of a record.
MeasureCallback to_callback(nb::handle value) {
  MeasureCallback* known = nullptr;
  if (nb::try_cast(value, known) && known) return *known;
  if (!PyCallable_Check(value.ptr())) throw nb::type_error("a callback is a function of a record");
  return {"python", [call = nb::borrow(value)](const Record& record) -> Result<> {
            try {
              call(record_to_python(record));
            } catch (nb::python_error& error) {
              return tl::unexpected<Diagnostic>(refusal(error));
            }
            return {};
          }};
}

/// The name that a user gave for it; nothing for None.
std::string name_of(nb::handle value) {
  std::string name;
  if (!value.is_none() && !nb::try_cast(value, name)) name = kOwn;
  return name;
}

PyReport tune(const PyFunc& func, nb::handle target_value, int threads, const std::string& generation,
              nb::handle space_value, nb::handle strategy, nb::handle model_value, nb::handle runner_value,
              const PyDatabase& database, int64_t trials, double seconds, uint64_t seed, int batch, bool check_all,
              double max_error, nb::list callbacks, nb::object progress) {
  on_owner_thread();
  if (threads < 1 || threads > 1024) raise(ErrorCode::E709, "threads are 1 … 1024");
  if (trials < 1 || batch < -1 || batch == 0 || !(seconds > 0))
    raise(ErrorCode::E709, "trials, batch and seconds are positive");
  const TargetPtr target = to_target(target_value);
  const std::string space_name = name_of(space_value), strategy_name = name_of(strategy),
                    model_name = name_of(model_value);
  const SearchSetup setup = take(resolve_search(
      {.generation = generation, .space = space_name, .strategy = strategy_name, .cost_model = model_name}, *target));
  const std::shared_ptr<const Space> space = setup.space ? setup.space->make() : to_space(space_value);
  const PyCostModel learner =
      setup.cost_model ? PyCostModel{setup.cost_model->make(seed), setup.cost_model} : to_cost_model(model_value, seed);
  const std::shared_ptr<Runner> runner = to_runner(runner_value);
  TuneOptions options{.seed = seed, .max_seconds = seconds, .max_trials = trials, .check_all = check_all};
  if (setup.generation) {
    options.batch = setup.generation->batch;
    options.train_each_batch = setup.generation->train_each_batch;
  }
  if (batch > 0) options.batch = batch;
  options.max_error_bound = max_error;
  options.space = space.get();
  options.describe = learner.def->describe(target, threads, nullptr);
  const FactoryInUse use(strategy);
  options.strategy = setup.strategy;
  if (strategy_name == kOwn) {
    if (!PyCallable_Check(strategy.ptr()))
      throw nb::type_error("a strategy is a name, or a class (or function) of a workbench and a seed");
    options.strategy = &kPythonStrategy;
  }
  const auto tell = [&](const TuneProgress& p) {
    if (progress.is_none()) return;
    progress(p.trials, p.tasks.empty() ? 0.0 : p.tasks[0].best_s, p.elapsed_s);
  };
  std::shared_ptr<Database> records = database.database;
  if (nb::len(callbacks) > 0) {
    std::vector<MeasureCallback> called;
    for (nb::handle callback : callbacks) called.push_back(to_callback(callback));
    records = make_observed_database(std::move(records), std::move(called));
  }
  TuneReport report = take(tune_tasks({{.workload = func.func, .label = func.func->name}}, *target, threads, *records,
                                      *runner, *learner.model, options, tell));
  return {std::move(report.tasks.at(0)), func.func, target};
}

}  // namespace

void bind_tuning(nb::module_& m) {
  nb::class_<PyDatabase>(m, "Database", "Records of measurements: in a file, or in memory without a path.")
      .def(
          "__init__",
          [](PyDatabase* self, const std::string& path, bool read_only, const std::string& workload_equality) {
            const auto equality = find_workload_equality(workload_equality);
            if (!equality)
              raise(ErrorCode::E709,
                    fmt::format("'{}' is none of {}", workload_equality, fmt::join(workload_equality_names(), ", ")));
            std::shared_ptr<Database> opened =
                path.empty() ? make_memory_database() : take(open_sqlite_database(path, {.read_only = read_only}));
            if (*equality != WorkloadEquality::kStructural)
              opened = make_equality_database(std::move(opened), *equality);
            new (self) PyDatabase{std::move(opened)};
          },
          nb::arg("path") = "", nb::arg("read_only") = false, nb::arg("workload_equality") = "structural",
          "workload_equality: whose records answer for a program: those of the same one (\"structural\"), of one that "
          "differs in constants alone (\"ignore-constants\"), or of one with the same main block (\"anchor-block\").")
      .def(
          "records",
          [](const PyDatabase& d, const PyFunc& func, nb::handle target, int threads) {
            const TaskKey key = make_task_key(func.func, *to_target(target), threads, program_versions());
            nb::list list;
            for (const Record& r : take(d.database->records(key))) list.append(record_to_python(r));
            return list;
          },
          nb::arg("func"), nb::arg("target") = nb::none(), nb::arg("threads") = 1,
          "All records of the program, oldest first.")
      .def(
          "best",
          [](const PyDatabase& d, const PyFunc& func, nb::handle target, int threads) -> nb::object {
            const TargetPtr on = to_target(target);
            const auto record =
                take(best_checked(*d.database, make_task_key(func.func, *on, threads, program_versions())));
            if (!record) return nb::none();
            Schedule s(func.func);
            s.set_target(on);
            take(replay(s, take(parse_trace(record->trace))));
            return nb::cast(new_schedule(std::move(s), func.func));
          },
          nb::arg("func"), nb::arg("target") = nb::none(), nb::arg("threads") = 1,
          "The fastest recorded schedule whose results were found right, or None: apply history best.");

  nb::class_<PyReport>(m, "TuneReport", "What tuning one program came to.")
      .def_prop_ro("default_s", [](const PyReport& r) { return r.report.default_s; })
      .def_prop_ro("best_s", [](const PyReport& r) { return r.report.best_s; })
      .def_prop_ro("best_trace", [](const PyReport& r) { return r.report.best_trace; })
      .def_prop_ro("default_trace", [](const PyReport& r) { return r.report.default_trace; })
      .def_prop_ro("decisions", [](const PyReport& r) { return r.report.best_decisions; })
      .def_prop_ro("confirmed", [](const PyReport& r) { return r.report.confirmed; })
      .def_prop_ro("trials", [](const PyReport& r) { return r.report.trials; })
      .def_prop_ro("measured", [](const PyReport& r) { return r.report.measured; })
      .def_prop_ro("failed", [](const PyReport& r) { return r.report.failed; })
      .def(
          "schedule",
          [](const PyReport& r) {
            on_owner_thread();
            Schedule s(r.workload);
            s.set_target(r.target);
            take(replay(s, take(parse_trace(r.report.best_trace))));
            return new_schedule(std::move(s), r.workload);
          },
          "The best schedule.")
      .def("__repr__", [](const PyReport& r) {
        return fmt::format("<TuneReport {} trials, {:.4g} s, default {:.4g} s>", r.report.trials, r.report.best_s,
                           r.report.default_s);
      });

  nb::class_<MeasureCallback>(m, "MeasureCallback", "Called with each record of a tuning, once it is kept.")
      .def_ro("name", &MeasureCallback::name);
  m.def(
      "add_to_database", [](const PyDatabase& d) { return add_to_database(d.database); }, nb::arg("database"),
      "A callback that keeps each record in a further database.");
  m.def(
      "update_cost_model",
      [](const PyCostModel& model, nb::handle target_value, int threads, size_t batch) {
        const DescribeFn describe = model.def->describe(to_target(target_value), threads, nullptr);
        const auto features = [describe](const Func& scheduled) -> Result<CandidateFeatures> {
          FETTLE_TRY(Description described, describe(Schedule(scheduled)));
          return std::move(described.features);
        };
        return update_cost_model(model.model, features, batch);
      },
      nb::arg("cost_model"), nb::arg("target") = nb::none(), nb::arg("threads") = 1, nb::arg("batch") = 64,
      "A callback that teaches a further cost model, in batches.");
  m.def("remove_build_artefact", &remove_build_artefact, nb::arg("folder"), nb::arg("most") = 0,
        "A callback that deletes compiled objects from a folder, the oldest first, where there are more than `most`.");

  m.def("_tune", &tune, nb::arg("func"), nb::arg("target").none(), nb::arg("threads"), nb::arg("generation"),
        nb::arg("space").none(), nb::arg("strategy").none(), nb::arg("cost_model").none(), nb::arg("runner"),
        nb::arg("database"), nb::arg("trials"), nb::arg("seconds"), nb::arg("seed"), nb::arg("batch"),
        nb::arg("check_all"), nb::arg("max_error"), nb::arg("callbacks"), nb::arg("progress").none());
}

}  // namespace fettle::python
