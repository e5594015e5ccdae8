#include "polyhedral/index_set_split.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <set>

#include <fmt/format.h>
#include <isl/constraint.h>
#include <isl/map.h>
#include <isl/set.h>

#include "analysis/affine/nest.h"
#include "ir/compare.h"
#include "polyhedral/affine_row.h"
#include "polyhedral/lanes.h"
#include "polyhedral/placement.h"
#include "schedule/dataflow/dataflow.h"
#include "schedule/primitives.h"

namespace fettle {
namespace {

// Iterations of a loop, as functions of the loops around it.
using Places = std::vector<Expr>;

// At more places than this no loop is split.
constexpr size_t kMostPlaces = 2;

// The iteration of the loop at `depth` in which all of these instances are. Null: there are several.
Expr only_iteration(const isl::set& instances, size_t depth, const std::vector<Var>& inputs) {
  const auto at = static_cast<unsigned>(depth);
  const auto dims = static_cast<unsigned>(isl_set_dim(instances.get(), isl_dim_set));
  const isl::set outer = isl::manage(isl_set_project_out(instances.copy(), isl_dim_set, at + 1, dims - at - 1));
  const isl::basic_set hull = outer.affine_hull();
  isl_constraint* equality = nullptr;
  if (!isl_basic_set_has_defining_equality(hull.get(), isl_dim_set, static_cast<int>(at), &equality)) return nullptr;
  const isl::aff place = isl::manage(isl_constraint_get_bound(equality, isl_dim_set, static_cast<int>(at)));
  isl_constraint_free(equality);
  return row_of(place, {inputs.begin(), inputs.begin() + static_cast<std::ptrdiff_t>(depth)});
}

// Those of the dependences that the loop at `depth` carries: between iterations of it in one of each loop around.
isl::map carried(const isl::map& pairs, size_t depth) {
  const auto at = static_cast<int>(depth);
  isl::map same = pairs;
  for (int d = 0; d < at; ++d) same = isl::manage(isl_map_equate(same.release(), isl_dim_in, d, isl_dim_out, d));
  const isl::map here = isl::manage(isl_map_equate(same.copy(), isl_dim_in, at, isl_dim_out, at));
  return same.subtract(here);
}

// Where the loop is to be split: each dependence that it carries begins or ends at one of these. Empty: it carries
// none, or others.
Places places_of(const AffineNest& nest, const isl::union_map& dependences, const ForNode& loop, size_t depth,
                 const std::vector<Var>& inputs) {
  const auto is_inside = [&](const std::string& name) {
    const auto& loops = std::ranges::find(nest.statements(), name, &NestStatement::name)->loops;
    return depth < loops.size() && loops[depth] == &loop;
  };
  Places places;
  bool all = true;
  dependences.foreach_map([&](const isl::map& pairs) {
    if (!is_inside(pairs.domain_tuple_id().name()) || !is_inside(pairs.range_tuple_id().name())) return;
    carried(pairs, depth).foreach_basic_map([&](const isl::basic_map& piece) {
      const isl::map some(piece);
      Expr place = only_iteration(some.domain(), depth, inputs);
      if (!place) place = only_iteration(some.range(), depth, inputs);
      if (!place) all = false;
      const auto is_same = [&](const Expr& other) { return structural_equal(place, other); };
      if (all && std::ranges::none_of(places, is_same)) places.push_back(place);
    });
  });
  return all && places.size() <= kMostPlaces ? places : Places();
}

// 1 where an integer is more than zero, else 0.
Expr is_positive(const Expr& value) { return max(Expr(0), min(Expr(1), value)); }

// (…, j, …) → (…, whether j is before, at or behind f, j, …) for each loop that is split. `parts`: outputs that say so.
IndexMap map_of(const NestStatement& statement, const std::map<const ForNode*, Places>& splits,
                const std::vector<Var>& names, std::set<size_t>& parts) {
  IndexMap map;
  map.inputs = {names.begin(), names.begin() + static_cast<std::ptrdiff_t>(statement.loops.size())};
  size_t depth = 0;
  for (const std::string& at : statement.when) {
    const Expr value = value_at(at, map.inputs);
    const ForNode* loop = value.kind() == ExprKind::kVar ? statement.loops[depth++] : nullptr;
    if (const auto split = splits.find(loop); split != splits.end()) {
      Expr part = 0;
      for (const Expr& place : split->second) part = part + is_positive(value - place) + is_positive(value - place + 1);
      parts.insert(map.outputs.size());
      map.outputs.push_back(part);
    }
    map.outputs.push_back(value);
  }
  return map;
}

// Threads share the outermost loop around the block that may be parallel.
Result<> share(Schedule& s, const std::string& block) {
  FETTLE_TRY(const BlockRef ref, get_block(s, {block}));
  FETTLE_TRY(const auto loops, get_loops(s, {ref}));
  for (const LoopRef& loop : loops) {
    if (loop == loops.back()) break;  // one row is too little
    FETTLE_TRY(const Stmt stmt, s.loop(loop));
    if (stmt.as<ForNode>()->loop_kind != ForKind::kSerial || parallel(s, {loop})) break;
  }
  return {};
}

}  // namespace

Result<> split_index_sets(Schedule& s, const std::vector<std::string>& blocks, int64_t lanes, bool shared) {
  FETTLE_TRY(const auto place, place_of(s.func(), blocks));
  FETTLE_TRY(const AffineNest nest, AffineNest::of(s.func(), place.first, place.second));
  size_t deepest = 0;
  for (const NestStatement& statement : nest.statements()) deepest = std::max(deepest, statement.loops.size());
  std::vector<Var> names;
  for (size_t d = 0; d < deepest; ++d) names.push_back(make_var(fmt::format("l{}", d)));

  std::map<const ForNode*, Places> splits;
  FETTLE_TRY_VOID(within_isl(kIslCheckOperations, [&]() -> Result<> {
    const isl::union_map dependences = nest.dependences(Reassociation::kReductions);
    for (const NestStatement& statement : nest.statements())
      for (size_t d = 0; d < statement.loops.size(); ++d) {
        const ForNode* loop = statement.loops[d];
        if (splits.contains(loop)) continue;
        splits[loop] = places_of(nest, dependences, *loop, d, names);
      }
    return {};
  }));
  std::erase_if(splits, [](const auto& split) { return split.second.empty(); });
  if (splits.empty()) return fail(ErrorCode::E211, "no loop has one place where what it carries begins or ends");

  Schedule made = s;
  RescheduleArgs args;
  std::set<size_t> apart, other;  // outputs that are parts of a loop, and loops themselves
  for (const NestStatement& statement : nest.statements()) {
    FETTLE_TRY(args.blocks.emplace_back(), get_block(made, {statement.block->name}));
    std::set<size_t> own;
    args.maps.push_back(map_of(statement, splits, names, own));
    for (size_t d = 0; d < args.maps.back().outputs.size(); ++d)
      if (own.contains(d))
        apart.insert(d);
      else if (!as_int(args.maps.back().outputs[d]))
        other.insert(d);
  }
  std::ranges::set_difference(apart, other, std::back_inserter(args.apart));
  std::vector<std::string> parts;
  FETTLE_TRY_VOID(reschedule_with_copies(made, args, blocks, parts));
  for (const std::string& part : parts) {
    if (shared) FETTLE_TRY_VOID(share(made, part));
    FETTLE_TRY_VOID(make_lanes_along_memory(made, part, lanes));
  }
  s = made;
  return {};
}

}  // namespace fettle
