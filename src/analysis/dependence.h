#pragma once
// What depends on what: blocks by the buffers they write and read, and iterations of a loop.

#include <string>
#include <vector>

#include "analysis/sites.h"
#include "base/result.h"

namespace fettle {

enum class DependenceKind : uint8_t { kReadAfterWrite, kWriteAfterRead, kWriteAfterWrite };

/// `to` must stay after `from`; indices into the list of sites.
struct Dependence {
  int from = 0, to = 0;
  Buffer buffer;
  DependenceKind kind = DependenceKind::kReadAfterWrite;
};

/// Dependences between blocks of one parent (-1: the root), in program order. Two blocks whose parts of a buffer are
/// certainly apart, whichever iteration runs, do not depend on each other.
std::vector<Dependence> dependences_in(const Func& func, const std::vector<BlockSite>& sites, int parent = -1);
/// Sites that `site` needs the results of / whose input it writes (read after write).
std::vector<int> producers_of(const std::vector<Dependence>& dependences, int site);
std::vector<int> consumers_of(const std::vector<Dependence>& dependences, int site);

/// Whether all that `reader` needs of `buffer` is made by `writer` in the same iteration of `loop` (and of the loops
/// around it), completely and anew, so that other iterations may come before or after. Both blocks are under `loop`.
/// in_order: iterations keep their order, so that a scan may make an element of this iteration from earlier ones.
/// E227, with the reason.
Result<> check_made_in_iteration(const Func& func, const ForNode& loop, std::string_view writer,
                                 std::string_view reader, const Buffer& buffer, bool in_order = false);
/// Whether the iterations of the nest down to `innermost` may come in another order, as far as different blocks under
/// it meet in a buffer: each needs what its own iteration made, and overwrites no other's. E227, with the reason.
Result<> check_iterations_apart(const Func& func, const ForNode& innermost);

/// What may be assumed when a block is moved.
struct BlockTraits {
  bool dominant = false;      // no other block of its parent writes its outputs
  bool only_spatial = false;  // all iterators are spatial
  bool reads_own_output = false;
  bool affine = false;         // the bindings are quasi-affine and independent of each other
  bool covers_domain = false;  // every point of the iterators' domains is reached
  bool covers_output = false;  // … and with them every element of its outputs is written

  /// Writes each output element it names as a function of its iterators alone.
  bool complete() const { return dominant && only_spatial && !reads_own_output && affine; }
  bool reduction = false;  // dominant, an init, iterators spatial or reduce, outputs named by spatial ones alone
};
BlockTraits block_traits(const Func& func, const std::vector<BlockSite>& sites, int site);

}  // namespace fettle
