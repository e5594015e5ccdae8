#include "schedule/schedule.h"

#include <algorithm>

#include "base/check.h"
#include "base/checks.h"
#include "ir/fields.h"
#include "schedule/edit/steps.h"
#include "schedule/step_memory.h"
#include "schedule/trace/trace_refs.h"

namespace fettle {
namespace {

// Pre-order, without walk(): steps look up a loop or a block each, and most of a trace's time would go into it.
template <class Match>
const Stmt* find_stmt(const Stmt& s, const Match& match) {
  const Stmt* at = &s;
  for (; *at; at = &at->as<ForNode>()->body) {
    if (match(*at)) return at;
    if (at->kind() != StmtKind::kFor) break;
  }
  if (!*at || at->kind() == StmtKind::kStore) return nullptr;
  const Stmt* found = nullptr;
  each_child(*at, Overloaded{[](const Expr&) {},
                             [&](const Stmt& child) {
                               if (!found) found = find_stmt(child, match);
                             }});
  return found;
}

Result<const StepOutput*> output_of(const Trace& trace, StepRef ref) {
  if (ref.step < 0 || static_cast<size_t>(ref.step) >= trace.size())
    return fail(ErrorCode::E225, "step " + std::to_string(ref.step) + " does not exist");
  const auto& outputs = trace.steps[static_cast<size_t>(ref.step)]->outputs;
  if (ref.output < 0 || static_cast<size_t>(ref.output) >= outputs.size())
    return fail(ErrorCode::E225, "step " + std::to_string(ref.step) + " has " + std::to_string(outputs.size()) +
                                     " results, no number " + std::to_string(ref.output));
  return &outputs[static_cast<size_t>(ref.output)];
}

tl::unexpected<Diagnostic> wrong_kind(StepRef ref, const char* expected) {
  return fail(ErrorCode::E225,
              "result " + std::to_string(ref.output) + " of step " + std::to_string(ref.step) + " is no " + expected);
}

Result<Stmt> find_loop(const Func& func, const Var& var) {
  const Stmt* found = find_stmt(func->body, [&](const Stmt& s) {
    const auto* loop = s.as<ForNode>();
    return loop && loop->var == var;
  });
  if (!found) return fail(ErrorCode::E206, "loop " + var->name + " is no longer there");
  return *found;
}

Result<Stmt> find_named_block(const Func& func, const std::string& name) {
  const Stmt* found = find_stmt(func->body, [&](const Stmt& s) {
    const auto* block = s.as<BlockNode>();
    return block && block->name == name;
  });
  if (!found) return fail(ErrorCode::E206, "block " + name + " is no longer there");
  return *found;
}

template <class Ref, class Output>
std::vector<Ref> refs_of(const Trace& trace, int step) {
  FETTLE_CHECK(step >= 0 && static_cast<size_t>(step) < trace.size());
  const auto& outputs = trace.steps[static_cast<size_t>(step)]->outputs;
  std::vector<Ref> refs;
  refs.reserve(outputs.size());
  for (size_t i = 0; i < outputs.size(); ++i)
    if (std::holds_alternative<Output>(outputs[i])) refs.emplace_back(StepRef{step, static_cast<int32_t>(i)});
  return refs;
}

}  // namespace

std::optional<Stmt> find_output(const Func& func, const StepOutput& output) {
  std::optional<Stmt> found;
  if (const Var* var = std::get_if<Var>(&output)) {
    if (auto loop = find_loop(func, *var)) found = std::move(*loop);
  } else if (const auto* name = std::get_if<std::string>(&output)) {
    if (auto block = find_named_block(func, *name)) found = std::move(*block);
  }
  return found;
}

Schedule::Schedule(Func func, DecisionSource source, std::shared_ptr<const DecisionMap> decisions)
    : func_(std::move(func)), source_(source), decisions_(std::move(decisions)) {}

Result<int> Schedule::step_erased(const PrimitiveDef& def, std::shared_ptr<const void> args) {
  StepMemory* memory = !func_ || detail::disabled_checks ? nullptr : &StepMemory::of_this_thread();
  const auto go_on_from = [&](const StepMemory::State& after) {
    func_ = after.func;
    trace_.steps.push_back(after.step);
    return static_cast<int>(trace_.size()) - 1;
  };
  StepMemory::State* before = memory ? memory->find(func_, trace_, target_) : nullptr;
  if (before && !def.samples)
    if (const StepMemory::State* after = memory->next(*before, def, args, {}, {})) return go_on_from(*after);
  Result<Applied> applied = def.apply(*this, args.get());
  if (!applied) {
    return tl::unexpected<Diagnostic>(refused(def, args, std::move(applied).error()));
  }
  FETTLE_CHECK_MSG(def.samples == applied->decision.has_value(), def.name);
  if (before) before = memory->find(func_, trace_, target_);  // what was applied may have taken steps of its own
  if (before && def.samples)
    if (const StepMemory::State* after = memory->next(*before, def, args, applied->address, *applied->decision))
      return go_on_from(*after);
  auto step = make_ref<Step>();
  step->def = &def;
  step->args = std::move(args);
  step->outputs = std::move(applied->outputs);
  step->address = std::move(applied->address);
  if (applied->decision) step->decision = std::move(*applied->decision);
  if (applied->func) func_ = std::move(applied->func);
  trace_.steps.push_back(step);
  if (before) memory->keep(*before, step, func_);
  return static_cast<int>(trace_.size()) - 1;
}

Diagnostic Schedule::refused(const PrimitiveDef& def, const std::shared_ptr<const void>& args,
                             Diagnostic diagnostic) const {
  if (diagnostic.where.empty()) diagnostic.where = def.name;
  auto step = make_ref<RefusedStep>();
  step->program = func_;
  step->before = trace_;
  step->def = &def;
  step->args = args;
  if (!diagnostic.program) diagnostic.place = nullptr;
  diagnostic.program = step;
  return diagnostic;
}

Result<int> Schedule::step_recorded(const PrimitiveDef& def, std::shared_ptr<const void> args,
                                    const std::string& address, const Decision& decision) {
  if (!address.empty()) prescribed_address_ = &address;
  if (!decision.empty()) prescribed_decision_ = &decision;
  Result<int> step = step_erased(def, std::move(args));
  prescribed_address_ = nullptr;
  prescribed_decision_ = nullptr;
  return step;
}

std::vector<LoopRef> Schedule::loops_of(int step) const { return refs_of<LoopRef, Var>(trace_, step); }
std::vector<BlockRef> Schedule::blocks_of(int step) const { return refs_of<BlockRef, std::string>(trace_, step); }
std::vector<ValueRef> Schedule::values_of(int step) const { return refs_of<ValueRef, int64_t>(trace_, step); }

Result<Var> Schedule::loop_var(LoopRef ref) const {
  FETTLE_TRY(const StepOutput* output, output_of(trace_, ref));
  const Var* var = std::get_if<Var>(output);
  if (!var) return wrong_kind(ref, "loop");
  return *var;
}

Result<Stmt> Schedule::loop(LoopRef ref) const {
  FETTLE_TRY(const Var var, loop_var(ref));
  return find_loop(func_, var);
}

Result<Stmt> Schedule::block(BlockRef ref) const {
  FETTLE_TRY(const StepOutput* output, output_of(trace_, ref));
  const auto* name = std::get_if<std::string>(output);
  if (!name) return wrong_kind(ref, "block");
  return find_named_block(func_, *name);
}

Result<Stmt> resolve(const Schedule& s, StepRef ref) {
  FETTLE_TRY(const StepOutput* output, output_of(s.trace(), ref));
  if (const Var* var = std::get_if<Var>(output)) return find_loop(s.func(), *var);
  if (const auto* name = std::get_if<std::string>(output)) return find_named_block(s.func(), *name);
  return wrong_kind(ref, "loop or block");
}

Result<int64_t> Schedule::value(const IntRef& ref) const {
  int64_t product = ref.literal;
  for (const ValueRef& factor : ref.factors) {
    FETTLE_TRY(const StepOutput* output, output_of(trace_, factor));
    const auto* value = std::get_if<int64_t>(output);
    if (!value) return wrong_kind(factor, "integer");
    if (__builtin_mul_overflow(product, *value, &product))
      return fail(ErrorCode::E224, "a product of integers does not fit into 64 bits");
  }
  return product;
}

std::string Schedule::next_address(const std::string& name) const {
  if (prescribed_address_) return *prescribed_address_;
  const std::string base = address_prefix_.empty() ? name : address_prefix_ + "/" + name;
  const auto taken = [&](const std::string& address) {
    return std::ranges::any_of(trace_.steps, [&](const auto& step) { return step->address == address; });
  };
  if (!taken(base)) return base;
  int number = 2;
  std::string address;
  do {
    address = base + "#" + std::to_string(number++);
  } while (taken(address));
  return address;
}

const Decision* Schedule::remembered(const std::string& address) const {
  if (!decisions_) return nullptr;
  const auto found = decisions_->find(address);
  return found == decisions_->end() ? nullptr : &found->second;
}

RandomStream Schedule::stream(const std::string& address) const {
  const auto is_decided = [](const auto& step) { return step->def->samples; };
  const auto before = source_.is_by_number() ? std::ranges::count_if(trace_.steps, is_decided) : 0;
  return source_.stream(address, static_cast<uint64_t>(before));
}

DecisionMap Schedule::decisions() const {
  DecisionMap map;
  for (const auto& step : trace_.steps)
    if (step->def->samples) map[step->address] = step->decision;
  return map;
}

Func with_body(const Func& func, Stmt body) {
  return with(func, [&](FuncNode& f) { f.body = std::move(body); });
}

}  // namespace fettle
