#pragma once
// Rules make a block of a program fast. They derive its schedule from what it does to memory, never from an operator's
// name.

#include <limits>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "schedule/schedule.h"
#include "tune/parts/decider.h"
#include "tune/parts/loops.h"
#include "tune/parts/structure.h"
#include "tune/space/space.h"

namespace fettle {

/// What a rule works on. Rules edit `schedule`; where one fails, the space goes back to the state before it.
struct RuleContext {
  Schedule schedule;
  std::shared_ptr<const Target> target;
  int threads = 1;
  Decider* decider = &sampling_decider();
  /// Blocks that need no further rule, by name.
  std::set<std::string> done;
  /// Of the algorithms chosen, in units of epsilon (schedule/reformulation.h).
  double max_error_bound = std::numeric_limits<double>::infinity();

  int64_t lanes(DType dtype) const { return lanes_of(*target, dtype); }
  bool is_done(const BlockNode& block) const { return done.contains(block.name); }
};

/// What ctx.decider picks.
inline Result<int64_t> choose(RuleContext& ctx, const std::string& name, const std::vector<int64_t>& candidates,
                              size_t preferred = 0, std::vector<double> weights = {}) {
  return ctx.decider->pick(ctx.schedule, {name, candidates, preferred, std::move(weights)});
}

/// What is done to the whole program, before its blocks go to the rules.
struct Stage {
  std::string_view name;
  Result<> (*apply)(RuleContext& ctx);
};

/// What is done to a block. A rule that succeeds adds the block to ctx.done, or leaves no block of that name: what does
/// neither is a bug, and aborts.
struct Rule {
  std::string_view name;
  bool (*applies)(const RuleContext& ctx, const BlockNode& block);
  Result<> (*apply)(RuleContext& ctx, BlockRef block);
};

/// What rule_space() is made of for the target, in this order (rule_space.cpp): one list for processors that work in
/// vectors, one for targets with threads. The rules are tried on each block: the first that applies and succeeds has
/// it.
std::span<const Stage> space_stages(const Target& target);
std::span<const Rule* const> space_rules(const Target& target);

/// The part decides under RULE/BLOCK; what it finishes needs no further rule.
template <class Part>
Result<> by_part(RuleContext& ctx, BlockRef block, const std::string& rule, const Part& part) {
  FETTLE_TRY(const BlockNode* node, block_node(ctx.schedule, block));
  ctx.schedule.set_address_prefix(rule + "/" + node->name);
  FETTLE_TRY(const Finished finished, part());
  ctx.done.insert(finished.begin(), finished.end());
  return {};
}

/// The space of these rules instead, after the same stages. `rules` must live as long.
std::unique_ptr<Space> make_rule_space(std::span<const Rule* const> rules,
                                       double max_error_bound = std::numeric_limits<double>::infinity());

}  // namespace fettle
