#include <algorithm>

#include "generations/ansor/sketch/conditions.h"
#include "generations/ansor/sketch/scheduled.h"
#include "generations/metaschedule/rules/tile_block.h"
#include "ir/visit.h"
#include "schedule/primitives.h"

namespace fettle {
namespace {

using Levels = MultiLevelTiling::Levels;

// What the block reads is copied below a level of the reduction, by all threads together where there are some.
Result<> copy_reads(Schedule& s, BlockRef block, const Levels& levels, const Reuse& reuse) {
  FETTLE_TRY(const Stmt stmt, s.block(block));
  const Stmt held = stmt;
  const auto& node = *held.as<BlockNode>();
  for (const int level : reuse.levels) {
    const auto at = static_cast<size_t>(level - 1);
    if (at >= levels.size() || levels[at].empty()) continue;
    for (size_t read = 0; read < node.reads.size(); ++read) {
      const BufferNode* buffer = node.reads[read].buffer.get();
      if (std::ranges::any_of(node.writes, [&](const Region& write) { return write.buffer.get() == buffer; })) continue;
      FETTLE_TRY(const BlockRef copy,
                 cache_read(s, {.block = block, .read_index = static_cast<int64_t>(read), .scope = reuse.scope}));
      FETTLE_TRY_VOID(compute_at(s, {.block = copy, .loop = levels[at].back()}));
      FETTLE_TRY_VOID(annotate(s, {.target = copy, .key = keys::kFetch, .value = int64_t{1}}));
    }
  }
  return {};
}

}  // namespace

Result<std::vector<Schedule>> tile_block(const Schedule& s, const std::string& name, const std::string& block_name,
                                         const MultiLevelTilingOptions& options) {
  std::vector<int> write_levels;
  if (options.write.when != Reuse::When::kMust) write_levels.push_back(0);
  if (options.write.when != Reuse::When::kNever)
    write_levels.insert(write_levels.end(), options.write.levels.begin(), options.write.levels.end());
  std::vector<Schedule> result;
  Diagnostic refused(ErrorCode::E235, "no level", name);
  for (const int write_level : write_levels) {
    const auto made = [&]() -> Result<Schedule> {
      Schedule tiled = s;
      tiled.set_address_prefix(name);
      FETTLE_TRY(const BlockRef block, get_block(tiled, {.name = block_name}));
      BlockRef copy;
      if (write_level > 0) {
        const BlockNode* consumer = fusible_consumer(tiled.func(), *find_block(tiled.func()->body, block_name));
        // A scope of its own asks for a copy of its own, which the consumer then reads.
        if (consumer && options.write.scope == "global") {
          FETTLE_TRY(copy, get_block(tiled, {.name = std::string(consumer->name)}));
        } else {
          FETTLE_TRY(copy, cache_write(tiled, {.block = block, .scope = options.write.scope}));
        }
      }
      FETTLE_TRY(const Levels levels, options.tiling.apply(tiled, block));
      if (write_level > 0) {
        const auto at = static_cast<size_t>(write_level - 1);
        if (at >= levels.size() || levels[at].empty()) return fail(ErrorCode::E235, "no such level", name);
        FETTLE_TRY_VOID(reverse_compute_at(tiled, {.block = copy, .loop = levels[at].back()}));
      }
      if (options.read.when != Reuse::When::kNever) FETTLE_TRY_VOID(copy_reads(tiled, block, levels, options.read));
      return tiled;
    }();
    if (made)
      result.push_back(*made);
    else
      refused = made.error();
  }
  if (result.empty()) return fail(std::move(refused));
  return result;
}

ScheduleRule multi_level_tiling(MultiLevelTilingOptions options) {
  return {"multi_level_tiling",
          [options = std::move(options)](const TuneContext&, const Schedule& s,
                                         const std::string& name) -> Result<std::vector<Schedule>> {
            if (!has_data_reuse(s.func(), *find_block(s.func()->body, name)) || is_tiled(s.func(), name))
              return std::vector{s};
            return tile_block(s, "multi_level_tiling/" + name, name, options);
          }};
}

bool is_tiled(const Func& func, const std::string& name) {
  const BlockNode* node = find_block(func->body, name);
  return loops_around(func, node).size() - first_own_loop(func, *node) != node->iters.size() ||
         node->annotations.find(keys::kTensorize);
}

}  // namespace fettle
