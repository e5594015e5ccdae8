#pragma once
// A lowered kernel as numbers: its loops with their (average) extents, micro-kernels opened up in place, straight-line
// code as counts of operations and streams of accesses. Everything that predicts time reads this.

#include <cstdint>
#include <string>
#include <vector>

#include "lower/lower.h"
#include "target/target.h"

namespace fettle {

/// Copies of an access at equal distances.
struct StreamDim {
  double stride_bytes = 0;
  double count = 1;
};

/// The accesses of one straight-line piece to one buffer that all loops move alike.
struct Stream {
  int buffer = 0;  // index in LoopTree::buffers
  bool is_write = false;
  double accesses = 0;             // instructions, for each run of the piece
  double low_bytes = 0;            // where the lowest one lies, all loops in the middle of their ranges
  double run_bytes = 0;            // that one touches in a row
  std::vector<StreamDim> dims;     // how its unrolled copies lie
  std::vector<double> step_bytes;  // one a loop around it, outermost first: from one iteration to the next
};

/// Instructions of one run of a straight-line piece, in whole vector registers.
struct Work {
  double fma = 0;         // on vectors or scalars
  double arithmetic = 0;  // other arithmetic, comparisons and shuffles
  double loads = 0;       // vectors and scalars; broadcasts included
  double broadcasts = 0;  // of the loads: one element to all lanes
  double stores = 0;
  double gathers = 0;                          // lanes loaded or stored one by one
  double divisions = 0;                        // and square roots
  double tile_products = 0;                    // of a unit that multiplies matrices; its loads are of vectors
  double flops = 0;                            // that the lanes do, surplus included
  double accumulators = 0;                     // register vectors that are read and written
  double live_registers = 0;                   // register buffers around the piece that its loop uses
  double touched_registers = 0;                // of these, what the piece reads or writes, in vectors
  bool carried_through_memory = false;         // reads what the iteration before wrote
  double near_requests = 0, far_requests = 0;  // prefetches into the first-level cache, into the second
  int vector_loads() const { return static_cast<int>(loads - broadcasts); }
};

/// One way in which a micro-kernel is called from one place.
struct MicroKernelVariant {
  std::string name;
  std::vector<int64_t> ints;  // its integer arguments
  double share = 0;           // of the place's executions
};

struct CostNode {
  enum class Kind : uint8_t {
    kLoop,  // children[0], `extent` times
    kSeq,
    kChoice,  // one of the children, shares[i] of the times (they may sum to less than 1)
    kCall,    // one of `variants`; children[i] is the body of variants[i]
    kBody,
  };
  Kind kind = Kind::kSeq;
  bool parallel = false;  // kLoop
  double extent = 1;      // kLoop
  std::vector<CostNode> children;
  std::vector<double> shares;
  std::vector<MicroKernelVariant> variants;
  Work work;
  std::vector<Stream> streams;
  std::vector<int> asked_near, asked_far;  // kBody: the buffers that its prefetches name
};

/// Whether it is a loop, or one lies in it.
bool has_loop(const CostNode& node);

struct CostBuffer {
  std::string name;
  double bytes = 0;      // 0: unknown
  bool scratch = false;  // made inside the kernel
};

struct LoopTree {
  CostNode root;
  std::vector<CostBuffer> buffers;
};

/// Loops whose extents, and conditions whose outcomes, depend on loops around them are counted exactly up to some
/// thousand points, beyond that on a sample. Integer parameters take their largest value, at most 1024.
LoopTree make_loop_tree(const IrModule& kernel, const Target& target);

}  // namespace fettle
