// Cost models: the built-in ones, and any Python object with update and predict.

#include <fmt/format.h>

#include <cmath>

#include <fmt/ranges.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "generations/registry.h"
#include "program.h"
#include "schedule.h"
#include "space.h"

namespace fettle::python {
namespace {

nb::list rows_of(std::span<const CandidateFeatures> candidates) {
  nb::list rows;
  for (const CandidateFeatures& c : candidates) rows.append(nb::make_tuple(c.values, c.predicted_seconds));
  return rows;
}

/// Rows (features, predicted seconds), perhaps with a workload's number, as this model has them.
std::vector<CandidateFeatures> features_of(nb::handle rows, const CostModelDef& def) {
  std::vector<CandidateFeatures> candidates;
  for (nb::handle row : nb::borrow(rows)) {
    CandidateFeatures& c = candidates.emplace_back();
    std::vector<float>& values = c.*def.learns_from;
    values = nb::cast<std::vector<float>>(row[0]);
    c.predicted_seconds = nb::cast<double>(row[1]);
    if (nb::len(row) > 2) c.workload = nb::cast<uint64_t>(row[2]);
    if (!def.columns) {
      c.columns = values.size();
      continue;
    }
    const size_t width = def.columns().size();
    if (def.many_rows ? values.size() % width != 0 : values.size() != width)
      raise(ErrorCode::E709, fmt::format("a candidate has {} features{}", width, def.many_rows ? " a statement" : ""));
  }
  return candidates;
}

const CostModelDef& find(const std::string& name) {
  if (const CostModelDef* def = find_cost_model(name)) return *def;
  std::vector<std::string_view> names;
  for (const CostModelDef& def : cost_models()) names.push_back(def.name);
  raise(ErrorCode::E709, fmt::format("cost models are {}; not {}", fmt::join(names, ", "), name));
}

/// A Python object. It is given lists of (features, predicted seconds), the features as feature_names() has them.
class PythonModel : public CostModel {
 public:
  explicit PythonModel(nb::object object) : object_(std::move(object)) {}
  std::string name() const override { return nb::cast<std::string>(nb::str(object_.type().attr("__name__"))); }
  Result<> update(std::span<const CandidateFeatures> candidates, std::span<const double> seconds) override {
    return guarded(
        [&] { object_.attr("update")(rows_of(candidates), std::vector<double>(seconds.begin(), seconds.end())); });
  }
  std::vector<double> predict(std::span<const CandidateFeatures> candidates) override {
    auto seconds = nb::cast<std::vector<double>>(nb::list(object_.attr("predict")(rows_of(candidates))));
    if (seconds.size() != candidates.size())
      raise(ErrorCode::E709, fmt::format("{} predictions for {} candidates", seconds.size(), candidates.size()),
            name());
    for (double& s : seconds)
      if (std::isnan(s)) raise(ErrorCode::E709, "a prediction is no number", name());
    return seconds;
  }
  Result<> save(const std::string& path) const override {
    return guarded([&] { object_.attr("save")(path); });
  }
  Result<> load(const std::string& path) override {
    return guarded([&] { object_.attr("load")(path); });
  }

 private:
  template <class Call>
  static Result<> guarded(const Call& call) {
    try {
      call();
    } catch (nb::python_error& error) {
      return tl::unexpected<Diagnostic>(refusal(error));
    }
    return {};
  }
  nb::object object_;
};

PyCostModel named(const std::string& name, uint64_t seed) {
  const CostModelDef& def = find(name);
  return {def.make(seed), &def};
}

nb::tuple features(const PySchedule& schedule, const std::string& model, int threads) {
  on_owner_thread();
  const CostModelDef& def = find(model);
  const Target* own = schedule.get().target();
  const TargetPtr target = own ? std::make_shared<const Target>(*own) : to_target(nb::none());
  if (threads < 1 || threads > 1024) raise(ErrorCode::E709, "threads are 1 … 1024");
  const CandidateFeatures made = take(def.describe(target, threads, nullptr)(schedule.get())).features;
  return nb::make_tuple(made.*def.learns_from, made.predicted_seconds, made.workload);
}

}  // namespace

PyCostModel to_cost_model(nb::handle value, uint64_t seed) {
  if (value.is_none()) return named("trees", seed);
  std::string name;
  if (nb::try_cast(value, name)) return named(name, seed);
  PyCostModel* known = nullptr;
  if (nb::try_cast(value, known) && known) return *known;
  if (!nb::hasattr(value, "update") || !nb::hasattr(value, "predict"))
    throw nb::type_error("a cost model has update(rows, seconds) and predict(rows)");
  return {std::make_shared<PythonModel>(nb::borrow(value)), &find("prediction")};
}

void bind_cost_models(nb::module_& m) {
  nb::class_<PyCostModel>(m, "BuiltinCostModel", "A cost model that comes with Fettle.")
      .def_prop_ro("name", [](const PyCostModel& c) { return c.model->name(); })
      .def(
          "update",
          [](PyCostModel& c, nb::handle rows, const std::vector<double>& seconds) {
            const auto candidates = features_of(rows, *c.def);
            if (candidates.size() != seconds.size()) raise(ErrorCode::E709, "one time for each candidate");
            take(c.model->update(candidates, seconds));
          },
          nb::arg("rows"), nb::arg("seconds"))
      .def(
          "predict", [](PyCostModel& c, nb::handle rows) { return c.model->predict(features_of(rows, *c.def)); },
          nb::arg("rows"))
      .def("save", [](PyCostModel& c, const std::string& path) { take(c.model->save(path)); })
      .def("load", [](PyCostModel& c, const std::string& path) { take(c.model->load(path)); });
  m.def(
      "cost_model", [](const std::string& name, uint64_t seed) { return named(name, seed); }, nb::arg("name"),
      nb::arg("seed") = 0,
      "trees, trees_rank, trees_alone, mlp, statements, autotvm_knob, autotvm_itervar, autotvm_curve, the same with "
      "_rank, prediction or random.");
  m.def(
      "feature_names",
      [](const std::string& model) {
        const CostModelDef& def = find(model);
        if (!def.columns) raise(ErrorCode::E709, model + " has the features that a task's decisions have");
        return def.columns();
      },
      nb::arg("cost_model") = "trees", "What the numbers are that this model learns from.");
  m.def("features", features, nb::arg("schedule"), nb::arg("cost_model") = "trees", nb::arg("threads") = 1,
        "What this model sees of a schedule: its features, predicted seconds, and the number of its workload.");
}

}  // namespace fettle::python
