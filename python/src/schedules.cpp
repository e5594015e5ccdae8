// Schedules: every primitive by its name, its arguments by the names of its fields.

#include "schedule.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>

#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "expr.h"
#include "ir/text.h"
#include "polyhedral/scheduler.h"
#include "program.h"
#include "schedule/state.h"
#include "schedule/trace/explain.h"

namespace fettle::python {
namespace {

[[noreturn]] void bad_argument(nb::handle value) {
  throw nb::type_error(fmt::format("no argument of a step: {}", nb::repr(value).c_str()).c_str());
}

void same_lineage(uint64_t lineage, const PySchedule& schedule) {
  if (lineage != schedule.lineage)
    raise(ErrorCode::E225, "a loop, block or value of one schedule means nothing to another");
}

ArgValue to_argument(nb::handle value, const PySchedule& schedule) {
  PyObject* p = value.ptr();
  if (PyBool_Check(p)) return {value.is(nb::handle(Py_True))};
  if (value.is_none()) return {kInfer};
  if (PyUnicode_Check(p)) return {nb::cast<std::string>(value)};
  if (PyFloat_Check(p)) return {nb::cast<double>(value)};
  if (PyIndex_Check(p)) {
    const nb::object number = nb::steal(PyNumber_Index(p));
    if (!number.is_valid()) throw nb::python_error();
    return {nb::cast<int64_t>(number)};
  }
  PyRef* ref = nullptr;
  if (nb::try_cast(value, ref) && ref) return {checked_ref(*ref, schedule)};
  PyProduct* product = nullptr;
  if (nb::try_cast(value, product) && product) {
    same_lineage(product->lineage, schedule);
    return {ArgValue::Product{product->literal, product->factors}};
  }
  if (PyTuple_Check(p) || PyList_Check(p)) {
    std::vector<ArgValue> items;
    for (nb::handle item : nb::borrow(value)) items.push_back(to_argument(item, schedule));
    return {std::move(items)};
  }
  bad_argument(value);
}

// One step; its results in a list.
nb::list run_step(const PySchedule& schedule, const std::string& name, nb::dict given) {
  on_owner_thread();
  Schedule& s = schedule.get();
  const PrimitiveDef* def = find_primitive(name);
  if (!def) raise(ErrorCode::E224, "there is no primitive " + name);
  std::vector<std::string> names;
  names.reserve(nb::len(given));
  std::vector<NamedArg> args;
  for (auto [key, value] : given) {
    names.push_back(nb::cast<std::string>(key));
    args.push_back({names.back(), to_argument(value, schedule)});
  }
  const auto made = take(def->from_args(args));
  const int step = take(s.step_erased(*def, made));
  nb::list results;
  const auto& outputs = s.trace().steps[static_cast<size_t>(step)]->outputs;
  for (size_t i = 0; i < outputs.size(); ++i)
    results.append(to_python(schedule, {step, static_cast<int32_t>(i)}, outputs[i]));
  return results;
}

// name → (fields, samples, queries, version)
nb::dict primitives() {
  nb::dict table;
  for (const PrimitiveDef* def : primitive_defs()) {
    nb::list fields;
    const auto defaults = take(def->from_args({}));
    for (const NamedArg& arg : def->to_args(defaults.get())) fields.append(nb::str(arg.name.data(), arg.name.size()));
    table[nb::str(def->name.data(), def->name.size())] =
        nb::make_tuple(nb::tuple(fields), def->samples, def->queries, def->version);
  }
  return table;
}

// "(i, j) -> (i // 16, j, i % 16)" from a function.
std::string index_map_text(nb::callable fn, const std::vector<std::string>& names) {
  IndexMap map;
  nb::list args;
  for (const std::string& name : names) {
    map.inputs.push_back(make_var(checked_name(name, "an index")));
    args.append(PyExpr{map.inputs.back(), 1});
  }
  const nb::object result = fn(*nb::tuple(args));
  const nb::object list =
      PyTuple_Check(result.ptr()) || PyList_Check(result.ptr()) ? result : nb::object(nb::make_tuple(result));
  for (nb::handle item : list) map.outputs.push_back(to_index(item, "an index").expr);
  return std::get<std::string>(to_arg(map).value);
}

PyProduct times(nb::handle a, nb::handle b) {
  PyProduct result;
  bool named = false;
  const auto multiply = [&](nb::handle x) {
    PyValue* value = nullptr;
    PyProduct* product = nullptr;
    if (nb::try_cast(x, value) && value) {
      if (named && result.lineage != value->lineage) raise(ErrorCode::E225, "values of two schedules are multiplied");
      result.factors.push_back(value->ref);
      result.lineage = value->lineage;
      named = true;
    } else if (nb::try_cast(x, product) && product) {
      if (named && result.lineage != product->lineage) raise(ErrorCode::E225, "values of two schedules are multiplied");
      if (__builtin_mul_overflow(result.literal, product->literal, &result.literal))
        raise(ErrorCode::E224, "a product of integers does not fit into 64 bits");
      result.factors.insert(result.factors.end(), product->factors.begin(), product->factors.end());
      result.lineage = product->lineage;
      named = true;
    } else if (PyIndex_Check(x.ptr())) {
      if (__builtin_mul_overflow(result.literal, nb::cast<int64_t>(x), &result.literal))
        raise(ErrorCode::E224, "a product of integers does not fit into 64 bits");
    } else {
      bad_argument(x);
    }
  };
  multiply(a);
  multiply(b);
  return result;
}

template <class Ref>
Ref typed(PyRef ref) {
  Ref result;
  static_cast<PyRef&>(result) = ref;
  return result;
}

template <class Ref>
void bind_ref(nb::module_& m, const char* name, const char* doc) {
  nb::class_<Ref, PyRef>(m, name, doc)
      .def("__repr__",
           [name](const Ref& r) { return fmt::format("<{} {} of step {}>", name, r.ref.output, r.ref.step); })
      .def("__eq__",
           [](const Ref& a, nb::handle b) {
             PyRef* other = nullptr;
             return nb::try_cast(b, other) && other && other->ref == a.ref && other->lineage == a.lineage;
           })
      .def("__hash__", [](const Ref& r) { return static_cast<int64_t>(r.ref.step) * 1009 + r.ref.output; });
}

std::string one_block(const BlockNode& block) { return block.name; }

std::vector<std::string> block_names(const Func& func) {
  std::vector<std::string> names;
  const auto visit = [&](const auto& self, const Stmt& s) -> void {
    if (!s) return;
    if (const auto* block = s.as<BlockNode>()) {
      if (block != func->body.get()) names.push_back(one_block(*block));
      self(self, block->body);
    } else if (const auto* loop = s.as<ForNode>()) {
      self(self, loop->body);
    } else if (const auto* list = s.as<SeqNode>()) {
      for (const Stmt& child : list->stmts) self(self, child);
    } else if (const auto* branch = s.as<IfNode>()) {
      self(self, branch->then_body);
      self(self, branch->else_body);
    } else if (const auto* let = s.as<LetNode>()) {
      self(self, let->body);
    } else if (const auto* loop_while = s.as<WhileNode>()) {
      self(self, loop_while->body);
    }
  };
  visit(visit, func->body);
  return names;
}

}  // namespace

Schedule& PySchedule::get() const { return lent ? lent->get("the schedule of a template").schedule() : *own; }

PySchedule new_schedule(Schedule schedule, const Func& original) {
  static std::atomic<uint64_t> lineages{0};
  return {std::make_shared<Schedule>(std::move(schedule)), nullptr, std::make_shared<const Func>(original), ++lineages};
}

StepRef checked_ref(const PyRef& ref, const PySchedule& schedule) {
  same_lineage(ref.lineage, schedule);
  return ref.ref;
}

nb::object to_python(const PySchedule& schedule, StepRef ref, const StepOutput& output) {
  if (std::holds_alternative<Var>(output)) return nb::cast(typed<PyLoop>({PyRef::Kind::kLoop, ref, schedule.lineage}));
  if (std::holds_alternative<std::string>(output))
    return nb::cast(typed<PyBlock>({PyRef::Kind::kBlock, ref, schedule.lineage}));
  return nb::cast(typed<PyValue>({PyRef::Kind::kValue, ref, schedule.lineage}));
}

nb::list loops_to_python(const PySchedule& schedule, const std::vector<LoopRef>& loops) {
  nb::list list;
  for (const LoopRef& loop : loops) list.append(typed<PyLoop>({PyRef::Kind::kLoop, loop, schedule.lineage}));
  return list;
}

Decisions to_decisions(nb::handle value) {
  if (value.is_none()) return nullptr;
  return std::make_shared<const DecisionMap>(nb::cast<DecisionMap>(value));
}

namespace {

template <class Choice, size_t n>
Choice one_of(const std::array<std::string_view, n>& names, const std::string& name) {
  const auto found = std::ranges::find(names, name);
  if (found == names.end()) raise(ErrorCode::E709, fmt::format("'{}' is none of {}", name, fmt::join(names, ", ")));
  return static_cast<Choice>(found - names.begin());
}

void order_blocks(const PySchedule& schedule, const std::vector<std::string>& blocks, const std::string& fusion,
                  bool skewing, bool positive_orthant, const std::vector<int64_t>& tiles, const std::string& tile_order,
                  int64_t unroll, int64_t lanes, bool parallel) {
  on_owner_thread();
  PolyhedralOptions options;
  options.blocks = blocks;
  options.fusion = one_of<FusionStrategy>(kFusionNames, fusion);
  options.allow_skewing = skewing;
  options.positive_orthant = positive_orthant;
  options.tiles.assign(tiles.begin(), tiles.end());
  options.tile_order = one_of<TileOrder>(kTileOrderNames, tile_order);
  options.unroll = unroll;
  options.lanes = lanes;
  options.parallel = parallel;
  take(reschedule_program(schedule.get(), options));
}

}  // namespace

void bind_schedules(nb::module_& m) {
  nb::class_<PyRef>(m, "Ref");
  bind_ref<PyLoop>(m, "Loop", "A loop, as a step returned it.");
  bind_ref<PyBlock>(m, "Block", "A block, as a step returned it.");
  bind_ref<PyValue>(m, "Value", "An integer that a step drew or found; may be multiplied.");
  nb::class_<PyProduct>(m, "Product", "Integers multiplied.");
  for (const char* name : {"Value", "Product"}) {
    nb::object cls = m.attr(name);
    cls.attr("__mul__") = nb::cpp_function(&times, nb::is_method(), nb::scope(cls), nb::name("__mul__"));
    cls.attr("__rmul__") = nb::cpp_function([](nb::handle b, nb::handle a) { return times(a, b); }, nb::is_method(),
                                            nb::scope(cls), nb::name("__rmul__"));
  }
  m.def("primitives", &primitives);
  m.def("index_map_text", &index_map_text);

  nb::class_<PySchedule>(m, "Schedule", "A program, and the steps that led to it.")
      .def(
          "__init__",
          [](PySchedule* self, const PyFunc& func, nb::handle target, uint64_t seed, nb::handle decisions) {
            on_owner_thread();
            Schedule schedule(func.func, seed, to_decisions(decisions));
            if (!func.func->body.as<BlockNode>())
              raise(ErrorCode::E102, "a lowered program has no root block to schedule", func.func->name);
            schedule.set_target(to_target(target));
            new (self) PySchedule(new_schedule(std::move(schedule), func.func));
          },
          nb::arg("func"), nb::arg("target") = nb::none(), nb::arg("seed") = 0, nb::arg("decisions") = nb::none())
      .def("_step", &run_step)
      .def_prop_ro(
          "func", [](const PySchedule& s) { return PyFunc{s.get().func()}; }, "The program as it is now.")
      .def_prop_ro(
          "original", [](const PySchedule& s) { return PyFunc{*s.original}; }, "The program before the first step.")
      .def_prop_ro(
          "trace", [](const PySchedule& s) { return to_text(s.get().trace()); }, "The steps so far, as text.")
      .def_prop_ro("trace_json", [](const PySchedule& s) { return to_json(s.get().trace()); })
      .def_prop_ro(
          "steps", [](const PySchedule& s) { return s.get().trace().size(); }, "How many steps.")
      .def_prop_ro("seed", [](const PySchedule& s) { return s.get().seed(); })
      .def_prop_ro(
          "decisions", [](const PySchedule& s) { return s.get().decisions(); }, "What was sampled, by address.")
      .def(
          "show", [](const PySchedule& s) { return show(s.get()); }, "The program as it is now, and the steps.")
      .def("__str__", [](const PySchedule& s) { return to_text(s.get().func()); })
      .def(
          "copy",
          [](const PySchedule& s) {
            PySchedule copy = s;
            copy.own = std::make_shared<Schedule>(s.get());
            copy.lent = nullptr;
            return copy;
          },
          "The same program and steps; loops and blocks of this one are good for the copy, too.")
      .def("__copy__",
           [](const PySchedule& s) {
             PySchedule copy = s;
             copy.own = std::make_shared<Schedule>(s.get());
             copy.lent = nullptr;
             return copy;
           })
      .def(
          "fork_seed", [](const PySchedule& s, uint64_t number) { return fork_seed(s.get(), number); },
          nb::arg("number") = 0, "A seed for draws that are independent of this schedule's own.")
      .def(
          "fork",
          [](const PySchedule& s, uint64_t number) {
            on_owner_thread();
            PySchedule forked = s;
            forked.own = std::make_shared<Schedule>(take(fork(s.get(), *s.original, number)));
            forked.lent = nullptr;
            return forked;
          },
          nb::arg("number"), "The same steps and decisions; what is sampled from here on is drawn from another seed.")
      .def(
          "set_address_prefix",
          [](const PySchedule& s, std::string prefix) { s.get().set_address_prefix(std::move(prefix)); },
          nb::arg("prefix"), "What the addresses of the next decisions begin with.")
      .def(
          "value",
          [](const PySchedule& s, nb::handle value) {
            IntRef ref;
            if (!from_arg(to_argument(value, s), ref)) bad_argument(value);
            return take(s.get().value(ref));
          },
          "The number that a sampled value stands for.")
      .def(
          "loop_name",
          [](const PySchedule& s, const PyLoop& loop) {
            return take(s.get().loop_var(LoopRef(checked_ref(loop, s))))->name;
          },
          nb::arg("loop"), "The name of its variable.")
      .def(
          "extent",
          [](const PySchedule& s, const PyLoop& loop) -> std::optional<int64_t> {
            const Stmt stmt = take(s.get().loop(LoopRef(checked_ref(loop, s))));
            const int64_t* n = as_int(stmt.as<ForNode>()->extent);
            return n ? std::optional(*n) : std::nullopt;
          },
          "Iterations of the loop; None where they are no constant.")
      .def(
          "block_name",
          [](const PySchedule& s, const PyBlock& block) {
            return take(s.get().block(BlockRef(checked_ref(block, s)))).as<BlockNode>()->name;
          },
          nb::arg("block"), "Its name.")
      .def(
          "iter_kinds",
          [](const PySchedule& s, const PyBlock& block) {
            const Stmt stmt = take(s.get().block(BlockRef(checked_ref(block, s))));
            std::vector<std::string> kinds;
            for (const IterVar& iter : stmt.as<BlockNode>()->iters)
              kinds.push_back(std::get<std::string>(to_arg(iter.kind).value));
            return kinds;
          },
          "\"spatial\", \"reduce\", …: one for each of the block's iterators.")
      .def_prop_ro(
          "block_names", [](const PySchedule& s) { return block_names(s.get().func()); },
          "Of the program as it is now, in its order.")
      .def("order_blocks", &order_blocks, nb::arg("blocks") = std::vector<std::string>(), nb::kw_only(),
           nb::arg("fusion") = "preserve_3_coincident", nb::arg("skewing") = true, nb::arg("positive_orthant") = false,
           nb::arg("tiles") = std::vector<int64_t>(), nb::arg("tile_order") = "in_turn", nb::arg("unroll") = 1,
           nb::arg("lanes") = 1, nb::arg("parallel") = false,
           "Adds the steps of an order that isl's scheduler finds, by the options of Tensor Comprehensions. Of these "
           "blocks, or of all.")
      .def(
          "replay",
          [](const PySchedule& s, const std::string& trace) {
            on_owner_thread();
            const auto parsed =
                take(trace.starts_with("[") || trace.starts_with("{") ? trace_from_json(trace) : parse_trace(trace));
            Schedule copy = s.get();
            take(replay(copy, parsed));
            s.get() = std::move(copy);
          },
          nb::arg("trace"), "Runs the steps of a trace, given as text or JSON; on an error nothing has changed.");

  m.def(
      "explain_trace",
      [](const PyFunc& func, const std::string& trace, nb::handle target) {
        on_owner_thread();
        Schedule start(func.func);
        start.set_target(to_target(target));
        return to_text(explain_trace(start, take(parse_trace(trace))));
      },
      nb::arg("func"), nb::arg("trace"), nb::arg("target") = nb::none(),
      "The program after each step, and for a step that is refused the smallest trace that shows it.");
  m.def(
      "simplify_trace",
      [](const PyFunc& func, const std::string& trace) {
        on_owner_thread();
        Schedule s(func.func);
        take(replay(s, simplify(take(parse_trace(trace)))));
        return to_text(s.trace());
      },
      nb::arg("func"), nb::arg("trace"), "The trace without steps whose results nothing uses.");
}

}  // namespace fettle::python
