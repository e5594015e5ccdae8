#include "generations/autotvm/template/template.h"

#include <algorithm>
#include <numeric>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "generations/autotvm/template/draw.h"
#include "schedule/edit/edit.h"
#include "schedule/primitives.h"

namespace fettle {
namespace {

constexpr size_t kMaxReordered = 8;  // 40,320 permutations
constexpr const char* kSplitPolicies[] = {"factors", "power2", "verbose", "candidates"};

void merge_chains(const std::vector<std::vector<int64_t>>& chains, std::vector<size_t>& taken, Decision::List& order,
                  std::vector<Decision::List>& orders) {
  bool complete = true;
  for (size_t c = 0; c < chains.size(); ++c) {
    if (taken[c] == chains[c].size()) continue;
    complete = false;
    order.push_back(chains[c][taken[c]++]);
    merge_chains(chains, taken, order, orders);
    --taken[c];
    order.pop_back();
  }
  if (complete) orders.push_back(order);
}

Result<std::vector<Decision::List>> orders_of(size_t n, const ReorderOptions& options, const std::string& name) {
  using Policy = ReorderOptions::Policy;
  Decision::List identity(n);
  std::iota(identity.begin(), identity.end(), 0);
  std::vector<Decision::List> orders;
  size_t begin = 0, end = n;
  switch (options.policy) {
    case Policy::kIdentity:
      return std::vector<Decision::List>(1, identity);
    case Policy::kIntervalAll:
      begin = options.begin;
      end = options.end;
      if (begin > end || end > n)
        return fail(ErrorCode::E237, fmt::format("knob {}: no loops {} to {}", name, begin, end));
      [[fallthrough]];
    case Policy::kAll: {
      if (end - begin > kMaxReordered)
        return fail(ErrorCode::E237, fmt::format("knob {}: more than {} loops", name, kMaxReordered));
      Decision::List order = identity;
      const auto from = order.begin() + static_cast<std::ptrdiff_t>(begin),
                 to = order.begin() + static_cast<std::ptrdiff_t>(end);
      do orders.push_back(order);
      while (std::next_permutation(from, to));
      return orders;
    }
    case Policy::kInterleave: {
      if (n > kMaxReordered + 4)
        return fail(ErrorCode::E237, fmt::format("knob {}: more than {} loops", name, kMaxReordered + 4));
      std::vector<size_t> taken(options.chains.size(), 0);
      Decision::List order;
      merge_chains(options.chains, taken, order, orders);
      break;
    }
    case Policy::kCandidates:
      orders = options.candidates;
      break;
  }
  for (Decision::List order : orders) {
    std::ranges::sort(order);
    if (order != identity)
      return fail(ErrorCode::E237, fmt::format("knob {}: an order names each of its {} loops once", name, n));
  }
  return orders;
}

Result<std::vector<Decision::List>> annotations_of(size_t n, const AnnotateOptions& options, const std::string& name) {
  using Policy = AnnotateOptions::Policy;
  const auto number = [](LoopAnnotation annotation) { return static_cast<int64_t>(annotation); };
  const int64_t none = number(LoopAnnotation::kNone), unroll = number(LoopAnnotation::kUnroll),
                vectorize = number(LoopAnnotation::kVectorize), parallel = number(LoopAnnotation::kParallel);
  std::vector<std::vector<int64_t>> each(n, {none});  // what each loop may become
  if (n == 0) return fail(ErrorCode::E237, fmt::format("knob {} has no loops", name));
  switch (options.policy) {
    case Policy::kUnroll:
      each.assign(n, {unroll});
      break;
    case Policy::kTryUnroll:
      each.assign(n, {none, unroll});
      break;
    case Policy::kVectorize:
      each.back() = {vectorize};
      break;
    case Policy::kTryVectorize:
      each.back() = {none, vectorize};
      break;
    case Policy::kTryUnrollVectorize:
      each.assign(n, {none, unroll});
      each.back() = {none, unroll, vectorize};
      break;
    case Policy::kTryParallel:
      each.front() = {none, parallel};
      break;
    case Policy::kCandidates: {
      std::vector<Decision::List> given;
      for (const std::vector<LoopAnnotation>& annotations : options.candidates) {
        if (annotations.size() != n)
          return fail(ErrorCode::E237, fmt::format("knob {}: one annotation for each loop", name));
        Decision::List& decision = given.emplace_back();
        for (LoopAnnotation annotation : annotations) decision.push_back(number(annotation));
      }
      return given;
    }
  }
  if (n > 12) return fail(ErrorCode::E237, fmt::format("knob {}: more than 12 loops", name));
  std::vector<Decision::List> all = {{}};
  for (const std::vector<int64_t>& annotations : each) {
    std::vector<Decision::List> longer;
    for (const Decision::List& start : all)
      for (int64_t annotation : annotations) {
        longer.push_back(start);
        longer.back().push_back(annotation);
      }
    all = std::move(longer);
  }
  return all;
}

constexpr const char* kLoopAnnotations[] = {"none", "unroll", "vectorize", "parallel"};

// "2,0,1": what a decision records of an order.
std::vector<std::string> names_of(const std::vector<Decision::List>& lists) {
  std::vector<std::string> names;
  for (const Decision::List& list : lists) names.push_back(fmt::format("{}", fmt::join(list, ",")));
  return names;
}

// "none,unroll,vectorize"
std::vector<std::string> names_of_annotations(const std::vector<Decision::List>& lists) {
  std::vector<std::string> names;
  for (const Decision::List& annotations : lists) {
    std::string& name = names.emplace_back();
    for (const int64_t annotation : annotations)
      name.append(name.empty() ? "" : ",").append(kLoopAnnotations[annotation]);
  }
  return names;
}

}  // namespace

Result<size_t> TemplateContext::choose(const std::string& name, std::vector<Decision::List> values,
                                       NamedValues candidates) {
  ++defined_;
  const size_t n = values.size();
  Knob knob{name, {}, std::move(values)};
  for (size_t i = 0; i < n; ++i) knob.choices.emplace_back(candidates.name(i));
  const Decision first = n > 0 ? knob.choices.front() : Decision();
  const SampleCategoricalArgs args{
      .candidates = std::move(candidates), .probabilities = std::vector<double>(n, 1.0), .name = name};
  if (collect_) {
    FETTLE_TRY_VOID(collect_->add(std::move(knob)));
  } else if (n == 0) {
    return fail(ErrorCode::E237, fmt::format("knob {} has no choices", name));
  }
  FETTLE_TRY_VOID(schedule_.step_recorded(sample_categorical_def, std::make_shared<SampleCategoricalArgs>(args),
                                          schedule_.next_address(name), collect_ ? first : Decision()));
  return chosen_place(*schedule_.trace().steps.back());
}

Result<std::vector<LoopRef>> TemplateContext::define_split(const std::string& name, LoopRef loop,
                                                           const SplitOptions& options) {
  ++defined_;
  const SampleSplitArgs args{.loop = loop,
                             .n = options.n,
                             .policy = kSplitPolicies[static_cast<size_t>(options.policy)],
                             .max_factor = options.max_factor,
                             .no_tail = options.no_tail,
                             .candidates = options.candidates,
                             .name = name};
  Decision first;
  if (collect_) {
    FETTLE_TRY(std::vector<Decision::List> choices, split_choices(schedule_, args));
    if (options.filter) std::erase_if(choices, [&](const Decision::List& sizes) { return !options.filter(sizes); });
    if (!choices.empty()) first = choices.front();
    FETTLE_TRY_VOID(collect_->add({name, {choices.begin(), choices.end()}, {}}));
  }
  FETTLE_TRY(const int step, collect_
                                 ? schedule_.step_recorded(sample_split_def, std::make_shared<SampleSplitArgs>(args),
                                                           schedule_.next_address(name), first)
                                 : schedule_.step(sample_split_def, args));
  const std::vector<ValueRef> sizes = schedule_.values_of(step);
  return split(schedule_, {.loop = loop, .factors = {sizes.begin(), sizes.end()}, .tail = options.tail});
}

Result<std::vector<LoopRef>> TemplateContext::define_reorder(const std::string& name, const std::vector<LoopRef>& loops,
                                                             const ReorderOptions& options) {
  FETTLE_TRY(const std::vector<Decision::List> orders, orders_of(loops.size(), options, name));
  if (!options.names.empty() && options.names.size() != orders.size())
    return fail(ErrorCode::E237,
                fmt::format("knob {}: {} orders, {} names", name, orders.size(), options.names.size()));
  FETTLE_TRY(const size_t chosen, choose(name, orders, options.names.empty() ? names_of(orders) : options.names));
  std::vector<LoopRef> order;
  for (int64_t number : orders[chosen]) order.push_back(loops[static_cast<size_t>(number)]);
  if (order.size() > 1) FETTLE_TRY_VOID(reorder(schedule_, {.loops = order}));
  return order;
}

Result<std::vector<LoopAnnotation>> TemplateContext::define_annotate(const std::string& name,
                                                                     const std::vector<LoopRef>& loops,
                                                                     const AnnotateOptions& options) {
  FETTLE_TRY(const std::vector<Decision::List> annotations, annotations_of(loops.size(), options, name));
  FETTLE_TRY(const size_t chosen, choose(name, annotations, names_of_annotations(annotations)));
  std::vector<LoopAnnotation> result;
  for (size_t i = 0; i < loops.size(); ++i) {
    const auto annotation = static_cast<LoopAnnotation>(annotations[chosen][i]);
    result.push_back(annotation);
    FETTLE_TRY(const Stmt stmt, schedule_.loop(loops[i]));
    if (is_one(stmt.as<ForNode>()->extent)) continue;
    if (annotation == LoopAnnotation::kUnroll) FETTLE_TRY_VOID(unroll(schedule_, {.loop = loops[i]}));
    if (annotation == LoopAnnotation::kVectorize) FETTLE_TRY_VOID(vectorize(schedule_, {.loop = loops[i]}));
    if (annotation == LoopAnnotation::kParallel) FETTLE_TRY_VOID(parallel(schedule_, {.loop = loops[i]}));
  }
  return result;
}

Result<int64_t> TemplateContext::define_knob(const std::string& name, const std::vector<int64_t>& values) {
  FETTLE_TRY(const size_t chosen, define_choice(name, values));
  return values[chosen];
}

Result<size_t> TemplateContext::define_choice(const std::string& name, const NamedValues& candidates) {
  std::vector<Decision::List> values;
  for (size_t i = 0; i < candidates.size(); ++i)
    values.push_back({candidates.integer(i).value_or(static_cast<int64_t>(i))});
  return choose(name, std::move(values), candidates);
}

void TemplateContext::constrain(const std::string& what, ConfigSpace::Constraint constraint) {
  if (collect_) collect_->constrain(what, std::move(constraint));
}

Result<ConfigSpace> config_space(const Template& made, const Func& workload, std::shared_ptr<const Target> target) {
  ConfigSpace space;
  Schedule schedule(workload);
  schedule.set_target(std::move(target));
  TemplateContext context(std::move(schedule), &space);
  FETTLE_TRY_VOID(made.body(context));
  return space;
}

Result<Schedule> apply_template(const Template& made, const Func& workload, const ConfigSpace& space,
                                const Config& config, std::shared_ptr<const Target> target) {
  FETTLE_TRY_VOID(space.check(config));
  auto decisions = std::make_shared<const DecisionMap>(space.decisions(config));
  Schedule schedule(workload, 0, decisions);
  schedule.set_target(std::move(target));
  TemplateContext context(std::move(schedule));
  FETTLE_TRY_VOID(made.body(context));
  // What the body samples besides is no knob, and is drawn as ever.
  const DecisionMap made_of = context.schedule().decisions();
  const bool kept = context.defined() == space.knobs().size() && std::ranges::all_of(*decisions, [&](const auto& knob) {
                      const auto found = made_of.find(knob.first);
                      return found != made_of.end() && found->second == knob.second;
                    });
  if (!kept)
    return fail(ErrorCode::E238,
                fmt::format("{}: its knobs depend on what was chosen ({})", made.name, space.to_text(config)));
  return std::move(context.schedule());
}

namespace {

Config complete(const ConfigSpace& space, const DecisionMap* decisions, RandomStream& stream) {
  Config config;
  for (const Knob& knob : space.knobs()) {
    size_t choice = stream.below(knob.choices.size());
    if (decisions) {
      const auto given = decisions->find(knob.name);
      const auto at = given == decisions->end() ? knob.choices.end() : std::ranges::find(knob.choices, given->second);
      if (at != knob.choices.end()) choice = static_cast<size_t>(at - knob.choices.begin());
    }
    config.push_back(choice);
  }
  return config;
}

}  // namespace

Result<Config> draw_config(const ConfigSpace& space, const DecisionMap* decisions, DecisionSource source,
                           const std::string& name) {
  RandomStream stream = source.stream(name, 0);
  constexpr int kAttempts = 200, kEach = 16;
  const auto is_given = [&](const Knob& knob) { return decisions && decisions->contains(knob.name); };
  const bool open = !std::ranges::all_of(space.knobs(), is_given);
  int attempt = 0;
  for (; attempt < (open ? kAttempts : 1); ++attempt) {
    Config config = complete(space, decisions, stream);
    if (space.allows(config)) return config;
  }
  // What is given does not go together: one near it, with one other knob drawn again, then with two, …
  for (attempt = 0; decisions && attempt < kAttempts; ++attempt) {
    Config config = complete(space, decisions, stream);
    for (int again = 0; again <= attempt / kEach; ++again) {
      const size_t k = stream.below(space.knobs().size());
      config[k] = stream.below(space.knobs()[k].choices.size());
    }
    if (space.allows(config)) return config;
  }
  // Few meet the constraints: the first that does, from a place drawn.
  std::vector<Config> allowed;
  constexpr size_t kLooked = 10'000;
  space.enumerate([&](int64_t, const Config& config) {
    allowed.push_back(config);
    return allowed.size() < kLooked;
  });
  if (allowed.empty()) return fail(ErrorCode::E238, "no configuration meets the constraints", name);
  return allowed[stream.below(allowed.size())];
}

namespace {

class TemplateSpace : public Space {
 public:
  explicit TemplateSpace(Template made) : made_(std::move(made)) {}
  std::string name() const override { return "template " + made_.name; }

  Result<Schedule> generate(const Func& workload, std::shared_ptr<const Target> target, int /*threads*/,
                            DecisionSource source, std::shared_ptr<const DecisionMap> decisions) const override {
    FETTLE_TRY(const ConfigSpace space, config_space(made_, workload, target));
    FETTLE_TRY(const Config config, draw_config(space, decisions.get(), source, made_.name));
    return apply_template(made_, workload, space, config, target);
  }

 private:
  Template made_;
};

}  // namespace

std::unique_ptr<Space> template_space(Template made) { return std::make_unique<TemplateSpace>(std::move(made)); }

}  // namespace fettle
