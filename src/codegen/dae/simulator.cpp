#include "codegen/dae/simulator.h"

#include <algorithm>
#include <cstring>

#include <fmt/format.h>

#include "base/random.h"
#include "codegen/dae/queues.h"

namespace fettle::dae {
namespace {

constexpr uint8_t kUnwritten = 0x5a;

// The lowest and the highest byte of an operand, relative to its memory.
bool is_inside(const Program& program, const Instruction& instruction, const Operand& operand) {
  int64_t low = operand.offset_bytes, high = low + access_bytes(instruction, operand);
  for (size_t l = 0; l < instruction.extents.size(); ++l) {
    const int64_t reach = (instruction.extents[l] - 1) * operand.strides_bytes[l];
    (reach < 0 ? low : high) += reach;
  }
  return low >= 0 && high <= program.memories[static_cast<size_t>(operand.memory)].bytes;
}

class Machine {
 public:
  explicit Machine(const Program& program) {
    for (const Memory& m : program.memories) memories_.emplace_back(static_cast<size_t>(m.bytes), kUnwritten);
  }

  std::vector<uint8_t>& memory(size_t i) { return memories_[i]; }

  void execute(const Instruction& instruction) {
    if (instruction.op == Opcode::kNop) return;
    uint8_t* at[3] = {base(instruction.dst), base(instruction.src[0]), base(instruction.src[1])};
    nest(instruction, 0, at);
  }

 private:
  uint8_t* base(const Operand& operand) {
    return operand.memory < 0 ? nullptr : memories_[static_cast<size_t>(operand.memory)].data() + operand.offset_bytes;
  }

  void nest(const Instruction& i, size_t level, uint8_t* const* at) {
    if (level == i.extents.size()) return step(i, at);
    uint8_t* own[3] = {at[0], at[1], at[2]};
    const Operand* operands[3] = {&i.dst, &i.src[0], &i.src[1]};
    for (int64_t n = 0; n < i.extents[level]; ++n) {
      nest(i, level + 1, own);
      for (int k = 0; k < 3; ++k)
        if (own[k]) own[k] += operands[k]->strides_bytes[level];
    }
  }

  static int32_t read_sum(const uint8_t* at) {
    int32_t value = 0;
    std::memcpy(&value, at, sizeof value);
    return value;
  }
  static void write_sum(uint8_t* at, uint32_t value) { std::memcpy(at, &value, sizeof value); }

  static void step(const Instruction& i, uint8_t* const* at) {
    switch (i.op) {
      case Opcode::kNop:
        return;
      case Opcode::kLoad:
        std::memcpy(at[0], at[1], static_cast<size_t>(i.dst.dtype.element_bytes()));
        return;
      case Opcode::kStore:  // little endian: the low bytes
        std::memcpy(at[0], at[1], static_cast<size_t>(i.dst.dtype.element_bytes()));
        return;
      case Opcode::kGemm:
        for (int j = 0; j < 16; ++j) {
          uint32_t sum = static_cast<uint32_t>(read_sum(at[0] + 4 * j));
          for (int k = 0; k < 16; ++k)
            sum += static_cast<uint32_t>(int32_t{static_cast<int8_t>(at[1][k])} *
                                         int32_t{static_cast<int8_t>(at[2][16 * j + k])});
          write_sum(at[0] + 4 * j, sum);
        }
        return;
      case Opcode::kAlu: {
        const int32_t a = at[1] ? read_sum(at[1]) : 0;
        const int32_t b = at[2] ? read_sum(at[2]) : static_cast<int32_t>(i.immediate);
        write_sum(at[0], alu(i.alu, a, b));
        return;
      }
    }
  }

  static uint32_t alu(AluOp op, int32_t a, int32_t b) {
    const auto x = static_cast<uint32_t>(a), y = static_cast<uint32_t>(b);
    switch (op) {
      case AluOp::kFill:
        return y;
      case AluOp::kMove:
        return x;
      case AluOp::kAdd:
        return x + y;
      case AluOp::kSub:
        return x - y;
      case AluOp::kMul:
        return x * y;
      case AluOp::kMax:
        return static_cast<uint32_t>(std::max(a, b));
      case AluOp::kMin:
        return static_cast<uint32_t>(std::min(a, b));
      case AluOp::kShiftRight:
        return static_cast<uint32_t>(a >> (b & 31));
    }
    return 0;
  }

  std::vector<std::vector<uint8_t>> memories_;
};

}  // namespace

Result<> run(const Program& program, std::span<const BufferArg> buffers, Order order, uint64_t seed) {
  if (buffers.size() != program.n_params)
    return fail(ErrorCode::E705, fmt::format("{} buffers for {} parameters", buffers.size(), program.n_params));
  for (const Instruction& i : program.stream) {
    bool inside = true;
    each_operand(i, [&](const Operand& o, bool) { inside &= is_inside(program, i, o); });
    if (!inside)
      return fail(ErrorCode::E302, "an access is outside of its memory: " + to_text(program, i), program.name);
  }
  Machine machine(program);
  for (size_t p = 0; p < program.n_params; ++p) {
    if (buffers[p].size_bytes != program.memories[p].bytes)
      return fail(ErrorCode::E705, fmt::format("{} has {} bytes, and {} are given", program.memories[p].name,
                                               program.memories[p].bytes, buffers[p].size_bytes));
    std::memcpy(machine.memory(p).data(), buffers[p].data, machine.memory(p).size());
  }
  Queues queues(program);
  RandomStream random({seed});
  constexpr std::array<Unit, kUnits> kEager = {Unit::kLoad, Unit::kCompute, Unit::kStore};
  constexpr std::array<Unit, kUnits> kLate = {Unit::kStore, Unit::kCompute, Unit::kLoad};
  while (!queues.done()) {
    std::vector<Unit> can_run;
    for (const Unit unit : order == Order::kLateLoads ? kLate : kEager)
      if (queues.can_run(unit)) can_run.push_back(unit);
    if (can_run.empty()) return queues.stuck();
    Unit next = can_run.front();
    if (order == Order::kStream) next = *std::ranges::min_element(can_run, {}, [&](Unit u) { return queues.head(u); });
    if (order == Order::kRandom) next = can_run[random.below(can_run.size())];
    machine.execute(program.stream[static_cast<size_t>(queues.pop(next))]);
  }
  for (size_t p = 0; p < program.n_params; ++p)
    if (program.param_is_output[p]) std::memcpy(buffers[p].data, machine.memory(p).data(), machine.memory(p).size());
  return {};
}

}  // namespace fettle::dae
