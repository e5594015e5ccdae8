// Weights in blocks of few bits: each block of `block_size` steps of a row has a scale, and perhaps a zero point. Bytes
// hold 8 / bits numbers each, the first in the lowest bits.
//   UnpackBlocks(W u8 [N, blocks, bytes], scales [N, blocks], zero points [N, blocks]) {bits, block_size, k, zero}
//     → [N, k]
//   BlockedMatMul(A [… K], W, scales, zero points) {bits, block_size, zero} → A · unpacked(W)ᵀ, [… N]
// zero: the zero point of all blocks, where there is no list of them. Elements are (number - zero point) * scale. What
// is beyond k in the last block counts for nothing.

#include <fmt/format.h>

#include "graph/op_util.h"

namespace fettle {
namespace {

using namespace ops;

struct Blocks {
  int64_t bits, size;
  int64_t per_byte() const { return 8 / bits; }
  int64_t bytes() const { return size / per_byte(); }
};

// Inputs from `first` on: W, scales, zero points; k: of each row.
Result<Blocks> checked_blocks(const Node& node, size_t first, const Dim& k) {
  const Blocks blocks{node.attrs.get_int("bits", 4), node.attrs.get_int("block_size", 0)};
  if (blocks.bits != 2 && blocks.bits != 4 && blocks.bits != 8)
    return bad_attribute(node, fmt::format("bits is {}, not 2, 4 or 8", blocks.bits));
  if (blocks.size < 1 || blocks.size % blocks.per_byte() != 0)
    return bad_attribute(node, fmt::format("block_size is {}, which is no whole number of bytes", blocks.size));
  FETTLE_TRY_VOID(check_rank(node, first, 3, 3));
  const Shape& w = shape_of(node, first);
  if (dtype_of(node, first) != kU8) return bad_types(node, "the weights are of " + dtype_of(node, first).to_string());
  FETTLE_TRY_VOID(common_dim(node, ceildiv(k, blocks.size), w[1], "blocks of a row"));
  FETTLE_TRY_VOID(common_dim(node, Dim(blocks.bytes()), w[2], "bytes of a block"));
  for (const size_t i : {first + 1, first + 2}) {
    if (i == first + 2 && !has_input(node, i)) continue;
    FETTLE_TRY_VOID(check_rank(node, i, 2, 2));
    for (const size_t d : {0, 1})
      FETTLE_TRY_VOID(common_dim(node, w[d], shape_of(node, i)[d], "scales and zero points"));
  }
  if (!dtype_of(node, first + 1).is_float())
    return bad_types(node, "the scales are of " + dtype_of(node, first + 1).to_string());
  return blocks;
}

// The weight at byte `t` of a block, and in that the h-th number.
Expr weight(const Node& node, const Blocks& blocks, std::span<const te::Tensor> in, size_t first, DType dtype,
            const Expr& n, const Expr& b, const Expr& t, const Expr& h) {
  Expr number = cast(kI32, in[first](n, b, t));
  if (blocks.per_byte() > 1)
    number = binary(BinaryOp::kBitAnd, binary(BinaryOp::kShr, number, cast(kI32, h) * int_imm(blocks.bits, kI32)),
                    int_imm((int64_t{1} << blocks.bits) - 1, kI32));
  const Expr zero = has_tensor(in, first + 2) ? cast(dtype, in[first + 2](n, b))
                                              : constant(static_cast<double>(node.attrs.get_int("zero", 0)), dtype);
  return (cast(dtype, number) - zero) * cast(dtype, in[first + 1](n, b));
}

Types unpack_blocks_type(const Node& node) {
  const Dim k = node.attrs.get_int("k", 0);
  FETTLE_TRY_VOID(checked_blocks(node, 0, k));
  return one_type(dtype_of(node, 1), {shape_of(node, 0)[0], k});
}
Tensors unpack_blocks(const Node& node, std::span<const te::Tensor> in) {
  FETTLE_TRY(const Blocks blocks, checked_blocks(node, 0, output_shape(node)[1]));
  return one(map_output(node, [&](const Indices& i) {
    const Expr within = floormod(i[1], Expr(blocks.size));
    return weight(node, blocks, in, 0, output_dtype(node), i[0], floordiv(i[1], Expr(blocks.size)),
                  floordiv(within, Expr(blocks.per_byte())), floormod(within, Expr(blocks.per_byte())));
  }));
}

Types blocked_matmul_type(const Node& node) {
  FETTLE_TRY_VOID(check_rank(node, 0, 1));
  if (!dtype_of(node, 0).is_float()) return bad_types(node, "it multiplies " + dtype_of(node, 0).to_string());
  Shape shape = shape_of(node, 0);
  if (!shape.back().is_number()) return not_known(node, "the columns must be known");
  FETTLE_TRY_VOID(checked_blocks(node, 1, shape.back()));
  shape.back() = shape_of(node, 1)[0];
  return same_dtype(node, std::move(shape));
}
Tensors blocked_matmul(const Node& node, std::span<const te::Tensor> in) {
  const int64_t k = shape_of(node, 0).back().value();
  FETTLE_TRY(const Blocks blocks, checked_blocks(node, 1, k));
  const DType dtype = output_dtype(node);
  return one(reduce_over(
      te::sum, size_exprs(output_shape(node)),
      {te::reduce_axis(in[1].dim(1), "b"), te::reduce_axis(blocks.bytes(), "t"),
       te::reduce_axis(blocks.per_byte(), "h")},
      [&](const Indices& i, const Indices& r) {
        const Expr step = (r[0] * Expr(blocks.bytes()) + r[1]) * Expr(blocks.per_byte()) + r[2];
        Expr x = in[0](with_replaced(i, std::ssize(i) - 1, step));
        if (k % blocks.size != 0) x = select(lt(step, Expr(k)), x, constant(0, dtype));
        return x * weight(node, blocks, in, 1, dtype, i.back(), r[0], r[1], r[2]);
      },
      tensor_name(node)));
}

constexpr OpDef blocked_defs[] = {
    define(kInjective, "UnpackBlocks", {2, 3}, unpack_blocks_type, unpack_blocks),
    define(kComplexOutFusable, "BlockedMatMul", {3, 4}, blocked_matmul_type, blocked_matmul),
};

}  // namespace

extern constinit const OpFamily blocked_ops{"blocked", blocked_defs};

}  // namespace fettle
