#include <optional>
#include <ranges>
#include <vector>

#include "arith/linear.h"
#include "ir/compare.h"
#include "ir/rewrite.h"
#include "lower/passes/passes.h"
#include "lower/passes/transposition.h"

namespace fettle {
namespace {

/// Fewer columns are gathered as quickly.
constexpr int64_t kFewestColumns = 3;
/// Tiles that are transposed at once: each is in registers as a whole.
constexpr size_t kMostTiles = 2;

// A tile of columns (unrolled) and lanes: one store, perhaps guarded.
struct Tile {
  const ForNode *columns = nullptr, *lanes = nullptr;
  const StoreNode* store = nullptr;
  std::vector<Expr> guards;  // each of one of the loops, or of neither
  int64_t n_columns = 0, n_lanes = 0;

  bool uses_columns(const Expr& e) const { return uses_var(e, columns->var.get()); }
  bool uses_lanes(const Expr& e) const { return uses_var(e, lanes->var.get()); }
  /// Adds the parts of a condition; false: one of them needs both loops.
  bool guard(const Expr& condition, std::vector<Expr>& all) const {
    const size_t before = all.size();
    split_conjuncts(condition, all);
    for (size_t i = before; i < all.size(); ++i)
      if (uses_columns(all[i]) && uses_lanes(all[i])) return false;
    return true;
  }
};

// Through guards to what they guard.
Stmt beneath_guards(Stmt s, std::vector<Expr>& conditions) {
  for (const auto* choice = s.as<IfNode>(); choice && !choice->else_body; choice = s.as<IfNode>()) {
    conditions.push_back(choice->condition);
    s = choice->then_body;
  }
  return s;
}

std::optional<Tile> tile_of(const ForNode& columns) {
  const int64_t* n_columns = as_int(columns.extent);
  if (columns.loop_kind != ForKind::kUnrolled || !n_columns || !is_zero(columns.min)) return {};
  std::vector<Expr> conditions;
  const Stmt inner = beneath_guards(columns.body, conditions);
  const auto* lanes = inner.as<ForNode>();
  if (!lanes || lanes->loop_kind != ForKind::kVectorized || !is_zero(lanes->min)) return {};
  const int64_t* n_lanes = as_int(lanes->extent);
  if (!n_lanes || *n_columns < kFewestColumns || *n_columns > *n_lanes) return {};
  const Stmt body = beneath_guards(lanes->body, conditions);
  Tile tile{&columns, lanes, body.as<StoreNode>(), {}, *n_columns, *n_lanes};
  if (!tile.store || tile.store->mask || tile.store->indices.size() != 1) return {};
  const auto along = split_linear(tile.store->indices[0], lanes->var.get());
  if (!along || !is_one(along->coeff)) return {};
  for (const Expr& condition : conditions)
    if (!tile.guard(condition, tile.guards)) return {};
  return tile;
}

// A load whose rows are contiguous where the tile's columns are: X[base + column + lane * stride].
struct Source {
  const LoadNode* load = nullptr;
  Expr guard;  // null: none
  Expr base, stride;
  Transposition network;
};

// Replaces such loads in the tile's value by what was transposed.
class SourceReplacer : public Mutator {
 public:
  explicit SourceReplacer(const Tile& tile) : tile_(tile) {}
  using Mutator::rewrite;

  std::vector<Source> sources;

  Expr rewrite(const Expr& e) override {
    if (!e) return e;
    if (const auto* choice = e.as<SelectNode>()) {
      // Where other loads are protected by a choice, they stay.
      const auto* guarded = choice->if_true.as<LoadNode>();
      return guarded && is_const_zero(choice->if_false) ? replaced(e, *guarded, choice->condition) : e;
    }
    if (const auto* plain = e.as<LoadNode>()) return replaced(e, *plain, Expr());
    return Mutator::rewrite(e);
  }

 private:
  Expr replaced(const Expr& e, const LoadNode& source, const Expr& guard) {
    std::vector<Expr> conditions;
    if (guard && !tile_.guard(guard, conditions)) return e;
    if (source.mask || source.indices.size() != 1 || source.buffer == tile_.store->buffer) return e;
    if (source.buffer->scope == kScopeRegister || source.buffer->dtype.is_bool()) return e;
    if (!may_transpose(tile_.n_lanes, source.buffer->dtype)) return e;
    const auto column = split_linear(source.indices[0], tile_.columns->var.get());
    if (!column || !is_one(column->coeff)) return e;
    const auto lane = split_linear(column->rest, tile_.lanes->var.get());
    if (!lane || is_zero(lane->coeff) || is_one(lane->coeff) || tile_.uses_columns(lane->coeff)) return e;
    auto known = sources.begin();
    const auto same = [](const Expr& a, const Expr& b) { return a && b ? structural_equal(a, b) : !a && !b; };
    while (known != sources.end() && !(known->load->buffer == source.buffer && same(known->guard, guard) &&
                                       structural_equal(known->load->indices[0], source.indices[0])))
      ++known;
    if (known == sources.end()) {
      if (sources.size() == kMostTiles) return e;
      const Buffer rows = make_buffer(source.buffer->name + "_tile", {Expr(tile_.n_lanes * tile_.n_lanes)},
                                      source.buffer->dtype, kScopeRegister);
      known = sources.insert(known, {&source, guard, lane->rest, lane->coeff, Transposition(rows, tile_.n_lanes)});
    }
    return load(known->network.columns(), {Expr(tile_.columns->var) * tile_.n_lanes + tile_.lanes->var});
  }

  const Tile& tile_;
};

// The tile's rows as they lie in memory, a vector each; zeros where the tile has nothing.
Stmt read_rows(const Tile& tile, const Source& source) {
  const Var row = make_var("row"), column = make_var("column");
  const VarMap places = {{tile.columns->var.get(), Expr(column)}, {tile.lanes->var.get(), Expr(row)}};
  std::vector<Expr> guards = tile.guards;
  if (source.guard) split_conjuncts(source.guard, guards);
  Expr element = load(source.load->buffer, {source.base + Expr(row) * source.stride + column});
  const Expr nothing = constant(0, element.dtype());
  if (tile.n_columns < tile.n_lanes) element = select(lt(column, tile.n_columns), element, nothing);
  for (const Expr& guard : guards) element = select(substitute(guard, places), element, nothing);
  const Stmt kept = store(source.network.rows(), {Expr(row) * tile.n_lanes + column}, element);
  return make_for(row, 0, Expr(tile.n_lanes), make_for(column, 0, Expr(tile.n_lanes), kept, ForKind::kVectorized),
                  ForKind::kUnrolled);
}

class TileTransposer : public StmtMutator {
 public:
  using Mutator::rewrite;
  Stmt rewrite(const Stmt& s) override {
    const auto* loop = s.as<ForNode>();
    const auto tile = loop ? tile_of(*loop) : std::nullopt;
    if (!tile) return Mutator::rewrite(s);
    SourceReplacer replacer(*tile);
    const Expr value = replacer.rewrite(tile->store->value);
    if (replacer.sources.empty()) return s;
    std::vector<Stmt> steps;
    for (const Source& source : replacer.sources) {
      steps.push_back(read_rows(*tile, source));
      steps.insert(steps.end(), source.network.steps().begin(), source.network.steps().end());
    }
    steps.push_back(replace_stmt(s, tile->store, store(tile->store->buffer, tile->store->indices, value)));
    Stmt result = seq(std::move(steps));
    for (const Source& source : replacer.sources) result = allocate_all(source.network.buffers(), result);
    return result;
  }
};

}  // namespace

Stmt transpose_tiles(const Stmt& body) { return TileTransposer().rewrite(body); }

}  // namespace fettle
