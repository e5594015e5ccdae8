#include "arith/analyzer.h"
#include "ir/rewrite.h"
#include "lower/passes/passes.h"
#include "lower/passes/range_mutator.h"
#include "schedule/dataflow/dataflow.h"

namespace fettle {
namespace {

/// Shorter loops gain nothing.
constexpr int64_t kFewestTurns = 4;

// Guards below a loop that hold wherever the analyzer knows the variables to be. Those that `var` has no part in are
// none of its tail.
class Resolver : public RangeMutator {
 public:
  Resolver(Analyzer& analyzer, const VarNode* var) : RangeMutator(analyzer), var_(var) {}
  using Mutator::rewrite;
  bool all_hold = true;

  Expr rewrite(const Expr& e) override {
    if (const auto* choice = e.as<SelectNode>())
      return select(guard(choice->condition), rewrite(choice->if_true), rewrite(choice->if_false));
    return Mutator::rewrite(e);
  }
  Stmt rewrite(const Stmt& s) override {
    if (const auto* branch = s.as<IfNode>()) {
      const Expr condition = guard(branch->condition);
      Stmt then_body = rewrite(branch->then_body);
      if (is_true(condition)) return then_body;
      return if_then(condition, then_body, branch->else_body ? rewrite(branch->else_body) : Stmt());
    }
    return RangeMutator::rewrite(s);
  }

 private:
  Expr guard(const Expr& condition) {
    Expr left;
    for (const Expr& part : conjuncts(condition)) {
      if (analyzer_.can_prove(part)) continue;
      all_hold &= !uses_var(part, var_);
      left = logical_and(left, part);
    }
    return left ? left : bool_imm(true);
  }

  const VarNode* var_;
};

// Whether the body is small enough to stand there twice, and has guards. It has no loops but those that become copies
// or lanes, and those in lanes: what all lanes do in turn is guarded in each iteration.
class Doubling {
 public:
  static bool pays(const Stmt& body) {
    Doubling doubling;
    doubling.look(body, false);
    return doubling.fits_ && doubling.guarded_;
  }

 private:
  void look(const Stmt& body, bool in_lanes) {
    walk(
        body,
        [&](const Stmt& s) {
          const auto* loop = s.as<ForNode>();
          const bool is_lanes = loop && loop->loop_kind == ForKind::kVectorized;
          fits_ &= !loop || in_lanes || is_lanes || loop->loop_kind == ForKind::kUnrolled;
          fits_ &= !s.as<AllocateNode>() && !s.as<WhileNode>() && !s.as<AsyncNode>();
          guarded_ |= s.as<IfNode>() != nullptr;
          if (is_lanes && !in_lanes) look(loop->body, true);
          return fits_ && (in_lanes || !is_lanes);
        },
        [&](const Expr& e) {
          guarded_ |= e.as<SelectNode>() != nullptr;
          return fits_;
        });
  }

  bool fits_ = true, guarded_ = false;
};

class Peeler : public RangeMutator {
 public:
  explicit Peeler(const Func& func) : RangeMutator(func) {}
  using Mutator::rewrite;
  Stmt rewrite(const Stmt& s) override {
    const auto* loop = s.as<ForNode>();
    if (!loop) return Mutator::rewrite(s);
    const int64_t* turns = as_int(loop->extent);
    Stmt inner = loop->body;
    while (const auto* allocate = inner.as<AllocateNode>()) inner = allocate->body;
    const bool in_pieces = loop->loop_kind == ForKind::kParallel && !turns;
    if ((loop->loop_kind != ForKind::kSerial && !in_pieces) || (turns && *turns < kFewestTurns) ||
        !is_zero(loop->min) || !Doubling::pays(inner))
      return RangeMutator::rewrite(s);
    if (holds_for(*loop, inner, loop->extent)) return s;  // nothing needs a turn of its own
    for (const Expr& whole : whole_turns(*loop)) {
      const Stmt body = holds_for(*loop, inner, whole);
      if (!body) continue;
      if (in_pieces)  // the turns are dealt out
        return with_body(*loop, around(loop->body, if_then(lt(Expr(loop->var), whole), body, inner)));
      const Expr runs =
          turns ? bool_imm(true) : analyzer_.simplify(logical_and(le(Expr(0), whole), lt(whole, loop->extent)));
      const Stmt rest = substitute(inner, {{loop->var.get(), whole}});
      return around(loop->body, seq({with(*loop,
                                          [&](ForNode& f) {
                                            f.extent = analyzer_.simplify(max(whole, Expr(0)));
                                            f.body = body;
                                          }),
                                     is_true(runs) ? rest : if_then(runs, rest)}));
    }
    return s;
  }

 private:
  // How many turns may be whole: of an open number in tiles those that the tiles fill, or all but the last.
  //   (n + 7) / 8: n / 8, (n + 7) / 8 - 1
  std::vector<Expr> whole_turns(const ForNode& loop) {
    if (const int64_t* turns = as_int(loop.extent)) return {Expr(*turns - 1)};
    std::vector<Expr> found;
    const auto* tiles = loop.extent.as<BinaryNode>();
    const int64_t* tile = tiles && tiles->op == BinaryOp::kFloorDiv ? as_int(tiles->b) : nullptr;
    if (tile && *tile > 1) found.push_back(analyzer_.simplify(floordiv(tiles->a - (*tile - 1), *tile)));
    found.push_back(analyzer_.simplify(loop.extent - 1));
    return found;
  }

  // What the body allocates serves both parts.
  static Stmt around(const Stmt& body, const Stmt& parts) {
    const auto* allocate = body.as<AllocateNode>();
    if (!allocate) return parts;
    return with(*allocate, [&](AllocateNode& a) { a.body = around(allocate->body, parts); });
  }

  // `body` without its guards, if they hold in the first `turns` iterations; else null.
  Stmt holds_for(const ForNode& loop, const Stmt& body, const Expr& turns) {
    auto scope = analyzer_.enter();
    analyzer_.bind(loop.var, Expr(0), turns);
    Resolver resolver(analyzer_, loop.var.get());
    Stmt resolved = resolver.rewrite(body);
    return resolver.all_hold ? resolved : Stmt();
  }
};

}  // namespace

Func peel_tails(const Func& func) {
  if (!has_guards(func->body)) return func;
  return with_body(func, Peeler(func).rewrite(func->body));
}

}  // namespace fettle
