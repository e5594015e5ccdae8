#include "generations/metaschedule/postprocessor.h"
#include "ir/visit.h"
#include "schedule/primitives/get_block.h"
#include "schedule/primitives/tensorize.h"
#include "schedule/primitives/unannotate.h"

namespace fettle {

Postprocessor rewrite_tensorize() {
  return {"rewrite_tensorize", [](const TuneContext&, Schedule& s) -> Result<> {
            std::vector<std::pair<std::string, std::string>> tiles;
            walk(s.func()->body, [&](const Stmt& stmt) {
              const auto* block = stmt.as<BlockNode>();
              const Attribute* annotation = block ? block->annotations.find(keys::kTensorize) : nullptr;
              if (annotation) tiles.emplace_back(block->name, std::get<std::string>(*annotation));
              return true;
            });
            for (const auto& [name, intrinsic] : tiles) {
              FETTLE_TRY(const BlockRef tile, get_block(s, {.name = name}));
              FETTLE_TRY_VOID(unannotate(s, {.target = tile, .key = keys::kTensorize}));
              if (name.ends_with("_init")) continue;  // what clears the tile
              FETTLE_TRY_VOID(tensorize(s, {.target = tile, .intrinsic = intrinsic}));
            }
            return {};
          }};
}

}  // namespace fettle
