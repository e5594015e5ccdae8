#include "ir/visit.h"

#include <optional>

#include "base/check.h"

namespace fettle {

namespace {

// fn(child) for each expression directly below.
template <class Fn>
inline void each_child(const Expr& e, Fn fn) {
  switch (e.kind()) {
    case ExprKind::kIntImm:
    case ExprKind::kFloatImm:
    case ExprKind::kVar:
      return;
    case ExprKind::kBinary: {
      const auto* n = e.as<BinaryNode>();
      fn(n->a);
      fn(n->b);
      return;
    }
    case ExprKind::kNot:
      return fn(e.as<NotNode>()->a);
    case ExprKind::kSelect: {
      const auto* n = e.as<SelectNode>();
      fn(n->condition);
      fn(n->if_true);
      fn(n->if_false);
      return;
    }
    case ExprKind::kCast:
      return fn(e.as<CastNode>()->a);
    case ExprKind::kLoad: {
      const auto* n = e.as<LoadNode>();
      for (const Expr& index : n->indices) fn(index);
      fn(n->mask);
      return;
    }
    case ExprKind::kAddress:
      for (const Expr& index : e.as<AddressNode>()->indices) fn(index);
      return;
    case ExprKind::kCall:
      for (const Expr& arg : e.as<CallNode>()->args) fn(arg);
      return;
    case ExprKind::kRamp: {
      const auto* n = e.as<RampNode>();
      fn(n->base);
      fn(n->stride);
      return;
    }
    case ExprKind::kBroadcast:
      return fn(e.as<BroadcastNode>()->value);
    case ExprKind::kShuffle:
      for (const Expr& vector : e.as<ShuffleNode>()->vectors) fn(vector);
      return;
  }
}

// on_expr and on_stmt for each expression and statement directly below, in the order of their text.
template <class OnStmt, class OnExpr>
inline void each_child(const Stmt& s, OnStmt on_stmt, OnExpr on_expr) {
  const auto regions = [&](const std::vector<Region>& list) {
    for (const Region& region : list)
      for (const Range& range : region.ranges) {
        on_expr(range.min);
        on_expr(range.extent);
      }
  };
  switch (s.kind()) {
    case StmtKind::kFor: {
      const auto* n = s.as<ForNode>();
      on_expr(n->min);
      on_expr(n->extent);
      on_stmt(n->body);
      return;
    }
    case StmtKind::kSeq:
      for (const Stmt& child : s.as<SeqNode>()->stmts) on_stmt(child);
      return;
    case StmtKind::kIf: {
      const auto* n = s.as<IfNode>();
      on_expr(n->condition);
      on_stmt(n->then_body);
      on_stmt(n->else_body);
      return;
    }
    case StmtKind::kLet: {
      const auto* n = s.as<LetNode>();
      on_expr(n->value);
      on_stmt(n->body);
      return;
    }
    case StmtKind::kStore: {
      const auto* n = s.as<StoreNode>();
      for (const Expr& index : n->indices) on_expr(index);
      on_expr(n->value);
      on_expr(n->mask);
      return;
    }
    case StmtKind::kEvaluate:
      return on_expr(s.as<EvaluateNode>()->value);
    case StmtKind::kBlock: {
      const auto* n = s.as<BlockNode>();
      for (const IterVar& iter : n->iters) {
        on_expr(iter.extent);
        on_expr(iter.binding);
      }
      on_expr(n->predicate);
      regions(n->reads);
      regions(n->writes);
      on_stmt(n->init);
      on_stmt(n->body);
      return;
    }
    case StmtKind::kAllocate:
      return on_stmt(s.as<AllocateNode>()->body);
    case StmtKind::kWhile: {
      const auto* n = s.as<WhileNode>();
      on_expr(n->condition);
      on_stmt(n->body);
      return;
    }
    case StmtKind::kCallFunc:
      for (const Expr& arg : s.as<CallFuncNode>()->args) on_expr(arg);
      return;
    case StmtKind::kAsync: {
      const auto* n = s.as<AsyncNode>();
      on_expr(n->pending);
      on_stmt(n->body);
      return;
    }
  }
}

}  // namespace

void Visitor::visit(const Expr& e) {
  if (!e) return;
  each_child(e, [this](const Expr& child) { visit(child); });
}

void Visitor::visit(const Stmt& s) {
  if (!s) return;
  each_child(s, [this](const Stmt& child) { visit(child); }, [this](const Expr& child) { visit(child); });
}

namespace {

// The list rewritten, or nothing where nothing changed.
template <class T, class Fn>
std::optional<std::vector<T>> rewrite_all(const std::vector<T>& list, Fn fn) {
  for (size_t i = 0; i < list.size(); ++i) {
    T fresh = fn(list[i]);
    if (fresh == list[i]) continue;
    std::vector<T> result;
    result.reserve(list.size());
    result.insert(result.end(), list.begin(), list.begin() + static_cast<std::ptrdiff_t>(i));
    result.push_back(std::move(fresh));
    while (++i < list.size()) result.push_back(fn(list[i]));
    return result;
  }
  return std::nullopt;
}

// The list that rewrite_all gave, or a copy of the one that did not change.
template <class T>
std::vector<T> rewritten_or(std::optional<std::vector<T>>& rewritten, const std::vector<T>& list) {
  return rewritten ? std::move(*rewritten) : list;
}

}  // namespace

Expr Mutator::rewrite(const Expr& e) {
  if (!e) return e;
  const auto child = [this](const Expr& x) { return rewrite(x); };
  switch (e.kind()) {
    case ExprKind::kIntImm:
    case ExprKind::kFloatImm:
    case ExprKind::kVar:
      return e;
    case ExprKind::kBinary: {
      const auto* n = e.as<BinaryNode>();
      Expr a = rewrite(n->a), b = rewrite(n->b);
      return a == n->a && b == n->b ? e : binary(n->op, std::move(a), std::move(b));
    }
    case ExprKind::kNot: {
      Expr a = rewrite(e.as<NotNode>()->a);
      return a == e.as<NotNode>()->a ? e : logical_not(std::move(a));
    }
    case ExprKind::kSelect: {
      const auto* n = e.as<SelectNode>();
      Expr c = rewrite(n->condition), t = rewrite(n->if_true), f = rewrite(n->if_false);
      return c == n->condition && t == n->if_true && f == n->if_false
                 ? e
                 : select(std::move(c), std::move(t), std::move(f));
    }
    case ExprKind::kCast: {
      Expr a = rewrite(e.as<CastNode>()->a);
      const DType type = e.dtype().with_lanes(a.dtype().lanes);
      return a == e.as<CastNode>()->a ? e : cast(type, std::move(a));
    }
    case ExprKind::kLoad: {
      const auto* n = e.as<LoadNode>();
      auto indices = rewrite_all(n->indices, child);
      Expr mask = rewrite(n->mask);
      Buffer buffer = rewrite(n->buffer);
      if (!indices && mask == n->mask && buffer == n->buffer) return e;
      return load(std::move(buffer), rewritten_or(indices, n->indices), std::move(mask));
    }
    case ExprKind::kAddress: {
      const auto* n = e.as<AddressNode>();
      auto indices = rewrite_all(n->indices, child);
      Buffer buffer = rewrite(n->buffer);
      if (!indices && buffer == n->buffer) return e;
      return address_of(std::move(buffer), rewritten_or(indices, n->indices));
    }
    case ExprKind::kCall: {
      const auto* n = e.as<CallNode>();
      auto args = rewrite_all(n->args, child);
      return args ? call(n->name, std::move(*args), n->dtype) : e;
    }
    case ExprKind::kRamp: {
      const auto* n = e.as<RampNode>();
      Expr base = rewrite(n->base), stride = rewrite(n->stride);
      return base == n->base && stride == n->stride ? e : ramp(std::move(base), std::move(stride), n->dtype.lanes);
    }
    case ExprKind::kBroadcast: {
      const auto* n = e.as<BroadcastNode>();
      Expr value = rewrite(n->value);
      return value == n->value ? e : broadcast(std::move(value), n->dtype.lanes);
    }
    case ExprKind::kShuffle: {
      const auto* n = e.as<ShuffleNode>();
      auto vectors = rewrite_all(n->vectors, child);
      return vectors ? shuffle(std::move(*vectors), n->lanes) : e;
    }
  }
  FETTLE_UNREACHABLE();
}

Region Mutator::rewrite_region(const Region& region) {
  Region fresh{rewrite(region.buffer), region.ranges};
  for (Range& range : fresh.ranges) range = {rewrite(range.min), rewrite(range.extent)};
  return fresh;
}

Stmt Mutator::rewrite(const Stmt& s) {
  if (!s) return s;
  const auto child = [this](const Expr& x) { return rewrite(x); };
  switch (s.kind()) {
    case StmtKind::kFor: {
      const auto* n = s.as<ForNode>();
      Expr min = rewrite(n->min), extent = rewrite(n->extent);
      Stmt body = rewrite(n->body);
      if (min == n->min && extent == n->extent && body == n->body) return s;
      if (!body) return nullptr;
      return with(*n, [&](ForNode& f) {
        f.min = std::move(min);
        f.extent = std::move(extent);
        f.body = std::move(body);
      });
    }
    case StmtKind::kSeq: {
      auto stmts = rewrite_all(s.as<SeqNode>()->stmts, [this](const Stmt& x) { return rewrite(x); });
      return stmts ? seq(std::move(*stmts)) : s;
    }
    case StmtKind::kIf: {
      const auto* n = s.as<IfNode>();
      Expr condition = rewrite(n->condition);
      Stmt then_body = rewrite(n->then_body), else_body = rewrite(n->else_body);
      if (condition == n->condition && then_body == n->then_body && else_body == n->else_body) return s;
      if (!then_body && !else_body) return nullptr;
      if (!then_body) return if_then(logical_not(std::move(condition)), std::move(else_body));
      return if_then(std::move(condition), std::move(then_body), std::move(else_body));
    }
    case StmtKind::kLet: {
      const auto* n = s.as<LetNode>();
      Expr value = rewrite(n->value);
      Stmt body = rewrite(n->body);
      if (value == n->value && body == n->body) return s;
      if (!body) return nullptr;
      return let(n->var, std::move(value), std::move(body));
    }
    case StmtKind::kStore: {
      const auto* n = s.as<StoreNode>();
      auto indices = rewrite_all(n->indices, child);
      Expr value = rewrite(n->value), mask = rewrite(n->mask);
      Buffer buffer = rewrite(n->buffer);
      if (!indices && value == n->value && mask == n->mask && buffer == n->buffer) return s;
      return store(std::move(buffer), rewritten_or(indices, n->indices), std::move(value), std::move(mask));
    }
    case StmtKind::kEvaluate: {
      Expr value = rewrite(s.as<EvaluateNode>()->value);
      return value == s.as<EvaluateNode>()->value ? s : evaluate(std::move(value));
    }
    case StmtKind::kBlock: {
      const auto* n = s.as<BlockNode>();
      Ref<BlockNode> copy;  // made when something changes
      const auto edit = [&]() -> BlockNode& {
        if (!copy) copy = make_ref<BlockNode>(*n);
        return *copy;
      };
      for (size_t i = 0; i < n->iters.size(); ++i) {
        const IterVar& iter = n->iters[i];
        Expr extent = rewrite(iter.extent), binding = rewrite(iter.binding);
        if (extent == iter.extent && binding == iter.binding) continue;
        edit().iters[i].extent = std::move(extent);
        copy->iters[i].binding = std::move(binding);
      }
      if (Expr predicate = rewrite(n->predicate); !(predicate == n->predicate)) edit().predicate = std::move(predicate);
      const auto regions = [&](std::vector<Region> BlockNode::* list) {
        for (size_t i = 0; i < (n->*list).size(); ++i) {
          const Region& region = (n->*list)[i];
          if (Buffer buffer = rewrite(region.buffer); !(buffer == region.buffer))
            (edit().*list)[i].buffer = std::move(buffer);
          for (size_t d = 0; d < region.ranges.size(); ++d) {
            const Range& range = region.ranges[d];
            Range fresh{rewrite(range.min), rewrite(range.extent)};
            if (fresh.min == range.min && fresh.extent == range.extent) continue;
            (edit().*list)[i].ranges[d] = std::move(fresh);
          }
        }
      };
      regions(&BlockNode::reads);
      regions(&BlockNode::writes);
      for (size_t i = 0; i < n->allocations.size(); ++i)
        if (Buffer buffer = rewrite(n->allocations[i]); !(buffer == n->allocations[i]))
          edit().allocations[i] = std::move(buffer);
      if (Stmt init = rewrite(n->init); !(init == n->init)) edit().init = std::move(init);
      if (Stmt body = rewrite(n->body); !(body == n->body)) edit().body = std::move(body);
      if (!copy) return s;
      if (!copy->body) return nullptr;
      return Stmt(copy);
    }
    case StmtKind::kAllocate: {
      const auto* n = s.as<AllocateNode>();
      Buffer buffer = rewrite(n->buffer);
      Stmt body = rewrite(n->body);
      if (buffer == n->buffer && body == n->body) return s;
      if (!body) return nullptr;
      return allocate(std::move(buffer), std::move(body));
    }
    case StmtKind::kWhile: {
      const auto* n = s.as<WhileNode>();
      Expr condition = rewrite(n->condition);
      Stmt body = rewrite(n->body);
      if (condition == n->condition && body == n->body) return s;
      return Stmt(make_ref<WhileNode>(std::move(condition), std::move(body)));
    }
    case StmtKind::kCallFunc: {
      const auto* n = s.as<CallFuncNode>();
      auto args = rewrite_all(n->args, child);
      return args ? call_func(n->name, std::move(*args)) : s;
    }
    case StmtKind::kAsync: {
      const auto* n = s.as<AsyncNode>();
      Expr pending = rewrite(n->pending);
      Stmt body = rewrite(n->body);
      if (pending == n->pending && body == n->body) return s;
      return Stmt(make_ref<AsyncNode>(n->async_kind, n->queue, std::move(pending), std::move(body)));
    }
  }
  FETTLE_UNREACHABLE();
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
  switch (s.kind()) {
    case StmtKind::kFor:
      return walk_stmts(s.as<ForNode>()->body, on_stmt);
    case StmtKind::kSeq:
      for (const Stmt& child : s.as<SeqNode>()->stmts) walk_stmts(child, on_stmt);
      return;
    case StmtKind::kIf:
      walk_stmts(s.as<IfNode>()->then_body, on_stmt);
      return walk_stmts(s.as<IfNode>()->else_body, on_stmt);
    case StmtKind::kLet:
      return walk_stmts(s.as<LetNode>()->body, on_stmt);
    case StmtKind::kBlock:
      walk_stmts(s.as<BlockNode>()->init, on_stmt);
      return walk_stmts(s.as<BlockNode>()->body, on_stmt);
    case StmtKind::kAllocate:
      return walk_stmts(s.as<AllocateNode>()->body, on_stmt);
    case StmtKind::kWhile:
      return walk_stmts(s.as<WhileNode>()->body, on_stmt);
    case StmtKind::kAsync:
      return walk_stmts(s.as<AsyncNode>()->body, on_stmt);
    case StmtKind::kStore:
    case StmtKind::kEvaluate:
    case StmtKind::kCallFunc:
      return;
  }
}

void walk_stmt(const Stmt& s, const FunctionRef<bool(const Stmt&)>& on_stmt,
               const FunctionRef<bool(const Expr&)>& on_expr) {
  if (!s || (on_stmt && !on_stmt(s))) return;
  each_child(
      s, [&](const Stmt& child) { walk_stmt(child, on_stmt, on_expr); },
      [&](const Expr& child) { walk_expr(child, on_expr); });
}

bool uses(const Expr& e, const ExprNode* target) {
  if (!e) return false;
  if (e.get() == target) return true;
  switch (e.kind()) {
    case ExprKind::kIntImm:
    case ExprKind::kFloatImm:
    case ExprKind::kVar:
      return false;
    case ExprKind::kBinary: {
      const auto* n = e.as<BinaryNode>();
      return uses(n->a, target) || uses(n->b, target);
    }
    default: {
      bool found = false;
      each_child(e, [&](const Expr& child) { found = found || uses(child, target); });
      return found;
    }
  }
}

bool uses(const Stmt& s, const ExprNode* target) {
  if (!s) return false;
  bool found = false;
  each_child(
      s, [&](const Stmt& child) { found = found || uses(child, target); },
      [&](const Expr& child) { found = found || uses(child, target); });
  return found;
}

class Substituter : public Mutator {
 public:
  explicit Substituter(const VarMap& values) : values_(values) {}
  using Mutator::rewrite;
  Expr rewrite(const Expr& e) override {
    if (const auto* var = e.as<VarNode>()) {
      const auto found = values_.find(var);
      return found == values_.end() ? e : found->second;
    }
    return Mutator::rewrite(e);
  }

 private:
  const VarMap& values_;
};

class BufferSubstituter : public Mutator {
 public:
  explicit BufferSubstituter(const BufferMap& buffers) : buffers_(buffers) {}
  using Mutator::rewrite;
  Buffer rewrite(const Buffer& buffer) override {
    const auto found = buffers_.find(buffer.get());
    return found == buffers_.end() ? buffer : found->second;
  }

 private:
  const BufferMap& buffers_;
};

class Renamer : public Mutator {
 public:
  using Mutator::rewrite;
  Expr rewrite(const Expr& e) override {
    if (const auto* var = e.as<VarNode>()) {
      const auto found = vars_.find(var);
      return found == vars_.end() ? e : found->second;
    }
    return Mutator::rewrite(e);
  }
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
  Buffer rewrite(const Buffer& buffer) override {
    const auto found = buffers_.find(buffer.get());
    return found == buffers_.end() ? buffer : found->second;
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

Expr substitute(const Expr& e, const VarMap& values) { return values.empty() ? e : Substituter(values).rewrite(e); }
Stmt substitute(const Stmt& s, const VarMap& values) { return values.empty() ? s : Substituter(values).rewrite(s); }
Stmt substitute_buffers(const Stmt& s, const BufferMap& buffers) {
  return buffers.empty() ? s : BufferSubstituter(buffers).rewrite(s);
}
Stmt rename_bound(const Stmt& s) { return Renamer().rewrite(s); }

bool uses_var(const Expr& e, const VarNode* var) { return uses(e, var); }
bool uses_var(const Stmt& s, const VarNode* var) { return uses(s, var); }

bool reads_memory(const Expr& e) {
  if (e.kind() == ExprKind::kIntImm || e.kind() == ExprKind::kVar) return false;
  if (const auto* n = e.as<BinaryNode>()) return reads_memory(n->a) || reads_memory(n->b);  // most are indices
  bool found = false;
  walk(e, [&](const Expr& x) {
    found |= x.kind() == ExprKind::kLoad;
    return !found;
  });
  return found;
}

std::vector<Var> collect_vars(const Expr& e) {
  std::vector<Var> vars;
  walk(e, [&](const Expr& x) {
    if (const auto* var = x.as<VarNode>()) {
      bool known = false;
      for (const Var& v : vars) known |= v.get() == var;
      if (!known) vars.push_back(Var(var));
    }
    return true;
  });
  return vars;
}

const BlockNode* find_block(const Stmt& s, std::string_view name) {
  const BlockNode* found = nullptr;
  walk(s, [&](const Stmt& x) {
    if (const auto* block = x.as<BlockNode>(); block && block->name == name) found = block;
    return !found;
  });
  return found;
}

}  // namespace fettle
