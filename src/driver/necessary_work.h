#pragma once
// What every program for a workload has to do.

#include "ir/func.h"

namespace fettle {

struct NecessaryWork {
  double flops = 0;  // of the algorithm with the fewest, 2 for each multiply-add of its contractions
  // On elements of floating point, each in a lane of its own: a multiply-add counts as one, a function (exp, tanh, …)
  // with what it is expanded to. What does not depend on an iterator is worked out once for all of it; the first term
  // of a sum costs nothing, nor does what a sum may start from.
  double operations = 0;
  double products = 0;       // of these, multiplications and multiply-adds, which the same units do
  double read_bytes = 0;     // of parameters, each once; of a table, the rows that are looked up
  double written_bytes = 0;  // of parameters, each once
};
NecessaryWork necessary_work(const Func& workload);

}  // namespace fettle
