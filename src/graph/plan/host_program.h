#pragma once
// The planned model as one loop program: slices of the arena and calls of kernels, in order.

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "graph/plan/size_table.h"
#include "ir/func.h"

namespace fettle {

/// Memory that the host program is given: which buffer, and where in it.
struct HostAddress {
  enum class Kind : uint8_t { kInput, kOutput, kState, kArena, kConstant, kCounter };
  Kind kind = Kind::kArena;
  int index = 0;  // which input, output, state, constant or loop's counter; of the arena, the stage
  Dim offset_bytes = 0;
  /// What moves it: bytes for each iteration of these loops.
  std::vector<std::pair<int, Dim>> steps = {};
};

/// Another kernel, where one of the integers is at most this.
struct HostClass {
  int size = 0;
  int64_t most = 0;
  std::string kernel;
};

struct HostCall {
  int number = 0;      // by which a profiler knows it
  std::string kernel;  // symbol
  std::vector<HostAddress> buffers;
  std::vector<Dim> sizes;               // one an integer parameter of the kernel
  std::vector<HostClass> classes = {};  // the first that holds
  /// The kernel's last integer says whether the number of this loop's iteration is odd; -1: it is 0. Nothing: it has
  /// no such integer.
  std::optional<int> turn = {};
};

/// An integer in memory, or a number.
struct HostInteger {
  std::optional<HostAddress> at;
  int bytes = 8;
  int64_t number = 0;
};

/// A call, sizes, a branch, a loop or sections, as PlanStep has them.
struct HostStep {
  enum class Kind : uint8_t { kCall, kBranch, kLoop, kSizes, kSections, kSection };
  Kind kind = Kind::kCall;
  HostCall call;
  std::optional<HostAddress> condition;  // of a byte that is not 0 where it is true
  std::vector<HostStep> body, otherwise;
  int mark = -1, otherwise_mark = -1;  // by which a tracer knows the loop, or the branch's bodies; -1: it is not told
  int loop = -1;
  std::optional<Dim> limit;
  std::optional<HostAddress> limit_at;
  int limit_bytes = 8;  // of a signed integer there
  int stage = 0;
  std::vector<HostInteger> read;
};

struct HostInterface {
  std::vector<Dim> input_bytes, output_bytes, state_bytes, constant_bytes;
  Dim arena_bytes = 0;
  std::vector<Dim> stage_arena_bytes;
  std::vector<bool> late_outputs;  // their sizes come to be known while the program runs
  int n_loops = 0;
  /// Inputs, outputs, states, arenas and constants lie on a device.
  bool on_device = false;
  Dim counters_at = 0;  // where in the arena kernels there find loops' counters, kCounterBytes each
};
inline constexpr int64_t kCounterBytes = 8;

/// A Func over byte buffers: inputs, outputs, states, the arena, constants, as rt/abi.h has them. It is annotated
/// `host`; a call's first integer is its number, by which a profiler knows it; the kernel's own follow.
///   call k_1f0c(&x[0], &arena[4096], &constant0[0], 0)
/// Of a kernel with classes of sizes, the first whose bound holds is called:
///   if (t9 <= 4) call k_30c2(…, 1, t9) else call k_77ab(…, 1, t9)
/// What depends on the sizes of inputs is an integer parameter, an entry of `table`, which is the next buffer, too:
///   call k_77ab(&x[0], &arena[t6], 1, t9)
/// A kernel whose iterations run backwards in every other call of a loop is told so:
///   call k_51e5(&constant0[0], &arena[0], 3, i0[0] % 2)
/// Sizes that a run tells are handed to the run-time system, which fills the entries of a stage and gives its arena,
/// one of the last buffers, and outputs their memory. Such buffers are annotated `late`: what the program is given is
/// where their addresses stand.
///   call fettle_reach_stage(&table[0], 1, arena[64] + …);  call k_77ab(&x[0], &arena1[table[12]], 2, table[13])
/// A tracer is told where a loop or a branch's body begins (0), where each iteration does (1), and where it ends (2):
///   call fettle_mark_step(3, 0); …; call fettle_mark_step(3, 2)
/// What lies on a device is brought to local buffers before it is read, and counters are put where kernels find them:
///   call fettle_device_fetch(&read0[0], &arena[64], 1); if (read0[0] != 0) call …
///   i0[0] = i0[0] + 1; call fettle_device_put(&arena[4096], i0[0])
/// A loop counts in a local buffer of its own, of which kernels are given the address:
///   i0[0] = 0; while (i0[0] < 16 && arena[64] != 0) { call …(&i0[0], &out[512 * i0[0]], 1); i0[0] = i0[0] + 1 }
/// Sections are the iterations of a parallel loop:
///   for section in 2 parallel: if (section < 1) { call k_77ab(…); call k_30c2(…) } else call k_51e5(…)
Func host_program(const std::string& name, const HostInterface& interface, const std::vector<HostStep>& steps,
                  SizeTable& table);

}  // namespace fettle
