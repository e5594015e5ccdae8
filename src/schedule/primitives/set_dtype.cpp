#include "schedule/primitives/set_dtype.h"

#include "schedule/dataflow/dataflow.h"
#include "schedule/edit/inlining.h"
#include "schedule/edit/steps.h"

namespace fettle {
namespace {

// Whether all values of `narrow` are values of `wide`, both integers.
bool holds(DType wide, DType narrow) {
  if (!wide.is_int() || !narrow.is_int()) return false;
  if (wide.code == narrow.code) return wide.bits >= narrow.bits;
  return wide.code == TypeCode::kInt && wide.bits > narrow.bits;
}

// Loads convert back to the type that they had, stores to the new one. Where the new type holds all values of the old
// one, a conversion of what was loaded takes it as it is.
class Converter : public Mutator {
 public:
  Converter(Buffer from, Buffer to) : from_(std::move(from)), to_(std::move(to)) {}
  using Mutator::rewrite;
  Buffer rewrite(const Buffer& buffer) override { return buffer == from_ ? to_ : buffer; }
  Expr rewrite(const Expr& e) override {
    if (const auto* conversion = e.as<CastNode>(); conversion && holds(to_->dtype, from_->dtype))
      if (const auto* source = conversion->a.as<LoadNode>(); source && source->buffer == from_)
        return cast(e.dtype(), converted(*source));
    const auto* source = e.as<LoadNode>();
    if (!source || !(source->buffer == from_)) return Mutator::rewrite(e);
    return cast(from_->dtype, converted(*source));
  }
  Stmt rewrite(const Stmt& s) override {
    const auto* target = s ? s.as<StoreNode>() : nullptr;
    if (!target || !(target->buffer == from_)) return Mutator::rewrite(s);
    return store(to_, rewritten(target->indices), cast(to_->dtype, rewrite(target->value)), rewrite(target->mask));
  }

 private:
  Expr converted(const LoadNode& source) { return load(to_, rewritten(source.indices), rewrite(source.mask)); }
  std::vector<Expr> rewritten(std::vector<Expr> indices) {
    for (Expr& index : indices) index = rewrite(index);
    return indices;
  }
  Buffer from_, to_;
};

Result<Applied> apply_set_dtype(const Schedule& s, const SetDtypeArgs& args) {
  FETTLE_TRY(const Stmt stmt, s.block(args.block));
  const Func& func = s.func();
  const auto& block = *stmt.as<BlockNode>();
  FETTLE_TRY(const Buffer buffer, write_buffer(block, args.buffer_index));
  const auto dtype = parse_dtype(args.dtype);
  if (!dtype || dtype->is_vector() || !(dtype->is_int() || dtype->is_float()))
    return refused(ErrorCode::E241, func, &block, "\"{}\" is no type of numbers", args.dtype);
  if (is_param(func, buffer.get()))
    return refused(ErrorCode::E218, func, &block, "buffer {} is a parameter", buffer->name);
  if (!(buffer->dtype.is_int() || buffer->dtype.is_float()))
    return refused(ErrorCode::E241, func, &block, "{} does not hold numbers", buffer->name);
  if (takes_address(func->body, buffer.get()))
    return refused(ErrorCode::E242, func, &block, "an address of {} is taken", buffer->name);
  if (*dtype == buffer->dtype) return Applied{func, {}};
  const Buffer converted = edited(buffer, [&](BufferNode& b) { b.dtype = *dtype; });
  return Applied{with_body(func, Converter(buffer, converted).rewrite(func->body)), {}};
}

}  // namespace

extern constinit const PrimitiveDef set_dtype_def = define_primitive<SetDtypeArgs, apply_set_dtype>("set_dtype", 2);

Result<> set_dtype(Schedule& s, const SetDtypeArgs& args) { return run<void>(s, set_dtype_def, args); }

}  // namespace fettle
