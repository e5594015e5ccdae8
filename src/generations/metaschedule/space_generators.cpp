#include "generations/metaschedule/space_generators.h"

#include <algorithm>
#include <numeric>

#include "analysis/verify.h"
#include "ir/visit.h"
#include "schedule/dataflow/dataflow.h"
#include "tune/parts/decider.h"

namespace fettle {
namespace {

std::vector<std::string> blocks_from_the_last(const Func& func) {
  std::vector<std::string> names;
  for (const BlockNode* block : blocks_of(func.root())) names.insert(names.begin(), block->name);
  return names;
}

Result<size_t> choose_number(Schedule& s, const std::string& prefix, const std::string& name, size_t n) {
  s.set_address_prefix(prefix);
  std::vector<int64_t> numbers(n);
  std::iota(numbers.begin(), numbers.end(), int64_t{0});
  return sampling_decider().pick_place(s, {name, numbers});
}

Result<> finish(const TuneContext& context, Schedule& s, const std::vector<Postprocessor>& postprocessors) {
  for (const Postprocessor& postprocessor : postprocessors) FETTLE_TRY_VOID(postprocessor.apply(context, s));
  return verify(s.func(), *context.target, {.races = false});
}

/// Draws again what is refused, unless all decisions are given.
class SampledSpace : public Space {
 public:
  SampledSpace(std::string name, std::vector<Postprocessor> postprocessors)
      : name_(std::move(name)), postprocessors_(std::move(postprocessors)) {}
  std::string name() const override { return name_; }

  Result<Schedule> generate(const Func& workload, std::shared_ptr<const Target> target, int threads,
                            DecisionSource source, std::shared_ptr<const DecisionMap> decisions) const override {
    const TuneContext context{target, threads};
    const int attempts = decisions && !decisions->empty() ? 3 : 30;
    Result<Schedule> made = fail(ErrorCode::E235, "no point of the space is legal", name_);
    for (int attempt = 0; attempt < attempts; ++attempt) {
      Schedule s(workload, source.another(static_cast<uint64_t>(attempt)), decisions);
      s.set_target(target);
      made = sample(context, std::move(s));
      if (!made) continue;
      if (auto finished = finish(context, *made, postprocessors_); !finished)
        made = fail(std::move(finished).error());
      else
        return made;
    }
    return made;
  }

 protected:
  virtual Result<Schedule> sample(const TuneContext& context, Schedule s) const = 0;

 private:
  std::string name_;
  std::vector<Postprocessor> postprocessors_;
};

class PostOrderApply : public SampledSpace {
 public:
  PostOrderApply(std::vector<ScheduleRule> rules, std::vector<Postprocessor> postprocessors)
      : SampledSpace("post_order_apply", std::move(postprocessors)), rules_(std::move(rules)) {}

 protected:
  Result<Schedule> sample(const TuneContext& context, Schedule s) const override {
    for (const ScheduleRule& rule : rules_)
      for (const std::string& block : blocks_from_the_last(s.func())) {
        if (!find_block(s.func()->body, block)) continue;
        if (rule.count && rule.alternative) {
          const size_t n = rule.count(context, s, block);
          size_t number = 0;
          if (n > 1) {
            FETTLE_TRY(number, choose_number(s, rule.name + "/" + block, "design", n));
          }
          FETTLE_TRY(s, rule.alternative(context, s, block, number));
          continue;
        }
        FETTLE_TRY(std::vector<Schedule> next, rule.apply(context, s, block));
        size_t chosen = 0;
        if (next.size() > 1) {
          FETTLE_TRY(chosen, choose_number(s, rule.name + "/" + block, "design", next.size()));
          // Once more, behind the choice.
          FETTLE_TRY(next, rule.apply(context, s, block));
        }
        if (chosen >= next.size()) return fail(ErrorCode::E235, "no such alternative", rule.name);
        s = std::move(next[chosen]);
      }
    return s;
  }

 private:
  std::vector<ScheduleRule> rules_;
};

class ScheduleFn : public SampledSpace {
 public:
  ScheduleFn(ScheduleFunction function, std::vector<Postprocessor> postprocessors)
      : SampledSpace("schedule_fn", std::move(postprocessors)), function_(std::move(function)) {}

 protected:
  Result<Schedule> sample(const TuneContext&, Schedule s) const override {
    FETTLE_TRY_VOID(function_(s));
    return s;
  }

 private:
  ScheduleFunction function_;
};

class ReplayTrace : public SampledSpace {
 public:
  ReplayTrace(std::vector<ParsedTrace> traces, std::vector<Postprocessor> postprocessors)
      : SampledSpace("replay_trace", std::move(postprocessors)), traces_(std::move(traces)) {
    for (ParsedTrace& trace : traces_)
      for (ParsedStep& step : trace.steps) step.decision = {};
  }

 protected:
  Result<Schedule> sample(const TuneContext&, Schedule s) const override {
    if (traces_.empty()) return fail(ErrorCode::E235, "no trace", "replay_trace");
    FETTLE_TRY(const size_t chosen, choose_number(s, "replay_trace", "trace", traces_.size()));
    FETTLE_TRY_VOID(replay(s, traces_[chosen]));
    return s;
  }

 private:
  std::vector<ParsedTrace> traces_;
};

class SpaceUnion : public Space {
 public:
  explicit SpaceUnion(std::vector<std::shared_ptr<const Space>> spaces) : spaces_(std::move(spaces)) {}
  std::string name() const override { return "union"; }

  Result<Schedule> generate(const Func& workload, std::shared_ptr<const Target> target, int threads,
                            DecisionSource source, std::shared_ptr<const DecisionMap> decisions) const override {
    if (spaces_.empty()) return fail(ErrorCode::E235, "no space", "space_union");
    Schedule choice(workload, source, decisions);
    FETTLE_TRY(const size_t chosen, choose_number(choice, "union", "space", spaces_.size()));
    FETTLE_TRY(Schedule made, spaces_[chosen]->generate(workload, std::move(target), threads, source, decisions));
    // The choice stands behind: it changes nothing, and the decisions tell of it.
    const auto& step = *choice.trace().steps.back();
    FETTLE_TRY_VOID(made.step_recorded(*step.def, step.args, step.address, step.decision));
    return made;
  }

 private:
  std::vector<std::shared_ptr<const Space>> spaces_;
};

}  // namespace

std::unique_ptr<Space> post_order_apply(std::vector<ScheduleRule> rules, std::vector<Postprocessor> postprocessors) {
  return std::make_unique<PostOrderApply>(std::move(rules), std::move(postprocessors));
}
std::unique_ptr<Space> schedule_fn(ScheduleFunction function, std::vector<Postprocessor> postprocessors) {
  return std::make_unique<ScheduleFn>(std::move(function), std::move(postprocessors));
}
std::unique_ptr<Space> space_union(std::vector<std::shared_ptr<const Space>> spaces) {
  return std::make_unique<SpaceUnion>(std::move(spaces));
}
std::unique_ptr<Space> replay_trace(std::vector<ParsedTrace> traces, std::vector<Postprocessor> postprocessors) {
  return std::make_unique<ReplayTrace>(std::move(traces), std::move(postprocessors));
}

}  // namespace fettle
