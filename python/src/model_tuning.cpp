// Tuning of whole models, on a thread of its own: what happens is asked for from Python.

#include <atomic>
#include <condition_variable>
#include <deque>
#include <exception>
#include <limits>
#include <mutex>
#include <optional>
#include <thread>

#include <nanobind/stl/map.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/variant.h>
#include <nanobind/stl/vector.h>

#include "binding.h"
#include "database/sqlite_database.h"
#include "driver/load.h"
#include "driver/open.h"
#include "driver/tune.h"
#include "model_options.h"
#include "model_source.h"
#include "worker.h"

namespace fettle::python {
namespace {

/// Programs and graphs belong to the thread that makes them: all of it is the run's own.
class ModelTuning {
 public:
  struct Job {
    ModelSource source;
    InputShapes shapes;
    OpenSizes sizes;
    std::string database;
    TuneModelOptions options;
  };

  explicit ModelTuning(Job job) : job_(std::move(job)) {
    job_.options.stop = &stop_;
    job_.options.progress = [this](const TuneProgress& progress) { add(progress); };
    thread_ = std::thread([this] { finish(guarded_run()); });
  }
  ModelTuning(const ModelTuning&) = delete;
  ModelTuning& operator=(const ModelTuning&) = delete;
  ~ModelTuning() {
    stop();
    // Constants of arrays need the interpreter's lock when they go.
    const nb::gil_scoped_release released;
    thread_.join();
  }

  void stop() { stop_ = true; }
  int streams() const { return job_.options.target.streams; }

  /// The next event, in the order that they happened. Nothing: none came in this time, or it is over.
  std::optional<TuneProgress> next(double seconds) {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, std::chrono::duration<double>(seconds), [&] { return result_ || !events_.empty(); });
    if (events_.empty()) return std::nullopt;
    TuneProgress event = std::move(events_.front());
    events_.pop_front();
    return event;
  }
  /// Whether nothing happens any more.
  bool is_over() {
    const std::lock_guard lock(mutex_);
    return result_.has_value() && events_.empty();
  }
  /// Once it is over.
  Result<TuneModelResult> result() {
    const std::lock_guard lock(mutex_);
    return result_ ? *result_ : fail(ErrorCode::E709, "the tuning is under way");
  }

 private:
  // Who does not listen for long misses what is oldest.
  static constexpr size_t kMostEvents = 4096;

  void add(const TuneProgress& progress) {
    const std::lock_guard lock(mutex_);
    if (events_.size() == kMostEvents) events_.pop_front();
    events_.push_back(progress);
    changed_.notify_all();
  }
  void finish(Result<TuneModelResult> result) {
    const std::lock_guard lock(mutex_);
    result_.emplace(std::move(result));
    changed_.notify_all();
  }
  /// What functions of Python raise, those of an operator of one's own, say, ends the run, not the process.
  Result<TuneModelResult> guarded_run() {
    try {
      return run();
    } catch (nb::python_error& error) {
      const nb::gil_scoped_acquire acquired;
      return fail(ErrorCode::E709, error.what());
    } catch (const std::exception& error) {
      return fail(ErrorCode::E710, error.what());
    }
  }
  Result<TuneModelResult> run() {
    FETTLE_TRY(const Graph graph,
               load_model(job_.source, job_.shapes, job_.sizes, {}, {}, passes_left_out(job_.options.target)));
    FETTLE_TRY(std::unique_ptr<Database> database, open_sqlite_database(job_.database));
    return tune_model(graph, std::move(database), job_.options);
  }

  Job job_;
  std::atomic<bool> stop_{false};
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<TuneProgress> events_;
  std::optional<Result<TuneModelResult>> result_;
  std::thread thread_;
};

struct PyModelTuning {
  std::unique_ptr<ModelTuning> run;
};

/// What a fettle.tune.Event is made of.
nb::tuple event_of(const TuneProgress& p) {
  const bool has_task = p.current >= 0 && static_cast<size_t>(p.current) < p.tasks.size();
  const TuneProgress::Task task = has_task ? p.tasks[static_cast<size_t>(p.current)] : TuneProgress::Task{};
  return nb::make_tuple(task.label, task.trials, task.best_s, p.trials, p.failed, p.default_s, p.estimated_s,
                        p.elapsed_s, p.left_s);
}

nb::dict result_of(const TuneModelResult& result, int streams) {
  nb::dict made;
  made["streams"] = streams;
  nb::list tasks;
  for (const TaskReport& task : result.report.tasks)
    tasks.append(nb::make_tuple(task.label, task.trials, task.default_s, task.best_s));
  made["tasks"] = tasks;
  made["trials"] = result.report.trials;
  made["measured"] = result.report.measured;
  made["seconds"] = result.report.seconds;
  made["interrupted"] = result.report.stopped;
  made["untuned_ms"] = result.untuned_ms;
  made["tuned_ms"] = result.tuned_ms;
  made["kept_untuned"] = result.kept_untuned;
  made["other_schedules"] = result.other_schedules;
  return made;
}

}  // namespace

void bind_model_tuning(nb::module_& m) {
  nb::class_<PyModelTuning>(m, "ModelTuning")
      .def(
          "_next",
          [](PyModelTuning& t, double seconds) -> nb::object {
            std::optional<TuneProgress> event;
            {
              const nb::gil_scoped_release released;
              event = t.run->next(seconds);
            }
            return event ? nb::object(event_of(*event)) : nb::object(nb::none());
          },
          nb::arg("seconds"))
      .def("_is_over", [](PyModelTuning& t) { return t.run->is_over(); })
      .def("_stop", [](PyModelTuning& t) { t.run->stop(); })
      .def("_result", [](PyModelTuning& t) { return result_of(take(t.run->result()), t.run->streams()); });
  m.def(
      "_tune_model",
      [](const PySource& source, const InputShapes& shapes, const SizesGiven& sizes, const std::string& database,
         int threads, int streams, double seconds, int64_t trials, uint64_t seed, double max_error,
         const std::vector<std::string>& vendor) {
        ModelTuning::Job job{source.source, shapes, open_sizes(sizes), database, {}};
        check_threads(threads);
        check_streams(streams);
        job.options.target = take(target_of({.threads = threads, .streams = streams}));
        job.options.threads = job.options.target.threads;
        job.options.seconds = seconds;
        job.options.trials = trials;
        job.options.seed = seed;
        job.options.max_error_bound = max_error;
        job.options.kernel_sources = take(kernel_sources_named(vendor));
        job.options.name = model_name(source.source);
        job.options.worker_path = worker_path();
        return std::make_unique<PyModelTuning>(PyModelTuning{std::make_unique<ModelTuning>(std::move(job))});
      },
      nb::arg("source"), nb::arg("shapes"), nb::arg("sizes"), nb::arg("database"), nb::arg("threads"),
      nb::arg("streams"), nb::arg("seconds"), nb::arg("trials"), nb::arg("seed"), nb::arg("max_error"),
      nb::arg("vendor"));
}

}  // namespace fettle::python
