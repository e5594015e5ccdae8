// Threads that another library of the process has, by the addresses of its functions.

#include "binding.h"
#include "team.h"

namespace fettle::python {

void bind_teams(nb::module_& m) {
  nb::class_<PyTeam>(m, "TeamBase")
      .def(
          "__init__",
          [](PyTeam* self, uintptr_t parallel, uintptr_t thread_num, uintptr_t num_threads, uintptr_t max_threads) {
            const auto* openmp = new OpenMp{
                .parallel = reinterpret_cast<decltype(OpenMp::parallel)>(parallel),
                .thread_num = reinterpret_cast<decltype(OpenMp::thread_num)>(thread_num),
                .num_threads = reinterpret_cast<decltype(OpenMp::num_threads)>(num_threads),
                .max_threads = reinterpret_cast<decltype(OpenMp::max_threads)>(max_threads),
            };
            new (self) PyTeam{openmp};
          },
          nb::arg("parallel"), nb::arg("thread_num"), nb::arg("num_threads"), nb::arg("max_threads"))
      .def_prop_ro(
          "size", [](const PyTeam& self) { return openmp_team(*self.openmp).size(const_cast<OpenMp*>(self.openmp)); },
          "How many threads a model may use that is called from this thread.");
}

}  // namespace fettle::python
