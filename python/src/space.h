#pragma once
// Spaces, strategies, cost models and runners: Python's objects behind Fettle's seams, and the other way round.

#include <memory>
#include <string>

#include "binding.h"
#include "cost/cost_model.h"
#include "generations/autotvm/template/template.h"
#include "measure/runner.h"
#include "tune/cost_model_def.h"
#include "tune/search/search_strategy.h"
#include "tune/space/space.h"

namespace fettle::python {

struct PyTemplate {
  Template made;
};
/// `body` is called with a TemplateContext.
Template template_of(const std::string& name, nb::object body);
struct PyConfigView {
  std::shared_ptr<Lease<const ConfigView>> lease;
};

/// Built-in ones, as Python holds them.
struct PySpace {
  std::shared_ptr<const Space> space;
};
struct PyCostModel {
  std::shared_ptr<CostModel> model;
  const CostModelDef* def;  // of one's own: that of "prediction"
};
struct PyRunner {
  std::shared_ptr<Runner> runner;
  bool busy = false;
};

/// A Space, Template, or any object with generate(func, target, threads, seed, decisions).
std::shared_ptr<const Space> to_space(nb::handle value);
/// A CostModel, the name of one, or any object with update and predict.
PyCostModel to_cost_model(nb::handle value, uint64_t seed);
/// A Runner, or any object with set_workload and measure. Its measure() releases the interpreter's lock where it is
/// C++.
std::shared_ptr<Runner> to_runner(nb::handle value);
/// Makes a strategy of what Python returns: an object with propose and observe. `factory` is called with a Workbench
/// and a seed.
std::unique_ptr<SearchStrategy> make_python_strategy(nb::handle factory, Workbench& bench, uint64_t seed);

/// Exceptions that Python code raised while C++ was at work, to be raised again once it is done.
nb::object to_python(const MeasureResult& result);

}  // namespace fettle::python
