#include "tune/search/known_points.h"

#include "schedule/primitives/sample_categorical.h"

namespace fettle {
namespace {

constexpr size_t kMostNodes = 1 << 14;

// Other samplings depend on the program as it is then.
bool depends_on_args_alone(const Step& step) { return step.def == &sample_categorical_def; }

}  // namespace

std::optional<int64_t> KnownPoints::find(const std::shared_ptr<const DecisionMap>& decisions, uint64_t seed) const {
  if (nodes_.empty()) return std::nullopt;
  Schedule chooser(Func(), seed, decisions);
  for (size_t at = 0;;) {
    const Node& node = nodes_[at];
    if (!node.step) return node.number;
    if (!depends_on_args_alone(*node.step)) return std::nullopt;
    if (!chooser.step_recorded(*node.step->def, node.step->args, node.step->address, {})) return std::nullopt;
    const auto next = node.next.find(chooser.trace().steps.back()->decision);
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
