#include <algorithm>
#include <functional>
#include <optional>
#include <unordered_map>

#include "arith/analyzer.h"
#include "ir/compare.h"
#include "ir/rewrite.h"
#include "lower/passes/passes.h"

namespace fettle {
namespace {

/// What a loop of unknown length is taken to have.
constexpr int64_t kManyTurns = int64_t{1} << 20;

/// An update B[f] = B[f] + e below the statement at hand. Both loops and conditions are those between the two.
struct Update {
  Stmt store;  // the node that is in the program
  Buffer buffer;
  Expr index, term;
  int64_t terms = 1;                      // that reach one element of B
  SmallVector<const ForNode*, 8> places;  // loops that tell elements apart, outermost last
  SmallVector<const VarNode*, 8> steps;   // variables of the loops that do not
  std::vector<Expr> conditions;           // conjuncts
};

/// e where the store adds it to what the buffer holds; else null.
Expr added_term(const StoreNode& target) {
  const auto* sum = target.value.as<BinaryNode>();
  if (!sum || sum->op != BinaryOp::kAdd || target.mask || target.indices.size() != 1) return {};
  if (!target.buffer->dtype.is_float() || target.buffer->dtype.element_bytes() > 4) return {};
  const auto is_old = [&](const Expr& e) {
    const auto* old = e.as<LoadNode>();
    return old && old->buffer == target.buffer && !old->mask && structural_equal(old->indices[0], target.indices[0]);
  };
  if (is_old(sum->a)) return sum->b;
  if (is_old(sum->b)) return sum->a;
  return {};
}

/// Whether `e` reads memory at a place that depends on something that `index` does not, or elements of a thread's own
/// memory: what a step has put there.
bool varies(const Expr& e, const Expr& index) {
  return contains<LoadNode>(e, [&](const LoadNode& source) {
    const bool is_own = source.buffer->scope != kScopeGlobal && source.buffer->scope != kScopeRegister;
    return std::ranges::any_of(source.indices, [&](const Expr& at) {
      return std::ranges::any_of(collect_vars(at),
                                 [&](const Var& var) { return is_own || !uses_var(index, var.get()); });
    });
  });
}

/// Whether the terms are products of two operands that both vary: those of matrix products and convolutions. A square
/// is none, nor is a scale.
bool is_product(const Expr& term, const Expr& index) {
  if (const auto* convert = term.as<CastNode>()) return is_product(convert->a, index);
  if (const auto* choice = term.as<SelectNode>())
    return is_product(choice->if_true, index) || is_product(choice->if_false, index);
  const auto* two = term.as<BinaryNode>();
  if (!two) return false;
  if (two->op == BinaryOp::kMul && !structural_equal(two->a, two->b) && varies(two->a, index) && varies(two->b, index))
    return true;
  const bool scales = two->op == BinaryOp::kMul || two->op == BinaryOp::kDiv;
  return (scales || two->op == BinaryOp::kAdd || two->op == BinaryOp::kSub) &&
         (is_product(two->a, index) || is_product(two->b, index));
}

bool depends_on(const Expr& e, const SmallVector<const VarNode*, 8>& vars) {
  return std::ranges::any_of(vars, [&](const VarNode* var) { return uses_var(e, var); });
}

/// How many iterations one accumulator takes where `n` follow each other and at most `most` are wanted: a divisor of n
/// near to it where there is one, which leaves no remainder.
int64_t block_of(int64_t n, int64_t most) {
  for (int64_t block = most; 4 * block > most; --block)
    if (n % block == 0) return block;
  return most;
}

class Cascader {
 public:
  Cascader(const Func& func, const std::string& scope) : scope_(scope) { analyzer_.bind_params(func); }

  /// `s` with its long sums cut, and the updates in it.
  Stmt cut(const Stmt& s, std::vector<Update>& updates) {
    if (!s) return s;
    switch (s.kind()) {
      case StmtKind::kStore: {
        const auto* target = s.as<StoreNode>();
        const Expr term = added_term(*target);
        if (term && !reads_memory(target->indices[0]) && !is_product(term, target->indices[0]))
          updates.push_back({.store = s, .buffer = target->buffer, .index = target->indices[0], .term = term});
        return s;
      }
      case StmtKind::kSeq: {
        std::vector<Stmt> parts;
        for (const Stmt& part : s.as<SeqNode>()->stmts) parts.push_back(cut(part, updates));
        return same_parts(parts, s.as<SeqNode>()->stmts) ? s : seq(std::move(parts));
      }
      case StmtKind::kIf: {
        const auto* branch = s.as<IfNode>();
        const Stmt then_body = cut_under(branch->condition, branch->then_body, updates);
        const Stmt else_body = cut_under(logical_not(branch->condition), branch->else_body, updates);
        if (then_body == branch->then_body && else_body == branch->else_body) return s;
        return if_then(branch->condition, then_body, else_body);
      }
      case StmtKind::kAllocate: {
        const auto* allocation = s.as<AllocateNode>();
        const Stmt body = cut(allocation->body, updates);
        std::erase_if(updates, [&](const Update& update) { return update.buffer == allocation->buffer; });
        return body == allocation->body ? s : allocate(allocation->buffer, body);
      }
      case StmtKind::kFor:
        return cut_loop(*s.as<ForNode>(), s, updates);
      case StmtKind::kLet: {
        const auto* bind = s.as<LetNode>();
        std::vector<Update> inside;
        const Stmt body = cut(bind->body, inside);
        std::erase_if(inside, [&](const Update& update) {
          return uses_var(update.index, bind->var.get()) ||
                 std::ranges::any_of(update.conditions, [&](const Expr& c) { return uses_var(c, bind->var.get()); });
        });
        append(updates, std::move(inside));
        return body == bind->body ? s : let(bind->var, bind->value, body);
      }
      default:
        return s;
    }
  }

 private:
  static bool same_parts(const std::vector<Stmt>& a, const std::vector<Stmt>& b) {
    return std::ranges::equal(a, b, [](const Stmt& x, const Stmt& y) { return x.get() == y.get(); });
  }
  static void append(std::vector<Update>& all, std::vector<Update> more) {
    all.insert(all.end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
  }

  Stmt cut_under(const Expr& condition, const Stmt& body, std::vector<Update>& updates) {
    std::vector<Update> inside;
    const Stmt result = cut(body, inside);
    for (Update& update : inside) split_conjuncts(condition, update.conditions);
    append(updates, std::move(inside));
    return result;
  }

  Stmt cut_loop(const ForNode& loop, const Stmt& whole, std::vector<Update>& updates) {
    std::vector<Update> inside;
    Stmt body;
    {
      auto scope = analyzer_.enter();
      analyzer_.bind(loop.var, loop.min, loop.extent);
      body = cut(loop.body, inside);
    }
    const Stmt result = body == loop.body ? whole : with_body(loop, body);
    return finish(*result.as<ForNode>(), result, std::move(inside), updates);
  }

  // The most iterations that are expected of the loop.
  int64_t turns_of(const ForNode& loop) {
    if (const int64_t* turns = as_int(loop.extent)) return *turns;
    if (const auto found = expected_.find(loop.var.get()); found != expected_.end()) return found->second;
    const Interval turns = analyzer_.int_bounds(loop.extent);
    return turns.is_bounded() ? std::min(turns.max, kManyTurns) : kManyTurns;
  }

  // The loop, whose body has the updates `inside`, with what becomes too long in it cut into blocks.
  Stmt finish(const ForNode& loop, const Stmt& whole, std::vector<Update> inside, std::vector<Update>& updates) {
    const bool repeats = loop.loop_kind == ForKind::kSerial || loop.loop_kind == ForKind::kUnrolled;
    const int64_t n = turns_of(loop);
    std::unordered_map<const BufferNode*, int64_t> terms;  // that an element of the buffer takes in one turn
    for (const Update& update : inside)
      if (!uses_var(update.index, loop.var.get())) terms[update.buffer.get()] += update.terms;
    int64_t most = 1;
    std::vector<const Update*> too_long;
    for (const Update& update : inside) {
      if (!repeats || uses_var(update.index, loop.var.get())) continue;
      const int64_t of_turn = terms[update.buffer.get()], block = std::max<int64_t>(kLongestSum / of_turn, 1);
      if (n <= block || (block == 1 && update.terms == 1) || !accumulates(loop, update)) continue;
      most = std::max(most, of_turn);
      too_long.push_back(&update);
    }
    if (!too_long.empty())
      if (const Stmt blocks = in_blocks(loop, n, too_long, std::max<int64_t>(kLongestSum / most, 1)))
        return cut(blocks, updates);
    for (Update& update : inside) {
      if (uses_var(update.index, loop.var.get())) {
        if (!as_int(loop.extent) || loop.loop_kind == ForKind::kThreadBinding) continue;
        update.places.push_back(&loop);
      } else {
        update.steps.push_back(loop.var.get());
        if (repeats) update.terms = std::clamp<int64_t>(update.terms * std::min(n, kManyTurns), 1, kManyTurns);
      }
      updates.push_back(std::move(update));
    }
    return whole;
  }

  // The loop, of some `expected` turns, in blocks of `longest`, or somewhat less, whose sums are added up in turn; null
  // where that cannot be.
  Stmt in_blocks(const ForNode& loop, int64_t expected, const std::vector<const Update*>& updates, int64_t longest) {
    std::vector<Part> parts;
    std::unordered_map<const StmtNode*, Stmt> stores;  // in the place of those that there are
    for (const Update* update : updates) {
      std::optional<Part> part = part_of(loop, *update);
      if (!part) continue;
      stores[update->store.get()] =
          store(part->buffer, {part->index}, load(part->buffer, {part->index}) + update->term);
      parts.push_back(std::move(*part));
    }
    if (parts.empty()) return {};
    const int64_t* turns = as_int(loop.extent);
    const int64_t block = block_of(turns ? *turns : kManyTurns, longest);
    const Var outer = make_var(loop.var->name + "_block"), inner = make_var(loop.var->name);
    const Expr first = Expr(outer) * Expr(block);
    std::vector<Stmt> turn;
    for (const Part& part : parts) turn.push_back(part.clear);
    turn.push_back(with(loop, [&](ForNode& f) {
      f.var = inner;
      f.min = Expr(0);
      f.extent = turns && *turns % block == 0 ? Expr(block) : min(Expr(block), loop.extent - first);
      const Stmt body = rewrite_each<StoreNode>(loop.body, [&](const StoreNode& s) {
        const auto found = stores.find(&s);
        return found == stores.end() ? Stmt() : found->second;
      });
      f.body = substitute(body, {{loop.var.get(), loop.min + first + Expr(inner)}});
    }));
    for (const Part& part : parts) turn.push_back(part.add);
    Stmt body = seq(std::move(turn));
    for (const Part& part : parts) body = allocate(part.buffer, body);
    const Expr blocks = floordiv(loop.extent + Expr(block - 1), Expr(block));
    const Stmt all = make_for(outer, Expr(0), blocks, body, loop.loop_kind);
    // What the blocks add up to is cut like them, in fewer parts: each of these counts for more of the sum.
    expected = (expected + block - 1) / block;
    expected_[inner.get()] = block;
    expected_[outer.get()] = expected;
    if (expected <= kMostBlocks) return all;
    std::vector<const Update*> of_blocks;
    for (const Part& part : parts) of_blocks.push_back(&part.update);
    const Stmt result = in_blocks(*all.as<ForNode>(), expected, of_blocks, kMostBlocks);
    return result ? result : all;
  }

  // A part of a sum: an accumulator for each element that one turn of the loop adds to.
  struct Part {
    Buffer buffer;
    Expr index;
    Stmt clear, add;  // T[…] = 0; B[…] = B[…] + T[…]
    Update update;    // that `add` makes
  };

  std::optional<Part> part_of(const ForNode& loop, const Update& update) {
    // The lanes of a vector lie side by side.
    SmallVector<const ForNode*, 8> places = update.places;
    std::ranges::stable_sort(places, [](const ForNode* a, const ForNode* b) {
      return (a->loop_kind == ForKind::kVectorized) > (b->loop_kind == ForKind::kVectorized);
    });
    Expr index = 0;
    int64_t size = 1;
    for (const ForNode* place : places) {
      index = (Expr(place->var) - place->min) * Expr(size) + index;
      size *= *as_int(place->extent);
    }
    // Conditions on steps say which terms there are, those on places which elements.
    SmallVector<const VarNode*, 8> steps = update.steps;
    steps.push_back(loop.var.get());
    Expr condition;
    bool mixed = false;
    for (const Expr& conjunct : update.conditions) {
      if (!depends_on(conjunct, steps) && !reads_memory(conjunct))
        condition = logical_and(condition, conjunct);
      else
        mixed |= std::ranges::any_of(places, [&](const ForNode* p) { return uses_var(conjunct, p->var.get()); });
    }
    if (mixed && !stays_inside(update, condition)) return {};
    for (const ForNode* place : places)
      if (depends_on(place->min, steps)) return {};

    Part part;
    part.index = index;
    part.buffer = make_buffer(update.buffer->name + "_part", {Expr(size)}, update.buffer->dtype,
                              scope_.empty() ? update.buffer->scope : scope_);
    Stmt clear = store(part.buffer, {index}, constant(0, part.buffer->dtype));
    const Stmt add =
        store(update.buffer, {update.index}, load(update.buffer, {update.index}) + load(part.buffer, {index}));
    Stmt sum = condition ? if_then(condition, add) : add;
    const auto around = [](const ForNode& place, const Stmt& body) {
      return make_for(place.var, place.min, place.extent, body, place.loop_kind);
    };
    for (const ForNode* place : update.places) {
      clear = around(*place, clear);
      sum = around(*place, sum);
    }
    part.clear = rename_bound(clear);
    part.add = rename_bound(sum);
    std::vector<Update> made;
    cut(part.add, made);
    part.update = std::move(made.front());
    return part;
  }

  // Whether no lane that `condition` admits lies outside of the buffer.
  bool stays_inside(const Update& update, const Expr& condition) {
    auto scope = analyzer_.enter();
    for (size_t i = update.places.size(); i-- > 0;)
      analyzer_.bind(update.places[i]->var, update.places[i]->min, update.places[i]->extent);
    if (condition) analyzer_.add_assumption(condition);
    return analyzer_.can_prove(logical_and(le(Expr(0), update.index), lt(update.index, element_count(*update.buffer))));
  }

  // Whether all that the loop does to the buffer is to add to it, but for setting it in a turn of its own.
  static bool accumulates(const ForNode& loop, const Update& update) {
    int64_t reads = 0, sums = 0;
    bool other = false;
    const std::function<void(const Stmt&, bool)> look = [&](const Stmt& body, bool in_one_turn) {
      walk(
          body,
          [&](const Stmt& s) {
            const auto* branch = s.as<IfNode>();
            if (branch && !in_one_turn && uses_var(branch->condition, loop.var.get())) {
              look(branch->then_body, true);
              if (branch->else_body) look(branch->else_body, true);
              return false;
            }
            const auto* target = s.as<StoreNode>();
            if (target && target->buffer == update.buffer) {
              if (added_term(*target))
                ++sums;
              else
                other |= !in_one_turn;
            }
            other |= s.kind() == StmtKind::kCallFunc || s.kind() == StmtKind::kAsync || s.kind() == StmtKind::kWhile;
            return !other;
          },
          [&](const Expr& e) {
            const auto* source = e.as<LoadNode>();
            reads += source && source->buffer == update.buffer;
            const auto* pointer = e.as<AddressNode>();
            other |= pointer && pointer->buffer == update.buffer;
            return !other;
          });
    };
    look(loop.body, false);
    return !other && reads == sums;
  }

  const std::string scope_;
  Analyzer analyzer_;
  std::unordered_map<const VarNode*, int64_t> expected_;  // turns of loops in and over blocks
};

}  // namespace

Func cascade_sums(const Func& func, const std::string& scope) {
  std::vector<Update> updates;
  return with_body(func, Cascader(func, scope).cut(func->body, updates));
}

}  // namespace fettle
