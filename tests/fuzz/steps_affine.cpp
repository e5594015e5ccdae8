// Steps on iteration spaces.
#include <array>

#include "ir/path.h"
#include "schedule/dataflow/dataflow.h"
#include "tests/fuzz/actions.h"

namespace fettle::fuzz::actions {
namespace {

// A block and as many of its innermost loops as a map takes.
struct Mapped {
  const BlockNode* block = nullptr;
  int loops = 0;
};

int loops_below(const Stmt& top, const BlockNode* block) {
  int loops = 0;
  for (const Stmt& s : path_to(top, block)) loops += s.kind() == StmtKind::kFor;
  return loops;
}

// All blocks in some statements of the sequence above some loops of `block`, or in one loop.
std::vector<Mapped> some_blocks(Attempt& a, const BlockNode* block) {
  const std::vector<Stmt> path = path_to(a.s.func()->body, block);
  std::vector<size_t> loops;
  for (size_t i = path.size(); i-- > 0;) {
    if (path[i].kind() == StmtKind::kBlock && i + 1 < path.size()) break;
    if (path[i].kind() == StmtKind::kFor) loops.push_back(i);
  }
  if (loops.empty()) return {};
  const size_t at = a.chance(60) ? loops.back() : a.one_of(loops);
  std::vector<Stmt> tops{path[at]};
  if (const auto* around = path[at - 1].as<SeqNode>(); around && a.chance(70)) {
    const auto here = static_cast<size_t>(std::ranges::find(around->stmts, path[at]) - around->stmts.begin());
    const size_t first = here - a.r.below(here + 1), last = here + a.r.below(around->stmts.size() - here);
    tops.assign(around->stmts.begin() + static_cast<std::ptrdiff_t>(first),
                around->stmts.begin() + static_cast<std::ptrdiff_t>(last + 1));
  }
  std::vector<Mapped> found;
  for (const Stmt& top : tops)
    for (const BlockNode* below : blocks_under(top)) found.push_back({below, loops_below(top, below)});
  return found;
}

// Rows of one value for each loop: the loop itself, skewed by loops before it and shifted; in between, where the block
// stands among the others.
IndexMap some_map(Attempt& a, const Mapped& mapped, const std::vector<int>& order, int depth, int place, bool parted,
                  const std::vector<int>& skews) {
  IndexMap map;
  for (int i = 0; i < mapped.loops; ++i) map.inputs.push_back(make_var(fmt::format("i{}", i)));
  if (parted) map.outputs.push_back(Expr(place));
  std::vector<Expr> before;
  for (int d = 0; d < depth; ++d) {
    const int loop = order[static_cast<size_t>(d)];
    Expr row = loop < mapped.loops ? Expr(map.inputs[static_cast<size_t>(loop)]) : Expr(0);
    if (const int skew = skews[static_cast<size_t>(d)]; skew != 0 && !before.empty())
      row = row + before[static_cast<size_t>(d) % before.size()] * Expr(skew);
    if (a.chance(15)) row = row + Expr(a.between(-2, 3));
    before.push_back(row);
    map.outputs.push_back(row);
  }
  map.outputs.push_back(Expr(place));
  return map;
}

}  // namespace

bool reschedule(Attempt& a) {
  const auto block = a.any_block();
  if (!block) return false;
  const std::vector<Mapped> mapped = some_blocks(a, a.node(*block));
  if (mapped.empty() || mapped.size() > 4) return false;
  int depth = 0;
  for (const Mapped& m : mapped) depth = std::max(depth, m.loops);
  if (depth > 5) return false;
  std::vector<int> order, skews;
  for (int d = 0; d < depth; ++d) {
    order.push_back(d);
    skews.push_back(a.chance(40) ? a.between(-1, 2) : 0);
  }
  if (a.chance(40)) a.shuffle(order);
  const bool parted = mapped.size() > 1 && a.chance(30);
  std::vector<StepRef> blocks;
  std::vector<IndexMap> maps;
  for (size_t i = 0; i < mapped.size(); ++i) {
    blocks.push_back(*a.block_named(mapped[i].block->name));
    maps.push_back(some_map(a, mapped[i], order, depth, static_cast<int>(i), parted, skews));
  }
  std::vector<IntRef> factors;
  if (!parted && a.chance(60))
    for (int d = a.between(1, std::min(depth, 3)); d-- > 0;) factors.push_back(a.between(1, 5));
  // Tiles of registers: which tile an instance is in comes first, and a tile is whole at one value of the other rows.
  if (!parted && depth >= 2 && a.chance(20)) {
    const auto rows = static_cast<size_t>(depth), tiled = rows - 2;
    const std::array<int, 2> sizes{a.between(2, 5), a.between(2, 5)};
    for (IndexMap& map : maps) {
      std::vector<Expr> outputs;
      for (const size_t d : {tiled + 1, tiled}) outputs.push_back(floordiv(map.outputs[d], Expr(sizes[d - tiled])));
      outputs.insert(outputs.end(), map.outputs.begin(), map.outputs.end());
      map.outputs = std::move(outputs);
    }
    factors.assign(2 + tiled, IntRef(1));
    for (const int size : sizes) factors.push_back(size);
  }
  std::vector<int64_t> apart;
  for (size_t d = factors.size(); d < maps.front().outputs.size(); ++d)
    if (a.chance(8)) apart.push_back(static_cast<int64_t>(d));
  return a
      .step("reschedule", {{"blocks", to_arg(blocks)},
                           {"maps", to_arg(maps)},
                           {"factors", factor_list(factors)},
                           {"full_tiles", a.chance(50)},
                           {"apart", to_arg(apart)}})
      .has_value();
}

}  // namespace fettle::fuzz::actions
