#include "codegen/llvm/crowded_steps.h"

#include <map>
#include <set>

#include "codegen/llvm/function_emitter.h"
#include "ir/rewrite.h"

namespace fettle::llvm_backend {
namespace {

using Address = std::pair<const BufferNode*, IndexForm>;

struct Reads {
  std::set<Address> vectors;
  std::map<Address, int> broadcasts;  // and the step that reads them first
  std::set<Address> shared;           // broadcasts that a later step reads, too
};

void add_reads(const Expr& value, int step, const Registers& registers, IndexForms& forms, Reads& reads) {
  each_node<LoadNode>(value, [&](const LoadNode& load) {
    LaneIndex lanes;
    if (load.indices.size() != 1 || registers.has(load.buffer.get()) || !as_lane_index(load.indices[0], lanes)) return;
    const Address address{load.buffer.get(), forms.form(lanes.base)};
    if (lanes.lanes > 1 && is_one(lanes.stride)) {
      reads.vectors.insert(address);
    } else {
      const auto [first, is_new] = reads.broadcasts.emplace(address, step);
      if (!is_new && first->second != step) reads.shared.insert(address);
    }
  });
}

}  // namespace

bool steps_crowd(const Stmt& body, const Registers& registers, IndexForms& forms, int vector_registers) {
  std::map<int, int> writes;  // of each slot
  int steps = 0;
  bool straight = true;
  Reads reads;
  walk(body, [&](const Stmt& s) {
    straight &= s.kind() != StmtKind::kFor && s.kind() != StmtKind::kWhile && s.kind() != StmtKind::kCallFunc;
    const auto* node = s.as<StoreNode>();
    if (!straight || !node || node->indices.size() != 1 || !registers.has(node->buffer.get())) return straight;
    if (node->value.dtype().lanes == 1) return true;
    const int step = writes[registers.find(node->buffer.get(), node->indices[0], forms).slot]++;
    steps = std::max(steps, step + 1);
    add_reads(node->value, step, registers, forms, reads);
    return true;
  });
  const size_t needed = writes.size() + reads.vectors.size() + reads.shared.size() + 1;
  return straight && steps > 1 && needed > static_cast<size_t>(vector_registers);
}

}  // namespace fettle::llvm_backend
