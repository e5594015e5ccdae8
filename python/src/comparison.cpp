#include "comparison.h"

#include <memory>

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "driver/open.h"
#include "model.h"
#include "report/comparison.h"

namespace fettle::python {
namespace {

/// (before s, after s, how many tasks are of the first alone, of the second alone, [(label, before s, after s, saved s,
/// share of what is saved)])
nb::tuple described(const Comparison& compared) {
  nb::list tasks;
  for (const ComparedTask& task : compared.tasks)
    tasks.append(nb::make_tuple(task.label, task.before_s, task.after_s, task.saved_s, task.share));
  return nb::make_tuple(compared.before_s, compared.after_s, compared.only_before, compared.only_after, tasks);
}

RunReport run_of(const std::string& path, int which, const std::string& model) {
  const std::shared_ptr<Database> database = take(open_records(path));
  return take(read_run(*database, take(choose_run(*database, which, model))));
}

nb::tuple compare_runs(const std::string& before, const std::string& after, int run_before, int run_after) {
  const RunReport report = run_of(after, run_after, {});
  return described(compare(run_of(before, run_before, report.run.model), report));
}

nb::tuple compare_models(const PyModel& before, const PyModel& after, const InputShapes& shapes) {
  auto timed = [&] {
    const nb::gil_scoped_release released;
    return time_compiled(before.facts->model, after.facts->model, shapes);
  }();
  const auto [first, second] = take(std::move(timed));
  return described(compare(first, second));
}

}  // namespace

void bind_comparison(nb::module_& m) {
  m.def("_is_library_path", &is_library_path, nb::arg("path"));
  m.def("_compare_runs", &compare_runs, nb::arg("before"), nb::arg("after"), nb::arg("run_before"),
        nb::arg("run_after"));
  m.def(
      "_compare_models",
      [](const PyModel& before, const PyModel& after, nb::dict given) {
        InputShapes shapes;
        for (const auto& [name, shape] : given)
          shapes[nb::cast<std::string>(name)] = nb::cast<std::vector<int64_t>>(shape);
        return compare_models(before, after, shapes);
      },
      nb::arg("before"), nb::arg("after"), nb::arg("shapes"));
}

}  // namespace fettle::python
