#include <algorithm>
#include <cstdlib>
#include <optional>
#include <vector>

#include "ir/compare.h"
#include "ir/rewrite.h"
#include "lower/passes/lane_runs.h"
#include "lower/passes/passes.h"
#include "lower/passes/transposition.h"
#include "target/tensor_intrinsic.h"

namespace fettle {
namespace {

// Tiles of a loop's body, at most: they are in registers together.
constexpr size_t kMostTiles = 4;

// A tile: what n turns of the loop read, or store, in n lanes. Lanes lie a stride apart, and turns side by side.
struct Tile {
  Expr value;  // of which all lanes are read, worked out along memory; null: the tile is stored
  const StoreNode* store = nullptr;
  bool forwards = true;  // whether later turns lie higher
  Transposition transposition;

  Expr turn(const Expr& number) const {
    const auto lanes = static_cast<int>(transposition.width());
    return ramp((forwards ? number : Expr(lanes - 1) - number) * Expr(lanes), Expr(1), lanes);
  }
};

bool is_arithmetic(const BinaryNode& op) {
  switch (op.op) {
    case BinaryOp::kAdd:
    case BinaryOp::kSub:
    case BinaryOp::kMul:
    case BinaryOp::kDiv:
    case BinaryOp::kMin:
    case BinaryOp::kMax:
      return true;
    default:
      return false;
  }
}

// An innermost loop, its stores, and the tiles that are found in them.
class Turns : public Mutator {
 public:
  Turns(const ForNode& loop, std::vector<const StoreNode*> stores) : loop_(loop), stores_(std::move(stores)) {}

  // The loop n turns at a time, and the turns that are left. Null: nothing is to be transposed.
  Stmt transposed() {
    const int64_t* extent = as_int(loop_.extent);
    for (const StoreNode* store : stores_) add_stored(*store);
    std::vector<Stmt> body;
    for (const StoreNode* store : stores_) body.push_back(turn_of(*store));
    if (tiles_.empty() || (extent && *extent < n_)) return Stmt();

    const Expr whole = floordiv(loop_.extent, Expr(n_)), rest = floormod(loop_.extent, Expr(n_));
    const Var block = make_var(loop_.var->name + "_0");
    const Expr first = loop_.min + Expr(block) * Expr(n_);
    std::vector<Stmt> steps;
    for (const Tile& tile : tiles_)
      if (tile.value) read_rows(tile, first, steps);
    for (int64_t turn = 0; turn < n_; ++turn)
      steps.push_back(substitute(seq(body), {{loop_.var.get(), first + Expr(turn)}, {turn_.get(), Expr(turn)}}));
    for (const Tile& tile : tiles_)
      if (tile.store) write_rows(tile, first, steps);
    Stmt made = seq(std::move(steps));
    for (const Tile& tile : tiles_) made = allocate_all(tile.transposition.buffers(), made);
    const Stmt blocks = with(loop_, [&](ForNode& f) {
      f.var = block;
      f.min = Expr(0);
      f.extent = whole;
      f.body = made;
    });
    if (is_zero(rest)) return blocks;
    const Expr next = loop_.min + whole * Expr(n_);
    if (is_one(rest)) return seq({blocks, substitute(loop_.body, {{loop_.var.get(), next}})});
    const Stmt left = with(loop_, [&](ForNode& f) {
      f.min = next;
      f.extent = rest;
    });
    return seq({blocks, rename_bound(left)});
  }

 private:
  using Mutator::rewrite;

  // The lanes of an access that a tile may be made of.
  std::optional<LaneRun> run_of(const Buffer& buffer, const std::vector<Expr>& indices) const {
    if (is_in_registers(*buffer) || buffer->dtype.is_bool()) return std::nullopt;
    auto run = lane_run(indices, loop_.var);
    if (!run || std::abs(run->step) != 1 || std::abs(run->stride) < run->lanes) return std::nullopt;
    if (!may_transpose(run->lanes, buffer->dtype) || (n_ != 0 && run->lanes != n_)) return std::nullopt;
    return run;
  }

  bool is_stored(const Buffer& buffer) const {
    return std::ranges::any_of(stores_, [&](const StoreNode* store) { return store->buffer == buffer; });
  }

  Tile& add_tile(const Buffer& buffer, const LaneRun& run) {
    n_ = run.lanes;
    const Buffer rows = make_buffer(buffer->name + "_tile", {Expr(n_ * n_)}, buffer->dtype, kScopeRegister);
    return tiles_.emplace_back(Tile{.forwards = run.step > 0, .transposition = Transposition(rows, n_)});
  }

  // What nothing else in the loop touches may be stored later.
  void add_stored(const StoreNode& store) {
    const auto run = run_of(store.buffer, store.indices);
    if (!run || tiles_.size() == kMostTiles) return;
    for (const StoreNode* other : stores_) {
      if (other != &store && other->buffer == store.buffer) return;
      const auto reads = [&](const LoadNode& read) { return read.buffer == store.buffer; };
      if (contains<LoadNode>(other->value, reads) || contains<LoadNode>(other->indices.front(), reads)) return;
    }
    add_tile(store.buffer, *run).store = &store;
  }

  // One turn of a store, of what is transposed.
  Stmt turn_of(const StoreNode& store) {
    const Expr value = rewrite(store.value);
    const auto tile = std::ranges::find(tiles_, &store, &Tile::store);
    if (tile == tiles_.end()) return fettle::store(store.buffer, store.indices, value);
    return fettle::store(tile->transposition.rows(), {tile->turn(turn_)}, value);
  }

  // How far what it reads moves with each turn, where it can be worked out for a lane's turns at once. 0: nothing of it
  // moves. Nothing: it cannot.
  std::optional<int64_t> step_of(const Expr& e) const {
    if (const auto* read = e.as<LoadNode>()) {
      if (read->mask || is_stored(read->buffer)) return std::nullopt;
      const auto run = run_of(read->buffer, read->indices);
      return run ? std::optional(run->step) : std::nullopt;
    }
    if (const auto* spread = e.as<BroadcastNode>()) {
      const bool is_other = uses_var(spread->value, loop_.var.get()) ||
                            contains<LoadNode>(spread->value, [&](const LoadNode& l) { return is_stored(l.buffer); });
      return is_other ? std::nullopt : std::optional<int64_t>(0);
    }
    const auto* op = e.as<BinaryNode>();
    if (!op || !is_arithmetic(*op)) return std::nullopt;
    const auto a = step_of(op->a), b = step_of(op->b);
    if (!a || !b || (*a != 0 && *b != 0 && *a != *b)) return std::nullopt;
    return *a != 0 ? a : b;
  }

  // What a choice reads may not be there, and stays.
  Expr rewrite(const Expr& e) override {
    if (!e || e.dtype().lanes == 1 || e.kind() == ExprKind::kSelect) return e;
    const auto step = step_of(e);
    if (!step || *step == 0) return step ? e : Mutator::rewrite(e);
    const auto is_same = [&](const Tile& tile) { return tile.value && structural_equal(tile.value, e); };
    auto tile = std::ranges::find_if(tiles_, is_same);
    if (tile == tiles_.end()) {
      if (tiles_.size() == kMostTiles) return e;
      const auto* read = find_node<LoadNode>(e, [](const LoadNode& l) { return l.dtype.lanes > 1; });
      add_tile(read->buffer, *lane_run(read->indices, loop_.var)).value = e;
      tile = tiles_.end() - 1;
    }
    return load(tile->transposition.columns(), {tile->turn(turn_)});
  }

  // The turns of one lane of an access, as they lie in memory.
  Expr row(const Expr& index, int64_t lane, bool forwards, const Expr& first) const {
    const auto* lanes = index.as<RampNode>();
    const Expr lowest = forwards ? first : first + Expr(n_ - 1);
    const Expr base = substitute(lanes->base, {{loop_.var.get(), lowest}});
    return ramp(base + lanes->stride * Expr(lane), Expr(1), static_cast<int>(n_));
  }

  // A value with each access of many lanes as the turns of one.
  class Row : public Mutator {
   public:
    Row(const Turns& turns, const Tile& tile, int64_t lane, const Expr& first)
        : turns_(turns), tile_(tile), lane_(lane), first_(first) {}
    using Mutator::rewrite;
    Expr rewrite(const Expr& e) override {
      const auto* read = e.as<LoadNode>();
      if (!read) return !e || e.kind() == ExprKind::kBroadcast ? e : Mutator::rewrite(e);
      return load(read->buffer, {turns_.row(read->indices.front(), lane_, tile_.forwards, first_)});
    }

   private:
    const Turns& turns_;
    const Tile& tile_;
    int64_t lane_;
    const Expr& first_;
  };

  void read_rows(const Tile& tile, const Expr& first, std::vector<Stmt>& steps) const {
    const Transposition& t = tile.transposition;
    for (int64_t lane = 0; lane < n_; ++lane)
      steps.push_back(store(t.rows(), {t.run(lane)}, Row(*this, tile, lane, first).rewrite(tile.value)));
    steps.insert(steps.end(), t.steps().begin(), t.steps().end());
  }

  void write_rows(const Tile& tile, const Expr& first, std::vector<Stmt>& steps) const {
    const Transposition& t = tile.transposition;
    steps.insert(steps.end(), t.steps().begin(), t.steps().end());
    for (int64_t lane = 0; lane < n_; ++lane)
      steps.push_back(store(tile.store->buffer, {row(tile.store->indices.front(), lane, tile.forwards, first)},
                            load(t.columns(), {t.run(lane)})));
  }

  const ForNode& loop_;
  const std::vector<const StoreNode*> stores_;
  const Var turn_ = make_var("turn");  // among n
  int64_t n_ = 0;                      // lanes, and turns at a time; 0: not known yet
  std::vector<Tile> tiles_;
};

Stmt by_tiles(const ForNode& loop) {
  if (loop.loop_kind != ForKind::kSerial || reads_memory(loop.extent) || reads_memory(loop.min)) return Stmt();
  auto stores = plain_stores(loop.body);
  return stores.empty() ? Stmt() : Turns(loop, std::move(stores)).transposed();
}

}  // namespace

Stmt transpose_turns(const Stmt& body) { return rewrite_each<ForNode>(body, by_tiles); }

}  // namespace fettle
