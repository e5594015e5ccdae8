#include <algorithm>
#include <optional>
#include <set>
#include <string_view>
#include <unordered_map>
#include <unordered_set>

#include "arith/int_eval.h"
#include "arith/linear.h"
#include "ir/annotations.h"
#include "ir/compare.h"
#include "ir/rewrite.h"
#include "lower/passes/passes.h"
#include "target/caches.h"

namespace fettle {
namespace {

// 3 to all caches; 2 leaves the first level to what is used now.
constexpr int kFirstLevel = 3, kSecondLevel = 2;
// More than this in one turn are not spread: they would only wait for each other.
constexpr int64_t kMaxPrefetchesATurn = 24;

bool is_serial(const ForNode* loop) { return loop && loop->loop_kind == ForKind::kSerial; }
// What a tensor intrinsic does at once.
bool is_tile(const ForNode* loop) { return loop && loop->annotations.find(kTensorizeKey); }

bool contains_serial_loop(const Stmt& s) {
  bool found = false;
  walk(s, [&](const Stmt& inner) {
    const auto* loop = inner.as<ForNode>();
    if (is_tile(loop)) return false;
    found |= is_serial(loop);
    return !found;
  });
  return found;
}
bool contains_tile(const Stmt& s) {
  return contains<ForNode>(s, [](const ForNode& loop) { return is_tile(&loop); });
}

// The numbers that an expression takes over this variable's extent, where they are 0, step, 2 * step, …
struct Progression {
  int64_t step = 0, count = 1;
};
std::optional<Progression> progression_of(const Expr& e, const VarNode* var, int64_t extent) {
  constexpr int64_t kMost = 256;
  if (extent < 1 || extent > kMost) return {};
  std::set<int64_t> values;
  for (int64_t i = 0; i < extent; ++i) {
    int64_t value = 0;
    if (evaluate_int(e, {{var, i}}, value) != IntProblem::kNone) return {};
    values.insert(value);
  }
  if (*values.begin() != 0) return {};
  const auto count = static_cast<int64_t>(values.size());
  const int64_t last = *values.rbegin(), step = count > 1 ? last / (count - 1) : 0;
  int64_t next = 0;
  for (const int64_t value : values) {
    if (value != next) return {};
    next += step;
  }
  return Progression{step, count};
}

// Works on the body of one annotated loop.
class Spreader : public StmtMutator {
 public:
  Spreader(const ForNode& loop, int64_t distance, bool near) : loop_(loop), distance_(distance), near_(near) {}
  using Mutator::rewrite;

  Stmt body() {
    each_node<AllocateNode>(loop_.body, [&](const AllocateNode& made) { own_.insert(made.buffer.get()); });
    if (!near_) find_fills();
    has_tiles_ = contains_tile(loop_.body);
    each_node<StoreNode>(loop_.body, [&](const StoreNode& store) {
      adds_up_ |= !near_ && store.buffer->scope == kScopeRegister && !own_.contains(store.buffer.get());
    });
    Stmt made = contains_serial_loop(loop_.body) ? rewrite(loop_.body) : with_prefetches(loop_.body);
    for (const auto& [var, value] : steps_) made = let(var, value, made);
    return made;
  }
  Stmt rewrite(const Stmt& s) override {
    const auto* loop = s.as<ForNode>();
    if (is_tile(loop)) return s;
    // What such a loop adds to its sums stands beside the loops inside, and takes no turn of theirs.
    const bool is_beside = adds_up_ && depth_ == 0 && (loop ? !is_serial(loop) : s.as<StoreNode>() != nullptr);
    if (is_beside && !contains_serial_loop(s)) return with_prefetches(s);
    if (!loop) return Mutator::rewrite(s);
    if (fills_.contains(loop)) return s;
    const int64_t* extent = as_int(loop->extent);
    if (!extent && (!is_serial(loop) || varies(loop->extent))) return s;
    extents_[loop->var.get()] = extent ? *extent : 0;
    if (!is_serial(loop)) return Mutator::rewrite(s);
    ++depth_;
    const Expr outer_turn = turn_, outer_open = open_turns_;
    const int64_t outer_turns = turns_;
    turn_ = turn_ * loop->extent + loop->var;
    if (extent)
      turns_ *= *extent;
    else
      open_turns_ = open_turns_ ? open_turns_ * loop->extent : loop->extent;
    const bool is_innermost = !contains_serial_loop(loop->body);
    Stmt body = is_innermost ? with_prefetches(loop->body) : rewrite(loop->body);
    if (is_innermost && extent && !outer_open) body = with_next_rows(body, *loop, outer_turn, outer_turns);
    --depth_;
    turn_ = outer_turn;
    turns_ = outer_turns;
    open_turns_ = outer_open;
    return with_body(*loop, body);
  }

 private:
  bool uses_inner(const Expr& e) const {
    return contains<VarNode>(e, [&](const VarNode& v) { return extents_.contains(&v); });
  }

  // From one turn of the loops inside to the next.
  bool varies(const Expr& e) const {
    return uses_inner(e) || reads_memory(e) ||
           contains<LetNode>(loop_.body, [&](const LetNode& bound) { return uses_var(e, bound.var.get()); });
  }

  // Of an expression of one loop inside alone, such as k // 2.
  std::optional<Progression> progression_inside(const Expr& e) const {
    const VarNode* only = nullptr;
    for (const auto& [var, extent] : extents_) {
      if (!uses_var(e, var)) continue;
      if (only) return {};
      only = var;
    }
    return progression_of(e, only, extents_.at(only));
  }

  struct Run {
    Expr begin;          // where the iteration `distance_` later begins to read
    int64_t length = 1;  // in elements
  };

  // What one iteration of the annotated loop reads through this load, if that is one dense run that moves on with the
  // loop.
  std::optional<Run> run_of(const LoadNode& source) const {
    if (source.mask || source.indices.size() != 1 || source.buffer->scope == kScopeRegister) return {};
    if (own_.contains(source.buffer.get())) return {};  // made and forgotten in an iteration
    // An address that memory holds would have to be read, perhaps beyond the end of that memory.
    if (reads_memory(source.indices[0])) return {};
    const LinearForm form = linear_form(source.indices[0]);
    LinearForm outer(form.constant);
    std::vector<std::pair<int64_t, int64_t>> inner;  // stride, extent
    bool moves = false;
    for (const LinearTerm& term : form.terms) {
      const auto* var = term.expr.as<VarNode>();
      if (var && extents_.contains(var)) {
        inner.push_back({term.coeff, extents_.at(var)});
        continue;
      }
      if (uses_inner(term.expr)) {
        const auto progression = progression_inside(term.expr);
        if (!progression) return {};
        inner.push_back({term.coeff * progression->step, progression->count});
        continue;
      }
      moves |= uses_var(term.expr, loop_.var.get());
      outer.add_term(term.expr, term.coeff);
    }
    if (!moves) return {};
    Run run;
    std::sort(inner.begin(), inner.end());
    for (const auto& [stride, extent] : inner) {
      if (extent == 1) continue;
      if (stride != run.length) return {};
      run.length *= extent;
    }
    run.begin = substitute(to_expr(outer), {{loop_.var.get(), Expr(loop_.var) + Expr(distance_)}});
    return run;
  }

  // What one iteration copies to memory of its own: `count` rows of `length`, in elements.
  struct Rows {
    Buffer source;
    Expr begin;  // of what the iteration `distance_` later copies
    int64_t length = 1, count = 1, stride = 0;
  };

  // The nests that do nothing but copy, or widen. They end before the loads of later turns could have come, so the
  // nests behind them ask for what they copy next.
  void find_fills() {
    walk(loop_.body, [&](const Stmt& s) {
      const auto* nest = s.as<ForNode>();
      if (!nest) return true;
      const std::optional<Rows> rows = rows_of(*nest);
      if (!rows) return true;
      fills_.insert(nest);
      next_rows_.push_back(*rows);
      return false;
    });
  }

  // for i in n: for j in m: T[…] = A[i * s + j + …]   →   n rows of m
  std::optional<Rows> rows_of(const ForNode& nest) const {
    std::unordered_map<const VarNode*, int64_t> extents;
    const Stmt* inner = nullptr;
    for (const ForNode* loop = &nest; loop; loop = inner->as<ForNode>()) {
      const int64_t* extent = as_int(loop->extent);
      if (!extent || !is_zero(loop->min)) return {};
      extents[loop->var.get()] = *extent;
      inner = &loop->body;
    }
    const auto* copy = inner->as<StoreNode>();
    const auto* widened = copy ? copy->value.as<CastNode>() : nullptr;
    const auto* source = copy ? (widened ? widened->a : copy->value).as<LoadNode>() : nullptr;
    if (!source || source->indices.size() != 1 || reads_memory(source->indices[0])) return {};
    if (!own_.contains(copy->buffer.get()) || copy->buffer->scope == kScopeRegister) return {};
    if (own_.contains(source->buffer.get())) return {};
    LinearForm form = linear_form(source->indices[0]), outer(form.constant);
    std::vector<std::pair<int64_t, int64_t>> strides;  // stride, extent
    bool moves = false;
    for (const LinearTerm& term : form.terms) {
      const auto* var = term.expr.as<VarNode>();
      if (const auto at = var ? extents.find(var) : extents.end(); at != extents.end()) {
        if (at->second > 1) strides.emplace_back(term.coeff, at->second);
        continue;
      }
      if (contains<VarNode>(term.expr, [&](const VarNode& v) { return extents.contains(&v); })) return {};
      moves |= uses_var(term.expr, loop_.var.get());
      outer.add_term(term.expr, term.coeff);
    }
    if (!moves) return {};
    std::ranges::sort(strides);
    Rows rows{.source = source->buffer};
    for (const auto& [stride, extent] : strides) {
      if (rows.count == 1 && stride == rows.length) {
        rows.length *= extent;
      } else if (rows.count == 1 && stride > rows.length) {
        rows.stride = stride;
        rows.count = extent;
      } else if (rows.count > 1 && stride == rows.stride * rows.count) {
        rows.count *= extent;
      } else {
        return {};
      }
    }
    rows.begin = substitute(to_expr(outer), {{loop_.var.get(), Expr(loop_.var) + Expr(distance_)}});
    return rows;
  }

  // Each turn of the loops outside has its share of the rows, and each turn of the innermost loop a few lines of them.
  Stmt with_next_rows(const Stmt& body, const ForNode& inner, const Expr& outer_turn, int64_t outer_turns) const {
    std::vector<Stmt> stmts = {body};
    for (const Rows& rows : next_rows_) {
      const int64_t line = std::max<int64_t>(1, kCacheLineBytes / rows.source->dtype.element_bytes());
      const int64_t lines = (rows.length + line - 1) / line, turns = *as_int(inner.extent);
      const int64_t share = (rows.count + outer_turns - 1) / outer_turns;
      int64_t at_once = (share * lines + turns - 1) / turns;  // whole rows, or equal parts of one
      if (at_once > kMaxPrefetchesATurn) continue;
      while (at_once < lines && lines % at_once != 0) ++at_once;
      const int64_t turns_a_row = std::max<int64_t>(1, lines / at_once), n_rows = (at_once + lines - 1) / lines;
      const Expr row = min(floordiv(inner.var, turns_a_row) * Expr(n_rows), Expr(share - 1));
      const Expr part = floormod(inner.var, turns_a_row) * Expr(at_once * line);
      for (int64_t r = 0; r < n_rows; ++r)
        for (int64_t l = 0; l < std::min(at_once, lines); ++l) {
          const Expr at = (outer_turn * Expr(share) + Expr(r)) * Expr(rows.stride) + row * Expr(rows.stride) + part +
                          rows.begin + Expr(l * line);
          stmts.push_back(
              evaluate(call("prefetch", {address_of(rows.source, {at}), int_imm(kSecondLevel, kI32)}, kI32)));
        }
    }
    return stmts.size() == 1 ? body : seq(stmts);
  }

  // Elements of a run that earlier turns ask for, `step` each where the turns are counted. Of an open number of turns
  // each asks for `step`, as many as the fewest turns would have to; but further turns begin sooner, so that all of
  // them share the run.
  Expr before(int64_t length, int64_t step) {
    if (!open_turns_) return turn_ * Expr(step);
    const Expr turns = max(open_turns_, 1) * Expr(turns_);
    const Expr share = floordiv(turns + Expr(length - 1), turns);
    auto known = std::ranges::find_if(steps_, [&](const auto& s) { return structural_equal(s.second, share); });
    if (known == steps_.end()) known = steps_.insert(known, {make_var("step"), share});
    const LinearForm form = linear_form(turn_);
    Expr sum = Expr(known->first) * Expr(form.constant);
    for (const LinearTerm& term : form.terms) sum = sum + term.expr * (Expr(known->first) * Expr(term.coeff));
    return sum;
  }

  // This turn's share of each run.
  Stmt with_prefetches(const Stmt& body) {
    if (has_tiles_ && !contains_tile(body)) return body;  // what they are fed with takes all the room that there is
    each_node<ForNode>(body, [&](const ForNode& loop) {
      const int64_t* extent = as_int(loop.extent);
      extents_[loop.var.get()] = extent ? *extent : 0;
    });
    std::vector<Stmt> stmts;
    std::vector<Expr> seen;
    each_node<LoadNode>(body, [&](const LoadNode& source) {
      const std::optional<Run> run = run_of(source);
      const int64_t line = std::max<int64_t>(1, kCacheLineBytes / source.buffer->dtype.element_bytes());
      if (!run || run->length < line) return;
      const int64_t step = (run->length + turns_ - 1) / turns_;
      if (step > kMaxPrefetchesATurn * line) return;
      // A line that many turns ask for stays in the first level, lest each of them went to the second.
      const int locality = step < line ? kFirstLevel : kSecondLevel;
      for (int64_t at = 0; at < step; at += line) {
        const Expr ahead = address_of(source.buffer, {before(run->length, step) + run->begin + Expr(at)});
        if (std::ranges::any_of(seen, [&](const Expr& known) { return structural_equal(known, ahead); })) continue;
        seen.push_back(ahead);
        std::vector<Expr> args = {ahead};
        if (!near_) args.push_back(int_imm(locality, kI32));
        stmts.push_back(evaluate(call("prefetch", std::move(args), kI32)));
      }
    });
    if (stmts.empty()) return body;
    // What is near is asked for by the pointers of the loads, which therefore come first.
    stmts.insert(near_ ? stmts.begin() : stmts.end(), body);
    return seq(stmts);
  }

  const ForNode& loop_;
  int64_t distance_;
  bool near_;
  Expr turn_ = Expr(0);                                  // which turn of the serial loops inside this is
  int depth_ = 0;                                        // serial loops around it
  int64_t turns_ = 1;                                    // of how many,
  Expr open_turns_;                                      // times so many
  std::vector<std::pair<Var, Expr>> steps_;              // of runs that open numbers of turns share
  std::unordered_map<const VarNode*, int64_t> extents_;  // of the loops inside
  std::unordered_set<const BufferNode*> own_;            // allocated in the loop
  std::unordered_set<const ForNode*> fills_;             // nests that only copy
  std::vector<Rows> next_rows_;                          // and what they will
  bool has_tiles_ = false;                               // of a tensor intrinsic
  bool adds_up_ = false;                                 // to registers that outlive an iteration
};

Stmt with_notes_done(const ForNode& original) {
  const ForNode* loop = &original;
  Stmt result;
  for (const char* note : {kPrefetchNearKey, kPrefetchKey}) {
    const int64_t distance = loop->annotations.get_int(note, 0);
    if (distance == 0) continue;
    const Stmt body = Spreader(*loop, distance, note == std::string_view(kPrefetchNearKey)).body();
    result = with(*loop, [&](ForNode& f) {
      f.body = body;
      f.annotations.erase(note);
    });
    loop = result.as<ForNode>();
  }
  return result;
}

}  // namespace

Stmt insert_prefetches(const Stmt& body) { return rewrite_each<ForNode>(body, with_notes_done); }

}  // namespace fettle
