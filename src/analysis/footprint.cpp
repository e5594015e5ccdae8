#include "analysis/footprint.h"

#include "base/check.h"

namespace fettle {
namespace {

using detail::saturating_mul;

// A site's loops, those of the blocks around included, with what the iterators of these blocks stand for.
struct Nest {
  std::vector<const ForNode*> loops;
  std::vector<int64_t> extents;
  VarMap values;       // iterators, own and outer → loops
  Analyzer analyzer;

  Nest(const Func& func, const std::vector<BlockSite>& sites, int index, int64_t unbounded) {
    analyzer.bind_params(func);
    enter(sites, index);
    for (const ForNode* loop : loops) {
      const Interval bounds = analyzer.int_bounds(loop->extent);
      extents.push_back(bounds.max == Interval::kPosInf ? unbounded : std::max<int64_t>(bounds.max, 0));
    }
  }

  void enter(const std::vector<BlockSite>& sites, int index) {
    const BlockSite& site = sites[static_cast<size_t>(index)];
    if (site.parent >= 0) enter(sites, site.parent);
    for (const ForNode* loop : site.loops) {
      loops.push_back(loop);
      analyzer.bind(loop->var, values.empty() ? loop->min : substitute(loop->min, values),
                    values.empty() ? loop->extent : substitute(loop->extent, values));
    }
    VarMap own;
    for (const IterVar& iter : site.block->iters)
      own[iter.var.get()] = analyzer.simplify(values.empty() ? iter.binding : substitute(iter.binding, values));
    values.insert(own.begin(), own.end());
  }

  int loop_of(const VarNode* var) const {
    for (size_t i = 0; i < loops.size(); ++i)
      if (loops[i]->var.get() == var) return static_cast<int>(i);
    return -1;
  }
};

// max - min of an expression at each level (index 0: all loops run).
using Widths = std::vector<int64_t>;

class WidthOf {
 public:
  explicit WidthOf(const Nest& nest) : nest_(nest), levels_(nest.loops.size() + 1) {}

  Widths of(const LinearForm& form) const {
    Widths sum(levels_, 0);
    for (const LinearTerm& t : form.terms) {
      const Widths w = of(t.expr);
      const int64_t k = t.coeff < 0 ? -t.coeff : t.coeff;
      for (size_t l = 0; l < levels_; ++l) sum[l] = detail::saturating_add(sum[l], saturating_mul(w[l], k));
    }
    return sum;
  }

  Widths of(const Expr& e) const {
    Widths width(levels_, 0);
    switch (e.kind()) {
      case ExprKind::kVar: {
        const int loop = nest_.loop_of(e.as<VarNode>());
        for (int l = 0; l <= loop; ++l)
          width[static_cast<size_t>(l)] = std::max<int64_t>(nest_.extents[static_cast<size_t>(loop)] - 1, 0);
        return width;
      }
      case ExprKind::kIntImm: return width;
      case ExprKind::kSelect: {
        const auto* n = e.as<SelectNode>();
        return larger(of(n->if_true), of(n->if_false), true);
      }
      case ExprKind::kBinary: {
        const auto* n = e.as<BinaryNode>();
        const int64_t* c = as_int(n->b);
        switch (n->op) {
          case BinaryOp::kAdd:
          case BinaryOp::kSub: return of(linear_form(e));
          case BinaryOp::kMul: {
            if (c) return of(linear_form(e));
            break;
          }
          case BinaryOp::kFloorDiv:
            if (!c || *c <= 0) break;
            width = of(n->a);
            for (int64_t& w : width) w = w == Interval::kPosInf ? w : (w + *c - 1) / *c;
            return width;
          case BinaryOp::kFloorMod:
            if (!c || *c <= 0) break;
            width = of(n->a);
            for (int64_t& w : width) w = std::min(w, *c - 1);
            return width;
          case BinaryOp::kMin:
          case BinaryOp::kMax: return larger(of(n->a), of(n->b), false);
          default: break;
        }
        break;
      }
      default: break;
    }
    // Unknown: anything, wherever a loop that runs is used.
    for (size_t i = 0; i < nest_.loops.size(); ++i)
      if (uses_var(e, nest_.loops[i]->var.get()))
        for (size_t l = 0; l <= i; ++l) width[l] = Interval::kPosInf;
    if (e.kind() == ExprKind::kLoad || e.kind() == ExprKind::kCast) return Widths(levels_, Interval::kPosInf);
    return width;
  }

 private:
  // The two sides of a min stay where they are when neither moves; of a select either may be taken.
  static Widths larger(Widths a, const Widths& b, bool sum) {
    for (size_t l = 0; l < a.size(); ++l)
      a[l] = sum ? detail::saturating_add(a[l], b[l]) : std::max(a[l], b[l]);
    return a;
  }

  const Nest& nest_;
  size_t levels_;
};

int64_t extent_bound(const Expr& e, Analyzer& analyzer) {
  if (const int64_t* value = as_int(e)) return *value;
  return analyzer.int_bounds(e).max;
}

// Distinct cache lines of a hull of a row-major buffer.
int64_t line_count(const std::vector<int64_t>& hull, const std::vector<int64_t>& shape, int element_bytes,
                   int line_bytes) {
  int64_t run = 1, runs = 1;
  bool contiguous = true;
  for (size_t d = hull.size(); d-- > 0;) {
    if (contiguous) {
      run = saturating_mul(run, hull[d]);
      contiguous = hull[d] == shape[d];
    } else {
      runs = saturating_mul(runs, hull[d]);
    }
  }
  const int64_t bytes = saturating_mul(run, element_bytes);
  const int64_t per_run = bytes / line_bytes + (bytes % line_bytes != 0);
  return saturating_mul(runs, per_run);
}

AccessFootprint footprint_of(Nest& nest, int site, const Region& region, bool is_write, int line_bytes) {
  const size_t levels = nest.loops.size() + 1;
  AccessFootprint f;
  f.site = site;
  f.buffer = region.buffer;
  f.is_write = is_write;
  f.loops = nest.loops;
  f.extents = nest.extents;
  f.stride_elems.assign(nest.loops.size(), 0);
  const BufferNode& buffer = *region.buffer;
  const size_t rank = region.ranges.size();

  std::vector<int64_t> shape(rank), strides(rank, AccessFootprint::kIrregular);
  for (size_t d = 0; d < rank; ++d) shape[d] = extent_bound(buffer.shape[d], nest.analyzer);
  for (size_t d = 0; d < rank; ++d) {
    if (!buffer.strides.empty()) {
      if (const auto value = nest.analyzer.constant_value(buffer.strides[d])) strides[d] = *value;
      continue;
    }
    int64_t stride = 1;
    for (size_t i = d + 1; i < rank; ++i) stride = saturating_mul(stride, shape[i]);
    if (!detail::is_inf(stride)) strides[d] = stride;
  }

  const WidthOf width_of(nest);
  std::vector<Widths> hulls(rank);
  std::vector<char> moves(nest.loops.size(), 0);
  int64_t region_elems = 1;
  for (size_t d = 0; d < rank; ++d) {
    const LinearForm form = nest.analyzer.linear(substitute(region.ranges[d].min, nest.values));
    const int64_t extent = std::max<int64_t>(extent_bound(substitute(region.ranges[d].extent, nest.values), nest.analyzer), 1);
    region_elems = saturating_mul(region_elems, std::min(extent, shape[d]));
    hulls[d] = width_of.of(form);
    for (int64_t& w : hulls[d]) w = std::min(detail::saturating_add(w, extent), std::max<int64_t>(shape[d], 1));
    for (size_t i = 0; i < nest.loops.size(); ++i) {
      int64_t coeff = 0;
      bool irregular = false;
      for (const LinearTerm& t : form.terms) {
        if (t.expr.get() == nest.loops[i]->var.get()) coeff = t.coeff;
        else irregular |= t.expr.kind() != ExprKind::kVar && uses_var(t.expr, nest.loops[i]->var.get());
      }
      if (coeff == 0 && !irregular) continue;
      moves[i] = 1;
      int64_t& stride = f.stride_elems[i];
      if (irregular || strides[d] == AccessFootprint::kIrregular) stride = AccessFootprint::kIrregular;
      else if (stride != AccessFootprint::kIrregular) stride += coeff * strides[d];
    }
  }

  f.elems.resize(levels);
  f.lines.resize(levels);
  std::vector<int64_t> hull(rank);
  int64_t instances = region_elems;  // never more elements than iterations touch
  for (size_t l = levels; l-- > 0;) {
    if (l < nest.loops.size() && moves[l]) instances = saturating_mul(instances, std::max<int64_t>(nest.extents[l], 1));
    int64_t elems = 1;
    for (size_t d = 0; d < rank; ++d) {
      hull[d] = hulls[d][l];
      elems = saturating_mul(elems, hull[d]);
    }
    f.elems[l] = std::min(elems, instances);
    f.lines[l] = std::min(line_count(hull, shape, buffer.dtype.element_bytes(), line_bytes), f.elems[l]);
  }
  return f;
}

}  // namespace

int AccessFootprint::innermost_moving_loop() const {
  for (size_t i = stride_elems.size(); i-- > 0;)
    if (stride_elems[i] != 0) return static_cast<int>(i);
  return -1;
}

std::vector<AccessFootprint> access_footprints(const Func& func, int line_bytes, int64_t unbounded_extent) {
  return access_footprints(func, block_sites(func), line_bytes, unbounded_extent);
}

namespace {

// `buffers`: null for all.
std::vector<AccessFootprint> collect(const Func& func, const std::vector<BlockSite>& sites, int line_bytes,
                                     int64_t unbounded_extent, const std::vector<Buffer>* buffers) {
  const auto wanted = [&](const Region& r) {
    return !buffers || std::find(buffers->begin(), buffers->end(), r.buffer) != buffers->end();
  };
  std::vector<char> has_inner(sites.size(), 0);
  for (const BlockSite& site : sites)
    if (site.parent >= 0) has_inner[static_cast<size_t>(site.parent)] = 1;
  std::vector<AccessFootprint> result;
  for (size_t i = 0; i < sites.size(); ++i) {
    if (has_inner[i]) continue;
    const BlockNode& block = *sites[i].block;
    if (std::none_of(block.reads.begin(), block.reads.end(), wanted) &&
        std::none_of(block.writes.begin(), block.writes.end(), wanted))
      continue;
    Nest nest(func, sites, static_cast<int>(i), unbounded_extent);
    for (const Region& r : block.reads)
      if (wanted(r)) result.push_back(footprint_of(nest, static_cast<int>(i), r, false, line_bytes));
    for (const Region& r : block.writes)
      if (wanted(r)) result.push_back(footprint_of(nest, static_cast<int>(i), r, true, line_bytes));
  }
  return result;
}

}  // namespace

std::vector<AccessFootprint> access_footprints(const Func& func, const std::vector<BlockSite>& sites, int line_bytes,
                                               int64_t unbounded_extent) {
  return collect(func, sites, line_bytes, unbounded_extent, nullptr);
}

std::vector<AccessFootprint> access_footprints_of(const Func& func, const std::vector<BlockSite>& sites,
                                                  const std::vector<Buffer>& buffers) {
  return collect(func, sites, 64, 1024, &buffers);
}

std::vector<int64_t> touched_extents(const Func& func, const std::vector<BlockSite>& sites, int site,
                                     const Region& region, size_t first) {
  Nest nest(func, sites, site, Interval::kPosInf);
  FETTLE_CHECK(first <= nest.loops.size());
  std::vector<int64_t> result;
  for (size_t d = 0; d < region.ranges.size(); ++d) {
    const Widths width = WidthOf(nest).of(nest.analyzer.linear(substitute(region.ranges[d].min, nest.values)));
    const int64_t extent = std::max<int64_t>(extent_bound(substitute(region.ranges[d].extent, nest.values), nest.analyzer), 1);
    result.push_back(std::min(detail::saturating_add(width[first], extent),
                              extent_bound(region.buffer->shape[d], nest.analyzer)));
  }
  return result;
}

}  // namespace fettle
