#include "tune/search/known_points.h"

#include "schedule/primitives.h"

namespace fettle {
namespace {

constexpr size_t kMostNodes = 1 << 14;

// What the step would decide where it was met with other decisions before; nothing for samplings that depend on more of
// the program than the extent of a loop, which is the product of the factors that were chosen.
std::optional<Decision> decision_of(const Step& step, const std::shared_ptr<const DecisionMap>& decisions,
                                    uint64_t seed) {
  if (step.def == &sample_categorical_def) {
    Schedule chooser(Func(), seed, decisions);
    if (!chooser.step_recorded(*step.def, step.args, step.address, {})) return std::nullopt;
    return chooser.trace().steps.back()->decision;
  }
  if (step.def != &sample_perfect_tile_def) return std::nullopt;
  const auto& args = *static_cast<const SamplePerfectTileArgs*>(step.args.get());
  int64_t extent = 1;
  for (const int64_t factor : step.decision.list()) extent *= factor;
  const Schedule chooser(Func(), seed, decisions);
  return perfect_tile_of(extent, args.n, args.max_innermost, chooser.remembered(step.address),
                         chooser.stream(step.address));
}

}  // namespace

std::optional<int64_t> KnownPoints::find(const std::shared_ptr<const DecisionMap>& decisions, uint64_t seed) const {
  if (nodes_.empty()) return std::nullopt;
  for (size_t at = 0;;) {
    const Node& node = nodes_[at];
    if (!node.step) return node.number;
    const auto decision = decision_of(*node.step, decisions, seed);
    if (!decision) return std::nullopt;
    const auto next = node.next.find(*decision);
    if (next == node.next.end()) return std::nullopt;
    at = next->second;
  }
}

void KnownPoints::add(const Trace& trace, int64_t number) {
  if (nodes_.size() >= kMostNodes) return;
  if (nodes_.empty()) nodes_.emplace_back();
  size_t at = 0;
  bool fresh = nodes_.size() == 1 && !nodes_[0].step && nodes_[0].next.empty();
  for (const auto& step : trace.steps) {
    if (!step->def->samples) continue;
    Node& node = nodes_[at];
    if (fresh) node.step = step;
    // A space whose next question depends on more than the answers so far is not followed further.
    if (!node.step || node.step->def != step->def || node.step->address != step->address) return;
    const auto [next, added] = node.next.emplace(step->decision, nodes_.size());
    at = next->second;
    fresh = added;
    if (added) nodes_.emplace_back();
  }
  if (fresh) nodes_[at].number = number;
}

}  // namespace fettle
