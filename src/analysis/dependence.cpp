#include "analysis/dependence.h"

#include <algorithm>

#include "analysis/touched_regions.h"
#include "arith/affine_map.h"
#include "base/checks.h"

namespace fettle {
namespace {

// Each step of a scan, and each spatial point, has elements of its own there: none is written twice.
bool written_once(const BlockNode& block, const Region& region) {
  for (const IterVar& iter : block.iters) {
    if (is_one(iter.extent)) continue;
    if (iter.kind != IterKind::kSpatial && iter.kind != IterKind::kScan) return false;
    if (std::ranges::none_of(region.ranges,
                             [&](const Range& r) { return r.min.get() == iter.var.get() && is_one(r.extent); }))
      return false;
  }
  return true;
}

}  // namespace

std::vector<Dependence> dependences_in(const Func& func, const std::vector<BlockSite>& sites, int parent) {
  std::vector<Dependence> found;
  std::vector<int> members;
  for (size_t i = 0; i < sites.size(); ++i)
    if (sites[i].parent == parent) members.push_back(static_cast<int>(i));
  const auto compare = [&](int from, int to, const std::vector<Region>& first, const std::vector<Region>& second,
                           DependenceKind kind) {
    std::vector<const BufferNode*> met;
    for (const Region& r : second) {
      if (std::find(met.begin(), met.end(), r.buffer.get()) != met.end()) continue;
      const BlockSite &a = sites[static_cast<size_t>(from)], &b = sites[static_cast<size_t>(to)];
      for (const Region& other : first) {
        if (!(other.buffer == r.buffer) || certainly_apart(func, sites, a, other, b, r)) continue;
        met.push_back(r.buffer.get());
        found.push_back({from, to, r.buffer, kind});
        break;
      }
    }
  };
  for (size_t j = 1; j < members.size(); ++j) {
    for (size_t i = 0; i < j; ++i) {
      const BlockNode& a = *sites[static_cast<size_t>(members[i])].block;
      const BlockNode& b = *sites[static_cast<size_t>(members[j])].block;
      compare(members[i], members[j], a.writes, b.reads, DependenceKind::kReadAfterWrite);
      compare(members[i], members[j], a.reads, b.writes, DependenceKind::kWriteAfterRead);
      compare(members[i], members[j], a.writes, b.writes, DependenceKind::kWriteAfterWrite);
    }
  }
  return found;
}

namespace {

// Two blocks under one loop, and what one of them touches of a buffer against what the other one writes.
class Meeting {
 public:
  Meeting(const Func& func, const std::vector<BlockSite>& sites, const ForNode& loop)
      : func_(func), sites_(sites), loop_(loop) {}

  // All of `needed` (touched by `reader`) is written by `writer` in the same iteration, with values that depend on
  // nothing of other iterations; but where iterations stay `in_order`, a scan's may depend on earlier ones.
  Result<> made(const BlockSite& writer, const BlockSite& reader, const Region& needed, bool in_order = false) {
    const Region* written = region_of(writer.block->writes, needed.buffer.get());
    if (!written) return refuse(name_of(writer) + " does not write " + needed.buffer->name);
    const bool once = in_order && written_once(*writer.block, *written);
    for (const IterVar& iter : writer.block->iters)
      if (!once && iter.kind != IterKind::kSpatial && uses_around(writer, iter.binding))
        return refuse(needed.buffer->name + " is complete only after all iterations: iterator " + iter.var->name +
                      " of " + name_of(writer) + " is not spatial");
    if (!once && updates_in_place(*writer.block) && !own_elements(writer))
      return refuse(name_of(writer) + " may update one element of " + needed.buffer->name + " in several iterations");
    if (!predicate_only_bounds(writer))
      return refuse("the predicate of " + name_of(writer) + " does more than bound its iterators");
    if (!within(writer, *written, reader, needed))
      return refuse(name_of(reader) + " may need elements of " + needed.buffer->name + " that " + name_of(writer) +
                    " makes in another iteration");
    return {};
  }

  // `writer` comes after `reader` and overwrites nothing that another iteration of `reader` touches.
  Result<> overwrites_own(const BlockSite& writer, const BlockSite& reader, const Region& touched) {
    const Region* written = region_of(writer.block->writes, touched.buffer.get());
    if (written && own_elements(writer) && within(writer, *written, reader, touched)) return {};
    return refuse(name_of(writer) + " may overwrite elements of " + touched.buffer->name + " that " + name_of(reader) +
                  " touches in another iteration");
  }

 private:
  static tl::unexpected<Diagnostic> refuse(std::string why) { return fail(ErrorCode::E227, std::move(why)); }

  bool uses_around(const BlockSite& site, const Expr& e) const {
    for (const ForNode* l : site.loops) {
      if (uses_var(e, l->var.get())) return true;
      if (l == &loop_) break;
    }
    return false;
  }

  // Reads what it writes, with no init that would make it anew.
  static bool updates_in_place(const BlockNode& block) {
    return !block.init && find_node<LoadNode>(block.body, [&](const LoadNode& access) {
      return region_of(block.writes, access.buffer.get()) != nullptr;
    });
  }

  Analyzer analyzer_of(const BlockSite& site) const { return analyzer_at(func_, sites_, site); }

  // Different iterations of the loops on which it depends write different elements, and it depends on all up to loop_.
  bool own_elements(const BlockSite& site) const {
    const auto [bindings, extents] = iter_lists(*site.block, true);
    std::vector<VarDomain> domains;
    bool inside = false;
    for (const ForNode* l : site.loops) {
      bool used = false;
      for (const Expr& b : bindings) used |= uses_var(b, l->var.get());
      if (used) domains.push_back({l->var, {l->min, l->extent}});
      if (!used && !inside && !is_one(l->extent)) return false;
      inside |= l == &loop_;
    }
    Analyzer iters = analyzer_in(func_, *site.block);
    for (const Region& w : site.block->writes)
      if (!names_each_iterator(*site.block, w) && !writes_are_injective(*site.block, w, iters)) return false;
    if (plainly_injective(bindings, domains, instance_condition(site))) return true;
    Analyzer analyzer = analyzer_of(site);
    const AffineMap map = detect_affine_map(bindings, extents, domains, instance_condition(site), analyzer);
    return map.affine && map.injective;
  }

  bool predicate_only_bounds(const BlockSite& site) const {
    const Expr condition = instance_condition(site);
    if (is_true(condition)) return true;
    Analyzer analyzer = analyzer_of(site);
    for (const IterVar& iter : site.block->iters)
      analyzer.add_assumption(logical_and(ge(iter.binding, 0), lt(iter.binding, iter.extent)));
    return is_true(analyzer.simplify(condition));
  }

  bool within(const BlockSite& writer, const Region& written, const BlockSite& reader, const Region& needed) const {
    const auto depth = static_cast<size_t>(writer.depth_of(&loop_)) + 1;
    if (plainly_holds(plain_region(writer, written, depth), plain_region(reader, needed, depth))) return true;
    Analyzer at_writer = analyzer_of(writer), at_reader = analyzer_of(reader);
    const auto made = region_at(writer, written, depth, at_writer), read = region_at(reader, needed, depth, at_reader);
    if (!made || !read) return false;
    return covers_in(*made, *read, *written.buffer, at_reader);
  }

  const Func& func_;
  const std::vector<BlockSite>& sites_;
  const ForNode& loop_;
};

}  // namespace

Result<> check_made_in_iteration(const Func& func, const ForNode& loop, std::string_view writer,
                                 std::string_view reader, const Buffer& buffer, bool in_order) {
  if (!checks("made_in_iteration")) return {};
  const std::vector<BlockSite> sites = block_sites(func);
  const BlockSite *from = find_site(sites, writer), *to = find_site(sites, reader);
  Meeting meeting(func, sites, loop);
  for (const Region& needed : to->block->reads)
    if (needed.buffer == buffer) FETTLE_TRY_VOID(meeting.made(*from, *to, needed, in_order));
  return {};
}

Result<> check_iterations_apart(const Func& func, const ForNode& innermost, const KeepsOrder& keeps_order) {
  if (!checks("iterations_apart")) return {};
  const std::vector<BlockSite> sites = block_sites(func);
  Meeting meeting(func, sites, innermost);
  std::vector<int> parents;
  for (const BlockSite& site : sites)
    if (site.depth_of(&innermost) >= 0 && std::find(parents.begin(), parents.end(), site.parent) == parents.end())
      parents.push_back(site.parent);
  for (const int parent : parents) {
    for (const Dependence& d : dependences_in(func, sites, parent)) {
      const BlockSite &from = sites[static_cast<size_t>(d.from)], &to = sites[static_cast<size_t>(d.to)];
      if (from.depth_of(&innermost) < 0 || to.depth_of(&innermost) < 0) continue;
      if (keeps_order && keeps_order(*from.block, *to.block, *d.buffer)) continue;
      if (d.kind == DependenceKind::kWriteAfterRead) {
        for (const Region& region : from.block->reads)
          if (region.buffer == d.buffer) FETTLE_TRY_VOID(meeting.overwrites_own(to, from, region));
      } else {
        const auto& touched = d.kind == DependenceKind::kReadAfterWrite ? to.block->reads : to.block->writes;
        for (const Region& region : touched)
          if (region.buffer == d.buffer) FETTLE_TRY_VOID(meeting.made(from, to, region));
      }
    }
  }
  return {};
}

bool covers_domain(const Func& func, const std::vector<BlockSite>& sites, const BlockSite& site) {
  Analyzer analyzer = analyzer_at(func, sites, site);
  const auto [bindings, extents] = iter_lists(*site.block);
  return detect_affine_map(bindings, extents, loop_domains(site), instance_condition(site), analyzer).covers;
}

}  // namespace fettle
