#include <set>

#include "ir/visit.h"
#include "lower/passes/passes.h"

namespace fettle {
namespace {

using Carried = std::unordered_map<const VarNode*, std::set<std::string>>;  // loop → buffers

bool reads(const BlockNode& block, const BufferNode* buffer) {
  bool found = false;
  walk(block.body, nullptr, [&](const Expr& e) {
    const auto* load = e.as<LoadNode>();
    found |= load && load->buffer.get() == buffer;
    return !found;
  });
  return found;
}

/// Collects the loops that take steps: those on which a reduce, scan or opaque iterator depends.
class StepFinder : public Visitor {
 public:
  using Visitor::visit;
  void visit(const Expr&) override {}
  void visit(const Stmt& s) override {
    if (const auto* block = s ? s.as<BlockNode>() : nullptr)
      for (const IterVar& iter : block->iters) {
        const Expr binding = substitute(iter.binding, bindings_);
        bindings_[iter.var.get()] = binding;
        if (iter.kind == IterKind::kSpatial) continue;
        for (const Var& var : collect_vars(binding)) steps.insert(var.get());
      }
    Visitor::visit(s);
  }
  std::set<const VarNode*> steps;

 private:
  VarMap bindings_;
};

/// Collects what the blocks below carry.
class Finder : public Visitor {
 public:
  explicit Finder(std::set<const VarNode*> steps) : steps_(std::move(steps)) {}
  using Visitor::visit;
  void visit(const Expr&) override {}
  void visit(const Stmt& s) override {
    if (const auto* loop = s ? s.as<ForNode>() : nullptr) {
      around_.push_back(loop->var.get());
      Visitor::visit(s);
      around_.pop_back();
      return;
    }
    const auto* block = s ? s.as<BlockNode>() : nullptr;
    if (!block) return Visitor::visit(s);
    std::set<const VarNode*> loops;
    for (const IterVar& iter : block->iters) {
      const Expr binding = substitute(iter.binding, bindings_);
      bindings_[iter.var.get()] = binding;
      if (iter.kind == IterKind::kSpatial) continue;
      for (const Var& var : collect_vars(binding)) loops.insert(var.get());
    }
    if (!loops.empty()) {
      for (const Region& write : block->writes) {
        if (!block->init && (!scans(*block) || !reads(*block, write.buffer.get()))) continue;
        for (const VarNode* loop : loops) carried[loop].insert(write.buffer->name);
      }
    }
    // What one block of a step reads before another one of it writes comes from the step before.
    for (const Region& read : block->reads)
      for (const VarNode* loop : around_)
        if (steps_.contains(loop) && !written_[loop].contains(read.buffer.get()))
          awaited_[loop].insert(read.buffer.get());
    for (const Region& write : block->writes) {
      for (const VarNode* loop : around_) {
        written_[loop].insert(write.buffer.get());
        if (awaited_[loop].contains(write.buffer.get())) carried[loop].insert(write.buffer->name);
      }
    }
    Visitor::visit(s);
  }
  Carried carried;

 private:
  static bool scans(const BlockNode& block) {
    for (const IterVar& iter : block.iters)
      if (iter.kind == IterKind::kScan || iter.kind == IterKind::kOpaque) return true;
    return false;
  }
  std::set<const VarNode*> steps_;
  VarMap bindings_;
  std::vector<const VarNode*> around_;
  std::unordered_map<const VarNode*, std::set<const BufferNode*>> written_, awaited_;  // by loop, in program order
};

class Noter : public Mutator {
 public:
  explicit Noter(const Carried& carried) : carried_(carried) {}
  using Mutator::rewrite;
  Expr rewrite(const Expr& e) override { return e; }
  Stmt rewrite(const Stmt& s) override {
    Stmt result = Mutator::rewrite(s);
    const auto* loop = result ? result.as<ForNode>() : nullptr;
    const auto found = loop ? carried_.find(loop->var.get()) : carried_.end();
    if (found == carried_.end()) return result;
    std::string names;
    for (const std::string& name : found->second) names += (names.empty() ? "" : " ") + name;
    return with(*loop, [&](ForNode& f) { f.annotations.set(kCarriesKey, names); });
  }

 private:
  const Carried& carried_;
};

}  // namespace

Func note_carried_buffers(const Func& func) {
  StepFinder steps;
  steps.visit(func->body);
  Finder finder(std::move(steps.steps));
  finder.visit(func->body);
  return finder.carried.empty() ? func : Noter(finder.carried).Mutator::rewrite(func);
}

}  // namespace fettle
