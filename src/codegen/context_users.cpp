#include "codegen/context_users.h"

#include "ir/annotations.h"
#include "ir/device_annotations.h"
#include "ir/visit.h"

namespace fettle {
namespace {

constexpr int64_t kMaxStackBytes = 16 << 10;

bool uses_context(const Func& func, const std::set<std::string>& users, bool parallel) {
  if (!func || !func->body) return false;
  bool needed = func->annotations.get_int(kHostKey, 0) != 0 || func->annotations.get_int(kDeviceHostKey, 0) != 0;
  walk(func->body, [&](const Stmt& s) {
    if (const auto* loop = s.as<ForNode>()) needed |= loop->loop_kind == ForKind::kParallel && parallel;
    if (const auto* allocation = s.as<AllocateNode>()) needed |= !on_stack(*allocation->buffer);
    if (const auto* call = s.as<CallFuncNode>()) needed |= users.contains(call->name);
    return !needed;
  });
  return needed;
}

}  // namespace

int64_t constant_count(const BufferNode& buffer) {
  int64_t count = 1;
  for (const Expr& extent : buffer.shape) {
    const int64_t* value = as_int(extent);
    if (!value || *value < 0 || (*value && count > (int64_t{1} << 40) / *value)) return -1;
    count *= *value;
  }
  return count;
}

int64_t constant_bytes(const BufferNode& buffer) {
  const int64_t count = constant_count(buffer);
  return count < 0 ? count : count * buffer.dtype.element_bytes();
}

bool on_stack(const BufferNode& buffer) {
  const int64_t bytes = constant_bytes(buffer);
  return bytes >= 0 && bytes <= kMaxStackBytes;
}

std::set<std::string> context_users(const IrModule& module, bool parallel) {
  std::set<std::string> users;
  for (bool changed = true; changed;) {
    changed = false;
    for (const auto& [name, func] : module.funcs)
      if (!users.contains(name) && uses_context(func, users, parallel)) changed |= users.insert(name).second;
  }
  return users;
}

}  // namespace fettle
