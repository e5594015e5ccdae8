#include <algorithm>

#include "base/check.h"
#include "ir/compare.h"
#include "ir/rewrite.h"
#include "lower/passes/passes.h"

namespace fettle {
namespace {

// Rewrites the body of one vectorized loop. Lanes run in lock-step, so a statement's lanes all finish before the next
// statement begins; `failed` says that the body has no such form.
class LaneRewriter : public Mutator {
 public:
  LaneRewriter(const VarNode* var, Expr min, int lanes) : lanes_(lanes) {
    vectors_[var] = ramp(std::move(min), Expr(1), lanes);
  }

  bool failed = false;

  Expr widen(const Expr& e) { return e.dtype().lanes == 1 ? broadcast(e, lanes_) : e; }

  using Mutator::rewrite;
  Expr rewrite(const Expr& e) override {
    if (!e) return e;
    switch (e.kind()) {
      case ExprKind::kVar: {
        const auto found = vectors_.find(e.as<VarNode>());
        return found == vectors_.end() ? e : found->second;
      }
      case ExprKind::kBinary: {
        const auto* n = e.as<BinaryNode>();
        Expr a = rewrite(n->a);
        const size_t known = read_.size();
        Expr b = rewrite(n->b);
        if (n->op == BinaryOp::kAnd || n->op == BinaryOp::kOr) read_.resize(known);  // b where a leaves it open
        if (a == n->a && b == n->b) return e;
        return vector_binary(n->op, std::move(a), std::move(b));
      }
      case ExprKind::kSelect: {
        const auto* n = e.as<SelectNode>();
        Expr c = rewrite(n->condition);
        // Where the sides read memory, each lane reads only on its own side.
        const bool lane_condition = c.dtype().lanes > 1;
        const Expr outer = mask_, guards = guards_;
        const bool of_values = reads_memory(n->condition);
        const auto enter = [&](const Expr& chosen) {
          if (!lane_condition) return;
          mask_ = both(outer, chosen);
          if (!of_values) guards_ = outer == guards ? mask_ : both(guards, chosen);
        };
        // One choice for all lanes: what a side reads is read sometimes.
        const size_t known = read_.size();
        enter(c);
        Expr t = rewrite(n->if_true);
        if (!lane_condition) read_.resize(known);
        enter(vector_not(c));
        Expr f = rewrite(n->if_false);
        if (!lane_condition) read_.resize(known);
        mask_ = outer;
        guards_ = guards;
        if (c == n->condition && t == n->if_true && f == n->if_false) return e;
        if (c.dtype().lanes == 1 && t.dtype().lanes == 1 && f.dtype().lanes == 1) return select(c, t, f);
        return Expr(make_ref<const SelectNode>(c, widen(t), widen(f)));
      }
      case ExprKind::kLoad: {
        const auto* n = e.as<LoadNode>();
        std::vector<Expr> indices;
        bool vector = false;
        for (const Expr& index : n->indices) {
          indices.push_back(rewrite(index));
          vector |= indices.back().dtype().lanes > 1;
        }
        Expr mask = rewrite(n->mask);
        // Register lanes can always be read; what is off is not stored.
        if (n->buffer->scope == kScopeRegister && indices.size() == 1) return load(n->buffer, std::move(indices));
        // What is read in any case, as far as its guards let it, needs no other mask: that would be all of a condition
        // on values at each of the reads that it chooses between.
        //   select(f(A[i]) > 0, f(A[i]), 0)
        const auto same = [](const Expr& a, const Expr& b) { return a == b || (a && b && structural_equal(a, b)); };
        const bool is_read =
            std::ranges::any_of(read_, [&](const Read& r) { return same(r.load, e) && same(r.guards, guards_); });
        if (mask_ == guards_ && !mask) read_.push_back({e, guards_});
        const Expr needed = is_read ? guards_ : mask_;
        if (!vector) {
          if (mask && mask.dtype().lanes > 1) failed = true;
          // One element for all lanes: read where any lane is on. A mask may protect it, so it is kept per lane.
          if (needed) {
            if (indices.size() != 1) failed = true;
            return load(n->buffer, {broadcast(indices[0], lanes_)}, needed);
          }
          return load(n->buffer, std::move(indices), mask);
        }
        if (indices.size() != 1) failed = true;
        return load(n->buffer, std::move(indices), both(needed, mask));
      }
      case ExprKind::kAddress:
        failed = true;
        return e;
      case ExprKind::kCall: {
        const auto* n = e.as<CallNode>();
        std::vector<Expr> args;
        bool changed = false, vector = false;
        for (const Expr& arg : n->args) {
          args.push_back(rewrite(arg));
          changed |= !(args.back() == arg);
          vector |= args.back().dtype().lanes > 1;
        }
        if (!changed) return e;
        if (vector)
          for (Expr& arg : args) arg = widen(arg);
        return call(n->name, std::move(args), n->dtype.with_lanes(vector ? lanes_ : 1));
      }
      case ExprKind::kRamp:
      case ExprKind::kBroadcast:
      case ExprKind::kShuffle:
        failed |= depends(e);
        return e;
      default:
        return Mutator::rewrite(e);
    }
  }
  Stmt rewrite(const Stmt& s) override {
    if (!s || failed) return s;
    switch (s.kind()) {
      case StmtKind::kFor: {
        const auto* n = s.as<ForNode>();
        Expr min = rewrite(n->min), extent = rewrite(n->extent);
        if (min.dtype().lanes > 1 || extent.dtype().lanes > 1 || n->loop_kind == ForKind::kParallel) {
          failed = true;
          return s;
        }
        Stmt body = rewrite(n->body);
        return with_body(*n, body);
      }
      case StmtKind::kSeq:
        return Mutator::rewrite(s);
      case StmtKind::kIf: {
        const auto* n = s.as<IfNode>();
        Expr condition = rewrite(n->condition);
        if (condition.dtype().lanes == 1) {
          Stmt then_body = rewrite(n->then_body);
          read_.clear();
          Stmt else_body = rewrite(n->else_body);
          read_.clear();
          return if_then(condition, then_body, else_body);
        }
        const Expr outer = mask_, guards = guards_;
        const bool of_values = reads_memory(n->condition);
        const auto under = [&](const Expr& chosen, const Stmt& body) {
          mask_ = both(outer, chosen);
          if (!of_values) guards_ = outer == guards ? mask_ : both(guards, chosen);
          return rewrite(body);
        };
        Stmt then_body = under(condition, n->then_body), else_body;
        if (n->else_body) else_body = under(vector_not(condition), n->else_body);
        mask_ = outer;
        guards_ = guards;
        return seq({then_body, else_body});
      }
      case StmtKind::kLet: {
        const auto* n = s.as<LetNode>();
        Expr value = rewrite(n->value);
        if (value.dtype().lanes == 1) return let(n->var, value, rewrite(n->body));
        Var wide = make_var(n->var->name, value.dtype());
        vectors_[n->var.get()] = Expr(wide);
        return let(wide, value, rewrite(n->body));
      }
      case StmtKind::kStore: {
        const auto* n = s.as<StoreNode>();
        read_.clear();
        if (n->indices.size() != 1) {
          failed = true;
          return s;
        }
        Expr index = rewrite(n->indices[0]), value = rewrite(n->value), mask = rewrite(n->mask);
        if (index.dtype().lanes == 1) {
          // All lanes store to one element: the same value, or a race.
          if (value.dtype().lanes > 1 || mask_) failed = true;
          return store(n->buffer, {index}, value, mask);
        }
        return store(n->buffer, {index}, widen(value), both(mask_, mask));
      }
      case StmtKind::kEvaluate:
      case StmtKind::kBlock:
      case StmtKind::kAllocate:
      case StmtKind::kWhile:
      case StmtKind::kCallFunc:
      case StmtKind::kAsync:
        failed = true;
        return s;
    }
    FETTLE_UNREACHABLE();
  }

 private:
  bool depends(const Expr& e) const {
    return contains<VarNode>(e, [&](const VarNode& var) { return vectors_.contains(&var); });
  }

  Expr both(const Expr& a, const Expr& b) {
    if (!a) return b ? widen(b) : b;
    if (!b) return a;
    Expr x = widen(a), y = widen(b);
    return binary(BinaryOp::kAnd, x, y);
  }
  static Expr vector_not(const Expr& c) { return Expr(make_ref<const NotNode>(c)); }

  // Keeps index arithmetic in ramp form, which is what makes an access contiguous.
  Expr vector_binary(BinaryOp op, Expr a, Expr b) {
    const int la = a.dtype().lanes, lb = b.dtype().lanes;
    if (la == 1 && lb == 1) return binary(op, a, b);
    const auto* ra = a.as<RampNode>();
    const auto* rb = b.as<RampNode>();
    if (op == BinaryOp::kAdd) {
      if (ra && lb == 1) return ramp(ra->base + b, ra->stride, lanes_);
      if (rb && la == 1) return ramp(a + rb->base, rb->stride, lanes_);
      if (ra && rb) return ramp(ra->base + rb->base, ra->stride + rb->stride, lanes_);
    } else if (op == BinaryOp::kSub) {
      if (ra && lb == 1) return ramp(ra->base - b, ra->stride, lanes_);
    } else if (op == BinaryOp::kMul) {
      if (ra && lb == 1) return ramp(ra->base * b, ra->stride * b, lanes_);
      if (rb && la == 1) return ramp(a * rb->base, a * rb->stride, lanes_);
    }
    return binary(op, widen(a), widen(b));
  }

  int lanes_;
  Expr mask_;    // null: all lanes are on
  Expr guards_;  // the part of it that reads no memory
  struct Read {
    Expr load, guards;
  };
  std::vector<Read> read_;  // by the statement, under guards alone
  VarMap vectors_;
};

class Vectorizer : public StmtMutator {
 public:
  using Mutator::rewrite;
  Stmt rewrite(const Stmt& s) override {
    const auto* loop = s.as<ForNode>();
    if (!loop || loop->loop_kind != ForKind::kVectorized) return Mutator::rewrite(s);
    const int64_t* lanes = as_int(loop->extent);
    Stmt serial = serialized(*loop);
    if (!lanes || *lanes > 4096) return Mutator::rewrite(serial);
    const auto is_vectorized = [](const ForNode& inner) { return inner.loop_kind == ForKind::kVectorized; };
    if (contains<ForNode>(loop->body, is_vectorized)) return Mutator::rewrite(serial);  // lanes are one loop's
    if (*lanes == 1) return rewrite(substitute(loop->body, {{loop->var.get(), loop->min}}));
    LaneRewriter lanes_of(loop->var.get(), loop->min, static_cast<int>(*lanes));
    Stmt body = lanes_of.rewrite(loop->body);
    if (lanes_of.failed) return Mutator::rewrite(serial);
    return body;
  }
};

}  // namespace

Stmt vectorize_loops(const Stmt& body) { return Vectorizer().rewrite(body); }

}  // namespace fettle
