// A sketch rule of one's own: the outer part of a reduction runs outside of everything else.

#include <algorithm>

#include "generations/ansor/sketch/conditions.h"
#include "generations/ansor/sketch/sketch.h"
#include "matmul.h"
#include "measure/local_kernel.h"
#include "schedule/primitives/get_block.h"
#include "schedule/primitives/get_loops.h"
#include "schedule/primitives/reorder.h"
#include "schedule/primitives/sample_perfect_tile.h"
#include "schedule/primitives/split.h"

using namespace fettle;

bool applies(const SketchState& state) {
  const BlockNode* block = state.block();
  return block && has_data_reuse(state.schedule.func(), *block);
}

Result<std::vector<SketchState>> apply(const SketchState& state) {
  SketchState next = state;
  Schedule& s = next.schedule;
  s.set_address_prefix("outer_product/" + state.block()->name);
  FETTLE_TRY(const BlockRef block, get_block(s, {.name = state.block()->name}));
  FETTLE_TRY(const std::vector<LoopRef> loops, get_loops(s, {.block = block}));
  FETTLE_TRY(const auto sizes, sample_perfect_tile(s, {.loop = loops[2], .n = 2, .max_innermost = 16, .name = "k"}));
  FETTLE_TRY(const auto k, split(s, {.loop = loops[2], .factors = {sizes.begin(), sizes.end()}}));
  FETTLE_TRY_VOID(reorder(s, {.loops = {k[0], loops[0], loops[1], k[1]}}));
  --next.working;
  return std::vector{std::move(next)};
}

constexpr DerivationRule kOuterProduct{"outer_product", 100, applies, apply};

Result<std::string> example() {
  const Func program = matmul(32);
  DeriveOptions options;
  options.rules.push_back(&kOuterProduct);
  options.rules.insert(options.rules.end(), derivation_rules().begin(), derivation_rules().end());
  FETTLE_TRY(const Derivation derived, derive_sketches(program, options));
  const auto mine = std::ranges::find_if(derived.sketches, [](const Sketch& sketch) {
    return std::ranges::find(sketch.derivation, "outer_product") != sketch.derivation.end();
  });
  if (mine == derived.sketches.end()) return fail(ErrorCode::E709, "no sketch is derived by the rule");
  FETTLE_TRY(const Schedule point, instantiate(*mine, 1));
  FETTLE_TRY(LocalKernel plain, LocalKernel::build(program, detect_host(1), {.plain = true}));
  FETTLE_TRY(LocalKernel tiled, LocalKernel::build(point.func(), detect_host(1)));
  FETTLE_TRY_VOID(plain.run());
  FETTLE_TRY_VOID(tiled.run());
  if (plain.logical<float>(2) != tiled.logical<float>(2)) return fail(ErrorCode::E405, "the sketch is wrong");
  return to_text(*mine);
}

int main() { return tell(example()); }
