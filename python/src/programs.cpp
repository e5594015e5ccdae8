// Loop programs: text in and out; and targets.

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "base/check.h"
#include "base/hash.h"
#include "expr.h"
#include "generations/ansor/sketch/sketch.h"
#include "ir/compare.h"
#include "ir/text.h"
#include "lower/lower.h"
#include "program.h"
#include "schedule/schedule.h"

namespace fettle::python {

TargetPtr to_target(nb::handle value) {
  if (value.is_none()) {
    static const TargetPtr host = std::make_shared<const Target>(detect_host());
    return host;
  }
  std::string text;
  if (nb::try_cast(value, text)) return std::make_shared<const Target>(take(parse_target(text)));
  return std::make_shared<const Target>(nb::cast<Target>(value));
}

Func private_copy(const Func& func) {
  Result<Func> copy = parse_func(to_text(func));
  FETTLE_CHECK_MSG(copy.has_value(), "a program's text does not parse: " + copy.error().to_string());
  return std::move(*copy);
}

void bind_programs(nb::module_& m) {
  nb::class_<Target>(m, "Target", "What a machine is: parse with fettle.Target(\"host\").")
      .def(
          "__init__",
          [](Target* self, const std::string& text, int threads, int streams) {
            Target target = take(parse_target(text));
            if (threads < 0 || threads > 4096) raise(ErrorCode::E709, "threads are 0 … 4096");
            new (self) Target(take(share_of(std::move(target), streams, threads)));
          },
          nb::arg("text") = "host", nb::arg("threads") = 0, nb::arg("streams") = 1,
          "`streams`: calls at once, of which each has `threads` of its own, by default its share.")
      .def("__repr__", [](const Target& t) { return describe(t); })
      .def_prop_ro("kind", [](const Target& t) { return t.kind; })
      .def_prop_ro("vector_bits", [](const Target& t) { return t.vector_bits; })
      .def_prop_ro("vector_registers", [](const Target& t) { return t.vector_registers; })
      .def_prop_ro("threads", [](const Target& t) { return t.threads; })
      .def_prop_ro("streams", [](const Target& t) { return t.streams; })
      .def_prop_ro("cache_bytes",
                   [](const Target& t) {
                     std::vector<int64_t> sizes;
                     for (const CacheLevel& level : t.caches) sizes.push_back(level.size_bytes);
                     return sizes;
                   })
      .def(
          "has_feature", [](const Target& t, const std::string& name) { return t.has_feature(name); },
          "Whether the processor has it: \"avx512f\".");

  nb::class_<PyFunc>(m, "Func", "A loop program: str() gives its text, and fettle.parse reads it back.")
      .def("__str__", [](const PyFunc& f) { return to_text(f.func); })
      .def("__repr__", [](const PyFunc& f) { return "<fettle.Func " + f.func->name + ">"; })
      .def_prop_ro("name", [](const PyFunc& f) { return f.func->name; })
      .def_prop_ro(
          "params",
          [](const PyFunc& f) {
            nb::list list;
            for (const Param& p : f.func->params) {
              nb::dict param;
              param["name"] = p.buffer->name;
              param["dtype"] = p.buffer->dtype.to_string();
              nb::list shape;
              for (const Expr& e : p.buffer->shape) {
                if (const int64_t* n = as_int(e))
                  shape.append(*n);
                else
                  shape.append(to_text(e));
              }
              param["shape"] = nb::tuple(shape);
              param["kind"] = p.kind == ParamKind::kInput    ? "input"
                              : p.kind == ParamKind::kOutput ? "output"
                                                             : "constant";
              list.append(param);
            }
            return list;
          },
          "Its buffers, in the order in which they are passed: name, dtype, shape, kind.")
      .def(
          "loops", [](const PyFunc& f) { return loops_text(f.func); },
          "The program as a paper prints it: loops and statements, without iterators and regions.")
      .def(
          "same_as", [](const PyFunc& a, const PyFunc& b) { return structural_equal(a.func, b.func); },
          "Whether the other is the same program, names bound inside left aside.");

  m.def(
      "parse",
      [](const std::string& text) {
        on_owner_thread();
        Func func = take(parse_func(text));
        take(check_well_formed(func));
        return PyFunc{std::move(func)};
      },
      nb::arg("text"), "The loop program of that text (docs/loop-language.md).");
  m.def(
      "lower",
      [](const PyFunc& func, nb::handle target) {
        on_owner_thread();
        const LoweredKernel kernel = take(lower(func.func, *to_target(target)));
        return to_text(kernel.kernel);
      },
      nb::arg("func"), nb::arg("target") = nb::none(),
      "The text of what a scheduled program becomes: the nest, its micro-kernels, vectors and masks.");
  m.def(
      "parse_loops",
      [](const std::string& text) {
        on_owner_thread();
        return PyFunc{take(parse_loops(text))};
      },
      nb::arg("text"), "Bare loops over accesses, parameters inferred: \"for i in 100: B[i] = A[i]\".");
}

}  // namespace fettle::python
