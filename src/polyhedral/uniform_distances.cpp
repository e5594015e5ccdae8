#include "polyhedral/uniform_distances.h"

#include <isl/map.h>
#include <isl/set.h>

namespace fettle {
namespace {

// The same pairs of points, of spaces without names.
isl::map nameless(const isl::map& pairs) {
  return isl::manage(isl_map_reset_tuple_id(isl_map_reset_tuple_id(pairs.copy(), isl_dim_in), isl_dim_out));
}

isl::map named_as(const isl::map& nameless, const isl::map& names) {
  isl_map* named = isl_map_set_tuple_id(nameless.copy(), isl_dim_in, isl_map_get_tuple_id(names.get(), isl_dim_in));
  return isl::manage(isl_map_set_tuple_id(named, isl_dim_out, isl_map_get_tuple_id(names.get(), isl_dim_out)));
}

std::optional<isl::map> unbounded(const isl::map& pairs, const isl::union_set& domain) {
  if (isl_map_dim(pairs.get(), isl_dim_in) != isl_map_dim(pairs.get(), isl_dim_out)) return {};
  const isl::map points = nameless(pairs);
  const isl::set distances = isl::manage(isl_map_deltas(points.copy()));
  // [x -> y] -> y - x
  const isl::map differences = isl::manage(isl_map_deltas_map(isl_map_universe(isl_map_get_space(points.get()))));
  const isl::map all = named_as(differences.intersect_range(distances).domain().unwrap(), pairs);
  const isl::union_map among = isl::union_map(all).intersect_domain(domain).intersect_range(domain);
  return among.is_subset(isl::union_map(pairs)) ? std::optional(all) : std::nullopt;
}

}  // namespace

std::optional<isl::union_map> without_bounds(const isl::union_map& pairs, const isl::union_set& domain) {
  isl::union_map result(isl_context(), "{ }");
  bool all = true;
  pairs.foreach_map([&](const isl::map& some) {
    const auto free = all ? unbounded(some, domain) : std::nullopt;
    all = free.has_value();
    if (all) result = result.unite(isl::union_map(*free));
  });
  return all ? std::optional(result) : std::nullopt;
}

}  // namespace fettle
