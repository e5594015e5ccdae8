#pragma once
// How much of the memory's latency virtual threads hide: the experiment of the OSDI paper's section 6.4 and figure 10.

#include <span>
#include <string>

#include "dae/conv.h"

namespace fettle::bench {

/// A convolution of ResNet-18 and how it is cut: for one thread, and for two. Found by `search_dae_tiles`.
struct DaeCase {
  DaeLayer layer;
  DaeTiles one, two;
};
/// C2 … C12 of the paper's table 2. C1 has three channels and stays on the host, as in the paper.
std::span<const DaeCase> dae_cases();

struct DaeFigures {
  dae::Timing one;      // the best tiles for one thread, which may fill the scratchpads alone
  dae::Timing unbound;  // the tiles of two threads, whose loop is a plain one
  dae::Timing two;      // two virtual threads
};
Result<DaeFigures> measure_dae_case(const DaeCase& c);

/// The best of all tiles that fit, by cycles. Takes a while.
Result<DaeTiles> search_dae_tiles(const DaeLayer& layer, int64_t threads);

/// The table of docs/latency-hiding.md.
Result<std::string> dae_table();

}  // namespace fettle::bench
