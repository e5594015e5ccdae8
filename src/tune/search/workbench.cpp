#include "tune/search/workbench.h"

#include "ir/compare.h"
#include "schedule/primitives/sample_categorical.h"

namespace fettle {

Workbench::Workbench(const Space& space, Func workload, std::shared_ptr<const Target> target, int threads,
                     CostModel& model, DescribeFn describe)
    : space_(space),
      workload_(std::move(workload)),
      target_(std::move(target)),
      threads_(threads),
      model_(model),
      describe_(std::move(describe)) {}

const Candidate* Workbench::make(const DecisionMap& decisions, uint64_t key) {
  ++points_;
  const auto asked = std::make_shared<const DecisionMap>(decisions);
  if (space_.draws_by_address())
    if (const auto known = known_points_.find(asked, key))
      return *known < 0 ? nullptr : candidates_[static_cast<size_t>(*known)].get();
  const auto schedule = space_.generate(workload_, target_, threads_, key, asked);
  if (!schedule) return nullptr;
  const Candidate* candidate = add_made(*schedule);
  if (space_.draws_by_address()) known_points_.add(schedule->trace(), candidate ? candidate->number : -1);
  return candidate;
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
  if (candidate) never_forgotten_.insert(candidate->number);
  return candidate;
}

const Candidate* Workbench::add_made(const Schedule& schedule) {
  std::string trace = to_text(schedule.trace());
  const Digest text = digest_bytes(trace);
  if (const auto known = by_trace_.find(text); known != by_trace_.end()) {
    if (known->second < 0) return nullptr;
    if (candidate(known->second).trace == trace) return &candidate(known->second);
  }
  for (const auto& step : schedule.trace().steps) note_choices(*step);

  const Digest hash = canonical_hash(schedule.func());
  const auto [first, last] = by_program_.equal_range(hash);
  for (auto it = first; it != last; ++it)
    if (same_program(candidate(it->second), schedule.func())) return &candidate(it->second);

  const auto number = static_cast<int64_t>(candidates_.size());
  CandidateFeatures features;
  Digest timed;
  Func timed_func;
  if (describe_) {
    auto described = describe_(schedule.func());
    if (!described) {
      by_trace_.emplace(text, -1);
      return nullptr;
    }
    timed = canonical_hash(described->timed);
    const auto [begin, end] = by_timed_.equal_range(timed);
    for (auto it = begin; it != end; ++it)
      if (same_timed(candidate(it->second), described->timed)) return &candidate(it->second);
    by_timed_.emplace(timed, number);
    timed_func = std::move(described->timed);
    features = std::move(described->features);
  }
  remember({number, schedule.func(), std::move(timed_func)});
  by_program_.emplace(hash, number);
  by_trace_.emplace(text, number);
  candidates_.push_back(std::make_unique<Candidate>(
      Candidate{number, schedule.decisions(), std::move(trace), hash, timed, std::move(features)}));
  return candidates_.back().get();
}

void Workbench::forget(const Candidate* candidate) {
  const int64_t number = candidate->number;
  if (never_forgotten_.contains(number)) return;
  const auto drop = [&](std::unordered_multimap<Digest, int64_t>& map, const Digest& key) {
    const auto [begin, end] = map.equal_range(key);
    for (auto it = begin; it != end; ++it)
      if (it->second == number) {
        map.erase(it);
        return;
      }
  };
  drop(by_program_, candidate->hash);
  drop(by_timed_, candidate->timed);
  by_trace_[digest_bytes(candidate->trace)] = -1;
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
  return found == choices_.end() ? none : found->second;
}

void Workbench::note_choices(const Step& step) {
  if (step.address.empty()) return;
  std::set<Decision>& choices = choices_[step.address];
  choices.insert(step.decision);
  if (step.def != &sample_categorical_def) return;
  const auto& args = *static_cast<const SampleCategoricalArgs*>(step.args.get());
  for (size_t i = 0; i < args.candidates.size(); ++i)
    if (args.probabilities[i] > 0) choices.insert({static_cast<int64_t>(i)});
}

// Equal hashes prove nothing. The programs of the latest candidates are at hand; any other is made again from its
// decisions.
bool Workbench::same_program(const Candidate& known, const Func& func) const {
  if (const Recent* recent = find_recent(known.number)) return structural_equal(recent->scheduled, func);
  const auto again =
      space_.generate(workload_, target_, threads_, 0, std::make_shared<const DecisionMap>(known.decisions));
  return again && structural_equal(again->func(), func);
}

bool Workbench::same_timed(const Candidate& known, const Func& timed) const {
  if (const Recent* recent = find_recent(known.number)) return structural_equal(recent->timed, timed);
  const auto again =
      space_.generate(workload_, target_, threads_, 0, std::make_shared<const DecisionMap>(known.decisions));
  if (!again) return false;
  const auto described = describe_(again->func());
  return described && structural_equal(described->timed, timed);
}

const Workbench::Recent* Workbench::find_recent(int64_t number) const {
  if (recent_.empty()) return nullptr;
  const Recent& recent = recent_[static_cast<size_t>(number) % kRecent];
  return recent.number == number ? &recent : nullptr;
}

void Workbench::remember(Recent recent) {
  if (recent_.empty()) recent_.resize(kRecent);
  recent_[static_cast<size_t>(recent.number) % kRecent] = std::move(recent);
}

}  // namespace fettle
