#include "analysis/dependence.h"

#include "arith/affine_map.h"

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

std::string name_of(const BlockSite& site) { return "block " + site.block->name; }

}  // namespace

std::vector<Dependence> dependences_in(const Func& func, const std::vector<BlockSite>& sites, int parent) {
  std::vector<Dependence> found;
  std::vector<int> members;
  for (size_t i = 0; i < sites.size(); ++i)
    if (sites[i].parent == parent) members.push_back(static_cast<int>(i));
  const auto compare = [&](int from, int to, const std::vector<Region>& first, const std::vector<Region>& second,
                           DependenceKind kind) {
    for (const Region& r : second) {
      const Region* other = region_of(first, r.buffer.get());
      if (!other) continue;
      const BlockSite &a = sites[static_cast<size_t>(from)], &b = sites[static_cast<size_t>(to)];
      if (!certainly_apart(func, sites, a, *other, b, r)) found.push_back({from, to, r.buffer, kind});
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

Result<> check_parallel(const Func& func, const ForNode& loop) { return check_parallel(func, block_sites(func), loop); }

Result<> check_parallel(const Func& func, const std::vector<BlockSite>& sites, const ForNode& loop) {
  const auto refuse = [&](std::string why) { return fail(ErrorCode::E210, std::move(why), "loop " + loop.var->name); };
  std::vector<const BlockSite*> under;
  for (const BlockSite& site : sites)
    if (site.depth_of(&loop) >= 0) under.push_back(&site);
  if (under.empty()) return refuse("no block is under it whose dependences could be known");

  for (const BlockSite* site : under) {
    const BlockNode& block = *site->block;
    for (const IterVar& iter : block.iters)
      if (iter.kind != IterKind::kSpatial && uses_var(iter.binding, loop.var.get()))
        return refuse("iterator " + iter.var->name + " of " + name_of(*site) + " is not spatial and depends on it");
    Analyzer iters;
    iters.bind_params(func);
    for (const IterVar& iter : block.iters) iters.bind(iter.var, 0, iter.extent);
    for (const Region& w : block.writes)
      if (!writes_are_injective(block, w, iters))
        return refuse(name_of(*site) + " may write an element of " + w.buffer->name + " from several iterations");
    // A block that only writes gives equal values wherever it runs twice. One that updates must not.
    if (!block.init && !reads_own_output(block)) continue;
    Analyzer analyzer;
    analyzer.bind_params(func);
    bind_site(sites, *site, analyzer);
    std::vector<Expr> bindings, extents;
    for (const IterVar& iter : block.iters) {
      if (iter.kind != IterKind::kSpatial) continue;
      bindings.push_back(iter.binding);
      extents.push_back(iter.extent);
    }
    std::vector<VarDomain> domains;
    for (const ForNode* l : site->loops) {
      bool used = l == &loop;
      for (const Expr& b : bindings) used |= uses_var(b, l->var.get());
      if (used) domains.push_back({l->var, {l->min, l->extent}});
    }
    const AffineMap map = detect_affine_map(bindings, extents, domains, instance_condition(*site), analyzer);
    if (!map.affine || !map.injective)
      return refuse(name_of(*site) + " may update one element in several iterations" +
                    (map.reason.empty() ? "" : " (" + map.reason + ")"));
  }

  // What one block under the loop writes and another reads: of its own iteration only.
  for (const BlockSite* writer : under) {
    for (const Region& w : writer->block->writes) {
      for (const BlockSite* reader : under) {
        if (reader == writer || reader->parent != writer->parent) continue;
        const Region* r = region_of(reader->block->reads, w.buffer.get());
        if (!r) continue;
        Analyzer at_writer, at_reader;
        at_writer.bind_params(func);
        bind_site(sites, *writer, at_writer);
        at_reader.bind_params(func);
        bind_site(sites, *reader, at_reader);
        const auto depth = static_cast<size_t>(writer->depth_of(&loop)) + 1;
        auto written = region_at(*writer, w, depth, at_writer);
        auto read = region_at(*reader, *r, depth, at_reader);
        bool own = written && read;
        if (own) {
          // Outside the buffer nothing is read.
          for (size_t d = 0; d < read->size(); ++d) {
            if (covers((*written)[d], (*read)[d], at_reader)) continue;
            own &= covers((*written)[d], clamp((*read)[d], w.buffer->shape[d], at_reader), at_reader);
          }
        }
        if (!own)
          return refuse(name_of(*reader) + " may read what " + name_of(*writer) + " writes to " + w.buffer->name +
                        " in another iteration");
      }
    }
  }
  return {};
}

}  // namespace fettle
