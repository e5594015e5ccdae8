#include "polyhedral/scheduler.h"

#include <algorithm>
#include <map>

#include <fmt/format.h>
#include <isl/aff.h>
#include <isl/schedule.h>

#include "analysis/affine/nest.h"
#include "ir/annotations.h"
#include "polyhedral/affine_row.h"
#include "polyhedral/lanes.h"
#include "polyhedral/placement.h"
#include "polyhedral/register_tiles.h"
#include "polyhedral/uniform_distances.h"
#include "polyhedral/unroll_and_jam.h"
#include "schedule/dataflow/dataflow.h"
#include "schedule/edit/steps.h"
#include "schedule/primitives.h"

namespace fettle {
namespace {

// One band of a tree, with the blocks below and where all rows of the tree place them.
struct Band {
  std::vector<IndexMap> maps;  // one for each block
  size_t members = 0;          // rows of the outermost band
  bool permutable = false;
  std::vector<bool> coincident;  // of its members
};

// What isl's scheduler makes of a nest: one band, or groups that follow one another.
struct Found {
  std::vector<std::vector<std::string>> groups;  // names of blocks
  Band band;                                     // where there is one group
};

}  // namespace

class FoundOrders {
 public:
  std::map<std::string, Result<Found>> orders;  // by blocks and options
};

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
      found.band.maps.push_back(std::move(map));
    }
    return found;
  });
}

// How many accesses of the blocks go along memory, element by element, as a row advances by one: for the row that takes
// the innermost place.
int accesses_along(const AffineNest& nest, const Band& band, size_t member) {
  int along = 0;
  for (size_t k = 0; k < nest.statements().size(); ++k) {
    const IndexMap& map = band.maps[k];
    const LinearForm row = linear_form(map.outputs[member]);
    const BlockNode& block = *nest.statements()[k].block;
    VarMap bindings;
    for (const IterVar& iter : block.iters) bindings[iter.var.get()] = iter.binding;
    // The loop that this row alone moves: of those that it has, the one that no other row of the band has.
    const VarNode* loop = nullptr;
    for (size_t i = 0; i < map.inputs.size(); ++i) {
      if (row.coeff_of(map.inputs[i]) == 0) continue;
      bool others = false;
      for (size_t d = 0; d < band.members; ++d)
        others = others || (d != member && linear_form(map.outputs[d]).coeff_of(map.inputs[i]) != 0);
      if (!others) loop = nest.statements()[k].loops[i]->var.get();
    }
    if (!loop) continue;
    const auto score = [&](const std::vector<Expr>& indices) {
      for (size_t d = 0; d < indices.size(); ++d) {
        const auto split = split_linear(substitute(indices[d], bindings), loop);
        if (!split || is_zero(split->coeff)) continue;
        along += d + 1 == indices.size() && is_one(split->coeff) ? 1 : -3;
      }
    };
    each_node<LoadNode>(block.body, [&](const LoadNode& l) { score(l.indices); });
    each_node<StoreNode>(block.body, [&](const StoreNode& l) { score(l.indices); });
  }
  return along;
}

void swap_rows(Band& band, size_t a, size_t b) {
  for (IndexMap& map : band.maps) std::swap(map.outputs[a], map.outputs[b]);
  const bool kept = band.coincident[a];
  band.coincident[a] = band.coincident[b];
  band.coincident[b] = kept;
}

class Writer {
 public:
  Writer(Schedule& s, const PolyhedralOptions& options) : s_(s), options_(options) {}

  Result<> group(const std::vector<std::string>& names) {
    FETTLE_TRY(const auto placed, place_of(s_.func(), names));
    FETTLE_TRY(const AffineNest nest, AffineNest::of(s_.func(), placed.first, placed.second));
    if (std::ranges::all_of(nest.statements(), [](const NestStatement& x) { return x.loops.empty(); })) return {};
    FETTLE_TRY(Found found, order_of(nest, names));
    if (found.groups.size() > 1) {
      FETTLE_TRY_VOID(part(nest, found.groups));
      for (const auto& some : found.groups) FETTLE_TRY_VOID(group(some));
      return {};
    }
    return write(nest, std::move(found.band));
  }

 private:
  Result<Found> order_of(const AffineNest& nest, const std::vector<std::string>& names) const {
    if (!options_.found) return find_order(nest, options_);
    const std::string key = fmt::format("{} {} {} {}", fmt::join(names, " "), static_cast<int>(options_.fusion),
                                        options_.allow_skewing, options_.reassociate);
    auto& orders = options_.found->orders;
    auto at = orders.find(key);
    if (at == orders.end()) at = orders.emplace(key, find_order(nest, options_)).first;
    return at->second;
  }

  Result<std::vector<BlockRef>> blocks(const AffineNest& nest) {
    std::vector<BlockRef> refs;
    for (const NestStatement& statement : nest.statements()) {
      FETTLE_TRY(const BlockRef ref, get_block(s_, {statement.block->name}));
      refs.push_back(ref);
    }
    return refs;
  }

  // Nests of their own for groups that follow one another, each in the order that it had.
  Result<> part(const AffineNest& nest, const std::vector<std::vector<std::string>>& groups) {
    std::vector<IndexMap> maps;
    for (const NestStatement& statement : nest.statements()) {
      IndexMap& map = maps.emplace_back();
      for (const ForNode* loop : statement.loops) map.inputs.push_back(make_var(loop->var->name));
      const auto mine = std::ranges::find_if(
          groups, [&](const auto& names) { return std::ranges::find(names, statement.block->name) != names.end(); });
      map.outputs.push_back(Expr(static_cast<int64_t>(mine - groups.begin())));
      for (const std::string& at : statement.when) map.outputs.push_back(value_at(at, map.inputs));
    }
    FETTLE_TRY(const auto refs, blocks(nest));
    FETTLE_TRY_VOID(reschedule(s_, {refs, maps, {}, false}));
    return {};
  }

  Result<> write(const AffineNest& nest, Band band) {
    // Innermost in the band: the row along which most accesses are contiguous.
    if (band.permutable && band.members > 1) {
      size_t best = band.members;
      int most = 0;
      for (size_t d = 0; d < band.members; ++d)
        if (const int along = accesses_along(nest, band, d); along > most) {
          best = d;
          most = along;
        }
      if (best < band.members)
        for (size_t d = best; d + 1 < band.members; ++d) swap_rows(band, d, d + 1);
    }
    if (options_.jammed_rows > 1) return write_jammed(nest, band);
    // isl takes seconds to scan the tiles of several statements.
    if (options_.register_tiles && band.permutable && band.members == 3 && band.maps.size() == 1)
      if (const auto tiles =
              plan_register_tiles(nest.statements().front(), band.maps.front(), options_.lanes, options_.registers))
        return write_tiles(nest, *tiles);
    if (options_.straight_rows) FETTLE_TRY_VOID(straighten(nest, band));
    RescheduleArgs args;
    FETTLE_TRY(args.blocks, blocks(nest));
    args.maps = band.maps;
    if (band.permutable && !options_.tiles.empty())
      for (size_t d = 0; d < band.members; ++d)
        args.factors.push_back(options_.tiles[std::min(d, options_.tiles.size() - 1)]);
    args.full_tiles = options_.full_tiles && !args.factors.empty();
    std::vector<std::string> made;
    FETTLE_TRY(const auto loops, apply(nest, args, made));
    if (options_.parallel) {
      for (size_t d = 0; d < band.members; ++d)
        if (band.coincident[d] && s_.loop(loops[d]) && parallel(s_, {loops[d]})) break;
    }
    if (options_.lanes > 1)
      for (const std::string& block : made) FETTLE_TRY_VOID(make_lanes(s_, block, options_.lanes));
    return {};
  }

  // `made`: the nest's blocks, with copies of them.
  Result<std::vector<LoopRef>> apply(const AffineNest& nest, const RescheduleArgs& args,
                                     std::vector<std::string>& made) {
    std::vector<std::string> names;
    for (const NestStatement& statement : nest.statements()) names.push_back(statement.block->name);
    return reschedule_with_copies(s_, args, names, made);
  }

  Result<> write_tiles(const AffineNest& nest, const RegisterTiles& tiles) {
    RescheduleArgs args;
    FETTLE_TRY(args.blocks, blocks(nest));
    args.maps = {tiles.map};
    args.factors.assign(tiles.factors.begin(), tiles.factors.end());
    args.full_tiles = true;
    std::vector<std::string> made;
    FETTLE_TRY(const auto loops, apply(nest, args, made));
    // Tiles of columns, then of rows.
    if (options_.parallel)
      for (const size_t d : {size_t{1}, size_t{2}})
        if (s_.loop(loops[d]) && parallel(s_, {loops[d]})) break;
    FETTLE_TRY_VOID(annotate(s_, {args.blocks.front(), kInOrderKey, int64_t{1}}));
    for (const std::string& block : made) {
      FETTLE_TRY(const bool is_written, write_tile_out(s_, block, tiles));
      if (!is_written && tiles.lanes > 1) FETTLE_TRY_VOID(make_lanes(s_, block, tiles.lanes));
    }
    return {};
  }

  Result<> write_jammed(const AffineNest& nest, const Band& band) {
    std::optional<JammedRows> jammed;
    const size_t n = band.members;
    if (band.permutable && n > 1 && !band.coincident[n - 1] && band.maps.size() == 1)
      jammed = jam_rows(band.maps.front(), n, !band.coincident[n - 2], options_.jammed_rows);
    if (!jammed) return fail(ErrorCode::E211, "no innermost row of one block carries dependences");
    RescheduleArgs args;
    FETTLE_TRY(args.blocks, blocks(nest));
    args.maps = {jammed->map};
    args.factors.assign(jammed->factors.begin(), jammed->factors.end());
    args.full_tiles = true;
    std::vector<std::string> made;
    FETTLE_TRY_VOID(apply(nest, args, made));
    for (const std::string& block : made) FETTLE_TRY_VOID(write_rows_out(s_, block, *jammed));
    return {};
  }

  // The band's last row gives way to the blocks' order and the loop itself that it skews.
  Result<> straighten(const AffineNest& nest, Band& band) {
    if (!band.permutable || band.members < 2) return fail(ErrorCode::E211, "no band has rows to straighten");
    const size_t last = --band.members;
    band.coincident.pop_back();
    for (size_t k = 0; k < band.maps.size(); ++k) {
      IndexMap& map = band.maps[k];
      // The loop that this row alone moves.
      std::vector<Expr> loops;
      for (const Var& input : map.inputs) {
        const auto moves = [&](size_t d) { return linear_form(map.outputs[d]).coeff_of(input) != 0; };
        bool others = false;
        for (size_t d = 0; d < last; ++d) others = others || moves(d);
        if (moves(last) && !others) loops.emplace_back(input);
      }
      if (loops.size() != 1 || map.outputs.size() > last + 2)
        return fail(ErrorCode::E211, fmt::format("the innermost row of block {} is none of its loops",
                                                 nest.statements()[k].block->name));
      map.outputs.resize(last);
      map.outputs.emplace_back(static_cast<int64_t>(k));
      map.outputs.push_back(loops.front());
    }
    return {};
  }

  Schedule& s_;
  const PolyhedralOptions& options_;
};

}  // namespace

std::shared_ptr<FoundOrders> make_found_orders() { return std::make_shared<FoundOrders>(); }

Result<> reschedule_program(Schedule& s, const PolyhedralOptions& options) {
  Schedule made = s;
  std::vector<std::string> names = options.blocks;
  if (names.empty())
    for (const BlockNode* block : blocks_of(s.func().root())) names.push_back(block->name);
  if (names.empty()) return fail(ErrorCode::E211, "the program has no blocks");
  FETTLE_TRY_VOID(Writer(made, options).group(names));
  s = made;
  return {};
}

}  // namespace fettle
