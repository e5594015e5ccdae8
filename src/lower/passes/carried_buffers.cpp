#include <algorithm>
#include <set>

#include <fmt/ranges.h>

#include "base/small_vector.h"
#include "ir/annotations.h"
#include "ir/compare.h"
#include "ir/rewrite.h"
#include "lower/passes/passes.h"
#include "schedule/dataflow/dataflow.h"
#include "schedule/dataflow/footprint.h"
#include "schedule/primitives/reschedule.h"

namespace fettle {
namespace {

using Carried = std::unordered_map<const VarNode*, std::set<std::string>>;  // loop → buffers

// The loops that an iterator depends on, through those of the blocks around.
class Bindings {
 public:
  // What `see(var)` is told of: variables of loops that iterators other than spatial ones depend on.
  template <class See>
  void enter(const BlockNode& block, const See& see) {
    for (const IterVar& iter : block.iters) {
      const bool nested = block.body.kind() != StmtKind::kStore;
      if (iter.kind == IterKind::kSpatial && !nested) continue;
      const Expr binding = values_.empty() ? iter.binding : substitute(iter.binding, values_);
      if (iter.kind != IterKind::kSpatial) each_node<VarNode>(binding, [&](const VarNode& var) { see(&var); });
      if (nested) values_[iter.var.get()] = binding;
    }
  }

 private:
  VarMap values_;  // of blocks that have others inside
};

template <class List, class T>
bool has(const List& list, const T& item) {
  return std::find(list.begin(), list.end(), item) != list.end();
}
template <class List, class T>
void note(List& list, const T& item) {
  if (!has(list, item)) list.push_back(item);
}

using Loops = SmallVector<const VarNode*, 16>;
using Buffers = SmallVector<const BufferNode*, 4>;

// Whether names with spaces between them have that of the buffer.
bool names_buffer(const Attribute* names, const BufferNode& buffer) {
  const auto* text = std::get_if<std::string>(names);
  return text && (" " + *text + " ").find(" " + buffer.name + " ") != std::string::npos;
}

/// Collects the loops that take steps: those on which a reduce, scan or opaque iterator depends.
void find_steps(const Stmt& s, Bindings& bindings, Loops& steps) {
  each_node<BlockNode>(
      s, [&](const BlockNode& block) { bindings.enter(block, [&](const VarNode* var) { note(steps, var); }); });
}

/// Collects what the blocks below carry.
class Finder : public Visitor {
 public:
  explicit Finder(const Loops& steps) : steps_(steps) {}
  using Visitor::visit;
  void visit(const Expr&) override {}
  void visit(const Stmt& s) override {
    if (const auto* loop = s ? s.as<ForNode>() : nullptr) {
      around_.push_back({loop->var.get(), has(steps_, loop->var.get()), !is_one(loop->extent), {}, {}, {}});
      visit(loop->body);
      around_.pop_back();
      return;
    }
    const auto* block = s ? s.as<BlockNode>() : nullptr;
    if (!block) return Visitor::visit(s);
    Loops loops;
    bindings_.enter(*block, [&](const VarNode* var) { note(loops, var); });
    if (!loops.empty()) {
      for (const Region& write : block->writes) {
        if (!block->init && (!scans(*block) || !accesses(block->body, write.buffer.get(), {AccessKind::kRead})))
          continue;
        for (const VarNode* loop : loops) carried[loop].insert(write.buffer->name);
      }
    }
    const size_t n_around = conditions_.size();
    const std::vector<Expr> own = conjuncts(block->predicate);
    conditions_.insert(conditions_.end(), own.begin(), own.end());
    note_skipped(*block, loops, own);
    // What one block of a step reads before another one of it writes comes from the step before.
    for (const Region& read : block->reads)
      for (Around& loop : around_)
        if (loop.steps && !has(loop.written, read.buffer.get())) note(loop.awaited, read.buffer.get());
    for (const Region& write : block->writes) {
      const bool kept = names_buffer(block->annotations.find(kKeptBuffersKey), *write.buffer);
      for (Around& loop : around_) {
        if (kept) carried[loop.var].insert(write.buffer->name);
        note(loop.written, write.buffer.get());
        if (has(loop.awaited, write.buffer.get())) carried[loop.var].insert(write.buffer->name);
      }
    }
    if (block->body.kind() != StmtKind::kStore) {
      visit(block->init);
      visit(block->body);
    }
    conditions_.resize(n_around);
  }
  Carried carried;

 private:
  struct Around {
    const VarNode* var;
    bool steps, repeats;
    Buffers written, awaited;  // in program order
    std::vector<std::pair<const BufferNode*, Expr>> skipped;
  };

  // Iterations that a condition skips which asks nothing about places (loops that steps depend on are known): what
  // reads the buffer under another condition has it from an iteration before.
  //   for p in 3: { S += …  where p < 1;  B = S  where p == 2 }
  void note_skipped(const BlockNode& block, const Loops& loops, const std::vector<Expr>& own) {
    for (Around& loop : around_) {
      for (const auto& [buffer, condition] : loop.skipped) {
        const auto is_read = [&](const Region& read) { return read.buffer.get() == buffer; };
        const auto is_same = [&](const Expr& other) { return structural_equal(other, condition); };
        if (std::ranges::any_of(block.reads, is_read) && std::ranges::none_of(conditions_, is_same))
          carried[loop.var].insert(buffer->name);
      }
      if (!loop.repeats || has(loops, loop.var)) continue;
      for (const Expr& condition : own)
        if (uses_var(condition, loop.var) && !asked_by(condition, block).places)
          for (const Region& write : block.writes) loop.skipped.emplace_back(write.buffer.get(), condition);
    }
  }
  static bool scans(const BlockNode& block) {
    for (const IterVar& iter : block.iters)
      if (iter.kind == IterKind::kScan || iter.kind == IterKind::kOpaque) return true;
    return false;
  }
  const Loops& steps_;
  Bindings bindings_;
  SmallVector<Around, 16> around_;
  std::vector<Expr> conditions_;  // of the blocks around, and of the block
};

}  // namespace

bool carries_buffer(const ForNode& loop, const BufferNode& buffer) {
  return names_buffer(loop.annotations.find(kCarriesKey), buffer);
}

Func note_carried_buffers(const Func& func) {
  Bindings bindings;
  Loops steps;
  find_steps(func->body, bindings, steps);
  Finder finder(steps);
  finder.visit(func->body);
  if (finder.carried.empty()) return func;
  return with_body(func, rewrite_each<ForNode>(func->body, [&](const ForNode& loop) -> Stmt {
                     const auto found = finder.carried.find(loop.var.get());
                     if (found == finder.carried.end()) return nullptr;
                     const std::string names = fmt::format("{}", fmt::join(found->second, " "));
                     return with(loop, [&](ForNode& f) { f.annotations.set(kCarriesKey, names); });
                   }));
}

}  // namespace fettle
