// Templates written in Python, the spaces of their knobs, and the built-in ones.

#include <fmt/format.h>

#include <nanobind/stl/map.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "generations/autotvm/template/template_def.h"
#include "program.h"
#include "schedule.h"
#include "space.h"

namespace fettle::python {
namespace {

/// What a template's body gets in Python: good for as long as the body runs.
struct PyContext {
  std::shared_ptr<Lease<TemplateContext>> lease;
  PySchedule schedule;
  TemplateContext& get() const { return lease->get("a template's context"); }
};

template <class Policy, size_t n>
Policy policy_of(const std::string& name, const char* const (&names)[n]) {
  for (size_t i = 0; i < n; ++i)
    if (name == names[i]) return static_cast<Policy>(i);
  raise(ErrorCode::E241, "there is no policy \"" + name + "\"");
}

std::vector<LoopRef> to_loops(nb::handle value, const PySchedule& schedule) {
  std::vector<LoopRef> loops;
  for (nb::handle item : nb::borrow(value)) loops.emplace_back(checked_ref(nb::cast<PyLoop&>(item), schedule));
  return loops;
}

std::vector<LoopRef> define_split(PyContext& t, const std::string& name, const PyLoop& loop, int64_t num_outputs,
                                  const std::string& policy, int64_t max_factor, bool no_tail,
                                  const std::vector<std::vector<int64_t>>& candidates, nb::object filter,
                                  const std::string& tail) {
  constexpr const char* kPolicies[] = {"factors", "power2", "verbose", "candidates"};
  SplitOptions options{.n = num_outputs,
                       .policy = policy_of<SplitPolicy>(policy, kPolicies),
                       .max_factor = max_factor,
                       .no_tail = no_tail,
                       .candidates = candidates};
  if (!filter.is_none())
    options.filter = [&](const Decision::List& sizes) { return nb::cast<bool>(nb::bool_(filter(sizes))); };
  if (!from_arg(ArgValue{tail}, options.tail)) raise(ErrorCode::E241, "there is no tail \"" + tail + "\"");
  return take(t.get().define_split(name, LoopRef(checked_ref(loop, t.schedule)), options));
}

std::vector<LoopRef> define_reorder(PyContext& t, const std::string& name, nb::handle loops, const std::string& policy,
                                    int64_t begin, int64_t end, const std::vector<std::vector<int64_t>>& chains,
                                    const std::vector<std::vector<int64_t>>& candidates) {
  constexpr const char* kPolicies[] = {"identity", "all", "interval_all", "interleave", "candidates"};
  if (begin < 0 || end < 0) raise(ErrorCode::E237, "the interval of a reorder is begin … end - 1, from 0");
  ReorderOptions options{.policy = policy_of<ReorderOptions::Policy>(policy, kPolicies),
                         .begin = static_cast<size_t>(begin),
                         .end = static_cast<size_t>(end),
                         .chains = chains,
                         .candidates = candidates};
  return take(t.get().define_reorder(name, to_loops(loops, t.schedule), options));
}

constexpr const char* kLoopAnnotations[] = {"none", "unroll", "vectorize", "parallel"};

std::vector<std::string> define_annotate(PyContext& t, const std::string& name, nb::handle loops,
                                         const std::string& policy,
                                         const std::vector<std::vector<std::string>>& candidates) {
  constexpr const char* kPolicies[] = {
      "unroll", "try_unroll", "vectorize", "try_vectorize", "try_unroll_vectorize", "try_parallel", "candidates"};
  AnnotateOptions options{.policy = policy_of<AnnotateOptions::Policy>(policy, kPolicies)};
  for (const auto& list : candidates) {
    auto& annotations = options.candidates.emplace_back();
    for (const std::string& annotation : list)
      annotations.push_back(policy_of<LoopAnnotation>(annotation, kLoopAnnotations));
  }
  std::vector<std::string> result;
  for (LoopAnnotation annotation : take(t.get().define_annotate(name, to_loops(loops, t.schedule), options)))
    result.push_back(kLoopAnnotations[static_cast<size_t>(annotation)]);
  return result;
}

nb::dict values_of(const ConfigSpace& space, const Config& config) {
  nb::dict values;
  const ConfigView view(space, config);
  for (const Knob& knob : space.knobs()) values[nb::str(knob.name.c_str())] = nb::cast(view[knob.name]);
  return values;
}

/// A space of knobs, and the template and program that it is of.
struct PyConfigSpace {
  PyTemplate made;
  Func workload;
  TargetPtr target;
  ConfigSpace space;
};

/// One configuration: its index, its values.
struct PyConfig {
  int64_t index;
  nb::dict values;
};

PyConfig config_at(const PyConfigSpace& space, int64_t index) {
  return {index, values_of(space.space, take(space.space.at(index)))};
}

Config config_of(const PyConfigSpace& space, nb::handle value) {
  PyConfig* config = nullptr;
  if (nb::try_cast(value, config) && config) return take(space.space.at(config->index));
  if (PyDict_Check(value.ptr())) {
    // By values: sizes of cuts, orders, numbers.
    Config found;
    const nb::dict given = nb::borrow<nb::dict>(value);
    for (const Knob& knob : space.space.knobs()) {
      if (!given.contains(knob.name.c_str())) raise(ErrorCode::E238, "knob " + knob.name + " has no value");
      const nb::object wanted = given[knob.name.c_str()];
      const Decision::List value =
          PyLong_Check(wanted.ptr()) ? Decision::List{nb::cast<int64_t>(wanted)} : nb::cast<Decision::List>(wanted);
      const auto at = std::ranges::find(knob.values, value);
      if (at == knob.values.end()) raise(ErrorCode::E238, "knob " + knob.name + " has no such choice");
      found.push_back(static_cast<size_t>(at - knob.values.begin()));
    }
    return found;
  }
  return take(space.space.at(nb::cast<int64_t>(value)));
}

PyConfigSpace space_of(const PyTemplate& made, const PyFunc& func, nb::handle target) {
  on_owner_thread();
  PyConfigSpace space{made, func.func, to_target(target), {}};
  space.space = take(config_space(made.made, space.workload, space.target));
  return space;
}

}  // namespace

Template template_of(const std::string& name, nb::object body) {
  return {name, [body](TemplateContext& t) -> Result<> {
            const nb::gil_scoped_acquire held;
            Lending<TemplateContext> lending(t);
            PySchedule schedule = new_schedule(Schedule(t.schedule().func()), t.schedule().func());
            schedule.own = nullptr;
            schedule.lent = lending.lease();
            try {
              body(PyContext{lending.lease(), schedule});
            } catch (nb::python_error& error) {
              return tl::unexpected<Diagnostic>(refusal(error));
            }
            return {};
          }};
}

void bind_templates(nb::module_& m) {
  nb::class_<PyContext>(m, "TemplateContext", "What a template's body gets: its schedule, and ways to define knobs.")
      .def_ro("schedule", &PyContext::schedule)
      .def(
          "define_split",
          [](PyContext& t, const std::string& name, const PyLoop& loop, int64_t num_outputs, const std::string& policy,
             int64_t max_factor, bool no_tail, const std::vector<std::vector<int64_t>>& candidates, nb::object filter,
             const std::string& tail) {
            return loops_to_python(t.schedule, define_split(t, name, loop, num_outputs, policy, max_factor, no_tail,
                                                            candidates, filter, tail));
          },
          nb::arg("name"), nb::arg("loop"), nb::arg("num_outputs") = 2, nb::arg("policy") = "factors",
          nb::arg("max_factor") = 0, nb::arg("no_tail") = false, nb::arg("candidates") = nb::list(),
          nb::arg("filter") = nb::none(), nb::arg("tail") = "guard",
          "Splits the loop as the knob says; returns the parts. policy: factors, power2, verbose, candidates.")
      .def(
          "define_reorder",
          [](PyContext& t, const std::string& name, nb::handle loops, const std::string& policy, int64_t begin,
             int64_t end, const std::vector<std::vector<int64_t>>& chains,
             const std::vector<std::vector<int64_t>>& candidates) {
            return loops_to_python(t.schedule, define_reorder(t, name, loops, policy, begin, end, chains, candidates));
          },
          nb::arg("name"), nb::arg("loops"), nb::arg("policy") = "all", nb::arg("begin") = 0, nb::arg("end") = 0,
          nb::arg("chains") = nb::list(), nb::arg("candidates") = nb::list(),
          "Reorders the loops as the knob says; returns them in the new order. policy: identity, all, interval_all, "
          "interleave, candidates.")
      .def("define_annotate", &define_annotate, nb::arg("name"), nb::arg("loops"), nb::arg("policy") = "try_unroll",
           nb::arg("candidates") = nb::list(),
           "Unrolls, vectorizes or makes parallel, as the knob says; returns an annotation for each loop. policy: "
           "unroll, "
           "try_unroll, vectorize, try_vectorize, try_unroll_vectorize, try_parallel, candidates.")
      .def(
          "define_knob",
          [](PyContext& t, const std::string& name, const std::vector<int64_t>& candidates) {
            return take(t.get().define_knob(name, candidates));
          },
          nb::arg("name"), nb::arg("candidates"), "One of the numbers.")
      .def(
          "constrain",
          [](PyContext& t, const std::string& what, nb::callable constraint) {
            t.get().constrain(what, [constraint](const ConfigView& view) {
              const nb::gil_scoped_acquire held;
              Lending<const ConfigView> lending(view);
              return nb::cast<bool>(nb::bool_(constraint(PyConfigView{lending.lease()})));
            });
          },
          nb::arg("what"), nb::arg("constraint"),
          "Leaves out configurations for which constraint(values) is false; values[\"knob\"] is what the knob says.");
  nb::class_<PyConfigView>(m, "ConfigView").def("__getitem__", [](const PyConfigView& view, const std::string& knob) {
    return view.lease->get("a configuration's view")[knob];
  });

  nb::class_<PyConfig>(m, "Config", "A configuration: index, and values by the names of the knobs.")
      .def_ro("index", &PyConfig::index)
      .def_prop_ro("values", [](const PyConfig& c) { return nb::object(c.values.attr("copy")()); })
      .def("__getitem__", [](const PyConfig& c, const std::string& knob) { return nb::object(c.values[knob.c_str()]); })
      .def("__repr__",
           [](const PyConfig& c) { return fmt::format("<Config {}: {}>", c.index, nb::repr(c.values).c_str()); });

  nb::class_<PyConfigSpace>(m, "ConfigSpace", "Every configuration of a template for one program, numbered.")
      .def("__len__",
           [](const PyConfigSpace& s) {
             const int64_t size = s.space.size();
             if (size == INT64_MAX) raise(ErrorCode::E238, "there are more configurations than can be numbered");
             return size;
           })
      .def_prop_ro("knobs",
                   [](const PyConfigSpace& s) {
                     nb::dict knobs;
                     for (const Knob& knob : s.space.knobs()) knobs[nb::str(knob.name.c_str())] = nb::cast(knob.values);
                     return knobs;
                   })
      .def(
          "count", [](const PyConfigSpace& s) { return s.space.count(); }, "How many meet all constraints.")
      .def("__getitem__", &config_at)
      .def(
          "index_of",
          [](const PyConfigSpace& s, nb::handle config) { return take(s.space.index_of(config_of(s, config))); },
          "The index of a configuration that is given by its values.")
      .def(
          "check", [](const PyConfigSpace& s, nb::handle config) { take(s.space.check(config_of(s, config))); },
          "fettle.Error naming the constraint, where one is not met.")
      .def(
          "allowed",
          [](const PyConfigSpace& s, size_t limit) {
            std::vector<int64_t> indices;
            if (limit > 0)
              s.space.enumerate([&](int64_t index, const Config&) {
                indices.push_back(index);
                return indices.size() < limit;
              });
            return indices;
          },
          nb::arg("limit") = 10000, "Indices of the first that meet all constraints.")
      .def(
          "fallback",
          [](const PyConfigSpace& s, const PreferredValues& preferred) {
            return config_at(s, take(s.space.index_of(take(fallback_config(s.space, preferred)))));
          },
          nb::arg("preferred") = nb::dict(), "What to start from: the choices nearest to those that are preferred.")
      .def(
          "apply",
          [](const PyConfigSpace& s, nb::handle config) {
            on_owner_thread();
            const Config chosen = config_of(s, config);
            return new_schedule(take(apply_template(s.made.made, s.workload, s.space, chosen, s.target)), s.workload);
          },
          nb::arg("config"), "The program that a configuration stands for: an index, a Config or a dict of values.")
      .def(
          "decisions",
          [](const PyConfigSpace& s, nb::handle config) {
            const Config chosen = config_of(s, config);
            take(s.space.check(chosen));
            return s.space.decisions(chosen);
          },
          "The decisions of the configuration by address, as a trace has them.")
      .def(
          "find",
          [](const PyConfigSpace& s, const DecisionMap& decisions) {
            return config_at(s, take(s.space.index_of(take(s.space.find(decisions)))));
          },
          "The configuration that has these decisions.");

  nb::class_<PyTemplate>(m, "Template",
                         "A schedule by hand with named knobs: Template(name, body), where body(t) edits t.schedule.")
      .def(
          "__init__",
          [](PyTemplate* self, const std::string& name, nb::callable body) {
            new (self) PyTemplate{template_of(name, std::move(body))};
          },
          nb::arg("name"), nb::arg("body"))
      .def_prop_ro("name", [](const PyTemplate& made) { return made.made.name; })
      .def("space", &space_of, nb::arg("func"), nb::arg("target") = nb::none(),
           "The template's knobs for this program.");
  m.def(
      "builtin_template",
      [](const std::string& name) {
        const TemplateDef* def = find_template(name);
        if (!def) raise(ErrorCode::E709, "there is no template " + name);
        return PyTemplate{as_template(*def)};
      },
      nb::arg("name"), "A template that comes with Fettle.");
  m.def(
      "templates_for",
      [](const PyFunc& func) {
        std::vector<std::string> names;
        for (const TemplateDef* def : templates_for(func.func)) names.emplace_back(def->name);
        return names;
      },
      nb::arg("func"), "The names of the built-in templates that suit the program, best first.");
}

}  // namespace fettle::python
