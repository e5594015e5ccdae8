// Compiled kernels, called with numpy's arrays: in place where they are aligned and lie as the program has them.

#include <fmt/format.h>

#include <mutex>

#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include "expr.h"
#include "measure/local_kernel.h"
#include "measure/timing.h"
#include "program.h"
#include "schedule.h"

namespace fettle::python {
namespace {

using InputArray = nb::ndarray<nb::ro, nb::c_contig, nb::device::cpu>;
using OutputArray = nb::ndarray<nb::c_contig, nb::device::cpu>;

/// A kernel and what keeps two threads from calling it at once.
struct PyKernel {
  explicit PyKernel(LocalKernel made) : kernel(std::move(made)) {}
  LocalKernel kernel;
  std::mutex mutex;

  int param_index(int index) const {
    if (index < 0 || index >= kernel.n_params())
      raise(ErrorCode::E709, fmt::format("the kernel has {} parameters, no number {}", kernel.n_params(), index));
    return index;
  }
};

// What the array lacks to be the parameter; the Python side has made its dtype right, bf16 as bits.
template <class Array>
void check_array(const LocalKernel& kernel, int index, const Array& array) {
  const BufferNode& buffer = *kernel.param(index).buffer;
  const auto shape = kernel.logical_shape(index);
  bool fits =
      array.ndim() == shape.size() && array.dtype().bits / 8 == static_cast<uint32_t>(buffer.dtype.element_bytes());
  for (size_t d = 0; fits && d < shape.size(); ++d) fits = static_cast<int64_t>(array.shape(d)) == shape[d];
  if (!fits) raise(ErrorCode::E705, fmt::format("parameter {} has another shape or type", buffer.name));
}

bool usable_in_place(const LocalKernel& kernel, int index, const void* data) {
  const auto alignment = static_cast<uintptr_t>(kernel.param(index).buffer->alignment_bytes);
  return kernel.in_callers_order(index) && reinterpret_cast<uintptr_t>(data) % alignment == 0;
}

void set(LocalKernel& kernel, int index, const InputArray& array) {
  const size_t bytes = static_cast<size_t>(kernel.logical_elems(index)) *
                       static_cast<size_t>(kernel.param(index).buffer->dtype.element_bytes());
  kernel.set_logical_bytes(index, {static_cast<const std::byte*>(array.data()), bytes});
}

// inputs: (parameter, array); outputs as well. Returns how many were copied.
int run(PyKernel& self, const std::vector<std::pair<int, InputArray>>& inputs,
        const std::vector<std::pair<int, OutputArray>>& outputs) {
  LocalKernel& kernel = self.kernel;
  for (const auto& [index, array] : inputs) check_array(kernel, self.param_index(index), array);
  for (const auto& [index, array] : outputs) check_array(kernel, self.param_index(index), array);
  int copied = 0;
  Result<> status;
  {
    nb::gil_scoped_release released;
    const std::lock_guard lock(self.mutex);
    std::vector<void*> pointers(static_cast<size_t>(kernel.n_params()), nullptr);
    for (const auto& [index, array] : inputs) {
      if (usable_in_place(kernel, index, array.data())) {
        pointers[static_cast<size_t>(index)] = const_cast<void*>(array.data());
      } else {
        set(kernel, index, array);
        ++copied;
      }
    }
    for (const auto& [index, array] : outputs)
      if (usable_in_place(kernel, index, array.data())) pointers[static_cast<size_t>(index)] = array.data();
    status = kernel.run_on(pointers);
    if (status)
      for (const auto& [index, array] : outputs) {
        if (pointers[static_cast<size_t>(index)]) continue;
        const std::vector<std::byte> bytes = kernel.logical_bytes(index);
        std::copy(bytes.begin(), bytes.end(), static_cast<std::byte*>(array.data()));
        ++copied;
      }
  }
  take(std::move(status));
  return copied;
}

void set_constants(PyKernel& self, const std::vector<std::pair<int, InputArray>>& constants) {
  for (const auto& [index, array] : constants) check_array(self.kernel, self.param_index(index), array);
  nb::gil_scoped_release released;
  const std::lock_guard lock(self.mutex);
  for (const auto& [index, array] : constants) set(self.kernel, index, array);
  const Result<> status = self.kernel.run_prologue();
  if (!status) throw Failure{status.error()};
}

nb::tuple time_kernel(PyKernel& self, double seconds, int64_t flush_bytes) {
  if (!(seconds > 0) || seconds > 600) raise(ErrorCode::E709, "a time to measure for is at most 600 s");
  if (flush_bytes < 0 || flush_bytes > int64_t{1} << 30)
    raise(ErrorCode::E709, "memory to write between calls is at most 1 GiB");
  Timing timing;
  {
    nb::gil_scoped_release released;
    const std::lock_guard lock(self.mutex);
    timing = time_call([&] { return self.kernel.call(); }, {.max_seconds = seconds, .flush_bytes = flush_bytes});
  }
  if (timing.status != 0) raise(ErrorCode::E710, fmt::format("the kernel returned {}", timing.status));
  return nb::make_tuple(timing.median_s, timing.min_s, timing.half_width);
}

}  // namespace

void bind_kernels(nb::module_& m) {
  nb::class_<PyKernel>(m, "KernelBase")
      .def_prop_ro("n_params", [](const PyKernel& k) { return k.kernel.n_params(); })
      .def("_param",
           [](const PyKernel& k, int index) {
             const Param& p = k.kernel.param(k.param_index(index));
             const auto shape = k.kernel.logical_shape(index);
             nb::list extents;
             for (const int64_t n : shape) extents.append(n);
             return nb::make_tuple(p.buffer->name, numpy_name(p.buffer->dtype), nb::tuple(extents),
                                   p.kind == ParamKind::kInput    ? "input"
                                   : p.kind == ParamKind::kOutput ? "output"
                                                                  : "constant");
           })
      .def("_run",
           [](PyKernel& k, nb::list inputs, nb::list outputs) {
             std::vector<std::pair<int, InputArray>> in;
             std::vector<std::pair<int, OutputArray>> out;
             for (nb::handle item : inputs) in.emplace_back(nb::cast<int>(item[0]), nb::cast<InputArray>(item[1]));
             for (nb::handle item : outputs) out.emplace_back(nb::cast<int>(item[0]), nb::cast<OutputArray>(item[1]));
             return run(k, in, out);
           })
      .def("_set",
           [](PyKernel& k, nb::list constants) {
             std::vector<std::pair<int, InputArray>> arrays;
             for (nb::handle item : constants)
               arrays.emplace_back(nb::cast<int>(item[0]), nb::cast<InputArray>(item[1]));
             set_constants(k, arrays);
           })
      .def("_time", &time_kernel)
      .def_prop_ro(
          "threads", [](const PyKernel& k) { return k.kernel.threads(); }, "How many threads it runs on.")
      .def_prop_ro(
          "code_bytes", [](const PyKernel& k) { return k.kernel.code_bytes(); }, "The size of its machine code.");

  m.def(
      "_build",
      [](nb::handle program, nb::handle target, int threads, const std::vector<int64_t>& ints, bool plain) {
        on_owner_thread();
        if (threads < 1 || threads > 1024) raise(ErrorCode::E709, "threads are 1 … 1024");
        PySchedule* schedule = nullptr;
        Func func;
        TargetPtr on;
        if (nb::try_cast(program, schedule) && schedule) {
          func = schedule->get().func();
          if (target.is_none() && schedule->get().target())
            on = std::make_shared<const Target>(*schedule->get().target());
        } else {
          func = nb::cast<PyFunc&>(program).func;
        }
        if (!on) on = to_target(target);
        // A copy that no other thread knows: the kernel keeps its parameters while it runs without the interpreter's
        // lock.
        auto made =
            take(LocalKernel::build(private_copy(func), *on, {.threads = threads, .ints = ints, .plain = plain}));
        return std::make_unique<PyKernel>(std::move(made));
      },
      nb::arg("program"), nb::arg("target").none(), nb::arg("threads"), nb::arg("ints"), nb::arg("plain"));
}

}  // namespace fettle::python
