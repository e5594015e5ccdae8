// Products of single precision as sums of products of bf16, which matrix units take. Each operand is a sum of parts:
//   x = x0 + x1 + x2     x0 = bf16(x), x1 = bf16(x - x0), x2 = bf16(x - x0 - x1)
// (Henry, Tang, Heinecke: Leveraging the bfloat16 Artificial Intelligence Datatype For Higher-Precision Computations,
// 2019.)
//   for i, j, k: C[i, j] += A[i, k] * B[k, j]
//     →  for p, i, k:       C_data[p, i, k] = part p of A[i, k]                 zero beyond the last row and step
//        for q, k, j:       C_weights[q, k, j] = part q of B[k, j]              zero beyond the last step and column
//        for c, i, j, t, k: C_product[c, i, j] += f32(C_data[a(t), i, c*L + k]) * f32(C_weights[b(t), c*L + k, j])
//        for i, j, c:       C_total[i, j] += C_product[c, i, j]
//        for i, l, k:       C_peaks[i, l] max= bits(A[i, k*16 + l])            of |x|, as an unsigned number
//        for l, i:          C_peak_lanes[l] max= C_peaks[i, l]                 and C_peak[0] of these
//        for k, j:          C_weights_peak[0] max= bits(B[k, j])
//        for i0, j, i1:     C_least[i0, j] max= -bits(C_total[i0*R + i1, j])   modulo 2^32: 0 remains 0
//        for i0, j0, j1:    C_doubt[i0, j0] max= max(C_least[i0, j0*S + j1], a peak out of range ? 2^32 - 1 : 0)
//        for i, j, k:       C_written[i, j] += select(C_doubt[i // R, j // S] > limit, A[i, k], 0) * B[k, j]
//        for i, j:          C[i, j] = select(C_doubt[i // R, j // S] > limit, C_written[i, j], C_total[i, j])
// (Other dimensions of the operands come before these, whatever their orders are.)
// numbers: [terms, L, R, S]: 6 or 3 products of parts; L: the steps of one sum, cut from the longest reduction that
// both operands have an index for; other reductions join a sum as far as it stays within kMostSummed steps. R, S: rows
// and columns of a tile, which is computed as it was written where a result is in doubt. Where one sum has all steps,
// there is no C_total.
// The six terms are x0y2, x0y1, x1y1, x1y0, x0y0, x2y0, the three x0y1, x0y0, x1y0: neighbours share a part.
// In doubt are all tiles where an element of an operand is 2^38 or more, infinite or NaN, or where all are less than
// 2^-64; and a tile of which a result is less than 2^-64 without being zero. So nothing overflows. Parts of small
// numbers may be denormal, which matrix units take for zero: each is less than 2^-126 off, and times 2^38 that is
// nothing beside 2^-64. (What is lost are sums of denormal numbers alone in rows beside others, which are zero.)
// Pattern: a sum in a plain nest of the product of two loads, f32, of constant extents. One operand (A) depends on an
// output dimension that the other (B) does not depend on, and B has an index for the output's last dimension. Any
// orientation, batches, convolutions in any layout.
// Returns the blocks in the order above; the last has the old one's name. Class: approximate. The bound says what is
// left out: 6 terms: x1y2, x2y1, x2y2, at most 2^-23 of |xy|; 3 terms: x1y1 and the third parts, 3 * 2^-16 of it.
// (x1 is at most 2^-8 of x, x2 2^-16 of it, and the sum of three parts is x.) The order of the sums differs, too, as
// for a reassociating kind. Their chains are shorter than the one that they replace.

#include <algorithm>
#include <optional>

#include "ir/annotations.h"
#include "ir/visit.h"
#include "schedule/dataflow/combiner.h"
#include "schedule/dataflow/dataflow.h"
#include "schedule/dataflow/plain_nest.h"
#include "schedule/reformulate/part_blocks.h"
#include "schedule/reformulate/reduction_pattern.h"
#include "schedule/reformulation.h"

namespace fettle {
namespace {

// Beyond so many steps a chain of sums in single precision rounds more than what it replaces.
constexpr int64_t kMostSummed = 512;
// The bits of |x| below which numbers are small, and from which on they are large: 2^-64, 2^38.
constexpr int64_t kSmall = int64_t{127 - 64} << 23, kLarge = int64_t{127 + 38} << 23;
constexpr int64_t kLimit = (int64_t{1} << 32) - kSmall, kAlways = (int64_t{1} << 32) - 1;
constexpr int64_t kPeakLanes = 16;  // largest numbers are looked for in so many places at once

struct Term {
  int64_t a, b;  // numbers of parts
};
constexpr Term kSix[] = {{0, 2}, {0, 1}, {1, 1}, {1, 0}, {0, 0}, {2, 0}}, kThree[] = {{0, 1}, {0, 0}, {1, 0}};

struct Numbers {
  std::span<const Term> terms;
  int64_t parts = 0, steps = 0, rows = 0, columns = 0;
};
Result<Numbers> numbers_of(std::span<const int64_t> given) {
  if (given.size() != 4 || (given[0] != 6 && given[0] != 3) || std::ranges::any_of(given, [](auto n) { return n < 1; }))
    return pattern_differs("it takes 6 or 3 terms, steps of a sum, and rows and columns of a tile, all at least 1");
  return Numbers{given[0] == 6 ? std::span<const Term>(kSix) : kThree, given[0] == 6 ? 3 : 2, given[1], given[2],
                 given[3]};
}

// What the iterators are for, by their number.
struct Roles {
  const LoadNode *a = nullptr, *b = nullptr;
  std::vector<size_t> outputs;  // spatial ones, in the order of the output's dimensions
  size_t row = 0, column = 0, depth = 0;
  std::vector<size_t> outer, inner;  // other reductions: a sum for each iteration; inside of one
};

bool uses(const LoadNode& load, const IterVar& iter) {
  return std::ranges::any_of(load.indices, [&](const Expr& index) { return uses_var(index, iter.var.get()); });
}
// The dimension whose index is the iterator itself, which no other index has.
std::optional<size_t> dimension_of(const LoadNode& load, const IterVar& iter) {
  std::optional<size_t> found;
  for (size_t d = 0; d < load.indices.size(); ++d) {
    if (!uses_var(load.indices[d], iter.var.get())) continue;
    if (found || load.indices[d].get() != iter.var.get()) return {};
    found = d;
  }
  return found;
}

Result<Roles> roles_of(const BlockNode& block, const Combiner& combiner, int64_t steps) {
  const auto* product = combiner.term.as<BinaryNode>();
  if (combiner.op != BinaryOp::kAdd || !product || product->op != BinaryOp::kMul)
    return pattern_differs("the block is no sum of products");
  Roles roles{.a = product->a.as<LoadNode>(), .b = product->b.as<LoadNode>()};
  if (!roles.a || !roles.b || roles.a->buffer == roles.b->buffer)
    return pattern_differs("the factors are no elements of two buffers");
  for (const Buffer& buffer : {roles.a->buffer, roles.b->buffer, combiner.update->buffer})
    if (buffer->dtype != kF32) return pattern_differs(buffer->name + " is not f32");
  for (const IterVar& iter : block.iters)
    if (!as_int(iter.extent)) return pattern_differs("the extent of " + iter.var->name + " is not a constant");

  for (const Expr& index : combiner.update->indices) {
    const auto at = std::ranges::find_if(block.iters, [&](const IterVar& i) { return i.var.get() == index.get(); });
    if (at == block.iters.end()) return pattern_differs("an index of the output is no iterator");
    roles.outputs.push_back(static_cast<size_t>(at - block.iters.begin()));
  }
  if (roles.outputs.empty()) return pattern_differs("there is one result");
  roles.column = roles.outputs.back();
  const IterVar& column = block.iters[roles.column];
  if (uses(*roles.a, column)) std::swap(roles.a, roles.b);
  if (uses(*roles.a, column) || !dimension_of(*roles.b, column))
    return pattern_differs("the output's last dimension is no index of one operand alone");
  std::optional<size_t> row, depth;
  for (const size_t i : roles.outputs)
    if (uses(*roles.a, block.iters[i]) && !uses(*roles.b, block.iters[i])) row = i;
  if (!row) return pattern_differs("no other dimension of the output is an index of the other operand alone");
  roles.row = *row;

  for (size_t i = 0; i < block.iters.size(); ++i) {
    const IterVar& iter = block.iters[i];
    if (iter.kind != IterKind::kReduce || !dimension_of(*roles.a, iter) || !dimension_of(*roles.b, iter)) continue;
    if (!depth || *as_int(iter.extent) > *as_int(block.iters[*depth].extent)) depth = i;
  }
  if (!depth) return pattern_differs("no reduction is an index of both operands");
  roles.depth = *depth;
  int64_t summed = steps;
  for (size_t i = block.iters.size(); i-- > 0;) {
    const IterVar& iter = block.iters[i];
    const bool reduces = iter.kind == IterKind::kReduce;
    if (!reduces && std::ranges::find(roles.outputs, i) == roles.outputs.end())
      return pattern_differs(iter.var->name + " is neither of the output nor of the reduction");
    if (!reduces || i == *depth) continue;
    const bool joins = roles.outer.empty() && summed * *as_int(iter.extent) <= kMostSummed;
    if (joins) summed *= *as_int(iter.extent);
    std::vector<size_t>& list = joins ? roles.inner : roles.outer;
    list.insert(list.begin(), i);
  }
  return roles;
}

int64_t round_up(int64_t n, int64_t to) { return (n + to - 1) / to * to; }

// options[number]
Expr chosen(const Expr& number, const std::vector<Expr>& options) {
  Expr result = options.back();
  for (size_t i = options.size() - 1; i-- > 0;)
    result = select(eq(number, static_cast<int64_t>(i)), options[i], result);
  return result;
}

// Part number `part` of x, of so many.
Expr part_of_number(const Expr& part, const Expr& x, int64_t parts) {
  std::vector<Expr> options;
  Expr rest = x;
  for (int64_t p = 0; p < parts; ++p) {
    options.push_back(cast(kBF16, rest));
    rest = rest - cast(kF32, options.back());
  }
  return chosen(part, options);
}

class Splitter {
 public:
  Splitter(const Func& func, const BlockNode& block, const Numbers& n, const Roles& roles, const StoreNode& update)
      : block_(block), n_(n), roles_(roles), update_(update), make_(func, block) {
    depth_ = *as_int(block.iters[roles.depth].extent);
    chunks_ = (depth_ + n.steps - 1) / n.steps;
  }

  Reformulated run(const PlainNest& nest) {
    const Parts data = parts(*roles_.a, "_data", kDataRole, {roles_.row, roles_.depth});
    const Parts weights = parts(*roles_.b, "_weights", kWeightsRole, {roles_.depth, roles_.column});
    const Buffer data_peak = peak_of_data(), weights_peak = peak_of_weights();
    const Buffer total = totals(product(data, weights));
    const Buffer doubt = doubts(total, data_peak, weights_peak);
    const Buffer written = as_written(doubt);
    Iters iters = outputs();
    std::vector<Expr> at = indices(iters);
    make_.finish(block_.name, iters, {}, {},
                 store(update_.buffer, at, select(is_doubtful(doubt, iters), load(written, at), load(total, at))), {});
    // 2^-23 and 3 * 2^-16, and what terms of higher order add.
    return {make_.result(nest), make_.names(), n_.parts == 3 ? 1.01 : 385};
  }

 private:
  using Iters = std::vector<IterVar>;

  IterVar like(size_t number) const {
    const IterVar& iter = block_.iters[number];
    return {make_var(iter.var->name), iter.extent, iter.kind, nullptr};
  }
  Iters like(const std::vector<size_t>& numbers) const {
    Iters iters;
    for (const size_t i : numbers) iters.push_back(like(i));
    return iters;
  }
  Iters outputs() const { return like(roles_.outputs); }
  static std::vector<Expr> indices(const Iters& iters) {
    std::vector<Expr> result;
    for (const IterVar& iter : iters) result.push_back(iter.var);
    return result;
  }
  size_t output_of(size_t number) const {
    return static_cast<size_t>(std::ranges::find(roles_.outputs, number) - roles_.outputs.begin());
  }
  int64_t extent(size_t number) const { return *as_int(block_.iters[number].extent); }
  // As the parts and their products have it: whole tiles, whole sums.
  int64_t padded(size_t number) const {
    if (number == roles_.row) return round_up(extent(number), n_.rows);
    if (number == roles_.column) return round_up(extent(number), n_.columns);
    return number == roles_.depth ? chunks_ * n_.steps : extent(number);
  }

  // As large as the padded iterators reach. The dimensions of `last` come last.
  struct Parts {
    Buffer buffer;
    std::vector<size_t> order;  // of the operand's dimensions
  };
  Parts parts(const LoadNode& operand, const std::string& suffix, std::string_view role,
              const std::vector<size_t>& last) {
    Analyzer analyzer;
    for (size_t i = 0; i < block_.iters.size(); ++i) analyzer.bind(block_.iters[i].var, 0, padded(i));
    Parts result;
    for (size_t d = 0; d < operand.indices.size(); ++d)
      if (std::ranges::none_of(last, [&](size_t i) { return uses_iter(operand, d, i); })) result.order.push_back(d);
    for (const size_t i : last)
      for (size_t d = 0; d < operand.indices.size(); ++d)
        if (uses_iter(operand, d, i)) result.order.push_back(d);
    Iters iters = {{make_var("vp"), n_.parts, IterKind::kSpatial, nullptr}};
    std::vector<Expr> from(operand.indices.size());
    Expr inside;
    for (const size_t d : result.order) {
      const int64_t reached = analyzer.int_bounds(operand.indices[d]).max + 1;
      const IterVar iter{make_var("v" + std::to_string(d)), reached, IterKind::kSpatial, nullptr};
      const int64_t* known = as_int(operand.buffer->shape[d]);
      if (!known || *known < reached) inside = logical_and(inside, lt(iter.var, operand.buffer->shape[d]));
      from[d] = iter.var;
      iters.push_back(iter);
    }
    const std::vector<Expr> at = indices(iters);
    Expr x = load(operand.buffer, from);
    if (inside) x = select(call("likely", {inside}, kBool), x, constant(0, kF32));
    result.buffer = make_.add(suffix, role, iters, at, part_of_number(at[0], x, n_.parts));
    return result;
  }
  bool uses_iter(const LoadNode& load, size_t dimension, size_t iter) const {
    return uses_var(load.indices[dimension], block_.iters[iter].var.get());
  }

  struct Product {
    Buffer buffer;
    bool cut = false;  // there are several sums
  };
  Product product(const Parts& data, const Parts& weights) {
    Iters spatial = like(roles_.outer);
    for (IterVar& iter : spatial) iter.kind = IterKind::kSpatial;
    VarMap values;
    for (size_t i = 0; i < spatial.size(); ++i) values[block_.iters[roles_.outer[i]].var.get()] = spatial[i].var;
    if (chunks_ > 1) spatial.push_back({make_var("vc"), chunks_, IterKind::kSpatial, nullptr});
    const Expr chunk = chunks_ > 1 ? Expr(spatial.back().var) : Expr(0);
    const bool cut = !spatial.empty();
    for (const size_t i : roles_.outputs) {
      spatial.push_back(like(i));
      spatial.back().extent = padded(i);
      values[block_.iters[i].var.get()] = spatial.back().var;
    }
    const std::vector<Expr> at = indices(spatial);
    Iters iters = spatial;
    const IterVar term{make_var("vt"), static_cast<int64_t>(n_.terms.size()), IterKind::kReduce, nullptr};
    for (const size_t i : roles_.inner) {
      iters.push_back(like(i));
      values[block_.iters[i].var.get()] = iters.back().var;
    }
    IterVar depth = like(roles_.depth);
    depth.extent = n_.steps;
    values[block_.iters[roles_.depth].var.get()] = simplify(chunk * n_.steps + depth.var);
    iters.push_back(term);
    iters.push_back(depth);
    std::vector<Expr> of_a, of_b;
    for (const Term& t : n_.terms) {
      of_a.push_back(t.a);
      of_b.push_back(t.b);
    }
    const auto factor = [&](const Parts& parts, const std::vector<Expr>& numbers, const LoadNode& operand) {
      std::vector<Expr> index = {chosen(term.var, numbers)};
      for (const size_t d : parts.order) index.push_back(substitute(operand.indices[d], values));
      return cast(kF32, load(parts.buffer, index));
    };
    return {make_.add("_product", kProductRole, iters, at,
                      factor(data, of_a, *roles_.a) * factor(weights, of_b, *roles_.b), Reduces{}),
            cut};
  }

  Buffer totals(const Product& product) {
    if (!product.cut) return product.buffer;
    Iters sums = like(roles_.outer), iters = outputs();
    if (chunks_ > 1) sums.push_back({make_var("vc"), chunks_, IterKind::kReduce, nullptr});
    const std::vector<Expr> at = indices(iters);
    std::vector<Expr> from = indices(sums);
    from.insert(from.end(), at.begin(), at.end());
    iters.insert(iters.end(), sums.begin(), sums.end());
    return make_.add("_total", kOutputsRole, iters, at, load(product.buffer, from), Reduces{});
  }

  static Expr bits(const Expr& x) {
    return binary(BinaryOp::kBitAnd, call("bitcast", {x}, kU32), int_imm(0x7fffffff, kU32));
  }
  static IterVar reduce(const std::string& name, const Expr& extent) {
    return {make_var(name), extent, IterKind::kReduce, nullptr};
  }
  static Expr zero_beyond(const Expr& x, const Expr& at, const Expr& end) {
    return select(call("likely", {lt(at, end)}, kBool), x, constant(0, kU32));
  }

  // The largest |x| of an operand, as bits: in lanes along the depth first, where it is not constant.
  Buffer peak_of_data() {
    const LoadNode& a = *roles_.a;
    const size_t along = *dimension_of(a, block_.iters[roles_.depth]);
    const Expr whole = a.buffer->shape[along];
    Iters iters;
    std::vector<Expr> from;
    for (size_t d = 0; d < a.indices.size(); ++d) {
      from.push_back(nullptr);
      if (d == along) continue;
      iters.push_back({make_var("v" + std::to_string(d)), a.buffer->shape[d], IterKind::kSpatial, nullptr});
      from[d] = iters.back().var;
    }
    const size_t rows = iters.size();
    const IterVar lane{make_var("vl"), kPeakLanes, IterKind::kSpatial, nullptr};
    iters.push_back(lane);
    const std::vector<Expr> at = indices(iters);
    iters.push_back(reduce("vr", simplify(floordiv(whole + (kPeakLanes - 1), kPeakLanes))));
    from[along] = Expr(iters.back().var) * kPeakLanes + lane.var;
    Expr x = bits(load(a.buffer, from));
    const int64_t* known = as_int(whole);
    if (!known || *known % kPeakLanes != 0) x = zero_beyond(x, from[along], whole);
    const Buffer peaks = make_.add("_peaks", kDataRole, iters, at, x, Reduces{BinaryOp::kMax});

    Iters by_lane = {{make_var("vl"), kPeakLanes, IterKind::kSpatial, nullptr}};
    const std::vector<Expr> lane_at = indices(by_lane);
    std::vector<Expr> row;
    for (size_t i = 0; i < rows; ++i) {
      by_lane.push_back(reduce(iters[i].var->name, iters[i].extent));
      row.push_back(by_lane.back().var);
    }
    row.push_back(lane_at[0]);
    const Buffer lanes =
        make_.add("_peak_lanes", kDataRole, by_lane, lane_at, load(peaks, row), Reduces{BinaryOp::kMax});

    const IterVar one{make_var("vz"), 1, IterKind::kSpatial, nullptr}, over = reduce("vl", kPeakLanes);
    return make_.add("_peak", kDataRole, {one, over}, {one.var}, load(lanes, {over.var}), Reduces{BinaryOp::kMax});
  }
  Buffer peak_of_weights() {
    Iters iters = {{make_var("vz"), 1, IterKind::kSpatial, nullptr}};
    const std::vector<Expr> at = indices(iters);
    std::vector<Expr> from;
    for (const Expr& extent : roles_.b->buffer->shape) {
      iters.push_back(reduce("v" + std::to_string(from.size()), extent));
      from.push_back(iters.back().var);
    }
    return make_.add("_weights_peak", kWeightsRole, iters, at, bits(load(roles_.b->buffer, from)),
                     Reduces{BinaryOp::kMax});
  }

  // The largest over `size` neighbours along output dimension number `dimension` of what `value` gives.
  template <class Value>
  Buffer largest(const std::string& suffix, Iters iters, size_t dimension, int64_t size, const Value& value) {
    IterVar& tile = iters[dimension];
    const int64_t whole = *as_int(tile.extent);
    tile.extent = (whole + size - 1) / size;
    const IterVar inside = reduce("vr", size);
    const std::vector<Expr> at = indices(iters);
    std::vector<Expr> from = at;
    from[dimension] = Expr(tile.var) * size + inside.var;
    Expr x = value(from);
    if (whole % size != 0) x = zero_beyond(x, from[dimension], whole);
    iters.push_back(inside);
    return make_.add(suffix, kOutputsRole, iters, at, x, Reduces{BinaryOp::kMax});
  }
  Buffer doubts(const Buffer& total, const Buffer& data_peak, const Buffer& weights_peak) {
    Iters iters = outputs();
    const size_t row = output_of(roles_.row), column = output_of(roles_.column);
    const Buffer least = largest("_least", iters, row, n_.rows,
                                 [&](const std::vector<Expr>& at) { return int_imm(0, kU32) - bits(load(total, at)); });
    iters = outputs();
    iters[row].extent = least->shape[row];
    const auto out_of_range = [](const Expr& peak) {
      return logical_or(le(int_imm(kLarge, kU32), peak),
                        logical_and(ne(peak, int_imm(0, kU32)), lt(peak, int_imm(kSmall, kU32))));
    };
    const Expr always = logical_or(out_of_range(load(data_peak, {0})), out_of_range(load(weights_peak, {0})));
    return largest("_doubt", iters, column, n_.columns, [&](const std::vector<Expr>& at) {
      return max(load(least, at), select(always, int_imm(kAlways, kU32), int_imm(0, kU32)));
    });
  }
  Expr is_doubtful(const Buffer& doubt, const Iters& outputs) const {
    std::vector<Expr> at = indices(outputs);
    Expr& row = at[output_of(roles_.row)];
    row = floordiv(row, n_.rows);
    at.back() = floordiv(at.back(), n_.columns);
    return lt(int_imm(kLimit, kU32), load(doubt, at));
  }
  Buffer as_written(const Buffer& doubt) {
    Iters iters = outputs();
    const std::vector<Expr> at = indices(iters);
    const Expr doubtful = is_doubtful(doubt, iters);
    VarMap values;
    for (size_t i = 0; i < iters.size(); ++i) values[block_.iters[roles_.outputs[i]].var.get()] = iters[i].var;
    for (size_t i = 0; i < block_.iters.size(); ++i)
      if (block_.iters[i].kind == IterKind::kReduce) {
        iters.push_back(like(i));
        values[block_.iters[i].var.get()] = iters.back().var;
      }
    const Expr a = substitute(Expr(Ref<const LoadNode>(roles_.a)), values);
    const Expr b = substitute(Expr(Ref<const LoadNode>(roles_.b)), values);
    return make_.add("_written", kOutputsRole, iters, at, select(doubtful, a, constant(0, kF32)) * b, Reduces{});
  }

  const BlockNode& block_;
  const Numbers& n_;
  const Roles& roles_;
  const StoreNode& update_;
  PartBlocks make_;
  int64_t depth_ = 0, chunks_ = 0;
};

Result<Reformulated> apply_split_product(const Func& func, const BlockNode& block, std::span<const int64_t> given) {
  FETTLE_TRY(const Numbers numbers, numbers_of(given));
  FETTLE_TRY(const PlainReduction reduction, plain_reduction(func, block));
  const Combiner& combiner = reduction.combiner;
  FETTLE_TRY(const Roles roles, roles_of(block, combiner, numbers.steps));
  return Splitter(func, block, numbers, roles, *combiner.update).run(reduction.nest);
}

}  // namespace

extern constinit const ReformulationDef split_product_def = {"split_product", Numerics::kApproximate,
                                                             apply_split_product};

}  // namespace fettle
