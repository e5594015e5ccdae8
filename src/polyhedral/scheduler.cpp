#include "polyhedral/scheduler.h"

#include <algorithm>
#include <map>

#include <fmt/format.h>

#include "analysis/affine/nest.h"
#include "analysis/sites.h"
#include "ir/annotations.h"
#include "polyhedral/fronts.h"
#include "polyhedral/isl_order.h"
#include "polyhedral/lanes.h"
#include "polyhedral/placement.h"
#include "polyhedral/register_tiles.h"
#include "polyhedral/step_blocks.h"
#include "polyhedral/unroll_and_jam.h"
#include "schedule/dataflow/dataflow.h"
#include "schedule/edit/steps.h"
#include "schedule/primitives.h"

namespace fettle {

class FoundOrders {
 public:
  std::map<std::string, Result<Found>> orders;  // by blocks and options
};

namespace {

// How many accesses of the blocks go along memory, element by element, as a row advances by one: for the row that takes
// the innermost place.
int accesses_along(const AffineNest& nest, const Band& band, size_t member) {
  int along = 0;
  for (size_t k = 0; k < nest.statements().size(); ++k) {
    const IndexMap& map = band.maps[k];
    const LinearForm row = linear_form(map.outputs[member]);
    const BlockNode& block = *nest.statements()[k].block;
    const VarMap bindings = binding_map(block);
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

void put_coincident_outermost(Band& band) {
  size_t next = 0;
  for (size_t d = 0; d < band.members; ++d) {
    if (!band.coincident[d]) continue;
    for (size_t at = d; at > next; --at) swap_rows(band, at - 1, at);
    ++next;
  }
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
    const std::string key = fmt::format("{} {} {} {} {}", fmt::join(names, " "), static_cast<int>(options_.fusion),
                                        options_.allow_skewing, options_.positive_orthant, options_.reassociate);
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
    if (options_.for_device && band.permutable) put_coincident_outermost(band);
    if (options_.jammed_rows > 1) return write_jammed(nest, band);
    if (options_.step_blocks > 0) return write_blocked(nest, band);
    // isl takes seconds to scan the tiles of several statements.
    if (options_.register_tiles && band.permutable && band.members == 3 && band.maps.size() == 1)
      if (const auto tiles =
              plan_register_tiles(nest.statements().front(), band.maps.front(), options_.lanes, options_.registers))
        return write_tiles(nest, *tiles);
    if (options_.straight_rows) FETTLE_TRY_VOID(straighten(nest, band));
    if (goes_in_fronts(band)) {
      for (size_t first = 0; first + 1 < band.members; ++first) {
        std::optional<std::vector<IndexMap>> diamonds;
        if (options_.tile_order == TileOrder::kDiamonds && first == 0) diamonds = leaning_both_ways(band.maps);
        if (diamonds && write_fronts(nest, band, *diamonds, first).value_or(false)) return {};
        FETTLE_TRY(const bool is_written, write_fronts(nest, band, band.maps, first));
        if (is_written) return {};
      }
    }
    RescheduleArgs args;
    FETTLE_TRY(args.blocks, blocks(nest));
    args.maps = band.maps;
    if (band.permutable && !options_.tiles.empty() && !options_.for_device)
      for (size_t d = 0; d < band.members; ++d)
        args.factors.push_back(options_.tiles[std::min(d, options_.tiles.size() - 1)]);
    args.full_tiles = options_.full_tiles && !args.factors.empty();
    std::vector<std::string> made;
    FETTLE_TRY(const auto loops, apply(nest, args, made));
    if (options_.parallel) {
      for (size_t d = 0; d < band.members; ++d)
        if (band.coincident[d] && s_.loop(loops[d]) && parallel(s_, {loops[d]})) break;
    }
    return finish(made);
  }

  Result<> finish(const std::vector<std::string>& made) {
    FETTLE_TRY(const int64_t unrolled, s_.value(options_.unroll));
    for (const std::string& block : made) {
      if (options_.lanes > 1) FETTLE_TRY_VOID(make_lanes(s_, block, options_.lanes));
      if (unrolled > 1) FETTLE_TRY_VOID(unroll_innermost(s_, block, options_.unroll));
    }
    return {};
  }

  bool goes_in_fronts(const Band& band) const {
    return (options_.parallel || options_.for_device) && options_.tile_order != TileOrder::kInTurn &&
           !options_.tiles.empty() && band.permutable && band.members > 1 && !band.coincident.front();
  }

  // Dependences lead from a tile to none of its front: along each row they go on or stay. False: a front has one tile,
  // since row `first` has.
  Result<bool> write_fronts(const AffineNest& nest, const Band& band, std::vector<IndexMap> tiled, size_t first) {
    std::vector<int64_t> factors;
    for (size_t d = 0; d < band.members; ++d) {
      FETTLE_TRY(const int64_t factor, s_.value(options_.tiles[std::min(d, options_.tiles.size() - 1)]));
      factors.push_back(factor);
    }
    for (size_t k = 0; k < tiled.size(); ++k)
      tiled[k] = {band.maps[k].inputs, in_fronts(tiled[k].outputs, factors, first, band.maps[k].outputs)};
    RescheduleArgs args;
    FETTLE_TRY(args.blocks, blocks(nest));
    args.maps = std::move(tiled);
    const Schedule before = s_;
    std::vector<std::string> made;
    FETTLE_TRY(const auto loops, apply(nest, args, made));
    if (!s_.loop(loops[first + 1])) {
      s_ = before;
      return false;
    }
    if (options_.parallel) FETTLE_TRY_VOID(parallel(s_, {loops[first + 1]}));
    FETTLE_TRY_VOID(finish(made));
    return true;
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
    for (const PackedRead& read : tiles.packed)
      FETTLE_TRY_VOID(reindex_cache_read(s_, {args.blocks.front(), read.read_index, kScopeGlobal, read.map}));
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

  Result<> write_blocked(const AffineNest& nest, const Band& band) {
    std::optional<std::vector<IndexMap>> maps;
    if (band.permutable && band.members == 3)
      maps = plan_step_blocks(nest.statements(), band.maps, options_.step_blocks);
    if (!maps) return fail(ErrorCode::E211, "no sums of several blocks go along one row of three");
    RescheduleArgs args;
    FETTLE_TRY(args.blocks, blocks(nest));
    args.maps = *maps;
    args.apart = {kNestOutput};
    std::vector<std::string> made;
    FETTLE_TRY_VOID(apply(nest, args, made));
    PolyhedralOptions of_products = options_;
    of_products.step_blocks = 0;
    of_products.register_tiles = true;
    of_products.found = nullptr;
    for (const std::string& block : made) {
      Schedule tried = s_;
      if (is_product(block) && Writer(tried, of_products).group({block}))
        s_ = tried;
      else if (options_.lanes > 1)
        FETTLE_TRY_VOID(make_lanes(s_, block, options_.lanes));
    }
    return {};
  }

  // Whether the block alone stands in three loops.
  bool is_product(const std::string& block) const {
    const auto place = place_of(s_.func(), {block});
    if (!place) return false;
    const auto nest = AffineNest::of(s_.func(), place->first, place->second);
    return nest && nest->statements().size() == 1 && nest->statements().front().loops.size() == 3;
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
