#include "schedule/primitives/get_producers.h"

#include <algorithm>

#include "schedule/arguments.h"
#include "schedule/dataflow/dataflow.h"
#include "schedule/edit/steps.h"

namespace fettle {
namespace {

Result<Applied> apply_get_producers(const Schedule& s, const GetProducersArgs& args) {
  return other_blocks(s, args.block, [](const BlockNode& block, const BlockNode& other) {
    return std::ranges::any_of(block.reads, [&](const Region& r) { return write_region(other, r.buffer.get()); });
  });
}

}  // namespace

extern constinit const PrimitiveDef get_producers_def =
    define_query<GetProducersArgs, apply_get_producers>("get_producers", 1);

Result<std::vector<BlockRef>> get_producers(Schedule& s, const GetProducersArgs& args) {
  return run<std::vector<BlockRef>>(s, get_producers_def, args);
}

}  // namespace fettle
