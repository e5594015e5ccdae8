#include <algorithm>

#include "base/ceil_div.h"
#include "codegen/dae/queues.h"
#include "codegen/dae/simulator.h"

namespace fettle::dae {
namespace {

// Cycles in which a transfer moves its rows through the port.
int64_t port_cycles(const Instruction& i, const AcceleratorUnits& units) {
  const Operand& memory = i.op == Opcode::kLoad ? i.src[0] : i.dst;
  const int64_t run = i.extents.empty() ? 1 : i.extents.back();
  const int64_t rows = i.iterations() / run;
  return rows * (units.row_cycles + ceil_div(run * memory.dtype.element_bytes(), units.memory_bytes_per_cycle));
}

int64_t compute_cycles(const Instruction& i, const AcceleratorUnits& units) {
  if (i.op == Opcode::kNop) return 1;
  if (i.op == Opcode::kGemm) return units.gemm_latency_cycles + i.iterations();
  bool dense = true;
  each_operand(i, [&](const Operand& o, bool) { dense &= o.strides_bytes.back() == o.dtype.element_bytes(); });
  const int64_t run = i.extents.back();
  const int64_t vectors = i.iterations() / run * (dense ? ceil_div(run, units.vector_lanes) : run);
  const bool writes_only = i.alu == AluOp::kFill;  // leaves the port of acc free every second cycle
  return units.alu_latency_cycles + vectors * (writes_only ? 1 : units.alu_cycles_per_vector);
}

class Clock {
 public:
  Clock(const Program& program, const AcceleratorUnits& units)
      : program_(program),
        units_(units),
        queues_(program),
        issued_(program.stream.size(), 0),
        start_(program.stream.size(), 0),
        finish_(program.stream.size(), 0) {}

  Result<Timing> run() {
    while (!queues_.done()) {
      fetch();
      // What starts first goes first, so that the port serves requests as they come.
      int best = -1;
      int64_t best_time = 0;
      for (int u = 0; u < kUnits; ++u) {
        const Unit unit = static_cast<Unit>(u);
        if (!queues_.can_run(unit) || queues_.head(unit) >= fetched_) continue;
        const int64_t at = ready(unit);
        if (best < 0 || at < best_time) {
          best = u;
          best_time = at;
        }
      }
      if (best < 0) return queues_.stuck();
      execute(static_cast<Unit>(best), best_time);
    }
    timing_.macs = program_.macs();
    timing_.memory_bytes = program_.memory_bytes();
    return timing_;
  }

 private:
  // Instructions enter the queues in order, one a cycle, where there is room.
  void fetch() {
    const auto size = static_cast<int64_t>(program_.stream.size());
    for (; fetched_ < size; ++fetched_) {
      const auto u = static_cast<size_t>(program_.stream[static_cast<size_t>(fetched_)].unit);
      std::vector<int64_t>& queued = queued_[u];
      const auto room = static_cast<int64_t>(queued.size()) - units_.queue_depth;
      if (room >= started_[u]) return;
      int64_t at = fetch_time_ + 1;
      if (room >= 0) at = std::max(at, start_[static_cast<size_t>(queued[static_cast<size_t>(room)])]);
      issued_[static_cast<size_t>(fetched_)] = fetch_time_ = at;
      queued.push_back(fetched_);
    }
  }

  int64_t free_time(Unit unit) const {
    const auto u = static_cast<size_t>(unit);
    return std::max(free_[u], issued_[static_cast<size_t>(queues_.head(unit))]);
  }
  int64_t ready(Unit unit) const {
    int64_t at = free_time(unit);
    const Instruction& i = program_.stream[static_cast<size_t>(queues_.head(unit))];
    for (size_t v = 0; v < kUnits; ++v)
      if (i.wait[v]) at = std::max(at, finish_[static_cast<size_t>(queues_.giver(static_cast<Unit>(v), unit))]);
    return at;
  }

  void execute(Unit unit, int64_t at) {
    const auto u = static_cast<size_t>(unit);
    UnitTimes& times = timing_.units[u];
    times.wait_token += at - free_time(unit);
    const int64_t position = queues_.pop(unit);
    const Instruction& i = program_.stream[static_cast<size_t>(position)];
    int64_t finish = at;
    if (i.op == Opcode::kLoad || i.op == Opcode::kStore) {
      const int64_t begin = std::max(at, port_free_), moving = port_cycles(i, units_);
      port_free_ = begin + moving;
      timing_.port_busy += moving;
      times.wait_memory += begin - at;
      finish = begin + units_.memory_latency_cycles + moving;
    } else {
      finish = at + compute_cycles(i, units_);
    }
    start_[static_cast<size_t>(position)] = at;
    finish_[static_cast<size_t>(position)] = free_[u] = finish;
    ++started_[u];
    times.busy += finish - at;
    ++times.instructions;
    timing_.cycles = std::max(timing_.cycles, finish);
  }

  const Program& program_;
  const AcceleratorUnits& units_;
  Queues queues_;
  std::vector<int64_t> issued_, start_, finish_;
  std::array<std::vector<int64_t>, kUnits> queued_;
  std::array<int64_t, kUnits> started_ = {}, free_ = {};
  int64_t fetched_ = 0, fetch_time_ = 0, port_free_ = 0;
  Timing timing_;
};

}  // namespace

double Timing::utilisation(const AcceleratorUnits& units) const {
  return cycles == 0 ? 0 : static_cast<double>(macs) / static_cast<double>(cycles * units.macs_per_cycle());
}

Result<Timing> count_cycles(const Program& program, const AcceleratorUnits& units) {
  return Clock(program, units).run();
}

}  // namespace fettle::dae
