#include "ir/visit.h"

#include "base/check.h"

namespace fettle {

void Visitor::visit(const Expr& e) {
  if (!e) return;
  switch (e.kind()) {
    case ExprKind::kIntImm:
    case ExprKind::kFloatImm:
    case ExprKind::kVar: return;
    case ExprKind::kBinary: {
      const auto* n = e.as<BinaryNode>();
      visit(n->a);
      visit(n->b);
      return;
    }
    case ExprKind::kNot: return visit(e.as<NotNode>()->a);
    case ExprKind::kSelect: {
      const auto* n = e.as<SelectNode>();
      visit(n->condition);
      visit(n->if_true);
      visit(n->if_false);
      return;
    }
    case ExprKind::kCast: return visit(e.as<CastNode>()->a);
    case ExprKind::kLoad: {
      const auto* n = e.as<LoadNode>();
      for (const Expr& index : n->indices) visit(index);
      visit(n->mask);
      return;
    }
    case ExprKind::kAddress:
      for (const Expr& index : e.as<AddressNode>()->indices) visit(index);
      return;
    case ExprKind::kCall:
      for (const Expr& arg : e.as<CallNode>()->args) visit(arg);
      return;
    case ExprKind::kRamp: {
      const auto* n = e.as<RampNode>();
      visit(n->base);
      visit(n->stride);
      return;
    }
    case ExprKind::kBroadcast: return visit(e.as<BroadcastNode>()->value);
    case ExprKind::kShuffle:
      for (const Expr& vector : e.as<ShuffleNode>()->vectors) visit(vector);
      return;
  }
}

void Visitor::visit_region(const Region& region) {
  for (const Range& range : region.ranges) {
    visit(range.min);
    visit(range.extent);
  }
}

void Visitor::visit(const Stmt& s) {
  if (!s) return;
  switch (s.kind()) {
    case StmtKind::kFor: {
      const auto* n = s.as<ForNode>();
      visit(n->min);
      visit(n->extent);
      visit(n->body);
      return;
    }
    case StmtKind::kSeq:
      for (const Stmt& child : s.as<SeqNode>()->stmts) visit(child);
      return;
    case StmtKind::kIf: {
      const auto* n = s.as<IfNode>();
      visit(n->condition);
      visit(n->then_body);
      visit(n->else_body);
      return;
    }
    case StmtKind::kLet: {
      const auto* n = s.as<LetNode>();
      visit(n->value);
      visit(n->body);
      return;
    }
    case StmtKind::kStore: {
      const auto* n = s.as<StoreNode>();
      for (const Expr& index : n->indices) visit(index);
      visit(n->value);
      visit(n->mask);
      return;
    }
    case StmtKind::kEvaluate: return visit(s.as<EvaluateNode>()->value);
    case StmtKind::kBlock: {
      const auto* n = s.as<BlockNode>();
      for (const IterVar& iter : n->iters) {
        visit(iter.extent);
        visit(iter.binding);
      }
      visit(n->predicate);
      for (const Region& region : n->reads) visit_region(region);
      for (const Region& region : n->writes) visit_region(region);
      visit(n->init);
      visit(n->body);
      return;
    }
    case StmtKind::kAllocate: return visit(s.as<AllocateNode>()->body);
    case StmtKind::kWhile: {
      const auto* n = s.as<WhileNode>();
      visit(n->condition);
      visit(n->body);
      return;
    }
    case StmtKind::kCallFunc:
      for (const Expr& arg : s.as<CallFuncNode>()->args) visit(arg);
      return;
    case StmtKind::kAsync: {
      const auto* n = s.as<AsyncNode>();
      visit(n->pending);
      visit(n->body);
      return;
    }
  }
}

namespace {

// Rewrites a list; returns whether anything changed.
template <class T, class Fn>
bool rewrite_all(std::vector<T>& list, Fn fn) {
  bool changed = false;
  for (T& item : list) {
    T fresh = fn(item);
    if (!(fresh == item)) {
      item = std::move(fresh);
      changed = true;
    }
  }
  return changed;
}

}  // namespace

Expr Mutator::rewrite(const Expr& e) {
  if (!e) return e;
  const auto child = [this](const Expr& x) { return rewrite(x); };
  switch (e.kind()) {
    case ExprKind::kIntImm:
    case ExprKind::kFloatImm:
    case ExprKind::kVar: return e;
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
      std::vector<Expr> indices = n->indices;
      bool changed = rewrite_all(indices, child);
      Expr mask = rewrite(n->mask);
      Buffer buffer = rewrite(n->buffer);
      if (!changed && mask == n->mask && buffer == n->buffer) return e;
      return load(std::move(buffer), std::move(indices), std::move(mask));
    }
    case ExprKind::kAddress: {
      const auto* n = e.as<AddressNode>();
      std::vector<Expr> indices = n->indices;
      bool changed = rewrite_all(indices, child);
      Buffer buffer = rewrite(n->buffer);
      if (!changed && buffer == n->buffer) return e;
      return address_of(std::move(buffer), std::move(indices));
    }
    case ExprKind::kCall: {
      const auto* n = e.as<CallNode>();
      std::vector<Expr> args = n->args;
      if (!rewrite_all(args, child)) return e;
      return call(n->name, std::move(args), n->dtype);
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
      std::vector<Expr> vectors = n->vectors;
      if (!rewrite_all(vectors, child)) return e;
      return shuffle(std::move(vectors), n->lanes);
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
      std::vector<Stmt> stmts = s.as<SeqNode>()->stmts;
      if (!rewrite_all(stmts, [this](const Stmt& x) { return rewrite(x); })) return s;
      return seq(std::move(stmts));
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
      std::vector<Expr> indices = n->indices;
      bool changed = rewrite_all(indices, child);
      Expr value = rewrite(n->value), mask = rewrite(n->mask);
      Buffer buffer = rewrite(n->buffer);
      if (!changed && value == n->value && mask == n->mask && buffer == n->buffer) return s;
      return store(std::move(buffer), std::move(indices), std::move(value), std::move(mask));
    }
    case StmtKind::kEvaluate: {
      Expr value = rewrite(s.as<EvaluateNode>()->value);
      return value == s.as<EvaluateNode>()->value ? s : evaluate(std::move(value));
    }
    case StmtKind::kBlock: {
      const auto* n = s.as<BlockNode>();
      auto copy = make_ref<BlockNode>(*n);
      bool changed = false;
      for (IterVar& iter : copy->iters) {
        Expr extent = rewrite(iter.extent), binding = rewrite(iter.binding);
        changed |= !(extent == iter.extent) || !(binding == iter.binding);
        iter.extent = std::move(extent);
        iter.binding = std::move(binding);
      }
      copy->predicate = rewrite(n->predicate);
      const auto regions = [&](std::vector<Region>& list) {
        for (Region& region : list) {
          Region fresh = rewrite_region(region);
          changed |= !(fresh.buffer == region.buffer);
          for (size_t d = 0; d < fresh.ranges.size(); ++d)
            changed |= !(fresh.ranges[d].min == region.ranges[d].min) ||
                       !(fresh.ranges[d].extent == region.ranges[d].extent);
          region = std::move(fresh);
        }
      };
      regions(copy->reads);
      regions(copy->writes);
      for (Buffer& buffer : copy->allocations) {
        Buffer fresh = rewrite(buffer);
        changed |= !(fresh == buffer);
        buffer = std::move(fresh);
      }
      copy->init = rewrite(n->init);
      copy->body = rewrite(n->body);
      changed |= !(copy->predicate == n->predicate) || !(copy->init == n->init) || !(copy->body == n->body);
      if (!changed) return s;
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
      std::vector<Expr> args = n->args;
      if (!rewrite_all(args, child)) return s;
      return call_func(n->name, std::move(args));
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

class Walker : public Visitor {
 public:
  Walker(const std::function<bool(const Stmt&)>* on_stmt, const std::function<bool(const Expr&)>* on_expr)
      : on_stmt_(on_stmt), on_expr_(on_expr) {}
  void visit(const Expr& e) override {
    if (!e || !on_expr_) return;
    if ((*on_expr_)(e)) Visitor::visit(e);
  }
  void visit(const Stmt& s) override {
    if (!s) return;
    if (!on_stmt_ || (*on_stmt_)(s)) Visitor::visit(s);
  }

 private:
  const std::function<bool(const Stmt&)>* on_stmt_;
  const std::function<bool(const Expr&)>* on_expr_;
};

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

void walk(const Expr& e, const std::function<bool(const Expr&)>& fn) {
  Walker(nullptr, &fn).visit(e);
}

void walk(const Stmt& s, const std::function<bool(const Stmt&)>& on_stmt,
          const std::function<bool(const Expr&)>& on_expr) {
  Walker(on_stmt ? &on_stmt : nullptr, on_expr ? &on_expr : nullptr).visit(s);
}

Expr substitute(const Expr& e, const VarMap& values) {
  return values.empty() ? e : Substituter(values).rewrite(e);
}
Stmt substitute(const Stmt& s, const VarMap& values) {
  return values.empty() ? s : Substituter(values).rewrite(s);
}
Stmt substitute_buffers(const Stmt& s, const BufferMap& buffers) {
  return buffers.empty() ? s : BufferSubstituter(buffers).rewrite(s);
}
Stmt rename_bound(const Stmt& s) { return Renamer().rewrite(s); }

bool uses_var(const Expr& e, const VarNode* var) {
  bool found = false;
  walk(e, [&](const Expr& x) {
    found |= x.get() == var;
    return !found;
  });
  return found;
}

bool uses_var(const Stmt& s, const VarNode* var) {
  bool found = false;
  walk(s, [&](const Stmt&) { return !found; },
       [&](const Expr& x) {
         found |= x.get() == var;
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

namespace {

bool find_path(const Stmt& s, const StmtNode* target, std::vector<Stmt>& path) {
  if (!s) return false;
  path.push_back(s);
  if (s.get() == target) return true;
  bool found = false;
  switch (s.kind()) {
    case StmtKind::kFor: found = find_path(s.as<ForNode>()->body, target, path); break;
    case StmtKind::kSeq:
      for (const Stmt& child : s.as<SeqNode>()->stmts)
        if ((found = find_path(child, target, path))) break;
      break;
    case StmtKind::kIf:
      found = find_path(s.as<IfNode>()->then_body, target, path) || find_path(s.as<IfNode>()->else_body, target, path);
      break;
    case StmtKind::kLet: found = find_path(s.as<LetNode>()->body, target, path); break;
    case StmtKind::kBlock:
      found = find_path(s.as<BlockNode>()->init, target, path) || find_path(s.as<BlockNode>()->body, target, path);
      break;
    case StmtKind::kAllocate: found = find_path(s.as<AllocateNode>()->body, target, path); break;
    case StmtKind::kWhile: found = find_path(s.as<WhileNode>()->body, target, path); break;
    case StmtKind::kAsync: found = find_path(s.as<AsyncNode>()->body, target, path); break;
    case StmtKind::kStore:
    case StmtKind::kEvaluate:
    case StmtKind::kCallFunc: break;
  }
  if (!found) path.pop_back();
  return found;
}

// The copy of `parent` in which the child `from` is `to` (null: removed).
Stmt with_child(const Stmt& parent, const StmtNode* from, const Stmt& to) {
  const auto swap = [&](Stmt& child) {
    if (child.get() == from) child = to;
  };
  switch (parent.kind()) {
    case StmtKind::kFor:
      if (!to) return nullptr;
      return with(*parent.as<ForNode>(), [&](ForNode& n) { swap(n.body); });
    case StmtKind::kSeq: {
      std::vector<Stmt> stmts = parent.as<SeqNode>()->stmts;
      for (Stmt& child : stmts) swap(child);
      return seq(std::move(stmts));
    }
    case StmtKind::kIf: {
      const auto* n = parent.as<IfNode>();
      Stmt then_body = n->then_body, else_body = n->else_body;
      swap(then_body);
      swap(else_body);
      if (!then_body && !else_body) return nullptr;
      if (!then_body) return if_then(logical_not(n->condition), else_body);
      return if_then(n->condition, then_body, else_body);
    }
    case StmtKind::kLet:
      if (!to) return nullptr;
      return with(*parent.as<LetNode>(), [&](LetNode& n) { swap(n.body); });
    case StmtKind::kBlock:
      return with(*parent.as<BlockNode>(), [&](BlockNode& n) {
        swap(n.init);
        swap(n.body);
      });
    case StmtKind::kAllocate:
      if (!to) return nullptr;
      return with(*parent.as<AllocateNode>(), [&](AllocateNode& n) { swap(n.body); });
    case StmtKind::kWhile:
      if (!to) return nullptr;
      return with(*parent.as<WhileNode>(), [&](WhileNode& n) { swap(n.body); });
    case StmtKind::kAsync:
      if (!to) return nullptr;
      return with(*parent.as<AsyncNode>(), [&](AsyncNode& n) { swap(n.body); });
    default: FETTLE_UNREACHABLE();
  }
}

}  // namespace

std::vector<Stmt> path_to(const Stmt& root, const StmtNode* target) {
  std::vector<Stmt> path;
  find_path(root, target, path);
  return path;
}

Stmt replace_stmt(const Stmt& root, const StmtNode* target, const Stmt& replacement) {
  std::vector<Stmt> path = path_to(root, target);
  FETTLE_CHECK_MSG(!path.empty(), "replace_stmt: the statement is not in the tree");
  Stmt fresh = replacement;
  for (size_t i = path.size() - 1; i-- > 0;) fresh = with_child(path[i], path[i + 1].get(), fresh);
  return fresh;
}

}  // namespace fettle
