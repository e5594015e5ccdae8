#include "tune/bound.h"

#include <algorithm>
#include <map>

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

}  // namespace

double needed_flops(const Func& workload) {
  std::vector<BlockStructure> blocks;
  for (const BlockNode* block : blocks_of(workload.root()))
    if (auto structure = block_structure(workload, *block)) blocks.push_back(std::move(*structure));

  // Of a buffer that a block only copies together: the share of its elements that come from elsewhere.
  std::map<const BufferNode*, double> inside;
  for (const BlockStructure& block : blocks) {
    const bool reduces = std::find(block.reduce.begin(), block.reduce.end(), true) != block.reduce.end();
    if (reduces || block.loads.size() != 1 || !block.loads.front().guarded) continue;
    inside[block.store.buffer.get()] =
        std::min(1.0, elements(*block.loads.front().buffer) / elements(*block.store.buffer));
  }
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
