// Runners: workers on this machine, devices of a tracker, and any Python object with set_workload and measure.

#include <fmt/format.h>

#include <cmath>
#include <cstdlib>

#include <nanobind/stl/map.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "measure/local_measurer.h"
#include "program.h"
#include "remote/remote_measurer.h"
#include "space.h"
#include "worker.h"

namespace fettle::python {
namespace {

std::string code_name(ErrorCode code) {
  return code == ErrorCode::kNone ? std::string() : std::string(error_info(code).name);
}

MeasureResult from_python(nb::handle value) {
  MeasureResult* known = nullptr;
  if (nb::try_cast(value, known) && known) return *known;
  MeasureResult result;
  if (PyFloat_Check(value.ptr()) || PyLong_Check(value.ptr())) {
    result.median_s = result.min_s = nb::cast<double>(nb::float_(nb::borrow(value)));
    result.repeats = 1;
  } else {
    throw nb::type_error("a result is a MeasureResult or a number of seconds");
  }
  if (!(result.median_s > 0) || !std::isfinite(result.median_s)) {
    result = {};
    result.error = ErrorCode::E406;
    result.message = "the runner's time is no positive number of seconds";
  }
  return result;
}

/// A Python object: set_workload(func), and measure(traces) → a result, or seconds, for each.
class PythonRunner : public Runner {
 public:
  explicit PythonRunner(nb::object object) : object_(std::move(object)) {}

  Result<> set_workload(const Func& workload, const WorkloadOptions&) override {
    try {
      object_.attr("set_workload")(PyFunc{workload});
    } catch (nb::python_error& error) {
      return tl::unexpected<Diagnostic>(refusal(error));
    }
    return {};
  }

  Result<std::vector<MeasureResult>> measure(std::span<const std::string> traces,
                                             const MeasureRequest& request) override {
    std::vector<MeasureResult> results;
    try {
      const nb::object made = object_.attr("measure")(std::vector<std::string>(traces.begin(), traces.end()));
      for (nb::handle item : made) results.push_back(from_python(item));
    } catch (nb::python_error& error) {
      return tl::unexpected<Diagnostic>(refusal(error));
    }
    if (results.size() != traces.size())
      raise(ErrorCode::E709, fmt::format("{} results for {} candidates", results.size(), traces.size()), "measure");
    for (size_t i = 0; i < results.size(); ++i) {
      if (!results[i].ok()) ++failures_[results[i].error];
      if (request.on_result) request.on_result(i, results[i]);
    }
    return results;
  }
  const std::map<ErrorCode, int64_t>& failures() const override { return failures_; }

 private:
  nb::object object_;
  std::map<ErrorCode, int64_t> failures_;
};

/// A built-in runner, used without the interpreter's lock: it sees programs that no other thread knows, and the
/// callbacks of a request take the lock again. Python's signals are looked at between candidates.
class UnlockedRunner : public Runner {
 public:
  explicit UnlockedRunner(std::shared_ptr<Runner> runner) : runner_(std::move(runner)) {}

  Result<> set_workload(const Func& workload, const WorkloadOptions& options) override {
    return runner_->set_workload(private_copy(workload), options);
  }
  Result<std::vector<MeasureResult>> measure(std::span<const std::string> traces,
                                             const MeasureRequest& request) override {
    MeasureRequest unlocked = request;
    bool interrupted = false;
    unlocked.should_stop = [&] {
      const nb::gil_scoped_acquire held;
      interrupted |= PyErr_CheckSignals() != 0;
      return interrupted || (request.should_stop && request.should_stop());
    };
    if (request.on_result)
      unlocked.on_result = [&](size_t index, const MeasureResult& result) {
        const nb::gil_scoped_acquire held;
        request.on_result(index, result);
      };
    Result<std::vector<MeasureResult>> results;
    {
      const nb::gil_scoped_release released;
      results = runner_->measure(traces, unlocked);
    }
    if (interrupted) throw nb::python_error();
    return results;
  }
  const std::map<ErrorCode, int64_t>& failures() const override { return runner_->failures(); }

 private:
  std::shared_ptr<Runner> runner_;
};

class InUse {
 public:
  explicit InUse(PyRunner& runner) : runner_(runner) {
    if (runner.busy) raise(ErrorCode::E709, "a runner is used by one thread at a time");
    runner.busy = true;
  }
  ~InUse() { runner_.busy = false; }

 private:
  PyRunner& runner_;
};

}  // namespace

std::string& worker_path() {
  static std::string path;
  return path;
}

std::shared_ptr<Runner> to_runner(nb::handle value) {
  PyRunner* known = nullptr;
  if (nb::try_cast(value, known) && known) return known->runner;
  if (!nb::hasattr(value, "set_workload") || !nb::hasattr(value, "measure"))
    throw nb::type_error("a runner has set_workload(func) and measure(traces)");
  return std::make_shared<PythonRunner>(nb::borrow(value));
}

void bind_runners(nb::module_& m) {
  nb::class_<MeasureResult>(m, "MeasureResult", "What came of one candidate: times, or how it failed.")
      .def(
          "__init__",
          [](MeasureResult* self, double median_s, const std::string& error, const std::string& message) {
            MeasureResult made;
            made.median_s = made.min_s = median_s;
            made.repeats = 1;
            made.message = message;
            if (!error.empty()) {
              const ErrorInfo* info = find_error(error);
              if (!info || info->code < ErrorCode::E401 || info->code > ErrorCode::E407)
                raise(ErrorCode::E709, "a candidate fails with E401 … E407");
              made.error = info->code;
            } else if (!(median_s > 0) || !std::isfinite(median_s)) {
              raise(ErrorCode::E709, "a time is a positive number of seconds");
            }
            new (self) MeasureResult(std::move(made));
          },
          nb::arg("median_s") = 0.0, nb::arg("error") = "", nb::arg("message") = "")
      .def_prop_ro("ok", &MeasureResult::ok)
      .def_prop_ro("error", [](const MeasureResult& r) { return code_name(r.error); })
      .def_ro("message", &MeasureResult::message)
      .def_ro("signal", &MeasureResult::signal)
      .def_ro("median_s", &MeasureResult::median_s)
      .def_ro("min_s", &MeasureResult::min_s)
      .def_ro("half_width", &MeasureResult::half_width)
      .def_ro("repeats", &MeasureResult::repeats)
      .def_ro("raced_out", &MeasureResult::raced_out)
      .def_ro("checked", &MeasureResult::checked)
      .def_ro("beside", &MeasureResult::beside)
      .def_ro("pace", &MeasureResult::pace)
      .def("__repr__", [](const MeasureResult& r) {
        return r.ok() ? fmt::format("<MeasureResult {:.4g} s>", r.median_s)
                      : fmt::format("<MeasureResult {} {}>", code_name(r.error), r.message);
      });

  m.def("_set_worker", [](const std::string& path) { worker_path() = path; });

  nb::class_<PyRunner>(m, "Runner", "Times candidates: LocalRunner, RemoteRunner.")
      .def(
          "set_workload",
          [](PyRunner& r, const PyFunc& func, uint64_t seed, const std::vector<int64_t>& ints) {
            on_owner_thread();
            const InUse use(r);
            take(r.runner->set_workload(func.func, {.seed = seed, .ints = ints}));
          },
          nb::arg("func"), nb::arg("seed") = 0, nb::arg("ints") = nb::list())
      .def(
          "measure",
          [](PyRunner& r, const std::vector<std::string>& traces, double incumbent_s, bool check, double max_seconds,
             const std::string& beside, double beside_s) {
            on_owner_thread();
            const InUse use(r);
            MeasureRequest request{.incumbent_s = incumbent_s, .check = check};
            if (max_seconds > 0) request.max_seconds = max_seconds;
            if (beside.empty() != !(beside_s > 0)) raise(ErrorCode::E709, "beside has a time, beside_s, in seconds");
            request.beside_trace = beside;
            request.beside_s = beside_s;
            return take(r.runner->measure(traces, request));
          },
          nb::arg("traces"), nb::arg("incumbent_s") = 0.0, nb::arg("check") = false, nb::arg("max_seconds") = 0.0,
          nb::arg("beside") = "", nb::arg("beside_s") = 0.0,
          "Times each trace's program; in turn with that of the trace `beside`, if given, which counts as beside_s. "
          "The interpreter's lock is released meanwhile.")
      .def("failures", [](const PyRunner& r) {
        std::map<std::string, int64_t> counts;
        for (const auto& [code, n] : r.runner->failures()) counts[code_name(code)] = n;
        return counts;
      });
  m.def(
      "local_runner",
      [](nb::handle target, int threads, int workers, double build_timeout_s, double first_timeout_s) {
        on_owner_thread();
        if (threads < 1 || threads > 1024 || workers < 0 || workers > 256)
          raise(ErrorCode::E709, "threads are 1 … 1024, workers 0 … 256");
        LocalMeasurerOptions options{.target = *to_target(target), .threads = threads, .workers = workers};
        options.worker_path = worker_path();
        if (build_timeout_s > 0) options.build_timeout_s = build_timeout_s;
        if (first_timeout_s > 0) options.first_timeout_s = first_timeout_s;
        return PyRunner{std::make_shared<UnlockedRunner>(take(LocalMeasurer::start(std::move(options))))};
      },
      nb::arg("target") = nb::none(), nb::arg("threads") = 1, nb::arg("workers") = 0, nb::arg("build_timeout_s") = 0.0,
      nb::arg("first_timeout_s") = 0.0, "Candidates timed on this machine, each in a process of its own.");
  m.def(
      "remote_runner",
      [](const std::string& host, int port, const std::string& key, const std::string& token, double wait_s) {
        on_owner_thread();
        if (port < 1 || port > 65535) raise(ErrorCode::E709, "a port is 1 … 65535");
        RemoteMeasurerOptions options;
        options.tracker = {host, port};
        options.credentials.token = token;
        options.key = key;
        if (wait_s > 0) options.device_wait_s = options.tracker_wait_s = wait_s;
        return PyRunner{std::make_shared<UnlockedRunner>(take(RemoteMeasurer::connect(std::move(options))))};
      },
      nb::arg("host"), nb::arg("port"), nb::arg("key"), nb::arg("token") = "", nb::arg("wait_s") = 0.0,
      "Candidates timed on the devices that a tracker knows under `key`.");
}

}  // namespace fettle::python
