// What language models are made of beside products. passes::lower_attention_layer makes other nodes of the layers
// before types are inferred. recognize_masks makes CausalMasks. TensorScatter updates a cache of keys or values.

#include <fmt/format.h>

#include <limits>

#include "graph/op.h"
#include "graph/op_util.h"
#include "graph/passes/lower_attention.h"

namespace fettle {
namespace {

using namespace ops;

// TensorScatter(cache, update, first or none): one write position a batch. Linear writes that would go beyond the end
// are dropped.
Types tensor_scatter_type(const Node& node) {
  FETTLE_TRY_VOID(check_rank(node, 0, 2));
  FETTLE_TRY_VOID(check_rank(node, 1, rank_of(node, 0), rank_of(node, 0)));
  FETTLE_TRY(const int64_t axis, axis_of(node, -2));
  if (axis == 0) return bad_attribute(node, "axis is 0, that of batches");
  const std::string mode = node.attrs.get_string("mode", "linear");
  if (mode != "linear" && mode != "circular")
    return bad_attribute(node, fmt::format("mode is \"{}\", not linear or circular", mode));
  const Shape &cache = shape_of(node, 0), &update = shape_of(node, 1);
  const auto a = static_cast<size_t>(axis);
  FETTLE_TRY_VOID(
      check_type(node, node.inputs[1], "update", {dtype_of(node, 0), with_replaced(cache, axis, update[a])}));
  if (cache[a].max() < update[a].min())
    return bad_types(node, fmt::format("{} are written to {} places", update[a].to_string(), cache[a].to_string()));
  note_not_negative(node, cache[a] - update[a], "places of the cache beyond those of the update");
  FETTLE_TRY_VOID(check_type(node, node.input(2), "write_indices", {kI64, {cache[0]}}));
  return same_type(node);
}
Tensors tensor_scatter(const Node& node, std::span<const te::Tensor> in) {
  FETTLE_TRY(const int64_t axis, axis_of(node, -2, in[0].rank()));
  const bool circular = node.attrs.get_string("mode", "linear") == "circular";
  const auto a = static_cast<size_t>(axis);
  const Expr places = divisor_expr(shape_of(node, 0)[a]), count = size_expr(shape_of(node, 1)[a]);
  return one(map_output(node, [&](const Indices& i) {
    Expr step = has_tensor(in, 2) ? i[a] - in[2](i[0]) : i[a];
    if (circular) step = floormod(step, places);
    Expr written = lt(step, count);
    if (!circular) written = logical_and(le(Expr(0), step), written);
    return select(written, in[1](with_replaced(i, axis, step)), in[0](i));
  }));
}

// CausalMask(x) {offset}: x[…, i, j] where j <= i + offset, else -inf. Of Fettle's own.
Types causal_mask_type(const Node& node) {
  FETTLE_TRY_VOID(check_rank(node, 0, 2));
  FETTLE_TRY(const auto offset, dims_param(node, 1, "offset"));
  if (!offset || offset->size() != 1) return bad_attribute(node, "offset must be one integer");
  if (!dtype_of(node, 0).is_float()) return bad_types(node, "what it hides is no floating-point number");
  return same_type(node);
}
Tensors causal_mask(const Node& node, std::span<const te::Tensor> in) {
  FETTLE_TRY(const auto offset, dims_param(node, 1, "offset"));
  return one(map_output(node, [&](const Indices& i) {
    const Expr x = in[0](i);
    return select(le(i.back(), i[i.size() - 2] + size_expr(offset->front())), x,
                  number(-std::numeric_limits<double>::infinity(), x));
  }));
}

constexpr OpDef layer(std::string_view name, InputCount inputs, int n_outputs) {
  return define(kOpaque, name, inputs, not_lowered, nullptr,
                {.lower = passes::lower_attention_layer, .n_outputs = n_outputs});
}
constexpr OpDef attention_defs[] = {
    layer("Attention", {3, 7}, 4),        // (q, k, v, mask, past_key, past_value, lengths) → (y, key, value, scores)
    layer("RotaryEmbedding", {3, 4}, 1),  // (x, cosines, sines, positions)
    define(kElementwise, "CausalMask", 1, causal_mask_type, causal_mask),
    define(kInjective, "TensorScatter", {2, 3}, tensor_scatter_type, tensor_scatter, {.work = kMoves}),
};

}  // namespace

extern constinit const OpFamily attention_ops{"attention", attention_defs};

}  // namespace fettle
