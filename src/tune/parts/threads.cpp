#include "tune/parts/threads.h"

#include "cost/predict/machine_costs.h"
#include "ir/visit.h"
#include "schedule/primitives.h"
#include "tune/parts/extent.h"
#include "tune/parts/loops.h"
#include "tune/parts/preferences.h"

namespace fettle {
namespace {

struct Outer {
  LoopRef loop;
  Extent extent;
  bool tail;
};

// The first of the loops, as far as they are serial.
Result<std::vector<Outer>> serial_loops(const Schedule& s, const std::vector<LoopRef>& loops) {
  std::vector<Outer> serial;
  const IntEnv typical = typical_values(s.func());
  for (const LoopRef& loop : loops) {
    FETTLE_TRY(const Stmt stmt, s.loop(loop));
    const auto* node = stmt.as<ForNode>();
    if (node->loop_kind != ForKind::kSerial) break;
    serial.push_back({loop, extent_of(node->extent, typical), node->tail != Tail::kExact});
  }
  return serial;
}

// How much of the threads' time is used where `n` equal pieces are dealt out.
double balance(int64_t n, int64_t threads) {
  return static_cast<double>(n) / static_cast<double>((n + threads - 1) / threads * threads);
}

// The loops [begin, end) that are best fused and dealt out; none where all run once.
std::pair<size_t, size_t> best_group(const std::vector<Outer>& loops, int64_t threads) {
  double best = 0;
  std::pair<size_t, size_t> group;
  for (size_t i = 0; i < loops.size(); ++i) {
    if (loops[i].extent.is(1)) continue;
    int64_t n = 1;
    int tails = 0;
    for (size_t j = i; j < loops.size(); ++j) {
      // An index that is divided by an open number is hard to reason about, and each division takes long.
      if (j > i && !loops[j].extent.constant) break;
      n *= loops[j].extent.value;
      tails += loops[j].tail ? 1 : 0;
      if (tails > 1) break;
      // Outer loops first; each fused loop costs a division, each outer serial loop a fork.
      double score = balance(n, threads) - preferences::kFusedLoopCost * static_cast<double>(j - i);
      for (size_t outside = 0; outside < i; ++outside)
        if (!loops[outside].extent.is(1)) score -= preferences::kForkCost;
      if (score > best + 1e-9) {
        best = score;
        group = {i, j + 1};
      }
    }
  }
  return group;
}

// The loops around the one that is dealt out, those of open numbers: lowering makes one loop of them all.
void share_around(Schedule& s, const std::vector<Outer>& loops, size_t at) {
  while (at-- > 0) {
    const auto stmt = s.loop(loops[at].loop);
    const auto* inner = stmt ? stmt->as<ForNode>()->body.as<ForNode>() : nullptr;
    if (!inner || inner->loop_kind != ForKind::kParallel || loops[at].extent.constant) return;
    if (!parallel(s, {.loop = loops[at].loop})) return;
  }
}

}  // namespace

double alone_ns(const Target& target, const BlockStructure& block, int64_t calls) {
  const double vectors =
      static_cast<double>(block.points()) / static_cast<double>(lanes_of(target, block.store.buffer->dtype));
  const MachineCosts costs = describe_costs(target);
  if (block.multiplies_two_loads) return rough_ns({.multiply_adds = vectors}, costs);
  return rough_ns({.moves = vectors, .function_calls = vectors * static_cast<double>(calls)}, costs);
}

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

Result<bool> worth_threads(Schedule& s, Decider& decider, int threads, double ns) {
  if (threads <= 1 || ns < preferences::kLeastSharedNs) return false;
  if (ns >= preferences::kAlwaysSharedNs) return true;
  const size_t preferred = ns >= preferences::kUsuallySharedNs ? 1 : 0;
  FETTLE_TRY(const int64_t parallel, decider.pick(s, {"parallel", {0, 1}, preferred}));
  return parallel != 0;
}

Result<> parallelize(Schedule& s, const std::vector<LoopRef>& loops, const ParallelOptions& options) {
  if (options.threads <= 1) return {};
  const int64_t threads = options.threads;
  FETTLE_TRY(const std::vector<Outer> serial, serial_loops(s, loops));
  const auto [begin, end] = best_group(serial, threads);
  if (end == begin) return {};
  // On a copy, since a loop that turns out to be carried is not worth failing for.
  Schedule trial = s;
  LoopRef loop = serial[begin].loop;
  if (end - begin > 1) {
    std::vector<LoopRef> group;
    for (size_t i = begin; i < end; ++i) group.push_back(serial[i].loop);
    if (auto fused = fuse(trial, {.loops = group}))
      loop = *fused;
    else
      trial = s;
  }
  FETTLE_TRY(const Stmt chosen, trial.loop(loop));
  const Expr& extent = chosen.as<ForNode>()->extent;
  const int64_t* n = as_int(extent);
  if (!n && options.alone_ns > 0) {
    const double each_ns =
        options.alone_ns / static_cast<double>(extent_of(extent, typical_values(trial.func())).value);
    const auto piece = static_cast<int64_t>(preferences::kOpenPieceNs / each_ns);
    if (piece > 1) {
      FETTLE_TRY(const auto pieces, split(trial, {.loop = loop, .factors = {kInfer, piece}, .tail = Tail::kGuard}));
      loop = pieces[0];
    }
  } else if (options.a_piece_each && n && *n > threads) {
    const Tail tail = *n % threads == 0 ? Tail::kExact : Tail::kGuard;
    FETTLE_TRY(const auto pieces, split(trial, {.loop = loop, .factors = {threads, kInfer}, .tail = tail}));
    loop = pieces[0];
  }
  if (parallel(trial, {.loop = loop})) {
    s = std::move(trial);
    share_around(s, serial, begin);
    return {};
  }
  for (const Outer& outer : serial)
    if (!outer.extent.is(1) && parallel(s, {.loop = outer.loop})) return {};
  return {};
}

Result<> parallel_together(Schedule& s, const std::vector<LoopRef>& loops, int n) {
  std::vector<LoopRef> together;
  int iterating = 0;
  for (const LoopRef& loop : loops) {
    if (iterating == n) break;
    FETTLE_TRY(const Stmt stmt, s.loop(loop));
    iterating += is_one(stmt.as<ForNode>()->extent) ? 0 : 1;
    together.push_back(loop);
  }
  if (together.empty()) return {};
  LoopRef loop = together.front();
  if (together.size() > 1) {
    FETTLE_TRY(loop, fuse(s, {.loops = together}));
  }
  return parallel(s, {.loop = loop});
}

}  // namespace fettle
