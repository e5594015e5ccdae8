#include "analysis/plain_access.h"

#include <algorithm>

namespace fettle {
namespace {

using detail::saturating_mul;

// No limit that is always met, or never: the sum would be simpler.
bool is_plain(const PlainSum& sum, const PlainLoops& loops) {
  for (const LinearTerm& t : sum.outer.terms)
    if (t.expr.kind() != ExprKind::kVar) return false;
  return std::ranges::none_of(sum.terms, [&](const PlainTerm& t) {
    const int64_t first = loops[t.loop].min, last = first + loops[t.loop].extent - 1;
    return t.limited && (t.at(first) == t.at(last) || (t.at(first) == first && t.at(last) == last));
  });
}

}  // namespace

std::optional<PlainAccess> PlainAccess::of(const BlockSite& site, const Region& region) {
  if (site.parent >= 0) return std::nullopt;
  PlainLoops loops;
  if (!add_plain_loops(loops, site.loops)) return std::nullopt;
  std::optional<PlainAccess> made(std::in_place);  // returned as it is
  PlainAccess& access = *made;
  for (const PlainLoop& loop : loops) access.loops_.push_back({loop.extent});

  const BufferNode& buffer = *region.buffer;
  SmallVector<int64_t, 12> strides;  // in memory, of each loop
  for (size_t i = 0; i < loops.size(); ++i) strides.push_back(0);
  int64_t row = 1;  // elements from one index to the next
  for (size_t d = region.ranges.size(); d-- > 0;) {
    const int64_t* shape = as_int(buffer.shape[d]);
    const int64_t* width = as_int(region.ranges[d].extent);
    const int64_t* own_stride = buffer.strides.empty() ? &row : as_int(buffer.strides[d]);
    Dimension& dimension = access.dimensions_.emplace_back();
    PlainSum& index = dimension.index;
    if (!shape || !width || !own_stride || detail::is_inf(row) ||
        !add_plain(index, region.ranges[d].min, 1, site.block->iters, loops) || !is_plain(index, loops))
      return std::nullopt;
    dimension.extent = std::max<int64_t>(*width, 1);
    dimension.shape = *shape;
    for (size_t i = 0; i < loops.size(); ++i) dimension.steps.push_back(0);
    for (const PlainTerm& t : index.terms) {
      const int64_t extent = loops[t.loop].extent;
      if (extent == 1) continue;
      access.loops_[t.loop].used = true;
      access.loops_[t.loop].moves |= t.limited;
      if (!t.limited) strides[t.loop] += t.coeff * *own_stride;
      int64_t& step = dimension.steps[t.loop];
      step = detail::saturating_add(step, saturating_mul(extent - 1, t.coeff < 0 ? -t.coeff : t.coeff));
    }
    row = saturating_mul(row, *shape);
  }
  access.ranges_ = std::move(loops);
  for (size_t i = 0; i < access.loops_.size(); ++i) access.loops_[i].moves |= strides[i] != 0;
  return made;
}

std::optional<int64_t> PlainAccess::window_elems(std::span<const PlainAccess* const> accesses, size_t level) {
  const PlainAccess& first = *accesses.front();
  // Whether the loops outside make the same of two indices; those that run once add a constant.
  const auto moves_alike = [&](const PlainSum& a, const PlainSum& b) {
    const auto is_in = [&](const PlainTerm& t, const PlainSum& sum) {
      return std::ranges::any_of(sum.terms, [&](const PlainTerm& u) {
        return t.loop == u.loop && t.coeff == u.coeff && t.limited == u.limited &&
               (!t.limited || (t.is_min == u.is_min && t.limit == u.limit));
      });
    };
    const auto all_in = [&](const PlainSum& x, const PlainSum& y) {
      return std::ranges::all_of(x.terms, [&](const PlainTerm& t) {
        return t.loop >= level || first.ranges_[t.loop].extent <= 1 || is_in(t, y);
      });
    };
    return all_in(a, b) && all_in(b, a);
  };
  int64_t elems = 1, named = 0;
  bool all_the_same = true;
  for (size_t d = 0; d < first.dimensions_.size(); ++d) {
    const PlainSum& anchor = first.dimensions_[d].index;
    Interval window;
    bool one_window = true;
    for (const PlainAccess* a : accesses) {
      const Dimension& here = a->dimensions_[d];
      if (!here.index.outer.terms.empty() || !anchor.outer.terms.empty()) {
        LinearForm apart = here.index.outer;
        apart.add(anchor.outer, -1);
        one_window = one_window && apart.terms.empty();
      }
      one_window = one_window && (a == &first || moves_alike(here.index, anchor));
      Interval own = Interval::single(here.index.constant);
      for (const PlainTerm& t : here.index.terms) {
        const PlainLoop& loop = a->ranges_[t.loop];
        if (t.loop < level && loop.extent > 1) continue;
        if (t.limited) return std::nullopt;
        const int64_t from = t.coeff * loop.min, to = t.coeff * (loop.min + loop.extent - 1);
        own = {own.min + std::min(from, to), own.max + std::max(from, to)};
      }
      own.max += here.extent - 1;
      all_the_same = all_the_same && (a == &first || (own.min == window.min && own.max == window.max));
      window = a == &first ? own : Interval{std::min(window.min, own.min), std::max(window.max, own.max)};
    }
    all_the_same = all_the_same && one_window;
    elems = saturating_mul(elems, one_window ? window.max - window.min + 1 : first.dimensions_[d].shape);
  }
  for (const PlainAccess* a : accesses) {
    int64_t instances = 1;
    for (const Dimension& d : a->dimensions_) instances = saturating_mul(instances, d.extent);
    for (size_t i = level; i < a->loops_.size(); ++i)
      if (a->loops_[i].used) instances = saturating_mul(instances, a->loops_[i].extent);
    named = std::max(named, instances);
  }
  return all_the_same ? std::min(elems, named) : elems;
}

int64_t PlainAccess::elems(size_t level) const {
  int64_t elems = 1, instances = 1;  // never more elements than iterations touch
  for (const Dimension& d : dimensions_) {
    int64_t hull = d.extent;
    for (size_t i = level; i < loops_.size(); ++i) hull = detail::saturating_add(hull, d.steps[i]);
    elems = saturating_mul(elems, std::min(hull, std::max<int64_t>(d.shape, 1)));
    instances = saturating_mul(instances, std::min(d.extent, d.shape));
  }
  for (size_t i = level; i < loops_.size(); ++i)
    if (loops_[i].used) instances = saturating_mul(instances, loops_[i].extent);
  return std::min(elems, instances);
}

}  // namespace fettle
