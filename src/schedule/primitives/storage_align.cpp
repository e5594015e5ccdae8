#include "schedule/primitives/storage_align.h"

#include <algorithm>

#include "schedule/dataflow/dataflow.h"
#include "schedule/edit/steps.h"

namespace fettle {
namespace {

Result<Applied> apply_storage_align(const Schedule& s, const StorageAlignArgs& args) {
  FETTLE_TRY(const Stmt stmt, s.block(args.block));
  const Func& func = s.func();
  const auto& block = *stmt.as<BlockNode>();
  FETTLE_TRY(const Buffer buffer, write_buffer(block, args.buffer_index));
  if (is_param(func, buffer.get()))
    return refused(ErrorCode::E218, func, &block, "buffer {} is a parameter", buffer->name);
  const auto rank = static_cast<int64_t>(buffer->shape.size());
  const int64_t axis = args.axis < 0 ? args.axis + rank : args.axis;
  if (axis < 0 || axis >= rank)
    return refused(ErrorCode::E220, func, &block, "{} has no dimension {}", buffer->name, std::to_string(args.axis));
  if (args.factor < 1 || args.offset < 0 || args.offset >= args.factor)
    return refused(ErrorCode::E202, func, &block, "factor must be at least 1, and offset in 0 to factor - 1");
  std::vector<Expr> strides(buffer->shape.size());
  int64_t stride = 1;
  for (int64_t d = rank - 1; d >= 0; --d) {
    const auto at = static_cast<size_t>(d);
    if (const int64_t* before = buffer->strides.empty() ? nullptr : as_int(buffer->strides[at]))
      stride = std::max(stride, *before);  // of an earlier storage_align
    if (d == axis) stride += floormod_int(args.offset - stride, args.factor);
    strides[at] = int_imm(stride);
    const int64_t* extent = as_int(buffer->shape[at]);
    if (!extent) return refused(ErrorCode::E221, func, &block, "of {}", buffer->name);
    if (__builtin_mul_overflow(stride, *extent, &stride))
      return refused(ErrorCode::E202, func, &block, "the size of {} overflows", buffer->name);
  }
  const Buffer aligned = edited(buffer, [&](BufferNode& b) { b.strides = std::move(strides); });
  return Applied{with_body(func, substitute_buffers(func->body, {{buffer.get(), aligned}})), {}};
}

}  // namespace

extern constinit const PrimitiveDef storage_align_def =
    define_primitive<StorageAlignArgs, apply_storage_align>("storage_align", 1);

Result<> storage_align(Schedule& s, const StorageAlignArgs& args) { return run<void>(s, storage_align_def, args); }

}  // namespace fettle
