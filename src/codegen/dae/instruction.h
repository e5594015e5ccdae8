#pragma once
// Instructions of the decoupled access-execute accelerator: what each unit does, and the tokens that order them.

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "ir/type.h"
#include "target/target.h"

namespace fettle::dae {

/// Each unit takes instructions from its queue in order, one at a time.
enum class Unit : uint8_t { kLoad, kCompute, kStore };
inline constexpr int kUnits = 3;
const char* name_of(Unit unit);

enum class Opcode : uint8_t {
  kLoad,   // memory → scratchpad, a slice of rows
  kStore,  // acc → memory, narrowed to memory's type
  kGemm,   // acc[16] += wgt[16, 16] @ inp[16], in a nest of loops
  kAlu,    // acc = op(acc, acc or a number), elementwise
  kNop,    // waits and signals only
};

enum class AluOp : uint8_t { kFill, kMove, kAdd, kSub, kMul, kMax, kMin, kShiftRight };
const char* name_of(AluOp op);

/// A scratchpad, or a buffer in memory.
struct Memory {
  std::string name;
  bool is_scratchpad = false;
  int64_t bytes = 0;          // capacity of a scratchpad, size of a buffer
  int64_t granule_bytes = 1;  // what dependences are told apart by
};

/// A place that moves with the loops of its instruction.
struct Operand {
  int memory = -1;  // index in Program::memories; -1: none
  DType dtype;
  int64_t offset_bytes = 0;
  std::vector<int64_t> strides_bytes;  // one a loop
};

/// A nest of loops around one operation. Loads and stores: rows, then the bytes of a row (dense on both sides). kGemm:
/// the loops are around the square. kAlu: the innermost loop runs over elements.
struct Instruction {
  Opcode op = Opcode::kNop;
  Unit unit = Unit::kCompute;
  std::vector<int64_t> extents;  // outermost first
  Operand dst;
  std::array<Operand, 2> src;  // kGemm: inp, wgt; kAlu: the second may be absent
  AluOp alu = AluOp::kFill;
  int64_t immediate = 0;  // kAlu without a second source

  // Tokens: before it starts, one is taken from each unit that it waits for; when it is done, one is given to each that
  // it signals.
  std::array<bool, kUnits> wait = {};
  std::array<bool, kUnits> signal = {};

  int64_t iterations() const;
};

struct Program {
  std::string name;
  std::vector<Memory> memories;  // the buffers of the parameters first, in their order
  size_t n_params = 0;
  std::vector<bool> param_is_output;
  std::vector<Instruction> stream;  // as fetched

  /// Products of numbers and sums in all kGemm.
  int64_t macs() const;
  /// Bytes between memory and scratchpads.
  int64_t memory_bytes() const;
};

/// One line:
///   load    inp+0 <- I+128, 4 x 32 (16 -> 96)   wait compute   signal compute
std::string to_text(const Program& program, const Instruction& instruction);
/// A table of memories and the stream, numbered.
std::string to_text(const Program& program);

/// Calls fn(offset) for the offset in bytes of every iteration of the loops, relative to the operand's, but leaves out
/// loops that do not move it.
template <class Fn>
void each_offset(const Instruction& instruction, const Operand& operand, Fn fn) {
  std::vector<std::pair<int64_t, int64_t>> loops;  // extent, stride
  for (size_t i = 0; i < instruction.extents.size(); ++i) {
    const int64_t stride = operand.strides_bytes.empty() ? 0 : operand.strides_bytes[i];
    if (instruction.extents[i] > 1 && stride != 0) loops.emplace_back(instruction.extents[i], stride);
  }
  const auto nest = [&](const auto& self, size_t level, int64_t offset) -> void {
    if (level == loops.size()) return fn(offset);
    for (int64_t i = 0; i < loops[level].first; ++i, offset += loops[level].second) self(self, level + 1, offset);
  };
  nest(nest, 0, operand.offset_bytes);
}

/// Bytes that one iteration touches at an operand's place.
int64_t access_bytes(const Instruction& instruction, const Operand& operand);

/// Calls fn(operand, is_write) for what an instruction reads, then for what it writes.
template <class Fn>
void each_operand(const Instruction& instruction, Fn fn) {
  for (const Operand& source : instruction.src)
    if (source.memory >= 0) fn(source, false);
  if (instruction.op == Opcode::kGemm) fn(instruction.dst, false);
  if (instruction.dst.memory >= 0) fn(instruction.dst, true);
}

}  // namespace fettle::dae
