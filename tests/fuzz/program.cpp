#include "tests/fuzz/program.h"

#include <fmt/format.h>

#include <cmath>
#include <set>

#include "base/check.h"
#include "base/random.h"
#include "ir/fold.h"
#include "ir/text.h"

namespace fettle::fuzz {
namespace {

/// A buffer that has been written, and how large its values can be.
struct Tensor {
  Buffer buffer;
  std::vector<int64_t> extents;  // -1: the integer parameter
  double bound = kLargest;
};

struct Iter {
  Var var;
  int64_t extent;  // -1: the integer parameter
  IterKind kind = IterKind::kSpatial;
};

class Maker {
 public:
  explicit Maker(uint64_t seed) : r_{seed, 0x70726f67}, adds_bias_(seed % 8 == 5) {}

  Program make() {
    pick_type();
    const bool symbolic = chance(10);
    if (symbolic) {
      n_ = make_var("n");
      n_value_ = between(1, 12);
    }
    const int rank = between(1, 3);
    std::vector<int64_t> shape;
    for (int d = 0; d < rank; ++d)
      shape.push_back(symbolic && d == 0 ? -1 : extent(rank == 1 ? 40 : rank == 2 ? 20 : 9));
    made_.push_back(input(shape));
    const int stages = between(1, 4);
    for (int i = 0; i < stages; ++i) stage();
    if (adds_bias_) {
      reduction_stage();
      bias_stage();
    }
    return finish();
  }

 private:
  // --- choices ---
  int between(int low, int high) { return low + static_cast<int>(r_.below(static_cast<uint64_t>(high - low + 1))); }
  bool chance(int percent) { return static_cast<int>(r_.below(100)) < percent; }
  template <class T>
  const T& one_of(const std::vector<T>& list) {
    return list[r_.below(list.size())];
  }
  int64_t extent(int at_most) {
    static const std::vector<int64_t> kExtents = {1,  2,  3,  3,  4,  5,  5,  6,  7,  7,  8,  9,  10,
                                                  11, 12, 13, 15, 16, 17, 19, 21, 24, 31, 32, 33, 37};
    for (;;)
      if (const int64_t e = one_of(kExtents); e <= at_most) return e;
  }
  void pick_type() {
    const int k = between(1, 100);
    type_ = k <= 70   ? kF32
            : k <= 78 ? kF64
            : k <= 86 ? kI32
            : k <= 89 ? kI64
            : k <= 92 ? kI8
            : k <= 94 ? kU8
            : k <= 97 ? kF16
                      : kBF16;
    // Integers wrap, which any order does alike.
    limit_ = type_ == kF32 ? 0x1p22 : type_ == kF64 ? 0x1p40 : type_ == kF16 ? 1024 : type_ == kBF16 ? 128 : INFINITY;
  }

  // --- pieces ---
  Expr size_of(int64_t e) const { return e < 0 ? Expr(n_) : Expr(e); }
  int64_t value_of(int64_t e) const { return e < 0 ? n_value_ : e; }
  std::vector<Expr> shape_of(const std::vector<int64_t>& extents) const {
    std::vector<Expr> shape;
    for (const int64_t e : extents) shape.push_back(size_of(e));
    return shape;
  }
  int64_t points(const std::vector<int64_t>& extents) const {
    int64_t count = 1;
    for (const int64_t e : extents) count *= value_of(e);
    return count;
  }
  std::string fresh_name(const char* base) { return fmt::format("{}{}", base, names_++); }

  Tensor input(const std::vector<int64_t>& extents) {
    Param param;
    param.buffer = make_buffer(fresh_name("A"), shape_of(extents), type_);
    if (chance(20))
      param.kind = ParamKind::kConstant;
    else if (chance(5))
      param.free_layout = true;
    params_.push_back(param);
    return {param.buffer, extents, type_.code == TypeCode::kUInt ? 1.0 * kLargest - kSmallest : 1.0 * kLargest};
  }
  Buffer indices(const std::vector<int64_t>& extents) {
    params_.push_back({make_buffer(fresh_name("I"), shape_of(extents), kI64), ParamKind::kInput, false});
    return params_.back().buffer;
  }
  /// A tensor made already, mostly the last.
  Tensor& some() { return chance(75) ? made_.back() : made_[r_.below(made_.size())]; }
  /// One of these extents, or a new input.
  Tensor like(const std::vector<int64_t>& extents) {
    std::vector<const Tensor*> fitting;
    for (const Tensor& t : made_)
      if (t.extents == extents) fitting.push_back(&t);
    return fitting.empty() || chance(30) ? input(extents) : *one_of(fitting);
  }
  Expr number(int value) { return constant(type_.code == TypeCode::kUInt ? std::abs(value) : value, type_); }

  std::vector<Iter> iters(const std::vector<int64_t>& extents, IterKind kind = IterKind::kSpatial,
                          const char* names = "ijlm") {
    std::vector<Iter> list;
    for (size_t d = 0; d < extents.size(); ++d)
      list.push_back({make_var(fmt::format("v{}", names[d])), extents[d], kind});
    return list;
  }
  static std::vector<Expr> vars(const std::vector<Iter>& list) {
    std::vector<Expr> all;
    for (const Iter& i : list) all.push_back(Expr(i.var));
    return all;
  }
  /// Clamped where the next step could leave the exact integers; `growth` is what it multiplies by.
  Expr read(const Tensor& t, std::vector<Expr> at, double growth, double& bound) {
    Expr value = load(t.buffer, std::move(at));
    bound = t.bound;
    if (bound * growth <= limit_) return value;
    const int room = std::max(1, static_cast<int>(std::min(limit_ / growth, 100.0)));
    bound = room;
    return min(max(value, number(-room)), number(room));
  }

  /// A block of its own nest: loops around it in the order of `list`.
  void add_block(const std::string& name, const std::vector<Iter>& list, const Buffer& out, const std::vector<Expr>& at,
                 const Expr& value, const Expr& init = nullptr) {
    auto block = make_ref<BlockNode>();
    block->name = name;
    std::vector<Var> loops;
    for (const Iter& i : list) {
      loops.push_back(make_var(i.var->name.substr(1)));
      block->iters.push_back({i.var, size_of(i.extent), i.kind, Expr(loops.back())});
    }
    block->body = store(out, at, value);
    if (init) block->init = store(out, at, init);
    RegionUnion reads, writes;
    writes.add(out, at);
    walk(value, [&](const Expr& e) {
      if (const auto* one = e.as<LoadNode>(); one && (!init || one->buffer != out))
        reads.add(one->buffer, one->indices);
      return true;
    });
    block->reads = reads.take();
    block->writes = writes.take();
    Stmt nest = Stmt(block);
    for (size_t d = list.size(); d-- > 0;) nest = make_for(loops[d], Expr(0), size_of(list[d].extent), nest);
    nests_.push_back(nest);
  }
  void define(const std::vector<Iter>& list, const std::vector<int64_t>& extents, const std::vector<Expr>& at,
              const Expr& value, double bound, const Expr& init = nullptr) {
    const std::string name = fresh_name("T");
    const Buffer out = make_buffer(name, shape_of(extents), type_);
    add_block(name, list, out, at, value, init);
    internal_.push_back(out);
    made_.push_back({out, extents, bound});
  }

  /// A small expression over `x`, elementwise; its bound comes with it.
  Expr elementwise(Expr x, double& bound, const std::vector<Iter>& list) {
    switch (between(0, 9)) {
      case 0:
        bound += 2;
        return x + number(2);
      case 1:
        bound = bound * 2 + 1;
        return x * number(2) - number(1);
      case 2:
        return max(x, number(0));
      case 3:
        bound = std::max(bound, 5.0);
        return min(x, number(5));
      case 4:
        bound *= 1;
        return type_.code == TypeCode::kUInt ? x : call("abs", {x}, type_);
      case 5:
        bound = std::max(bound, 1.0);
        return select(lt(x, number(1)), x, number(1));
      case 6:
        bound += 3;
        return select(lt(Expr(list[0].var), size_of(list[0].extent) - 1), x, x + number(3));
      case 7:
        bound = bound + 4;
        return select(eq(floormod(Expr(list.back().var), 3), Expr(1)), number(4), x);
      case 8:
        bound *= 3;
        return number(3) * x;
      default:
        bound += 1;
        return number(1) - x;
    }
  }

  // --- stages ---
  void stage() {
    const int before = static_cast<int>(made_.size());
    for (int tries = 0; tries < 20 && static_cast<int>(made_.size()) == before; ++tries) {
      switch (between(0, 17)) {
        case 0:
        case 1:
          elementwise_stage();
          break;
        case 2:
          broadcast_stage();
          break;
        case 3:
          transpose_stage();
          break;
        case 4:
          reshape_stage();
          break;
        case 5:
          stencil_stage();
          break;
        case 6:
          padding_stage();
          break;
        case 7:
        case 8:
          reduction_stage();
          break;
        case 9:
        case 10:
        case 11:
          product_stage();
          break;
        case 12:
          convolution_stage();
          break;
        case 13:
          gather_stage();
          break;
        case 14:
          scan_stage();
          break;
        case 15:
          triangle_stage();
          break;
        case 16:
          parts_stage();
          break;
        default:
          in_place_stage();
          break;
      }
    }
    if (static_cast<int>(made_.size()) > before) return;
    const Tensor t = made_.back();  // all have been tried in vain: a copy
    const auto list = iters(t.extents);
    define(list, t.extents, vars(list), load(t.buffer, vars(list)), t.bound);
  }

  void elementwise_stage() {
    const Tensor t = some();
    const auto list = iters(t.extents);
    double bound;
    Expr value = read(t, vars(list), 8, bound);
    for (int i = between(1, 2); i > 0; --i) value = elementwise(value, bound, list);
    if (chance(40)) {
      const Tensor other = like(t.extents);
      double second;
      const Expr y = read(other, vars(list), std::max(bound, 1.0) * 2, second);
      if (chance(50) && bound * second <= limit_) {
        value = value * y;
        bound *= second;
      } else {
        value = value + y;
        bound += second;
      }
    }
    if (bound > limit_) return;
    define(list, t.extents, vars(list), value, bound);
  }

  /// What was made last, plus an input: the epilogue of a sum.
  void bias_stage() {
    const Tensor t = made_.back(), bias = input(t.extents);
    if (t.bound + bias.bound > limit_) return;
    const auto list = iters(t.extents);
    define(list, t.extents, vars(list), load(t.buffer, vars(list)) + load(bias.buffer, vars(list)),
           t.bound + bias.bound);
  }

  void broadcast_stage() {
    const Tensor t = some();
    if (t.extents.size() < 2) return;
    const auto list = iters(t.extents);
    const size_t d = r_.below(t.extents.size());
    const Tensor row = like({t.extents[d]});
    double a, b;
    const Expr x = read(t, vars(list), 2, a), y = read(row, {Expr(list[d].var)}, 2, b);
    if (a + b > limit_) return;
    define(list, t.extents, vars(list), chance(50) ? x + y : max(x - y, number(0)), a + b);
  }

  void transpose_stage() {
    const Tensor t = some();
    if (t.extents.size() < 2) return;
    std::vector<size_t> order(t.extents.size());
    for (size_t i = 0; i < order.size(); ++i) order[i] = i;
    for (size_t i = order.size(); i-- > 1;) std::swap(order[i], order[r_.below(i + 1)]);
    std::vector<int64_t> extents;
    for (const size_t d : order) extents.push_back(t.extents[d]);
    const auto list = iters(extents);
    std::vector<Expr> at(order.size());
    for (size_t i = 0; i < order.size(); ++i) at[order[i]] = Expr(list[i].var);
    define(list, extents, vars(list), load(t.buffer, at), t.bound);
  }

  void reshape_stage() {
    const Tensor t = some();
    for (const int64_t e : t.extents)
      if (e < 0) return;
    if (t.extents.size() >= 2) {  // the last two become one
      std::vector<int64_t> extents(t.extents.begin(), t.extents.end() - 2);
      const int64_t inner = t.extents.back();
      extents.push_back(t.extents[t.extents.size() - 2] * inner);
      const auto list = iters(extents);
      std::vector<Expr> at = vars(list);
      const Expr flat = at.back();
      at.pop_back();
      at.push_back(floordiv(flat, inner));
      at.push_back(floormod(flat, inner));
      define(list, extents, vars(list), load(t.buffer, at), t.bound);
      return;
    }
    for (const int64_t f : {4, 3, 2, 5}) {
      if (t.extents[0] % f != 0 || t.extents[0] == f) continue;
      const std::vector<int64_t> extents{t.extents[0] / f, f};
      const auto list = iters(extents);
      define(list, extents, vars(list), load(t.buffer, {Expr(list[0].var) * f + Expr(list[1].var)}), t.bound);
      return;
    }
  }

  void stencil_stage() {
    const Tensor t = some();
    const size_t d = r_.below(t.extents.size());
    const int taps = between(2, 3);
    if (t.extents[d] < taps + 1) return;
    const bool guarded = chance(40);
    std::vector<int64_t> extents = t.extents;
    if (!guarded) extents[d] -= taps - 1;
    const auto list = iters(extents);
    Expr value;
    double bound = 0;
    for (int k = 0; k < taps; ++k) {
      std::vector<Expr> at = vars(list);
      const Expr where = at[d] + (k - (guarded ? 1 : 0));
      at[d] = where;
      double b;
      Expr x = read(t, at, taps, b);
      if (guarded && k != 1)
        x = select(logical_and(le(Expr(0), where), lt(where, size_of(t.extents[d]))), x, number(0));
      value = value ? value + x : x;
      bound += b;
    }
    define(list, extents, vars(list), value, bound);
  }

  void padding_stage() {
    const Tensor t = some();
    std::vector<int64_t> extents = t.extents;
    std::vector<int> low(extents.size(), 0), high(extents.size(), 0);
    for (size_t d = 0; d < extents.size(); ++d) {
      if (extents[d] < 0 || (d > 0 && chance(30))) continue;
      low[d] = between(0, 2);
      high[d] = between(0, 2);
      extents[d] += low[d] + high[d];
    }
    if (points(extents) > 3000) return;
    const auto list = iters(extents);
    Expr inside;
    std::vector<Expr> at;
    for (size_t d = 0; d < extents.size(); ++d) {
      at.push_back(Expr(list[d].var) - low[d]);
      if (low[d]) inside = logical_and(inside, le(Expr(low[d]), Expr(list[d].var)));
      if (high[d]) inside = logical_and(inside, lt(Expr(list[d].var), size_of(t.extents[d]) + low[d]));
    }
    if (!inside) return;
    define(list, extents, vars(list), select(inside, load(t.buffer, at), number(chance(80) ? 0 : 1)),
           std::max(t.bound, 1.0));
  }

  /// out[at] (+)= x over `count` terms.
  void reduce(const std::vector<Iter>& list, const std::vector<int64_t>& extents, const std::vector<Expr>& at, Expr x,
              double bound, int64_t count) {
    const std::string name = fresh_name("T");
    const Buffer out = make_buffer(name, shape_of(extents), type_);
    const Expr old = load(out, at);
    const bool sum = bound * static_cast<double>(count) <= limit_ && !chance(20);
    Expr update, init = number(0);
    if (sum) {
      update = old + x;
      bound *= static_cast<double>(count);
    } else {
      const bool greatest = chance(50);
      update = greatest ? max(old, x) : min(old, x);
      const double far = type_.is_float() ? INFINITY : 0;
      if (type_.is_float()) {
        init = float_imm(greatest ? -far : far, type_);
      } else if (type_.code == TypeCode::kUInt) {
        init = int_imm(greatest ? 0 : (int64_t{1} << type_.bits) - 1, type_);
      } else {
        const int64_t lowest = INT64_MIN >> (64 - type_.bits);
        init = int_imm(greatest ? lowest : ~lowest, type_);
      }
    }
    add_block(name, list, out, at, update, init);
    internal_.push_back(out);
    made_.push_back({out, extents, bound});
  }

  void reduction_stage() {
    const Tensor t = some();
    if (t.extents.size() == 1 && value_of(t.extents[0]) == 1) return;
    // At least one dimension goes; a result of rank zero has one element.
    std::vector<bool> gone(t.extents.size());
    bool any = false;
    for (size_t d = 0; d < gone.size(); ++d) any |= (gone[d] = chance(45));
    if (!any) gone.back() = true;
    std::vector<Iter> list;
    std::vector<int64_t> extents;
    std::vector<Expr> at, from;
    int64_t count = 1;
    for (size_t d = 0; d < gone.size(); ++d) {
      list.push_back({make_var(fmt::format("v{}", (gone[d] ? "kpqr" : "ijlm")[d])), t.extents[d],
                      gone[d] ? IterKind::kReduce : IterKind::kSpatial});
      from.push_back(Expr(list.back().var));
      if (gone[d]) {
        count *= value_of(t.extents[d]);
      } else {
        extents.push_back(t.extents[d]);
        at.push_back(Expr(list.back().var));
      }
    }
    if (extents.empty()) {
      extents.push_back(1);
      list.insert(list.begin(), {make_var("vu"), 1, IterKind::kSpatial});
      at.push_back(Expr(list[0].var));
    }
    double bound;
    Expr x = read(t, from, std::min(static_cast<double>(count), limit_), bound);
    if (chance(30)) x = elementwise(x, bound, list);
    if (bound > limit_) return;
    reduce(list, extents, at, x, bound, count);
  }

  void product_stage() {
    const Tensor t = some();
    if (t.extents.size() < 2 || t.extents.size() > 3) return;
    const bool batched = t.extents.size() == 3;
    const int64_t m = t.extents[t.extents.size() - 2], k = t.extents.back(), n = extent(20);
    if (points(t.extents) * n > 6000 || k < 0) return;
    std::vector<int64_t> second = chance(50) ? std::vector<int64_t>{k, n} : std::vector<int64_t>{n, k};
    const bool transposed = second[0] != k || second[1] != n;
    if (batched) second.insert(second.begin(), t.extents[0]);
    const Tensor w = like(second);
    std::vector<Iter> list;
    if (batched) list.push_back({make_var("vb"), t.extents[0], IterKind::kSpatial});
    list.push_back({make_var("vi"), m, IterKind::kSpatial});
    list.push_back({make_var("vj"), n, IterKind::kSpatial});
    list.push_back({make_var("vk"), k, IterKind::kReduce});
    const auto with_batch = [&](const char* names) {
      std::vector<Expr> at;
      if (batched) at.push_back(Expr(list[0].var));
      for (const char* c = names; *c; ++c)
        for (const Iter& i : list)
          if (i.var->name[1] == *c) at.push_back(Expr(i.var));
      return at;
    };
    double a, b;
    const double growth = std::sqrt(static_cast<double>(k) * 4);
    Expr x = read(t, with_batch("ik"), growth * growth, a),
         y = read(w, with_batch(transposed ? "jk" : "kj"), growth * std::max(a, 1.0), b);
    if (a * b > limit_) return;
    if (chance(15)) std::swap(list[list.size() - 1], list[list.size() - 2]);  // k before j
    std::vector<int64_t> extents{m, n};
    if (batched) extents.insert(extents.begin(), t.extents[0]);
    reduce(list, extents, with_batch("ij"), x * y, a * b, k);
  }

  void convolution_stage() {
    const Tensor t = some();
    if (t.extents.size() != 2 || t.extents[0] < 4) return;
    const int64_t taps = between(2, 3), stride = between(1, 2), channels = t.extents[1], outputs = extent(9);
    const int64_t rows = (t.extents[0] - taps) / stride + 1;
    if (rows * taps * channels * outputs > 6000) return;
    const Tensor w = like({taps, channels, outputs});
    std::vector<Iter> list{{make_var("vi"), rows, IterKind::kSpatial},
                           {make_var("vo"), outputs, IterKind::kSpatial},
                           {make_var("vr"), taps, IterKind::kReduce},
                           {make_var("vc"), channels, IterKind::kReduce}};
    double a, b;
    const Expr vi(list[0].var), vo(list[1].var), vr(list[2].var), vc(list[3].var);
    const double count = static_cast<double>(taps * channels);
    const Expr x = read(t, {vi * stride + vr, vc}, count, a), y = read(w, {vr, vc, vo}, count * std::max(a, 1.0), b);
    if (a * b > limit_) return;
    reduce(list, {rows, outputs}, {vi, vo}, x * y, a * b, taps * channels);
  }

  void gather_stage() {
    const Tensor t = some();
    if (t.extents[0] < 2) return;  // one row is no choice
    const int64_t rows = extent(16);
    std::vector<int64_t> extents = t.extents;
    extents[0] = rows;
    if (points(extents) > 3000) return;
    const Buffer index = indices({rows});
    const auto list = iters(extents);
    std::vector<Expr> at = vars(list);
    at[0] = max(min(load(index, {at[0]}), Expr(t.extents[0] - 1)), Expr(0));
    define(list, extents, vars(list), load(t.buffer, at), t.bound);
  }

  /// T[t, …] = T[t - 1, …] + X[t, …]
  void scan_stage() {
    const Tensor t = some();
    auto list = iters(t.extents);
    list[0].kind = IterKind::kScan;
    double bound;
    const double count = static_cast<double>(value_of(t.extents[0]));
    const std::vector<Expr> here = vars(list);
    const Expr x = read(t, here, count, bound);
    if (bound * count > limit_) return;
    const std::string name = fresh_name("T");
    const Buffer out = make_buffer(name, shape_of(t.extents), type_);
    std::vector<Expr> before = here;
    before[0] = max(here[0] - 1, Expr(0));
    add_block(name, list, out, here, select(lt(Expr(0), here[0]), load(out, before), number(0)) + x);
    internal_.push_back(out);
    made_.push_back({out, t.extents, bound * count});
  }

  /// T[i] += select(k <= i, X[k], 0): a guard that mixes a spatial and a reduction loop.
  void triangle_stage() {
    const Tensor t = some();
    const int64_t k = t.extents.back();
    if (k < 0) return;
    const int64_t rows = extent(13);
    std::vector<Iter> list{{make_var("vi"), rows, IterKind::kSpatial}};
    std::vector<int64_t> extents{rows};
    std::vector<Expr> from;
    for (size_t d = 0; d + 1 < t.extents.size(); ++d) {
      list.push_back({make_var(fmt::format("v{}", "jlm"[d])), t.extents[d], IterKind::kSpatial});
      extents.push_back(t.extents[d]);
      from.push_back(Expr(list.back().var));
    }
    if (points(extents) * k > 6000) return;
    list.push_back({make_var("vk"), k, IterKind::kReduce});
    const Expr vi(list[0].var), vk(list.back().var);
    from.push_back(vk);
    std::vector<Expr> at;
    for (size_t d = 0; d + 1 < list.size(); ++d) at.push_back(Expr(list[d].var));
    double bound;
    const Expr x = read(t, from, static_cast<double>(k), bound);
    const Expr guard = chance(50) ? le(vk, vi) : lt(vi + vk, Expr(k));
    if (bound * static_cast<double>(k) > limit_) return;
    reduce(list, extents, at, select(guard, x, number(0)), bound, k);
  }

  /// Two nests write the two parts of one buffer.
  void parts_stage() {
    const Tensor t = some();
    if (t.extents[0] < 0) return;
    const Tensor other = like(t.extents);
    std::vector<int64_t> extents = t.extents;
    extents[0] *= 2;
    if (points(extents) > 3000) return;
    const std::string name = fresh_name("T");
    const Buffer out = make_buffer(name, shape_of(extents), type_);
    for (int part = 0; part < 2; ++part) {
      const Tensor& from = part ? other : t;
      const auto list = iters(t.extents);
      std::vector<Expr> at = vars(list);
      if (part) at[0] = at[0] + t.extents[0];
      add_block(name + (part ? "_second" : ""), list, out, at, load(from.buffer, vars(list)));
    }
    internal_.push_back(out);
    made_.push_back({out, extents, std::max(t.bound, other.bound)});
  }

  /// A copy, perhaps a reader of it, and then a nest that updates the copy.
  void in_place_stage() {
    const Tensor t = some();
    double bound;
    const auto first = iters(t.extents), second = iters(t.extents);
    const Expr x = read(t, vars(first), 4, bound);
    const std::string name = fresh_name("T");
    const Buffer out = make_buffer(name, shape_of(t.extents), type_);
    add_block(name, first, out, vars(first), x);
    internal_.push_back(out);
    made_.push_back({out, t.extents, bound * 2 + 1});
    if (chance(50)) {  // somebody reads it in between
      const auto between = iters(t.extents);
      define(between, t.extents, vars(between), load(out, vars(between)) + number(1), bound + 1);
    }
    add_block(name + "_update", second, out, vars(second), load(out, vars(second)) * number(2) + number(1));
  }

  // --- the whole ---
  Program finish() {
    // What nobody reads is an output; some that are read, too.
    std::set<const BufferNode*> used;
    for (const Stmt& nest : nests_) {
      walk(nest, [&](const Stmt& s) {
        const auto* block = s.as<BlockNode>();
        if (block)
          for (const Region& region : block->reads) used.insert(region.buffer.get());
        return true;
      });
    }
    auto root = make_ref<BlockNode>();
    root->name = "root";
    std::vector<Param> outputs;
    for (const Buffer& buffer : internal_) {
      if (buffer == internal_.back() || !used.count(buffer.get()) || chance(10))
        outputs.push_back({buffer, ParamKind::kOutput, false});
      else
        root->allocations.push_back(buffer);
    }
    root->body = seq(nests_);
    auto func = make_ref<FuncNode>();
    func->name = "main";
    for (const Param& param : params_)
      if (used.count(param.buffer.get())) func->params.push_back(param);
    for (const Param& param : outputs) func->params.push_back(param);
    Program program;
    if (n_) {
      func->int_params.push_back({n_, 1, 64, 1});
      program.ints.push_back(n_value_);
    }
    func->body = Stmt(root);
    program.func = Func(func);
    const auto fine = check_well_formed(program.func);
    FETTLE_CHECK_MSG(fine.has_value(), (fine ? "" : fine.error().to_string()) + "\n" + to_text(program.func));
    return program;
  }

  RandomStream r_;
  bool adds_bias_;
  DType type_ = kF32;
  double limit_ = 0;
  Var n_;
  int64_t n_value_ = 0;
  int names_ = 0;
  std::vector<Tensor> made_;
  std::vector<Param> params_;
  std::vector<Buffer> internal_;
  std::vector<Stmt> nests_;
};

}  // namespace

Program random_program(uint64_t seed) { return Maker(seed).make(); }

}  // namespace fettle::fuzz
