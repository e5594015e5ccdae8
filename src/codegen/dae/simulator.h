#pragma once
// The accelerator, simulated: what a stream computes, whether its tokens order it, and how long it takes.

#include <span>

#include "base/result.h"
#include "codegen/dae/instruction.h"
#include "ir/interpret.h"

namespace fettle::dae {

/// In which order units run that could run.
enum class Order : uint8_t {
  kStream,      // as fetched, where tokens allow it
  kEagerLoads,  // loads as early as tokens allow, stores as late
  kLateLoads,   // loads as late as tokens allow, stores as early
  kRandom,      // by `seed`
};

/// Runs the stream on the buffers of its parameters, each unit in the order of its own queue, units against each other
/// as `order` says, as far as tokens allow. Scratchpads hold bytes of 0x5a at first, and so do buffers inside the
/// program. Errors: E302 units wait for each other for ever (with what waits for what), or an access is outside of its
/// memory · E705 the buffers are not those of the parameters
Result<> run(const Program& program, std::span<const BufferArg> buffers, Order order = Order::kStream,
             uint64_t seed = 0);

struct UnitTimes {
  int64_t busy = 0;         // cycles in which it runs an instruction
  int64_t wait_token = 0;   // cycles in which its next instruction waits for another unit
  int64_t wait_memory = 0;  // within busy: cycles in which it waits for the port to memory
  int64_t instructions = 0;
};

struct Timing {
  int64_t cycles = 0;
  std::array<UnitTimes, kUnits> units;
  int64_t macs = 0;
  int64_t memory_bytes = 0;
  int64_t port_busy = 0;  // cycles in which the port to memory moves bytes

  /// Products done, of those that the compute unit could do in that time.
  double utilisation(const AcceleratorUnits& units) const;
  /// Products and sums for each byte moved.
  double intensity() const {
    return memory_bytes == 0 ? 0 : 2.0 * static_cast<double>(macs) / static_cast<double>(memory_bytes);
  }
};

/// How long the stream takes. E302 units wait for each other for ever.
Result<Timing> count_cycles(const Program& program, const AcceleratorUnits& units);

}  // namespace fettle::dae
