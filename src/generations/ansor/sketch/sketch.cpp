#include "generations/ansor/sketch/sketch.h"

#include <algorithm>
#include <deque>
#include <set>

#include <fmt/format.h>

#include "base/check.h"
#include "ir/visit.h"
#include "schedule/dataflow/dataflow.h"
#include "schedule/primitives/get_block.h"

namespace fettle {
namespace {

// Producers first, in the order of a depth-first walk from the outputs along what each block reads.
class NodeOrder {
 public:
  explicit NodeOrder(const Func& func) : func_(func) {
    for (const Param& param : func->params)
      if (param.kind == ParamKind::kOutput) visit(param.buffer.get());
  }
  std::vector<std::string> take() { return std::move(order_); }

 private:
  void visit(const BufferNode* buffer) {
    const std::vector<const BlockNode*> writers = producers_of(func_.root(), buffer);
    if (writers.empty() && is_param(func_, buffer)) add(buffer->name);
    for (const BlockNode* block : writers) {
      if (!seen_.insert(block).second) continue;
      for (const Region& read : block->reads)
        if (!write_region(*block, read.buffer.get())) visit(read.buffer.get());
      add(block->name);
    }
  }
  void add(const std::string& name) {
    if (std::ranges::find(order_, name) == order_.end()) order_.push_back(name);
  }

  const Func& func_;
  std::set<const BlockNode*> seen_;
  std::vector<std::string> order_;
};

std::vector<const DerivationRule*> ordered_rules(const DeriveOptions& options) {
  std::vector<const DerivationRule*> rules = options.rules;
  if (!rules.empty()) return rules;
  rules.assign(derivation_rules().begin(), derivation_rules().end());
  std::ranges::stable_sort(rules, {}, &DerivationRule::number);
  return rules;
}

// The steps with all sizes left open.
ParsedTrace open_steps(const Schedule& s) {
  ParsedTrace steps = simplify(as_parsed(s.trace()));
  for (ParsedStep& step : steps.steps) step.decision = {};
  return steps;
}

}  // namespace

const BlockNode* SketchState::block() const {
  FETTLE_CHECK(working >= 1 && working <= nodes.size());
  return find_block(schedule.func()->body, nodes[working - 1]);
}

Result<BlockRef> SketchState::working_block() { return get_block(schedule, {.name = nodes[working - 1]}); }

bool SketchState::has_cache_stage() const { return !derivation.empty() && derivation.back() == "add_cache_stage"; }

std::vector<std::string> nodes_of(const Func& func) { return NodeOrder(func).take(); }

SketchState initial_state(const Func& workload, const DeriveOptions& options) {
  SketchState state{.schedule = Schedule(workload), .nodes = nodes_of(workload), .options = &options};
  if (options.target) state.schedule.set_target(options.target);
  state.working = state.nodes.size();
  return state;
}

Result<Derivation> derive_sketches(const Func& workload, const DeriveOptions& options) {
  const std::vector<const DerivationRule*> rules = ordered_rules(options);
  Derivation result;
  std::deque<SketchState> queue = {initial_state(workload, options)};
  for (size_t looked_at = 0; !queue.empty(); ++looked_at) {
    if (looked_at == options.max_states)
      return fail(ErrorCode::E236, fmt::format("more than {}", options.max_states), "derive_sketches");
    const SketchState state = std::move(queue.front());
    queue.pop_front();
    if (state.working == 0) {
      result.sketches.push_back(
          {workload, open_steps(state.schedule), state.derivation, options.target, state.computation});
      continue;
    }
    for (const DerivationRule* rule : rules) {
      if (!rule->applies(state)) continue;
      auto next = rule->apply(state);
      if (!next) {
        result.refused.push_back({std::string(rule->name), state.nodes[state.working - 1], std::move(next).error()});
        continue;
      }
      for (SketchState& follower : *next) {
        follower.derivation.emplace_back(rule->name);
        queue.push_back(std::move(follower));
      }
    }
  }
  return result;
}

Result<Schedule> instantiate(const Sketch& sketch, uint64_t seed, std::shared_ptr<const DecisionMap> decisions) {
  Schedule s(sketch.workload, seed, std::move(decisions));
  if (sketch.target) s.set_target(sketch.target);
  FETTLE_TRY_VOID(replay(s, sketch.steps));
  return s;
}

}  // namespace fettle
