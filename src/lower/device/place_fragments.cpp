#include <map>
#include <optional>

#include <fmt/format.h>

#include "arith/analyzer.h"
#include "arith/int_eval.h"
#include "ir/rewrite.h"
#include "ir/text.h"
#include "lower/device/passes.h"
#include "lower/passes/range_mutator.h"
#include "target/tensor_intrinsic.h"

namespace fettle {
namespace {

// A tile, and how many threads have it together.
struct Shape {
  int64_t rows = 0, columns = 0, threads = 0;
  int64_t elements_per_lane() const { return rows * columns / threads; }
  bool operator==(const Shape&) const = default;
};

Shape shape_of(const Param& param, const TensorIntrinsicDef& intrinsic) {
  return {*as_int(param.buffer->shape[0]), *as_int(param.buffer->shape[1]), intrinsic.threads};
}

// Which thread has element [row, column] of a tile of sums, or of left factors, and in which of its registers (PTX ISA,
// "Register Fragments" of wgmma, "Matrix fragments for mma.m16n8k16"): each warp has 16 rows, each lane of it pairs. A
// left factor of 16 columns lies as two tiles of sums do.
Expr thread_of(const Expr& row, const Expr& column) {
  return floordiv(row, 16) * 32 + floormod(row, 8) * 4 + floordiv(floormod(column, 8), 2);
}
Expr register_of(const Expr& row, const Expr& column) {
  return floordiv(column, 8) * 4 + floormod(floordiv(row, 8), 2) * 2 + floormod(column, 2);
}

bool is_fragment(const Buffer& buffer) { return buffer->scope == kScopeFragment; }

class Placer : public RangeMutator {
 public:
  explicit Placer(const Func& func) : RangeMutator(func) {
    ThreadShape shape;
    each_node<EvaluateNode>(func->body, [&](const EvaluateNode& node) { note_tiles(node); });
    each_node<ForNode>(func->body, [&](const ForNode& loop) {
      if (loop.thread_axis == "threadIdx.x") shape.vars[0] = loop.var, shape.extents[0] = *as_int(loop.extent);
      if (loop.thread_axis == "threadIdx.y") shape.vars[1] = loop.var, shape.extents[1] = *as_int(loop.extent);
    });
    if (!shape.vars[0]) return;
    thread_ = shape.vars[0];
    lanes_[shape.vars[0].get()] = Expr(0);
    if (shape.lane_axes() == 1) return;
    thread_ = Expr(shape.vars[1]) * shape.extents[0] + shape.vars[0];
    lanes_[shape.vars[1].get()] = Expr(0);
  }
  using Mutator::rewrite;
  std::string problem;

  Buffer rewrite(const Buffer& buffer) override {
    if (!is_fragment(buffer)) return buffer;
    Buffer& placed = placed_[buffer.get()];
    if (!placed) {
      placed = edited(buffer, [&](BufferNode& b) {
        const int64_t* elements = as_int(buffer->shape[0]);
        const auto tiles = tiles_.find(buffer.get());
        if (elements && tiles != tiles_.end())
          b.shape = {Expr(*elements / tiles->second.shape.threads)};
        else
          problem = fmt::format("buffer {} of fragments has a size that is no constant, or no tiles", buffer->name);
      });
      kept_.push_back(buffer);
    }
    return placed;
  }

  Expr rewrite(const Expr& e) override {
    if (!e) return e;
    const auto* source = e.as<LoadNode>();
    const auto* pointer = e.as<AddressNode>();
    if (source && is_fragment(source->buffer)) {
      const Expr place = element_place(source->buffer, source->indices);
      if (place && !source->mask) return load(rewrite(source->buffer), {place});
      refuse_access(source->buffer);
    }
    if (pointer && is_fragment(pointer->buffer)) refuse_access(pointer->buffer);
    return Mutator::rewrite(e);
  }

  Stmt rewrite(const Stmt& s) override {
    if (!s || !problem.empty()) return s;
    if (const auto* target = s.as<StoreNode>(); target && is_fragment(target->buffer)) {
      const Expr place = element_place(target->buffer, target->indices);
      if (place && !target->mask) return store(rewrite(target->buffer), {place}, rewrite(target->value));
      refuse_access(target->buffer);
    }
    const CallNode* called = effect_of(s);
    const TensorIntrinsicDef* intrinsic = called ? find_tensor_intrinsic(called->name) : nullptr;
    if (intrinsic && intrinsic->threads > 0) return tile(*intrinsic, *called);
    const Stmt result = RangeMutator::rewrite(s);
    const auto* loop = result.as<ForNode>();
    if (!loop || !moving_.contains(loop->var.get()) || loop->loop_kind != ForKind::kSerial) return result;
    // Registers are addressed by constants.
    return with(*loop, [](ForNode& f) { f.loop_kind = ForKind::kUnrolled; });
  }

 private:
  void refuse_access(const Buffer& buffer) {
    if (problem.empty())
      problem = fmt::format(
          "buffer {} lies in the registers of a warp, or a group of warps (scope \"{}\"), where whole tiles of tensor "
          "intrinsics reach it, and each thread the elements of a tile of sums that it has",
          buffer->name, kScopeFragment);
  }

  struct Tiles {
    Shape shape;
    int64_t width = 0;  // of a row of the buffer
    DType dtype;
  };
  void note_tiles(const EvaluateNode& node) {
    const auto* called = node.value.as<CallNode>();
    const TensorIntrinsicDef* intrinsic = called ? find_tensor_intrinsic(called->name) : nullptr;
    if (!intrinsic || intrinsic->threads == 0) return;
    const Func meaning = meaning_of(*intrinsic);
    for (size_t p = 0; p < meaning->params.size(); ++p) {
      const Buffer& buffer = called->args[2 * p].as<AddressNode>()->buffer;
      const int64_t* width = as_int(called->args[2 * p + 1]);
      if (is_fragment(buffer))
        tiles_.emplace(buffer.get(),
                       Tiles{shape_of(meaning->params[p], *intrinsic), width ? *width : 0, buffer->dtype});
    }
  }

  // The register in which this thread has the element; null where it is another one's, or a factor's.
  Expr element_place(const Buffer& buffer, const std::vector<Expr>& indices) {
    const auto found = tiles_.find(buffer.get());
    if (found == tiles_.end() || !thread_ || indices.size() != 1) return nullptr;
    const auto& [shape, width, dtype] = found->second;
    const bool is_left_factor = shape == Shape{16, 16, kWarpThreads};
    if (dtype != kF32 && !is_left_factor) return nullptr;
    if (width == 0 || width % shape.columns != 0) return nullptr;
    const Expr row = floordiv(indices[0], Expr(width)), column = floormod(indices[0], Expr(width));
    const Expr r = floormod(row, Expr(shape.rows)), c = floormod(column, Expr(shape.columns));
    const Expr number =
        floordiv(row, Expr(shape.rows)) * (width / shape.columns) + floordiv(column, Expr(shape.columns));
    const Expr thread = analyzer_.simplify(thread_of(r, c));
    const Expr place = analyzer_.simplify(number * shape.elements_per_lane() + register_of(r, c));
    const Expr at_first = analyzer_.simplify(substitute(place, lanes_));
    if (!always_equal(thread, thread_, shape.threads) || !always_equal(place, at_first, shape.threads)) return nullptr;
    for (const Var& var : collect_vars(at_first)) moving_[var.get()] = true;
    return at_first;
  }

  // By trying all threads, and all iterations of the loops that are involved.
  bool always_equal(const Expr& a, const Expr& b, int64_t threads) {
    if (a.get() == b.get()) return true;
    std::vector<std::pair<Var, Interval>> ranges;
    int64_t cases = 1;
    for (const Expr& e : {a, b})
      for (const Var& var : collect_vars(e)) {
        if (std::ranges::find(ranges, var, &std::pair<Var, Interval>::first) != ranges.end()) continue;
        const bool is_thread = var.get() == thread_.get();
        const Interval range = is_thread ? Interval{0, threads - 1} : analyzer_.int_bounds(var);
        if (!range.is_bounded()) return false;
        cases = detail::saturating_mul(cases, range.max - range.min + 1);
        ranges.emplace_back(var, range);
      }
    if (cases > kMostCases) return false;
    for (int64_t n = 0; n < cases; ++n) {
      IntEnv env;
      int64_t rest = n, x = 0, y = 0;
      for (const auto& [var, range] : ranges) {
        const int64_t extent = range.max - range.min + 1;
        env.set(var.get(), range.min + rest % extent);
        rest /= extent;
      }
      if (evaluate_int(a, env, x) != IntProblem::kNone || evaluate_int(b, env, y) != IntProblem::kNone || x != y)
        return false;
    }
    return true;
  }

  Stmt tile(const TensorIntrinsicDef& intrinsic, const CallNode& called) {
    const Func meaning = meaning_of(intrinsic);
    std::vector<Expr> args = called.args;
    bool aligned = false;  // the one tile in memory
    for (size_t p = 0; p < meaning->params.size(); ++p) {
      const auto* pointer = args[2 * p].as<AddressNode>();
      const Shape shape = shape_of(meaning->params[p], intrinsic);
      const Expr base = rewrite_index(pointer->indices[0]), stride = args[2 * p + 1];
      const bool must = intrinsic.in_fragments >> p & 1, may = must || is_mma_product(intrinsic.name);
      if (!is_fragment(pointer->buffer)) {
        if (must)
          problem = fmt::format("{} takes a tile of scope \"{}\", and {} is of scope \"{}\"", intrinsic.name,
                                kScopeFragment, pointer->buffer->name, pointer->buffer->scope);
        aligned = is_multiple(base) && is_multiple(stride) && pointer->buffer->scope == "shared";
        continue;
      }
      if (!may) {
        problem = fmt::format("{} takes a tile in memory, and {} is of scope \"{}\"", intrinsic.name,
                              pointer->buffer->name, kScopeFragment);
        return nullptr;
      }
      const Expr place = lane_place(pointer->buffer, base, stride, shape);
      if (!place) return nullptr;
      for (const Var& var : collect_vars(place)) moving_[var.get()] = true;
      args[2 * p] = address_of(rewrite(pointer->buffer), {place});
      args[2 * p + 1] = Expr(0);
    }
    const bool by_rows = aligned && !is_mma_product(intrinsic.name) && intrinsic.threads == kWarpThreads;
    return evaluate(call(called.name + (by_rows ? kAlignedSuffix : ""), std::move(args), called.dtype));
  }
  Expr rewrite_index(const Expr& index) { return analyzer_.simplify(index); }
  bool is_multiple(const Expr& e) {
    const Modular m = analyzer_.modular(e);
    return m.coeff % 8 == 0 && m.base % 8 == 0;
  }

  // The first register of a lane that belongs to the tile at `base`; tiles lie row by row.
  Expr lane_place(const Buffer& buffer, const Expr& base, const Expr& stride, const Shape& shape) {
    const auto known = shapes_.emplace(buffer.get(), shape).first;
    const int64_t* width = as_int(stride);
    if (known->second == shape && width && *width % shape.columns == 0) {
      const Expr row = analyzer_.simplify(floordiv(base, Expr(*width)));
      const Expr column = analyzer_.simplify(floormod(base, Expr(*width)));
      if (analyzer_.can_prove(eq(floormod(row, Expr(shape.rows)), Expr(0))) &&
          analyzer_.can_prove(eq(floormod(column, Expr(shape.columns)), Expr(0)))) {
        const Expr number =
            floordiv(row, Expr(shape.rows)) * (*width / shape.columns) + floordiv(column, Expr(shape.columns));
        return analyzer_.simplify(number * shape.elements_per_lane());
      }
    }
    problem = fmt::format("buffer {} of scope \"{}\" is made of tiles of {} x {}, and one begins at {} in rows of {}",
                          buffer->name, kScopeFragment, shape.rows, shape.columns, to_text(base), to_text(stride));
    return nullptr;
  }

  static constexpr int64_t kMostCases = 1 << 18;
  Expr thread_;   // its number in its warp, or group of warps
  VarMap lanes_;  // the first one's
  std::map<const BufferNode*, Tiles> tiles_;
  std::map<const BufferNode*, Buffer> placed_;
  std::map<const BufferNode*, Shape> shapes_;
  std::map<const VarNode*, bool> moving_;
  std::vector<Buffer> kept_;
};

}  // namespace

Result<Func> place_fragments(const Func& func) {
  Placer placer(func);
  const Stmt body = placer.rewrite(func->body);
  if (!placer.problem.empty()) return fail(ErrorCode::E301, placer.problem, func->name);
  return with_body(func, body);
}

}  // namespace fettle
