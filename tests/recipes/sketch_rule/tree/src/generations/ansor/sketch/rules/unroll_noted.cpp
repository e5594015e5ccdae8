// Blocks that are noted "small" have their innermost loop unrolled.
//   (S, i) → (S with that loop unrolled, i - 1)

#include "generations/ansor/sketch/sketch.h"
#include "schedule/primitives/get_block.h"
#include "schedule/primitives/get_loops.h"
#include "schedule/primitives/unroll.h"

namespace fettle {
namespace {

bool applies(const SketchState& state) { return state.block() && state.block()->annotations.find("small"); }

Result<std::vector<SketchState>> apply(const SketchState& state) {
  std::vector<SketchState> next = {state};
  Schedule& s = next[0].schedule;
  FETTLE_TRY(const BlockRef block, get_block(s, {.name = state.block()->name}));
  FETTLE_TRY(const std::vector<LoopRef> loops, get_loops(s, {block}));
  FETTLE_TRY_VOID(unroll(s, {.loop = loops.back()}));
  next[0].working -= 1;
  return next;
}

}  // namespace

extern constinit const DerivationRule unroll_noted_rule{"unroll_noted", 9, applies, apply};

}  // namespace fettle
