#pragma once
// Tokens between the queues: which instruction waits for which.

#include "codegen/dae/instruction.h"

namespace fettle::dae {

/// What must be done before: for each unit the position in the stream of the last instruction that conflicts (writes
/// what this one reads or writes, or reads what it writes), or -1.
using Conflicts = std::array<int64_t, kUnits>;

/// Conflicts of one instruction after another, in the order of the stream. Memories are told apart by granules; buffers
/// in memory that no instruction both reads and writes conflict with nothing.
class ConflictFinder {
 public:
  explicit ConflictFinder(const Program& program);
  Conflicts next(const Instruction& instruction);

 private:
  struct Last {
    std::array<int32_t, kUnits> read = {-1, -1, -1}, write = {-1, -1, -1};
  };
  const Program& program_;
  std::vector<std::vector<Last>> granules_;  // by memory; empty: read only, or written only
  int32_t position_ = 0;
};

/// Sets wait and signal: each conflict between units that is not enforced already, by the order of the queues or
/// through other tokens, gets one token. Tokens of two units are taken in the order in which they are given, because
/// each waits for a later instruction than the one before. Load and store have no tokens for each other. There are four
/// queues of tokens, as in VTA (Moreau et al., "A Hardware-Software Blueprint for Flexible Deep Learning
/// Specialization", IEEE Micro 2019). A nop of the compute unit, which is inserted, passes on what they must wait for.
void insert_tokens(Program& program);

}  // namespace fettle::dae
