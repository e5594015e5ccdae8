// Whole models: an ONNX file compiled into this process, or a compiled library, run with numpy's arrays.

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <variant>

#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/variant.h>
#include <nanobind/stl/vector.h>

#include "driver/cache.h"
#include "driver/open.h"
#include "graph/passes/optional_passes.h"
#include "model.h"
#include "model_options.h"
#include "model_source.h"
#include "model_types.h"
#include "rt/tensor.h"
#include "team.h"

namespace fettle::python {
namespace {

ModelStates outputs_to_inputs(const std::map<std::string, std::string>& given) {
  ModelStates states;
  for (const auto& [past, present] : given)
    if (!states.emplace(present, past).second) raise(ErrorCode::E704, "two states end in it", present);
  return states;
}

/// Any object's bytes, as long as it lives.
class ByteView {
 public:
  explicit ByteView(nb::handle object) {
    if (PyObject_GetBuffer(object.ptr(), &view_, PyBUF_SIMPLE) != 0) throw nb::python_error();
  }
  ByteView(const ByteView&) = delete;
  ByteView& operator=(const ByteView&) = delete;
  ~ByteView() { PyBuffer_Release(&view_); }
  std::span<const std::byte> bytes() const {
    return {static_cast<const std::byte*>(view_.buf), static_cast<size_t>(view_.len)};
  }

 private:
  Py_buffer view_;
};

nb::list describe(std::span<const FettleTensor> tensors) {
  nb::list list;
  for (const FettleTensor& t : tensors) {
    nb::list shape;
    for (int32_t d = 0; d < t.rank; ++d) {
      if (t.shape[d] >= 0)
        shape.append(t.shape[d]);
      else if (t.axis_names && t.axis_names[d])
        shape.append(std::string(t.axis_names[d]));
      else
        shape.append(nb::none());
    }
    list.append(nb::make_tuple(std::string(t.name), std::string(model_dtype_name(t.dtype)), nb::tuple(shape)));
  }
  return list;
}

}  // namespace

OpenSizes open_sizes(const SizesGiven& given) {
  OpenSizes sizes;
  for (const auto& [name, facts] : given) {
    SizeFacts& made = sizes[name];
    for (const auto& [fact, values] : facts) {
      if (fact == "tune_at") {
        if (const auto* points = std::get_if<std::vector<int64_t>>(&values)) {
          made.points = *points;
        } else {
          made.points = {std::get<int64_t>(values)};
        }
        if (std::ranges::any_of(made.points, [](int64_t point) { return point < 1; }))
          raise(ErrorCode::E709, fact + " is too small", name);
        continue;
      }
      std::optional<int64_t>* place = fact == "min"        ? &made.min
                                      : fact == "max"      ? &made.max
                                      : fact == "multiple" ? &made.divisor
                                                           : nullptr;
      if (!place)
        raise(ErrorCode::E709, fmt::format("a size has min, max, multiple and tune_at, but no \"{}\"", fact), name);
      const auto* value = std::get_if<int64_t>(&values);
      if (!value || *value < (fact == "multiple")) raise(ErrorCode::E709, fact + " is too small, or no number", name);
      *place = *value;
    }
  }
  return sizes;
}

void check_threads(int threads) {
  if (threads < 0 || threads > 1024) raise(ErrorCode::E709, "threads are 0 … 1024");
}
void check_streams(int streams) {
  if (streams < 0 || streams > 256) raise(ErrorCode::E709, "streams are 1 … 256, or 0 for the default");
}

void bind_models(nb::module_& m) {
  nb::class_<PyModelContext> context(m, "ContextBase");
  nb::class_<PyModel> model(m, "ModelBase");
  model
      .def_prop_ro(
          "inputs", [](const PyModel& p) { return describe(p.facts->model.inputs()); },
          "(name, dtype, shape) of each; an open extent is the text that it has in the model, or None.")
      .def_prop_ro("outputs", [](const PyModel& p) { return describe(p.facts->model.outputs()); })
      .def_prop_ro(
          "structures",
          [](const PyModel& p) {
            const FettleModelInfo& info = p.facts->model.info();
            nb::list list;
            for (int32_t i = 0; i < info.n_structures; ++i) {
              const FettleStructure& made = *rt::nth(info.structures, i);
              list.append(nb::make_tuple(std::string(made.name), std::string(made.type), made.is_output != 0,
                                         made.first_tensor, made.n_tensors));
            }
            return list;
          },
          "(name, type, whether an output, first tensor, number of tensors) of each that is no tensor.")
      .def_prop_ro("_info",
                   [](const PyModel& p) {
                     const FettleModelInfo& info = p.facts->model.info();
                     nb::dict made;
                     made["name"] = std::string(info.name);
                     nb::list kernels;
                     for (int32_t k = 0; k < info.n_kernels; ++k) kernels.append(std::string(info.kernel_names[k]));
                     made["kernels"] = kernels;
                     made["arena_bytes"] = info.arena_bytes;
                     made["target"] = p.facts->model.target_name();
                     return made;
                   })
      .def("_context", [](const PyModel& p) {
        return std::unique_ptr<PyModelContext>(new PyModelContext{.caller = std::make_unique<Caller>(p.facts)});
      });
  bind_model_calls(model, context);
  bind_model_profile(model, context);
  const auto open = [](const PySource& source, const InputShapes& shapes, int threads, int streams,
                       const std::string& database, const SizesGiven& sizes,
                       const std::map<std::string, std::string>& states, const std::vector<std::string>& without,
                       bool keep_denormals, bool cache, const std::vector<std::string>& vendor,
                       const std::string& target, const PyTeam* team) {
    check_threads(threads);
    check_streams(streams);
    const FettleHostTeam host_team = team ? openmp_team(*team->openmp) : FettleHostTeam{};
    std::vector<std::string> warnings;
    const OpenOptions options{.threads = threads,
                              .streams = streams,
                              .target = target,
                              .shapes = shapes,
                              .database = database,
                              .warn = [&](const std::string& text) { warnings.push_back(text); },
                              .keep_denormals = keep_denormals,
                              .sizes = open_sizes(sizes),
                              .states = outputs_to_inputs(states),
                              .without = {without.begin(), without.end()},
                              .host_team = team ? &host_team : nullptr,
                              .kernel_sources = take(kernel_sources_named(vendor))};
    // Other threads of Python go on while the model is compiled.
    auto model = [&] {
      const nb::gil_scoped_release released;
      return cache ? open_cached_model(source.source, options) : open_model(source.source, options);
    }();
    for (const std::string& text : warnings)
      if (PyErr_WarnEx(PyExc_RuntimeWarning, text.c_str(), 2) != 0) throw nb::python_error();
    return std::make_unique<PyModel>(facts_of(take(std::move(model))));
  };
  m.def("_open_model", open, nb::arg("source"), nb::arg("shapes"), nb::arg("threads"), nb::arg("streams"),
        nb::arg("database"), nb::arg("sizes"), nb::arg("states"), nb::arg("without"), nb::arg("keep_denormals"),
        nb::arg("cache"), nb::arg("vendor"), nb::arg("target"), nb::arg("team").none());
  nb::class_<PySource>(m, "ModelSource");
  m.def(
      "_source_of_path",
      [](const std::string& path, const std::string& function) { return PySource{ModelFile(path, function)}; },
      nb::arg("path"), nb::arg("function"));
  m.def(
      "_source_of_bytes",
      [](nb::handle bytes, const std::optional<std::string>& folder) {
        const ByteView view(bytes);
        return PySource{take(parse_onnx(view.bytes(), folder, "model"))};
      },
      nb::arg("bytes"), nb::arg("folder").none());
  m.def("_graph_passes", [] {
    const PassNames names = optional_passes();
    return std::vector<std::string>(names.begin(), names.end());
  });
}

}  // namespace fettle::python
