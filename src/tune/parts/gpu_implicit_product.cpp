#include "tune/parts/gpu_implicit_product.h"

#include "ir/annotations.h"
#include "schedule/dataflow/dataflow.h"
#include "schedule/primitives.h"
#include "tune/parts/gpu_product.h"
#include "tune/parts/matrix_form.h"

namespace fettle {
namespace {

std::optional<MatrixRoles> roles_of(const BlockStructure& block) {
  if (!is_matrix_product(block) || product_loops(block)) return {};
  const auto roles = matrix_roles(block);
  if (!roles ||
      !fills_tiles(extent_of(block, roles->rows), extent_of(block, roles->columns), extent_of(block, roles->terms)))
    return {};
  return roles;
}

Result<> make(Schedule& s, const std::string& name, const BlockStructure& structure, const MatrixRoles& roles) {
  FETTLE_TRY(const BlockRef block, get_block(s, {.name = name}));
  FETTLE_TRY(const MatrixCopies copies, make_matrix_product(s, block, structure, roles));
  for (const BlockRef copy : {copies.left, copies.right})
    FETTLE_TRY_VOID(annotate(s, {.target = copy, .key = kRoleKey, .value = std::string(kMatrixRole)}));
  return {};
}

}  // namespace

Result<> make_matrix_products(Schedule& s) {
  std::vector<std::string> names;
  for (const BlockNode* block : blocks_of(s.func().root()))
    if (block->init) names.push_back(block->name);
  for (const std::string& name : names) {
    const BlockNode* block = find_block(s.func()->body, name);
    const auto structure = block_structure(s.func(), *block);
    const auto roles = structure ? roles_of(*structure) : std::nullopt;
    if (!roles) continue;
    Schedule trial = s;
    if (make(trial, name, *structure, *roles)) s = std::move(trial);
  }
  return {};
}

}  // namespace fettle
