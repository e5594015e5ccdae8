// Element by element: blocks over the same points, each of which reads of the others its own element alone, in one loop
// of vectors. What one makes for another stays in registers.
//
//   for i: M[i] = 0.9 * M0[i] + 0.1 * G[i]        for i0 (parallel):
//   for i: W[i] = W0[i] - rate * M[i]         →     for l in 8 (lanes): M[i0*8 + l] = …
//                                                   for l in 8 (lanes): W[i0*8 + l] = …

#include <algorithm>

#include "ir/visit.h"
#include "schedule/dataflow/dataflow.h"
#include "schedule/primitives.h"
#include "tune/parts/preferences.h"
#include "tune/parts/structure.h"
#include "tune/parts/threads.h"
#include "tune/space/rule.h"

namespace fettle {
namespace {

using Loops = std::vector<LoopRef>;

struct Member {
  const BlockNode* block = nullptr;
  BlockStructure structure;
};

// One store, at the element that its loops are at. What it reads along the last loop lies side by side, or is one.
std::optional<Member> member_of(const RuleContext& ctx, const BlockNode& block) {
  if (block.init) return {};
  auto structure = block_structure(ctx.schedule.func(), block, Extents::kOpen);
  if (!structure || structure->n_iters() == 0) return {};
  if (std::ranges::any_of(structure->reduce, [](bool r) { return r; })) return {};
  const size_t last = structure->n_iters() - 1;
  if (structure->store.strides[last] != 1) return {};
  for (const AccessPattern& load : structure->loads)
    if (load.strides[last] != 0 && load.strides[last] != 1) return {};
  return Member{&block, std::move(*structure)};
}

bool same_points(const BlockStructure& a, const BlockStructure& b) {
  return a.extents == b.extents && a.open == b.open && a.store.strides == b.store.strides;
}

// Whether the block reads its own elements alone of what the others make.
bool follows(const std::vector<Member>& group, const BlockStructure& block) {
  return std::ranges::all_of(block.loads, [&](const AccessPattern& load) {
    return std::ranges::none_of(group, [&](const Member& other) {
      return other.structure.store.buffer == load.buffer && load.strides != other.structure.store.strides;
    });
  });
}

// The blocks next to each other, around `block`, that work on the same points and are not dealt with yet.
std::vector<Member> group_around(const RuleContext& ctx, const BlockNode& block) {
  std::vector<Member> group;
  bool met = false;
  for (const BlockNode* node : blocks_of(ctx.schedule.func().root())) {
    std::optional<Member> member = ctx.is_done(*node) ? std::nullopt : member_of(ctx, *node);
    if (!member || (!group.empty() &&
                    (!same_points(group.front().structure, member->structure) || !follows(group, member->structure)))) {
      if (met) break;
      group.clear();
    }
    if (!member) continue;
    met |= node == &block;
    group.push_back(std::move(*member));
  }
  return met ? group : std::vector<Member>();
}

bool applies(const RuleContext& ctx, const BlockNode& block) { return group_around(ctx, block).size() > 1; }

// Innermost loops that every access of every block walks through as if they were one.
size_t contiguous_loops(const std::vector<Member>& group) {
  size_t fewest = group.front().structure.n_iters();
  for (const Member& member : group) fewest = std::min(fewest, contiguous_tail(member.structure));
  return fewest;
}

int64_t operations_of(const std::vector<Member>& group) {
  int64_t count = 0;
  for (const Member& member : group)
    walk(
        member.block->body, [](const Stmt&) { return true; },
        [&](const Expr& e) {
          count += e.kind() == ExprKind::kBinary || e.kind() == ExprKind::kCall || e.kind() == ExprKind::kSelect;
          return true;
        });
  return count;
}

// What waits for itself, step by step, leaves time for other vectors.
Result<int64_t> vectors_at_once(RuleContext& ctx, const std::vector<Member>& group, size_t tail, int64_t lanes) {
  const BlockStructure& last = group.back().structure;
  int64_t extent = 1;
  for (size_t i = last.n_iters() - tail; i < last.n_iters(); ++i) extent *= last.extents[i];
  std::vector<int64_t> candidates = {1};
  for (const int64_t vectors : {2, 4})
    if (2 * vectors * lanes <= extent) candidates.push_back(vectors);
  const bool is_long = operations_of(group) >= preferences::kLongOfElement;
  return choose(ctx, "vectors", candidates, is_long ? candidates.size() - 1 : 0);
}

Result<> apply(RuleContext& ctx, BlockRef any) {
  Schedule& s = ctx.schedule;
  FETTLE_TRY(const BlockNode* node, block_node(s, any));
  const std::vector<Member> group = group_around(ctx, *node);
  if (group.size() < 2) return fail(ErrorCode::E230, "no other block works on the elements of " + node->name);
  const size_t tail = contiguous_loops(group);
  std::vector<std::string> names;
  int64_t lanes = ctx.lanes(group.front().structure.store.buffer->dtype);
  double ns = 0;
  for (const Member& member : group) {
    names.push_back(member.block->name);
    lanes = std::min(lanes, ctx.lanes(member.structure.store.buffer->dtype));
    for (const AccessPattern& load : member.structure.loads) lanes = std::min(lanes, ctx.lanes(load.buffer->dtype));
    ns += alone_ns(*ctx.target, member.structure, calls_of(*member.block));
  }
  s.set_address_prefix("element_fusion/" + names.back());
  FETTLE_TRY(const int64_t at_once, vectors_at_once(ctx, group, tail, lanes));
  lanes *= at_once;
  Loops vectors, around;
  for (const std::string& name : names) {
    FETTLE_TRY(const BlockRef block, get_block(s, {.name = name}));
    FETTLE_TRY(Loops loops, get_loops(s, {.block = block}));
    LoopRef inner = loops.back();
    if (tail > 1) {
      FETTLE_TRY(inner, fuse(s, {.loops = Loops(loops.end() - static_cast<std::ptrdiff_t>(tail), loops.end())}));
      loops.resize(loops.size() - tail + 1);
    }
    FETTLE_TRY(const Loops parts, split(s, {.loop = inner, .factors = {kInfer, lanes}, .tail = Tail::kMask}));
    FETTLE_TRY_VOID(vectorize(s, {.loop = parts[1]}));
    vectors.push_back(parts[0]);
    if (around.empty()) {
      around = loops;
      around.back() = parts[0];
    }
  }
  FETTLE_TRY_VOID(merge(s, {.loops = vectors}).map([](LoopRef) {}));
  ctx.done.insert(names.begin(), names.end());
  FETTLE_TRY(const bool shared, worth_threads(s, *ctx.decider, ctx.threads, ns));
  if (!shared) return {};
  return parallelize(s, around,
                     {.threads = ctx.threads, .a_piece_each = ns < preferences::kPieceEachNs, .alone_ns = ns});
}

}  // namespace

extern constinit const Rule element_fusion_def = {"element_fusion", applies, apply};

}  // namespace fettle
