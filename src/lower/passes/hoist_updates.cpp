#include <algorithm>
#include <cstdlib>
#include <optional>
#include <ranges>
#include <vector>

#include "arith/linear.h"
#include "base/small_vector.h"
#include "ir/annotations.h"
#include "ir/compare.h"
#include "ir/query.h"
#include "lower/passes/passes.h"
#include "lower/passes/range_mutator.h"
#include "target/tensor_intrinsic.h"

namespace fettle {
namespace {

constexpr int64_t kMostElements = 256;

// The loops of constant extents that become lanes or copies, and the store in them.
struct Tile {
  SmallVector<const ForNode*, 4> loops;
  const StoreNode* store = nullptr;
  int64_t elements = 1;
};

std::optional<Tile> tile_of(const Stmt& body) {
  Tile tile;
  Stmt at = body;
  while (const auto* loop = at.as<ForNode>()) {
    const int64_t* extent = as_int(loop->extent);
    const bool is_fixed = loop->loop_kind == ForKind::kUnrolled || loop->loop_kind == ForKind::kVectorized;
    if (!is_fixed || !extent) return std::nullopt;
    tile.loops.push_back(loop);
    tile.elements *= *extent;
    if (tile.elements > kMostElements) return std::nullopt;
    at = loop->body;
  }
  tile.store = at.as<StoreNode>();
  return tile.store ? std::optional(tile) : std::nullopt;
}

// Whether each step of the tile goes on from an element of its own: every loop moves the place, in some dimension by
// more than what shorter steps there reach.
bool has_own_elements(const Tile& tile) {
  struct Step {
    int64_t length, extent;
  };
  std::vector<bool> is_told(tile.loops.size());
  for (const Expr& index : tile.store->indices) {
    const LinearForm form = linear_form(index);
    const auto hides_loop = [&](const LinearTerm& term) {
      return term.expr.kind() != ExprKind::kVar &&
             std::ranges::any_of(tile.loops, [&](const ForNode* loop) { return uses_var(term.expr, loop->var.get()); });
    };
    if (std::ranges::any_of(form.terms, hides_loop)) return false;
    std::vector<Step> steps;
    for (size_t i = 0; i < tile.loops.size(); ++i) {
      if (is_told[i] || !uses_var(index, tile.loops[i]->var.get())) continue;
      const int64_t length = std::abs(form.coeff_of(tile.loops[i]->var));
      if (length == 0) return false;
      steps.push_back({length, *as_int(tile.loops[i]->extent)});
      is_told[i] = true;
    }
    std::ranges::sort(steps, {}, &Step::length);
    int64_t reached = 0;
    for (const Step& step : steps) {
      if (step.length <= reached) return false;
      reached += step.length * (step.extent - 1);
    }
  }
  for (size_t i = 0; i < tile.loops.size(); ++i)
    if (!is_told[i] && !is_one(tile.loops[i]->extent)) return false;
  return true;
}

bool same_place(const LoadNode& read, const StoreNode& written) {
  return read.buffer == written.buffer && !read.mask &&
         std::ranges::equal(read.indices, written.indices,
                            [](const Expr& a, const Expr& b) { return structural_equal(a, b); });
}

// An expression that reads what is kept in place of the store's element.
class Kept : public Mutator {
 public:
  Kept(const StoreNode& store, const Expr& kept) : store_(store), kept_(kept) {}
  using Mutator::rewrite;
  Expr rewrite(const Expr& e) override {
    const auto* read = e.as<LoadNode>();
    return read && same_place(*read, store_) ? kept_ : Mutator::rewrite(e);
  }

 private:
  const StoreNode& store_;
  const Expr& kept_;
};

class Hoister : public RangeMutator {
 public:
  explicit Hoister(const Func& func) : RangeMutator(func) {}
  using RangeMutator::rewrite;
  Stmt rewrite(const Stmt& s) override {
    const auto* loop = s.as<ForNode>();
    if (loop && loop->loop_kind == ForKind::kSerial)
      if (const auto tile = tile_of(loop->body); tile && may_hoist(*loop, *tile)) return hoisted(*loop, *tile);
    return RangeMutator::rewrite(s);
  }

 private:
  // Whether each element of the tile is the same in all iterations, goes on from itself, and is read by no other.
  bool may_hoist(const ForNode& loop, const Tile& tile) {
    const StoreNode& store = *tile.store;
    if (store.mask || is_in_registers(*store.buffer) || reads_memory(loop.extent)) return false;
    if (!has_own_elements(tile)) return false;
    const auto moves = [&](const Expr& index) { return uses_var(index, loop.var.get()) || reads_memory(index); };
    if (std::ranges::any_of(store.indices, moves)) return false;
    // Where the tile begins moves its elements, too.
    if (std::ranges::any_of(tile.loops, [&](const ForNode* inner) { return moves(inner->min); })) return false;
    const auto scope = analyzer_.enter();
    analyzer_.bind(loop.var, loop.min, loop.extent);
    // Places that any step of the tile writes, beside those that one reads.
    VarMap others;
    for (const ForNode* inner : tile.loops) {
      analyzer_.bind(inner->var, inner->min, inner->extent);
      const Var other = make_var(inner->var->name);
      analyzer_.bind(other, inner->min, inner->extent);
      others[inner->var.get()] = other;
    }
    bool goes_on = false, is_apart = true;
    each_node<LoadNode>(store.value, [&](const LoadNode& read) {
      if (!is_apart || !(read.buffer == store.buffer)) return;
      if (same_place(read, store)) {
        goes_on = true;
        return;
      }
      is_apart = !read.mask && std::ranges::any_of(std::views::iota(size_t{0}, read.indices.size()), [&](size_t d) {
        const Expr written = substitute(store.indices[d], others);
        return !reads_memory(read.indices[d]) &&
               (analyzer_.can_prove(lt(read.indices[d], written)) || analyzer_.can_prove(lt(written, read.indices[d])));
      });
    });
    return goes_on && is_apart;
  }

  Stmt hoisted(const ForNode& loop, const Tile& tile) {
    std::vector<Expr> shape, place;
    VarMap from_zero;  // for loops of the tile that begin elsewhere
    for (const ForNode* inner : tile.loops) {
      shape.push_back(inner->extent);
      place.emplace_back(inner->var);
      if (!is_zero(inner->min)) from_zero[inner->var.get()] = substitute(inner->min, from_zero) + inner->var;
    }
    if (shape.empty()) {
      shape.emplace_back(1);
      place.emplace_back(0);
    }
    const Stmt update = substitute(Stmt(Ref<const StoreNode>(tile.store)), from_zero);
    const StoreNode& store = *update.as<StoreNode>();
    const Buffer kept = make_buffer(store.buffer->name + "_kept", shape, store.buffer->dtype, kScopeRegister);
    const Expr here = load(kept, place);
    const auto tiled = [&](Stmt made) {
      for (size_t d = tile.loops.size(); d-- > 0;)
        made = with(*tile.loops[d], [&](ForNode& f) {
          f.body = made;
          f.min = Expr(0);
        });
      return made;
    };
    const Expr value = Kept(store, here).rewrite(store.value);
    const Stmt steps = with(loop, [&](ForNode& f) { f.body = tiled(fettle::store(kept, place, value)); });
    Stmt made = allocate(kept, seq({tiled(fettle::store(kept, place, load(store.buffer, store.indices))), steps,
                                    tiled(fettle::store(store.buffer, store.indices, here))}));
    // Of no iterations nothing is known, nor whether the place is there.
    const Expr runs = lt(Expr(0), loop.extent);
    return analyzer_.can_prove(runs) ? made : if_then(runs, made);
  }
};

}  // namespace

Func hoist_updates(const Func& func) {
  if (func->annotations.get_int(kInOrderKey, 0) == 0) return func;
  return with_body(func, Hoister(func).rewrite(func->body));
}

}  // namespace fettle
