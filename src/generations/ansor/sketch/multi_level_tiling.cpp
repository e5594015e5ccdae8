#include "generations/ansor/sketch/multi_level_tiling.h"

#include <algorithm>

#include <fmt/format.h>

#include "generations/ansor/sketch/scheduled.h"
#include "ir/visit.h"
#include "schedule/edit/edit.h"
#include "schedule/primitives.h"

namespace fettle {
namespace {

// 'S' or 'R': what the loop runs over; 0 where it is both or neither.
char kind_of_loop(const BlockNode& block, const VarNode* var) {
  bool spatial = false, reduce = false, other = false;
  for (const IterVar& iter : block.iters) {
    if (!uses_var(iter.binding, var)) continue;
    spatial |= iter.kind == IterKind::kSpatial;
    reduce |= iter.kind == IterKind::kReduce;
    other |= iter.kind != IterKind::kSpatial && iter.kind != IterKind::kReduce;
  }
  if (other || (spatial && reduce)) return 0;
  return reduce ? 'R' : 'S';  // a unit loop that nothing uses counts as spatial
}

tl::unexpected<Diagnostic> does_not_fit(const Schedule& s, const StmtNode* place, std::string why) {
  return fail_at(ErrorCode::E235, s.func(), place, std::move(why), "MultiLevelTiling");
}

constexpr int kVectorBytes = 64;  // where no target is known

}  // namespace

int64_t suitable_extent(int64_t extent, int64_t lanes) {
  constexpr int64_t kInnermost = 64, kFewRows = 4, kManyRows = 16;
  constexpr double kGain = 0.1, kLonger = 0.015, kSurplus = 0.06;
  const auto divisors = [](int64_t n, int64_t from, int64_t to) {
    int64_t count = 0;
    for (int64_t d = from; d <= std::min(to, n); ++d) count += n % d == 0 ? 1 : 0;
    return count;
  };
  if (lanes > 1) {
    if (extent <= lanes) return extent;
    // The share of lanes that do something.
    const auto use = [&](int64_t n) {
      return static_cast<double>(n) / static_cast<double>((n + lanes - 1) / lanes * lanes);
    };
    if (extent % lanes == 0) return extent;
    // As it is, the innermost part is a divisor, good or bad; of a whole number of vectors it is good whichever it is.
    double exact = 0;
    int64_t n_exact = 0;
    for (int64_t d = lanes / 2; d <= std::min(extent, kInnermost); ++d)
      if (extent % d == 0) {
        exact += use(d);
        ++n_exact;
      }
    if (n_exact > 0 && use(extent) < exact / static_cast<double>(n_exact) + kGain) return extent;
    const int64_t whole = (extent + lanes - 1) / lanes * lanes;
    int64_t best = whole;
    for (int64_t n = whole; static_cast<double>(n) <= static_cast<double>(whole) * (1 + kLonger); n += lanes)
      if (divisors(n / lanes, 1, kManyRows) > divisors(best / lanes, 1, kManyRows)) best = n;
    return best;
  }
  if (extent < 2 * kFewRows || divisors(extent, kFewRows, kManyRows) > 0) return extent;
  int64_t best = extent;
  for (int64_t n = extent; static_cast<double>(n) <= static_cast<double>(extent) * (1 + kSurplus); ++n)
    if (divisors(n, kFewRows, kManyRows) > divisors(best, kFewRows, kManyRows)) best = n;
  return best;
}

MultiLevelTiling tiling_for_threads() {
  MultiLevelTiling tiling("SSSRRSRS");
  tiling.tile_binds = {"blockIdx.x", "vthread.x", "threadIdx.x"};
  return tiling;
}

Result<std::vector<LoopRef>> MultiLevelTiling::rounded_up(Schedule& s, LoopRef loop, bool innermost,
                                                          const BlockNode& block) const {
  const std::vector<LoopRef> as_it_is = {loop};
  FETTLE_TRY(const Stmt stmt, s.loop(loop));
  const int64_t* extent = as_int(stmt.as<ForNode>()->extent);
  if (!rounds_up || !tile_binds.empty() || !extent || block.writes.empty()) return as_it_is;
  const int bytes = block.writes[0].buffer->dtype.element_bytes();
  const int64_t lanes = s.target() ? s.target()->vector_lanes(bytes) : kVectorBytes / bytes;
  const int64_t rounded = suitable_extent(*extent, innermost ? lanes : 1);
  if (rounded == *extent) return as_it_is;
  return split(s, {.loop = loop, .factors = {1, rounded}, .tail = Tail::kMask});
}

Result<MultiLevelTiling::Levels> MultiLevelTiling::apply(Schedule& s, BlockRef block) const {
  FETTLE_TRY(const Stmt stmt, s.block(block));
  const auto& node = *stmt.as<BlockNode>();
  const bool letters = std::ranges::all_of(structure, [](char c) { return c == 'S' || c == 'R'; });
  if (structure.empty() || !letters)
    return does_not_fit(s, &node, fmt::format("\"{}\" is not made of S and R", structure));
  if (tile_binds.size() > structure.size() ||
      std::any_of(structure.begin(), structure.begin() + static_cast<std::ptrdiff_t>(tile_binds.size()),
                  [](char c) { return c != 'S'; }))
    return does_not_fit(s, &node, fmt::format("{} thread axes for \"{}\"", tile_binds.size(), structure));

  Schedule work = s;
  FETTLE_TRY(std::vector<LoopRef> loops, get_loops(work, {block}));
  const size_t shared = first_own_loop(work.func(), node);  // as a block's own loops are all inside of it
  loops.erase(loops.begin(), loops.begin() + static_cast<std::ptrdiff_t>(std::min(shared, loops.size())));
  if (loops.empty()) return does_not_fit(s, &node, fmt::format("block {} has no loops", node.name));
  Levels levels(structure.size());
  std::vector<LoopRef> order;           // loops of one iteration first: those that were rounded up
  std::vector<const VarNode*> spatial;  // outermost first
  for (const LoopRef& loop : loops) {
    FETTLE_TRY(const Var var, work.loop_var(loop));
    if (kind_of_loop(node, var.get()) == 'S') spatial.push_back(var.get());
  }
  for (LoopRef loop : loops) {
    FETTLE_TRY(const Var var, work.loop_var(loop));
    const char kind = kind_of_loop(node, var.get());
    if (!kind)
      return does_not_fit(s, &node, fmt::format("loop {} is neither spatial nor one of the reduction", var->name));
    std::vector<size_t> at;
    for (size_t level = 0; level < structure.size(); ++level)
      if (structure[level] == kind) at.push_back(level);
    if (at.empty()) return does_not_fit(s, &node, fmt::format("\"{}\" has no level for loop {}", structure, var->name));
    if (at.size() == 1) {
      levels[at[0]].push_back(loop);
      continue;
    }
    const auto place = std::ranges::find(spatial, var.get());
    if (kind == 'S' && spatial.end() - place <= 2) {
      FETTLE_TRY(const auto parts, rounded_up(work, loop, spatial.end() - place == 1, node));
      if (parts.size() > 1) order.push_back(parts.front());
      loop = parts.back();
    }
    FETTLE_TRY(const std::vector<ValueRef> sizes, sample_perfect_tile(work, {.loop = loop,
                                                                             .n = static_cast<int64_t>(at.size()),
                                                                             .max_innermost = max_innermost,
                                                                             .name = var->name}));
    FETTLE_TRY(const std::vector<LoopRef> parts, split(work, {.loop = loop, .factors = {sizes.begin(), sizes.end()}}));
    for (size_t k = 0; k < at.size(); ++k) levels[at[k]].push_back(parts[k]);
  }
  const size_t units = order.size();
  for (const std::vector<LoopRef>& level : levels) order.insert(order.end(), level.begin(), level.end());
  FETTLE_TRY_VOID(reorder(work, {.loops = order}));
  // Loops of one iteration join the first, so that those who count loops do not meet them.
  if (units > 0 && structure[0] == 'S' && !levels[0].empty()) {
    const std::vector<LoopRef> first(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(units) + 1);
    FETTLE_TRY(levels[0].front(), fuse(work, {.loops = first}));
  }
  for (size_t level = 0; level < tile_binds.size(); ++level) {
    if (levels[level].empty()) continue;
    FETTLE_TRY(const LoopRef fused, fuse(work, {.loops = levels[level]}));
    FETTLE_TRY_VOID(bind(work, {.loop = fused, .thread_axis = tile_binds[level]}));
    levels[level] = {fused};
  }
  s = std::move(work);
  return levels;
}

}  // namespace fettle
