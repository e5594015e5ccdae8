#include <algorithm>
#include <functional>
#include <optional>

#include "arith/analyzer.h"
#include "arith/linear.h"
#include "ir/annotations.h"
#include "ir/compare.h"
#include "ir/rewrite.h"
#include "lower/device/passes.h"

namespace fettle {
namespace {

constexpr int64_t kMostElements = 64;  // that a thread holds of each operand

// Unrolled loops and conditions straight down to lanes, or to one store.
struct Steps {
  SmallVector<Stmt, 8> around;  // loops, that over lanes last, and conditions, outermost first
  const ForNode* lanes = nullptr;
  const StoreNode* target = nullptr;
  int64_t elements = 1;  // that a thread stores
};

bool counts_up(const ForNode& loop) { return is_zero(loop.min) && as_int(loop.extent) && *as_int(loop.extent) > 0; }

std::optional<Steps> steps_of(const Stmt& s) {
  Steps steps;
  for (Stmt at = s; at;) {
    if (const auto* loop = at.as<ForNode>()) {
      const bool lanes = loop->annotations.find(kLanesKey) != nullptr;
      if (!counts_up(*loop) || steps.lanes || (!lanes && loop->loop_kind != ForKind::kUnrolled)) return {};
      if (lanes && loop->annotations.find(kAsyncCopyKey)) return {};
      if (lanes) steps.lanes = loop;
      steps.elements *= *as_int(loop->extent);
      steps.around.push_back(at);
      at = loop->body;
    } else if (const auto* choice = at.as<IfNode>()) {
      if (choice->else_body || reads_memory(choice->condition)) return {};
      steps.around.push_back(at);
      at = choice->then_body;
    } else {
      steps.target = at.as<StoreNode>();
      break;
    }
    if (steps.elements > kMostElements) return {};
  }
  if (!steps.target || steps.target->mask || steps.elements < 2 || steps.target->indices.size() != 1) return {};
  return steps;
}

// The loops and conditions again, around what `make` says for the element of this number.
Stmt again(const Steps& steps, bool in_lanes, const std::function<Stmt(const VarMap&, const Expr& number)>& make) {
  VarMap vars;
  Expr number = 0;
  for (const Stmt& s : steps.around)
    if (const auto* loop = s.as<ForNode>()) {
      const Var copy = make_var(loop->var->name, loop->var->dtype);
      vars[loop->var.get()] = copy;
      number = number * loop->extent + copy;
    }
  Stmt body = make(vars, simplify(number));
  for (size_t i = steps.around.size(); i-- > 0;) {
    const auto* loop = steps.around[i].as<ForNode>();
    if (!loop) {
      body = if_then(substitute(steps.around[i].as<IfNode>()->condition, vars), body);
      continue;
    }
    const bool lanes = loop == steps.lanes;
    const Var var(Ref<const VarNode>(vars.at(loop->var.get()).as<VarNode>()));
    body = make_for(var, 0, loop->extent, body, lanes && in_lanes ? ForKind::kSerial : ForKind::kUnrolled);
    if (lanes && in_lanes) body = with(*body.as<ForNode>(), [&](ForNode& f) { f.annotations = loop->annotations; });
  }
  return body;
}

// Loads in `value` that move along lanes, element by element, whatever lanes they are in.
void find_neighbours(const Expr& value, const Var& lane, std::vector<const LoadNode*>& found) {
  walk(value, [&](const Expr& e) {
    if (e.as<SelectNode>()) return false;  // what is read under a condition may lie outside of its buffer
    const auto* load = e.as<LoadNode>();
    if (!load) return true;
    const auto split = load->mask || load->indices.size() != 1 || load->dtype.is_bool()
                           ? std::nullopt
                           : split_linear(load->indices[0], lane.get());
    const bool known =
        std::ranges::any_of(found, [&](const LoadNode* other) { return structural_equal(Expr(Ref(other)), e); });
    if (split && is_one(simplify(split->coeff)) && !known && load->buffer->scope == kScopeGlobal) found.push_back(load);
    return false;
  });
}

class Instead : public Mutator {
 public:
  Instead(const Expr& old, const Expr& other) : old_(old), other_(other) {}
  using Mutator::rewrite;
  Expr rewrite(const Expr& e) override { return structural_equal(e, old_) ? other_ : Mutator::rewrite(e); }

 private:
  const Expr &old_, &other_;
};

Stmt staged(const Steps& steps) {
  const StoreNode& target = *steps.target;
  if (target.buffer->scope != kScopeGlobal) return nullptr;
  bool stays = false;  // read in the place where it is stored; or of a fragment, which place_factors has dealt with
  walk(target.value, [&](const Expr& e) {
    const auto* load = e.as<LoadNode>();
    stays |= load && (load->buffer == target.buffer || load->buffer->scope == kScopeFragment);
    return true;
  });
  if (stays) return nullptr;
  const auto* copied = target.value.as<LoadNode>();
  if (copied && steps.lanes && *as_int(steps.lanes->extent) == steps.elements) return nullptr;  // one access as it is
  // What a thread has in its own memory is at hand.
  if (copied && (copied->buffer->scope == kScopeLocal || copied->buffer->scope == kScopeRegister)) return nullptr;
  std::vector<const LoadNode*> neighbours;
  if (steps.lanes) find_neighbours(target.value, steps.lanes->var, neighbours);

  std::vector<Buffer> own;
  std::vector<Stmt> stages;
  const auto hold = [&](const BufferNode& buffer) {
    own.push_back(make_buffer(buffer.name + "_lanes", {Expr(steps.elements)}, buffer.dtype, kScopeLocal));
    return own.back();
  };
  std::vector<std::pair<const LoadNode*, Buffer>> held;
  for (const LoadNode* load : neighbours) {
    const Buffer lanes = hold(*load->buffer);
    held.emplace_back(load, lanes);
    stages.push_back(again(steps, true, [&](const VarMap& vars, const Expr& number) {
      return store(lanes, {number}, substitute(Expr(Ref(load)), vars));
    }));
  }
  const auto value_of = [&](const VarMap& vars, const Expr& number) {
    Expr value = target.value;
    for (const auto& [load, lanes] : held) {
      const Expr old{Ref(load)}, other = fettle::load(lanes, {number});
      value = Instead(old, other).rewrite(value);
    }
    return substitute(value, vars);
  };
  const bool plain = copied && !held.empty();  // what is stored is held already
  const Buffer result = plain ? held.front().second : hold(*target.buffer);
  if (!plain)
    stages.push_back(again(steps, false, [&](const VarMap& vars, const Expr& number) {
      return store(result, {number}, value_of(vars, number));
    }));
  stages.push_back(again(steps, true, [&](const VarMap& vars, const Expr& number) {
    return store(target.buffer, {substitute(target.indices[0], vars)}, load(result, {number}));
  }));
  return allocate_all(own, seq(std::move(stages)));
}

class Stager : public StmtMutator {
 public:
  using StmtMutator::rewrite;
  Stmt rewrite(const Stmt& s) override {
    if (s && s.as<ForNode>())
      if (const auto steps = steps_of(s))
        if (const Stmt made = staged(*steps)) return made;
    return Mutator::rewrite(s);
  }
};

}  // namespace

Func stage_lanes(const Func& func) { return with_body(func, Stager().rewrite(func->body)); }

}  // namespace fettle
