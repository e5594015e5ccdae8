// Number 9: simplify compute with constant tensor, and special compute location. At the first node of a program whose
// only reduction is a 3x3 convolution of stride 1 with constant weights, where steps know their target: the program by
// Winograd's F(2x2) or F(4x4), over the whole image or in strips (sketch/winograd.h). The product remains to be tiled.
// Each is a computation of its own (SketchState::computation).

#include "generations/ansor/sketch/winograd.h"

#include "generations/ansor/sketch/sketch.h"

namespace fettle {
namespace {

bool applies(const SketchState& state) {
  return state.options->target && state.derivation.empty() && state.working == state.nodes.size();
}

Result<std::vector<SketchState>> apply(const SketchState& state) {
  std::vector<SketchState> next;
  for (Schedule& s : winograd_schedules(state.schedule, state.options->cores)) {
    SketchState made = state;
    made.nodes = nodes_of(s.func());
    made.schedule = std::move(s);
    made.computation = next.size() + 1;
    made.working = made.nodes.size();
    next.push_back(std::move(made));
  }
  return next;
}

}  // namespace

extern constinit const DerivationRule winograd_rule{"winograd", 9, applies, apply};

}  // namespace fettle
