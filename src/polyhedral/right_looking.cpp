#include "polyhedral/right_looking.h"

#include <algorithm>

#include "analysis/affine/nest.h"
#include "ir/visit.h"
#include "polyhedral/lanes.h"
#include "polyhedral/placement.h"
#include "polyhedral/register_tiles.h"
#include "schedule/dataflow/dataflow.h"
#include "schedule/primitives.h"

namespace fettle {
namespace {

// Whether the block goes on from one element in its innermost loop, and from neighbours in the one around.
bool looks_left(const NestStatement& statement) {
  const size_t n = statement.loops.size();
  return n >= 2 && goes_on(*statement.block) && writes_along(*statement.block, *statement.loops[n - 2]) &&
         !moves_what_is_written(*statement.block, *statement.loops[n - 1]);
}

// (…, j, …, k) → (…, k, …, j)
IndexMap map_of(const NestStatement& statement, bool interchanged) {
  IndexMap map;
  for (const ForNode* loop : statement.loops) map.inputs.push_back(make_var(loop->var->name));
  std::vector<Var> values = map.inputs;
  if (interchanged) std::iter_swap(values.end() - 1, values.end() - 2);
  for (const std::string& at : statement.when) map.outputs.push_back(value_at(at, values));
  return map;
}

}  // namespace

Result<> look_right(Schedule& s, const std::vector<std::string>& blocks, int64_t lanes) {
  FETTLE_TRY(const auto place, place_of(s.func(), blocks));
  FETTLE_TRY(const AffineNest nest, AffineNest::of(s.func(), place.first, place.second));
  if (std::ranges::none_of(nest.statements(), looks_left))
    return fail(ErrorCode::E211, "no block goes on from one element in its innermost loop");
  Schedule made = s;
  RescheduleArgs args;
  for (const NestStatement& statement : nest.statements()) {
    FETTLE_TRY(args.blocks.emplace_back(), get_block(made, {statement.block->name}));
    args.maps.push_back(map_of(statement, looks_left(statement)));
  }
  std::vector<std::string> parts;
  FETTLE_TRY_VOID(reschedule_with_copies(made, args, blocks, parts));
  for (const std::string& part : parts) FETTLE_TRY_VOID(make_lanes_along_memory(made, part, lanes));
  s = made;
  return {};
}

}  // namespace fettle
