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
  std::vector<int64_t> lines;         // per level: distinct cache lines, at most

  /// Where a dimension's index lies; only access_footprints_of fills it in.
  struct Dimension {
    LinearForm index;             // of loops
    std::vector<Interval> inner;  // per level: of the terms of loops that run; not bounded: some term mixes both
    int64_t extent = 1;           // of the region
  };
  std::vector<Dimension> dimensions;

  int64_t bytes(size_t level) const { return elems[level] * buffer->dtype.element_bytes(); }
  /// The innermost loop that moves the access (stride not 0), or -1.
  int innermost_moving_loop() const;
};

/// Every access of every innermost block, in program order, reads before writes. Loops whose extent has no bound count
/// as `unbounded_extent` iterations.
std::vector<AccessFootprint> access_footprints(const Func& func, int line_bytes = 64, int64_t unbounded_extent = 1024);
std::vector<AccessFootprint> access_footprints(const Func& func, const std::vector<BlockSite>& sites,
                                               int line_bytes = 64, int64_t unbounded_extent = 1024);
/// Those of some buffers only.
std::vector<AccessFootprint> access_footprints_of(const Func& func, const std::vector<BlockSite>& sites,
                                                  const std::vector<Buffer>& buffers);

/// The smallest box, moving with the loops outside of `level`, that holds what all of these accesses of one buffer
/// touch while the loops from there on run. Lowering allocates such a box (compact_buffers) where the buffer's own
/// bounds do not count, as for registers. A dimension where there is none has the buffer's extent, 0 if that is no
/// constant. From access_footprints_of.
std::vector<int64_t> window_extents(const std::vector<const AccessFootprint*>& accesses, size_t level);

/// Elements of a hull of `region`'s accesses while loops[first]… of the site run, and its extent in each dimension.
std::vector<int64_t> touched_extents(const Func& func, const std::vector<BlockSite>& sites, int site,
                                     const Region& region, size_t first);

}  // namespace fettle
