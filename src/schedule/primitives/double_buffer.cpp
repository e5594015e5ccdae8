#include "schedule/primitives/double_buffer.h"

#include <algorithm>

#include "analysis/dependence.h"
#include "ir/annotations.h"
#include "schedule/arguments.h"
#include "schedule/dataflow/dataflow.h"
#include "schedule/edit/steps.h"

namespace fettle {
namespace {

Result<Applied> apply_double_buffer(const Schedule& s, const DoubleBufferArgs& args) {
  FETTLE_TRY(const Stmt stmt, s.block(args.block));
  const Func& func = s.func();
  const auto& block = *stmt.as<BlockNode>();
  FETTLE_TRY(const Buffer buffer, write_buffer(block, args.write_index));
  if (is_param(func, buffer.get()))
    return refused(ErrorCode::E218, func, &block, "buffer {} is a parameter", buffer->name);
  const BlockNode* scope = enclosing_block(func, &block);
  FETTLE_TRY_VOID(check_complete(ErrorCode::E211, func, block, *scope, false));
  const std::vector<const BlockNode*> readers = consumers_of(*scope, buffer.get());
  std::vector<const ForNode*> shared = loops_around(func, &block);
  for (const BlockNode* reader : readers)
    std::erase_if(shared, [&](const ForNode* loop) {
      return !path_to(loop->body, &block).empty() && path_to(loop->body, reader).empty();
    });
  if (readers.empty() || shared.empty())
    return refused(ErrorCode::E207, func, &block, "no loop encloses block {} and those who read {}", block.name,
                   buffer->name);
  for (const BlockNode* reader : readers)
    if (auto made = check_made_in_iteration(func, *shared.back(), block.name, reader->name, buffer); !made)
      return refused(ErrorCode::E227, func, reader, "{}", made.error().message);
  const Stmt annotated = with(block, [&](BlockNode& b) { b.annotations.set(kDoubleBufferKey, args.write_index); });
  return Applied{replace_in(func, &block, annotated), {}};
}

}  // namespace

extern constinit const PrimitiveDef double_buffer_def =
    define_primitive<DoubleBufferArgs, apply_double_buffer>("double_buffer", 1);

Result<> double_buffer(Schedule& s, const DoubleBufferArgs& args) { return run<void>(s, double_buffer_def, args); }

}  // namespace fettle
