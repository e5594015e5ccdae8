#pragma once
// Whole models whose sizes are open, beside the same models compiled for one size, and beside other engines.

#include <string>

#include "base/result.h"
#include "harness/report.h"

namespace fettle::bench {

struct OpenModelOptions {
  int sizes = 20;  // of each model, drawn by number
  int from = 0;    // so many of them are left out, the first ones
  int threads = 2;
  double seconds = 1;  // of timing each size
  bool peers = true;   // ONNX Runtime and OpenVINO, which load the model once, too, and keep its sizes open
  std::string only;    // models whose name contains this
};

/// Adds rows: for each model the geometric mean and the worst of open over fixed, and of open over the better engine;
/// then the same over all. Errors: those of compile_source and of running; of peers E708.
Result<> bench_open_models(Report& report, const OpenModelOptions& options);

}  // namespace fettle::bench
