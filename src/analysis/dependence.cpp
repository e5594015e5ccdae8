#include "analysis/dependence.h"

#include <algorithm>

#include "analysis/block_checks.h"
#include "arith/affine_map.h"
#include "arith/plain_map.h"
#include "base/checks.h"
#include "ir/path.h"

namespace fettle {
namespace {

const Region* region_of(const std::vector<Region>& regions, const BufferNode* buffer) {
  for (const Region& r : regions)
    if (r.buffer.get() == buffer) return &r;
  return nullptr;
}

bool reads_own_output(const BlockNode& block) {
  for (const Region& w : block.writes)
    if (region_of(block.reads, w.buffer.get())) return true;
  return false;
}

// Bound so that regions of one site can be compared with those of another: every loop runs.
std::optional<std::vector<Range>> region_of_all(const Func& func, const std::vector<BlockSite>& sites,
                                                const BlockSite& site, const Region& region) {
  Analyzer analyzer;
  analyzer.bind_params(func);
  bind_site(sites, site, analyzer);
  return region_at(site, region, 0, analyzer);
}

bool certainly_apart(const Func& func, const std::vector<BlockSite>& sites, const BlockSite& a, const Region& ra,
                     const BlockSite& b, const Region& rb) {
  if (ra.ranges.empty()) return false;
  const auto x = region_of_all(func, sites, a, ra), y = region_of_all(func, sites, b, rb);
  if (!x || !y) return false;
  Analyzer analyzer;
  analyzer.bind_params(func);
  return disjoint(*x, *y, analyzer);
}

// Whether points of the iterators that differ write different elements.
bool writes_are_injective(const BlockNode& block, const Region& region, Analyzer& analyzer) {
  std::vector<Expr> indices, shape;
  for (size_t d = 0; d < region.ranges.size(); ++d) {
    const Range& r = region.ranges[d];
    shape.push_back(region.buffer->shape[d]);
    if (is_one(r.extent)) {
      indices.push_back(r.min);
      continue;
    }
    // iter*c with c >= extent counts as iter.
    const LinearForm form = analyzer.linear(r.min);
    const Interval extent = analyzer.int_bounds(r.extent);
    if (form.terms.empty()) continue;
    if (form.terms.size() != 1 || form.terms[0].coeff < extent.max) return false;
    indices.push_back(form.terms[0].expr);
  }
  shape.resize(indices.size());
  std::vector<VarDomain> domains;
  for (const IterVar& iter : block.iters)
    if (iter.kind == IterKind::kSpatial) domains.push_back({iter.var, {0, iter.extent}});
  const AffineMap map = detect_affine_map(indices, shape, domains, nullptr, analyzer);
  return map.affine && map.injective;
}

// Whether points of the loops where the predicate holds certainly have bindings of their own, by a look at them.
bool plainly_injective(const std::vector<Expr>& bindings, const std::vector<VarDomain>& loops, const Expr& predicate) {
  PlainLoops plain_loops;
  for (const VarDomain& d : loops)
    if (!add_plain_loop(plain_loops, d.var.get(), d.range.min, d.range.extent)) return false;
  const auto map = plain_map(bindings, plain_loops, predicate);
  return map && map->injective;
}

// What a block touches of a region, dimension by dimension, while loops[first] and those inside it run.
using PlainRegion = SmallVector<PlainRange, 4>;

std::optional<PlainRegion> plain_region(const BlockSite& site, const Region& region, size_t first) {
  PlainLoops loops;
  for (size_t i = first; i < site.loops.size(); ++i)
    if (!add_plain_loop(loops, site.loops[i]->var.get(), site.loops[i]->min, site.loops[i]->extent))
      return std::nullopt;
  std::span<const IterVar> iters = site.block->iters;
  const auto unfused = unfused_loops(iters, loops);
  if (unfused) {
    iters = unfused->iters;
    loops = unfused->loops;
  }
  PlainRegion result;
  for (const Range& r : region.ranges) {
    const int64_t* width = as_int(r.extent);
    if (!width || *width < 1) return std::nullopt;
    PlainSum sum;
    if (!add_plain(sum, r.min, 1, iters, loops)) return std::nullopt;
    PlainRange range = plain_range(std::move(sum), loops);
    if (__builtin_add_overflow(range.high, *width - 1, &range.high)) return std::nullopt;
    result.push_back(std::move(range));
  }
  return result;
}

// Whether the first region certainly holds the second, by a look at them.
bool plainly_holds(const std::optional<PlainRegion>& outer, const std::optional<PlainRegion>& inner) {
  if (!outer || !inner) return false;
  for (size_t d = 0; d < inner->size(); ++d)
    if (!plain_covers((*outer)[d], (*inner)[d])) return false;
  return true;
}

// Quickly: single elements, each spatial iterator of its own in one of the indices.
bool names_each_iterator(const BlockNode& block, const Region& region) {
  size_t spatial = 0, named = 0;
  for (const IterVar& iter : block.iters) {
    if (iter.kind != IterKind::kSpatial || is_one(iter.extent)) continue;
    ++spatial;
    for (const Range& r : region.ranges)
      if (r.min.get() == iter.var.get() && is_one(r.extent)) {
        ++named;
        break;
      }
  }
  return named == spatial;
}

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

bool same_ranges(const Region& a, const Region& b) {
  for (size_t d = 0; d < a.ranges.size(); ++d)
    if (!structural_equal(a.ranges[d].min, b.ranges[d].min) ||
        !structural_equal(a.ranges[d].extent, b.ranges[d].extent))
      return false;
  return true;
}

std::string name_of(const BlockSite& site) { return "block " + site.block->name; }

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

std::vector<int> producers_of(const std::vector<Dependence>& dependences, int site) {
  std::vector<int> result;
  for (const Dependence& d : dependences)
    if (d.to == site && d.kind == DependenceKind::kReadAfterWrite &&
        std::find(result.begin(), result.end(), d.from) == result.end())
      result.push_back(d.from);
  return result;
}

std::vector<int> consumers_of(const std::vector<Dependence>& dependences, int site) {
  std::vector<int> result;
  for (const Dependence& d : dependences)
    if (d.from == site && d.kind == DependenceKind::kReadAfterWrite &&
        std::find(result.begin(), result.end(), d.to) == result.end())
      result.push_back(d.to);
  return result;
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
    bool found = false;
    for (const Region& w : block.writes)
      walk(
          block.body, [](const Stmt&) { return true; },
          [&](const Expr& e) {
            const auto* access = e.as<LoadNode>();
            found |= access && access->buffer == w.buffer;
            return !found;
          });
    return found && !block.init;
  }

  Analyzer analyzer_of(const BlockSite& site) const {
    Analyzer analyzer;
    analyzer.bind_params(func_);
    bind_site(sites_, site, analyzer);
    return analyzer;
  }

  // Different iterations of the loops on which it depends write different elements, and it depends on all up to loop_.
  bool own_elements(const BlockSite& site) const {
    std::vector<Expr> bindings, extents;
    for (const IterVar& iter : site.block->iters) {
      if (iter.kind != IterKind::kSpatial) continue;
      bindings.push_back(iter.binding);
      extents.push_back(iter.extent);
    }
    std::vector<VarDomain> domains;
    bool inside = false;
    for (const ForNode* l : site.loops) {
      bool used = false;
      for (const Expr& b : bindings) used |= uses_var(b, l->var.get());
      if (used) domains.push_back({l->var, {l->min, l->extent}});
      if (!used && !inside && !is_one(l->extent)) return false;
      inside |= l == &loop_;
    }
    Analyzer iters;
    iters.bind_params(func_);
    for (const IterVar& iter : site.block->iters) iters.bind(iter.var, 0, iter.extent);
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
    for (size_t d = 0; d < read->size(); ++d)
      if (!covers((*made)[d], (*read)[d], at_reader) &&
          !covers((*made)[d], clamp((*read)[d], written.buffer->shape[d], at_reader), at_reader))
        return false;
    return true;
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

Result<> check_iterations_apart(const Func& func, const ForNode& innermost) {
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

BlockTraits block_traits(const Func& func, const std::vector<BlockSite>& sites, int index) {
  const BlockSite& site = sites[static_cast<size_t>(index)];
  const BlockNode& block = *site.block;
  BlockTraits traits;
  traits.dominant = !block.writes.empty();
  for (size_t i = 0; i < sites.size(); ++i) {
    if (static_cast<int>(i) == index || sites[i].parent != site.parent) continue;
    for (const Region& w : block.writes)
      if (region_of(sites[i].block->writes, w.buffer.get())) traits.dominant = false;
  }
  traits.reads_own_output = reads_own_output(block);
  traits.only_spatial = true;
  bool spatial_or_reduce = true;
  for (const IterVar& iter : block.iters) {
    traits.only_spatial &= iter.kind == IterKind::kSpatial;
    spatial_or_reduce &= iter.kind == IterKind::kSpatial || iter.kind == IterKind::kReduce;
  }
  Analyzer analyzer;
  analyzer.bind_params(func);
  bind_site(sites, site, analyzer);
  std::vector<Expr> bindings, extents;
  for (const IterVar& iter : block.iters) {
    bindings.push_back(iter.binding);
    extents.push_back(iter.extent);
  }
  const AffineMap map = detect_affine_map(bindings, extents, loop_domains(site), instance_condition(site), analyzer);
  traits.affine = map.affine && map.independent;
  traits.covers_domain = map.covers;
  traits.covers_output = map.covers && !block.writes.empty();
  bool outputs_spatial = true;
  Analyzer iters;
  iters.bind_params(func);
  std::vector<VarDomain> domains;
  for (const IterVar& iter : block.iters) {
    iters.bind(iter.var, 0, iter.extent);
    domains.push_back({iter.var, {0, iter.extent}});
  }
  for (const Region& w : block.writes) {
    for (const Range& r : w.ranges)
      for (const IterVar& iter : block.iters)
        if (iter.kind != IterKind::kSpatial && (uses_var(r.min, iter.var.get()) || uses_var(r.extent, iter.var.get())))
          outputs_spatial = false;
    if (!traits.covers_output) continue;
    const auto reached = ranges_of(w.ranges, domains, iters);
    std::vector<Expr> firsts;
    for (const Range& r : w.ranges) firsts.push_back(r.min);
    bool single = true;
    for (const Range& r : w.ranges) single &= is_one(r.extent);
    // Single elements must leave no gaps; larger regions are taken at their hull where they touch.
    traits.covers_output = reached && covers(*reached, whole(w.buffer->shape), iters) &&
                           (!single || detect_affine_map(firsts, w.buffer->shape, domains, nullptr, iters).covers);
  }
  traits.reduction = traits.dominant && block.init && spatial_or_reduce && outputs_spatial && traits.affine;
  return traits;
}

ParallelCheck::ParallelCheck(const Func& func, const std::vector<BlockSite>& sites)
    : func_(func), sites_(sites), known_(sites.size()) {}

Analyzer& ParallelCheck::analyzer_at(size_t site) {
  std::optional<Analyzer>& analyzer = known_[site].analyzer;
  if (!analyzer) {
    analyzer.emplace();
    analyzer->bind_params(func_);
    bind_site(sites_, sites_[site], *analyzer);
  }
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
    if (!std::exchange(iters_bound, true)) {
      iters.bind_params(func_);
      for (const IterVar& iter : block.iters) iters.bind(iter.var, 0, iter.extent);
    }
    if (writes_are_injective(block, w, iters)) continue;
    k.problem = name_of(site) + " may write an element of " + w.buffer->name + " from several iterations";
    return k;
  }
  // A block that only writes gives equal values wherever it runs twice. One that updates must not.
  k.updates = block.init || reads_own_output(block);
  if (k.updates && !known_instances(index).injective)
    k.problem = name_of(site) + " may update one element in several iterations" +
                (k.why_not_injective.empty() ? "" : " (" + k.why_not_injective + ")");
  return k;
}

ParallelCheck::Known& ParallelCheck::known_instances(size_t index) {
  Known& k = known_[index];
  if (std::exchange(k.injective_asked, true)) return k;
  const BlockSite& site = sites_[index];
  std::vector<Expr> bindings, extents;
  for (const IterVar& iter : site.block->iters) {
    if (iter.kind != IterKind::kSpatial) continue;
    bindings.push_back(iter.binding);
    extents.push_back(iter.extent);
  }
  SmallVector<const ExprNode*, 16> used;
  for (const Expr& b : bindings)
    walk(b, [&](const Expr& e) {
      if (e.kind() == ExprKind::kVar) used.push_back(e.get());
      return true;
    });
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
  if (!outer || !inner) return false;
  for (size_t d = 0; d < inner->size(); ++d) {
    // Outside the buffer nothing is touched.
    if (!covers((*outer)[d], (*inner)[d], analyzer) &&
        !covers((*outer)[d], clamp((*inner)[d], buffer->shape[d], analyzer), analyzer))
      return false;
  }
  return true;
}

Result<> ParallelCheck::check(const ForNode& loop) {
  if (!checks("races")) return {};
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
        if (!v || writer.block->annotations.find(kClearsPadLanes) || other.block->annotations.find(kClearsPadLanes))
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
