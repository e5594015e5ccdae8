#pragma once
// Schedule: a program and the trace that led to it. A value; copying shares everything.
//
// A loop is known by its variable and a block by its name, so that a reference stays good while other parts of the
// tree change; a loop that a primitive consumed is found no more (E206).

#include <memory>
#include <string>
#include <vector>

#include "arith/analyzer.h"
#include "schedule/decision_source.h"
#include "schedule/primitive.h"
#include "schedule/trace/trace.h"
#include "target/target.h"

namespace fettle {

class Schedule {
 public:
  /// `source` gives the random decisions; those found in `decisions` under their address are reused where still valid.
  explicit Schedule(Func func, DecisionSource source = 0, std::shared_ptr<const DecisionMap> decisions = nullptr);

  const Func& func() const { return func_; }
  const Trace& trace() const { return trace_; }
  /// The target is part of what a rule may ask; null unless set.
  const Target* target() const { return target_.get(); }
  void set_target(std::shared_ptr<const Target> target) { target_ = std::move(target); }

  /// Applies one step and records it; on an error nothing has changed. Returns the step's number.
  template <class Args>
  Result<int> step(const PrimitiveDef& def, const Args& args) {
    return step_erased(def, std::make_shared<const Args>(args));
  }
  Result<int> step_erased(const PrimitiveDef& def, std::shared_ptr<const void> args);
  /// As above, for a sampling step that was recorded. It gets this address and must choose this decision (E223 where
  /// that is no longer among its choices). An empty decision is drawn.
  Result<int> step_recorded(const PrimitiveDef& def, std::shared_ptr<const void> args, const std::string& address,
                            const Decision& decision);

  // Results of a step.
  std::vector<LoopRef> loops_of(int step) const;
  std::vector<BlockRef> blocks_of(int step) const;
  std::vector<ValueRef> values_of(int step) const;

  // What references stand for, now. E206 / E225.
  Result<Stmt> loop(LoopRef ref) const;     // a ForNode
  Result<Stmt> block(BlockRef ref) const;   // a BlockNode
  Result<Var> loop_var(LoopRef ref) const;  // even if consumed
  Result<int64_t> value(const IntRef& ref) const;

  // --- decisions ---
  /// Names what is sampled from here on: addresses are "<prefix>/<name>", with "#2" and so on where one repeats.
  void set_address_prefix(std::string prefix) { address_prefix_ = std::move(prefix); }
  const std::string& address_prefix() const { return address_prefix_; }
  /// The address that the next sampling step called `name` gets.
  std::string next_address(const std::string& name) const;
  /// The decision remembered under `address`, or null.
  const Decision* remembered(const std::string& address) const;
  /// While step_recorded runs: the decision that must be taken; null otherwise.
  const Decision* prescribed() const { return prescribed_decision_; }
  /// The stream that the source has for the next sampling step, whose address is this.
  RandomStream stream(const std::string& address) const;
  uint64_t seed() const { return source_.seed(); }
  /// All decisions of the trace, by address.
  DecisionMap decisions() const;

 private:
  Diagnostic refused(const PrimitiveDef& def, const std::shared_ptr<const void>& args, Diagnostic diagnostic) const;

  Func func_;
  Trace trace_;
  DecisionSource source_;
  std::shared_ptr<const DecisionMap> decisions_;
  std::shared_ptr<const Target> target_;
  std::string address_prefix_;
  const std::string* prescribed_address_ = nullptr;
  const Decision* prescribed_decision_ = nullptr;
};

// --- for those who write primitives (edit.h has more) -----------------------------------------------------------

/// A copy of s.func() with another body, well-formed by construction.
Func with_body(const Func& func, Stmt body);
/// What a step's output is now: its loop or block. E206 / E225.
Result<Stmt> resolve(const Schedule& s, StepRef ref);

/// What the diagnostic of a refused step keeps as its program, for explain (explain.h).
struct RefusedStep : RefCounted {
  Func program;  // as it was
  Trace before;  // the steps that led there
  const PrimitiveDef* def = nullptr;
  std::shared_ptr<const void> args;
};

/// The diagnostic for people: its sentence, the step with its arguments, and the program with the place marked. Without
/// a place of its own, the first loop or block that the step names is marked.
///   E204: the product of the factors is less than the loop's extent (split: 15 < 100 of loop i); raise a factor or …
///   refused: split(loop=l1, factors=[3, 5], tail="exact")
///   func main(…):
///     for i in 100:
///     ^^^^^^^^^^^^^
std::string explain(const Diagnostic& diagnostic);

}  // namespace fettle
