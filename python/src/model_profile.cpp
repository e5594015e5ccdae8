// When the kernels of a context's calls ran.

#include <nanobind/stl/string.h>

#include "model.h"

namespace fettle::python {
namespace {

void record(void* self, int32_t kernel, int64_t begin_ns, int64_t end_ns) {
  static_cast<KernelTimes*>(self)->push_back({kernel, begin_ns, end_ns});
}

}  // namespace

void bind_model_profile(nb::class_<PyModelContext>& context) {
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
