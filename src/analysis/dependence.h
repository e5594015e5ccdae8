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

/// Whether iterations of a loop may run in any order and at once: no iteration writes what another one writes (unless
/// both write the same value), or reads what another one writes; blocks that write one buffer do so in the same places
/// in each iteration, or in different ones in different iterations. A loop on which a reduce, scan or opaque iterator
/// depends is refused. For several questions about one program; `func` and `sites` must outlive it.
class ParallelCheck {
 public:
  ParallelCheck(const Func& func, const std::vector<BlockSite>& sites);
  /// E210, naming block and buffer.
  Result<> check(const ForNode& loop);

 private:
  struct Known {
    bool asked = false;
    std::string problem;                        // why no two instances may run at once; empty: they may …
    std::vector<const ForNode*> spatial_loops;  // … if they differ in one of these, where the block updates
    bool updates = false;
    bool injective_asked = false, injective = false;  // instances that differ in spatial_loops differ in iterators
    std::string why_not_injective;
    std::optional<Analyzer> analyzer;  // with the site bound
  };
  Known& known(size_t site);
  /// Fills in what is known of spatial_loops and injective.
  Known& known_instances(size_t site);
  /// Iterations of the loop write different elements.
  bool writes_apart(size_t site, const ForNode& loop);
  /// The part of a region that one iteration of the loop touches; nothing if it has no bounds.
  std::optional<std::vector<Range>> touched(size_t site, const Region& region, const ForNode& loop);
  bool holds(const std::optional<std::vector<Range>>& outer, const std::optional<std::vector<Range>>& inner,
             const Buffer& buffer, Analyzer& analyzer) const;
  Analyzer& analyzer_at(size_t site);

  const Func& func_;
  const std::vector<BlockSite>& sites_;
  std::vector<Known> known_;
};

Result<> check_parallel(const Func& func, const ForNode& loop);

}  // namespace fettle
