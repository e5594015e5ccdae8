#include "polyhedral/isl_order.h"

#include <algorithm>
#include <map>

#include <fmt/format.h>
#include <isl/aff.h>
#include <isl/schedule.h>

#include "polyhedral/affine_row.h"
#include "polyhedral/uniform_distances.h"

namespace fettle {
namespace {

Result<IndexMap> map_of(const NestStatement& statement, const isl::union_map& order) {
  IndexMap map;
  for (const ForNode* loop : statement.loops) map.inputs.push_back(make_var(loop->var->name));
  const auto refuse = [&](std::string_view why) {
    return fail(ErrorCode::E209, fmt::format("the order of block {} {}", statement.block->name, why));
  };
  Result<> found = refuse("is missing");
  order.foreach_map([&](const isl::map& some) {
    if (some.domain_tuple_id().name() != statement.name) return;
    found = {};
    const isl::pw_multi_aff rows = some.as_pw_multi_aff();
    if (rows.n_piece() != 1) {
      found = refuse("has several pieces");
      return;
    }
    rows.foreach_piece([&](const isl::set&, const isl::multi_aff& piece) {
      for (unsigned d = 0; d < piece.size(); ++d) {
        const Expr row = row_of(piece.at(static_cast<int>(d)), map.inputs);
        if (!row) found = refuse("depends on a size");
        map.outputs.push_back(row);
      }
    });
  });
  if (!found) return tl::unexpected(std::move(found.error()));
  return map;
}

isl::schedule solve(const AffineNest& nest, const isl::union_map& dependences, bool fuse, bool skew) {
  isl_ctx* ctx = isl_context().get();
  isl_options_set_schedule_serialize_sccs(ctx, fuse ? 0 : 1);
  isl_options_set_schedule_whole_component(ctx, fuse ? 1 : 0);
  isl_options_set_schedule_maximize_band_depth(ctx, 1);
  isl_options_set_schedule_maximize_coincidence(ctx, 1);
  isl_options_set_schedule_outer_coincidence(ctx, skew ? 0 : 1);
  isl_options_set_schedule_treat_coalescing(ctx, 1);
  return isl::schedule_constraints::on_domain(nest.domain())
      .set_context(nest.context())
      .set_validity(dependences)
      .set_coincidence(dependences)
      .set_proximity(dependences)
      .compute_schedule();
}

std::string name_of(const isl::set& instances) { return isl_set_get_tuple_name(instances.get()); }

// Members of the outermost band below `node` that may be parallel, from the first on, for each block.
void count_coincident(const isl::schedule_node& node, size_t above, bool goes_on,
                      std::map<std::string, size_t>& counts) {
  if (node.isa<isl::schedule_node_leaf>()) {
    const isl::union_set here = isl::manage(isl_schedule_node_get_domain(node.get()));
    here.foreach_set([&](const isl::set& s) { counts[name_of(s)] = above; });
    return;
  }
  if (node.isa<isl::schedule_node_band>()) {
    const auto band = node.as<isl::schedule_node_band>();
    for (unsigned i = 0; i < band.n_member() && goes_on; ++i) {
      goes_on = band.member_get_coincident(static_cast<int>(i));
      above += goes_on;
    }
  }
  for (unsigned i = 0; i < node.n_children(); ++i)
    count_coincident(node.child(static_cast<int>(i)), above, goes_on, counts);
}

bool is_one_loop(const Expr& row) {
  int used = 0;
  bool unit = true;
  for (const LinearTerm& term : linear_form(row).terms) {
    ++used;
    unit = unit && (term.coeff == 1 || term.coeff == -1) && term.expr.kind() == ExprKind::kVar;
  }
  return used <= 1 && unit;
}

bool has_no_negative_loop(const Expr& row) {
  return std::ranges::all_of(linear_form(row).terms, [](const LinearTerm& term) { return term.coeff >= 0; });
}

}  // namespace

Result<Found> find_order(const AffineNest& nest, const PolyhedralOptions& options) {
  if (nest.statements().size() > options.most_blocks)
    return fail(ErrorCode::E209, fmt::format("{} blocks are too many to order at once", nest.statements().size()));
  return within_isl(options.operations, [&]() -> Result<Found> {
    const Reassociation reassociation = options.reassociate ? Reassociation::kReductions : Reassociation::kNone;
    const auto uniform = without_bounds(nest.direct_dependences(reassociation), nest.domain());
    const isl::union_map dependences = uniform ? *uniform : nest.dependences(reassociation);
    const bool fuses = options.fusion != FusionStrategy::kMin;
    isl::schedule schedule = solve(nest, dependences, fuses, options.allow_skewing);
    if (options.fusion == FusionStrategy::kPreserve3Coincident && nest.statements().size() > 1) {
      const isl::schedule apart = solve(nest, dependences, false, options.allow_skewing);
      std::map<std::string, size_t> together_counts, apart_counts;
      count_coincident(schedule.root(), 0, true, together_counts);
      count_coincident(apart.root(), 0, true, apart_counts);
      for (const auto& [name, count] : apart_counts)
        if (std::min<size_t>(count, 3) > together_counts[name]) schedule = apart;
    }
    Found found;
    isl::schedule_node node = schedule.root().child(0);
    const auto block_names = [&](const isl::union_set& instances) {
      std::vector<std::string> names;
      for (const NestStatement& s : nest.statements())
        instances.foreach_set([&](const isl::set& some) {
          if (name_of(some) == s.name) names.push_back(s.block->name);
        });
      return names;
    };
    if (node.isa<isl::schedule_node_sequence>() || node.isa<isl::schedule_node_set>()) {
      for (unsigned i = 0; i < node.n_children(); ++i)
        found.groups.push_back(block_names(node.child(static_cast<int>(i)).as<isl::schedule_node_filter>().filter()));
      return found;
    }
    found.groups.push_back(block_names(nest.domain()));
    if (!node.isa<isl::schedule_node_band>())
      return fail(ErrorCode::E211, "the nest has no loop that could be ordered anew");
    const auto band = node.as<isl::schedule_node_band>();
    found.band.members = band.n_member();
    found.band.permutable = band.permutable();
    for (unsigned i = 0; i < band.n_member(); ++i)
      found.band.coincident.push_back(band.member_get_coincident(static_cast<int>(i)));
    const isl::union_map order = schedule.map().intersect_domain(nest.domain());
    for (const NestStatement& statement : nest.statements()) {
      FETTLE_TRY(IndexMap map, map_of(statement, order));
      if (!options.allow_skewing && !std::ranges::all_of(map.outputs, is_one_loop))
        return fail(ErrorCode::E209, fmt::format("block {} can only be ordered by skewing", statement.block->name));
      if (options.positive_orthant && !std::ranges::all_of(map.outputs, has_no_negative_loop))
        return fail(ErrorCode::E209,
                    fmt::format("block {} can only be ordered with a loop backwards", statement.block->name));
      found.band.maps.push_back(std::move(map));
    }
    return found;
  });
}

}  // namespace fettle
