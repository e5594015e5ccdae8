// Whole models: an ONNX file compiled into this process, or a compiled library, run with numpy's arrays.

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <variant>

#include <nanobind/ndarray.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/variant.h>
#include <nanobind/stl/vector.h>

#include "binding.h"
#include "driver/open.h"
#include "graph/passes/optional_passes.h"
#include "rt/tensor.h"
#include "runtime/dtype.h"

namespace fettle::python {
namespace {

struct PyModel {
  Model model;
};

struct PyModelContext {
  ModelContext context;
  std::atomic<bool> used{false};  // by another thread, which has let go of the interpreter
  // Of the call that was begun.
  nb::object given;
  std::vector<FettleTensor> outputs;
};

// In the order of FettleDtype; those between are not numpy's.
constexpr std::pair<FettleDtype, const char*> kTypes[] = {{FETTLE_F32, "float32"},
                                                          {FETTLE_F64, "float64"},
                                                          {FETTLE_F16, "float16"},
                                                          {FETTLE_BF16, "bfloat16"},
                                                          {FETTLE_I8, "int8"},
                                                          {FETTLE_I16, "int16"},
                                                          {FETTLE_I32, "int32"},
                                                          {FETTLE_I64, "int64"},
                                                          {FETTLE_U8, "uint8"},
                                                          {FETTLE_U16, "uint16"},
                                                          {FETTLE_U32, "uint32"},
                                                          {FETTLE_U64, "uint64"},
                                                          {FETTLE_BOOL, "bool"},
                                                          {FETTLE_I4, "int4"},
                                                          {FETTLE_U4, "uint4"},
                                                          {FETTLE_I2, "int2"},
                                                          {FETTLE_U2, "uint2"},
                                                          {FETTLE_F8E4M3FN, "float8_e4m3fn"},
                                                          {FETTLE_F8E4M3FNUZ, "float8_e4m3fnuz"},
                                                          {FETTLE_F8E5M2, "float8_e5m2"},
                                                          {FETTLE_F8E5M2FNUZ, "float8_e5m2fnuz"},
                                                          {FETTLE_F8E8M0, "float8_e8m0fnu"},
                                                          {FETTLE_F4E2M1, "float4_e2m1fn"},
                                                          {FETTLE_STRING, "string"}};

const char* name_of(int32_t dtype) {
  for (const auto& [type, name] : kTypes)
    if (type == dtype) return name;
  raise(ErrorCode::E705, fmt::format("a type of number {}", dtype));
}
FettleDtype type_of(const std::string& name) {
  for (const auto& [type, known] : kTypes)
    if (name == known) return type;
  raise(ErrorCode::E705, "models have no " + name);
}

ModelStates outputs_to_inputs(const std::map<std::string, std::string>& given) {
  ModelStates states;
  for (const auto& [past, present] : given)
    if (!states.emplace(present, past).second) raise(ErrorCode::E704, "two states end in it", present);
  return states;
}

/// By the size's name, then "min", "max", "multiple" or "tune_at".
using SizesGiven = std::map<std::string, std::map<std::string, std::variant<int64_t, std::vector<int64_t>>>>;

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
    list.append(nb::make_tuple(std::string(t.name), std::string(name_of(t.dtype)), nb::tuple(shape)));
  }
  return list;
}

using InputArray = nb::ndarray<nb::ro, nb::device::cpu>;

/// numpy's arrays as the runtime takes them, wherever and however they lie.
class Given {
 public:
  /// given: (name, dtype, array) of each; in place of an array of strings, their bytes and where each ends.
  explicit Given(nb::list given) {
    const size_t count = nb::len(given);
    arrays_.reserve(count);
    names_.reserve(count);
    extents_.reserve(2 * count);
    for (nb::handle item : given) {
      FettleTensor tensor{};
      tensor.struct_bytes = sizeof tensor;
      tensor.dtype = type_of(nb::cast<std::string>(item[1]));
      const bool is_string = tensor.dtype == FETTLE_STRING;
      nb::object data = item[2];
      if (is_string) data = data[1];
      const InputArray& array = arrays_.emplace_back(nb::cast<InputArray>(data));
      if (static_cast<int64_t>(array.itemsize()) != (is_string ? 8 : dtype_bytes(tensor.dtype)))
        raise(ErrorCode::E705, "an array of another type");
      tensor.rank = static_cast<int32_t>(array.ndim());
      tensor.name = names_.emplace_back(nb::cast<std::string>(item[0])).c_str();
      tensor.data = const_cast<void*>(array.data());
      std::vector<int64_t>&shape = extents_.emplace_back(), &strides = extents_.emplace_back();
      for (size_t d = 0; d < array.ndim(); ++d) {
        shape.push_back(static_cast<int64_t>(array.shape(d)));
        strides.push_back(static_cast<int64_t>(array.stride(d)));
      }
      tensor.shape = shape.data();
      tensor.strides = strides.data();
      if (is_string) tensor.data = take_strings(nb::cast<nb::bytes>(nb::object(item[2])[0]), array);
      tensors_.push_back(tensor);
    }
  }

  std::span<const FettleTensor> tensors() const { return tensors_; }

 private:
  /// ends: dense.
  FettleString* take_strings(nb::bytes bytes, const InputArray& ends) {
    const char* at = bytes.c_str();
    std::vector<FettleString>& strings = strings_.emplace_back();
    int64_t begin = 0;
    for (size_t i = 0; i < ends.size(); ++i) {
      const int64_t end = static_cast<const int64_t*>(ends.data())[i];
      strings.push_back({at + begin, end - begin});
      begin = end;
    }
    bytes_.push_back(std::move(bytes));
    return strings.data();
  }

  std::vector<nb::bytes> bytes_;
  std::vector<std::vector<FettleString>> strings_;
  std::vector<InputArray> arrays_;
  std::vector<std::string> names_;
  std::vector<std::vector<int64_t>> extents_;
  std::vector<FettleTensor> tensors_;
};

/// One a model's output, without data: the context's memory is copied from.
std::vector<FettleTensor> blank_outputs(const Model& model) { return {model.outputs().begin(), model.outputs().end()}; }

/// A list of str; bytes that are no UTF-8 are escaped, as os.fsdecode does.
nb::list strings_of(const FettleTensor& tensor) {
  nb::list list;
  const auto* strings = static_cast<const FettleString*>(tensor.data);
  const auto count = static_cast<size_t>(fettle_tensor_bytes(&tensor)) / sizeof(FettleString);
  for (size_t i = 0; i < count; ++i)
    list.append(nb::steal(PyUnicode_DecodeUTF8(strings[i].data, strings[i].bytes, "surrogateescape")));
  return list;
}

/// (name, dtype, shape, bytes, or a list of strings)
nb::tuple copied(const FettleTensor& tensor) {
  nb::list shape;
  for (int32_t d = 0; d < tensor.rank; ++d) shape.append(tensor.shape[d]);
  if (tensor.dtype == FETTLE_STRING)
    return nb::make_tuple(std::string(tensor.name), std::string(name_of(tensor.dtype)), nb::tuple(shape),
                          strings_of(tensor));
  return nb::make_tuple(std::string(tensor.name), std::string(name_of(tensor.dtype)), nb::tuple(shape),
                        nb::bytearray(tensor.data, static_cast<size_t>(fettle_tensor_bytes(&tensor))));
}

/// Of each output; what a state takes is not among them: it is strided, and the context's.
nb::list copied(const std::vector<FettleTensor>& outputs) {
  nb::list list;
  for (const FettleTensor& output : outputs)
    if (output.strides == nullptr) list.append(copied(output));
  return list;
}

nb::list run_model(PyModel& self, nb::list arrays) {
  const Given given(std::move(arrays));
  nb::list results;
  const nb::gil_scoped_release released;
  Result<> done = self.model.in_context([&](ModelContext& context) -> Result<> {
    std::vector<FettleTensor> outputs = blank_outputs(self.model);
    FETTLE_TRY_VOID(context.run_on(given.tensors(), outputs));
    const nb::gil_scoped_acquire acquired;
    results = copied(outputs);
    return {};
  });
  const nb::gil_scoped_acquire acquired;
  take(std::move(done));
  return results;
}

/// Keeps other threads from a context.
class Use {
 public:
  explicit Use(PyModelContext& context) : used_(context.used) {
    if (used_.exchange(true)) raise(ErrorCode::E710, "the context is being used by another thread; make one for each");
  }
  Use(const Use&) = delete;
  Use& operator=(const Use&) = delete;
  ~Use() { used_ = false; }

 private:
  std::atomic<bool>& used_;
};

nb::list run_context(PyModelContext& self, nb::list arrays) {
  const Use use(self);
  const Given given(std::move(arrays));
  std::vector<FettleTensor> outputs = blank_outputs(self.context.model());
  Result<> done;
  {
    const nb::gil_scoped_release released;
    done = self.context.run_on(given.tensors(), outputs);
  }
  take(std::move(done));
  return copied(outputs);
}

void begin(PyModelContext& self, nb::list arrays) {
  const Use use(self);
  const Given given(arrays);
  std::vector<FettleTensor> outputs = blank_outputs(self.context.model());
  take(self.context.begin(given.tensors(), outputs));
  self.outputs = std::move(outputs);  // its memory stays where it is
  self.given = std::move(arrays);
}

nb::list wait(PyModelContext& self) {
  Result<> done;
  {
    const nb::gil_scoped_release released;
    done = self.context.wait();
  }
  self.given.reset();
  take(std::move(done));
  return copied(self.outputs);
}

}  // namespace

void bind_models(nb::module_& m) {
  nb::class_<PyModelContext>(m, "ContextBase")
      .def("_run", &run_context)
      .def("_begin", &begin)
      .def("_wait", &wait)
      .def("_cancel", [](PyModelContext& c) { c.context.cancel(); })
      .def("_state",
           [](PyModelContext& c, const std::string& name) {
             const Use use(c);
             const Tensor tensor = take(c.context.state(name));
             return copied(view_of(name.c_str(), tensor));
           })
      .def("_set_state",
           [](PyModelContext& c, const std::string& name, nb::list array) {
             const Use use(c);
             const Given given(std::move(array));
             take(c.context.set_state(name, given.tensors()[0]));
           })
      .def("_reset_states", [](PyModelContext& c) {
        const Use use(c);
        take(c.context.reset_states());
      });
  nb::class_<PyModel>(m, "ModelBase")
      .def_prop_ro(
          "inputs", [](const PyModel& p) { return describe(p.model.inputs()); },
          "(name, dtype, shape) of each; an open extent is the text that it has in the model, or None.")
      .def_prop_ro("outputs", [](const PyModel& p) { return describe(p.model.outputs()); })
      .def_prop_ro(
          "structures",
          [](const PyModel& p) {
            const FettleModelInfo& info = p.model.info();
            nb::list list;
            for (int32_t i = 0; i < info.n_structures; ++i) {
              const FettleStructure& made = *rt::nth(info.structures, i);
              list.append(nb::make_tuple(std::string(made.name), std::string(made.type), made.is_output != 0,
                                         made.first_tensor, made.n_tensors));
            }
            return list;
          },
          "(name, type, whether an output, first tensor, number of tensors) of each that is no tensor.")
      .def("_run", &run_model)
      .def("_context", [](const PyModel& p) {
        return std::unique_ptr<PyModelContext>(new PyModelContext{take(p.model.make_context()), {}, {}, {}});
      });
  m.def(
      "_open_model",
      [](const std::string& path, const InputShapes& shapes, int threads, const std::string& database,
         const SizesGiven& sizes, const std::map<std::string, std::string>& states,
         const std::vector<std::string>& without) {
        on_owner_thread();
        if (threads < 0 || threads > 1024) raise(ErrorCode::E709, "threads are 0 … 1024");
        return std::unique_ptr<PyModel>(
            new PyModel{take(open_model(path, {.threads = threads,
                                               .shapes = shapes,
                                               .database = database,
                                               .sizes = open_sizes(sizes),
                                               .states = outputs_to_inputs(states),
                                               .without = {without.begin(), without.end()}}))});
      },
      nb::arg("path"), nb::arg("shapes"), nb::arg("threads"), nb::arg("database"), nb::arg("sizes"), nb::arg("states"),
      nb::arg("without"));
  m.def("_graph_passes", [] {
    const PassNames names = optional_passes();
    return std::vector<std::string>(names.begin(), names.end());
  });
}

}  // namespace fettle::python
