#pragma once
// Deals loops out to the blocks and threads of a launch.
//
//   for i in 100: for j in 64: B[i, j] = f(A[i, j])
//   →  for b in 25 blockIdx.x: for t in 256 threadIdx.x: B[(256*b + t) // 64, t % 64] = f(…)

#include <optional>
#include <vector>

#include "schedule/schedule.h"
#include "target/target.h"

namespace fettle {

struct GridOptions {
  int64_t threads = 256;  // of a block, at most
  int64_t lanes = 1;      // neighbours along the last loop that a thread has at once; they divide its extent
  int64_t turns = 1;      // how often it has so many, a block's width apart, at most
  /// Constant loops become one before threads are cut from it, so that all are used. A reduction's
  /// elements can then not be told apart by their loops: it is to be bound loop by loop.
  bool flat = true;
};

/// What a thread does stands below `thread`: turns and lanes, if there are several, and what else was inside.
struct Grid {
  LoopRef thread{};
  std::optional<LoopRef> turn, lane;
  int64_t threads = 1, turns = 1;
};

/// Deals out all of `loops`: independent ones, adjacent, outermost first. Neighbours of the last loop go to
/// neighbouring threads. A loop of open extent has an axis of its own, since what is fused divides by its extent. Where
/// there are too few axes, the host launches several times. Errors: those of the steps
Result<Grid> deal_out(Schedule& s, const Target& target, const std::vector<LoopRef>& loops, const GridOptions& options);

/// Loops over blocks, adjacent, get axes of the launch: the innermost one x, unless another one alone may be too long
/// for the others. Constant ones that are too long, and what is more than three, go around: loops of the host. An open
/// one that is too long when it runs is refused by the launch (E710). `flat`: as GridOptions has it. Returns the loops
/// as they stand, outermost first.
Result<std::vector<LoopRef>> bind_blocks(Schedule& s, const Target& target, const std::vector<LoopRef>& loops,
                                         bool flat);

/// Threads of a block such that all multiprocessors have something to do: `most`, or fewer where there are few
/// iterations; a warp at least.
int64_t threads_for(const Target& target, int64_t iterations, int64_t most);

/// The loops of a block beneath that one. E230 it is not under it
Result<std::vector<LoopRef>> loops_below(Schedule& s, BlockRef block, LoopRef loop);

/// Whether the iterations of each loop are independent, and nothing is made of it yet.
Result<std::vector<bool>> independent_loops(const Schedule& s, const std::vector<LoopRef>& loops);
/// The first run of independent loops that follow one another.
std::vector<LoopRef> first_run(const std::vector<LoopRef>& loops, const std::vector<bool>& are_independent);

/// Whether the program keeps the target's rules and becomes kernels: verify, and lower_for_device.
Result<> check_on_device(const Func& func, const Target& target);

}  // namespace fettle
