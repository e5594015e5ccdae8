#pragma once
// The part that the rules of multi-level tiling share.

#include <string>
#include <vector>

#include "generations/metaschedule/schedule_rule.h"
#include "schedule/edit/edit.h"

namespace fettle {

/// The block tiled in each way that the options have, decisions under `name`. The errors of the steps where none is
/// possible.
Result<std::vector<Schedule>> tile_block(const Schedule& s, const std::string& name, const std::string& block,
                                         const MultiLevelTilingOptions& options);
/// For blocks that hold a tile: what they write is not kept back in a copy, since reverse_compute_at does not look into
/// tiles.
inline MultiLevelTilingOptions written_at_once(MultiLevelTilingOptions options) {
  options.write = {Reuse::When::kNever, {}, "global"};
  return options;
}
/// Its loops are not one an iterator any more, or it is a tile itself.
bool is_tiled(const Func& func, const std::string& block);

}  // namespace fettle
