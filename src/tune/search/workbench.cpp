#include "tune/search/workbench.h"

#include "base/check.h"
#include "ir/canonical.h"

namespace fettle {
namespace {

Digest digest_of(const DecisionMap& decisions) {
  uint64_t a = decisions.size(), b = 1;
  for (const auto& [address, decision] : decisions) {
    a = hash_combine(hash_combine(a, hash_bytes(address)), decision.hash());
    b = hash_combine(b, a ^ decision.hash());
  }
  return {a, b};
}

}  // namespace

Workbench::Workbench(const Space& space, Func workload, std::shared_ptr<const Target> target, int threads,
                     CostModel& model, DescribeFn describe, int search_threads)
    : space_(space),
      workload_(std::move(workload)),
      target_(std::move(target)),
      threads_(threads),
      model_(model),
      describe_(std::move(describe)),
      search_threads_(search_threads),
      can_be_cloned_(space.clone() != nullptr) {}

// A point all of whose decisions are known is known without being made.
std::optional<const Candidate*> Workbench::known(const DecisionMap& decisions) const {
  const auto found = by_decisions_.find(digest_of(decisions));
  if (found == by_decisions_.end()) return std::nullopt;
  if (found->second < 0) return nullptr;
  const Candidate& candidate = *candidates_[static_cast<size_t>(found->second)];
  if (candidate.decisions != decisions) return std::nullopt;
  return &candidate;
}

const Candidate* Workbench::make(const DecisionMap& decisions, uint64_t key) {
  ++points_;
  if (const auto found = known(decisions)) return *found;
  const auto asked = std::make_shared<const DecisionMap>(decisions);
  const auto seed = space_.seed_of_first_drawing(key);
  if (seed)
    if (const auto number = known_points_.find(asked, *seed))
      return *number < 0 ? nullptr : candidates_[static_cast<size_t>(*number)].get();
  if (gives_up_ && gives_up_()) return nullptr;
  ++made_;
  const auto schedule = space_.generate(workload_, target_, threads_, key, asked);
  if (!schedule) return nullptr;
  const Candidate* candidate = add_made(*schedule);
  if (seed) known_points_.add(schedule->trace(), candidate ? candidate->number : -1);
  return candidate;
}

std::vector<const Candidate*> Workbench::make_all(std::span<const PointRequest> requests) {
  std::vector<const Candidate*> result(requests.size(), nullptr);
  if (search_threads_ > 1 && !makers_ && requests.size() > 1 && can_be_cloned_)
    makers_ = std::make_unique<PointMakers>(space_, workload_, target_, threads_, search_threads_);
  if (!makers_) {
    for (size_t i = 0; i < requests.size(); ++i) result[i] = make(requests[i].decisions, requests[i].key);
    return result;
  }
  points_ += static_cast<int64_t>(requests.size());
  std::vector<size_t> open, again;
  std::unordered_map<Digest, size_t> first_of;  // by what is asked for
  std::vector<size_t> first(requests.size());
  std::vector<bool> known_before(requests.size(), false);
  for (size_t i = 0; i < requests.size(); ++i) {
    if (const auto found = known(requests[i].decisions)) {
      result[i] = *found;
      known_before[i] = true;
      continue;
    }
    const auto [at, fresh] = first_of.try_emplace(digest_of(requests[i].decisions), i);
    first[i] = at->second;
    const bool repeated = !fresh && requests[first[i]].decisions == requests[i].decisions;
    (repeated && !requests[i].decisions.empty() ? again : open).push_back(i);
  }
  std::vector<std::optional<MadePoint>> made(requests.size());
  const auto make_points = [&](const std::vector<size_t>& places) {
    std::vector<PointRequest> asked;
    for (const size_t i : places) asked.push_back(requests[i]);
    made_ += static_cast<int64_t>(asked.size());
    std::vector<MadePoint> points = makers_->make(asked, describe_now(), gives_up_);
    for (size_t n = 0; n < points.size(); ++n) made[places[n]] = std::move(points[n]);
  };
  make_points(open);
  // What was asked for before in the same words is the same point, unless a part of it was drawn.
  std::erase_if(again, [&](size_t i) {
    const MadePoint& before = *made[first[i]];
    return before.legal && before.decisions == requests[i].decisions;
  });
  make_points(again);
  for (size_t i = 0; i < requests.size(); ++i) {
    if (made[i])
      result[i] = add_made_elsewhere(std::move(*made[i]));
    else if (!known_before[i])
      result[i] = result[first[i]];
  }
  return result;
}

std::optional<DecisionMap> Workbench::complete(const DecisionMap& decisions, uint64_t key) {
  const auto schedule =
      space_.generate(workload_, target_, threads_, key, std::make_shared<const DecisionMap>(decisions));
  if (!schedule) return std::nullopt;
  for (const auto& step : schedule->trace().steps) note_choices(*step);
  return schedule->decisions();
}

const Candidate* Workbench::add(const Schedule& schedule) {
  const Candidate* candidate = add_made(schedule);
  if (candidate) {
    never_forgotten_.insert(candidate->number);
    // It may be none of the space's points, which its decisions make again.
    std::string& trace = candidates_[static_cast<size_t>(candidate->number)]->trace;
    if (trace.empty()) trace = to_text(schedule.trace());
  }
  return candidate;
}

const Candidate* Workbench::add_offered(const Schedule& schedule) {
  const auto number = static_cast<int64_t>(candidates_.size());
  std::string trace = to_text(schedule.trace());
  std::string canonical = "offered\n" + trace;
  const Digest program = digest_bytes(canonical);
  candidates_.push_back(std::make_unique<Candidate>(Candidate{
      number, schedule.decisions(), schedule.trace().size(), std::move(trace), std::move(canonical), program, {}}));
  never_forgotten_.insert(number);
  return candidates_.back().get();
}

const Candidate* Workbench::add_made(const Schedule& schedule) {
  DecisionMap decisions = schedule.decisions();
  if (const auto found = known(decisions)) return *found;
  for (const auto& step : schedule.trace().steps) note_choices(*step);
  CandidateFeatures features;
  Func program = schedule.func();
  if (describe_) {
    auto described = describe_now()(schedule);
    if (!described) {
      by_decisions_.emplace(digest_of(decisions), -1);
      return nullptr;
    }
    program = std::move(described->timed);
    features = std::move(described->features);
  }
  const size_t before = candidates_.size();
  const Candidate* made =
      add_candidate(std::move(decisions), schedule.trace().size(), canonical_bytes(program), std::move(features));
  if (!can_be_cloned_ && candidates_.size() > before) candidates_.back()->trace = to_text(schedule.trace());
  return made;
}

const Candidate* Workbench::add_made_elsewhere(MadePoint made) {
  if (!made.legal) return nullptr;
  if (const auto found = known(made.decisions)) return *found;
  for (const auto& [address, decision] : made.decisions) choices_[address].known.insert(decision);
  for (const Categories& categories : made.categories) {
    choices_[categories.address].known.insert(categories.likely.begin(), categories.likely.end());
  }
  if (!made.lowers) {
    by_decisions_.emplace(digest_of(made.decisions), -1);
    return nullptr;
  }
  return add_candidate(std::move(made.decisions), made.steps, std::move(made.canonical), std::move(made.features));
}

// Equal digests prove nothing: the programs are compared.
const Candidate* Workbench::add_candidate(DecisionMap decisions, size_t steps, std::string canonical,
                                          CandidateFeatures features) {
  const Digest program = digest_bytes(canonical);
  const auto [first, last] = by_program_.equal_range(program);
  for (auto it = first; it != last; ++it)
    if (candidate(it->second).canonical == canonical) return &candidate(it->second);
  const auto number = static_cast<int64_t>(candidates_.size());
  canonical.shrink_to_fit();
  by_program_.emplace(program, number);
  by_decisions_.emplace(digest_of(decisions), number);
  candidates_.push_back(std::make_unique<Candidate>(
      Candidate{number, std::move(decisions), steps, {}, std::move(canonical), program, std::move(features)}));
  return candidates_.back().get();
}

const std::string& Workbench::trace(const Candidate& candidate) const {
  std::string& text = candidates_[static_cast<size_t>(candidate.number)]->trace;
  if (text.empty()) {
    const auto again = make_again(candidate);
    FETTLE_CHECK_MSG(again.has_value(), "a candidate's decisions make it again");
    text = to_text(again->trace());
  }
  return text;
}

void Workbench::forget(const Candidate* candidate) {
  const int64_t number = candidate->number;
  if (never_forgotten_.contains(number)) return;
  const auto [begin, end] = by_program_.equal_range(candidate->program);
  for (auto it = begin; it != end; ++it)
    if (it->second == number) {
      by_program_.erase(it);
      break;
    }
  by_decisions_[digest_of(candidate->decisions)] = -1;
  candidates_[static_cast<size_t>(number)].reset();
}

std::vector<double> Workbench::predict(std::span<const Candidate* const> candidates) {
  std::vector<double> seconds(candidates.size());
  if (!describe_) {
    for (size_t i = 0; i < candidates.size(); ++i) seconds[i] = static_cast<double>(candidates[i]->number);
    return seconds;
  }
  if (candidates.empty()) return seconds;
  std::vector<CandidateFeatures> features;
  features.reserve(candidates.size());
  for (const Candidate* c : candidates) features.push_back(c->features);
  return model_.predict(features);
}

const std::set<Decision>& Workbench::decisions_at(const std::string& address) const {
  static const std::set<Decision> none;
  const auto found = choices_.find(address);
  return found == choices_.end() ? none : found->second.known;
}

void Workbench::note_choices(const Step& step) {
  if (step.address.empty()) return;
  Choices& choices = choices_[step.address];
  choices.known.insert(step.decision);
  if (const auto categories = categories_.fresh(step))
    choices.known.insert(categories->likely.begin(), categories->likely.end());
}

Result<Schedule> Workbench::make_again(const Candidate& known) const {
  return space_.generate(workload_, target_, threads_, 0, std::make_shared<const DecisionMap>(known.decisions));
}

}  // namespace fettle
