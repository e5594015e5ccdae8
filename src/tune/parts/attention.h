#pragma once
// Attention in one pass over keys and values (schedule/reformulate/online_reduction.cpp, with the size of a block).
// The scores of a tile of queries and a block of keys stay in the first-level cache, and never are in memory as a
// whole.
//
//   for h, i, j: for d: X[h, i, j] += Q[h, i, d] * K[h, j, d]
//   for h, i, j: B[h, i, j] = f(X[h, i, j], …)                     (a scale, a mask; perhaps none)
//   for h, i: M, E, S, P: the softmax of B's rows
//   for h, i, e: for j: O[h, i, e] += P[h, i, j] * V[h, j, e]
//   →
//   for h (parallel): keys and values of a head, where they lie apart: their lines would fall into few sets of a cache
//   for h, i0 (parallel):
//     Q of a tile of queries, turned over
//     for blocks of keys:
//       register tiles of X, written as B, queries in lanes        (keys x queries)
//         their highest, with what was highest before              (lanes need nothing of each other)
//       exponentials, and their sum
//       register tiles of what the block adds to O, and what O was, scaled     (elements of a value x queries)
//     O of the tile, divided and turned back
//
// Where a mask hides the keys behind a query, the blocks end where no query of the tile sees more.

#include <optional>
#include <string>
#include <vector>

#include "schedule/schedule.h"
#include "target/target.h"
#include "tune/parts/decider.h"
#include "tune/parts/loops.h"

namespace fettle {

/// Attention as a whole program. Numbers of queries, keys and heads may be open: then they are what they typically are.
struct AttentionParts {
  std::string scores, product;  // the blocks of both products
  std::string finish;           // what does something to each element of the second one's result; empty: nothing does
  size_t query = 0, key = 0;    // dimensions of the scores
  size_t query_row = 0;         // which of the maximum's spatial iterators walks through queries
  size_t rows = 0;              // how many of these there are
  Buffer q;                     // what the scores read of each query
  size_t query_of_q = 0;        // its dimension
  struct Mask {
    Buffer buffer;
    size_t query = 0;  // its dimension
  };
  /// What all queries of a head read of each key.
  struct Shared {
    Buffer buffer;
    size_t key = 0, element = 0;  // dimensions
    bool apart = false;           // its elements lie side by side, but keys lie farther apart than these reach
  };
  Shared keys_read, values_read;  // the factor of the scores, and what they weigh
  bool is_causal = false;         // its mask hides the keys from some place on, of which later queries see more
  std::vector<Mask> masks;        // what else the maximum reads of each query, which do not lie side by side
  int64_t heads = 1;
  int64_t queries = 1, keys = 1;  // of one head
  int64_t width = 1, value_width = 1;
  bool open_queries = false, open_keys = false, any_open = false;
};
/// The parts, where the program has two products with a softmax between them and nothing else. online_reduction has the
/// last word.
std::optional<AttentionParts> attention_parts(const Func& func);

/// A block of keys, and tiles of registers: `vectors` of queries, in rows of keys and of a value's elements.
struct AttentionTile {
  int64_t keys = 1, vectors = 1, key_rows = 1, value_rows = 1;
  double cost = 0;  // predicted cycles for a vector of queries and one key

  /// "128:8+8x3" is 128 keys, 8 keys and 8 elements x 3 vectors.
  std::string name() const;
};
/// The cheapest first.
std::vector<AttentionTile> attention_tiles(const AttentionParts& parts, const Target& target);

/// Computes it in one pass. Choices: "tile", "copy_keys", "parallel". Returns all of the program's blocks.
/// Errors: E228 the pattern differs · E230 no tile fits · those of the primitives
Result<Finished> attention_in_one_pass(Schedule& s, const Target& target, Decider& decider, const AttentionParts& parts,
                                       int threads);

}  // namespace fettle
