#pragma once
// Remembers the steps that this thread has taken before from the same state. A search replays the same first steps for
// each of its candidates. Trees are immutable, so the same step on the same program gives the same program again.

#include <memory>
#include <unordered_map>
#include <vector>

#include "schedule/schedule.h"

namespace fettle {

/// A tree of states by the steps between them. A state is known by its last step, which no other state has; the first
/// one by its program. What is met a second time is kept; of a few thousand states those that were met most lately.
class StepMemory {
 public:
  struct State;
  /// A step away from a state.
  struct Edge {
    const PrimitiveDef* def = nullptr;
    std::shared_ptr<const void> args;
    std::string address;
    Decision decision;
    uint64_t hash = 0;
    uint32_t visits = 0;
    Ref<const Step> step;  // null: seen, not kept
  };
  struct State {
    Func func;
    Ref<const Step> step;                  // the last one; null: none
    std::shared_ptr<const Target> target;  // steps may ask it
    std::vector<Edge> edges;
    uint32_t visits = 0;
  };

  static StepMemory& of_this_thread();

  /// The state with this program and trace, or null where it is not kept. Valid until the next keep().
  State* find(const Func& func, const Trace& trace, const std::shared_ptr<const Target>& target);
  /// Where the step leads from there, or null. A sampling step is known with its address and decision alone.
  const State* next(State& from, const PrimitiveDef& def, const std::shared_ptr<const void>& args,
                    const std::string& address, const Decision& decision);
  /// Notes that `step` led from there to `func`.
  void keep(State& from, const Ref<const Step>& step, const Func& func);
  void clear();

 private:
  Edge* find_edge(State& from, const PrimitiveDef& def, const std::shared_ptr<const void>& args,
                  const std::string& address, const Decision& decision);
  void forget_some();

  std::unordered_map<const Step*, std::unique_ptr<State>> states_;
  std::vector<std::unique_ptr<State>> first_;  // states without steps
  size_t oldest_ = 0;                          // of first_
  size_t n_edges_ = 0;
};

}  // namespace fettle
