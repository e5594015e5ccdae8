#pragma once
// Threads of an OpenMP library that the process has loaded, as a team for models.

#include "rt/model_api.h"

namespace fettle {

/// Functions of an OpenMP library. GCC's libgomp has them, and LLVM's and Intel's have them under the same names.
struct OpenMp {
  void (*parallel)(void (*work)(void*), void* data, unsigned threads, unsigned flags);  // GOMP_parallel
  int (*thread_num)();                                                                  // omp_get_thread_num
  int (*num_threads)();  // omp_get_num_threads: of the region that the caller is in
  int (*max_threads)();  // omp_get_max_threads, or whatever tells how many threads a region is to have
};

/// A team of the library's threads: those that its other users have, too. `openmp` must outlive it.
FettleHostTeam openmp_team(const OpenMp& openmp);

}  // namespace fettle
