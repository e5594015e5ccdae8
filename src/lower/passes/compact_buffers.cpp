#include <algorithm>
#include <unordered_map>

#include "arith/analyzer.h"
#include "arith/linear.h"
#include "ir/annotations.h"
#include "ir/compare.h"
#include "ir/rewrite.h"
#include "lower/passes/passes.h"
#include "schedule/primitives/rolling_buffer.h"
#include "target/tensor_intrinsic.h"
#include "target/thread_axes.h"

namespace fettle {
namespace {

struct Access {
  const std::vector<Expr>* indices;
  SmallVector<const ForNode*, 16> loops;  // around it, outermost first
};

struct Use {
  SmallVector<const Stmt*, 24> common;  // path from the body to the lowest statement that encloses all accesses so far
  std::vector<Access> accesses;
};

// Finds, for each allocation, all of its accesses and their lowest common ancestor.
class UseFinder : public AccessVisitor {
 public:
  explicit UseFinder(const std::vector<Buffer>& allocations) {
    for (const Buffer& buffer : allocations) uses_[buffer.get()];
  }
  using Visitor::visit;

  void visit(const Stmt& s) override {
    if (!s) return;
    path_.push_back(&s);
    AccessVisitor::visit(s);
    path_.pop_back();
  }

  std::unordered_map<const BufferNode*, Use>& uses() { return uses_; }

 private:
  void access(const Buffer& buffer, const std::vector<Expr>& indices, AccessKind) override {
    const auto found = uses_.find(buffer.get());
    if (found == uses_.end()) return;
    Use& use = found->second;
    if (use.accesses.empty()) {
      use.common = path_;
    } else {
      size_t same = 0;
      while (same < use.common.size() && same < path_.size() && *use.common[same] == *path_[same]) ++same;
      use.common.shrink_to(same);
    }
    use.accesses.push_back({&indices, loops_});
  }

  std::unordered_map<const BufferNode*, Use> uses_;
  SmallVector<const Stmt*, 24> path_;
};

// What is known around an access.
struct Surroundings {
  Analyzer analyzer;
  SmallVector<const VarNode*, 16> inner;  // variables of the loops inside of what is common
  bool is_inner(const VarNode* var) const { return std::find(inner.begin(), inner.end(), var) != inner.end(); }
};

std::vector<Surroundings> surroundings_of(const Use& use, size_t outer_loops, const BufferNode& buffer,
                                          const SharedByThreads& shared_by_threads) {
  std::vector<Surroundings> result(use.accesses.size());
  for (size_t a = 0; a < result.size(); ++a) {
    const auto& loops = use.accesses[a].loops;
    for (size_t i = 0; i < loops.size(); ++i) {
      result[a].analyzer.bind(loops[i]->var, loops[i]->min, loops[i]->extent);
      const std::string& axis = loops[i]->thread_axis;
      if (i >= outer_loops || (shared_by_threads && is_block_thread_axis(axis) && shared_by_threads(buffer, axis)))
        result[a].inner.push_back(loops[i]->var.get());
    }
  }
  return result;
}

// What one iteration of the surroundings touches in one dimension: [base, base + extent).
struct Window {
  Expr base;
  int64_t extent = 0;
};

bool same_form(const LinearForm& x, const LinearForm& y) {
  if (x.constant != y.constant || x.terms.size() != y.terms.size()) return false;
  for (size_t i = 0; i < x.terms.size(); ++i)
    if (!(x.terms[i].expr == y.terms[i].expr) || x.terms[i].coeff != y.terms[i].coeff) return false;
  return true;
}

// The window of dimension `d`, or a null base where the accesses have no common one.
Window find_window(const Use& use, size_t d, std::vector<Surroundings>& surroundings) {
  SmallVector<LinearForm, 4> outer_parts;
  int64_t low = INT64_MAX, high = INT64_MIN;
  for (size_t a = 0; a < use.accesses.size(); ++a) {
    Analyzer& analyzer = surroundings[a].analyzer;
    LinearForm form = analyzer.linear((*use.accesses[a].indices)[d]);
    LinearForm outer, inside(form.constant);
    for (LinearTerm& term : form.terms) {
      bool is_inner = false, is_outer = false;
      if (const auto* var = term.expr.as<VarNode>())
        (surroundings[a].is_inner(var) ? is_inner : is_outer) = true;
      else
        for (const Var& v : collect_vars(term.expr)) (surroundings[a].is_inner(v.get()) ? is_inner : is_outer) = true;
      if (is_inner && is_outer) return {};
      (is_inner ? inside : outer).terms.push_back(std::move(term));
    }
    outer_parts.push_back(std::move(outer));
    const Interval bounds = analyzer.int_bounds(inside);
    if (!bounds.is_bounded()) return {};
    low = std::min(low, bounds.min);
    high = std::max(high, bounds.max);
  }
  const Expr base = to_expr(outer_parts.front());
  for (size_t i = 1; i < outer_parts.size(); ++i) {
    if (same_form(outer_parts[i], outer_parts.front())) continue;
    if (!is_zero(simplify(to_expr(outer_parts[i]) - base))) return {};
  }
  return {base + low, high - low + 1};
}

class Rebaser : public AccessMutator {
 public:
  struct Change {
    Buffer buffer;
    std::vector<Expr> base;
  };
  std::unordered_map<const BufferNode*, Change> changes;
  // statement → allocations to place around it
  std::unordered_map<const StmtNode*, std::vector<Buffer>> placed;
  std::vector<Buffer> outermost;  // around the whole body

  using AccessMutator::rewrite;
  Stmt rewrite(const Stmt& s) override {
    if (!s) return s;
    Stmt result = AccessMutator::rewrite(s);
    if (const auto* loop = result.as<ForNode>(); loop && loop->annotations.find(kCarriesKey))
      result = with(*loop, [](ForNode& f) { f.annotations.erase(kCarriesKey); });
    if (const auto found = placed.find(s.get()); found != placed.end()) {
      // Inside a loop that is the lowest common ancestor, the buffer belongs to one iteration.
      const auto* loop = result.as<ForNode>();
      Stmt body = loop ? loop->body : result;
      // Registers innermost, so that a micro-kernel owns no memory.
      for (const bool registers : {true, false})
        for (const Buffer& buffer : found->second)
          if (is_in_registers(*buffer) == registers) body = allocate(buffer, body);
      result = loop ? with_body(*loop, body) : body;
    }
    return result;
  }

 private:
  std::optional<Moved> moved(const Buffer& buffer, const std::vector<Expr>& indices) override {
    const auto change = changes.find(buffer.get());
    if (change == changes.end()) return std::nullopt;
    Moved to{change->second.buffer, {}};
    to.indices.reserve(indices.size());
    for (size_t d = 0; d < indices.size(); ++d) to.indices.push_back(rewrite(indices[d]) - change->second.base[d]);
    return to;
  }
};

// Elements between a row of one dimension and the next one, beside the row itself; of the innermost, its stride. Empty:
// there are no strides of its own, or they are not of this kind.
std::vector<int64_t> gaps_of(const BufferNode& buffer) {
  std::vector<int64_t> gaps;
  for (size_t d = 0; d < buffer.strides.size(); ++d) {
    const int64_t* stride = as_int(buffer.strides[d]);
    int64_t row = 0;
    if (d + 1 < buffer.strides.size()) {
      const int64_t *inner = as_int(buffer.strides[d + 1]), *extent = as_int(buffer.shape[d + 1]);
      if (!inner || !extent) return {};
      row = *inner * *extent;
    }
    if (!stride || *stride < row) return {};
    gaps.push_back(*stride - row);
  }
  return gaps;
}

std::vector<Expr> strides_with(const std::vector<int64_t>& gaps, const std::vector<Expr>& shape) {
  std::vector<Expr> strides(gaps.size());
  Expr stride = Expr(gaps.back());
  for (size_t d = gaps.size(); d-- > 0;) {
    if (d + 1 < gaps.size()) stride = strides[d + 1] * shape[d + 1] + gaps[d];
    strides[d] = stride;
  }
  return strides;
}

// How many of the statements around all accesses stand around the allocation. What has a run-time size is acquired
// once for all iterations of the serial loops around, where these have no part in the size.
size_t place_of(const BufferNode& buffer, const Use& use) {
  size_t place = use.common.size();
  if (buffer.scope != kScopeGlobal || as_int(element_count(buffer))) return place;
  for (; place > 0; --place) {
    const auto* loop = use.common[place - 1]->as<ForNode>();
    if (!loop) continue;
    const bool decides = std::ranges::any_of(buffer.shape, [&](const Expr& e) { return uses_var(e, loop->var.get()); });
    if (loop->loop_kind != ForKind::kSerial || !loop->annotations.entries.empty() || decides) break;
  }
  return place;
}

}  // namespace

Func compact_buffers(const Func& func, const SharedByThreads& shared_by_threads) {
  const BlockNode& root = func.root();
  UseFinder finder(root.allocations);
  finder.visit(root.body);
  Rebaser rebaser;
  for (const Buffer& buffer : root.allocations) {
    Use& use = finder.uses()[buffer.get()];
    if (use.accesses.empty()) continue;
    // A buffer that keeps rows from one iteration to the next stays outside of the loop.
    const auto outlives = std::find_if(use.common.begin(), use.common.end(), [&](const Stmt* s) {
      const auto* loop = s->as<ForNode>();
      return loop && (rolls(*loop, *buffer) || carries_buffer(*loop, *buffer));
    });
    use.common.shrink_to(static_cast<size_t>(outlives - use.common.begin()));
    size_t outer_loops = 0;
    for (const Stmt* s : use.common) outer_loops += s->as<ForNode>() != nullptr;
    std::vector<Surroundings> surroundings = surroundings_of(use, outer_loops, *buffer, shared_by_threads);
    std::vector<Expr> shape, base;
    const std::vector<int64_t> gaps = gaps_of(*buffer);
    for (size_t d = 0; d < buffer->shape.size(); ++d) {
      if (!buffer->strides.empty() && gaps.empty()) {  // laid out by hand
        base.push_back(0);
        shape.push_back(buffer->shape[d]);
        continue;
      }
      Window window = find_window(use, d, surroundings);
      const int64_t* full = as_int(buffer->shape[d]);
      const bool keeps = !window.base || (full && !is_in_registers(*buffer) && window.extent >= *full);
      base.push_back(keeps ? Expr(0) : window.base);
      shape.push_back(keeps ? buffer->shape[d] : Expr(window.extent));
    }
    Buffer fresh = edited(buffer, [&](BufferNode& b) {
      b.shape = shape;
      b.layout = nullptr;
      if (!gaps.empty()) b.strides = strides_with(gaps, shape);
    });
    rebaser.changes[buffer.get()] = {fresh, base};
    const size_t place = place_of(*fresh, use);
    if (place == 0)
      rebaser.outermost.push_back(fresh);
    else
      rebaser.placed[use.common[place - 1]->get()].push_back(fresh);
  }
  Stmt body = rebaser.rewrite(root.body);
  for (const Buffer& buffer : rebaser.outermost) body = allocate(buffer, body);
  return with_body(func, body);
}

}  // namespace fettle
