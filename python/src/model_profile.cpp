// When the kernels of a context's calls ran, and timelines of whole models.

#include <fmt/format.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <cstring>
#include <tuple>

#include "base/output_file.h"
#include "driver/bench.h"
#include "model.h"
#include "model_types.h"
#include "runtime/timeline.h"

namespace fettle::python {
namespace {

void record(void* self, int32_t kernel, int64_t begin_ns, int64_t end_ns) {
  static_cast<KernelTimes*>(self)->push_back({kernel, begin_ns, end_ns});
}

using Bits = nb::ndarray<nb::ro, nb::c_contig, nb::device::cpu>;

/// The model's inputs: those given, by name, element type and bits, and random ones for the others. E704, E705
std::vector<NamedTensor> inputs_of(const Model& model,
                                   const std::vector<std::tuple<std::string, std::string, Bits>>& given) {
  InputShapes shapes;
  for (const auto& [name, dtype, bits] : given)
    shapes[name] = std::vector<int64_t>(bits.shape_ptr(), bits.shape_ptr() + bits.ndim());
  std::vector<NamedTensor> inputs = take(random_inputs(model, 0, shapes));
  for (const auto& [name, dtype, bits] : given) {
    const auto input = std::ranges::find(inputs, name, &NamedTensor::name);  // others have been refused
    Tensor& tensor = input->tensor;
    const std::string wanted = model_dtype_name(tensor.dtype());
    if (dtype != wanted || static_cast<size_t>(tensor.n_bytes()) != bits.nbytes())
      raise(ErrorCode::E705, fmt::format("it is {}, and the model takes {}", dtype, wanted), name);
    std::memcpy(tensor.data(), bits.data(), bits.nbytes());
  }
  return inputs;
}

}  // namespace

void bind_model_profile(nb::class_<PyModel>& model, nb::class_<PyModelContext>& context) {
  model.def("_trace",
            [](const PyModel& p, const std::string& path,
               const std::vector<std::tuple<std::string, std::string, Bits>>& given, int runs, int threads, bool pin) {
              const Model& traced = p.facts->model;
              OutputFile file = take(OutputFile::create(path));
              const std::vector<NamedTensor> inputs = inputs_of(traced, given);
              const auto timeline = [&] {
                nb::gil_scoped_release release;
                return record_timeline(traced, inputs, {.runs = runs, .threads = threads, .pin = pin});
              }();
              take(file.write(to_trace_events(take(timeline), traced.info())));
              take(file.commit());
            });
  context
      .def_prop_ro(
          "_kernels",
          [](const PyModelContext& self) {
            const FettleModelInfo& info = self.caller->facts().model.info();
            nb::list list;
            for (int32_t i = 0; i < info.n_kernels; ++i)
              list.append(nb::make_tuple(std::string(info.kernel_names[i]), std::string(info.kernel_origins[i])));
            return list;
          },
          "(name, the model file's nodes that it does the work of, one a line) of each.")
      .def("_record_kernels",
           [](PyModelContext& self) {
             self.times = std::make_unique<KernelTimes>();
             self.caller->context().set_kernel_hook(&record, self.times.get());
           })
      .def(
          "_take_kernel_times",
          [](PyModelContext& self) {
            nb::list list;
            if (!self.times) return list;
            for (const KernelTime& time : *self.times)
              list.append(nb::make_tuple(time.kernel, time.begin_ns, time.end_ns));
            self.times->clear();
            return list;
          },
          "(kernel, begin, end in monotonic nanoseconds) of each that ran since the last time.");
}

}  // namespace fettle::python
