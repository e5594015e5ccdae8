#include "schedule/primitives/tensorize.h"

#include <algorithm>
#include <unordered_map>

#include <fmt/format.h>

#include "ir/visit.h"
#include "schedule/dataflow.h"
#include "schedule/footprint.h"
#include "schedule/primitives/blockize.h"
#include "target/tensor_intrinsic.h"

namespace fettle {
namespace {

struct Nest {
  std::vector<const ForNode*> loops;
  const BlockNode* block = nullptr;
};

// The one block of a body and the loops straight down to it; no block where there are several.
Nest nest_of(const Stmt& body) {
  Nest nest;
  Stmt at = body;
  for (; at && at.as<ForNode>(); at = at.as<ForNode>()->body) nest.loops.push_back(at.as<ForNode>());
  nest.block = at ? at.as<BlockNode>() : nullptr;
  return nest;
}

// Compares the statement of an intrinsic with that of a tile, and finds what stands for what.
class Matcher {
 public:
  // `inside`: the tile's iterators that run within it, with their number of values there.
  Matcher(const std::vector<IterVar>& pattern, std::unordered_map<const VarNode*, std::pair<IterKind, int64_t>> inside)
      : inside_(std::move(inside)) {
    for (const IterVar& iter : pattern) pattern_[iter.var.get()] = {iter.kind, *as_int(iter.extent)};
  }

  bool match(const StoreNode& p, const StoreNode& d) {
    return access(p.buffer, p.indices, d.buffer, d.indices) && !d.mask && expr(p.value, d.value);
  }
  bool all_found() const { return found_.vars.size() == pattern_.size() && inside_.size() == pattern_.size(); }

 private:
  struct Found {
    std::unordered_map<const VarNode*, const VarNode*> vars;  // of the pattern → of the tile
    std::unordered_map<const BufferNode*, const BufferNode*> buffers;
  };

  bool var(const VarNode* p, const Expr& d) {
    const auto* v = d.as<VarNode>();
    const auto in = v ? inside_.find(v) : inside_.end();
    if (in == inside_.end() || in->second != pattern_.at(p)) return false;
    for (const auto& [pattern, tile] : found_.vars)
      if ((pattern == p) != (tile == v)) return false;
    found_.vars[p] = v;
    return true;
  }

  bool uses_inside(const Expr& e) const {
    return std::ranges::any_of(inside_, [&](const auto& entry) { return uses_var(e, entry.first); });
  }

  bool access(const Buffer& pb, const std::vector<Expr>& p, const Buffer& db, const std::vector<Expr>& d) {
    if (!(pb->dtype == db->dtype) || d.size() < p.size()) return false;
    for (const auto& [pattern, tile] : found_.buffers)
      if ((pattern == pb.get()) != (tile == db.get())) return false;
    found_.buffers[pb.get()] = db.get();
    const size_t lead = d.size() - p.size();
    for (size_t k = 0; k < lead; ++k)
      if (uses_inside(d[k])) return false;
    for (size_t k = 0; k < p.size(); ++k) {
      const auto* v = p[k].as<VarNode>();
      if (v ? !var(v, d[lead + k]) : uses_inside(d[lead + k])) return false;
    }
    return true;
  }

  bool expr(const Expr& p, const Expr& d) {
    if (p.kind() != d.kind() || !(p.dtype() == d.dtype())) return false;
    if (const auto* source = p.as<LoadNode>()) {
      const auto* other = d.as<LoadNode>();
      return !other->mask && access(source->buffer, source->indices, other->buffer, other->indices);
    }
    if (const auto* op = p.as<BinaryNode>()) {
      const auto* other = d.as<BinaryNode>();
      if (op->op != other->op) return false;
      const Found before = found_;
      if (expr(op->a, other->a) && expr(op->b, other->b)) return true;
      if (op->op != BinaryOp::kAdd && op->op != BinaryOp::kMul) return false;
      found_ = before;
      return expr(op->a, other->b) && expr(op->b, other->a);
    }
    if (const auto* conversion = p.as<CastNode>()) return expr(conversion->a, d.as<CastNode>()->a);
    return structural_equal(p, d);
  }

  std::unordered_map<const VarNode*, std::pair<IterKind, int64_t>> pattern_, inside_;
  Found found_;
};

Result<Applied> apply_tensorize(const Schedule& s, const TensorizeArgs& args) {
  const TensorIntrinsicDef* intrinsic = find_tensor_intrinsic(args.intrinsic);
  if (!intrinsic) return fail(ErrorCode::E224, fmt::format("there is no tensor intrinsic \"{}\"", args.intrinsic));
  FETTLE_TRY(Stmt stmt, resolve(s, args.target));
  Schedule work = s;
  if (stmt.as<ForNode>()) {
    FETTLE_TRY(const BlockRef made, blockize(work, {LoopRef(args.target)}));
    FETTLE_TRY(stmt, work.block(made));
  }
  const Func& func = work.func();
  const auto* unit = stmt.as<BlockNode>();
  const auto refuse = [&](std::string why) {
    return fail_at(ErrorCode::E230, func, unit, fmt::format("{} does not fit: {}", args.intrinsic, why), {});
  };
  if (s.target() && !intrinsic->available(*s.target())) return refuse("the target does not have it");
  const Nest tile = nest_of(unit->body);
  if (!tile.block || tile.loops.empty()) return refuse("the block is no tile that blockize made");
  const Nest meaning = nest_of(meaning_of(*intrinsic).root().body);
  if (tile.block->init) return refuse("the tile has an init, decompose the reduction first");
  if (tile.block->predicate) return refuse("a guard cuts the tile, pad its extents first");
  const StoreNode* update = single_store(*tile.block);
  if (!update) return refuse("the tile is no single store");

  Footprint footprint(func, {}, tile.loops);
  std::unordered_map<const VarNode*, std::pair<IterKind, int64_t>> inside;
  for (const IterVar& iter : tile.block->iters) {
    if (!footprint.is_inner(iter.binding)) continue;
    const auto split = footprint.split(iter.binding);
    if (!split) return refuse(fmt::format("iterator {} is no plain part of a tile", iter.var->name));
    inside[iter.var.get()] = {iter.kind, split->extent};
  }
  Matcher matcher(meaning.block->iters, std::move(inside));
  if (!matcher.match(*single_store(*meaning.block), *update) || !matcher.all_found())
    return refuse("the tile computes something else, or has another size");
  const Stmt noted = with(*unit, [&](BlockNode& b) { b.annotations.set(kTensorizeKey, args.intrinsic); });
  return Applied{replace_in(func, unit, noted), {unit->name}};
}

}  // namespace

constinit const PrimitiveDef tensorize_def = define_primitive<TensorizeArgs, apply_tensorize>("tensorize", 1);

Result<BlockRef> tensorize(Schedule& s, const TensorizeArgs& args) {
  FETTLE_TRY(const int step, s.step(tensorize_def, args));
  return s.blocks_of(step).front();
}

}  // namespace fettle
