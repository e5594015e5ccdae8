// Prints how fast the peer library runs each operator of the core benchmark, against this machine's peak in the same
// run.
//   peers_selftest [--threads N] [--seconds S]

#include <fmt/format.h>

#include <cstdlib>
#include <cstring>

#include "harness/onednn.h"
#include "harness/paired.h"
#include "harness/shapes.h"

using namespace fettle;
using namespace fettle::bench;

int main(int argc, char** argv) {
  int threads = 1;
  double seconds = 1;
  for (int i = 1; i + 1 < argc; i += 2) {
    if (!std::strcmp(argv[i], "--threads")) threads = std::atoi(argv[i + 1]);
    if (!std::strcmp(argv[i], "--seconds")) seconds = std::atof(argv[i + 1]);
  }
  PeakMeter peak(threads);
  fmt::print("oneDNN {}, {} thread(s), vectors of {}\n", onednn_version(), threads, peak_isa());
  fmt::print("{:<22} {:>9} {:>8} {:>7} {:>6} {:>7} {:>7}  {}\n", "shape", "ms", "GFLOP/s", "% peak", "+-%", "peak",
             "rounds", "kernel");
  bool failed = false;
  for (const Shape& shape : core_shapes()) {
    auto op = shape.conv ? OnednnOp::convolution(*shape.conv, threads) : OnednnOp::matmul(*shape.matmul, threads);
    if (!op) {
      fmt::print("{:<22} {}\n", shape.name, op.error().to_string());
      failed = true;
      continue;
    }
    const Contender contenders[] = {op->contender()};
    const auto result = time_paired(contenders, peak, {.time_limit_s = seconds});
    if (!result) {
      fmt::print("{:<22} {}\n", shape.name, result.error().to_string());
      failed = true;
      continue;
    }
    const Estimate share = result->of_peak(0);
    fmt::print("{:<22} {:>9.4f} {:>8.1f} {:>7.1f} {:>6.2f} {:>7.1f} {:>3}/{:<3}  {}{}\n", shape.name,
               result->time_ns(0).median * 1e-6, result->gflops(0), 100 * share.median, 100 * share.half_width,
               result->peak_gflops().median, result->rounds.size(), result->rounds.size() + result->discarded,
               op->implementation(), result->disturbed ? "  (disturbed)" : "");
    std::fflush(stdout);
  }
  return failed ? 1 : 0;
}
