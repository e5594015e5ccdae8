#include "schedule/primitives/get_consumers.h"

#include <algorithm>

#include "schedule/arguments.h"
#include "schedule/dataflow/dataflow.h"
#include "schedule/edit/steps.h"

namespace fettle {
namespace {

Result<Applied> apply_get_consumers(const Schedule& s, const GetConsumersArgs& args) {
  return other_blocks(s, args.block, [](const BlockNode& block, const BlockNode& other) {
    return std::ranges::any_of(block.writes, [&](const Region& r) { return read_region(other, r.buffer.get()); });
  });
}

}  // namespace

extern constinit const PrimitiveDef get_consumers_def =
    define_query<GetConsumersArgs, apply_get_consumers>("get_consumers", 1);

Result<std::vector<BlockRef>> get_consumers(Schedule& s, const GetConsumersArgs& args) {
  return run<std::vector<BlockRef>>(s, get_consumers_def, args);
}

}  // namespace fettle
