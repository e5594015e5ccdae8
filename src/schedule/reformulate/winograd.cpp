// A convolution of stride 1 by Winograd's F(m x m, r x r): fewer multiplications, in m x m tiles of
// outputs. (Lavin, Gray: Fast Algorithms for Convolutional Neural Networks, 2016, sections 4 and 5.)
//   for n, o, h, w, c, kh, kw: O[n, o, h, w] += I[n, c, h + kh, w + kw] * W[o, c, kh, kw]
//     →  for x, y, c, o, kh, kw: O_weights[x, y, c, o] += G[x, kh] * G[y, kw] * W[o, c, kh, kw]
//        for n, p, q, c, x, j:   O_rows[x, j, n, p, q, c] = sum over i of Bt[x, i] * I[n, c, p*m + i, q*m + j]
//        for n, p, q, c, x, y:   O_tiles[x, y, n, p, q, c] = sum over j of O_rows[x, j, n, p, q, c] * Bt[y, j]
//        for x, y, n, p, q, o, c: O_product[x, y, n, p, q, o] += O_tiles[x, y, n, p, q, c] * O_weights[x, y, c, o]
//        for n, p, q, o, a, y:   O_columns[a, y, n, p, q, o] = sum over x of At[a, x] * O_product[x, y, n, p, q, o]
//        for n, o, h, w: O[n, o, h, w] = sum over y of O_columns[h % m, y, n, h // m, w // m, o] * At[w % m, y]
// x and y run over the m + r - 1 points 0, 1, -1, 2, -2, 1/2, -1/2, …, infinity (winograd_matrices.h). Rows of the
// small matrices are selected by x, y, a and w % m: unrolling these loops leaves additions and multiplications by
// constants, and rows of opposite points share them. The weights' transform depends on nothing else, so that of
// constant weights becomes part of the prologue.
// numbers: m, the outputs of a tile in each direction: at least 2; m + r at most 11.
// Pattern: a sum in a plain nest of two factors; two output dimensions h, w and two of the reduction kh, kw, of one
// constant extent r >= 2, such that the input depends on h + kh and w + kw. Any layout, batch and padding; h and w
// need not be multiples of m: what a tile has beyond is computed from zeros. The first five blocks are annotated with
// their roles (schedule/reformulation.h). Refused: groups (an output dimension that
// both factors depend on), strides, dilation. Returns the blocks in the order above; the last has the old one's name.
// Class: approximate. The bound is
//   (4a + 2(r + 1) + C + 1) K² / r²
// with K the largest of |At| (|G| 1 * |Bt| 1), a = m + r - 1, and C terms of the reduction without kh and kw: each of
// so many roundings is amplified by K² at most (Higham, Accuracy and Stability of Numerical Algorithms, section 3.1).
// It is relative to the sum of |terms| with both factors as large as the largest in the tile. Errors are hundreds of
// times smaller as a rule: on 56 x 56, 64 to 64 channels, F(4x4, 3x3) is off by 5e-6 of the largest output, F(6x6,
// 3x3) by 9e-6, F(2x2, 3x3) by less than 1e-6.

#include <algorithm>
#include <cmath>
#include <optional>

#include "ir/annotations.h"
#include "ir/compare.h"
#include "ir/visit.h"
#include "schedule/dataflow/combiner.h"
#include "schedule/dataflow/dataflow.h"
#include "schedule/dataflow/plain_nest.h"
#include "schedule/edit/inlining.h"
#include "schedule/reformulate/reduction_pattern.h"
#include "schedule/reformulate/winograd_matrices.h"
#include "schedule/reformulation.h"

namespace fettle {
namespace {

// What the convolution's iterators are for, by their number.
struct Roles {
  std::vector<size_t> batch, outs, channels;
  std::vector<std::pair<size_t, size_t>> windows;  // (h, kh), (w, kw)
  Expr input, weights;                             // the two factors
};

bool uses(const Expr& e, const IterVar& iter) { return uses_var(e, iter.var.get()); }

// Whether `input` depends on s and k through s + k alone.
bool slides(const Expr& input, const IterVar& s, const IterVar& k, Analyzer& analyzer) {
  const Var at = make_var("at");
  const auto scope = analyzer.enter();
  const Expr extent = analyzer.simplify(s.extent + k.extent - 1);
  analyzer.bind(at, 0, extent);
  return !uses(analyzer.simplify(substitute(input, {{s.var.get(), at - k.var}})), k);
}

// Pairs of an output dimension and one of the reduction over which the input slides by steps of one.
std::vector<std::pair<size_t, size_t>> windows_of(const Func& func, const BlockNode& block, const Expr& input,
                                                  const Expr& weights) {
  std::vector<std::pair<size_t, size_t>> windows;
  Analyzer analyzer = analyzer_in(func, block);
  std::vector<bool> taken(block.iters.size(), false);
  for (size_t s = 0; s < block.iters.size(); ++s)
    for (size_t k = 0; k < block.iters.size(); ++k) {
      const IterVar &spatial = block.iters[s], &reduce = block.iters[k];
      if (taken[s] || taken[k] || spatial.kind != IterKind::kSpatial || reduce.kind != IterKind::kReduce) continue;
      if (!uses(input, spatial) || !uses(input, reduce) || uses(weights, spatial) || !uses(weights, reduce)) continue;
      if (!slides(input, spatial, reduce, analyzer)) continue;
      taken[s] = taken[k] = true;
      windows.push_back({s, k});
    }
  return windows;
}

Result<Roles> roles_of(const Func& func, const BlockNode& block, const Expr& a, const Expr& b) {
  Roles roles{.windows = windows_of(func, block, a, b), .input = a, .weights = b};
  if (roles.windows.empty()) roles = {.windows = windows_of(func, block, b, a), .input = b, .weights = a};
  if (roles.windows.size() != 2) return pattern_differs("the input does not slide in two directions by steps of one");
  const Expr &input = roles.input, &weights = roles.weights;
  std::vector<bool> taken(block.iters.size(), false);
  for (const auto& [s, k] : roles.windows) taken[s] = taken[k] = true;
  for (size_t i = 0; i < block.iters.size(); ++i) {
    if (taken[i]) continue;
    const IterVar& iter = block.iters[i];
    const bool of_input = uses(input, iter), of_weights = uses(weights, iter);
    if (iter.kind == IterKind::kReduce) {
      if (!as_int(iter.extent)) return pattern_differs("the reduction's extent is not a constant");
      roles.channels.push_back(i);
    } else if (iter.kind != IterKind::kSpatial) {
      return pattern_differs("an iterator is neither spatial nor reduce");
    } else if (of_input && of_weights) {
      return pattern_differs("both factors depend on " + iter.var->name +
                             ": groups of channels have too few products to share the transforms");
    } else if (of_weights) {
      roles.outs.push_back(i);
    } else {
      roles.batch.push_back(i);
    }
  }
  return roles;
}

// The value for `row` of values[0], values[1], …
Expr chosen(const Expr& row, const std::vector<Expr>& values) {
  Expr result = values.back();
  for (size_t i = values.size() - 1; i-- > 0;) result = select(eq(row, static_cast<int64_t>(i)), values[i], result);
  return result;
}

// sum + coefficient * x, with as few operations as that takes
Expr plus(const Expr& sum, double coefficient, const Expr& x) {
  const Expr term = std::abs(coefficient) == 1 ? x : x * constant(std::abs(coefficient), x.dtype());
  if (!sum) return coefficient > 0 ? term : x * constant(coefficient, x.dtype());
  return coefficient > 0 ? sum + term : sum - term;
}

// A row of Bt: the even and the odd elements by themselves, which rows of p and -p then share.
Expr by_parity(const std::vector<Fraction>& row, const std::vector<Expr>& x) {
  Expr part[2];
  bool odd_negative = false;
  for (size_t parity = 0; parity < 2; ++parity) {
    double sign = 1;
    for (size_t i = row.size(); i-- > 0;) {
      if (i % 2 != parity || row[i].num == 0) continue;
      if (parity == 1 && !part[1]) odd_negative = row[i].num < 0;
      if (parity == 1) sign = odd_negative ? -1 : 1;
      part[parity] = plus(part[parity], sign * row[i].value(), x[i]);
    }
  }
  if (!part[0] || !part[1]) {
    const Expr& only = part[0] ? part[0] : part[1];
    return odd_negative ? only * constant(-1, only.dtype()) : only;
  }
  return odd_negative ? part[0] - part[1] : part[0] + part[1];
}

// A row of At: elements of p and -p are added or subtracted first, which other rows do as well.
Expr by_pairs(const std::vector<Fraction>& row, const std::vector<Expr>& x) {
  Expr sum;
  for (size_t i = 0; i < row.size(); ++i) {
    if (row[i].num == 0) continue;
    const bool paired = i % 2 == 1 && i + 2 < row.size() && row[i + 1].den == row[i].den &&
                        std::abs(row[i + 1].num) == std::abs(row[i].num);
    if (!paired) {
      sum = plus(sum, row[i].value(), x[i]);
      continue;
    }
    sum = plus(sum, row[i].value(), row[i].num == row[i + 1].num ? x[i] + x[i + 1] : x[i] - x[i + 1]);
    ++i;
  }
  return sum;
}

using RowSum = Expr (*)(const std::vector<Fraction>& row, const std::vector<Expr>& x);

// Row number `row` of matrix * x.
Expr product_row(const FractionMatrix& matrix, const Expr& row, const std::vector<Expr>& x, RowSum sum) {
  std::vector<Expr> values;
  for (const auto& coefficients : matrix) values.push_back(sum(coefficients, x));
  return chosen(row, values);
}

Expr element(const FractionMatrix& matrix, const Expr& row, const Expr& column, DType dtype) {
  std::vector<Expr> rows;
  for (const auto& coefficients : matrix) {
    std::vector<Expr> values;
    for (const Fraction& f : coefficients) values.push_back(constant(f.value(), dtype));
    rows.push_back(chosen(column, values));
  }
  return chosen(row, rows);
}

// Builds the blocks one after the other.
class Builder {
 public:
  Builder(const Func& func, const BlockNode& block, const Roles& roles, const WinogradMatrices& matrices,
          const StoreNode& update)
      : func_(func), block_(block), roles_(roles), w_(matrices) {
    std::vector<int64_t> tiles;
    for (const auto& [s, k] : roles.windows) {
      const VarNode* walked = block.iters[s].var.get();
      const auto at = std::ranges::find_if(update.indices, [&](const Expr& index) { return index.get() == walked; });
      if (at == update.indices.end()) return;
      tiles.push_back(at - update.indices.begin());
    }
    tiles.push_back(matrices.outputs);
    tiles_ = std::move(tiles);
  }

  // One block over `iters` that stores `value` in a new buffer, or adds it up there where an iterator is of a
  // reduction.
  Buffer add(const std::string& suffix, std::string_view role, const std::vector<IterVar>& iters,
             const std::vector<Var>& indices, const Expr& value) {
    std::vector<Expr> shape, at;
    for (const Var& index : indices) {
      const auto iter = std::ranges::find_if(iters, [&](const IterVar& i) { return i.var == index; });
      shape.push_back(iter->extent);
      at.push_back(index);
    }
    const Buffer buffer = make_buffer(unique_buffer_name(func_, block_.name + suffix), shape, value.dtype());
    allocated_.push_back(buffer);
    const bool reduces = std::ranges::any_of(iters, [](const IterVar& i) { return i.kind == IterKind::kReduce; });
    finish(unique_block_name(func_, block_.name + suffix), iters,
           reduces ? store(buffer, at, constant(0, value.dtype())) : Stmt(),
           store(buffer, at, reduces ? load(buffer, at) + value : value), role);
    return buffer;
  }

  void finish(const std::string& name, const std::vector<IterVar>& iters, const Stmt& init, const Stmt& body,
              std::string_view role = {}) {
    auto fresh = make_ref<BlockNode>();
    fresh->name = name;
    fresh->iters = iters;
    fresh->init = init;
    fresh->body = body;
    if (!role.empty()) {
      fresh->annotations.set(kPartOfKey, std::string(block_.name));
      fresh->annotations.set(kRoleKey, std::string(role));
    }
    if (role == kOutputsRole && tiles_) fresh->annotations.set(kTilesKey, *tiles_);
    Analyzer analyzer = analyzer_in(func_, *fresh);
    infer_regions(*fresh, analyzer);
    names_.push_back(name);
    nests_.push_back(fresh_nest(fresh));
  }

  // A new iterator, or one like that of the old block.
  static IterVar iter(const std::string& name, const Expr& extent, IterKind kind = IterKind::kSpatial) {
    return {make_var(name), extent, kind, nullptr};
  }
  std::vector<IterVar> like(const std::vector<size_t>& numbers) const {
    std::vector<IterVar> result;
    for (const size_t n : numbers)
      result.push_back(iter(block_.iters[n].var->name, block_.iters[n].extent, block_.iters[n].kind));
    return result;
  }
  // values[old iterator] = new iterator
  void bind(VarMap& values, const std::vector<size_t>& numbers, const std::vector<IterVar>& iters) const {
    for (size_t i = 0; i < numbers.size(); ++i) values[block_.iters[numbers[i]].var.get()] = iters[i].var;
  }
  Expr tiles(int direction) const {
    const Expr& extent = block_.iters[roles_.windows[static_cast<size_t>(direction)].first].extent;
    return simplify(floordiv(extent + (w_.outputs - 1), w_.outputs));
  }

  Func result(const PlainNest& nest) const {
    const BlockNode* scope = enclosing_block(func_, &block_);
    return edit_scope(func_, scope->name, {.anchor = nest.top, .replacement = seq(nests_), .allocate = allocated_});
  }
  const std::vector<std::string>& names() const { return names_; }

 private:
  const Func& func_;
  const BlockNode& block_;
  const Roles& roles_;
  const WinogradMatrices& w_;
  std::optional<std::vector<int64_t>> tiles_;  // kTilesKey
  std::vector<Buffer> allocated_;
  std::vector<Stmt> nests_;
  std::vector<std::string> names_;
};

template <class... Lists>
std::vector<IterVar> concatenated(const Lists&... lists) {
  std::vector<IterVar> all;
  (all.insert(all.end(), lists.begin(), lists.end()), ...);
  return all;
}
std::vector<Var> vars_of(const std::vector<IterVar>& iters) {
  std::vector<Var> vars;
  for (const IterVar& iter : iters) vars.push_back(iter.var);
  return vars;
}
std::vector<Expr> as_exprs(const std::vector<Var>& vars) { return {vars.begin(), vars.end()}; }

using Iters = std::vector<IterVar>;

Func transformed(const Func& func, const BlockNode& block, const PlainNest& nest, const Roles& roles,
                 const WinogradMatrices& w, const StoreNode& update, std::vector<std::string>& names) {
  Builder make(func, block, roles, w, update);
  const int64_t m = w.outputs;
  const DType dtype = update.buffer->dtype;
  const auto [ih, ikh] = roles.windows[0];
  const auto [iw, ikw] = roles.windows[1];
  const auto old = [&](size_t number) { return block.iters[number].var.get(); };
  const auto elements = [&](const Buffer& buffer, size_t dimension, std::vector<Expr> indices) {
    std::vector<Expr> x;
    for (int64_t i = 0; i < w.products; ++i) {
      indices[dimension] = i;
      x.push_back(load(buffer, indices));
    }
    return x;
  };

  Buffer weights;
  {
    const Iters points = {Builder::iter("vx", w.products), Builder::iter("vy", w.products)};
    Iters channels = make.like(roles.channels);
    for (IterVar& c : channels) c.kind = IterKind::kSpatial;
    const Iters outs = make.like(roles.outs), taps = make.like({ikh, ikw});
    VarMap values;
    make.bind(values, roles.channels, channels);
    make.bind(values, roles.outs, outs);
    make.bind(values, {ikh, ikw}, taps);
    const Expr value = element(w.g, points[0].var, taps[0].var, dtype) *
                       element(w.g, points[1].var, taps[1].var, dtype) * substitute(roles.weights, values);
    weights = make.add("_weights", kWeightsRole, concatenated(points, channels, outs, taps),
                       vars_of(concatenated(points, channels, outs)), value);
  }

  Buffer rows, tiles;
  for (const bool first : {true, false}) {
    const Iters batch = make.like(roles.batch);
    Iters channels = make.like(roles.channels);
    for (IterVar& c : channels) c.kind = IterKind::kSpatial;
    const Iters tile = {Builder::iter("vp", make.tiles(0)), Builder::iter("vq", make.tiles(1))};
    const Iters points = {Builder::iter("vx", w.products), Builder::iter(first ? "vj" : "vy", w.products)};
    const std::vector<Var> at = vars_of(concatenated(points, batch, tile, channels));
    std::vector<Expr> x;
    if (first) {
      VarMap values;
      make.bind(values, roles.batch, batch);
      make.bind(values, roles.channels, channels);
      for (int64_t i = 0; i < w.products; ++i) {
        // The input at h + kh = p*m + i, w + kw = q*m + j: zero beyond its last element.
        const Expr row = tile[0].var * m + i, column = tile[1].var * m + points[1].var;
        VarMap here = values;
        here[old(ih)] = tile[0].var * m;
        here[old(ikh)] = i;
        here[old(iw)] = tile[1].var * m;
        here[old(ikw)] = points[1].var;
        Expr value = substitute(roles.input, here), inside;
        for (const auto& [position, window] : {std::pair{row, roles.windows[0]}, std::pair{column, roles.windows[1]}}) {
          const IterVar &s = block.iters[window.first], &k = block.iters[window.second];
          const int64_t* extent = as_int(s.extent);
          if (!extent || *extent % m != 0)
            inside = logical_and(inside, lt(position, simplify(s.extent + k.extent - 1)));
        }
        x.push_back(inside ? select(call("likely", {inside}, kBool), value, constant(0, dtype)) : value);
      }
      rows = make.add("_rows", kDataRole, concatenated(batch, tile, channels, points), at,
                      product_row(w.bt, points[0].var, x, by_parity));
    } else {
      tiles = make.add("_tiles", kDataRole, concatenated(batch, tile, channels, points), at,
                       product_row(w.bt, points[1].var, elements(rows, 1, as_exprs(at)), by_parity));
    }
  }

  Buffer product;
  {
    const Iters points = {Builder::iter("vx", w.products), Builder::iter("vy", w.products)};
    const Iters batch = make.like(roles.batch), outs = make.like(roles.outs), channels = make.like(roles.channels);
    const Iters tile = {Builder::iter("vp", make.tiles(0)), Builder::iter("vq", make.tiles(1))};
    const Expr value = load(tiles, as_exprs(vars_of(concatenated(points, batch, tile, channels)))) *
                       load(weights, as_exprs(vars_of(concatenated(points, channels, outs))));
    product = make.add("_product", kProductRole, concatenated(points, batch, tile, outs, channels),
                       vars_of(concatenated(points, batch, tile, outs)), value);
  }

  Buffer columns;
  {
    const Iters batch = make.like(roles.batch), outs = make.like(roles.outs);
    const Iters tile = {Builder::iter("vp", make.tiles(0)), Builder::iter("vq", make.tiles(1))};
    const Iters points = {Builder::iter("va", m), Builder::iter("vy", w.products)};
    const std::vector<Var> at = vars_of(concatenated(points, batch, tile, outs));
    columns = make.add("_columns", kOutputsRole, concatenated(batch, tile, outs, points), at,
                       product_row(w.at, points[0].var, elements(product, 0, as_exprs(at)), by_pairs));
  }

  std::vector<size_t> spatial;
  for (size_t i = 0; i < block.iters.size(); ++i)
    if (block.iters[i].kind == IterKind::kSpatial) spatial.push_back(i);
  const Iters iters = make.like(spatial);
  VarMap values;
  make.bind(values, spatial, iters);
  const Expr h = values[old(ih)], v = values[old(iw)];
  std::vector<Expr> at = {floormod(h, m), 0};
  for (const size_t b : roles.batch) at.push_back(values[old(b)]);
  at.push_back(floordiv(h, m));
  at.push_back(floordiv(v, m));
  for (const size_t o : roles.outs) at.push_back(values[old(o)]);
  std::vector<Expr> target = update.indices;
  for (Expr& index : target) index = substitute(index, values);
  make.finish(block.name, iters, nullptr,
              store(update.buffer, target, product_row(w.at, floormod(v, m), elements(columns, 1, at), by_pairs)));
  names = make.names();
  return make.result(nest);
}

Result<Reformulated> apply_winograd(const Func& func, const BlockNode& block, std::span<const int64_t> numbers) {
  if (numbers.size() != 1 || numbers[0] < 2) return pattern_differs("it takes the outputs of a tile, at least 2");
  FETTLE_TRY(const PlainReduction reduction, plain_reduction(func, block));
  const Combiner& combiner = reduction.combiner;
  const auto* factors = combiner.term.as<BinaryNode>();
  if (combiner.op != BinaryOp::kAdd || !factors || factors->op != BinaryOp::kMul)
    return pattern_differs("the block is no sum of products");
  if (!combiner.update->buffer->dtype.is_float()) return pattern_differs("the sum is not of floating-point numbers");
  const auto roles = roles_of(func, block, factors->a, factors->b);
  if (!roles) return tl::unexpected(roles.error());
  const int64_t* taps = as_int(block.iters[roles->windows[0].second].extent);
  if (!taps || *taps < 2 ||
      !structural_equal(block.iters[roles->windows[1].second].extent, block.iters[roles->windows[0].second].extent))
    return pattern_differs("the taps are not r x r with r >= 2");
  const auto matrices = winograd_matrices(numbers[0], *taps);
  if (!matrices) return pattern_differs(matrices.error().message);

  Reformulated result;
  result.func = transformed(func, block, reduction.nest, *roles, *matrices, *combiner.update, result.blocks);
  double terms = 1;
  for (const size_t c : roles->channels) terms *= static_cast<double>(*as_int(block.iters[c].extent));
  const double roundings =
      4.0 * static_cast<double>(matrices->products) + 2.0 * static_cast<double>(*taps + 1) + terms + 1;
  const double amplified = matrices->amplification() / static_cast<double>(*taps);
  result.error_bound = roundings * amplified * amplified;
  return result;
}

}  // namespace

extern constinit const ReformulationDef winograd_def = {"winograd", Numerics::kApproximate, apply_winograd};

}  // namespace fettle
