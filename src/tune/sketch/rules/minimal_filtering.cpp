#include "tune/sketch/rules/minimal_filtering.h"

#include "tune/sketch/filtered_convolution.h"

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

constinit const DerivationRule minimal_filtering_rule{"minimal_filtering", 9, applies, apply};

}  // namespace fettle
