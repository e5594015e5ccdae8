// Sums of products: dot_general, dot, einsum, convolution.

#include <fmt/format.h>

#include <algorithm>

#include "frontend/stablehlo/elementwise.h"
#include "graph/op_util.h"
#include "graph/ops/padding.h"
#include "graph/small_types.h"

namespace fettle::stablehlo {
namespace {

using ops::first_numbers;

// What products are made of: small types and truths as numbers that hold them, both of one type.
Value* as_number(const Elements& e, Value* x, DType result) {
  const DType dtype = x->dtype();
  if (dtype.is_small_float()) return e.cast(x, kF32);
  if (is_small(dtype)) return e.cast(x, dtype.code == TypeCode::kInt ? kI8 : kU8);
  return dtype.is_bool() ? e.cast(x, result.is_bool() ? kI32 : result) : x;
}

// Of real tensors, or of each pair of parts.
using Product = std::function<Result<Value*>(Value* a, Value* b)>;
Result<Tensors> of_products(OpImport& o, const Product& product) {
  if (o.in.size() < 2 || !o.in[0].re || !o.in[1].re) return o.mistaken("it has not two operands");
  const Elements e(o);
  const DType result = o.result_dtype();
  const auto made = [&](Value* a, Value* b) -> Result<Value*> {
    a = as_number(e, a, result);
    b = as_number(e, b, result);
    if (a->dtype() != b->dtype()) {
      // The wider of both, which holds the other.
      const DType wide = result.is_bool() ? kI32 : result;
      a = e.cast(a, wide);
      b = e.cast(b, wide);
    }
    return product(a, b);
  };
  const Tensor &a = o.in[0], &b = o.in[1];
  FETTLE_TRY(Value * re, made(a.re, b.re));
  if (!a.is_complex() && !b.is_complex()) return Tensors{{e.cast(re, result)}};
  Value *twice = nullptr, *im = nullptr;
  if (a.im && b.im) {
    FETTLE_TRY(twice, made(a.im, b.im));
  }
  if (b.im) {
    FETTLE_TRY(im, made(a.re, b.im));
  }
  if (a.im) {
    FETTLE_TRY(Value * other, made(a.im, b.re));
    im = im ? e.add(im, other) : other;
  }
  return Tensors{{twice ? e.sub(re, twice) : re, im}};
}

// "ab,bc->ac": what ONNX's Einsum says so, too.
Result<Tensors> einsum(OpImport& o) {
  const std::string equation = o.text("einsum_config");
  return of_products(
      o, [&](Value* a, Value* b) -> Result<Value*> { return o.g("Einsum", {a, b}, {{{"equation", equation}}}); });
}
// "ab->a": sums and diagonals, of each part by itself.
Result<Tensors> unary_einsum(OpImport& o) {
  if (o.in.size() != 1 || !o.in[0].re) return o.mistaken("it has not one operand");
  const Elements e(o);
  const DType result = o.result_dtype();
  Tensor made = o.in[0];
  for_each_part(made, [&](Value*& part) {
    Value* sum = o.g("Einsum", {as_number(e, part, result)}, {{{"equation", o.text("einsum_config")}}});
    part = e.cast(sum, result);
  });
  return Tensors{made};
}

Attrs product_attrs(OpImport& o) {
  const DType result = o.result_dtype();
  const bool is_number = (result.is_int() || result.is_float()) && !is_small(result);
  return {{"dtype", onnx_number(is_number ? result : result.is_small_float() ? kF32 : kI32)}};
}
// The type of one product, before it is converted to the result's.
TensorType product_type(OpImport& o, const Attrs& attrs) {
  const auto& extents = o.result_type().shape;
  return {*element_type(attrs.get_int("dtype", 0)), Shape(extents.begin(), extents.end())};
}

Result<Tensors> contracted(OpImport& o, const Ints& batch_a, const Ints& batch_b, const Ints& contracting_a,
                           const Ints& contracting_b) {
  Attrs attrs = product_attrs(o);
  attrs.set("batch_a", batch_a);
  attrs.set("batch_b", batch_b);
  attrs.set("contracting_a", contracting_a);
  attrs.set("contracting_b", contracting_b);
  return of_products(
      o, [&](Value* a, Value* b) { return o.add_one("fettle.Contraction", {a, b}, attrs, product_type(o, attrs)); });
}
Result<Tensors> dot_general(OpImport& o) {
  const Attributes* dims = o.fields("dot_dimension_numbers");
  if (!dims) return o.mistaken("it has no dot_dimension_numbers");
  return contracted(o, field_ints(dims, "lhs_batching_dimensions"), field_ints(dims, "rhs_batching_dimensions"),
                    field_ints(dims, "lhs_contracting_dimensions"), field_ints(dims, "rhs_contracting_dimensions"));
}
Result<Tensors> dot(OpImport& o) {
  if (o.in.empty() || !o.in[0].re || o.in[0].re->rank() == 0) return o.mistaken("of a scalar");
  return contracted(o, {}, {}, {o.in[0].re->rank() - 1}, {0});
}

// padding: [dim][before, after]
Result<Tensors> convolved(OpImport& o, const Ints& padding) {
  const Attributes* dims = o.fields("dimension_numbers");
  if (!dims) return o.mistaken("it has no dimension_numbers");
  const auto order = [&](const char* first, const char* second, const char* spatial) {
    Ints list{field_int(dims, first), field_int(dims, second)};
    return ops::joined(list, field_ints(dims, spatial));
  };
  const size_t n = field_ints(dims, "input_spatial_dimensions").size();
  const Ints ones(n, 1);
  Attrs attrs = product_attrs(o);
  attrs.set("image_dims", order("input_batch_dimension", "input_feature_dimension", "input_spatial_dimensions"));
  attrs.set("kernel_dims",
            order("kernel_output_feature_dimension", "kernel_input_feature_dimension", "kernel_spatial_dimensions"));
  attrs.set("output_dims", order("output_batch_dimension", "output_feature_dimension", "output_spatial_dimensions"));
  attrs.set("strides", o.ints("window_strides", ones));
  attrs.set("dilations", o.ints("rhs_dilation", ones));
  attrs.set("image_dilations", o.ints("lhs_dilation", ones));
  Ints pads(2 * n, 0);
  for (size_t d = 0; d < n && 2 * d + 1 < padding.size(); ++d) {
    pads[d] = padding[2 * d];
    pads[n + d] = padding[2 * d + 1];
  }
  attrs.set("pads", pads);
  attrs.set("window_reversal", o.ints("window_reversal", Ints(n, 0)));
  attrs.set("group", o.integer("feature_group_count", 1));
  attrs.set("batch_group", o.integer("batch_group_count", 1));
  return of_products(
      o, [&](Value* a, Value* b) { return o.add_one("fettle.Convolution", {a, b}, attrs, product_type(o, attrs)); });
}
Result<Tensors> convolution(OpImport& o) { return convolved(o, o.ints("padding")); }
// (image, kernel, padding)
Result<Tensors> dynamic_conv(OpImport& o) {
  FETTLE_TRY(const Shape padding, sizes_of(o, 2));
  if (const auto numbers = static_shape(padding)) return convolved(o, *numbers);
  // Sizes surround the image before it is convolved.
  const Ints space = field_ints(o.fields("dimension_numbers"), "input_spatial_dimensions");
  const auto dilations = o.ints("lhs_dilation");
  if (std::ranges::any_of(dilations, [](int64_t n) { return n != 1; }))
    return fail(ErrorCode::E604, "an amount of padding of a dilated image is not known");
  if (padding.size() != 2 * space.size()) return o.mistaken("its padding is not of as many dims as the image");
  for_each_part(o.in[0], [&](Value*& part) {
    Shape before(part->shape().size(), 0), after = before;
    for (size_t k = 0; k < space.size(); ++k) {
      if (space[k] < 0 || space[k] >= std::ssize(before)) continue;  // what convolved() refuses
      before[static_cast<size_t>(space[k])] = padding[2 * k];
      after[static_cast<size_t>(space[k])] = padding[2 * k + 1];
    }
    part = ops::padded(o.g, part, before, after, o.number(0, part->dtype()));
  });
  return convolved(o, {});
}

constexpr OpEntry kProducts[] = {
    {"stablehlo.convolution", convolution},   {"stablehlo.dot", dot},       {"stablehlo.dot_general", dot_general},
    {"stablehlo.dynamic_conv", dynamic_conv}, {"stablehlo.einsum", einsum}, {"stablehlo.unary_einsum", unary_einsum},
};

}  // namespace

extern constinit const OpEntries product_operators{kProducts};

}  // namespace fettle::stablehlo
