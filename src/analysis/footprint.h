#pragma once
// How much memory each access of a program touches, at every level of its loops; `verify` asks for it.
// Numbers, not expressions: fast, exact for affine accesses in dense loops, else from above.

#include <vector>

#include "analysis/sites.h"
#include "arith/interval.h"
#include "arith/linear.h"

namespace fettle {

/// One read or write of a block (one of its regions). Level d: loops[d] and those inside it run, the others stand
/// still; level loops.size() is one instance of the block.
struct AccessFootprint {
  static constexpr int64_t kIrregular = INT64_MIN;

  int site = 0;  // index in block_sites(func)
  Buffer buffer;
  bool is_write = false;
  std::vector<const ForNode*> loops;  // all around the block, those of outer blocks included, outermost first
  std::vector<int64_t> extents;       // of the loops; the largest they can have
  std::vector<int64_t> stride_elems;  // per loop: step in memory from one iteration to the next; 0: the same
                                      // elements again, kIrregular: not constant
  std::vector<int64_t> elems;         // per level: distinct elements, at most

  /// Where a dimension's index lies.
  struct Dimension {
    LinearForm index;             // of loops
    std::vector<Interval> inner;  // per level: of the terms of loops that run; not bounded: some term mixes both
    int64_t extent = 1;           // of the region
  };
  std::vector<Dimension> dimensions;

  int64_t bytes(size_t level) const { return elems[level] * buffer->dtype.element_bytes(); }
};

/// Every access of the innermost blocks to these buffers, in program order, reads before writes. Loops whose extent has
/// no bound count as 1024 iterations.
std::vector<AccessFootprint> access_footprints_of(const Func& func, const std::vector<BlockSite>& sites,
                                                  const std::vector<Buffer>& buffers);

/// The smallest box, moving with the loops outside of `level`, that holds what all of these accesses of one buffer
/// touch while the loops from there on run. Lowering allocates such a box (compact_buffers) where the buffer's own
/// bounds do not count, as for registers. A dimension where there is none has the buffer's extent, 0 if that is no
/// constant. From access_footprints_of.
std::vector<int64_t> window_extents(const std::vector<const AccessFootprint*>& accesses, size_t level);

}  // namespace fettle
