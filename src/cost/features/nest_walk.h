#pragma once
// A walk through lowered code that knows, at each store, the loops around it: how often they run, how an access moves
// with them, and what integers are in the middle of their ranges.

#include <algorithm>
#include <utility>
#include <vector>

#include "cost/loop_tree/access_form.h"
#include "ir/stmt.h"

namespace fettle {

class NestWalk {
 public:
  virtual ~NestWalk() = default;

  void visit(const Stmt& s) {
    if (!s) return;
    switch (s.kind()) {
      case StmtKind::kFor:
        return visit_loop(*s.as<ForNode>());
      case StmtKind::kSeq:
        for (const Stmt& child : s.as<SeqNode>()->stmts) visit(child);
        return;
      case StmtKind::kIf:
        visit(s.as<IfNode>()->then_body);
        return visit(s.as<IfNode>()->else_body);
      case StmtKind::kLet: {
        const auto* n = s.as<LetNode>();
        middle_.push(n->var.get(), estimate_int(n->value, middle_));
        visit(n->body);
        middle_.pop();
        return;
      }
      case StmtKind::kAllocate:
        on_allocate(*s.as<AllocateNode>());
        return visit(s.as<AllocateNode>()->body);
      case StmtKind::kBlock:
        return visit(s.as<BlockNode>()->body);
      case StmtKind::kWhile:
        return visit(s.as<WhileNode>()->body);
      case StmtKind::kAsync:
        return visit(s.as<AsyncNode>()->body);
      case StmtKind::kStore:
        return on_store(*s.as<StoreNode>());
      case StmtKind::kEvaluate:
      case StmtKind::kCallFunc:
        return;
    }
  }

 protected:
  /// `extent`: at least 1; an estimate where it is no constant.
  virtual void enter(const ForNode& loop, int64_t extent) = 0;
  virtual void leave() = 0;
  virtual void on_allocate(const AllocateNode&) {}
  virtual void on_store(const StoreNode& store) = 0;

  /// One stride, in elements, for each loop around, outermost first; 0 for those beyond AccessForm::kMost.
  std::vector<int64_t> strides_of(const Expr& index) {
    const LoopContext context{&vars_, &no_copies_, &no_lane_, &middle_};
    const AccessForm form = access_form(index, context);
    std::vector<int64_t> strides(depth_, 0);
    for (size_t i = 0; i < vars_.size(); ++i) strides[i] = form.steps[i];
    return strides;
  }
  /// What integers are in the middle of their ranges.
  IntEnv& middle() { return middle_; }

 private:
  void visit_loop(const ForNode& loop) {
    const int64_t* constant = as_int(loop.extent);
    const int64_t extent = std::max<int64_t>(1, constant ? *constant : estimate_int(loop.extent, middle_, 1));
    const bool kept = vars_.size() < AccessForm::kMost;
    if (kept) vars_.emplace_back(loop.var.get(), static_cast<double>(extent));
    ++depth_;
    enter(loop, extent);
    middle_.push(loop.var.get(), estimate_int(loop.min, middle_) + (extent - 1) / 2);
    visit(loop.body);
    middle_.pop();
    leave();
    --depth_;
    if (kept) vars_.pop_back();
  }

  std::vector<std::pair<const VarNode*, double>> vars_;  // of the first loops around
  size_t depth_ = 0;
  const std::vector<UnrolledLoop> no_copies_;
  const LaneLoop no_lane_;
  IntEnv middle_;
};

}  // namespace fettle
