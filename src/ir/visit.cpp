#include "ir/visit.h"

#include <algorithm>
#include <optional>

#include "base/check.h"
#include "ir/fields.h"
#include "ir/query.h"

namespace fettle {

void Visitor::visit(const Expr& e) {
  if (e) each_child(e, [this](const Expr& child) { visit(child); });
}

void Visitor::visit(const Stmt& s) {
  if (s) each_child(s, [this](const auto& child) { visit(child); });
}

namespace {

// What a mutator makes of a field, or nothing where it does not change.
template <class T>
std::optional<T> rewritten(Mutator& mutator, const T& field);

template <class T>
std::optional<std::vector<T>> rewritten(Mutator& mutator, const std::vector<T>& list) {
  for (size_t i = 0; i < list.size(); ++i) {
    std::optional<T> fresh = rewritten(mutator, list[i]);
    if (!fresh) continue;
    std::vector<T> result;
    result.reserve(list.size());
    result.insert(result.end(), list.begin(), list.begin() + static_cast<std::ptrdiff_t>(i));
    result.push_back(std::move(*fresh));
    while (++i < list.size()) {
      fresh = rewritten(mutator, list[i]);
      result.push_back(fresh ? std::move(*fresh) : list[i]);
    }
    return result;
  }
  return std::nullopt;
}

// edit() is the copy of the node, made for the first field that changes.
template <class Node, class Edit>
void rewrite_fields(Mutator& mutator, const Node& node, Edit edit) {
  each_field<Node>([&](auto member) {
    if (auto fresh = rewritten(mutator, node.*member)) edit().*member = std::move(*fresh);
  });
}

template <class T>
std::optional<T> rewritten(Mutator& mutator, const T& field) {
  std::optional<T> result;
  if constexpr (std::is_same_v<T, Expr> || std::is_same_v<T, Stmt> || std::is_same_v<T, Buffer>) {
    if (T fresh = mutator.rewrite(field); !(fresh == field)) result = std::move(fresh);
  } else {
    rewrite_fields(mutator, field, [&]() -> T& { return result ? *result : result.emplace(field); });
  }
  return result;
}

// The expression that a node with new fields stands for: types follow, constants are folded.
Expr remade(BinaryNode& n) { return binary(n.op, std::move(n.a), std::move(n.b)); }
Expr remade(NotNode& n) { return logical_not(std::move(n.a)); }
Expr remade(SelectNode& n) { return select(std::move(n.condition), std::move(n.if_true), std::move(n.if_false)); }
Expr remade(CastNode& n) { return cast(n.dtype.with_lanes(n.a.dtype().lanes), n.a); }
Expr remade(LoadNode& n) { return load(std::move(n.buffer), std::move(n.indices), std::move(n.mask)); }
Expr remade(AddressNode& n) { return address_of(std::move(n.buffer), std::move(n.indices)); }
Expr remade(CallNode& n) { return call(std::move(n.name), std::move(n.args), n.dtype); }
Expr remade(RampNode& n) { return ramp(std::move(n.base), std::move(n.stride), n.dtype.lanes); }
Expr remade(BroadcastNode& n) { return broadcast(std::move(n.value), n.dtype.lanes); }
Expr remade(ShuffleNode& n) { return shuffle(std::move(n.vectors), std::move(n.lanes)); }
Expr remade(ExprNode&) { FETTLE_UNREACHABLE(); }  // constants and variables have nothing below

}  // namespace

Region Mutator::rewrite_region(const Region& region) { return rewritten(*this, region).value_or(region); }

Expr Mutator::rewrite(const Expr& e) {
  if (!e) return e;
  if (const auto* n = e.as<BinaryNode>()) {  // as most are
    Expr a = rewrite(n->a), b = rewrite(n->b);
    return a == n->a && b == n->b ? e : binary(n->op, std::move(a), std::move(b));
  }
  return with_node(e, [&]<class Node>(const Node& node) -> Expr {
    std::optional<Node> copy;
    rewrite_fields(*this, node, [&]() -> Node& { return copy ? *copy : copy.emplace(node); });
    return copy ? remade(*copy) : e;
  });
}

Stmt Mutator::rewrite(const Stmt& s) {
  if (!s) return s;
  return with_node(s, [&]<class Node>(const Node& node) -> Stmt {
    Ref<Node> copy;
    rewrite_fields(*this, node, [&]() -> Node& { return copy ? *copy : *(copy = make_ref<Node>(node)); });
    return copy ? remade(copy) : s;
  });
}

Func Mutator::rewrite(const Func& func) {
  auto copy = make_ref<FuncNode>(*func);
  for (Param& param : copy->params) param.buffer = rewrite(param.buffer);
  copy->body = rewrite(func->body);
  return Func(copy);
}

// --- helpers ----------------------------------------------------------------------------------------------------

namespace {

void walk_expr(const Expr& e, const FunctionRef<bool(const Expr&)>& fn) {
  if (!e || !fn(e)) return;
  each_child(e, [&](const Expr& child) { walk_expr(child, fn); });
}

// Where expressions are of no interest.
void walk_stmts(const Stmt& s, const FunctionRef<bool(const Stmt&)>& on_stmt) {
  if (!s || !on_stmt(s)) return;
  each_child(s, Overloaded{[](const Expr&) {}, [&](const Stmt& child) { walk_stmts(child, on_stmt); }});
}

void walk_stmt(const Stmt& s, const FunctionRef<bool(const Stmt&)>& on_stmt,
               const FunctionRef<bool(const Expr&)>& on_expr) {
  if (!s || (on_stmt && !on_stmt(s))) return;
  each_child(s, Overloaded{[&](const Expr& child) { walk_expr(child, on_expr); },
                           [&](const Stmt& child) { walk_stmt(child, on_stmt, on_expr); }});
}

template <class Tree>
bool uses(const Tree& tree, const ExprNode* target) {
  if (!tree) return false;
  if (static_cast<const RefCounted*>(tree.get()) == target) return true;
  if constexpr (std::is_same_v<Tree, Expr>) {
    if (const auto* n = tree.template as<BinaryNode>()) return uses(n->a, target) || uses(n->b, target);
    if (tree.kind() == ExprKind::kVar || tree.kind() == ExprKind::kIntImm) return false;
  }
  bool found = false;
  each_child(tree, [&](const auto& child) { found = found || uses(child, target); });
  return found;
}

// Variables and buffers replaced at their uses.
class Substituter : public Mutator {
 public:
  Substituter(const VarMap& vars, const BufferMap& buffers) : vars_(vars), buffers_(buffers) {}
  using Mutator::rewrite;
  Expr rewrite(const Expr& e) override {
    const auto* var = e.as<VarNode>();
    if (!var) return Mutator::rewrite(e);
    const auto found = vars_.find(var);
    return found == vars_.end() ? e : found->second;
  }
  Buffer rewrite(const Buffer& buffer) override {
    const auto found = buffers_.find(buffer.get());
    return found == buffers_.end() ? buffer : found->second;
  }

 private:
  const VarMap& vars_;
  const BufferMap& buffers_;
};

class Renamer : public Substituter {
 public:
  Renamer() : Substituter(vars_, buffers_) {}
  using Substituter::rewrite;
  Stmt rewrite(const Stmt& s) override {
    if (!s) return s;
    if (const auto* loop = s.as<ForNode>()) {
      Var fresh = rename(loop->var);
      Stmt result = Mutator::rewrite(s);
      return with(*result.as<ForNode>(), [&](ForNode& f) { f.var = fresh; });
    }
    if (const auto* bind = s.as<LetNode>()) {
      Expr value = rewrite(bind->value);
      Var fresh = rename(bind->var);
      return let(fresh, std::move(value), rewrite(bind->body));
    }
    if (const auto* block = s.as<BlockNode>()) {
      std::vector<Var> fresh;
      for (const IterVar& iter : block->iters) fresh.push_back(rename(iter.var));
      for (const Buffer& buffer : block->allocations) buffers_[buffer.get()] = edited(buffer, [](BufferNode&) {});
      Stmt result = Mutator::rewrite(s);
      return with(*result.as<BlockNode>(), [&](BlockNode& b) {
        for (size_t i = 0; i < fresh.size(); ++i) b.iters[i].var = fresh[i];
      });
    }
    if (const auto* alloc = s.as<AllocateNode>())
      buffers_[alloc->buffer.get()] = edited(alloc->buffer, [](BufferNode&) {});
    return Mutator::rewrite(s);
  }

 private:
  Var rename(const Var& var) {
    Var fresh = make_var(var->name, var->dtype);
    vars_[var.get()] = fresh;
    return fresh;
  }
  VarMap vars_;
  BufferMap buffers_;
};

}  // namespace

void walk(const Expr& e, FunctionRef<bool(const Expr&)> fn) { walk_expr(e, fn); }

void walk(const Stmt& s, FunctionRef<bool(const Stmt&)> on_stmt, FunctionRef<bool(const Expr&)> on_expr) {
  if (on_expr)
    walk_stmt(s, on_stmt, on_expr);
  else if (on_stmt)
    walk_stmts(s, on_stmt);
}

Expr substitute(const Expr& e, const VarMap& values) { return values.empty() ? e : Substituter(values, {}).rewrite(e); }
Stmt substitute(const Stmt& s, const VarMap& values) { return values.empty() ? s : Substituter(values, {}).rewrite(s); }
Range substitute(const Range& range, const VarMap& values) {
  return {substitute(range.min, values), substitute(range.extent, values)};
}
std::vector<Region> substitute(std::vector<Region> regions, const VarMap& values) {
  for (Region& region : regions)
    for (Range& range : region.ranges) range = substitute(range, values);
  return regions;
}
Stmt substitute_buffers(const Stmt& s, const BufferMap& buffers) {
  return buffers.empty() ? s : Substituter({}, buffers).rewrite(s);
}
Stmt rename_bound(const Stmt& s) { return Renamer().rewrite(s); }

bool uses_var(const Expr& e, const VarNode* var) { return uses(e, var); }
bool uses_var(const Stmt& s, const VarNode* var) { return uses(s, var); }

bool contains(const Expr& e, std::initializer_list<ExprKind> kinds) {
  bool found = false;
  walk(e, [&](const Expr& x) {
    found |= std::ranges::find(kinds, x.kind()) != kinds.end();
    return !found;
  });
  return found;
}

bool reads_memory(const Expr& e) {
  if (!e || e.kind() == ExprKind::kIntImm || e.kind() == ExprKind::kVar) return false;
  if (const auto* n = e.as<BinaryNode>()) return reads_memory(n->a) || reads_memory(n->b);  // most are indices
  return contains(e, {ExprKind::kLoad});
}

std::vector<Var> collect_vars(const Expr& e) {
  std::vector<Var> vars;
  each_node<VarNode>(e, [&](const VarNode& var) {
    if (std::ranges::none_of(vars, [&](const Var& known) { return known.get() == &var; })) vars.push_back(Var(&var));
  });
  return vars;
}

const BlockNode* find_block(const Stmt& s, std::string_view name) {
  return find_node<BlockNode>(s, [&](const BlockNode& block) { return block.name == name; });
}

}  // namespace fettle
