#include "schedule/primitives/sample_compute_location.h"

#include <algorithm>

#include "schedule/dataflow/dataflow.h"
#include "schedule/edit/steps.h"
#include "schedule/primitives/compute_at.h"
#include "schedule/primitives/compute_inline.h"
#include "schedule/primitives/get_block.h"
#include "schedule/primitives/get_loops.h"
#include "schedule/sampling.h"

namespace fettle {
namespace {

// Whether the block can go under that loop: it is tried.
bool can_move(const Schedule& s, const BlockRef& block, const LoopRef& loop) {
  Schedule work = s;
  return compute_at(work, {block, loop}).has_value();
}

Result<Applied> apply_sample_compute_location(const Schedule& s, const SampleComputeLocationArgs& args) {
  FETTLE_TRY(const Stmt stmt, s.block(args.block));
  const auto& block = *stmt.as<BlockNode>();
  const BlockNode* scope = enclosing_block(s.func(), &block);
  std::vector<int64_t> places{kStay};
  if (scope) {
    Schedule inlined = s;
    if (compute_inline(inlined, {args.block})) places.push_back(kInline);
    const BlockNode* reader = nullptr;
    for (const Region& write : block.writes)
      for (const BlockNode* consumer : consumers_of(*scope, write.buffer.get()))
        if (!reader) reader = consumer;
    if (reader) {
      Schedule work = s;
      FETTLE_TRY(const BlockRef consumer, get_block(work, {reader->name}));
      FETTLE_TRY(const std::vector<LoopRef> loops, get_loops(work, {consumer}));
      for (size_t depth = 0; depth < loops.size(); ++depth)
        if (can_move(work, args.block, loops[depth])) places.push_back(static_cast<int64_t>(depth));
    }
  }
  const auto valid = [&](const Decision& d) {
    return d.list().size() == 1 && std::ranges::find(places, d.list()[0]) != places.end();
  };
  const auto draw = [&](RandomStream& stream) { return Decision{places[stream.below(places.size())]}; };
  FETTLE_TRY(Drawn drawn, decide(s, args.name, valid, draw));
  return sampled(std::move(drawn));
}

}  // namespace

extern constinit const PrimitiveDef sample_compute_location_def =
    define_sampling<SampleComputeLocationArgs, apply_sample_compute_location>("sample_compute_location", 1);

Result<ValueRef> sample_compute_location(Schedule& s, const SampleComputeLocationArgs& args) {
  return run<ValueRef>(s, sample_compute_location_def, args);
}

}  // namespace fettle
