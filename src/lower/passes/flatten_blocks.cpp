#include "ir/annotations.h"
#include "ir/visit.h"
#include "lower/passes/passes.h"

namespace fettle {
namespace {

class BlockFlattener : public Mutator {
 public:
  using Mutator::rewrite;

  Expr rewrite(const Expr& e) override {
    if (const auto* var = e.as<VarNode>()) {
      const auto found = values_.find(var);
      return found == values_.end() ? e : found->second;
    }
    // A hint to people and cost models; from here on guards are judged by what they say.
    if (const auto* hint = e.as<CallNode>(); hint && hint->name == "likely") return rewrite(hint->args[0]);
    return Mutator::rewrite(e);
  }

  Stmt rewrite(const Stmt& s) override {
    const auto* block = s.as<BlockNode>();
    if (!block) return Mutator::rewrite(s);
    // The predicate and the bindings speak of the surroundings, so they come first.
    Expr predicate = rewrite(block->predicate);
    Expr first_of_reduction;
    for (const IterVar& iter : block->iters) {
      Expr binding = rewrite(iter.binding);
      if (iter.kind == IterKind::kReduce) first_of_reduction = logical_and(first_of_reduction, eq(binding, 0));
      values_[iter.var.get()] = std::move(binding);
    }
    allocations.insert(allocations.end(), block->allocations.begin(), block->allocations.end());
    Stmt body = rewrite(block->body);
    if (const auto* intrinsic = std::get_if<std::string>(block->annotations.find(kTensorizeKey)))
      body = mark_tensor_tile(body, *intrinsic);
    if (block->init) {
      Stmt init = rewrite(block->init);
      body = seq({is_true(first_of_reduction) ? init : if_then(first_of_reduction, init), body});
    }
    return is_true(predicate) ? body : if_then(predicate, body);
  }

  std::vector<Buffer> allocations;

 private:
  VarMap values_;
};

}  // namespace

Func flatten_blocks(const Func& func) {
  BlockFlattener flattener;
  Stmt body = flattener.rewrite(func->body);
  return with(func, [&](FuncNode& f) {
    auto root = make_ref<BlockNode>();
    root->name = func.root().name;
    root->allocations = flattener.allocations;
    root->body = body;
    f.body = Stmt(root);
  });
}

}  // namespace fettle
