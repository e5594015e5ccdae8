#pragma once
// Which SSA values stand for the buffers of scope `register`.

#include <unordered_map>
#include <vector>

#include "codegen/llvm/index_form.h"

namespace fettle::llvm_backend {

/// One access of a register buffer: lanes [lane, lane + lanes) of slot `slot`.
struct RegisterAccess {
  int slot = 0;
  int lane = 0;
  int lanes = 1;
};

/// A slot is a vector (or scalar) of consecutive elements that is carried as one value.
struct RegisterSlot {
  const BufferNode* buffer = nullptr;
  int64_t first = 0;
  int lanes = 1;
};

/// Cuts each register buffer that `body` accesses only by constants (scalars, or runs of consecutive lanes) into slots:
/// runs that overlap share the slot of the longest, which must contain them. Buffers for which that fails, whose
/// address is taken, or which are shared with the body of a parallel loop, get no slots: they live on the stack.
class Registers {
 public:
  /// Lets of `body` are defined in `forms` on the way.
  Registers(const Stmt& body, IndexForms& forms);

  const std::vector<RegisterSlot>& slots() const { return slots_; }
  bool has(const BufferNode* buffer) const { return by_buffer_.count(buffer) != 0; }
  /// The slots of `buffer`, which has some.
  size_t slots_of(const BufferNode* buffer) const { return by_buffer_.at(buffer).size(); }
  /// The access `buffer[index]`; the buffer has slots.
  RegisterAccess find(const BufferNode* buffer, const Expr& index, IndexForms& forms) const;

 private:
  std::vector<RegisterSlot> slots_;
  std::unordered_map<const BufferNode*, std::vector<int>> by_buffer_;  // slots in order of `first`
};

}  // namespace fettle::llvm_backend
