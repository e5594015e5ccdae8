#include <algorithm>
#include <bit>
#include <map>
#include <optional>

#include "arith/analyzer.h"
#include "arith/linear.h"
#include "ir/rewrite.h"
#include "lower/device/passes.h"
#include "lower/passes/range_mutator.h"
#include "target/tensor_intrinsic.h"

namespace fettle {
namespace {

constexpr int64_t kChunk = 8;  // elements of 16 bytes; those of 16 bits alone are swizzled

// What is known of a buffer that may be swizzled.
struct Use {
  int64_t accesses = 0, understood = 0;
  int64_t row = 0;  // elements, of all loads of tiles; -1: they differ
  bool tiles_fit = true;
};
using Uses = std::map<const BufferNode*, Use>;

// offset → offset ^ (offset / line % rows) * kChunk
struct Swizzle {
  int64_t line, rows;
  int64_t period() const { return line * rows; }
};

std::optional<Swizzle> swizzle_of(const BufferNode& buffer, const Use& use) {
  const int64_t* size = as_int(buffer.shape[0]);
  if (!size || use.accesses != use.understood || !use.tiles_fit || use.row < 32 ||
      !std::has_single_bit(static_cast<uint64_t>(use.row)))
    return {};
  const Swizzle made{std::max<int64_t>(use.row, 64), std::min<int64_t>(8, use.row / kChunk)};
  return *size % made.period() == 0 ? std::optional(made) : std::nullopt;
}

bool is_tile_load(const CallNode& call) { return call.name.ends_with(kAlignedSuffix) && call.args.size() == 4; }

// A walk that knows the ranges of variables.
class Rewriter : public RangeMutator {
 public:
  Rewriter(const Func& func, Uses& uses) : RangeMutator(func), uses_(uses) {}
  bool changes = false;  // else it only looks
  using Mutator::rewrite;

  Expr rewrite(const Expr& e) override {
    if (!e) return e;
    if (const auto* source = e.as<LoadNode>()) note(source->buffer);
    if (const auto* pointer = e.as<AddressNode>()) note(pointer->buffer);
    return Mutator::rewrite(e);
  }
  Stmt rewrite(const Stmt& s) override {
    if (!s) return s;
    const auto* target = s.as<StoreNode>();
    if (target) note(target->buffer);
    const auto* lanes = target ? target->indices[0].as<RampNode>() : nullptr;
    if (lanes && target->value.dtype().lanes == kChunk && find(target->buffer)) {
      if (!changes) ++find(target->buffer)->understood;
      if (const auto how = swizzle(target->buffer))
        return store(target->buffer, {ramp(swizzled(lanes->base, *how), 1, kChunk)}, rewrite(target->value));
    }
    if (const CallNode* call = effect_of(s)) {
      if (call->name == kAsyncCopyCall && is_int(call->args[2], 16))
        if (Stmt copy = async_copy_to(*call)) return copy;
      if (is_tile_load(*call))
        if (Stmt load = tile_load(*call)) return load;
    }
    return RangeMutator::rewrite(s);
  }

 private:
  Use* find(const Buffer& buffer) {
    const auto found = uses_.find(buffer.get());
    return found == uses_.end() ? nullptr : &found->second;
  }
  void note(const Buffer& buffer) {
    if (Use* use = changes ? nullptr : find(buffer)) ++use->accesses;
  }
  std::optional<Swizzle> swizzle(const Buffer& buffer) {
    const Use* use = changes ? find(buffer) : nullptr;
    return use ? swizzle_of(*buffer, *use) : std::nullopt;
  }

  Stmt async_copy_to(const CallNode& call) {
    const auto* to = call.args[0].as<AddressNode>();
    Use* use = find(to->buffer);
    if (!use) return nullptr;
    if (!changes) ++use->understood;
    const auto how = swizzle(to->buffer);
    if (!how) return nullptr;
    std::vector<Expr> args = call.args;
    args[0] = address_of(to->buffer, {swizzled(to->indices[0], *how)});
    return evaluate(fettle::call(call.name, std::move(args), call.dtype));
  }

  // (D, 0, S + at, row)   →   (D, 0, S, row, at, line, rows)
  Stmt tile_load(const CallNode& call) {
    const auto* from = call.args[2].as<AddressNode>();
    Use* use = find(from->buffer);
    if (!use) return nullptr;
    if (!changes) {
      ++use->understood;
      const int64_t* row = as_int(call.args[3]);
      if (use->row == 0 && row) use->row = *row;
      if (!row || use->row != *row) use->row = -1;
      // The tile begins in a line whose number is a multiple of 8, so that its lines' places depend on the lane alone.
      if (use->row > 0)
        use->tiles_fit &= analyzer_.can_prove(lt(floormod(from->indices[0], Expr(8 * use->row)), Expr(use->row)));
      return nullptr;
    }
    const auto how = swizzle(from->buffer);
    if (!how) return nullptr;
    std::string name = call.name.substr(0, call.name.size() - std::string_view(kAlignedSuffix).size());
    return evaluate(fettle::call(name + kSwizzledSuffix,
                                 {call.args[0], call.args[1], address_of(from->buffer, {Expr(0)}), call.args[3],
                                  from->indices[0], Expr(how->line), Expr(how->rows)},
                                 call.dtype));
  }

  Expr swizzled(const Expr& offset, const Swizzle& how) {
    return swizzled_offset(analyzer_, offset, how.line, how.rows, kChunk);
  }

  Uses& uses_;
};

}  // namespace

// What is a multiple of the period stays out, so that the rest, which often does not change in loops, is computed once.
Expr swizzled_offset(Analyzer& analyzer, const Expr& offset, int64_t line, int64_t rows, int64_t chunk) {
  const int64_t period = line * rows;
  const LinearForm all = analyzer.linear(offset);
  LinearForm outer, inner;
  for (const LinearTerm& term : all.terms) (term.coeff % period == 0 ? outer : inner).add_term(term.expr, term.coeff);
  inner.add_constant(floormod_int(all.constant, period));
  outer.add_constant(all.constant - floormod_int(all.constant, period));
  if (!analyzer.can_prove_nonnegative(inner)) {
    outer = LinearForm();
    inner = all;
  }
  const Expr low = to_expr(inner);
  return to_expr(outer) + binary(BinaryOp::kBitXor, low, floormod(floordiv(low, Expr(line)), Expr(rows)) * chunk);
}

Func swizzle_shared(const Func& func, const std::vector<Buffer>& asked) {
  Uses uses;
  for (const Buffer& buffer : asked)
    if ((buffer->dtype == kF16 || buffer->dtype == kBF16) && buffer->scope == "shared") uses[buffer.get()];
  if (uses.empty()) return func;
  Rewriter rewriter(func, uses);
  rewriter.rewrite(func->body);
  rewriter.changes = true;
  return with_body(func, rewriter.rewrite(func->body));
}

}  // namespace fettle
