// Sketches, and rules of derivation written in Python.

#include <fmt/format.h>

#include <array>
#include <utility>

#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "generations/ansor/sketch/conditions.h"
#include "generations/ansor/sketch/sketch.h"
#include "generations/ansor/sketch/sketch_space.h"
#include "program.h"
#include "schedule.h"
#include "space.h"

namespace fettle::python {
namespace {

/// A state of the derivation. Its options belong to the derivation that made it.
struct PyState {
  SketchState state;
  std::shared_ptr<Lease<const DeriveOptions>> lease;
};

// A rule has no place for data, so each Python rule in use takes one of so many functions.
constexpr size_t kRules = 16;
struct RuleSlot {
  nb::object rule;
  std::string name;
  bool used = false;
};
std::array<RuleSlot, kRules>& slots() {
  static auto* made = new std::array<RuleSlot, kRules>;
  return *made;
}

void check_state(const SketchState& state) {
  if (state.working > state.nodes.size())
    raise(ErrorCode::E709, fmt::format("the working node is number {} of {}", state.working, state.nodes.size()));
}

template <size_t n>
bool slot_applies(const SketchState& state) {
  const Lending<const DeriveOptions> lending(*state.options);
  return nb::cast<bool>(nb::bool_(slots()[n].rule.attr("applies")(PyState{state, lending.lease()})));
}

template <size_t n>
Result<std::vector<SketchState>> slot_apply(const SketchState& state) {
  const Lending<const DeriveOptions> lending(*state.options);
  std::vector<SketchState> states;
  try {
    const nb::object made = slots()[n].rule.attr("apply")(PyState{state, lending.lease()});
    for (nb::handle item : made) {
      SketchState next = nb::cast<PyState&>(item).state;
      check_state(next);
      next.options = state.options;
      next.derivation = state.derivation;
      states.push_back(std::move(next));
    }
  } catch (nb::python_error& error) {
    return tl::unexpected<Diagnostic>(refusal(error));
  }
  return states;
}

template <size_t... n>
constexpr auto functions(std::index_sequence<n...>) {
  return std::array{std::pair{&slot_applies<n>, &slot_apply<n>}...};
}

// The slots of one derivation, or of a space.
class RulesInUse {
 public:
  RulesInUse() = default;
  RulesInUse(const RulesInUse&) = delete;
  RulesInUse& operator=(const RulesInUse&) = delete;
  ~RulesInUse() {
    for (size_t n : taken_) slots()[n] = {};
  }
  const DerivationRule* add(nb::handle rule, int number) {
    static constexpr auto kFunctions = functions(std::make_index_sequence<kRules>());
    for (size_t n = 0; n < kRules; ++n) {
      RuleSlot& slot = slots()[n];
      if (slot.used) continue;
      slot = {nb::borrow(rule), nb::cast<std::string>(rule.attr("name")), true};
      taken_.push_back(n);
      rules_.push_back(std::make_unique<DerivationRule>(
          DerivationRule{slot.name, number, kFunctions[n].first, kFunctions[n].second}));
      return rules_.back().get();
    }
    raise(ErrorCode::E709, fmt::format("at most {} rules in use are Python's", kRules));
  }

 private:
  std::vector<size_t> taken_;
  std::vector<std::unique_ptr<DerivationRule>> rules_;
};

/// Options with rules by their names, or Python's own, which stay as long as `in_use`.
DeriveOptions derive_options(nb::handle rules, const std::string& tiling, int64_t max_innermost, size_t max_states,
                             RulesInUse& in_use) {
  DeriveOptions options{.tiling = MultiLevelTiling(tiling), .max_states = max_states};
  options.tiling.max_innermost = max_innermost;
  if (rules.is_none()) return options;
  int number = 1;
  for (nb::handle rule : nb::borrow(rules)) {
    std::string name;
    if (nb::try_cast(rule, name)) {
      const DerivationRule* found = nullptr;
      for (const DerivationRule* known : derivation_rules())
        if (known->name == name) found = known;
      if (!found) raise(ErrorCode::E709, "there is no rule " + name);
      options.rules.push_back(found);
    } else {
      options.rules.push_back(in_use.add(rule, number));
    }
    ++number;
  }
  return options;
}

/// Ansor's space of rules of one's own. Python's rules are one thread's, so it is not cloned.
class RuledSketches : public Space {
 public:
  RuledSketches(nb::handle rules, const std::string& tiling, int64_t max_innermost, size_t max_states)
      : space_(make_sketch_space({.derive = derive_options(rules, tiling, max_innermost, max_states, in_use_),
                                  .equally_likely = EquallyLikely::kChoices})) {}
  std::string name() const override { return space_->name(); }
  bool draws_by_address() const override { return space_->draws_by_address(); }
  std::optional<uint64_t> seed_of_first_drawing(uint64_t seed) const override {
    return space_->seed_of_first_drawing(seed);
  }
  Result<Schedule> generate(const Func& workload, std::shared_ptr<const Target> target, int threads,
                            DecisionSource source, std::shared_ptr<const DecisionMap> decisions) const override {
    return space_->generate(workload, std::move(target), threads, source, std::move(decisions));
  }

 private:
  RulesInUse in_use_;
  std::unique_ptr<Space> space_;
};

nb::tuple derive(const PyFunc& func, nb::handle rules, int cores, const std::string& tiling, int64_t max_innermost,
                 size_t max_states) {
  on_owner_thread();
  if (cores < 1) raise(ErrorCode::E709, "there is at least one core");
  RulesInUse in_use;
  DeriveOptions options = derive_options(rules, tiling, max_innermost, max_states, in_use);
  options.cores = cores;
  Derivation derivation = take(derive_sketches(func.func, options));
  nb::list sketches, refused;
  for (Sketch& sketch : derivation.sketches) sketches.append(std::move(sketch));
  for (const Derivation::Refusal& r : derivation.refused)
    refused.append(nb::make_tuple(r.rule, r.node, r.why.to_string()));
  return nb::make_tuple(sketches, refused);
}

const BlockNode& block_of(const PyState& s) {
  s.lease->get("a state of a derivation");
  check_state(s.state);
  const BlockNode* block = s.state.working > 0 ? s.state.block() : nullptr;
  if (!block) raise(ErrorCode::E709, "the working node is an input, or there is none");
  return *block;
}

}  // namespace

void bind_sketches(nb::module_& m) {
  nb::class_<Sketch>(m, "Sketch", "The high-level structure that a program may get: sizes are still open.")
      .def("__str__", [](const Sketch& s) { return to_text(s); })
      .def_ro("derivation", &Sketch::derivation)
      .def(
          "instantiate",
          [](const Sketch& s, uint64_t seed, nb::handle decisions) {
            on_owner_thread();
            return new_schedule(take(instantiate(s, seed, to_decisions(decisions))), s.workload);
          },
          nb::arg("seed") = 0, nb::arg("decisions") = nb::none(),
          "A point of it: sizes from `decisions`, by address; others drawn.");

  nb::class_<PyState>(m, "SketchState", "A partly derived program and the node that is worked on.")
      .def_prop_ro("nodes", [](const PyState& s) { return s.state.nodes; })
      .def_prop_ro(
          "working", [](const PyState& s) { return s.state.working; },
          "The working node is nodes[working - 1]; 0: the state is terminal.")
      .def_prop_ro("node",
                   [](const PyState& s) {
                     check_state(s.state);
                     return s.state.working > 0 ? s.state.nodes[s.state.working - 1] : std::string();
                   })
      .def_prop_ro("derivation", [](const PyState& s) { return s.state.derivation; })
      .def_prop_ro("is_input",
                   [](const PyState& s) {
                     s.lease->get("a state of a derivation");
                     check_state(s.state);
                     return s.state.working > 0 && !s.state.block();
                   })
      .def_prop_ro("cores", [](const PyState& s) { return s.lease->get("a state of a derivation").cores; })
      .def(
          "schedule", [](const PyState& s) { return new_schedule(s.state.schedule, s.state.schedule.func()); },
          "A copy of its schedule, to be edited and given to next().")
      .def(
          "next",
          [](const PyState& s, nb::handle schedule, nb::handle nodes, nb::handle working) {
            PyState next = s;
            if (!schedule.is_none()) next.state.schedule = nb::cast<PySchedule&>(schedule).get();
            if (!nodes.is_none()) next.state.nodes = nb::cast<std::vector<std::string>>(nodes);
            if (!working.is_none())
              next.state.working = nb::cast<size_t>(working);
            else if (next.state.working > 0)
              --next.state.working;
            check_state(next.state);
            return next;
          },
          nb::arg("schedule") = nb::none(), nb::arg("nodes") = nb::none(), nb::arg("working") = nb::none(),
          "The state after this one: by default the same program, one node on.")
      .def(
          "is_strict_inlinable",
          [](const PyState& s) { return is_strict_inlinable(s.state.schedule.func(), block_of(s)); },
          "Whether the node is elementwise and cheap: it can always be computed where it is read.")
      .def(
          "has_data_reuse", [](const PyState& s) { return has_data_reuse(s.state.schedule.func(), block_of(s)); },
          "Whether elements that the node reads are used again in other places of its output.")
      .def(
          "has_fusible_consumer",
          [](const PyState& s) { return has_fusible_consumer(s.state.schedule.func(), block_of(s)); },
          "Whether exactly one node reads this one, element by element.")
      .def(
          "has_more_reduction_parallel",
          [](const PyState& s) {
            const BlockNode& block = block_of(s);
            return has_more_reduction_parallel(s.state.schedule.func(), block, s.lease->get("a state").cores);
          },
          "Whether there is little to do at once in the spatial dimensions, and much in the reduction.");

  m.def("derive_sketches", &derive, nb::arg("func"), nb::arg("rules") = nb::none(), nb::arg("cores") = 1,
        nb::arg("tiling") = "SSRSRS", nb::arg("max_innermost") = 64, nb::arg("max_states") = 10000);
  m.def(
      "sketches",
      [](nb::handle rules, const std::string& tiling, int64_t max_innermost, size_t max_states) {
        on_owner_thread();
        return PySpace{std::make_shared<RuledSketches>(rules, tiling, max_innermost, max_states)};
      },
      nb::arg("rules") = nb::none(), nb::arg("tiling") = "SSRSRS", nb::arg("max_innermost") = 64,
      nb::arg("max_states") = 10000,
      "Ansor's space, as fettle.space(\"ansor\"), with these rules of derivation: names of built-in ones, or objects "
      "of "
      "one's own.");
  m.def("sketch_rules", [] {
    std::vector<std::string> names;
    for (const DerivationRule* rule : derivation_rules()) names.emplace_back(rule->name);
    return names;
  });
  m.def(
      "multi_level_tiling",
      [](PySchedule& s, const PyBlock& block, const std::string& structure, int64_t max_innermost,
         const std::vector<std::string>& tile_binds) {
        on_owner_thread();
        MultiLevelTiling tiling(structure);
        tiling.max_innermost = max_innermost;
        tiling.tile_binds = tile_binds;
        nb::list levels;
        for (const auto& level : take(tiling.apply(s.get(), BlockRef(checked_ref(block, s)))))
          levels.append(loops_to_python(s, level));
        return levels;
      },
      nb::arg("schedule"), nb::arg("block"), nb::arg("structure") = "SSRSRS", nb::arg("max_innermost") = 64,
      nb::arg("tile_binds") = nb::list());
}

}  // namespace fettle::python
