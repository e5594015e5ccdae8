#include "tune/bound.h"

#include <algorithm>
#include <vector>

#include "schedule/dataflow.h"
#include "tune/space/structure.h"

namespace fettle {
namespace {

double elements(const BufferNode& buffer) {
  double count = 1;
  for (const Expr& extent : buffer.shape) {
    const int64_t* n = as_int(extent);
    count *= n ? static_cast<double>(*n) : 1;
  }
  return count;
}

std::vector<BlockStructure> structures_of(const Func& workload) {
  std::vector<BlockStructure> blocks;
  for (const BlockNode* block : blocks_of(workload.root()))
    if (auto structure = block_structure(workload, *block)) blocks.push_back(std::move(*structure));
  return blocks;
}

std::map<const BufferNode*, double> shares_inside(const std::vector<BlockStructure>& blocks) {
  std::map<const BufferNode*, double> inside;
  for (const BlockStructure& block : blocks) {
    const bool reduces = std::find(block.reduce.begin(), block.reduce.end(), true) != block.reduce.end();
    if (reduces || block.loads.size() != 1 || !block.loads.front().guarded) continue;
    inside[block.store.buffer.get()] =
        std::min(1.0, elements(*block.loads.front().buffer) / elements(*block.store.buffer));
  }
  return inside;
}

}  // namespace

std::map<const BufferNode*, double> shares_inside(const Func& workload) {
  return shares_inside(structures_of(workload));
}

double needed_flops(const Func& workload) {
  const std::vector<BlockStructure> blocks = structures_of(workload);
  const std::map<const BufferNode*, double> inside = shares_inside(blocks);
  double flops = 0;
  for (const BlockStructure& block : blocks) {
    if (!block.multiplies_two_loads) continue;
    double share = 1;
    for (const AccessPattern& load : block.loads)
      if (const auto found = inside.find(load.buffer.get()); found != inside.end())
        share = std::min(share, found->second);
    flops += 2 * share * static_cast<double>(block.points());
  }
  return flops;
}

}  // namespace fettle
