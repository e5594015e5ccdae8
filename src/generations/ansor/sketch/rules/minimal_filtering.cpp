// Number 9: simplify compute with constant tensor, and special compute location. At the first node of a program whose only
// reduction is a 3x3 convolution of stride 1 with constant weights, where steps know their target: the program by Winograd's
// F(2x2) or F(4x4), over the whole image or in strips (filtered_convolution.h). The product remains to be tiled.
// Each is a computation of its own (SketchState::computation).

#include "generations/ansor/sketch/filtered_convolution.h"
#include "generations/ansor/sketch/sketch.h"

namespace fettle {
namespace {

bool applies(const SketchState& state) {
  return state.options->target && state.derivation.empty() && state.working == state.nodes.size();
}

Result<std::vector<SketchState>> apply(const SketchState& state) {
  std::vector<SketchState> next;
  for (Schedule& s : filtered_by_tiles(state.schedule, state.options->cores)) {
    SketchState filtered = state;
    filtered.nodes = nodes_of(s.func());
    filtered.schedule = std::move(s);
    filtered.computation = next.size() + 1;
    filtered.working = filtered.nodes.size();
    next.push_back(std::move(filtered));
  }
  return next;
}

}  // namespace

extern constinit const DerivationRule minimal_filtering_rule{"minimal_filtering", 9, applies, apply};

}  // namespace fettle
