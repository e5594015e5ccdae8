// CHLO: what its operators are in terms of others.

#include <fmt/format.h>

#include <cmath>

#include "frontend/stablehlo/special_functions.h"
#include "graph/op_util.h"

namespace fettle::stablehlo {
namespace {

using Real = Value* (*)(const Elements& e, Value* x);
using RealPair = Value* (*)(const Elements& e, Value* a, Value* b);
using OfComplex = Complex (*)(const ComplexElements& c, const Complex& x);

template <Real F, OfComplex G = nullptr>
Result<Tensors> unary(OpImport& o) {
  const Elements e(o);
  if (o.in.size() != 1 || !o.in[0].re) return o.mistaken("it has not one operand");
  if (o.is_complex(0)) {
    if constexpr (G != nullptr) {
      const Complex made = G(ComplexElements(e), {o.in[0].re, o.in[0].im});
      return Tensors{{made.re, made.im}};
    }
    return o.refuse("of complex numbers");
  }
  return Tensors{{F(e, o.in[0].re)}};
}
template <RealPair F>
Result<Tensors> binary(OpImport& o) {
  const Elements e(o);
  FETTLE_TRY(Value * a, o.real(0));
  FETTLE_TRY(Value * b, o.real(1));
  return Tensors{{F(e, a, b)}};
}
template <Value* (SpecialFunctions::*F)(Value*) const>
Value* special(const Elements& e, Value* x) {
  return (SpecialFunctions(e).*F)(x);
}
template <Value* (SpecialFunctions::*F)(Value*, Value*) const>
Value* special(const Elements& e, Value* a, Value* b) {
  return (SpecialFunctions(e).*F)(a, b);
}
template <ops::Text Name>
Value* plain(const Elements& e, Value* x) {
  return e.op(Name.chars, {x});
}

// --- inverse and hyperbolic functions

Value* asinh(const Elements& e, Value* x) {
  // log(a + √(a² + 1)) of small a by log1p; of large ones log 2a.
  Value *a = e.abs(x), *one = e.number(1, x);
  Value* is_large = e.greater(a, e.number(1e8, x));
  Value* small = e.choose(is_large, one, a);
  Value* square = e.mul(small, small);
  Value* near = e.log1p(e.add(small, e.div(square, e.add(one, e.sqrt(e.add(square, one))))));
  Value* far = e.add(e.log(a), e.number(std::log(2.0), x));
  return e.with_sign(e.choose(is_large, far, near), x);
}
Value* acosh(const Elements& e, Value* x) {
  Value* is_large = e.greater(x, e.number(1e8, x));
  Value* t = e.sub(e.choose(is_large, e.number(2, x), x), e.number(1, x));
  Value* near = e.log1p(e.add(t, e.sqrt(e.mul(t, e.add(t, e.number(2, x))))));
  return e.choose(is_large, e.add(e.log(x), e.number(std::log(2.0), x)), near);
}
Value* atanh(const Elements& e, Value* x) { return e.mul(e.number(0.5, x), e.sub(e.log1p(x), e.log1p(e.neg(x)))); }
Complex one_of(const ComplexElements& c, const Elements& e, const Complex& like, double value) {
  return c.real(e.number(value, like.re));
}
Complex turned(const Elements& e, const Complex& x) { return {e.neg(x.im), x.re}; }       // i x
Complex turned_back(const Elements& e, const Complex& x) { return {x.im, e.neg(x.re)}; }  // -i x

Complex complex_asinh(const ComplexElements& c, const Complex& x) {
  const Elements& e = c.elements();
  // log(x + √(x² + 1)), of the half plane where nothing cancels
  Value* left = e.is_negative(x.re);
  const Complex a = c.choose(left, c.neg(x), x);
  const Complex one = one_of(c, e, a, 1);
  const Complex root = c.mul(c.sqrt(c.add(one, turned(e, a))), c.sqrt(c.sub(one, turned(e, a))));
  const Complex made = c.log(c.add(a, root));
  return c.choose(left, c.neg(made), made);
}
Complex complex_acosh(const ComplexElements& c, const Complex& x) {
  const Complex one = one_of(c, c.elements(), x, 1);
  return c.log(c.add(x, c.mul(c.sqrt(c.add(x, one)), c.sqrt(c.sub(x, one)))));
}
Complex complex_atanh(const ComplexElements& c, const Complex& x) {
  return c.scaled(c.sub(c.log1p(x), c.log1p(c.neg(x))), c.elements().number(0.5, x.re));
}
Complex complex_asin(const ComplexElements& c, const Complex& x) {
  const Elements& e = c.elements();
  return turned_back(e, complex_asinh(c, turned(e, x)));
}
Complex complex_acos(const ComplexElements& c, const Complex& x) {
  return c.sub(one_of(c, c.elements(), x, M_PI_2), complex_asin(c, x));
}
Complex complex_atan(const ComplexElements& c, const Complex& x) {
  const Elements& e = c.elements();
  return turned_back(e, complex_atanh(c, turned(e, x)));
}
Complex complex_sinh(const ComplexElements& c, const Complex& x) {
  const Elements& e = c.elements();
  return turned_back(e, c.sin(turned(e, x)));
}
Complex complex_cosh(const ComplexElements& c, const Complex& x) { return c.cos(turned(c.elements(), x)); }
Complex complex_tan(const ComplexElements& c, const Complex& x) { return c.tan(x); }
Complex complex_square(const ComplexElements& c, const Complex& x) { return c.mul(x, x); }
Complex conjugate(const ComplexElements& c, const Complex& x) { return c.conj(x); }

Value* own_sinh(const Elements& e, Value* x) { return e.sinh(x); }
Value* own_cosh(const Elements& e, Value* x) { return e.cosh(x); }
Value* square(const Elements& e, Value* x) { return e.mul(x, x); }
Value* itself(const Elements&, Value* x) { return x; }

Value* is_inf(const Elements& e, Value* x) { return e.equal(e.abs(x), e.number(INFINITY, x)); }
Value* is_pos_inf(const Elements& e, Value* x) { return e.equal(x, e.number(INFINITY, x)); }
Value* is_neg_inf(const Elements& e, Value* x) { return e.equal(x, e.number(-INFINITY, x)); }

// The next number towards another: one more or less in the order of floats' bits.
Value* next_after(const Elements& e, Value* from, Value* to) {
  const DType type = signed_of(from->dtype());
  const uint64_t sign = uint64_t{1} << (type.bits - 1);
  Value *as_int = e.bits(from, type), *zero = e.whole(0, as_int), *one = e.whole(1, as_int);
  Value* size = e.bit_and(as_int, e.whole(sign - 1, as_int));
  Value* away = e.op("Xor", {e.less(to, from), e.less(as_int, zero)});  // whether it comes nearer to zero
  Value* moved = e.choose(away, e.sub(as_int, one), e.add(as_int, one));
  // From zero, the least number of the other's sign.
  Value* least = e.bit_or(e.bit_and(e.bits(to, type), e.whole(sign, as_int)), one);
  Value* made = e.bits(e.choose(e.equal(size, zero), least, moved), from->dtype());
  made = e.choose(e.equal(from, to), to, made);
  return e.choose(e.either(e.is_nan(from), e.is_nan(to)), e.add(from, to), made);
}

// --- others

Result<Tensors> constant_like(OpImport& o) {
  const Attribute* attribute = find_attribute(o.op.attributes, "value");
  const Shape shape = o.in[0].re->shape();
  const DType dtype = o.result_dtype();
  Value* made = nullptr;
  if (const auto* real = attribute ? attribute->get_if<double>() : nullptr)
    made = o.number(*real, dtype);
  else if (const auto* whole = attribute ? attribute->get_if<int64_t>() : nullptr)
    made = dtype.is_float() ? o.number(static_cast<double>(*whole), dtype)
                            : o.integer_constant(static_cast<uint64_t>(*whole), dtype);
  else
    return o.refuse("its value is no number");
  Tensor result{o.expand(made, shape)};
  if (o.result_type().element.is_complex) result.im = o.expand(o.number(0, dtype), shape);
  return Tensors{result};
}

// The k largest along the last dim, and where they were; equal ones in their order.
Result<Tensors> top_k(OpImport& o) {
  FETTLE_TRY(Value * x, o.real(0));
  const int64_t axis = x->rank() - 1;
  const Elements e(o);
  Value* key = x->dtype().is_float() ? e.order_key(x) : x->dtype().is_bool() ? e.cast(x, kU8) : x;
  Attrs attrs{{"k", std::vector<int64_t>{o.integer("k")}}, {"axis", axis}, {"largest", int64_t{1}}};
  Value* places = o.g.many("TopK", {key}, std::move(attrs), 2)[1];
  return Tensors{{o.g("GatherElements", {x, places}, {{{"axis", axis}}})}, {e.cast(places, o.result_dtype(1))}};
}

// As the operator of the same name, of operands that broadcast: along the last dims, or where it says.
Result<Tensors> broadcasting(OpImport& o) {
  constexpr std::string_view kPrefix = "chlo.broadcast_";
  Op inner = o.op;
  inner.name = "stablehlo." + inner.name.substr(kPrefix.size());
  if (inner.name == "stablehlo.zeta" || inner.name == "stablehlo.polygamma" || inner.name == "stablehlo.next_after")
    inner.name = "chlo." + o.op.name.substr(kPrefix.size());
  const OpEntry* entry = find_entry(inner);
  if (!entry) return o.refuse(fmt::format("there is no {}", inner.name));
  Tensors operands = o.in;
  const Ints places = o.ints("broadcast_dimensions");
  size_t rank = 0;
  for (const Tensor& tensor : operands) rank = std::max(rank, tensor.re->shape().size());
  for (Tensor& tensor : operands)
    if (!places.empty() && tensor.re->shape().size() == places.size() && places.size() < rank)
      for_each_part(tensor, [&](Value*& part) {
        Shape wide(rank, Dim(1));
        for (size_t k = 0; k < places.size(); ++k) wide[static_cast<size_t>(places[k])] = part->shape()[k];
        part = o.g.reshape(part, wide);
      });
  FETTLE_TRY_VOID(o.g.status());
  OpImport made(o.importer, inner, std::move(operands));
  auto results = import_with(made, *entry);
  FETTLE_TRY_VOID(made.g.status());
  return results;
}

constexpr OpEntry kChlo[] = {
    {"chlo.acos", unary<plain<"Acos">, complex_acos>},
    {"chlo.acosh", unary<acosh, complex_acosh>},
    {"chlo.asin", unary<plain<"Asin">, complex_asin>},
    {"chlo.asinh", unary<asinh, complex_asinh>},
    {"chlo.atan", unary<plain<"Atan">, complex_atan>},
    {"chlo.atanh", unary<atanh, complex_atanh>},
    {"chlo.bessel_i1e", unary<special<&SpecialFunctions::bessel_i1e>>},
    {"chlo.broadcast_add", broadcasting},
    {"chlo.broadcast_and", broadcasting},
    {"chlo.broadcast_atan2", broadcasting},
    {"chlo.broadcast_compare", broadcasting},
    {"chlo.broadcast_complex", broadcasting},
    {"chlo.broadcast_divide", broadcasting},
    {"chlo.broadcast_maximum", broadcasting},
    {"chlo.broadcast_minimum", broadcasting},
    {"chlo.broadcast_multiply", broadcasting},
    {"chlo.broadcast_next_after", broadcasting},
    {"chlo.broadcast_or", broadcasting},
    {"chlo.broadcast_polygamma", broadcasting},
    {"chlo.broadcast_power", broadcasting},
    {"chlo.broadcast_remainder", broadcasting},
    {"chlo.broadcast_select", broadcasting},
    {"chlo.broadcast_shift_left", broadcasting},
    {"chlo.broadcast_shift_right_arithmetic", broadcasting},
    {"chlo.broadcast_shift_right_logical", broadcasting},
    {"chlo.broadcast_subtract", broadcasting},
    {"chlo.broadcast_xor", broadcasting},
    {"chlo.broadcast_zeta", broadcasting},
    {"chlo.conj", unary<itself, conjugate>},
    {"chlo.constant_like", constant_like},
    {"chlo.cosh", unary<own_cosh, complex_cosh>},
    {"chlo.digamma", unary<special<&SpecialFunctions::digamma>>},
    {"chlo.erf", unary<plain<"Erf">>},
    {"chlo.erf_inv", unary<special<&SpecialFunctions::erf_inv>>},
    {"chlo.erfc", unary<special<&SpecialFunctions::erfc>>},
    {"chlo.is_inf", unary<is_inf>},
    {"chlo.is_neg_inf", unary<is_neg_inf>},
    {"chlo.is_pos_inf", unary<is_pos_inf>},
    {"chlo.lgamma", unary<special<&SpecialFunctions::lgamma>>},
    {"chlo.next_after", binary<next_after>},
    {"chlo.polygamma", binary<special<&SpecialFunctions::polygamma>>},
    {"chlo.sinh", unary<own_sinh, complex_sinh>},
    {"chlo.square", unary<square, complex_square>},
    {"chlo.tan", unary<plain<"Tan">, complex_tan>},
    {"chlo.top_k", top_k},
    {"chlo.zeta", binary<special<&SpecialFunctions::zeta>>},
};

}  // namespace

extern constinit const OpEntries chlo_operators{kChlo};

}  // namespace fettle::stablehlo
