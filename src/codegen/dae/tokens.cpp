#include "codegen/dae/tokens.h"

#include <algorithm>

#include "base/check.h"

namespace fettle::dae {

ConflictFinder::ConflictFinder(const Program& program) : program_(program), granules_(program.memories.size()) {
  std::vector<int> uses(program.memories.size(), 0);
  for (const Instruction& i : program.stream)
    each_operand(i, [&](const Operand& o, bool writes) { uses[static_cast<size_t>(o.memory)] |= writes ? 2 : 1; });
  for (size_t m = 0; m < uses.size(); ++m) {
    const Memory& memory = program.memories[m];
    // A buffer that is only written still has an order of its writes.
    if (uses[m] >= 2) granules_[m].resize(static_cast<size_t>(memory.bytes / memory.granule_bytes + 1));
  }
}

Conflicts ConflictFinder::next(const Instruction& instruction) {
  Conflicts conflicts = {-1, -1, -1};
  const auto raise = [&](const std::array<int32_t, kUnits>& last) {
    for (size_t u = 0; u < kUnits; ++u) conflicts[u] = std::max<int64_t>(conflicts[u], last[u]);
  };
  const auto own = static_cast<size_t>(instruction.unit);
  const auto each_granule = [&](const Operand& o, auto fn) {
    auto& granules = granules_[static_cast<size_t>(o.memory)];
    if (granules.empty()) return;
    const int64_t size = program_.memories[static_cast<size_t>(o.memory)].granule_bytes;
    const int64_t bytes = access_bytes(instruction, o);
    int64_t before = -1;
    each_offset(instruction, o, [&](int64_t offset) {
      for (int64_t g = offset / size; g <= (offset + bytes - 1) / size; ++g)
        if (g != before) fn(granules[static_cast<size_t>(before = g)]);
    });
  };
  each_operand(instruction, [&](const Operand& o, bool writes) {
    each_granule(o, [&](const Last& last) {
      raise(last.write);
      if (writes) raise(last.read);
    });
  });
  each_operand(instruction, [&](const Operand& o, bool writes) {
    each_granule(o, [&](Last& last) { (writes ? last.write : last.read)[own] = position_; });
  });
  ++position_;
  return conflicts;
}

namespace {

constexpr size_t kL = static_cast<size_t>(Unit::kLoad), kC = static_cast<size_t>(Unit::kCompute),
                 kS = static_cast<size_t>(Unit::kStore);

// Builds the stream with tokens; knows for each instruction what is certainly done when it starts.
class TokenInserter {
 public:
  explicit TokenInserter(Program& program) : program_(program) {}

  void run() {
    ConflictFinder finder(program_);
    std::vector<Instruction> old = std::move(program_.stream);
    program_.stream.clear();
    std::vector<int64_t> place;  // old position → new one
    for (Instruction& instruction : old) {
      Conflicts conflicts = finder.next(instruction);
      for (int64_t& c : conflicts)
        if (c >= 0) c = place[static_cast<size_t>(c)];
      const size_t own = static_cast<size_t>(instruction.unit);
      conflicts[own] = -1;  // its own queue is in order
      const size_t far = own == kL ? kS : kL;
      if (own != kC && conflicts[far] >= 0) {
        Done through_compute = done_before(own);
        if (conflicts[kC] >= 0) learn(through_compute, kC, conflicts[kC]);
        if (through_compute[far] < conflicts[far]) {
          const bool known = done_before(kC)[far] >= conflicts[far];
          conflicts[kC] = known ? last_[kC] : relay(far, conflicts[far]);
        }
        conflicts[far] = -1;
      }
      place.push_back(static_cast<int64_t>(program_.stream.size()));
      append(std::move(instruction), conflicts);
    }
  }

 private:
  using Done = std::array<int64_t, kUnits>;  // by unit: position of the last instruction that is done

  Done done_before(size_t unit) const {
    if (last_[unit] < 0) return {-1, -1, -1};
    Done done = starts_[static_cast<size_t>(last_[unit])];
    done[unit] = last_[unit];
    return done;
  }
  void learn(Done& done, size_t unit, int64_t position) const {
    const Done& theirs = starts_[static_cast<size_t>(position)];
    for (size_t u = 0; u < kUnits; ++u) done[u] = std::max(done[u], theirs[u]);
    done[unit] = std::max(done[unit], position);
  }

  // A nop of the compute unit that waits for an instruction of another. Returns its position.
  int64_t relay(size_t unit, int64_t position) {
    Instruction nop;
    Conflicts conflicts = {-1, -1, -1};
    conflicts[unit] = position;
    append(std::move(nop), conflicts);
    return static_cast<int64_t>(program_.stream.size()) - 1;
  }

  void append(Instruction instruction, const Conflicts& conflicts) {
    const auto own = static_cast<size_t>(instruction.unit);
    Done done = done_before(own);
    // What one wait brings may make the other superfluous: leave out those that the others imply.
    std::array<bool, kUnits> waits = {};
    for (size_t u = 0; u < kUnits; ++u) waits[u] = u != own && conflicts[u] > done[u];
    for (size_t u = 0; u < kUnits; ++u) {
      if (!waits[u]) continue;
      Done others = done;
      for (size_t v = 0; v < kUnits; ++v)
        if (v != u && waits[v]) learn(others, v, conflicts[v]);
      if (others[u] >= conflicts[u]) waits[u] = false;
    }
    for (size_t u = 0; u < kUnits; ++u) {
      if (!waits[u]) continue;
      FETTLE_CHECK_MSG((own == kC) != (u == kC), "tokens between load and store");
      instruction.wait[u] = true;
      program_.stream[static_cast<size_t>(conflicts[u])].signal[own] = true;
      learn(done, u, conflicts[u]);
    }
    last_[own] = static_cast<int64_t>(program_.stream.size());
    starts_.push_back(done);
    program_.stream.push_back(std::move(instruction));
  }

  Program& program_;
  std::vector<Done> starts_;
  Done last_ = {-1, -1, -1};
};

}  // namespace

void insert_tokens(Program& program) { TokenInserter(program).run(); }

}  // namespace fettle::dae
