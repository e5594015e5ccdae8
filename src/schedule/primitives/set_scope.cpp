#include "schedule/primitives/set_scope.h"

#include "schedule/dataflow/dataflow.h"
#include "schedule/edit/steps.h"

namespace fettle {
namespace {

Result<Applied> apply_set_scope(const Schedule& s, const SetScopeArgs& args) {
  FETTLE_TRY(const Stmt stmt, s.block(args.block));
  const auto& block = *stmt.as<BlockNode>();
  FETTLE_TRY(const Buffer buffer, write_buffer(block, args.index));
  FETTLE_TRY_VOID(check_scope(s, args.scope, &block));
  if (is_param(s.func(), buffer.get()))
    return refused(ErrorCode::E218, s.func(), &block, "buffer {} is a parameter", buffer->name);
  if (buffer->scope == args.scope) return Applied{s.func(), {}};
  const Buffer moved = edited(buffer, [&](BufferNode& b) { b.scope = args.scope; });
  return Applied{with_body(s.func(), substitute_buffers(s.func()->body, {{buffer.get(), moved}})), {}};
}

}  // namespace

extern constinit const PrimitiveDef set_scope_def = define_primitive<SetScopeArgs, apply_set_scope>("set_scope", 1);

Result<> set_scope(Schedule& s, const SetScopeArgs& args) { return run<void>(s, set_scope_def, args); }

}  // namespace fettle
