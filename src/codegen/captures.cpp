#include "codegen/captures.h"

#include "ir/visit.h"

namespace fettle {

void visit_captures(const Stmt& body, FunctionRef<void(const BufferNode*)> visit_buffer,
                    FunctionRef<void(const VarNode*)> visit_var) {
  const auto see = [&](const Expr& e) {
    if (const auto* load = e.as<LoadNode>()) visit_buffer(load->buffer.get());
    if (const auto* address = e.as<AddressNode>()) visit_buffer(address->buffer.get());
    if (const auto* var = e.as<VarNode>()) visit_var(var);
    return true;
  };
  walk(
      body,
      [&](const Stmt& s) {
        if (const auto* store = s.as<StoreNode>()) visit_buffer(store->buffer.get());
        if (const auto* allocation = s.as<AllocateNode>())
          for (const Expr& extent : allocation->buffer->shape) walk(extent, see);
        return true;
      },
      see);
}

}  // namespace fettle
