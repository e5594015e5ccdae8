#include "analysis/parallel_check.h"

#include <algorithm>

#include "analysis/affine/exact.h"
#include "analysis/touched_regions.h"
#include "base/checks.h"
#include "ir/annotations.h"
#include "ir/path.h"

namespace fettle {
ParallelCheck::ParallelCheck(const Func& func, const std::vector<BlockSite>& sites)
    : func_(func), sites_(sites), known_(sites.size()) {}

Analyzer& ParallelCheck::analyzer_at(size_t site) {
  std::optional<Analyzer>& analyzer = known_[site].analyzer;
  if (!analyzer) analyzer = fettle::analyzer_at(func_, sites_, sites_[site]);
  return *analyzer;
}

ParallelCheck::Known& ParallelCheck::known(size_t index) {
  Known& k = known_[index];
  if (k.asked) return k;
  k.asked = true;
  const BlockSite& site = sites_[index];
  const BlockNode& block = *site.block;
  Analyzer iters;
  bool iters_bound = false;
  for (const Region& w : block.writes) {
    if (names_each_iterator(block, w)) continue;
    if (!std::exchange(iters_bound, true)) iters = analyzer_in(func_, block);
    if (writes_are_injective(block, w, iters)) continue;
    k.problem = name_of(site) + " may write an element of " + w.buffer->name + " from several iterations";
    return k;
  }
  // A block that only writes gives equal values wherever it runs twice. One that updates must not, nor one where the
  // last value of an element counts.
  k.updates = block.init || reads_own_output(block) || keeps_order(block);
  if (k.updates && !known_instances(index).injective)
    k.problem = name_of(site) + " may update one element in several iterations" +
                (k.why_not_injective.empty() ? "" : " (" + k.why_not_injective + ")");
  return k;
}

ParallelCheck::Known& ParallelCheck::known_instances(size_t index) {
  Known& k = known_[index];
  if (std::exchange(k.injective_asked, true)) return k;
  const BlockSite& site = sites_[index];
  const auto [bindings, extents] = iter_lists(*site.block, true);
  SmallVector<const ExprNode*, 16> used;
  for (const Expr& b : bindings) each_node<VarNode>(b, [&](const VarNode& var) { used.push_back(&var); });
  std::vector<VarDomain> domains;
  domains.reserve(site.loops.size());
  for (const ForNode* l : site.loops) {
    if (std::find(used.begin(), used.end(), l->var.get()) == used.end()) continue;
    domains.push_back({l->var, {l->min, l->extent}});
    k.spatial_loops.push_back(l);
  }
  k.injective = plainly_injective(bindings, domains, instance_condition(site));
  if (k.injective) return k;
  const AffineMap map = detect_affine_map(bindings, extents, domains, instance_condition(site), analyzer_at(index));
  k.injective = map.affine && map.injective;
  k.why_not_injective = map.reason;
  return k;
}

bool ParallelCheck::writes_apart(size_t site, const ForNode& loop) {
  const Known& k = known_instances(site);
  return k.injective && std::find(k.spatial_loops.begin(), k.spatial_loops.end(), &loop) != k.spatial_loops.end();
}

std::optional<std::vector<Range>> ParallelCheck::touched(size_t site, const Region& region, const ForNode& loop) {
  const auto depth = static_cast<size_t>(sites_[site].depth_of(&loop)) + 1;
  return region_at(sites_[site], region, depth, analyzer_at(site));
}

bool ParallelCheck::holds(const std::optional<std::vector<Range>>& outer,
                          const std::optional<std::vector<Range>>& inner, const Buffer& buffer,
                          Analyzer& analyzer) const {
  return outer && inner && covers_in(*outer, *inner, *buffer, analyzer);
}

// Whether no iteration of the loop writes what any of them reads, while the loops around it stand still: a scan reads
// the row before the one that it writes.
bool ParallelCheck::reads_what_came_before(size_t site, const Region& write, const Region& read, const ForNode& loop) {
  const auto depth = static_cast<size_t>(sites_[site].depth_of(&loop));
  Analyzer& analyzer = analyzer_at(site);
  const auto written = region_at(sites_[site], write, depth, analyzer);
  const auto seen = region_at(sites_[site], read, depth, analyzer);
  return written && seen && disjoint(*written, *seen, analyzer);
}

Result<> ParallelCheck::check(const ForNode& loop) {
  if (!checks("races")) return {};
  Result<> checked = check_by_ranges(loop);
  if (checked || runs_once(loop)) return {};
  // isl takes longer. It is asked where blocks run in order, or in triangles.
  const bool may_be = std::ranges::any_of(sites_, [&](const BlockSite& site) {
    return site.depth_of(&loop) >= 0 &&
           (keeps_order(*site.block) ||
            std::ranges::any_of(site.loops, [](const ForNode* around) { return as_int(around->extent) == nullptr; }));
  });
  if (may_be && check_iterations_independent(func_, loop)) return {};
  return checked;
}

bool ParallelCheck::runs_once(const ForNode& loop) {
  for (size_t i = 0; i < sites_.size(); ++i)
    if (sites_[i].depth_of(&loop) >= 0) return analyzer_at(i).int_bounds(loop.extent).max <= 1;
  return false;
}

Result<> ParallelCheck::check_by_ranges(const ForNode& loop) {
  const auto refuse = [&](std::string why) { return fail(ErrorCode::E210, std::move(why), "loop " + loop.var->name); };
  SmallVector<size_t, 16> under;
  for (size_t i = 0; i < sites_.size(); ++i)
    if (sites_[i].depth_of(&loop) >= 0) under.push_back(i);
  // What one iteration touches of a region, once; a reduction reads and writes the same.
  struct Met {
    size_t site;
    const Region* region;
    std::optional<PlainRegion> touched;
  };
  SmallVector<Met, 4> met;
  const auto plainly = [&](size_t i, const Region& region) {
    for (size_t at = 0; at < met.size(); ++at)
      if (met[at].region == &region ||
          (met[at].site == i && met[at].region->buffer == region.buffer && same_ranges(*met[at].region, region)))
        return at;
    const size_t depth = static_cast<size_t>(sites_[i].depth_of(&loop)) + 1;
    met.push_back(Met{i, &region, plain_region(sites_[i], region, depth)});
    return met.size() - 1;
  };
  if (under.empty()) return refuse("no block is under it whose dependences could be known");

  for (const size_t i : under) {
    for (const IterVar& iter : sites_[i].block->iters)
      if (iter.kind != IterKind::kSpatial && uses_var(iter.binding, loop.var.get()))
        return refuse("iterator " + iter.var->name + " of " + name_of(sites_[i]) + " is not spatial and depends on it");
    const Known& k = known(i);
    if (!k.problem.empty()) return refuse(k.problem);
    if (k.updates && !is_one(loop.extent) &&
        std::find(k.spatial_loops.begin(), k.spatial_loops.end(), &loop) == k.spatial_loops.end())
      return refuse(name_of(sites_[i]) + " updates the same elements in every iteration");
  }

  // What blocks under the loop write, and they or others read or write, too: of one iteration only.
  for (const size_t i : under) {
    const BlockSite& writer = sites_[i];
    for (const Region& w : writer.block->writes) {
      for (const size_t j : under) {
        const BlockSite& other = sites_[j];
        if (other.parent != writer.parent) continue;
        for (const Region& r : other.block->reads) {
          if (!(r.buffer == w.buffer) || (i == j && same_ranges(r, w))) continue;
          if (i == j && reads_what_came_before(i, w, r, loop)) continue;
          const size_t of_writer = plainly(i, w), of_other = plainly(j, r);
          if (!plainly_holds(met[of_writer].touched, met[of_other].touched) &&
              !holds(touched(i, w, loop), touched(j, r, loop), w.buffer, analyzer_at(j)))
            return refuse(name_of(other) + " may read what " + name_of(writer) + " writes to " + w.buffer->name +
                          " in another iteration");
          if (j < i && !is_one(loop.extent) && !writes_apart(i, loop))
            return refuse(name_of(writer) + " may overwrite what " + name_of(other) + " reads from " + w.buffer->name +
                          " in another iteration");
        }
        const Region* v = j > i ? region_of(other.block->writes, w.buffer.get()) : nullptr;
        if (!v || writer.block->annotations.find(kClearsPadLanesKey) ||
            other.block->annotations.find(kClearsPadLanesKey))
          continue;
        const size_t of_writer = plainly(i, w), of_other = plainly(j, *v);
        if (plainly_holds(met[of_writer].touched, met[of_other].touched) &&
            plainly_holds(met[of_other].touched, met[of_writer].touched))
          continue;
        const auto first = touched(i, w, loop), second = touched(j, *v, loop);
        const bool first_holds = holds(first, second, w.buffer, analyzer_at(j));
        const bool second_holds = holds(second, first, w.buffer, analyzer_at(i));
        if ((first_holds && second_holds) || (first_holds && writes_apart(i, loop)) ||
            (second_holds && writes_apart(j, loop)) || certainly_apart(func_, sites_, writer, w, other, *v))
          continue;
        return refuse(name_of(writer) + " and " + name_of(other) + " may write elements of " + w.buffer->name +
                      " in different iterations");
      }
    }
  }
  return {};
}

namespace {

// The one block under a loop, where nothing but loops is around both and the root.
std::optional<BlockSite> single_site_under(const Func& func, const ForNode& loop) {
  const ForNode* innermost = &loop;
  while (innermost->body.kind() == StmtKind::kFor) innermost = innermost->body.as<ForNode>();
  const auto* block = innermost->body.as<BlockNode>();
  if (!block || block->body.kind() != StmtKind::kStore || (block->init && block->init.kind() != StmtKind::kStore))
    return std::nullopt;
  BlockSite site{.block = block};
  bool plain = true;
  walk_up(func->body, block, [&](const Stmt& s) {
    if (const auto* around = s.as<ForNode>())
      site.loops.push_back(around);
    else
      plain = plain && (s.kind() == StmtKind::kSeq || s.get() == block || s == func->body);
  });
  std::ranges::reverse(site.loops);
  return plain ? std::optional(std::move(site)) : std::nullopt;
}

}  // namespace

Result<> check_parallel(const Func& func, const ForNode& loop) {
  if (auto site = single_site_under(func, loop)) {
    const std::vector<BlockSite> sites{std::move(*site)};
    return ParallelCheck(func, sites).check(loop);
  }
  const std::vector<BlockSite> sites = block_sites(func);
  return ParallelCheck(func, sites).check(loop);
}

}  // namespace fettle
