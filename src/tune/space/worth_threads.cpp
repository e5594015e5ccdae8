#include "tune/space/worth_threads.h"

#include "ir/visit.h"

namespace fettle {

int64_t calls_of(const BlockNode& block) {
  int64_t calls = 0;
  walk(
      block.body, [](const Stmt&) { return true; },
      [&](const Expr& e) {
        const auto* call = e.as<CallNode>();
        calls += call && call->name != "sqrt" && call->name != "rsqrt" && call->name != "likely" ? 1 : 0;
        return true;
      });
  return calls;
}

double alone_ns(const RuleContext& ctx, const BlockStructure& block, int64_t calls) {
  constexpr double kOther = 0.5, kCall = 4;
  const double vectors =
      static_cast<double>(block.points()) / static_cast<double>(ctx.lanes(block.store.buffer->dtype));
  if (block.multiplies_two_loads) return kMultiplyAddNs * vectors;
  return vectors * (kOther + kCall * static_cast<double>(calls));
}

Result<bool> worth_threads(RuleContext& ctx, double ns) {
  // Two threads that wait for work gain from half a microsecond on.
  constexpr double kLeast = 200, kUsual = 500, kAlways = 2000;
  if (ctx.threads <= 1 || ns < kLeast) return false;
  if (ns >= kAlways) return true;
  FETTLE_TRY(const int64_t parallel, choose(ctx, "parallel", {0, 1}, ns >= kUsual ? 1 : 0));
  return parallel != 0;
}

}  // namespace fettle
