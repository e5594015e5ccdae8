#include <map>
#include <optional>

#include <fmt/format.h>

#include "arith/analyzer.h"
#include "ir/rewrite.h"
#include "ir/text.h"
#include "lower/device/passes.h"
#include "lower/passes/range_mutator.h"
#include "target/tensor_intrinsic.h"

namespace fettle {
namespace {

struct Shape {
  int64_t rows = 0, columns = 0;
  int64_t elements_per_lane() const { return rows * columns / kWarpThreads; }
  bool operator==(const Shape&) const = default;
};

Shape shape_of(const Param& param) { return {*as_int(param.buffer->shape[0]), *as_int(param.buffer->shape[1])}; }

bool is_fragment(const Buffer& buffer) { return buffer->scope == kScopeFragment; }

class Placer : public RangeMutator {
 public:
  explicit Placer(const Func& func) : RangeMutator(func) {}
  using Mutator::rewrite;
  std::string problem;

  Buffer rewrite(const Buffer& buffer) override {
    if (!is_fragment(buffer)) return buffer;
    Buffer& placed = placed_[buffer.get()];
    if (!placed) {
      placed = edited(buffer, [&](BufferNode& b) {
        const int64_t* elements = as_int(buffer->shape[0]);
        if (elements)
          b.shape = {Expr(*elements / kWarpThreads)};
        else
          problem = fmt::format("buffer {} of fragments has a size that is no constant", buffer->name);
      });
      kept_.push_back(buffer);
    }
    return placed;
  }

  Expr rewrite(const Expr& e) override {
    if (!e) return e;
    const auto* source = e.as<LoadNode>();
    const auto* pointer = e.as<AddressNode>();
    if (source && is_fragment(source->buffer)) refuse_access(source->buffer);
    if (pointer && is_fragment(pointer->buffer)) refuse_access(pointer->buffer);
    return Mutator::rewrite(e);
  }

  Stmt rewrite(const Stmt& s) override {
    if (!s || !problem.empty()) return s;
    if (const auto* target = s.as<StoreNode>(); target && is_fragment(target->buffer)) refuse_access(target->buffer);
    const CallNode* called = effect_of(s);
    const TensorIntrinsicDef* intrinsic = called ? find_tensor_intrinsic(called->name) : nullptr;
    if (intrinsic && intrinsic->per_warp) return tile(*intrinsic, *called);
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
          "buffer {} lies in the registers of a warp (scope \"{}\"), where only whole tiles of tensor intrinsics reach "
          "it",
          buffer->name, kScopeFragment);
  }

  Stmt tile(const TensorIntrinsicDef& intrinsic, const CallNode& called) {
    const Func meaning = meaning_of(intrinsic);
    std::vector<Expr> args = called.args;
    bool aligned = false;  // the one tile in memory
    for (size_t p = 0; p < meaning->params.size(); ++p) {
      const auto* pointer = args[2 * p].as<AddressNode>();
      const Shape shape = shape_of(meaning->params[p]);
      const Expr base = rewrite_index(pointer->indices[0]), stride = args[2 * p + 1];
      const bool must = intrinsic.in_fragments >> p & 1, may = must || intrinsic.name == kMma;
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
    const bool by_rows = aligned && intrinsic.name != kMma;
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

  static constexpr std::string_view kMma = "mma_m16n8k16_f16";
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
