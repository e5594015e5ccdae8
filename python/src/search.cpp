// Spaces and strategies: the built-in ones, and those written in Python.

#include <fmt/format.h>

#include <set>

#include <fmt/ranges.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "generations/registry.h"
#include "program.h"
#include "schedule.h"
#include "space.h"

namespace fettle::python {
namespace {

/// A Python object: generate(func, target, threads, seed, decisions) → Schedule.
class PythonSpace : public Space {
 public:
  explicit PythonSpace(nb::object object) : object_(std::move(object)) {}
  std::string name() const override { return nb::cast<std::string>(nb::str(object_.type().attr("__name__"))); }
  Result<Schedule> generate(const Func& workload, std::shared_ptr<const Target> target, int threads,
                            DecisionSource source, std::shared_ptr<const DecisionMap> decisions) const override {
    try {
      const nb::object target_object = target ? nb::cast(*target) : nb::none();
      const nb::object given = decisions ? nb::cast(*decisions) : nb::none();
      const nb::object made = object_.attr("generate")(PyFunc{workload}, target_object, threads, source.seed(), given);
      return nb::cast<PySchedule&>(made).get();
    } catch (nb::python_error& error) {
      return tl::unexpected<Diagnostic>(refusal(error));
    }
  }

 private:
  nb::object object_;
};

/// The space of a built-in one that belongs to the library.
std::shared_ptr<const Space> unowned(const Space& space) { return {std::shared_ptr<const Space>(), &space}; }

struct PyBench {
  std::shared_ptr<Lease<Workbench>> lease;
  Workbench& get() const { return lease->get("a workbench"); }
};

/// What a search knows of one candidate; a copy.
struct PyCandidate {
  int64_t number = 0;
  DecisionMap decisions;
  std::string trace;
  double predicted_s = 0;
  std::vector<float> features;
};
nb::object candidate_to_python(const Workbench& bench, const Candidate* c) {
  if (!c) return nb::none();
  return nb::cast(
      PyCandidate{c->number, c->decisions, bench.trace(*c), c->features.predicted_seconds, c->features.values});
}
const Candidate* candidate_of(Workbench& bench, nb::handle value) {
  const int64_t number = nb::cast<PyCandidate&>(value).number;
  if (number < 0 || static_cast<size_t>(number) >= bench.size())
    raise(ErrorCode::E709, "a candidate of another workbench");
  return &bench.candidate(number);
}

/// A Python object: propose(n) → candidates, observe([(candidate, seconds)]).
class PythonStrategy : public SearchStrategy {
 public:
  PythonStrategy(nb::handle factory, Workbench& bench, uint64_t seed) : bench_(bench), lending_(bench) {
    object_ = factory(PyBench{lending_.lease()}, seed);
    if (!nb::hasattr(object_, "propose") || !nb::hasattr(object_, "observe"))
      throw nb::type_error("a strategy has propose(n) and observe(results)");
  }
  std::string name() const override { return nb::cast<std::string>(nb::str(object_.type().attr("__name__"))); }
  std::vector<const Candidate*> propose(size_t n) override {
    std::vector<const Candidate*> list;
    const nb::object proposed = object_.attr("propose")(n);
    for (nb::handle item : proposed) {
      if (list.size() == n) break;
      const Candidate* candidate = candidate_of(bench_, item);
      if (known_.insert(candidate->number).second) list.push_back(candidate);  // never the same twice
    }
    return list;
  }
  void observe(std::span<const Observation> observations) override {
    nb::list list;
    for (const Observation& o : observations) {
      known_.insert(o.candidate->number);
      list.append(nb::make_tuple(candidate_to_python(bench_, o.candidate), o.seconds));
    }
    object_.attr("observe")(list);
  }

 private:
  Workbench& bench_;
  Lending<Workbench> lending_;
  nb::object object_;
  std::set<int64_t> known_;
};

template <class Def>
std::vector<std::string> names_of(std::span<const Def> defs) {
  std::vector<std::string> names;
  for (const Def& def : defs) names.emplace_back(def.name);
  return names;
}

}  // namespace

std::unique_ptr<SearchStrategy> make_python_strategy(nb::handle factory, Workbench& bench, uint64_t seed) {
  return std::make_unique<PythonStrategy>(factory, bench, seed);
}

std::shared_ptr<const Space> to_space(nb::handle value) {
  if (value.is_none()) return unowned(rule_space());
  std::string name;
  if (nb::try_cast(value, name)) {
    if (const SpaceDef* def = find_space(name)) return def->make();
    std::vector<std::string_view> names;
    for (const SpaceDef& def : spaces()) names.push_back(def.name);
    raise(ErrorCode::E709, fmt::format("spaces are {}; not {}", fmt::join(names, ", "), name));
  }
  PyTemplate* made = nullptr;
  if (nb::try_cast(value, made) && made) return template_space(made->made);
  PySpace* known = nullptr;
  if (nb::try_cast(value, known) && known) return known->space;
  if (!nb::hasattr(value, "generate"))
    throw nb::type_error("a space is a Template, or has generate(func, target, threads, seed, decisions)");
  return std::make_shared<PythonSpace>(nb::borrow(value));
}

void bind_search(nb::module_& m) {
  nb::class_<PySpace>(m, "Space", "What a program may become: fettle.space(\"rules\"), a Template's, or one in Python.")
      .def_prop_ro("name", [](const PySpace& s) { return s.space->name(); })
      .def(
          "generate",
          [](const PySpace& s, const PyFunc& func, nb::handle target, int threads, uint64_t seed,
             nb::handle decisions) {
            on_owner_thread();
            return new_schedule(
                take(s.space->generate(func.func, to_target(target), threads, seed, to_decisions(decisions))),
                func.func);
          },
          nb::arg("func"), nb::arg("target") = nb::none(), nb::arg("threads") = 1, nb::arg("seed") = 0,
          nb::arg("decisions") = nb::none(),
          "One point: decisions found by their address are reused, the others drawn.");
  m.def(
      "space", [](nb::handle value) { return PySpace{to_space(value)}; }, nb::arg("value"),
      "\"rules\", \"autotvm\" (the built-in templates that suit the program), \"ansor\", \"metaschedule\", a Template, "
      "or an object with generate().");
  m.def(
      "default_schedule",
      [](const PyFunc& func, nb::handle target, int threads) {
        on_owner_thread();
        return new_schedule(take(default_schedule(func.func, to_target(target), threads)), func.func);
      },
      nb::arg("func"), nb::arg("target") = nb::none(), nb::arg("threads") = 1,
      "The point of the rules' space that the prediction likes best; nothing is measured.");

  nb::class_<PyCandidate>(m, "Candidate", "One program that a search may try.")
      .def_ro("number", &PyCandidate::number)
      .def_ro("decisions", &PyCandidate::decisions)
      .def_ro("trace", &PyCandidate::trace)
      .def_ro("predicted_s", &PyCandidate::predicted_s)
      .def_ro("features", &PyCandidate::features)
      .def("__repr__", [](const PyCandidate& c) { return fmt::format("<Candidate {}>", c.number); });
  nb::class_<PyBench>(m, "Workbench", "Turns decisions into candidates, each distinct program once.")
      .def(
          "make",
          [](const PyBench& b, const DecisionMap& decisions, uint64_t key) {
            return candidate_to_python(b.get(), b.get().make(decisions, key));
          },
          nb::arg("decisions") = nb::dict(), nb::arg("key") = 0,
          "The candidate of these decisions, the others drawn by the key; None where there is no program.")
      .def(
          "predict",
          [](const PyBench& b, nb::handle list) {
            std::vector<const Candidate*> candidates;
            for (nb::handle item : nb::borrow(list)) candidates.push_back(candidate_of(b.get(), item));
            return b.get().predict(candidates);
          },
          nb::arg("candidates"), "Seconds of each, by the cost model as it is now.")
      .def(
          "decisions_at",
          [](const PyBench& b, const std::string& address) {
            const auto& known = b.get().decisions_at(address);
            return std::vector<Decision>(known.begin(), known.end());
          },
          nb::arg("address"), "The decisions known to be possible there.")
      .def("__len__", [](const PyBench& b) { return b.get().size(); });
  m.def("space_names", [] { return names_of(spaces()); });
  m.def("strategy_names", [] { return names_of(strategies()); });
  m.def("cost_model_names", [] { return names_of(cost_models()); });
  m.def("generation_names", [] {
    std::vector<std::string> names;
    for (const GenerationDef* def : generations()) names.emplace_back(def->name);
    return names;
  });
}

}  // namespace fettle::python
