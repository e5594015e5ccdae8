#include "ir/annotations.h"
#include "ir/visit.h"
#include "lower/device/passes.h"
#include "lower/passes/passes.h"

namespace fettle {
namespace {

bool is_call(const Stmt& s, const char* name) {
  const auto* effect = s ? s.as<EvaluateNode>() : nullptr;
  const auto* called = effect ? effect->value.as<CallNode>() : nullptr;
  return called && called->name == name;
}

int64_t count_calls(const Stmt& s, const char* name) {
  int64_t count = 0;
  walk(s, [&](const Stmt& x) {
    count += is_call(x, name);
    return true;
  });
  return count;
}

void flatten(const Stmt& s, std::vector<Stmt>& out) {
  const auto* all = s ? s.as<SeqNode>() : nullptr;
  if (!all) return out.push_back(s);
  for (const Stmt& child : all->stmts) flatten(child, out);
}

class Relaxer : public Mutator {
 public:
  using Mutator::rewrite;
  Expr rewrite(const Expr& e) override { return e; }
  Stmt rewrite(const Stmt& s) override {
    const auto* loop = s ? s.as<ForNode>() : nullptr;
    const int64_t ahead = loop ? loop->annotations.get_int(kAsyncAheadKey, 0) : 0;
    if (ahead < 2) return Mutator::rewrite(s);
    std::vector<Stmt> turn;
    flatten(loop->body, turn);
    // barrier(); copies; async_commit(); the rest
    size_t commit = 0;
    while (commit < turn.size() && !is_call(turn[commit], kAsyncCommitCall)) ++commit;
    bool fits = is_call(turn[0], "barrier") && count_calls(loop->body, "barrier") == 1 &&
                count_calls(loop->body, kAsyncCommitCall) == 1 && commit < turn.size();
    for (size_t i = commit; i < turn.size() && fits; ++i) fits = count_calls(turn[i], kAsyncCopyCall) == 0;
    if (!fits) return Mutator::rewrite(s);
    turn[0] = evaluate(call("barrier", {Expr(ahead - 1)}, kI32));
    const Stmt relaxed = with(*loop, [&](ForNode& f) { f.body = seq(std::move(turn)); });
    return seq({relaxed, evaluate(call("barrier", {}, kI32))});
  }
};

}  // namespace

Stmt relax_waits(const Stmt& body) { return Relaxer().rewrite(body); }

}  // namespace fettle
