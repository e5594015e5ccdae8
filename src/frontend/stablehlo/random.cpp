// Random numbers: the bits that XLA's generators give, and numbers that each call of the model draws anew.

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "frontend/stablehlo/elementwise.h"
#include "graph/op_util.h"

namespace fettle::stablehlo {
namespace {

using Words = std::vector<Value*>;  // of u32, the lowest first

Value* low_word(const Elements& e, Value* x) { return e.cast(x, kU32); }
Value* high_word(const Elements& e, Value* x) { return e.cast(e.shifted(x, -32), kU32); }
Value* joined(const Elements& e, Value* low, Value* high) {
  return e.bit_or(e.cast(low, kU64), e.shifted(e.cast(high, kU64), 32));
}

// Threefry of two words, twenty rounds (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011).
Words threefry(const Elements& e, Words x, const Words& key) {
  constexpr int kRotations[] = {13, 15, 26, 6, 17, 29, 16, 24};
  const Words keys{key[0], key[1], e.bit_xor(e.bit_xor(key[0], key[1]), e.whole(0x1BD11BDA, key[0]))};
  x = {e.add(x[0], keys[0]), e.add(x[1], keys[1])};
  for (int group = 0; group < 5; ++group) {
    for (int k = 0; k < 4; ++k) {
      const int by = kRotations[(group % 2) * 4 + k];
      x[0] = e.add(x[0], x[1]);
      x[1] = e.bit_xor(e.bit_or(e.shifted(x[1], by), e.shifted(x[1], by - 32)), x[0]);
    }
    const auto at = static_cast<size_t>(group);
    x[0] = e.add(x[0], keys[(at + 1) % 3]);
    x[1] = e.add(e.add(x[1], keys[(at + 2) % 3]), e.whole(at + 1, x[1]));
  }
  return x;
}

// Philox of four words, ten rounds (ibid.).
Words philox(const Elements& e, Words x, Words key) {
  const auto product = [&](Value* a, uint64_t by) {
    Value* wide = e.cast(a, kU64);
    return e.mul(wide, e.whole(by, wide));
  };
  for (int round = 0; round < 10; ++round) {
    Value *a = product(x[0], 0xD2511F53), *b = product(x[2], 0xCD9E8D57);
    x = {e.bit_xor(e.bit_xor(high_word(e, b), x[1]), key[0]), low_word(e, b),
         e.bit_xor(e.bit_xor(high_word(e, a), x[3]), key[1]), low_word(e, a)};
    key = {e.add(key[0], e.whole(0x9E3779B9, key[0])), e.add(key[1], e.whole(0xBB67AE85, key[1]))};
  }
  return x;
}

/// The generator's state as words of 64 bits, each a scalar.
Words read_state(OpImport& o, const Elements& e, Value* state) {
  Words words;
  const int64_t n = state->extent(0);
  const auto element = [&](int64_t k) { return o.g.reshape(o.g.slice(state, 0, k, k + 1), {}); };
  if (state->dtype() == kU64)
    for (int64_t k = 0; k < n; ++k) words.push_back(element(k));
  else
    for (int64_t k = 0; k + 1 < n; k += 2) words.push_back(joined(e, element(k), element(k + 1)));
  return words;
}
Value* write_state(OpImport& o, const Elements& e, const Words& words, DType dtype) {
  Words parts;
  for (Value* word : words) {
    if (dtype == kU64)
      parts.push_back(o.g.reshape(word, {1}));
    else
      for (Value* half : {low_word(e, word), high_word(e, word)}) parts.push_back(o.g.reshape(half, {1}));
  }
  return o.g("Concat", parts, {{{"axis", int64_t{0}}}});
}

// 0, 1, … in a shape, of 64 bits.
Value* count_up(OpImport& o, const Elements& e, const Shape& shape) {
  return e.cast(o.g.reshape(o.g.iota(element_count(shape)), shape), kU64);
}

// Two words a place: the halves of a shape, which lie side by side in it.
Value* threefry_bits(OpImport& o, const Elements& e, Words& state, const Shape& shape, bool wide) {
  const Words key{low_word(e, state[0]), high_word(e, state[0])};
  Shape half = shape;
  size_t split = 0;
  if (!wide) {
    if (shape.empty()) half = {1};
    const auto extent = [&](size_t d) { return half[d].value(); };
    while (split < half.size() && extent(split) % 2 != 0) ++split;
    if (split == half.size()) {
      split = 0;
      for (size_t d = 1; d < half.size(); ++d)
        if (extent(d) > extent(split)) split = d;
    }
    half[split] = (half[split].value() + 1) / 2;
  }
  Value* counter = e.add(count_up(o, e, half), state[1]);
  const Words made = threefry(e, {low_word(e, counter), high_word(e, counter)}, key);
  state[1] = e.add(state[1], e.whole(static_cast<uint64_t>(element_count(half).value()), state[1]));
  if (wide) return joined(e, made[0], made[1]);
  const auto axis = static_cast<int64_t>(split) + 1;
  Value* both = o.g("Concat", {o.g.unsqueeze(made[0], {axis}), o.g.unsqueeze(made[1], {axis})}, {{{"axis", axis}}});
  Shape whole = half;
  whole[split] = half[split] * 2;
  both = o.g.reshape(both, whole);
  if (shape.empty()) return o.g.reshape(o.g.slice(both, 0, 0, 1), {});
  return whole == shape ? both : o.g.slice(both, static_cast<int64_t>(split), 0, shape[split]);
}

// Four words a place, one after the other.
Value* philox_bits(OpImport& o, const Elements& e, Words& state, const Shape& shape, bool wide) {
  const Words key{low_word(e, state[0]), high_word(e, state[0])};
  const int64_t count = element_count(shape).value(), each = wide ? 2 : 4, places = (count + each - 1) / each;
  const bool has_high = state.size() > 2;
  Value *low = state[1], *high = has_high ? state[2] : state[0];  // of the counter
  const auto advance = [&](Value* by) {
    Value* sum = e.add(low, by);
    Value* carry = e.cast(e.less(sum, low), kU64);
    return std::pair(sum, e.add(high, carry));
  };
  const auto [at, above] = advance(count_up(o, e, {places}));
  Words made = philox(e, {low_word(e, at), high_word(e, at), low_word(e, above), high_word(e, above)}, key);
  const auto [next, next_high] = advance(e.whole(static_cast<uint64_t>(places), low));
  state[1] = next;
  if (has_high) state[2] = next_high;
  if (wide) made = {joined(e, made[0], made[1]), joined(e, made[2], made[3])};
  for (Value*& word : made) word = o.g.unsqueeze(word, {1});
  Value* all = o.g.reshape(o.g("Concat", made, {{{"axis", int64_t{1}}}}), {places * each});
  return o.g.reshape(o.g.slice(all, 0, 0, count), shape);
}

// (state) → (state, bits)
Result<Tensors> rng_bit_generator(OpImport& o) {
  const Elements e(o);
  FETTLE_TRY(Value * given, o.real(0));
  FETTLE_TRY(const Shape shape, o.result_shape(1));
  const DType dtype = o.result_dtype(1);
  if (given->rank() != 1 || !given->is_static() || (given->dtype() != kU64 && given->dtype() != kU32))
    return o.mistaken("its state is no list of unsigned numbers");
  Words state = read_state(o, e, given);
  FETTLE_TRY_VOID(o.g.status());
  const std::string algorithm = o.text("rng_algorithm");
  if (state.size() < 2 || state.size() > 3) return o.mistaken("its state is not of 2 or 3 words of 64 bits");
  if (element_count(shape) == Dim(0)) return Tensors{{given}, {o.expand(o.integer_constant(0, dtype), shape)}};
  const bool wide = dtype.bits == 64;
  Value* bits =
      algorithm == "THREE_FRY" ? threefry_bits(o, e, state, shape, wide) : philox_bits(o, e, state, shape, wide);
  Value* next = write_state(o, e, state, given->dtype());
  return Tensors{{next}, {e.bits(e.cast(bits, unsigned_of(dtype)), dtype)}};
}

// --- numbers that each call draws anew

/// Of [0, 1), or of mean 0 and deviation 1.
Result<Value*> drawn(OpImport& o, const char* op, const Shape& shape, DType dtype) {
  FETTLE_TRY(const Importer::Draw draw, o.importer.draw());
  Value* like = o.expand(o.number(0, dtype), shape);
  return o.g(op, {like, draw.calls}, {{{"stream", draw.stream}}});
}

// low + bits mod (high - low): of 64 bits, so no number is likelier than another by more than one in 2^64 / width.
Result<Value*> uniform_integers(OpImport& o, const Elements& e, Value* low, Value* high, const Shape& shape) {
  Value* bits = nullptr;
  for (const int64_t by : {32, 0}) {
    FETTLE_TRY(Value * fraction, drawn(o, "RandomUniformLike", shape, kF64));
    Value* half = e.shifted(e.cast(e.mul(fraction, o.number(0x1p32, kF64)), kU64), by);
    bits = bits ? e.bit_or(bits, half) : half;
  }
  const DType dtype = low->dtype(), as = unsigned_of(dtype);
  low = e.bits(low, as);
  Value* width = e.cast(e.sub(e.bits(high, as), low), kU64);
  return e.bits(e.add(e.cast(e.remainder(bits, width), as), low), dtype);
}

// low (1 - x) + high x, which rounds to no number outside of [low, high), and does not overflow. x has as many bits as
// the type's numbers below 1.
Result<Value*> uniform_floats(OpImport& o, const Elements& e, Value* low, Value* high, const Shape& shape) {
  const DType dtype = low->dtype(), as = dtype == kF64 ? kF64 : kF32;
  FETTLE_TRY(Value * x, drawn(o, "RandomUniformLike", shape, as));
  if (dtype != as) {
    Value* steps = o.number(std::ldexp(1, mantissa_bits(dtype) + 1), as);
    x = e.div(e.floor(e.mul(x, steps)), steps);
  }
  Value* rest = e.sub(o.number(1, as), x);
  Value* between = e.cast(e.add(e.mul(e.cast(low, as), rest), e.mul(e.cast(high, as), x)), dtype);
  return e.choose(e.both(e.less(between, high), e.greater(between, low)), between, low);
}

Result<Value*> normal_floats(OpImport& o, const Elements& e, Value* mean, Value* deviation, const Shape& shape) {
  const DType dtype = mean->dtype(), as = dtype == kF64 ? kF64 : kF32;
  FETTLE_TRY(Value * x, drawn(o, "RandomNormalLike", shape, as));
  return e.cast(e.add(e.cast(mean, as), e.mul(e.cast(deviation, as), x)), dtype);
}

// (a, b, shape): of [a, b), or of mean a and deviation b.
Result<Tensors> rng(OpImport& o) {
  const Elements e(o);
  if (o.in.size() != 3) return o.mistaken(fmt::format("it has {} operands", o.in.size()));
  FETTLE_TRY(Value * a, o.real(0));
  FETTLE_TRY(Value * b, o.real(1));
  FETTLE_TRY(Value * extents, o.real(2));
  const DType dtype = o.result_dtype();
  if (a->rank() != 0 || b->rank() != 0 || a->dtype() != dtype || b->dtype() != dtype)
    return o.mistaken("its bounds are no two numbers of the result's type");
  const Shape open = dims_of(o, extents);
  FETTLE_TRY(const Shape shape, o.result_shape(0, &open));
  const bool is_normal = o.text("rng_distribution") == "NORMAL";
  const bool is_float = dtype == kF16 || dtype == kBF16 || dtype == kF32 || dtype == kF64;
  const bool is_integer = dtype.is_int() && dtype.bits >= 8;
  if (!is_float && (is_normal || !is_integer))
    return o.refuse(fmt::format("{} numbers of type {}", is_normal ? "normal" : "uniform", dtype.to_string()));
  FETTLE_TRY_VOID(o.g.status());
  Result<Value*> made = is_normal    ? normal_floats(o, e, a, b, shape)
                        : is_integer ? uniform_integers(o, e, a, b, shape)
                                     : uniform_floats(o, e, a, b, shape);
  if (!made) return fail(std::move(made.error()));
  return Tensors{{*made}};
}

constexpr OpEntry kRandom[] = {
    {"stablehlo.rng", rng},
    {"stablehlo.rng_bit_generator", rng_bit_generator},
};

}  // namespace

extern constinit const OpEntries random_operators{kRandom};

}  // namespace fettle::stablehlo
