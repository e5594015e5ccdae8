#pragma once
// Reads what a block does to memory, iterator by iterator. All rules decide by it.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "arith/int_eval.h"
#include "ir/func.h"
#include "target/target.h"

namespace fettle {

/// One load or store of a block and how far it moves in memory with each iterator. Iterators are here the loops around
/// the block: a loop that was split is two.
struct AccessPattern {
  static constexpr int64_t kIrregular = INT64_MIN;

  Buffer buffer;
  std::vector<Expr> indices;     // in the loops' variables, simplified
  std::vector<int64_t> strides;  // elements, one an iterator; 0: does not depend on it; kIrregular: not a constant
                                 // (of integer parameters: what it typically is, at least 2)
  bool guarded = false;          // under a selection

  bool touches(size_t iter) const { return strides[iter] != 0; }
  /// Dimension whose index is the variable alone, or -1.
  int dimension_of(const Var& var) const;
  /// Some index depends on both.
  bool shares_dimension(const Var& a, const Var& b) const;
};

/// A block below the root in a plain nest of serial loops.
struct BlockStructure {
  std::vector<Var> vars;             // of the loops, outermost first
  std::vector<int64_t> extents;      // of the iterators
  std::vector<bool> open;            // an extent that is no constant, but what it typically is (extent.h)
  std::vector<int64_t> divisors;     // the largest number that is known to divide an extent; 0: it is always 0
  std::vector<bool> reduce;          // an iterator of the reduction
  std::vector<AccessPattern> loads;  // distinct; what the block itself writes is left out
  AccessPattern store;
  bool multiplies_two_loads = false;  // out = out + a * b

  size_t n_iters() const { return extents.size(); }
  /// The extent is this constant.
  bool is(size_t iter, int64_t extent) const { return !open[iter] && extents[iter] == extent; }
  /// Product of the extents.
  int64_t points() const;
};

/// Whether extents may be open: what depends on them for being right has to look at BlockStructure::open.
enum class Extents : uint8_t { kConstant, kOpen };

/// The program's reduction; null where there is none, or several.
const BlockNode* only_reduction(const Func& func);

/// Nothing where the block is no single store of such a shape, whose iterators are spatial or reduce and bound to loops
/// of their own.
std::optional<BlockStructure> block_structure(const Func& func, const BlockNode& block,
                                              Extents extents = Extents::kConstant);

/// A parameter that is known when the program is compiled.
bool is_constant(const Func& func, const Buffer& buffer);

/// Steps in memory (elements) with each of `vars`, as AccessPattern::strides has them. `typical`: typical_values of the
/// program.
std::vector<int64_t> access_strides(const BufferNode& buffer, const std::vector<Expr>& indices,
                                    const std::vector<Var>& vars, const IntEnv& typical = {});

/// A spatial loop that the loads see only as quotient and remainder of one constant: its number and the constant. Split
/// by it, the two parts are iterators like any other.
///   transposed convolution  O[h, w, c] += I[h // 2, w // 2, i] * W[i, c, h % 2, w % 2]
struct Phase {
  size_t loop;
  int64_t factor;
};
std::vector<Phase> phases_of(const BlockStructure& block);

/// The number of innermost loops that may become one, since every access walks through them contiguously or not at all.
size_t contiguous_tail(const BlockStructure& block);

/// True for a step of a pairwise reduction: it combines two elements of one buffer, whose place is in the lanes of
/// vectors.
///   C_8[i, p] = C_16[i, p] + C_16[i, p + 8]
bool combines_itself(const BlockNode& block);

/// True if the expression moves values only: loads, selections, constants, casts.
bool only_moves(const Expr& value);

/// A sum of products of two factors, each of which moves along an output dimension that the other does not. It is a
/// product of matrices, batched over the dimensions that both move along.
bool is_matrix_product(const BlockStructure& block);

/// A sum of products of rows of a matrix and of what these share, where the second-level cache does not hold the
/// matrix. Each of its elements is read once.
///   y[i] += A[i, k] * x[k]
bool streams_rows(const BlockStructure& block, const Target& target);

}  // namespace fettle
