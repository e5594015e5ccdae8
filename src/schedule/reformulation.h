#pragma once
// Reformulations replace a block by others that compute the same thing in another way. The kinds lie in reformulate/,
// one file each; the primitive `reformulate` applies them.

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "ir/func.h"

namespace fettle {

/// How far a reformulation changes results.
enum class Numerics : uint8_t {
  kExact,          // bit by bit the same
  kReassociating,  // the same terms, added or multiplied in another order
  kApproximate,    // other arithmetic, within a bound
};
std::string_view numerics_name(Numerics numerics);  // "exact", "reassociating", "approximate"

struct Reformulated {
  Func func;
  std::vector<std::string> blocks;  // that stand for the old one, in program order
  /// kApproximate: at most |error| / (sum of |terms| of an output element), in units of the element type's epsilon.
  /// Where elements share work (winograd), with the factors of the terms as large as the largest that the shared work
  /// reads.
  double error_bound = 0;
};

/// One kind. `numbers` are its arguments; their meaning is documented in the kind's header. E228 where the block or the
/// numbers do not fit its pattern.
struct ReformulationDef {
  std::string_view name;
  Numerics numerics;
  Result<Reformulated> (*apply)(const Func& func, const BlockNode& block, std::span<const int64_t> numbers);
};

/// Every kind, from the sources in schedule/reformulate/.
std::span<const ReformulationDef* const> reformulation_defs();
/// The kind named `name`, or null.
const ReformulationDef* find_reformulation(std::string_view name);

// Where one of the blocks that it leaves shares work of others, annotations say what the blocks are for (kPartOfKey,
// kRoleKey, kTilesKey). Rules obey these annotations and need not know the kind. Roles:
/// Made of one operand alone, once, where that is constant: what reads it may take it for constant, too.
inline constexpr std::string_view kWeightsRole = "weights";
/// Made of the other operand. Each element is read several times: it is made where it is read, never inlined.
inline constexpr std::string_view kDataRole = "data";
/// Where the work is: a reduction like any other.
inline constexpr std::string_view kProductRole = "product";
/// Made of the product, and otherwise as kDataRole.
inline constexpr std::string_view kOutputsRole = "outputs";
// What is a part without a role is a state of an online reduction, or what a block of keys adds to it.
/// The annotation, or "". The last block, which has the old one's name, has none.
std::string_view part_of(const BlockNode& block);
std::string_view role_of(const BlockNode& block);

// What has been done to a Func stands in its annotations (kNumericsKey, kErrorBoundKey): the weakest class, and the sum
// of the bounds.
Numerics numerics_of(const Func& func);
/// 0 where there is no such annotation.
double error_bound_of(const Func& func);

}  // namespace fettle
