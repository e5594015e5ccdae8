#pragma once
// Programs that work row by row: each row goes through all blocks while it is in the first-level cache.
//
//   for i: for k: M[i] max= X[i, k]        for i:
//   for i: for k: E[i, k] = exp(…)     →     for k: M max= X[i, k]      (in registers, one part a lane, then by halves)
//   for i: for k: S[i] += E[i, k]            for k: E[k] = exp(…)       (a row that stays in cache)
//   for i: for k: Y[i, k] = E[i, k] / S[i]   for k: S += E[k]
//                                            for k: Y[i, k] = E[k] * (1 / S)
//
// Several rows may be worked on at once: pass by pass, so that one need not wait for another's sums.
//
//   for runs of rows: for i0: for i in 2: M[i] max= X[i0 * 2 + i, k] …
//                             for i in 2: …
//
// Where the rows themselves are contiguous in memory (softmax over channels of an image), vectors hold rows side by
// side. fuse_rows brings the blocks together; a pass is the work of one of them on a row. The caller says which of this
// is done.

#include <optional>
#include <string>
#include <vector>

#include "schedule/schedule.h"
#include "target/target.h"
#include "tune/parts/row_group.h"

namespace fettle {

/// A row of up to this many vectors stays in registers from block to block.
inline constexpr int64_t kMostKeptOfRow = 8;

/// One block of a group.
struct RowPart {
  std::string name;
  std::vector<size_t> row_iters;  // its iterators that are rows, outermost first
  size_t head = 0;      // the number of the block that it is a step towards: one that adds up in pairs; else its own
  int64_t vectors = 1;  // of a row of what it writes (typically)
  bool reduces = false, last = false;
  size_t depth = 0;  // loops around what it does with a row, or with several: fuse_rows says
};
/// The blocks of the group, before anything is moved. E230 one is not one store
Result<std::vector<RowPart>> row_parts(const Func& func, const RowGroup& group, int64_t lanes);

struct FuseRowsOptions {
  int64_t at_once = 1;       // of the innermost rows
  size_t run_row = 0;        // the number of those rows that are dealt out
  int64_t runs = 1;          // in so many runs, the last of which may be shorter; of an open number of rows: in runs as
                             // long as so many typically are
  int64_t side_by_side = 0;  // contiguous rows that vectors hold at a time; 0: all
  bool sums_at_once = false;  // each step of a reduction goes over all rows that are worked on at once
};
/// The last block's loops over rows around all blocks. Sets `depth` of the parts. Returns the loops around the rows
/// that are worked on at once, outermost first. E230 there are no rows, and what the primitives refuse
Result<std::vector<LoopRef>> fuse_rows(Schedule& s, const RowGroup& group, std::vector<RowPart>& parts,
                                       const FuseRowsOptions& options);

/// A loop of what a block does with a row, or with several.
struct RowLoop {
  LoopRef loop;
  int64_t extent = 0;  // what it typically is where it is open
  bool open = false;
  int64_t stride = 0;  // in what the block writes
  bool reduces = false;
  bool rows = false;  // that are worked on at once
};
/// What one block does with one row (or with the rows of one vector, or with several rows).
struct RowPass {
  std::string name;
  BlockRef block;
  std::vector<RowLoop> rows, reduce, others;  // outermost first
  std::optional<RowLoop> vector;              // walks through what the block writes
  int64_t width = 1;                          // lanes of a vector, or fewer where `vector` is shorter
  int64_t elements = 1;                       // of a row of what the block writes
  int64_t vectors = 1;                        // the same in whole vectors
  int64_t steps = 1;                          // of the reduction for each element
  bool open = false;                          // `elements` are no constant

  int64_t n_rows() const;
};
/// `lanes`: of a whole vector. E230 the block is not one store
Result<RowPass> row_pass(Schedule& s, const RowPart& part, int64_t lanes);

enum class RowsAt : uint8_t {
  kOutside,       // each row has its sums worked out by itself
  kInsideSteps,   // row by row at each step of a reduction
  kInsideBlocks,  // a few vectors of each row in turn
};
struct RowPassOptions {
  RowsAt rows = RowsAt::kOutside;  // where they are unrolled
  int64_t at_once = 0;             // vectors that one turn of a loop over a long row takes; 0: all are unrolled
  bool unroll_turns = false;       // the loop over a long row
  bool unroll_steps = false;       // of a reduction
  bool unroll_others = false;
  bool in_registers = false;    // what it writes
  bool cut_one_vector = false;  // a row of one vector is cut like others
  Tail tail = Tail::kMask;      // of a short row
};
/// Schedules the pass. The block that begins the sums, where it reduces. E230 there is no loop to reduce over, and what
/// the primitives refuse
Result<std::optional<BlockRef>> schedule_row_pass(Schedule& s, const RowPass& pass, const RowPassOptions& options);

/// Both blocks in one pass over a long row. E230 they do not walk alike, and what the primitives refuse
///   for v: E[r, v] = …    for k: S_partial[r, p] += E[r, k * lanes + p]
///   →
///   for k: E[r, k * lanes + p] = …, S_partial[r, p] += E[r, k * lanes + p]
Result<> in_one_pass(Schedule& s, const RowPart& made, const RowPart& sum, int64_t lanes);

}  // namespace fettle
