// Cost models: the built-in ones, and any Python object with update and predict.

#include <fmt/format.h>

#include <cmath>

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "cost/predict.h"
#include "space.h"

namespace fettle::python {
namespace {

nb::list rows_of(std::span<const CandidateFeatures> candidates) {
  nb::list rows;
  for (const CandidateFeatures& c : candidates) rows.append(nb::make_tuple(c.values, c.predicted_seconds));
  return rows;
}

std::vector<CandidateFeatures> features_of(nb::handle rows) {
  std::vector<CandidateFeatures> candidates;
  for (nb::handle row : nb::borrow(rows))
    candidates.push_back({nb::cast<std::vector<float>>(row[0]), nb::cast<double>(row[1])});
  return candidates;
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

std::shared_ptr<CostModel> named(const std::string& name, uint64_t seed) {
  if (name == "trees") return make_boosted_trees(seed);
  if (name == "trees_rank") return make_boosted_trees(seed, Loss::kRank);
  if (name == "mlp") return make_mlp(seed);
  if (name == "prediction") return make_prediction_only();
  if (name == "random") return make_random_model(seed);
  raise(ErrorCode::E709, "cost models are trees, trees_rank, mlp, prediction, random; not " + name);
}

}  // namespace

std::shared_ptr<CostModel> to_cost_model(nb::handle value, uint64_t seed) {
  if (value.is_none()) return named("trees", seed);
  std::string name;
  if (nb::try_cast(value, name)) return named(name, seed);
  PyCostModel* known = nullptr;
  if (nb::try_cast(value, known) && known) return known->model;
  if (!nb::hasattr(value, "update") || !nb::hasattr(value, "predict"))
    throw nb::type_error("a cost model has update(rows, seconds) and predict(rows)");
  return std::make_shared<PythonModel>(nb::borrow(value));
}

void bind_cost_models(nb::module_& m) {
  nb::class_<PyCostModel>(m, "BuiltinCostModel", "A cost model that comes with Fettle.")
      .def_prop_ro("name", [](const PyCostModel& c) { return c.model->name(); })
      .def(
          "update",
          [](PyCostModel& c, nb::handle rows, const std::vector<double>& seconds) {
            const auto candidates = features_of(rows);
            if (candidates.size() != seconds.size()) raise(ErrorCode::E709, "one time for each candidate");
            for (const CandidateFeatures& f : candidates)
              if (f.values.size() != feature_names().size())
                raise(ErrorCode::E709, fmt::format("a candidate has {} features", feature_names().size()));
            take(c.model->update(candidates, seconds));
          },
          nb::arg("rows"), nb::arg("seconds"))
      .def(
          "predict",
          [](PyCostModel& c, nb::handle rows) {
            const auto candidates = features_of(rows);
            for (const CandidateFeatures& f : candidates)
              if (f.values.size() != feature_names().size())
                raise(ErrorCode::E709, fmt::format("a candidate has {} features", feature_names().size()));
            return c.model->predict(candidates);
          },
          nb::arg("rows"))
      .def("save", [](PyCostModel& c, const std::string& path) { take(c.model->save(path)); })
      .def("load", [](PyCostModel& c, const std::string& path) { take(c.model->load(path)); });
  m.def(
      "cost_model", [](const std::string& name, uint64_t seed) { return PyCostModel{named(name, seed)}; },
      nb::arg("name"), nb::arg("seed") = 0, "trees, trees_rank, mlp, prediction or random.");
  m.def("feature_names", [] { return feature_names(); });
}

}  // namespace fettle::python
