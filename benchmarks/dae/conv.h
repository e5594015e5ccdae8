#pragma once
// Convolutions on the simulated accelerator: the workload, and its schedule by hand.

#include <cstdint>
#include <string>
#include <vector>

#include "codegen/dae/simulator.h"
#include "schedule/schedule.h"

namespace fettle::bench {

/// A square convolution as the OSDI paper's table 2 lists them ("SAME" padding).
struct DaeLayer {
  std::string name;
  int64_t size;  // height and width of the input
  int64_t in, out, kernel, stride;

  int64_t out_size() const { return (size + stride - 1) / stride; }
  int64_t macs() const { return out_size() * out_size() * in * out * kernel * kernel; }
};

/// How a layer is cut. All divide what they cut.
struct DaeTiles {
  int64_t out = 1, rows = 1, columns = 1;  // of what one thread computes at once: vectors of channels, rows, columns
  int64_t in = 1;                          // vectors of input channels that are loaded at once
  bool threads_in_rows = false;            // virtual threads work side by side in rows; otherwise in output channels
};

/// O = clip(conv(I, W) >> 8) in 8-bit integers with 32-bit sums; channels in vectors of 16, the input padded already:
///   I[in/16, h, w, 16], W[out/16, in/16, kh, kw, 16, 16], O[out/16, h, w, 16]
Func dae_conv(const DaeLayer& layer);

/// Tiles of sums stay in acc while the input channels go by; for each `in` of them, input and weights are loaded. With
/// several threads a tile is theirs, next to each other. `bound`: off, the loop of threads is left as it is, so that
/// all is the same but for the virtual threads.
Result<> schedule_dae_conv(Schedule& s, const DaeTiles& tiles, int64_t threads, bool bound = true);

/// The stream of a layer. Errors as of the primitives and of dae::compile.
Result<dae::Program> compile_dae_conv(const DaeLayer& layer, const DaeTiles& tiles, int64_t threads, bool bound = true);

}  // namespace fettle::bench
