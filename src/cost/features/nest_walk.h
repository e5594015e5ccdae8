#pragma once
// A walk through lowered code that knows, at each store, the loops around it: how often they run, how an access moves
// with them, and what integers are in the middle of their ranges.

#include <algorithm>
#include <utility>
#include <vector>

#include "cost/loop_tree/access_form.h"
#include "ir/fields.h"

namespace fettle {

class NestWalk {
 public:
  virtual ~NestWalk() = default;

  void visit(const Stmt& s) {
    if (!s) return;
    with_node(
        s, Overloaded{
               [&](const ForNode& n) { visit_loop(n); },
               [&](const LetNode& n) {
                 middle_.push(n.var.get(), estimate_int(n.value, middle_));
                 visit(n.body);
                 middle_.pop();
               },
               [&](const AllocateNode& n) {
                 on_allocate(n);
                 visit(n.body);
               },
               [&](const BlockNode& n) { visit(n.body); },
               [&](const StoreNode& n) { on_store(n); },
               [&](const auto& n) { each_below(n, Overloaded{[](const Expr&) {}, [&](const Stmt& s) { visit(s); }}); },
           });
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
