#include "schedule/primitives/tensorize.h"

#include <algorithm>
#include <array>
#include <unordered_map>

#include "ir/annotations.h"
#include "schedule/dataflow/dataflow.h"
#include "schedule/dataflow/footprint.h"
#include "schedule/edit/steps.h"
#include "schedule/primitives/blockize.h"
#include "target/match_statement.h"
#include "target/tensor_intrinsic.h"

namespace fettle {
namespace {

// What stands for what.
struct Found {
  std::unordered_map<const VarNode*, const VarNode*> vars;  // iterators of the pattern → of the tile
  std::unordered_map<const BufferNode*, const BufferNode*> buffers;
};

// The iterators of a tile, and what indices say of them.
class TileAccesses {
 public:
  TileAccesses(const Func& func, const BlockNode& unit, const TileNest& tile) : footprint_(func, {}, tile.loops) {
    for (const IterVar& iter : unit.iters) footprint_.analyzer().bind(iter.var, 0, iter.extent);
    for (const IterVar& iter : tile.block->iters) bindings_[iter.var.get()] = iter.binding;
  }

  // Notes the iterators that run inside. False where one of them is no plain part of the tile.
  bool find_inside(const BlockNode& block) {
    for (const IterVar& iter : block.iters) {
      if (!footprint_.is_inner(iter.binding)) continue;
      const auto split = footprint_.split(iter.binding);
      if (!split) return false;
      inside_.push_back({iter.var.get(), iter.kind, split->extent, split->inner});
    }
    return true;
  }
  size_t n_inside() const { return inside_.size(); }

  // Whether the index is that of the pattern's iterator, from a place that the loops outside decide.
  bool stands_for(Found& found, const VarNode* pattern, IterKind kind, int64_t extent, const Expr& index) {
    const LinearForm inner = inner_part(index);
    for (const Inside& iter : inside_) {
      if (iter.kind != kind || iter.extent != extent || !same(iter.form, inner)) continue;
      for (const auto& [known, tile] : found.vars)
        if ((known == pattern) != (tile == iter.var)) return false;
      found.vars[pattern] = iter.var;
      return true;
    }
    return false;
  }
  bool moves_inside(const Expr& index) { return !inner_part(index).terms.empty(); }
  // number * group + rest, of which these are quotient and remainder.
  Expr joined(const Expr& number, const Expr& rest, int64_t group) {
    return footprint_.analyzer().simplify(substitute(number * Expr(group) + rest, bindings_));
  }

 private:
  struct Inside {
    const VarNode* var;
    IterKind kind;
    int64_t extent;
    LinearForm form;  // in the loops of the tile
  };

  LinearForm inner_part(const Expr& index) {
    LinearForm inner;
    for (const LinearTerm& term : footprint_.analyzer().linear(substitute(index, bindings_)).terms)
      if (footprint_.is_inner(term.expr)) inner.add_term(term.expr, term.coeff);
    return inner;
  }
  static bool same(const LinearForm& a, const LinearForm& b) {
    return a.terms.size() == b.terms.size() &&
           std::ranges::all_of(a.terms, [&](const LinearTerm& t) { return b.coeff_of(t.expr) == t.coeff; });
  }

  Footprint footprint_;
  VarMap bindings_;
  std::vector<Inside> inside_;
};

Result<Applied> apply_tensorize(const Schedule& s, const TensorizeArgs& args) {
  const TensorIntrinsicDef* intrinsic = find_tensor_intrinsic(args.intrinsic);
  if (!intrinsic) return fail(ErrorCode::E241, fmt::format("there is no tensor intrinsic \"{}\"", args.intrinsic));
  FETTLE_TRY(Stmt stmt, resolve(s, args.target));
  Schedule work = s;
  if (stmt.as<ForNode>()) {
    FETTLE_TRY(const BlockRef made, blockize(work, {LoopRef(args.target)}));
    FETTLE_TRY(stmt, work.block(made));
  }
  const Func& func = work.func();
  const auto* unit = stmt.as<BlockNode>();
  const auto refuse = [&](std::string why) {
    return refused(ErrorCode::E230, func, unit, "{} does not fit: {}", args.intrinsic, why);
  };
  if (s.target() && !intrinsic->available(*s.target())) return refuse("the target does not have it");
  const TileNest tile = tile_nest(unit->body);
  if (!tile.block || tile.loops.empty()) return refuse("the block is no tile that blockize made");
  const Func meaning_func = meaning_of(*intrinsic);
  const TileNest meaning = tile_nest(meaning_func.root().body);
  if (tile.block->init) return refuse("the tile has an init, decompose the reduction first");
  if (tile.block->predicate) return refuse("a guard cuts the tile, pad its extents first");
  if (!tile.store) return refuse("the tile is no single store");

  TileAccesses accesses(func, *unit, tile);
  if (!accesses.find_inside(*tile.block)) return refuse("an iterator is no plain part of a tile");
  std::unordered_map<const VarNode*, const IterVar*> pattern;
  for (const IterVar& iter : meaning.block->iters) pattern[iter.var.get()] = &iter;
  const auto access = [&](Found& found, const Buffer& pb, const std::vector<Expr>& p, const Buffer& db,
                          const std::vector<Expr>& d) {
    if (!(pb->dtype == db->dtype) || d.size() < p.size()) return false;
    for (const auto& [known, buffer] : found.buffers)
      if ((known == pb.get()) != (buffer == db.get())) return false;
    found.buffers[pb.get()] = db.get();
    // Rows in groups: [k / group][n][k % group] stands for [k, n].
    const int64_t group = intrinsic->row_group > 1 && pb == meaning_func->params[1].buffer ? intrinsic->row_group : 1;
    if (group > 1 && d.size() > p.size()) {
      const size_t at = d.size() - 3;
      const std::vector<Expr> rows = {accesses.joined(d[at], d[at + 2], group), d[at + 1]};
      for (size_t k = 0; k < at; ++k)
        if (accesses.moves_inside(d[k])) return false;
      return std::ranges::all_of(std::array{size_t{0}, size_t{1}}, [&](size_t k) {
        const IterVar& iter = *pattern.at(p[k].as<VarNode>());
        return accesses.stands_for(found, iter.var.get(), iter.kind, *as_int(iter.extent), rows[k]);
      });
    }
    // From the last one on; dimensions that the tile does not move in may lie between.
    size_t at = d.size();
    for (size_t k = p.size(); k-- > 0;) {
      const auto iter = pattern.find(p[k].as<VarNode>());
      if (iter != pattern.end())
        while (at > k + 1 && !accesses.moves_inside(d[at - 1])) --at;
      const Expr& index = d[--at];
      if (iter == pattern.end()
              ? accesses.moves_inside(index)
              : !accesses.stands_for(found, iter->first, iter->second->kind, *as_int(iter->second->extent), index))
        return false;
    }
    while (at > 0)
      if (accesses.moves_inside(d[--at])) return false;
    return true;
  };
  Found found;
  if (!match_store(*meaning.store, *tile.store, found, access) || found.vars.size() != pattern.size() ||
      accesses.n_inside() != pattern.size())
    return refuse("the tile computes something else, or has another size");
  const Stmt annotated = with(*unit, [&](BlockNode& b) { b.annotations.set(kTensorizeKey, args.intrinsic); });
  return Applied{replace_in(func, unit, annotated), {unit->name}};
}

}  // namespace

extern constinit const PrimitiveDef tensorize_def = define_primitive<TensorizeArgs, apply_tensorize>("tensorize", 1);

Result<BlockRef> tensorize(Schedule& s, const TensorizeArgs& args) { return run<BlockRef>(s, tensorize_def, args); }

}  // namespace fettle
