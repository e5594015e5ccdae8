#pragma once
// How random programs are made: what has been made so far, choices, and the stages that add to it, by kind.

#include <fmt/format.h>

#include <cmath>
#include <set>

#include "base/check.h"
#include "base/random.h"
#include "ir/fold.h"
#include "ir/text.h"
#include "tests/fuzz/program.h"

namespace fettle::fuzz {

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

/// A value that the rest of a block calls by name.
struct Named {
  Var var;
  Expr value;
};

class Maker {
 public:
  explicit Maker(uint64_t seed)
      : r_{seed, 0x70726f67},
        adds_bias_(seed % 8 == 5),
        orders_(seed % 16 == 9),
        shares_(seed % 16 == 3),
        steps_(seed % 16 == 11),
        pads_(seed % 16 == 7),
        scatters_(seed % 16 == 13) {}

  Program make();
  Program make_tiles();

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
  void pick_type();

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
                 const Expr& value, const Expr& init = nullptr, const Expr& condition = nullptr,
                 const Named& named = {});
  /// The last two nests become one: their outermost loops, which have the same extent, do both.
  void join_last_two();
  void define(const std::vector<Iter>& list, const std::vector<int64_t>& extents, const std::vector<Expr>& at,
              const Expr& value, double bound, const Expr& init = nullptr);

  /// A small expression over `x`, elementwise; its bound comes with it.
  Expr elementwise(Expr x, double& bound, const std::vector<Iter>& list);

  // --- stages ---
  void stage();

  void elementwise_stage();

  /// What was made last, plus an input: the epilogue of a sum.
  void bias_stage();

  void broadcast_stage();

  void transpose_stage();

  void reshape_stage();

  void stencil_stage();

  void padding_stage();

  /// out[at] (+)= x over `count` terms.
  void reduce(const std::vector<Iter>& list, const std::vector<int64_t>& extents, const std::vector<Expr>& at, Expr x,
              double bound, int64_t count);

  void reduction_stage();

  /// T = a sum; C[i, j] = T[i] + X[j], or T[i] + T[i + 1]; D = 2 C + 1: several read each element of the sum.
  void shared_sum_stage();

  void product_stage();

  void convolution_stage();

  void gather_stage();

  /// T[t, …] = T[t - 1, …] + X[t, …]
  void scan_stage();

  /// T[i] += select(k <= i, X[k], 0): a guard that mixes a spatial and a reduction loop.
  void triangle_stage();

  /// Two nests write the two parts of one buffer.
  void parts_stage();

  /// A copy, perhaps a reader of it, and then a nest that updates the copy.
  void in_place_stage();
  /// A buffer that is written more than once, and others that read it in between, before and after: what may change
  /// places, and what may not.
  void order_stage();
  /// for t: [P[i] = X[t, i]; C[t, i] = t > 0 ? B[i] : 0; B[i] = P[i] + 1]; D = 2 C + 1: buffers that each step fills
  /// anew, read in the same step, in the next one, or in both.
  void steps_stage();
  /// T = X; for u: T[I[u], …] = Y[u, …] - T[I[u], …], where that is inside: the updates' order counts.
  void scatter_stage();
  void updated_by_its_stencil();
  void updated_beside_a_reader();
  void begins_with_memory();
  void updated_in_part();
  /// T = X, and the block that writes it.
  Tensor copy_of(const Tensor& t, double growth);
  /// P = T + T before it, along the outermost dimension.
  Tensor stencil_of(const Tensor& t);

  /// A multiple of eight, as a rule.
  int64_t tile_extent(int64_t at_most);
  /// C = sum A·B in single precision, of factors in halves as a rule.
  void tile_product_stage();
  /// An input of long rows.
  void tile_rows_stage();
  /// What was made last, in halves.
  void half_stage(DType half);

  // --- the whole ---
  Program finish();

  RandomStream r_;
  bool adds_bias_, orders_, shares_, steps_, pads_, scatters_;  // pads: outputs may get other layouts
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

}  // namespace fettle::fuzz
