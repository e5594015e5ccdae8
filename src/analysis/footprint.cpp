#include "analysis/footprint.h"

#include <optional>

#include "arith/plain_map.h"

namespace fettle {
namespace {

using detail::saturating_mul;

constexpr int64_t kUnbounded = 1024;  // iterations of a loop whose extent has no bound

// A site's loops, those of the blocks around included, with what the iterators of these blocks stand for.
class Nest {
 public:
  std::vector<const ForNode*> loops;
  std::vector<int64_t> extents;

  Nest(const Func& func, const std::vector<BlockSite>& sites, int index) : func_(func), sites_(sites), index_(index) {
    const BlockSite& site = sites[static_cast<size_t>(index)];
    // Constant loops and plain sums of them need no analyzer.
    plain_ = site.parent < 0 && add_plain_loops(plain_loops_, site.loops);
    for (const IterVar& iter : site.block->iters) {
      auto form = plain_ ? plain_linear(iter.binding, plain_loops_) : std::nullopt;
      plain_ = form.has_value();
      if (!plain_) break;
      forms_.emplace_back(iter.var.get(), std::move(*form));
    }
    if (plain_) {
      loops = site.loops;
      for (const PlainLoop& loop : plain_loops_) extents.push_back(loop.extent);
      return;
    }
    bind();
    for (const ForNode* loop : loops) {
      const Interval bounds = analyzer_.int_bounds(loop->extent);
      extents.push_back(bounds.max == Interval::kPosInf ? kUnbounded : std::max<int64_t>(bounds.max, 0));
    }
  }

  int loop_of(const VarNode* var) const {
    for (size_t i = 0; i < loops.size(); ++i)
      if (loops[i]->var.get() == var) return static_cast<int>(i);
    return -1;
  }

  /// An expression in the block's iterators, over the loops.
  LinearForm linear(const Expr& e) {
    if (plain_) {
      const LinearForm raw = linear_form(e);
      LinearForm result(raw.constant);
      bool known = true;
      for (const LinearTerm& t : raw.terms) {
        const auto form =
            std::find_if(forms_.begin(), forms_.end(), [&](const auto& f) { return f.first == t.expr.get(); });
        known = known && form != forms_.end();
        if (known) result.add(form->second, t.coeff);
      }
      if (known) return result;
    }
    bind();
    return analyzer_.linear(substitute(e, values_));
  }

  /// The greatest value of such an expression.
  int64_t greatest(const Expr& e) {
    if (const int64_t* value = as_int(e)) return *value;
    bind();
    return analyzer_.int_bounds(substitute(e, values_)).max;
  }

  /// The values of a sum over the loops.
  Interval bounds(const LinearForm& sum) {
    if (plain_) {
      Interval range = Interval::single(sum.constant);
      bool known = true;
      for (const LinearTerm& t : sum.terms) {
        const auto loop = std::ranges::find(plain_loops_, t.expr.get(),
                                            [](const PlainLoop& l) { return static_cast<const ExprNode*>(l.var); });
        known = known && loop != plain_loops_.end();
        if (known) range = range + Interval{loop->min, loop->min + loop->extent - 1} * Interval::single(t.coeff);
      }
      if (known) return range;
    }
    bind();
    return analyzer_.int_bounds(sum);
  }

  std::optional<int64_t> constant_value(const Expr& e) {
    if (const int64_t* value = as_int(e)) return *value;
    bind();
    return analyzer_.constant_value(e);
  }

 private:
  void bind() {
    if (std::exchange(bound_, true)) return;
    loops.clear();
    analyzer_.bind_params(func_);
    enter(index_);
  }

  void enter(int index) {
    const BlockSite& site = sites_[static_cast<size_t>(index)];
    if (site.parent >= 0) enter(site.parent);
    for (const ForNode* loop : site.loops) {
      loops.push_back(loop);
      analyzer_.bind(loop->var, substitute(loop->min, values_), substitute(loop->extent, values_));
    }
    VarMap own;
    for (const IterVar& iter : site.block->iters)
      own[iter.var.get()] = analyzer_.simplify(substitute(iter.binding, values_));
    values_.insert(own.begin(), own.end());
  }

  const Func& func_;
  const std::vector<BlockSite>& sites_;
  int index_;
  bool plain_ = false, bound_ = false;
  PlainLoops plain_loops_;
  SmallVector<std::pair<const VarNode*, LinearForm>, 4> forms_;  // of the iterators, where plain
  VarMap values_;                                                // iterators, own and outer → loops; once bound
  Analyzer analyzer_;
};

// max - min of an expression at each level (index 0: all loops run).
using Widths = SmallVector<int64_t, 16>;

class WidthOf {
 public:
  explicit WidthOf(const Nest& nest) : nest_(nest), levels_(nest.loops.size() + 1) {}

  Widths of(const LinearForm& form) const {
    Widths sum = all(0);
    for (const LinearTerm& t : form.terms) {
      if (const auto* var = t.expr.as<VarNode>()) {
        const int loop = nest_.loop_of(var);
        if (loop < 0) continue;
        const int64_t w = saturating_mul(std::max<int64_t>(nest_.extents[static_cast<size_t>(loop)] - 1, 0),
                                         t.coeff < 0 ? -t.coeff : t.coeff);
        for (int l = 0; l <= loop; ++l)
          sum[static_cast<size_t>(l)] = detail::saturating_add(sum[static_cast<size_t>(l)], w);
        continue;
      }
      const Widths w = of(t.expr);
      const int64_t k = t.coeff < 0 ? -t.coeff : t.coeff;
      for (size_t l = 0; l < levels_; ++l) sum[l] = detail::saturating_add(sum[l], saturating_mul(w[l], k));
    }
    return sum;
  }

  Widths of(const Expr& e) const {
    Widths width = all(0);
    switch (e.kind()) {
      case ExprKind::kVar: {
        const int loop = nest_.loop_of(e.as<VarNode>());
        for (int l = 0; l <= loop; ++l)
          width[static_cast<size_t>(l)] = std::max<int64_t>(nest_.extents[static_cast<size_t>(loop)] - 1, 0);
        return width;
      }
      case ExprKind::kIntImm:
        return width;
      case ExprKind::kSelect: {
        const auto* n = e.as<SelectNode>();
        return larger(of(n->if_true), of(n->if_false), true);
      }
      case ExprKind::kBinary: {
        const auto* n = e.as<BinaryNode>();
        const int64_t* c = as_int(n->b);
        switch (n->op) {
          case BinaryOp::kAdd:
          case BinaryOp::kSub:
            return of(linear_form(e));
          case BinaryOp::kMul:
            if (c) return of(linear_form(e));
            break;
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
          case BinaryOp::kMax:
            return larger(of(n->a), of(n->b), false);
          default:
            break;
        }
        break;
      }
      default:
        break;
    }
    // Unknown: anything, wherever a loop that runs is used.
    for (size_t i = 0; i < nest_.loops.size(); ++i)
      if (uses_var(e, nest_.loops[i]->var.get()))
        for (size_t l = 0; l <= i; ++l) width[l] = Interval::kPosInf;
    if (e.kind() == ExprKind::kLoad || e.kind() == ExprKind::kCast) return all(Interval::kPosInf);
    return width;
  }

 private:
  Widths all(int64_t value) const {
    Widths widths;
    widths.reserve(levels_);
    for (size_t l = 0; l < levels_; ++l) widths.push_back(value);
    return widths;
  }

  // The two sides of a min stay where they are when neither moves; of a select either may be taken.
  static Widths larger(Widths a, const Widths& b, bool sum) {
    for (size_t l = 0; l < a.size(); ++l) a[l] = sum ? detail::saturating_add(a[l], b[l]) : std::max(a[l], b[l]);
    return a;
  }

  const Nest& nest_;
  size_t levels_;
};

using Sizes = SmallVector<int64_t, 6>;  // one a dimension

AccessFootprint footprint_of(Nest& nest, int site, const Region& region, bool is_write) {
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

  Sizes shape, strides;
  for (size_t d = 0; d < rank; ++d) {
    shape.push_back(nest.greatest(buffer.shape[d]));
    strides.push_back(AccessFootprint::kIrregular);
  }
  for (size_t d = 0; d < rank; ++d) {
    if (!buffer.strides.empty()) {
      if (const auto value = nest.constant_value(buffer.strides[d])) strides[d] = *value;
      continue;
    }
    int64_t stride = 1;
    for (size_t i = d + 1; i < rank; ++i) stride = saturating_mul(stride, shape[i]);
    if (!detail::is_inf(stride)) strides[d] = stride;
  }

  const WidthOf width_of(nest);
  SmallVector<Widths, 4> hulls;
  uint64_t moves = 0;  // bits of loops; where there are more, the last stands for them all
  const auto bit = [](size_t loop) { return uint64_t{1} << std::min<size_t>(loop, 63); };
  int64_t region_elems = 1;
  for (size_t d = 0; d < rank; ++d) {
    const LinearForm form = nest.linear(region.ranges[d].min);
    const int64_t extent = std::max<int64_t>(nest.greatest(region.ranges[d].extent), 1);
    region_elems = saturating_mul(region_elems, std::min(extent, shape[d]));
    hulls.push_back(width_of.of(form));
    for (int64_t& w : hulls[d]) w = std::min(detail::saturating_add(w, extent), std::max<int64_t>(shape[d], 1));
    for (size_t i = 0; i < nest.loops.size(); ++i) {
      int64_t coeff = 0;
      bool irregular = false;
      for (const LinearTerm& t : form.terms) {
        if (t.expr.get() == nest.loops[i]->var.get())
          coeff = t.coeff;
        else
          irregular |= t.expr.kind() != ExprKind::kVar && uses_var(t.expr, nest.loops[i]->var.get());
      }
      if (coeff == 0 && !irregular) continue;
      moves |= bit(i);
      int64_t& stride = f.stride_elems[i];
      if (irregular || strides[d] == AccessFootprint::kIrregular)
        stride = AccessFootprint::kIrregular;
      else if (stride != AccessFootprint::kIrregular)
        stride += coeff * strides[d];
    }
  }

  f.elems.resize(levels);
  int64_t instances = region_elems;  // never more elements than iterations touch
  for (size_t l = levels; l-- > 0;) {
    if (l < nest.loops.size() && (moves & bit(l)))
      instances = saturating_mul(instances, std::max<int64_t>(nest.extents[l], 1));
    int64_t elems = 1;
    for (size_t d = 0; d < rank; ++d) elems = saturating_mul(elems, hulls[d][l]);
    f.elems[l] = std::min(elems, instances);
  }
  return f;
}

bool is_min_or_max(const Expr& e) {
  const auto* n = e.as<BinaryNode>();
  return n && (n->op == BinaryOp::kMin || n->op == BinaryOp::kMax);
}

// The index's terms of loops from each level on.
AccessFootprint::Dimension dimension_of(Nest& nest, const Range& range) {
  AccessFootprint::Dimension d;
  d.index = nest.linear(range.min);
  d.extent = std::max<int64_t>(nest.greatest(range.extent), 1);
  const int levels = static_cast<int>(nest.loops.size()) + 1;
  d.inner.assign(static_cast<size_t>(levels), Interval::single(0));
  std::vector<int> first(d.index.terms.size(), -1);
  bool together = false;  // x - min(x, y): bounds of a sum are tighter than sums of bounds
  for (size_t t = 0; t < first.size(); ++t) {
    const LinearTerm& term = d.index.terms[t];
    together |= is_min_or_max(term.expr);
    int last = -1;
    for (const Var& var : collect_vars(term.expr)) {
      const int loop = nest.loop_of(var.get());
      if (loop < 0) continue;
      first[t] = first[t] < 0 ? loop : std::min(first[t], loop);
      last = std::max(last, loop);
    }
    if (first[t] < 0) continue;
    LinearForm one;
    one.terms.push_back(term);
    const Interval bounds = nest.bounds(one);
    for (int level = 0; level <= last; ++level) {
      Interval& sum = d.inner[static_cast<size_t>(level)];
      sum = level <= first[t] && bounds.is_bounded() && sum.is_bounded() ? sum + bounds : Interval::everything();
    }
  }
  for (int level = 0; together && level < levels; ++level) {
    Interval& sum = d.inner[static_cast<size_t>(level)];
    if (!sum.is_bounded()) continue;
    LinearForm inside;
    for (size_t t = 0; t < first.size(); ++t)
      if (first[t] >= level) inside.terms.push_back(d.index.terms[t]);
    sum = nest.bounds(inside);
  }
  return d;
}

// True if a loop of the access from `level` on is used.
bool runs_in(const Expr& e, const AccessFootprint& a, size_t level) {
  for (size_t i = level; i < a.loops.size(); ++i)
    if (uses_var(e, a.loops[i]->var.get())) return true;
  return false;
}

}  // namespace

std::vector<int64_t> window_extents(const std::vector<const AccessFootprint*>& accesses, size_t level) {
  std::vector<int64_t> extents;
  if (accesses.empty()) return extents;
  const AccessFootprint& first = *accesses.front();
  for (size_t d = 0; d < first.dimensions.size(); ++d) {
    int64_t low = INT64_MAX, high = INT64_MIN;
    bool one_window = true;
    for (const AccessFootprint* a : accesses) {
      const AccessFootprint::Dimension& here = a->dimensions[d];
      const Interval inner = here.inner[level];
      // What does not run is the same for all.
      LinearForm apart = here.index;
      apart.add(first.dimensions[d].index, -1);
      const int64_t distance = apart.constant;
      for (const LinearTerm& t : apart.terms) one_window &= runs_in(t.expr, *a, level) || runs_in(t.expr, first, level);
      if (!(one_window = one_window && inner.is_bounded())) break;
      low = std::min(low, distance + inner.min);
      high = std::max(high, distance + inner.max + here.extent - 1);
    }
    const int64_t* full = as_int(first.buffer->shape[d]);
    extents.push_back(one_window ? high - low + 1 : full ? *full : 0);
  }
  return extents;
}

std::vector<AccessFootprint> access_footprints_of(const Func& func, const std::vector<BlockSite>& sites,
                                                  const std::vector<Buffer>& buffers) {
  const auto wanted = [&](const Region& r) { return std::ranges::find(buffers, r.buffer) != buffers.end(); };
  std::vector<char> has_inner(sites.size(), 0);
  for (const BlockSite& site : sites)
    if (site.parent >= 0) has_inner[static_cast<size_t>(site.parent)] = 1;
  std::vector<AccessFootprint> result;
  for (size_t i = 0; i < sites.size(); ++i) {
    const BlockNode& block = *sites[i].block;
    if (has_inner[i] || (std::ranges::none_of(block.reads, wanted) && std::ranges::none_of(block.writes, wanted)))
      continue;
    Nest nest(func, sites, static_cast<int>(i));
    const auto add = [&](const Region& r, bool is_write) {
      if (!wanted(r)) return;
      result.push_back(footprint_of(nest, static_cast<int>(i), r, is_write));
      for (const Range& range : r.ranges) result.back().dimensions.push_back(dimension_of(nest, range));
    };
    for (const Region& r : block.reads) add(r, false);
    for (const Region& r : block.writes) add(r, true);
  }
  return result;
}

}  // namespace fettle
