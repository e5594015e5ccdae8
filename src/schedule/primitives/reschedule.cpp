#include "schedule/primitives/reschedule.h"

#include <algorithm>

#include "base/checks.h"
#include "ir/rewrite.h"
#include "schedule/dataflow/dataflow.h"
#include "schedule/edit/nest.h"
#include "schedule/edit/scanning.h"
#include "schedule/edit/steps.h"

namespace fettle {
namespace {

// What is scanned anew: consecutive statements of a sequence, or one statement.
struct Place {
  Stmt old;                     // the sequence, or the statement
  size_t first = 0, count = 0;  // of a sequence
  Stmt top;                     // what is scanned
};

Result<Place> find_place(const Schedule& s, const std::vector<Stmt>& blocks, const std::vector<IndexMap>& maps) {
  const Func& func = s.func();
  const auto refuse = [&](const StmtNode* at, std::string why) {
    return refused(ErrorCode::E207, func, at, "{}", why);
  };
  const StmtNode* first = blocks.front().get();
  std::vector<Stmt> path = path_to(func->body, first);
  size_t loops = 0, at = path.size() - 1;
  while (loops < maps.front().inputs.size()) {
    if (at == 0 || path[at - 1].kind() == StmtKind::kBlock)
      return refuse(first, fmt::format("block {} has only {} loops", path.back().as<BlockNode>()->name, loops));
    loops += path[--at].kind() == StmtKind::kFor;
  }
  // Up to the sequence, if there is one below the next loop.
  size_t up = at;
  while (up > 0 && path[up - 1].kind() != StmtKind::kFor && path[up - 1].kind() != StmtKind::kBlock &&
         path[up].kind() != StmtKind::kSeq)
    --up;
  Place place;
  if (path[up].kind() == StmtKind::kSeq) {
    const auto& stmts = path[up].as<SeqNode>()->stmts;
    std::vector<size_t> used;
    for (const Stmt& block : blocks) {
      const auto holds =
          std::ranges::find_if(stmts, [&](const Stmt& child) { return !path_to(child, block.get()).empty(); });
      if (holds == stmts.end()) return refuse(block.get(), "the blocks do not stand in statements of one sequence");
      used.push_back(static_cast<size_t>(holds - stmts.begin()));
    }
    place.first = std::ranges::min(used);
    place.count = std::ranges::max(used) - place.first + 1;
    place.old = path[up];
    place.top = seq({stmts.begin() + static_cast<std::ptrdiff_t>(place.first),
                     stmts.begin() + static_cast<std::ptrdiff_t>(place.first + place.count)});
  } else {
    place.old = place.top = path[at];
  }
  return place;
}

// Buffers of the program's own that blocks below write stay outside of all loops around: iterations may meet there.
Stmt keep_buffers(const Func& func, const Stmt& top) {
  return rewrite_each<BlockNode>(top, [&](const BlockNode& block) -> Stmt {
    std::vector<std::string> names;
    for (const Region& write : block.writes)
      if (!is_param(func, write.buffer.get())) names.push_back(write.buffer->name);
    if (names.empty()) return nullptr;
    return with(block,
                [&](BlockNode& b) { b.annotations.set(kKeptBuffersKey, fmt::format("{}", fmt::join(names, " "))); });
  });
}

Result<Applied> apply_reschedule(const Schedule& s, const RescheduleArgs& args) {
  const Func& func = s.func();
  if (args.blocks.empty() || args.blocks.size() != args.maps.size())
    return fail(ErrorCode::E241, "as many maps as blocks are needed, and one at least");
  std::vector<Stmt> blocks;
  for (const BlockRef& ref : args.blocks) {
    FETTLE_TRY(Stmt block, s.block(ref));
    blocks.push_back(std::move(block));
  }
  FETTLE_TRY(const Place place, find_place(s, blocks, args.maps));
  std::vector<const BlockNode*> wanted;
  for (const Stmt& block : blocks) wanted.push_back(block.as<BlockNode>());
  for (const BlockNode* block : blocks_under(place.top))
    if (std::ranges::find(wanted, block) == wanted.end())
      return refused(ErrorCode::E207, func, block, "block {} stands between them", block->name);
  Result<> plain;
  each_node<ForNode>(place.top, [&](const ForNode& loop) {
    const auto blocks_around = blocks_under(Stmt(Ref<const ForNode>(&loop)));
    const bool scanned = std::ranges::any_of(
        blocks_around, [&](const BlockNode* b) { return std::ranges::find(wanted, b) != wanted.end(); });
    if (plain && scanned) plain = check_plain(func, loop);
  });
  FETTLE_TRY_VOID(plain);

  FETTLE_TRY(const AffineNest nest, AffineNest::of(func, place.top, place.old.get()));
  ScanOrder order;
  order.full_tiles = args.full_tiles;
  for (const IndexMap& map : args.maps) order.rows = std::max(order.rows, map.outputs.size());
  for (const IntRef& ref : args.factors) {
    FETTLE_TRY(const int64_t factor, s.value(ref));
    if (factor < 1) return refused(ErrorCode::E202, func, wanted.front(), "factor {}", std::to_string(factor));
    order.factors.push_back(factor);
  }
  if (order.rows == 0 || order.factors.size() > order.rows)
    return refused(ErrorCode::E241, func, wanted.front(), "{} factors for {} outputs", order.factors.size(),
                   order.rows);
  for (const int64_t output : args.apart) {
    if (output < static_cast<int64_t>(order.factors.size()) || output >= static_cast<int64_t>(order.rows))
      return refused(ErrorCode::E241, func, wanted.front(),
                     "values of output {} apart, of {} outputs, {} of them tiled", output, order.rows,
                     order.factors.size());
    order.apart.push_back(static_cast<size_t>(output));
  }
  // In which order the instances come, tiles first.
  Result<> fits;
  const auto when = [&](const NestStatement& statement, bool tiled) -> std::string {
    const auto at = std::ranges::find(wanted, statement.block) - wanted.begin();
    const IndexMap& map = args.maps[static_cast<size_t>(at)];
    if (map.inputs.size() != statement.loops.size()) {
      fits = refused(ErrorCode::E241, func, statement.block, "the map of block {} has {} inputs for {} loops",
                     statement.block->name, map.inputs.size(), statement.loops.size());
      return "[]";
    }
    IslText text;
    for (size_t i = 0; i < map.inputs.size(); ++i) text.name(map.inputs[i].get(), fmt::format("l{}", i));
    std::vector<std::string> rows, tiles;
    for (size_t d = 0; d < order.rows; ++d) {
      const auto row = d < map.outputs.size() ? text.expression(map.outputs[d]) : std::optional<std::string>("0");
      if (!row) {
        fits = refused(ErrorCode::E209, func, statement.block, "output {} of the map of block {} is not affine", d,
                       statement.block->name);
        return "[]";
      }
      rows.push_back(*row);
      if (tiled && d < order.factors.size()) tiles.push_back(fmt::format("floor({} / {})", *row, order.factors[d]));
    }
    tiles.insert(tiles.end(), rows.begin(), rows.end());
    return fmt::format("[{}]", fmt::join(tiles, ", "));
  };
  for (const NestStatement& statement : nest.statements()) {
    if (!statement.exact)
      return refused(ErrorCode::E209, func, statement.block, "where block {} runs is not affine",
                     statement.block->name);
    when(statement, false);
    FETTLE_TRY_VOID(fits);
  }
  FETTLE_TRY(order.when, nest.map_of([&](const NestStatement& statement) { return when(statement, false); }));
  FETTLE_TRY(const isl::union_map tiled,
             nest.map_of([&](const NestStatement& statement) { return when(statement, true); }));
  if (auto kept = nest.keeps_order(tiled, Reassociation::kExact); !kept && checks("reschedule.order"))
    return refused(kept.error().code, func, wanted.front(), "{}", kept.error().message);

  Analyzer analyzer = analyzer_at(func, place.old.get());
  FETTLE_TRY(Stmt scanned, scan(func, nest, order, analyzer));
  scanned = keep_buffers(func, scanned);
  Stmt replacement = scanned;
  if (place.count > 0) {
    std::vector<Stmt> stmts = place.old.as<SeqNode>()->stmts;
    const auto begin = stmts.begin() + static_cast<std::ptrdiff_t>(place.first);
    stmts.erase(begin + 1, begin + static_cast<std::ptrdiff_t>(place.count));
    stmts[place.first] = scanned;
    replacement = seq(std::move(stmts));
  }
  Applied applied{replace_in(func, place.old.get(), replacement), {}};
  std::vector<const ForNode*> loops(order.factors.size() + order.rows);
  for (const Stmt& around : path_to(scanned, find_block(scanned, wanted.front()->name)))
    if (const auto* loop = around.as<ForNode>())
      if (const int d = scanned_dimension(*loop); d >= 0 && d < static_cast<int>(loops.size()))
        loops[static_cast<size_t>(d)] = loop;
  // One that was not made is as if it had been consumed.
  for (const ForNode* loop : loops) applied.outputs.emplace_back(loop ? loop->var : make_var("c"));
  return applied;
}

}  // namespace

extern constinit const PrimitiveDef reschedule_def =
    define_primitive<RescheduleArgs, apply_reschedule>("reschedule", 1);

Result<std::vector<LoopRef>> reschedule(Schedule& s, const RescheduleArgs& args) {
  return run<std::vector<LoopRef>>(s, reschedule_def, args);
}

}  // namespace fettle
