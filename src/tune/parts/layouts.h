#pragma once
// Layouts that a trace may choose: of parameters that leave it free, and of copies inside the program.

#include <optional>

#include "target/target.h"
#include "tune/parts/decider.h"
#include "tune/parts/structure.h"

namespace fettle {

struct ChosenLayouts {
  std::optional<size_t> vector;          // iterator that is the innermost of the output now
  std::optional<size_t> blocked_reduce;  // reduce iterator whose dimension is in blocks of one vector
};

/// The spatial iterator that shall become the innermost of the output, where the output's layout is free: it moves
/// along a constant operand and along no other (output channels of a convolution).
std::optional<size_t> layout_vector(const Func& func, const BlockStructure& block);

/// Chooses and applies, at addresses "<prefix>/layout":
///   output  (n, c, h, w) → (n, c // 16, h, w, c % 16)  or  (n, h, w, c)
///   data    the same for the channels that are summed over
/// A copy inside the program (a padded image) of few channels becomes channels last if what it copies can too, else
///   (c, h, w) → (h, c, w)
Result<ChosenLayouts> choose_layouts(Schedule& s, const Target& target, Decider& decider, BlockRef block);

}  // namespace fettle
