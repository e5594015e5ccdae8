#include "schedule/step_memory.h"

#include <algorithm>

#include "base/hash.h"

namespace fettle {
namespace {

constexpr size_t kMostStates = 4096, kMostEdges = 1 << 14, kMostFirst = 8;

uint64_t hash_of(const PrimitiveDef& def, const std::string& address, const Decision& decision) {
  return hash_combine(hash_combine(reinterpret_cast<uintptr_t>(&def), address.size()), decision.hash());
}

bool same_args(const PrimitiveDef& def, const void* a, const void* b) {
  return std::ranges::equal(def.to_args(a), def.to_args(b),
                            [](const NamedArg& x, const NamedArg& y) { return x.value == y.value; });
}

}  // namespace

StepMemory& StepMemory::of_this_thread() {
  thread_local StepMemory memory;
  return memory;
}

StepMemory::State* StepMemory::find(const Func& func, const Trace& trace, const std::shared_ptr<const Target>& target) {
  if (trace.steps.empty()) {
    for (const auto& state : first_)
      if (state->func == func && state->target == target) return state.get();
    auto fresh = std::make_unique<State>();
    fresh->func = func;
    fresh->target = target;
    if (first_.size() < kMostFirst) return first_.emplace_back(std::move(fresh)).get();
    oldest_ = (oldest_ + 1) % kMostFirst;
    first_[oldest_] = std::move(fresh);
    return first_[oldest_].get();
  }
  const auto found = states_.find(trace.steps.back().get());
  if (found == states_.end()) return nullptr;
  State& state = *found->second;
  return state.func == func && state.target == target ? &state : nullptr;
}

StepMemory::Edge* StepMemory::find_edge(State& from, const PrimitiveDef& def, const std::shared_ptr<const void>& args,
                                        const std::string& address, const Decision& decision) {
  const uint64_t hash = hash_of(def, address, decision);
  for (Edge& edge : from.edges)
    if (edge.hash == hash && edge.def == &def && edge.decision == decision && edge.address == address &&
        (edge.args == args || same_args(def, edge.args.get(), args.get())))
      return &edge;
  return nullptr;
}

const StepMemory::State* StepMemory::next(State& from, const PrimitiveDef& def, const std::shared_ptr<const void>& args,
                                          const std::string& address, const Decision& decision) {
  ++from.visits;
  Edge* edge = find_edge(from, def, args, address, decision);
  if (!edge) return nullptr;
  ++edge->visits;
  if (!edge->step) return nullptr;
  const auto found = states_.find(edge->step.get());
  if (found != states_.end()) return found->second.get();
  edge->step = nullptr;
  return nullptr;
}

void StepMemory::keep(State& from, const Ref<const Step>& step, const Func& func) {
  Edge* edge = find_edge(from, *step->def, step->args, step->address, step->decision);
  if (!edge) {
    if (n_edges_ >= kMostEdges) return forget_some();
    ++n_edges_;
    edge = &from.edges.emplace_back(Edge{.def = step->def,
                                         .args = step->args,
                                         .address = step->address,
                                         .decision = step->decision,
                                         .hash = hash_of(*step->def, step->address, step->decision),
                                         .visits = 1,
                                         .step = nullptr});
  }
  // Behind a state that was met again the next step is the same, unless it was drawn.
  if (edge->visits < 2 && (step->def->samples || from.visits < 2)) return;
  auto state = std::make_unique<State>();
  state->func = func;
  state->step = step;
  state->target = from.target;
  state->visits = edge->visits;
  edge->step = step;
  if (states_.size() >= kMostStates) forget_some();  // `from` may be gone
  states_.emplace(step.get(), std::move(state));
}

// Those that were met least since the last time.
void StepMemory::forget_some() {
  for (uint32_t least = 1; states_.size() > kMostStates / 2 || (least == 1 && !states_.empty()); least *= 2) {
    std::erase_if(states_, [&](const auto& entry) { return entry.second->visits < least; });
    if (least > 1u << 30) states_.clear();
  }
  n_edges_ = 0;
  const auto thin_out = [&](State& state) {
    std::erase_if(state.edges, [&](const Edge& edge) { return !edge.step || !states_.contains(edge.step.get()); });
    n_edges_ += state.edges.size();
    state.visits = 0;
    for (Edge& edge : state.edges) edge.visits = 0;
  };
  for (auto& [step, state] : states_) thin_out(*state);
  for (auto& state : first_) thin_out(*state);
}

void StepMemory::clear() {
  states_.clear();
  first_.clear();
  n_edges_ = oldest_ = 0;
}

}  // namespace fettle
