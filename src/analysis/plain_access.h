#pragma once
// How an access moves through its buffer where its loops are constant and its indices plain sums of them: what
// footprint.h counts, without lists and for one level at a time.

#include <optional>
#include <span>

#include "analysis/sites.h"
#include "arith/plain_map.h"

namespace fettle {

class PlainAccess {
 public:
  /// Of a block that no other one encloses. Nothing where the access is of another kind.
  static std::optional<PlainAccess> of(const BlockSite& site, const Region& region);

  /// Distinct elements, at most, while loops[level] and those inside it run.
  int64_t elems(size_t level) const;
  /// Whether the next iteration of a loop steps on in memory.
  bool moves(size_t loop) const { return loops_[loop].moves; }
  int64_t extent(size_t loop) const { return loops_[loop].extent; }
  /// The elements of the window that window_extents of footprint.h tells of, of accesses to one buffer. Where all go to
  /// the same window, those that no iteration names (in strides over it) do not count. The loops outside of `level` are
  /// the same for all of them. Nothing where an index has the lesser or greater of a loop from there on and a constant.
  static std::optional<int64_t> window_elems(std::span<const PlainAccess* const> accesses, size_t level);

 private:
  struct Loop {
    int64_t extent = 1;
    bool moves = false;
    bool used = false;
  };
  struct Dimension {
    int64_t extent = 1, shape = 1;
    SmallVector<int64_t, 12> steps;  // how far each loop goes
    PlainSum index;
  };

  PlainLoops ranges_;
  SmallVector<Loop, 12> loops_;
  SmallVector<Dimension, 4> dimensions_;
};

}  // namespace fettle
