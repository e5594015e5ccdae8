#pragma once
// Ansor's space: a sketch, derived, with its sizes and annotations drawn so that every complete program of the space is
// equally likely. (Zheng et al.: Ansor, OSDI 2020, sections 4.1 and 4.2.)

#include <memory>
#include <vector>

#include "generations/ansor/sketch/sketch.h"
#include "tune/space/space.h"

namespace fettle {

/// What is equally likely where a point is drawn.
enum class EquallyLikely : uint8_t {
  /// Every complete program of a computation: a sketch is as likely as its programs are many.
  kPrograms,
  /// Every sketch of a computation, and then every place of a block, as Ansor draws (section 4.2). What a product reads
  /// is inlined, stays where it stands, or moves under a loop.
  kChoices,
};

struct SketchSpaceOptions {
  /// `cores` is set from the threads that a kernel may use.
  DeriveOptions derive = {};
  EquallyLikely equally_likely = EquallyLikely::kPrograms;
  int64_t max_vector_lanes = 64;                             // elements of a vectorized loop
  std::vector<int64_t> unroll_steps = {0, 16, 64, 512};      // of the pragma auto_unroll_max_step
  std::vector<int64_t> thread_extents = {32, 64, 128, 256};  // of a nest that no rule bound, on a target with threads
  /// Sketches times places of blocks, each sketch its share; those found later are left out.
  size_t max_structures = 256;
};

/// A point is, in this order and each a decision:
///   sketch          which of derive_sketches()
///   …               the sketch's tile sizes; blocks that no rule tiled are cut once, for lanes
///   location/BLOCK  where a block that could be neither inlined nor tiled is computed: -1 where it stands, -2 inlined,
///                   or under which loop of its first reader
///   parallel/BLOCK  how many of the outermost loops of the nest are fused and run in parallel
///   vector/BLOCK    how many of the innermost become lanes: at least one; of a tile no more
///   unroll/BLOCK    the limit of auto_unroll_max_step
/// Before the annotations constants get the order in which tiles walk through them. After them tiles of sums that fit
/// are held in registers, and other reductions are cleared by nests of their own.
///
/// On a target with threads, tiles are "SSSRRSRS" over blocks, virtual threads and threads. In place of parallel and
/// vector there is thread_binding/BLOCK, the threads of a nest that no rule bound. Copies to shared memory are made by
/// all threads of a block.
///
/// Sketches and places are drawn in proportion to how many points they have, everything else alike; what turns out not
/// to be legal is drawn anew. So each legal point is equally likely. Where rules offer several computations
/// (winograd), each of these is equally likely, and each legal point of one. By their numbers alone one point
/// in a thousand would use Winograd's algorithm. The space remembers the sketches of each workload; it is used by one
/// thread at a time.
std::unique_ptr<Space> make_sketch_space(SketchSpaceOptions options = {});

}  // namespace fettle
