#include "analysis/touched_regions.h"

namespace fettle {

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

bool same_ranges(const Region& a, const Region& b) {
  return std::ranges::equal(a.ranges, b.ranges, [](const Range& x, const Range& y) { return structural_equal(x, y); });
}

bool covers_in(const std::vector<Range>& outer, const std::vector<Range>& inner, const BufferNode& buffer,
               Analyzer& analyzer) {
  for (size_t d = 0; d < inner.size(); ++d)
    if (!covers(outer[d], inner[d], analyzer) &&
        !covers(outer[d], clamp(inner[d], buffer.shape[d], analyzer), analyzer))
      return false;
  return true;
}

namespace {

// Bound so that regions of one site can be compared with those of another: every loop runs.
std::optional<std::vector<Range>> region_of_all(const Func& func, const std::vector<BlockSite>& sites,
                                                const BlockSite& site, const Region& region) {
  Analyzer analyzer = analyzer_at(func, sites, site);
  return region_at(site, region, 0, analyzer);
}

}  // namespace

bool certainly_apart(const Func& func, const std::vector<BlockSite>& sites, const BlockSite& a, const Region& ra,
                     const BlockSite& b, const Region& rb) {
  if (ra.ranges.empty()) return false;
  const auto x = region_of_all(func, sites, a, ra), y = region_of_all(func, sites, b, rb);
  if (!x || !y) return false;
  Analyzer analyzer;
  analyzer.bind_params(func);
  return disjoint(*x, *y, analyzer);
}

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

bool plainly_injective(const std::vector<Expr>& bindings, const std::vector<VarDomain>& loops, const Expr& predicate) {
  PlainLoops plain_loops;
  for (const VarDomain& d : loops)
    if (!add_plain_loop(plain_loops, d.var.get(), d.range.min, d.range.extent)) return false;
  const auto map = plain_map(bindings, plain_loops, predicate);
  return map && map->injective;
}

std::optional<PlainRegion> plain_region(const BlockSite& site, const Region& region, size_t first) {
  PlainLoops loops;
  if (!add_plain_loops(loops, std::span(site.loops).subspan(first))) return std::nullopt;
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

bool plainly_holds(const std::optional<PlainRegion>& outer, const std::optional<PlainRegion>& inner) {
  if (!outer || !inner) return false;
  for (size_t d = 0; d < inner->size(); ++d)
    if (!plain_covers((*outer)[d], (*inner)[d])) return false;
  return true;
}

}  // namespace fettle
