#include <map>
#include <optional>
#include <set>

#include <fmt/format.h>

#include "arith/analyzer.h"
#include "arith/int_eval.h"
#include "arith/linear.h"
#include "ir/compare.h"
#include "ir/rewrite.h"
#include "lower/device/passes.h"
#include "lower/passes/passes.h"

namespace fettle {
namespace {

// A condition under which an element of a buffer of one thread each, which several nests use, is written.
struct WrittenIf {
  Expr condition;
  std::vector<Expr> indices;
};
using Conditions = std::map<std::string, std::vector<WrittenIf>>;
// By buffer: the dimensions whose index depends on the thread, where other threads have other elements.
using Dims = std::map<std::string, std::set<size_t>>;

// The condition for the element at `indices`: the loops of the nest that writes count what the one that reads counts.
//   written at [8*b + 2*t + i] if 8*b + 2*t + i < 33, read at [8*b + 2*t + j]  →  8*b + 2*t + j < 33
Expr condition_at(const WrittenIf& written, const std::vector<Expr>& indices, const UnifiedThreads& threads) {
  VarMap counted;
  Analyzer analyzer;
  for (size_t d = 0; d < indices.size() && d < written.indices.size(); ++d)
    for (const LinearTerm& term : linear_form(written.indices[d]).terms) {
      const auto* var = term.expr.as<VarNode>();
      const bool is_thread = std::ranges::any_of(threads.shape.vars, [&](const Var& v) { return v.get() == var; });
      if (!var || is_thread || uses_var(indices[d], var) || counted.contains(var)) continue;
      LinearForm same = analyzer.linear(indices[d] - written.indices[d] + term.expr * term.coeff);
      const auto divides = [&](int64_t value) { return value % term.coeff == 0; };
      if (!divides(same.constant) || !std::ranges::all_of(same.terms, [&](const auto& t) { return divides(t.coeff); }))
        continue;
      same.constant /= term.coeff;
      for (LinearTerm& part : same.terms) part.coeff /= term.coeff;
      counted[var] = to_expr(same);
      break;
    }
  return substitute(written.condition, counted);
}

// Walks over statements and the conditions around them. First collects those of stores; then, with `collects` off, asks
// that each load's imply all of these.
class ThreadConditions : public Visitor {
 public:
  ThreadConditions(const UnifiedThreads& threads, const std::vector<Stmt>& blocks, const Dims& thread_dims,
                   Conditions& written)
      : threads_(threads), thread_dims_(thread_dims), written_(written) {
    for (const Stmt& stmt : blocks) {
      const auto* loop = stmt.as<ForNode>();
      analyzer_.bind(loop->var, loop->min, loop->extent);
    }
  }
  using Visitor::visit;
  void visit(const Stmt& s) override {
    if (!s) return;
    const auto scope = analyzer_.enter();
    if (const auto* loop = s.as<ForNode>()) analyzer_.bind(loop->var, loop->min, loop->extent);
    if (const auto* choice = s.as<IfNode>()) {
      visit(choice->condition);
      branch(choice->condition, choice->then_body);
      return branch(logical_not(choice->condition), choice->else_body);
    }
    const auto* target = s.as<StoreNode>();
    if (target && collects) note(*target->buffer, target->indices);
    Visitor::visit(s);
  }
  void visit(const Expr& e) override {
    if (!e) return;
    if (const auto* choice = e.as<SelectNode>()) {
      visit(choice->condition);
      for (const bool holds : {true, false}) {
        const auto scope = analyzer_.enter();
        const auto known = analyzer_.assume(holds ? choice->condition : logical_not(choice->condition));
        visit(holds ? choice->if_true : choice->if_false);
      }
      return;
    }
    const auto* source = e.as<LoadNode>();
    const auto found = source && !collects ? written_.find(source->buffer->name) : written_.end();
    if (found != written_.end())
      for (const WrittenIf& written : found->second)
        if (!analyzer_.can_prove(condition_at(written, source->indices, threads_))) wrong = source->buffer->name;
    Visitor::visit(e);
  }
  bool collects = true;
  std::string wrong;  // a buffer that threads may read where they did not write

 private:
  void branch(const Expr& condition, const Stmt& body) {
    if (!body) return;
    const size_t before = around_.size();
    split_conjuncts(analyzer_.simplify(condition), around_);
    {
      const auto known = analyzer_.assume(condition);
      visit(body);
    }
    around_.resize(before);
  }
  void note(const BufferNode& buffer, const std::vector<Expr>& indices) {
    const auto apart = threads_.private_apart.find(buffer.name);
    if (apart == threads_.private_apart.end()) return;
    const auto dims = thread_dims_.find(buffer.name);
    for (const Expr& condition : around_) {
      bool tells = false;
      for (const Var& var : collect_vars(condition)) {
        for (size_t d = 0; d < 3; ++d) tells |= apart->second[d] && var == threads_.shape.vars[d];
        if (dims == thread_dims_.end()) continue;
        for (const size_t d : dims->second) tells |= uses_var(indices[d], var.get());
      }
      if (tells) written_[buffer.name].push_back({condition, indices});
    }
  }

  const UnifiedThreads& threads_;
  const Dims& thread_dims_;
  Conditions& written_;
  Analyzer analyzer_;
  std::vector<Expr> around_;
};

// A place where a thread accesses its part of a buffer; loops inside the buffer's life, outermost first.
struct Access {
  std::vector<Expr> indices;
  std::vector<const ForNode*> loops;
};
struct Accesses {
  std::vector<Access> writes, reads;
};

class AccessFinder : public AccessVisitor {
 public:
  explicit AccessFinder(const UnifiedThreads& threads) : threads_(threads) {}
  std::map<std::string, Accesses> found;
  using Visitor::visit;
  void visit(const Stmt& s) override {
    if (const auto* alloc = s.as<AllocateNode>()) outer_loops_[alloc->buffer.get()] = loops_.size();
    AccessVisitor::visit(s);
  }

 private:
  void access(const Buffer& buffer, const std::vector<Expr>& indices, AccessKind kind) override {
    const auto place = outer_loops_.find(buffer.get());
    if (kind == AccessKind::kAddress || place == outer_loops_.end() || !threads_.private_apart.contains(buffer->name))
      return;
    Accesses& all = found[buffer->name];
    Access& access = (kind == AccessKind::kWrite ? all.writes : all.reads).emplace_back();
    for (const Expr& index : indices) access.indices.push_back(to_expr(linear_form(index)));  // t + i - t is i
    access.loops = {loops_.begin() + static_cast<ptrdiff_t>(place->second), loops_.end()};
  }
  const UnifiedThreads& threads_;
  std::map<const BufferNode*, size_t> outer_loops_;
};

// The loops of an access that its index in some dimensions uses.
std::vector<const ForNode*> loops_of(const Access& access, const std::set<size_t>& dims) {
  std::vector<const ForNode*> used;
  for (const ForNode* loop : access.loops)
    for (const size_t d : dims)
      if (uses_var(access.indices[d], loop->var.get())) {
        used.push_back(loop);
        break;
      }
  return used;
}

// All elements of an access, in some dimensions; nothing where they are many or not known.
std::optional<std::set<std::vector<int64_t>>> elements_of(const Access& access, const std::set<size_t>& dims) {
  constexpr int64_t kMost = 1 << 14;
  const std::vector<const ForNode*> loops = loops_of(access, dims);
  int64_t count = 1;
  IntEnv env;
  for (const ForNode* loop : loops) {
    const int64_t *min = as_int(loop->min), *extent = as_int(loop->extent);
    if (!min || !extent || (count = detail::saturating_mul(count, *extent)) > kMost) return std::nullopt;
    env.push(loop->var.get(), *min);
  }
  std::set<std::vector<int64_t>> elements;
  for (int64_t i = 0; i < count; ++i) {
    int64_t rest = i;
    for (const ForNode* loop : loops) {
      const int64_t extent = *as_int(loop->extent);
      env.set(loop->var.get(), *as_int(loop->min) + rest % extent);
      rest /= extent;
    }
    std::vector<int64_t> element;
    for (const size_t d : dims) {
      int64_t value = 0;
      if (evaluate_int(access.indices[d], env, value) != IntProblem::kNone) return std::nullopt;
      element.push_back(value);
    }
    elements.insert(element);
  }
  return elements;
}

// The index is the same function of its loops in both, and those of the read go no further.
//   4*i + j, i in 3, j in m   lies within   4*u + v, u in 3, v in m
bool is_same_walk(const Access& read, const Access& write, const std::set<size_t>& dims) {
  VarMap counted;
  for (const size_t d : dims) {
    const LinearForm r = linear_form(read.indices[d]), w = linear_form(write.indices[d]);
    for (const ForNode* loop : loops_of(write, {d})) {
      const int64_t coeff = w.coeff_of(loop->var);
      const ForNode* match = nullptr;
      for (const ForNode* other : loops_of(read, {d}))
        if (coeff != 0 && r.coeff_of(other->var) == coeff && structural_equal(other->min, loop->min) &&
            structural_equal(other->extent, loop->extent))
          match = other;
      if (!match) return false;
      counted[loop->var.get()] = Expr(match->var);
    }
    if (!is_zero(Analyzer().simplify(substitute(write.indices[d], counted) - read.indices[d]))) return false;
  }
  return true;
}

// What a thread reads of its part lies within what the nest that writes gives to the same thread.
bool lies_within(const Access& read, const Access& write, const std::set<size_t>& dims) {
  if (is_same_walk(read, write, dims)) return true;
  const auto reads = elements_of(read, dims), writes = elements_of(write, dims);
  return reads && writes && std::ranges::includes(*writes, *reads);
}

Dims dimensions_of_threads(const UnifiedThreads& threads) {
  Dims found;
  each_access(threads.body, [&](const Buffer& buffer, const std::vector<Expr>& indices, AccessKind kind) {
    const auto apart = threads.private_apart.find(buffer->name);
    if (kind == AccessKind::kAddress || apart == threads.private_apart.end()) return;
    for (size_t i = 0; i < indices.size(); ++i)
      for (size_t d = 0; d < 3; ++d)
        if (apart->second[d] && uses_var(indices[i], threads.shape.vars[d].get())) found[buffer->name].insert(i);
  });
  return found;
}

// A buffer of which a thread may read what another one wrote, or "".
std::string read_elsewhere(const Stmt& body, const UnifiedThreads& threads, const std::vector<Stmt>& blocks) {
  const Dims dims = dimensions_of_threads(threads);
  AccessFinder finder(threads);
  finder.visit(body);
  for (const auto& [name, accesses] : finder.found) {
    const auto& apart = threads.private_apart.at(name);
    for (const auto* list : {&accesses.writes, &accesses.reads})
      for (const Access& access : *list)
        for (const Expr& index : access.indices)
          for (size_t d = 0; d < 3; ++d)
            if (apart[d] && uses_var(index, threads.shape.vars[d].get())) return name;
    const auto of_threads = dims.find(name);
    if (of_threads == dims.end()) continue;
    for (const Access& read : accesses.reads)
      for (const Access& write : accesses.writes)
        if (!lies_within(read, write, of_threads->second)) return name;
  }
  Conditions written;
  ThreadConditions conditions(threads, blocks, dims, written);
  conditions.visit(body);
  conditions.collects = false;
  conditions.visit(body);
  return conditions.wrong;
}

}  // namespace

Result<> check_private_memory(const Stmt& body, const UnifiedThreads& threads, const std::vector<Stmt>& blocks) {
  if (threads.private_apart.empty()) return {};
  const std::string wrong = read_elsewhere(body, threads, blocks);
  if (wrong.empty()) return {};
  return fail(ErrorCode::E301,
              fmt::format("buffer {} belongs to one thread, and a thread may read there what another one wrote; bind "
                          "the loops of all nests that use it in the same way, or put it in shared memory",
                          wrong));
}

}  // namespace fettle
