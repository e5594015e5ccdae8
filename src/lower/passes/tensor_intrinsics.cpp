#include <algorithm>
#include <optional>
#include <unordered_map>

#include "arith/analyzer.h"
#include "arith/linear.h"
#include "ir/annotations.h"
#include "ir/compare.h"
#include "ir/rewrite.h"
#include "lower/passes/passes.h"
#include "target/match_statement.h"
#include "target/tensor_intrinsic.h"

namespace fettle {
namespace {

// Unrolled loops of a tile beyond this many copies stay loops.
constexpr int64_t kMostCopies = 16;

// --- marking -----------------------------------------------------------------------------------------------------

// Where a buffer of the intrinsic lies: its first element in the tile, and how far its dimensions step.
struct Place {
  Buffer buffer;
  Expr base;
  std::vector<Expr> strides;
};
using Places = std::unordered_map<const BufferNode*, Place>;  // by the meaning's buffers

// Finds out what a tile of flat accesses does, given which loop stands for which iterator of the meaning.
class TileReader {
 public:
  TileReader(const TensorIntrinsicDef& intrinsic, const std::vector<const ForNode*>& loops,
             std::unordered_map<const VarNode*, const VarNode*> loop_of)
      : loops_(loops), loop_of_(std::move(loop_of)) {
    if (intrinsic.row_group == 1) return;
    group_ = intrinsic.row_group;
    grouped_ = meaning_of(intrinsic)->params[1].buffer.get();
  }

  std::optional<Places> read(const StoreNode& meaning, const StoreNode& tile) {
    Places places;
    const auto note = [this](Places& found, const Buffer& pb, const std::vector<Expr>& p, const Buffer& db,
                             const std::vector<Expr>& d) { return access(found, pb, p, db, d); };
    if (!match_store(meaning, tile, places, note)) return {};
    return places;
  }

 private:
  bool access(Places& found, const Buffer& pb, const std::vector<Expr>& p, const Buffer& db,
              const std::vector<Expr>& d) {
    if (!(pb->dtype == db->dtype) || d.size() != 1 || d[0].dtype().is_vector()) return false;
    for (const auto& [known, place] : found)
      if ((known == pb.get()) != (place.buffer == db)) return false;
    if (pb.get() == grouped_) return grouped_access(found, pb, p, db, d[0]);
    std::unordered_map<const VarNode*, Expr> coeffs;
    Expr rest = d[0];
    for (const ForNode* loop : loops_) {
      const auto split = split_linear(rest, loop->var.get());
      if (!split) return false;
      coeffs[loop->var.get()] = analyzer_.simplify(split->coeff);
      rest = split->rest;
    }
    Place place{db, analyzer_.simplify(rest), {}};
    std::unordered_map<const VarNode*, bool> used;
    for (const Expr& index : p) {
      const auto loop = loop_of_.find(index.as<VarNode>());
      if (loop == loop_of_.end()) return false;
      used[loop->second] = true;
      place.strides.push_back(coeffs.at(loop->second));
    }
    for (const auto& [var, coeff] : coeffs)
      if ((!used.contains(var) && !is_zero(coeff)) || moves(coeff)) return false;
    if (moves(place.base) || place.strides.empty() || !is_one(place.strides.back())) return false;
    return note(found, pb, place);
  }

  // Rows in groups: row·n + column steps by 1 within a group, by the group's size from column to column.
  bool grouped_access(Places& found, const Buffer& pb, const std::vector<Expr>& p, const Buffer& db, Expr rest) {
    const auto row = loop_of_.find(p[0].as<VarNode>()), column = loop_of_.find(p[1].as<VarNode>());
    if (row == loop_of_.end() || column == loop_of_.end()) return false;
    const auto loop = std::ranges::find(loops_, row->second, [](const ForNode* l) { return l->var.get(); });
    const Var group = make_var("group"), place_in_group = make_var("in_group");
    analyzer_.bind(group, 0, floordiv((*loop)->extent, Expr(group_)));
    analyzer_.bind(place_in_group, 0, Expr(group_));
    rest = analyzer_.simplify(substitute(rest, {{row->second, Expr(group) * Expr(group_) + Expr(place_in_group)}}));
    Expr steps[3];
    const VarNode* const vars[] = {group.get(), place_in_group.get(), column->second};
    for (size_t i = 0; i < 3; ++i) {
      const auto split = split_linear(rest, vars[i]);
      if (!split) return false;
      steps[i] = analyzer_.simplify(split->coeff);
      rest = split->rest;
    }
    const Place place{db, analyzer_.simplify(rest), {steps[0], Expr(1)}};
    const auto depends = [&](const Expr& e) {
      return moves(e) || uses_var(e, group.get()) || uses_var(e, place_in_group.get());
    };
    if (!is_one(steps[1]) || !is_int(steps[2], group_) || depends(steps[0]) || depends(place.base)) return false;
    return note(found, pb, place);
  }

  static bool note(Places& found, const Buffer& pb, const Place& place) {
    const auto [known, fresh] = found.emplace(pb.get(), place);
    return fresh ||
           (structural_equal(known->second.base, place.base) && structural_equal(known->second.strides, place.strides));
  }
  bool moves(const Expr& e) const {
    return std::ranges::any_of(loops_, [&](const ForNode* loop) { return uses_var(e, loop->var.get()); });
  }

  const std::vector<const ForNode*>& loops_;
  std::unordered_map<const VarNode*, const VarNode*> loop_of_;
  const BufferNode* grouped_ = nullptr;  // of the meaning, whose rows lie in groups
  int64_t group_ = 1;
  Analyzer analyzer_;
};

// The implementation's code, at the tile's place.
class Inliner : public AccessMutator {
 public:
  Inliner(std::unordered_map<const BufferNode*, const Place*> places, VarMap ints)
      : places_(std::move(places)), ints_(std::move(ints)) {}
  using AccessMutator::rewrite;
  Expr rewrite(const Expr& e) override {
    const auto* var = e.as<VarNode>();
    if (!var) return AccessMutator::rewrite(e);
    const auto found = ints_.find(var);
    return found == ints_.end() ? e : found->second;
  }

 private:
  std::optional<Moved> moved(const Buffer& buffer, const std::vector<Expr>& indices) override {
    const auto found = places_.find(buffer.get());
    if (found == places_.end()) return std::nullopt;
    const Expr &base = found->second->base, own = rewrite(indices[0]);
    const int lanes = own.dtype().lanes;
    const auto* run = own.as<RampNode>();
    return Moved{found->second->buffer,
                 {lanes == 1 ? base + own
                  : run      ? ramp(base + run->base, run->stride, lanes)
                             : broadcast(base, lanes) + own}};
  }

  std::unordered_map<const BufferNode*, const Place*> places_;
  VarMap ints_;
};

// The implementation for a tile that lies so; null where it needs other strides.
Stmt implementation_at(const TensorIntrinsicDef& intrinsic, const Places& places) {
  const Func meaning = meaning_of(intrinsic), implementation = implementation_of(intrinsic);
  std::unordered_map<const BufferNode*, const Place*> by_param;
  VarMap ints;
  size_t next = 0;
  for (size_t i = 0; i < meaning->params.size(); ++i) {
    const auto place = places.find(meaning->params[i].buffer.get());
    if (place == places.end()) return nullptr;
    by_param[implementation->params[i].buffer.get()] = &place->second;
    for (size_t d = 0; d + 1 < place->second.strides.size(); ++d) {
      const IntParam& param = implementation->int_params.at(next++);
      const Expr& stride = place->second.strides[d];
      if (param.min == param.max && !is_int(stride, param.min)) return nullptr;
      ints[param.var.get()] = stride;
    }
  }
  return rename_bound(Inliner(std::move(by_param), std::move(ints)).rewrite(implementation->body));
}

class Substituter : public StmtMutator {
 public:
  explicit Substituter(const Target& target) : target_(target) {}
  using Mutator::rewrite;
  Stmt rewrite(const Stmt& s) override {
    const auto* loop = s.as<ForNode>();
    const Attribute* annotation = loop ? loop->annotations.find(kTensorizeKey) : nullptr;
    if (!annotation) return Mutator::rewrite(s);
    const auto* name = std::get_if<std::string>(annotation);
    const TensorIntrinsicDef* intrinsic = name ? find_tensor_intrinsic(*name) : nullptr;
    if (intrinsic && intrinsic->available(target_))
      if (Stmt code = tile(*intrinsic, s)) return code;
    return with(*loop, [](ForNode& f) { f.annotations.erase(kTensorizeKey); });
  }

 private:
  // Null where the tile does something else than the intrinsic, or lies otherwise in memory.
  static Stmt tile(const TensorIntrinsicDef& intrinsic, const Stmt& s) {
    const TileNest tile = tile_nest(s), meaning = tile_nest(meaning_of(intrinsic).root().body);
    if (!tile.store || tile.block || tile.loops.size() != meaning.block->iters.size()) return nullptr;
    for (const ForNode* loop : tile.loops)
      if (!is_zero(loop->min)) return nullptr;
    // Loops of one extent may stand for either of two iterators.
    std::vector<const ForNode*> order = tile.loops;
    std::ranges::sort(order);
    do {
      std::unordered_map<const VarNode*, const VarNode*> loop_of;
      for (size_t i = 0; i < order.size(); ++i)
        if (structural_equal(order[i]->extent, meaning.block->iters[i].extent))
          loop_of[meaning.block->iters[i].var.get()] = order[i]->var.get();
      if (loop_of.size() != order.size()) continue;
      if (const auto places = TileReader(intrinsic, order, std::move(loop_of)).read(*meaning.store, *tile.store))
        return implementation_at(intrinsic, *places);
    } while (std::next_permutation(order.begin(), order.end()));
    return nullptr;
  }

  const Target& target_;
};

}  // namespace

Stmt mark_tensor_tile(const Stmt& body, const std::string& intrinsic) {
  std::vector<const ForNode*> loops;
  VarMap once;
  Stmt inside = body;
  for (; inside.as<ForNode>(); inside = inside.as<ForNode>()->body) {
    const auto* loop = inside.as<ForNode>();
    if (is_one(loop->extent))
      once[loop->var.get()] = loop->min;
    else
      loops.push_back(loop);
  }
  const auto* update = inside.as<StoreNode>();
  if (!update || loops.empty()) return body;
  inside = substitute(inside, once);
  const Expr last = inside.as<StoreNode>()->indices.back();
  int64_t copies = 1;
  for (const ForNode* loop : loops)
    if (const int64_t* extent = as_int(loop->extent); extent && !uses_var(last, loop->var.get())) copies *= *extent;
  // Lanes store elements of their own; those of a fused loop (of j and k, say) would not.
  const LinearForm place = linear_form(last);
  const auto moves = [&](const Var& var) {
    return std::ranges::all_of(place.terms,
                               [&](const LinearTerm& term) {
                                 return term.expr.get() == var.get() || !uses_var(term.expr, var.get());
                               }) &&
           place.coeff_of(var) != 0;
  };
  bool has_lanes = false;
  for (size_t i = loops.size(); i-- > 0;) {
    const bool lanes = !has_lanes && moves(loops[i]->var);
    has_lanes |= lanes;
    inside = with(*loops[i], [&](ForNode& f) {
      f.body = inside;
      if (i == 0) f.annotations.set(kTensorizeKey, intrinsic);
      if (f.loop_kind != ForKind::kSerial) return;
      if (lanes)
        f.loop_kind = ForKind::kVectorized;
      else if (copies <= kMostCopies)
        f.loop_kind = ForKind::kUnrolled;
    });
  }
  return inside;
}

Stmt substitute_tensor_intrinsics(const Stmt& body, const Target& target) { return Substituter(target).rewrite(body); }

Func expand_tensor_tiles(const Func& func, const Target& target) {
  if (!contains<ForNode>(func->body, [](const ForNode& loop) { return loop.annotations.find(kTensorizeKey); }))
    return func;
  const Stmt body = transpose_tiles(substitute_tensor_intrinsics(func->body, target));
  return with_body(func, relax_lane_masks(unroll_loops(vectorize_loops(body))));
}

}  // namespace fettle
