#include "ir/annotations.h"
#include "ir/rewrite.h"
#include "lower/device/passes.h"
#include "lower/passes/passes.h"

namespace fettle {
namespace {

bool is_call(const Stmt& s, const char* name) {
  const CallNode* called = effect_of(s);
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

Stmt relaxed(const ForNode& loop) {
  const int64_t ahead = loop.annotations.get_int(kAsyncAheadKey, 0);
  if (ahead < 2) return nullptr;
  std::vector<Stmt> turn = parts_of(loop.body);
  // barrier(); copies; async_commit(); the rest
  size_t commit = 0;
  while (commit < turn.size() && !is_call(turn[commit], kAsyncCommitCall)) ++commit;
  bool fits = is_call(turn[0], "barrier") && count_calls(loop.body, "barrier") == 1 &&
              count_calls(loop.body, kAsyncCommitCall) == 1 && commit < turn.size();
  for (size_t i = commit; i < turn.size() && fits; ++i) fits = count_calls(turn[i], kAsyncCopyCall) == 0;
  if (!fits) return nullptr;
  turn[0] = evaluate(call("barrier", {Expr(ahead - 1)}, kI32));
  return seq({with_body(loop, seq(std::move(turn))), evaluate(call("barrier", {}, kI32))});
}

}  // namespace

Stmt relax_waits(const Stmt& body) { return rewrite_each<ForNode>(body, relaxed); }

}  // namespace fettle
