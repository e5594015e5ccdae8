#include "generations/autotvm/template/workload_kind.h"

#include <algorithm>

#include "ir/visit.h"
#include "schedule/dataflow/dataflow.h"

namespace fettle {
namespace {

bool is_divided(const BlockStructure& s, size_t iter) {
  bool divided = false;
  for (const AccessPattern& load : s.loads)
    for (const Expr& index : load.indices)
      walk(index, [&](const Expr& e) {
        const auto* part = e.as<BinaryNode>();
        divided |= part && part->op == BinaryOp::kFloorDiv && part->a.get() == s.vars[iter].get();
        return !divided;
      });
  return divided;
}

}  // namespace

bool has_matrix_product(const Func& func) {
  return std::ranges::any_of(blocks_of(func.root()), [&](const BlockNode* block) {
    const auto structure = block->init ? block_structure(func, *block) : std::nullopt;
    return structure && is_matrix_product(*structure);
  });
}

bool is_convolution(const Func& func, size_t dimensions) {
  const auto kind = reduction_kind(func);
  return kind && kind->product && kind->windows.size() == dimensions && !kind->channels.empty() &&
         kind->shared.empty() && kind->grouped.empty();
}

std::optional<ReductionKind> reduction_kind(const Func& func) {
  if (!func->body.as<BlockNode>()) return {};
  const BlockNode* reduction = only_reduction(func);
  if (!reduction) return {};
  auto structure = block_structure(func, *reduction);
  if (!structure || structure->loads.empty()) return {};
  ReductionKind kind{.block = reduction->name, .structure = std::move(*structure)};
  const BlockStructure& s = kind.structure;
  kind.product = s.multiplies_two_loads;
  for (size_t i = 0; i < s.n_iters(); ++i) {
    if (s.reduce[i]) {
      bool window = false;
      for (const AccessPattern& load : s.loads)
        for (size_t j = 0; j < s.n_iters(); ++j)
          window |= !s.reduce[j] && load.shares_dimension(s.vars[i], s.vars[j]) && !is_divided(s, j);
      (window ? kind.windows : kind.channels).push_back(i);
    } else if (is_divided(s, i)) {
      const auto phases = phases_of(s);
      const bool phased = std::ranges::any_of(phases, [&](const Phase& phase) { return phase.loop == i; });
      (phased ? kind.phased : kind.grouped).push_back(i);
    } else if (s.loads.size() == 2 && s.loads[0].touches(i) && s.loads[1].touches(i) && s.extents[i] > 1) {
      kind.shared.push_back(i);
    }
  }
  if (kind.windows.empty() && kind.channels.empty()) return {};
  return kind;
}

}  // namespace fettle
