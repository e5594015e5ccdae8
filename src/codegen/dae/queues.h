#pragma once
// The queues of the units, and the tokens between them.

#include <array>
#include <vector>

#include "codegen/dae/instruction.h"

namespace fettle::dae {

/// A stream dealt out to its units, as far as it has run.
class Queues {
 public:
  explicit Queues(const Program& program);

  bool done() const;
  /// The position in the stream of the unit's next instruction; -1: it has none.
  int64_t head(Unit unit) const;
  /// Whether it has a next instruction, and all tokens that this one waits for.
  bool can_run(Unit unit) const;
  /// Runs it: takes its tokens and gives its own. Returns its position.
  int64_t pop(Unit unit);
  /// Which instruction gave the token that `to` takes next from `from`; the token must be there.
  int64_t giver(Unit from, Unit to) const;
  int64_t tokens_left() const;
  /// E302: units wait for each other for ever. What each waits for.
  tl::unexpected<Diagnostic> stuck() const;

 private:
  struct Tokens {
    std::vector<int64_t> givers;
    size_t taken = 0;
  };
  const Tokens& tokens(Unit from, Unit to) const { return tokens_[static_cast<size_t>(from)][static_cast<size_t>(to)]; }

  const Program& program_;
  std::array<std::vector<int64_t>, kUnits> queues_;
  std::array<size_t, kUnits> next_ = {};
  std::array<std::array<Tokens, kUnits>, kUnits> tokens_;
};

}  // namespace fettle::dae
