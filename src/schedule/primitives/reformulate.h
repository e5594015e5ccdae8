#pragma once

#include "schedule/schedule.h"

namespace fettle {

/// Replaces a block by equivalent ones that compute it in another way: the choice of an algorithm, as a step.
///   C[…] = …   →   blocks of the kind's own (reformulate/KIND.h shows before → after)
/// kind:    a name of schedule/reformulate/; numbers: the kind's arguments.
/// Comes before all other edits, so that a kind sees the program as it was written. What it does to the numbers (exact,
/// reassociating, approximate within a bound) is an annotation of the function, under "numerics" and "error_bound".
/// Returns the blocks that stand for the old one, in program order.
/// Errors: E206 no such block · E228 no such kind, or its pattern does not fit
///         E234 an edit that is no reformulation came before
struct ReformulateArgs {
  BlockRef block;
  std::string kind;
  std::vector<IntRef> numbers;
  static constexpr auto fields =
      std::tuple{field("block", &ReformulateArgs::block), field("kind", &ReformulateArgs::kind),
                 field("numbers", &ReformulateArgs::numbers)};
};
Result<std::vector<BlockRef>> reformulate(Schedule& s, const ReformulateArgs& args);
extern const PrimitiveDef reformulate_def;

}  // namespace fettle
