#include "ir/compare.h"
#include "ir/visit.h"
#include "lower/passes/passes.h"

namespace fettle {
namespace {

// 0 not kept … 3 to all caches; 2 leaves the first level to what is used now.
constexpr int kLocality = 2;

class PrefetchInserter : public Mutator {
 public:
  using Mutator::rewrite;
  Expr rewrite(const Expr& e) override { return e; }
  Stmt rewrite(const Stmt& s) override {
    Stmt result = Mutator::rewrite(s);
    const auto* loop = result.as<ForNode>();
    const int64_t distance = loop ? loop->annotations.get_int("prefetch", 0) : 0;
    if (distance == 0) return result;
    std::vector<Stmt> stmts;
    std::vector<Expr> seen;
    walk(loop->body, [](const Stmt&) { return true; }, [&](const Expr& e) {
      const auto* source = e.as<LoadNode>();
      const auto* lanes = source && source->indices.size() == 1 ? source->indices[0].as<RampNode>() : nullptr;
      if (!lanes || !is_one(lanes->stride) || source->buffer->scope == kScopeRegister) return true;
      if (!uses_var(lanes->base, loop->var.get())) return true;
      Expr ahead = address_of(source->buffer, {substitute(lanes->base, {{loop->var.get(), loop->var + Expr(distance)}})});
      for (const Expr& known : seen)
        if (structural_equal(known, ahead)) return true;
      seen.push_back(ahead);
      stmts.push_back(evaluate(call("prefetch", {ahead, int_imm(kLocality, kI32)}, kI32)));
      return true;
    });
    stmts.push_back(loop->body);
    return with(*loop, [&](ForNode& f) { f.body = seq(stmts); });
  }
};

}  // namespace

Stmt insert_prefetches(const Stmt& body) { return PrefetchInserter().rewrite(body); }

}  // namespace fettle
