#pragma once
// What depends on what: blocks by the buffers they write and read, and iterations of a loop.

#include <functional>
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
/// Whether all that `reader` needs of `buffer` is made by `writer` in the same iteration of `loop` (and of the loops
/// around it), completely and anew, so that other iterations may come before or after. Both blocks are under `loop`.
/// in_order: iterations keep their order, so that a scan may make an element of this iteration from earlier ones.
/// E227, with the reason.
Result<> check_made_in_iteration(const Func& func, const ForNode& loop, std::string_view writer,
                                 std::string_view reader, const Buffer& buffer, bool in_order = false);
/// Whether the iterations of the nest down to `innermost` may come in another order, as far as different blocks under
/// it meet in a buffer: each needs what its own iteration made, and overwrites no other's. E227, with the reason.
/// keeps_order: pairs of blocks that meet in the buffer as they do now, whatever becomes of the others; none are asked.
using KeepsOrder = std::function<bool(const BlockNode& from, const BlockNode& to, const BufferNode& buffer)>;
Result<> check_iterations_apart(const Func& func, const ForNode& innermost, const KeepsOrder& keeps_order = {});

/// Whether every point of the iterators' domains is reached, as far as that is known.
bool covers_domain(const Func& func, const std::vector<BlockSite>& sites, const BlockSite& site);

}  // namespace fettle
