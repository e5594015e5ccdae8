#include "codegen/dae/instruction.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace fettle::dae {

const char* name_of(Unit unit) {
  constexpr const char* kNames[] = {"load", "compute", "store"};
  return kNames[static_cast<int>(unit)];
}

const char* name_of(AluOp op) {
  constexpr const char* kNames[] = {"fill", "move", "add", "sub", "mul", "max", "min", "shr"};
  return kNames[static_cast<int>(op)];
}

int64_t Instruction::iterations() const {
  int64_t count = 1;
  for (const int64_t extent : extents) count *= extent;
  return count;
}

int64_t access_bytes(const Instruction& instruction, const Operand& operand) {
  if (instruction.op != Opcode::kGemm) return operand.dtype.element_bytes();
  return &operand == &instruction.src[1] ? 256 : 16 * operand.dtype.element_bytes();
}

int64_t Program::macs() const {
  int64_t count = 0;
  for (const Instruction& i : stream)
    if (i.op == Opcode::kGemm) count += i.iterations() * 256;
  return count;
}

int64_t Program::memory_bytes() const {
  int64_t bytes = 0;
  for (const Instruction& i : stream) {
    if (i.op == Opcode::kLoad) bytes += i.iterations() * i.src[0].dtype.element_bytes();
    if (i.op == Opcode::kStore) bytes += i.iterations() * i.dst.dtype.element_bytes();
  }
  return bytes;
}

namespace {

std::string place(const Program& program, const Operand& operand) {
  return fmt::format("{}+{}", program.memories[static_cast<size_t>(operand.memory)].name, operand.offset_bytes);
}

std::string strides(const Operand& operand) { return fmt::format("{}", fmt::join(operand.strides_bytes, " ")); }

}  // namespace

std::string to_text(const Program& program, const Instruction& instruction) {
  std::string text;
  const std::string nest = fmt::format("{}", fmt::join(instruction.extents, " x "));
  switch (instruction.op) {
    case Opcode::kNop:
      text = fmt::format("{:<8}nop", name_of(instruction.unit));
      break;
    case Opcode::kLoad:
    case Opcode::kStore:
      text =
          fmt::format("{:<8}{} {} <- {}, {} ({} <- {})", name_of(instruction.unit),
                      instruction.op == Opcode::kLoad ? "load" : "store", place(program, instruction.dst),
                      place(program, instruction.src[0]), nest, strides(instruction.dst), strides(instruction.src[0]));
      break;
    case Opcode::kGemm:
      text = fmt::format("{:<8}gemm {} += {} @ {}, {} ({} += {} @ {})", name_of(instruction.unit),
                         place(program, instruction.dst), place(program, instruction.src[1]),
                         place(program, instruction.src[0]), nest, strides(instruction.dst),
                         strides(instruction.src[1]), strides(instruction.src[0]));
      break;
    case Opcode::kAlu: {
      text = fmt::format("{:<8}{} {}", name_of(instruction.unit), name_of(instruction.alu),
                         place(program, instruction.dst));
      std::string steps = strides(instruction.dst);
      for (const Operand& source : instruction.src)
        if (source.memory >= 0) {
          text += ", " + place(program, source);
          steps += " <- " + strides(source);
        }
      if (instruction.alu != AluOp::kMove && instruction.src[1].memory < 0)
        text += fmt::format(", {}", instruction.immediate);
      text += fmt::format(", {} ({})", nest, steps);
      break;
    }
  }
  const auto tokens = [&](const char* what, const std::array<bool, kUnits>& units) {
    for (int u = 0; u < kUnits; ++u)
      if (units[static_cast<size_t>(u)]) text += fmt::format("   {} {}", what, name_of(static_cast<Unit>(u)));
  };
  tokens("wait", instruction.wait);
  tokens("signal", instruction.signal);
  return text;
}

std::string to_text(const Program& program) {
  std::string text = "program " + program.name + "\n";
  for (const Memory& m : program.memories)
    text += fmt::format("{} {}: {} bytes\n", m.is_scratchpad ? "scratchpad" : "memory", m.name, m.bytes);
  for (size_t i = 0; i < program.stream.size(); ++i)
    text += fmt::format("{:>5} {}\n", i, to_text(program, program.stream[i]));
  return text;
}

}  // namespace fettle::dae
