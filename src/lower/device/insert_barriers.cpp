#include <algorithm>
#include <numeric>
#include <optional>
#include <unordered_map>
#include <unordered_set>

#include <fmt/format.h>

#include "arith/affine_map.h"
#include "arith/analyzer.h"
#include "ir/annotations.h"
#include "ir/compare.h"
#include "ir/rewrite.h"
#include "ir/text.h"
#include "lower/device/passes.h"
#include "lower/passes/passes.h"
#include "schedule/dataflow/dataflow.h"

namespace fettle {
namespace {

struct Access {
  Buffer buffer;
  bool is_write = false;
  std::vector<Expr> indices;
  std::vector<const ForNode*> loops;             // around it, outermost first
  std::array<std::optional<int64_t>, 3> pinned;  // threads other than this one do not run it
  bool is_async = false;                         // not done before the next barrier, for the same thread neither
};

// Instead of a number of a thread: those of a warp do it together.
constexpr int64_t kWholeWarp = -1;
using Accesses = std::vector<Access>;

// What a statement does, seen from outside.
struct Effect {
  Stmt stmt;
  Accesses head, tail;  // that may come before its first, and after its last barrier
  bool has_barrier = false;
  bool surely_syncs = false;
};

void append(Accesses& to, const Accesses& more) { to.insert(to.end(), more.begin(), more.end()); }

// Two accesses by different threads: do they ever meet in one element?
class Meeting {
 public:
  Meeting(const ThreadShape& shape, bool only_across) : shape_(shape), only_across_(only_across) {}

  // The first `same` loops around both are in one iteration; the next one, if `carried`, is `distance` iterations
  // further at y (0: any number).
  bool possible(const Access& x, const Access& y, size_t same, bool carried, int64_t distance) {
    if (!(x.buffer == y.buffer) || (!x.is_write && !y.is_write)) return false;
    Analyzer analyzer;
    VarMap at_x, at_y;
    std::array<Var, 3> other;
    for (size_t d = 0; d < 3; ++d) {
      if (!shape_.vars[d]) continue;
      analyzer.bind(shape_.vars[d], 0, Expr(shape_.extents[d]));
      other[d] = make_var(shape_.vars[d]->name + "'");
      analyzer.bind(other[d], 0, Expr(shape_.extents[d]));
      at_y[shape_.vars[d].get()] = other[d];
      if (x.pinned[d]) at_x[shape_.vars[d].get()] = Expr(*x.pinned[d]);
      if (y.pinned[d]) at_y[shape_.vars[d].get()] = Expr(*y.pinned[d]);
    }
    for (size_t i = 0; i < x.loops.size(); ++i) {
      const ForNode& loop = *x.loops[i];
      analyzer.bind(loop.var, substitute(loop.min, at_x), substitute(loop.extent, at_x));
    }
    for (size_t i = same; i < y.loops.size(); ++i) {
      const ForNode& loop = *y.loops[i];
      if (i == same && carried) {
        Expr later = Expr(loop.var) + Expr(distance);
        if (distance == 0) {
          const Var any = make_var("distance");
          analyzer.bind(any, 1, max(loop.extent - 1, Expr(1)));
          later = Expr(loop.var) + any;
        }
        at_y[loop.var.get()] = later;
        continue;
      }
      const Var fresh = make_var(loop.var->name + "'");
      analyzer.bind(fresh, substitute(loop.min, at_y), substitute(loop.extent, at_y));
      at_y[loop.var.get()] = fresh;
    }
    if (carried && is_injective(x, y, same, analyzer)) return false;
    return possible(x, y, at_x, at_y, other, analyzer);
  }

 private:
  // One store, which never writes an element twice, whoever runs it and when.
  bool is_injective(const Access& x, const Access& y, size_t same, Analyzer& analyzer) const {
    if (!x.is_write || !y.is_write || x.loops != y.loops || x.indices.size() != y.indices.size()) return false;
    for (size_t d = 0; d < x.indices.size(); ++d)
      if (x.indices[d].get() != y.indices[d].get()) return false;
    std::vector<VarDomain> domains;
    for (size_t i = same; i < x.loops.size(); ++i)
      domains.push_back({x.loops[i]->var, {x.loops[i]->min, x.loops[i]->extent}});
    for (size_t d = 0; d < 3; ++d)
      if (shape_.vars[d] && !x.pinned[d]) domains.push_back({shape_.vars[d], {0, Expr(shape_.extents[d])}});
    const AffineMap map = detect_affine_map(x.indices, x.buffer->shape, domains, nullptr, analyzer);
    return map.affine && map.injective;
  }

  bool possible(const Access& x, const Access& y, const VarMap& at_x, const VarMap& at_y,
                const std::array<Var, 3>& other, Analyzer& analyzer) {
    std::vector<Expr> first, second;
    for (size_t d = 0; d < x.indices.size(); ++d) {
      first.push_back(substitute(x.indices[d], at_x));
      second.push_back(substitute(y.indices[d], at_y));
    }
    if (first.size() > 1) {
      first.push_back(flat_index(*x.buffer, first));
      second.push_back(flat_index(*x.buffer, second));
    }
    std::array<bool, 3> determined{};
    for (size_t d = 0; d < 3; ++d)
      determined[d] = !shape_.vars[d] || shape_.extents[d] == 1 || (x.pinned[d] && x.pinned[d] == y.pinned[d]);
    VarMap back;
    for (size_t d = 0; d < 3; ++d)
      if (other[d]) back[other[d].get()] = shape_.vars[d];
    std::vector<Expr> functions_of_threads;
    for (size_t i = 0; i < first.size(); ++i) {
      const LinearForm a = analyzer.linear(first[i]), b = analyzer.linear(second[i]);
      LinearForm distance = a;
      distance.add(b, -1);
      if (!analyzer.int_bounds(distance).contains(0) || differ_modulo(a, b, distance, analyzer)) return false;
      determine(distance, other, determined, analyzer);
      const Expr same = analyzer.simplify(first[i]);
      if (structural_equal(same, analyzer.simplify(substitute(second[i], back)))) functions_of_threads.push_back(same);
    }
    if (only_across_ && determined[1]) return false;
    if (x.is_async || y.is_async) return true;
    if (determined[0] && determined[1] && determined[2]) return false;
    // All together may name the thread, as [t // 4, t % 4] does.
    std::vector<VarDomain> domains;
    std::vector<Expr> extents;
    for (size_t d = 0; d < 3; ++d)
      if (!determined[d]) domains.push_back({shape_.vars[d], {0, Expr(shape_.extents[d])}});
    std::erase_if(functions_of_threads, [&](const Expr& e) {
      for (const Var& var : collect_vars(e))
        for (size_t d = 0; d < 3; ++d)
          if (var == shape_.vars[d] && !determined[d]) return false;
      return true;
    });
    for (const Expr& e : functions_of_threads) {
      const Interval range = analyzer.int_bounds(e);
      if (!range.is_bounded()) return true;
      extents.push_back(Expr(range.max + 1));
    }
    const AffineMap map = detect_affine_map(functions_of_threads, extents, domains, nullptr, analyzer);
    return !(map.affine && map.injective);
  }

  // a and b never are equal, by their remainders.
  static bool differ_modulo(const LinearForm& a, const LinearForm& b, const LinearForm& distance, Analyzer& analyzer) {
    const Modular m = analyzer.modular(distance);
    if (m.base != 0) return true;
    if (a.terms.size() != 1 || b.terms.size() != 1 || a.constant != b.constant || a.terms[0].coeff != b.terms[0].coeff)
      return false;
    const auto* p = a.terms[0].expr.as<BinaryNode>();
    const auto* q = b.terms[0].expr.as<BinaryNode>();
    if (!p || !q || p->op != BinaryOp::kFloorMod || q->op != BinaryOp::kFloorMod) return false;
    const int64_t *n = as_int(p->b), *k = as_int(q->b);
    if (!n || !k || *n != *k || *n < 1) return false;
    LinearForm inner = analyzer.linear(p->a);
    inner.add(analyzer.linear(q->a), -1);
    return inner.is_constant() && floormod_int(inner.constant, *n) != 0;
  }

  // distance == 0, written as sum of c_j * (t_j - t'_j) + rest: threads whose c_j exceeds all else together must be
  // equal.
  void determine(const LinearForm& distance, const std::array<Var, 3>& other, std::array<bool, 3>& determined,
                 Analyzer& analyzer) {
    LinearForm rest = distance;
    std::array<int64_t, 3> coeffs{};
    for (size_t d = 0; d < 3; ++d) {
      if (!other[d]) continue;
      coeffs[d] = rest.coeff_of(shape_.vars[d]);
      if (rest.coeff_of(other[d]) != -coeffs[d]) return;
      if (coeffs[d] == 0) continue;
      rest.add_term(shape_.vars[d], -coeffs[d]);
      rest.add_term(other[d], coeffs[d]);
      coeffs[d] = coeffs[d] < 0 ? -coeffs[d] : coeffs[d];
    }
    const Interval range = analyzer.int_bounds(rest);
    if (!range.is_bounded()) return;
    const int64_t width = std::max(-range.min, range.max);
    std::array<size_t, 3> order = {0, 1, 2};
    std::sort(order.begin(), order.end(), [&](size_t p, size_t q) { return coeffs[p] > coeffs[q]; });
    for (size_t i = 0; i < 3; ++i) {
      int64_t others = width;
      for (size_t j = i + 1; j < 3; ++j)
        others = detail::saturating_add(others, detail::saturating_mul(coeffs[order[j]], shape_.extents[order[j]] - 1));
      if (coeffs[order[i]] <= others) return;
      determined[order[i]] = true;
    }
  }

  const ThreadShape& shape_;
  const bool only_across_;  // asked is whether threads of different threadIdx.y meet
};

bool is_barrier(const CallNode& call) { return call.name == "barrier"; }

bool is_async_copy(const ForNode& loop) {
  return loop.annotations.find(kLanesKey) && loop.annotations.find(kAsyncCopyKey);
}

// Whether an asynchronous copy takes different values to one element, by a loop that its place does not depend on.
class CopyRepeats : public Visitor {
 public:
  bool repeats(const Stmt& s) {
    visit(s);
    return found_;
  }
  using Visitor::visit;
  void visit(const Stmt& s) override {
    if (!s) return;
    const auto* loop = s.as<ForNode>();
    if (loop) loops_.push_back(loop);
    const auto* target = s.as<StoreNode>();
    if (target && !loops_.empty() && is_async_copy(*loops_.back()))
      for (const ForNode* around : loops_) {
        const auto uses = [&](const Expr& e) { return uses_var(e, around->var.get()); };
        found_ |= uses(target->value) && std::ranges::none_of(target->indices, uses);
      }
    Visitor::visit(s);
    if (loop) loops_.pop_back();
  }

 private:
  std::vector<const ForNode*> loops_;
  bool found_ = false;
};

class BarrierInserter : private AccessVisitor {
 public:
  BarrierInserter(const ThreadShape& shape, const Target& target, bool only_across)
      : shape_(shape), target_(target), meeting_(shape, only_across) {}

  Result<Stmt> run(const Stmt& body) {
    each_node<StoreNode>(body, [&](const StoreNode& target) { written_.insert(target.buffer.get()); });
    Effect effect = process(body);
    if (problem_) return fail(*problem_);
    return effect.stmt;
  }

 private:
  using Pins = std::array<std::optional<int64_t>, 3>;

  static Stmt barrier() { return evaluate(call("barrier", {}, kI32)); }

  bool meet(const Accesses& before, const Accesses& after, size_t same, bool carried, int64_t distance) {
    for (const Access& x : before)
      for (const Access& y : after)
        if (meeting_.possible(x, y, same, carried, distance)) return true;
    return false;
  }

  Effect process(const Stmt& s) {
    if (!s || problem_) return {s, {}, {}, false, false};
    if (const auto* all = s.as<SeqNode>()) return sequence(all->stmts);
    const auto* nest = s.as<ForNode>();
    const int64_t lane_axes = nest ? nest->annotations.get_int(kWarpTileKey, 0) : 0;
    const bool by_warp = lane_axes > 0;
    if (nest && !by_warp && !nest->annotations.find(kThreadRegionKey) && !reads_memory(nest->extent))
      return loop(*nest);
    if (const auto* n = s.as<AllocateNode>()) {
      Effect e = process(n->body);
      e.stmt = allocate(n->buffer, e.stmt);
      return e;
    }
    if (const auto* n = s.as<LetNode>(); n && !reads_memory(n->value)) {
      Effect e = process(n->body);
      e.stmt = let(n->var, n->value, e.stmt);
      return e;
    }
    // All threads go the same way (a pipeline's prologue where there is anything to do, say).
    if (const auto* n = s.as<IfNode>(); n && !reads_memory(n->condition) && !uses_thread(n->condition)) {
      const Effect a = process(n->then_body), b = process(n->else_body);
      Effect e{if_then(n->condition, a.stmt, b.stmt), a.head, a.tail, a.has_barrier || b.has_barrier,
               n->else_body && a.surely_syncs && b.surely_syncs};
      append(e.head, b.head);
      append(e.tail, b.tail);
      return e;
    }
    if (const CallNode* c = effect_of(s); c && c->name == "barrier") return {s, {}, {}, true, true};
    Pins pinned;
    for (size_t d = 0; d < static_cast<size_t>(lane_axes); ++d) pinned[d] = kWholeWarp;
    Accesses all = collect(s, pinned);
    if (std::ranges::none_of(all, [](const Access& a) { return a.is_async; })) return {s, all, all, false, false};
    if (!meets_own_copies(s, all)) return {s, all, all, false, false};
    // No barrier can stand between the copies and what meets them, so they are ordinary ones.
    kept_.push_back(rewrite_each<ForNode>(s, [](const ForNode& loop) {
      return is_async_copy(loop) ? with(loop, [](ForNode& f) { f.annotations.erase(kAsyncCopyKey); }) : Stmt();
    }));
    all = collect(kept_.back(), pinned);
    return {kept_.back(), all, all, false, false};
  }

  // An asynchronous copy and something else in one statement touch the same buffer, or the copy writes elements twice.
  static bool meets_own_copies(const Stmt& s, const Accesses& all) {
    for (const Access& x : all)
      for (const Access& y : all)
        if (x.is_async && &x != &y && x.buffer == y.buffer) return true;
    return CopyRepeats().repeats(s);
  }

  Effect sequence(const std::vector<Stmt>& stmts) {
    Effect result;
    std::vector<Stmt> out;
    Accesses pending;
    for (const Stmt& s : stmts) {
      const Effect e = process(s);
      if (meet(pending, e.head, loops_.size(), false, 0)) {
        out.push_back(barrier());
        pending.clear();
        result.has_barrier = result.surely_syncs = true;
      }
      if (!result.surely_syncs) append(result.head, e.head);
      if (e.surely_syncs)
        pending = e.tail;
      else
        append(pending, e.tail);
      result.has_barrier |= e.has_barrier;
      result.surely_syncs |= e.surely_syncs;
      out.push_back(e.stmt);
    }
    result.tail = std::move(pending);
    result.stmt = seq(std::move(out));
    return result;
  }

  Effect loop(const ForNode& node) {
    loops_.push_back(&node);
    Effect e = process(node.body);
    loops_.pop_back();
    Accesses again = e.head;
    // Its iterations are those of a loop over blocks, which meet nowhere in memory.
    if (node.annotations.find(kPersistentKey))
      std::erase_if(again, [&](const Access& a) { return sharing_of(*a.buffer, target_) == SharedBy::kAll; });
    if (!is_one(node.extent) && meet(e.tail, again, loops_.size(), true, e.surely_syncs ? 1 : 0)) {
      e.stmt = seq({barrier(), e.stmt});
      e.head.clear();
      e.has_barrier = e.surely_syncs = true;
    }
    if (e.has_barrier && (uses_thread(node.min) || uses_thread(node.extent)) && !problem_)
      problem_ = Diagnostic(
          ErrorCode::E301,
          fmt::format("threads must meet inside loop {}, but its {} iterations from {} differ from thread to "
                      "thread; guard what is inside instead",
                      node.var->name, to_text(node.extent), to_text(node.min)));
    const int64_t* extent = as_int(node.extent);
    e.surely_syncs &= extent && *extent > 0;
    e.stmt = with_body(node, e.stmt);
    return e;
  }

  bool uses_thread(const Expr& e) const {
    for (const Var& var : shape_.vars)
      if (var && uses_var(e, var.get())) return true;
    return false;
  }

  // What the statement accesses that other threads may write.
  Accesses collect(const Stmt& s, const Pins& pinned) {
    n_outer_ = loops_.size();
    pinned_ = pinned;
    found_.clear();
    visit(s);
    return std::move(found_);
  }

  void access(const Buffer& buffer, const std::vector<Expr>& indices, AccessKind kind) override {
    if (!written_.count(buffer.get()) || sharing_of(*buffer, target_) == SharedBy::kThread) return;
    const bool is_write = kind != AccessKind::kRead;
    Access access{buffer, is_write, indices, {loops_.begin(), loops_.end()}, pinned_};
    access.is_async = is_write && loops_.size() > n_outer_ && is_async_copy(*loops_.back());
    for (const Access& known : found_)
      if (known.buffer == buffer && known.is_write == is_write && known.loops == access.loops &&
          known.pinned == pinned_ && structural_equal(known.indices, indices))
        return;
    found_.push_back(std::move(access));
  }

  using AccessVisitor::visit;
  void visit(const Stmt& s) override {
    const auto* choice = s.as<IfNode>();
    if (!choice) return AccessVisitor::visit(s);
    visit(choice->condition);
    visit(choice->else_body);
    const Pins before = pinned_;
    for (const Expr& conjunct : conjuncts(choice->condition)) {
      const auto* c = conjunct.as<BinaryNode>();
      if (!c || c->op != BinaryOp::kEq) continue;
      for (size_t d = 0; d < 3; ++d)
        if (shape_.vars[d] && c->a == Expr(shape_.vars[d]) && as_int(c->b)) pinned_[d] = *as_int(c->b);
    }
    visit(choice->then_body);
    pinned_ = before;
  }

  const ThreadShape& shape_;
  const Target& target_;
  Meeting meeting_;
  std::unordered_set<const BufferNode*> written_;
  size_t n_outer_ = 0;  // of loops_: those around the statement that is looked at
  Pins pinned_;
  Accesses found_;
  std::vector<Stmt> kept_;  // loops are told apart by their addresses
  std::optional<Diagnostic> problem_;
};

}  // namespace

Result<Stmt> insert_barriers(const Stmt& body, const ThreadShape& shape, const Target& target, bool in_groups) {
  if (shape.extents[0] * shape.extents[1] * shape.extents[2] == 1) return body;
  FETTLE_TRY(const Stmt all, BarrierInserter(shape, target, false).run(body));
  if (!in_groups) return all;
  FETTLE_TRY(const Stmt across, BarrierInserter(shape, target, true).run(body));
  if (contains<CallNode>(across, is_barrier)) return all;
  return rewrite_each<EvaluateNode>(all, [](const EvaluateNode& node) {
    const auto* called = node.value.as<CallNode>();
    return called && is_barrier(*called) ? evaluate(call(kGroupBarrierCall, {}, kI32)) : Stmt();
  });
}

}  // namespace fettle
