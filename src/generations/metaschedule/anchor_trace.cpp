#include "generations/metaschedule/anchor_trace.h"

#include <algorithm>
#include <set>

#include "analysis/verify.h"
#include "ir/visit.h"
#include "schedule/dataflow/dataflow.h"
#include "schedule/primitives.h"
#include "schedule/trace/trace_refs.h"

namespace fettle {
namespace {

double points_of(const BlockNode& block) {
  double points = block.init ? 1e15 : 1;
  for (const IterVar& iter : block.iters)
    if (const int64_t* extent = as_int(iter.extent)) points *= static_cast<double>(*extent);
  return points;
}

std::vector<std::string> names_of(const Func& func) {
  std::vector<std::string> names;
  for (const BlockNode* block : blocks_of(func.root())) names.push_back(block->name);
  return names;
}

class AnchorReplay {
 public:
  AnchorReplay(Schedule& schedule, std::string from, std::string to)
      : schedule_(schedule), from_(std::move(from)), to_(std::move(to)) {}

  void run(const ParsedTrace& trace) {
    for (const ParsedStep& step : trace.steps) number_.push_back(apply(step));
  }

 private:
  // The step's number in the schedule; negative: it was left out.
  int32_t apply(const ParsedStep& step) {
    if (step.def == &get_block_def) {
      // Blocks of the origin alone are not known here by their names, even where a block here has the same.
      const auto& args = *static_cast<const GetBlockArgs*>(step.args.get());
      if (args.name != from_) return -1;
      return done(step, schedule_.step(get_block_def, GetBlockArgs{.name = to_}));
    }
    bool known = true;
    auto args = with_refs(*step.def, step.args.get(), [&](StepRef& ref) {
      if (ref.step < 0) return;
      const int32_t now = number_[static_cast<size_t>(ref.step)];
      known = known && now >= 0;
      ref.step = std::max(now, 0);
    });
    if (!args || !known) return -1;
    return done(step, step.def->samples
                          ? schedule_.step_recorded(*step.def, std::move(*args), step.address, step.decision)
                          : schedule_.step_erased(*step.def, std::move(*args)));
  }

  // Results that are other than those of the origin stand for other things.
  int32_t done(const ParsedStep& step, const Result<int>& number) {
    if (!number) return -1;
    const size_t now = schedule_.trace().steps.back()->outputs.size();
    if (!step.output_kinds.empty() && now != step.output_kinds.size()) return -1;
    return *number;
  }

  Schedule& schedule_;
  const std::string from_, to_;
  std::vector<int32_t> number_;  // of each step of the trace
};

// Blocks that are not those of the anchor's nests.
Result<> inline_others(Schedule& s, const std::set<std::string>& others) {
  for (bool again = true; again;) {
    again = false;
    for (const std::string& name : names_of(s.func())) {
      if (!others.contains(name)) continue;
      FETTLE_TRY(const BlockRef block, get_block(s, {.name = name}));
      again =
          compute_inline(s, {.block = block}).has_value() || reverse_compute_inline(s, {.block = block}).has_value();
      if (again) break;
    }
  }
  return {};
}

}  // namespace

const BlockNode* anchor_block(const Func& func) {
  const BlockNode* anchor = nullptr;
  for (const BlockNode* block : blocks_of(func.root()))
    if (!anchor || points_of(*block) > points_of(*anchor)) anchor = block;
  return anchor;
}

Result<Schedule> replay_anchor(const Func& workload, const Func& origin, const ParsedTrace& trace,
                               std::shared_ptr<const Target> target) {
  const BlockNode* there = anchor_block(origin);
  const BlockNode* here = anchor_block(workload);
  if (!there || !here) return fail(ErrorCode::E206, "a program without blocks has no anchor", "replay_anchor");
  std::set<std::string> others;
  for (const std::string& name : names_of(workload))
    if (name != here->name) others.insert(name);
  Schedule s(workload);
  if (target) s.set_target(target);
  AnchorReplay(s, there->name, here->name).run(trace);
  FETTLE_TRY_VOID(inline_others(s, others));
  if (target) FETTLE_TRY_VOID(verify(s.func(), *target));
  return s;
}

}  // namespace fettle
