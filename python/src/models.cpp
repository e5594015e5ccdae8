// Whole models: an ONNX file compiled into this process, or a compiled library, run with numpy's arrays.

#include <fmt/format.h>

#include <cstring>
#include <mutex>

#include <nanobind/ndarray.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include "binding.h"
#include "driver/open.h"

namespace fettle::python {
namespace {

struct PyModel {
  Model model;
  std::mutex mutex;
};

// In the order of FettleDtype; those between are not numpy's.
constexpr std::pair<FettleDtype, const char*> kTypes[] = {
    {FETTLE_F32, "float32"}, {FETTLE_F64, "float64"}, {FETTLE_F16, "float16"}, {FETTLE_BF16, "bfloat16"},
    {FETTLE_I8, "int8"},     {FETTLE_I16, "int16"},   {FETTLE_I32, "int32"},   {FETTLE_I64, "int64"},
    {FETTLE_U8, "uint8"},    {FETTLE_U16, "uint16"},  {FETTLE_U32, "uint32"},  {FETTLE_U64, "uint64"},
    {FETTLE_BOOL, "bool"}};

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

nb::list describe(std::span<const FettleTensor> tensors) {
  nb::list list;
  for (const FettleTensor& t : tensors) {
    nb::list shape;
    for (int32_t d = 0; d < t.rank; ++d) shape.append(t.shape[d]);
    list.append(nb::make_tuple(std::string(t.name), std::string(name_of(t.dtype)), nb::tuple(shape)));
  }
  return list;
}

using InputArray = nb::ndarray<nb::ro, nb::c_contig, nb::device::cpu>;

// inputs: (name, dtype, array). Outputs: (name, dtype, shape, bytes).
nb::list run(PyModel& self, nb::list given) {
  std::vector<NamedTensor> inputs;
  for (nb::handle item : given) {
    const auto array = nb::cast<InputArray>(item[2]);
    std::vector<int64_t> shape;
    for (size_t d = 0; d < array.ndim(); ++d) shape.push_back(static_cast<int64_t>(array.shape(d)));
    Tensor tensor = take(Tensor::make(type_of(nb::cast<std::string>(item[1])), shape));
    if (static_cast<int64_t>(array.nbytes()) != tensor.n_bytes()) raise(ErrorCode::E705, "an array of another type");
    if (tensor.n_bytes() > 0) std::memcpy(tensor.data(), array.data(), array.nbytes());
    inputs.push_back({nb::cast<std::string>(item[0]), std::move(tensor)});
  }
  Result<std::vector<NamedTensor>> outputs;
  {
    nb::gil_scoped_release released;
    const std::lock_guard lock(self.mutex);
    outputs = self.model.run(inputs);
  }
  nb::list list;
  for (const NamedTensor& out : take(std::move(outputs)))
    list.append(nb::make_tuple(
        out.name, std::string(name_of(out.tensor.dtype())), out.tensor.shape(),
        nb::bytes(static_cast<const char*>(out.tensor.data()), static_cast<size_t>(out.tensor.n_bytes()))));
  return list;
}

}  // namespace

void bind_models(nb::module_& m) {
  nb::class_<PyModel>(m, "ModelBase")
      .def_prop_ro(
          "inputs", [](const PyModel& p) { return describe(p.model.inputs()); }, "(name, dtype, shape) of each.")
      .def_prop_ro("outputs", [](const PyModel& p) { return describe(p.model.outputs()); })
      .def("_run", &run);
  m.def(
      "_open_model",
      [](const std::string& path, const InputShapes& shapes, int threads, const std::string& database) {
        on_owner_thread();
        if (threads < 0 || threads > 1024) raise(ErrorCode::E709, "threads are 0 … 1024");
        Model model = take(open_model(path, {.threads = threads, .shapes = shapes, .database = database}));
        return std::unique_ptr<PyModel>(new PyModel{std::move(model), {}});
      },
      nb::arg("path"), nb::arg("shapes"), nb::arg("threads"), nb::arg("database"));
}

}  // namespace fettle::python
