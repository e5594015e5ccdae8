// Equality and the canonical hash of statements and functions, up to the names and identities of what they bind.
#include <bit>
#include <unordered_map>

#include "base/check.h"
#include "base/pointer_map.h"
#include "ir/canonical.h"
#include "ir/compare.h"

namespace fettle {
namespace {

class Equality {
 public:
  explicit Equality(bool rename_blocks) : rename_blocks_(rename_blocks) {}

  bool equal(const Func& a, const Func& b) {
    if (a == b) return true;
    if (!a || !b || a->params.size() != b->params.size() || a->int_params.size() != b->int_params.size() ||
        !(a->annotations == b->annotations))
      return false;
    for (size_t i = 0; i < a->int_params.size(); ++i) {
      const IntParam &x = a->int_params[i], &y = b->int_params[i];
      if (x.min != y.min || x.max != y.max || x.multiple_of != y.multiple_of || !bind(x.var, y.var)) return false;
    }
    for (size_t i = 0; i < a->params.size(); ++i) {
      const Param &x = a->params[i], &y = b->params[i];
      if (x.kind != y.kind || x.free_layout != y.free_layout || !bind(x.buffer, y.buffer)) return false;
    }
    return equal(a->body, b->body);
  }

  bool equal(const Stmt& a, const Stmt& b);

 private:
  bool bind(const Var& a, const Var& b) {
    if (a->dtype != b->dtype) return false;
    vars_[a.get()] = b.get();
    renamed_ |= a != b;
    return true;
  }

  bool bind(const Buffer& a, const Buffer& b) {
    if (a != b) {
      if (a->dtype != b->dtype || a->scope != b->scope || a->alignment_bytes != b->alignment_bytes ||
          !equal(a->shape, b->shape) || !equal(a->strides, b->strides) || !a->layout != !b->layout)
        return false;
      if (a->layout && a->layout != b->layout) {
        const Layout &x = *a->layout, &y = *b->layout;
        if (x.to_physical.inputs.size() != y.to_physical.inputs.size() || !equal(x.logical_shape, y.logical_shape))
          return false;
        for (size_t i = 0; i < x.to_physical.inputs.size(); ++i)
          if (!bind(x.to_physical.inputs[i], y.to_physical.inputs[i])) return false;
        if (!equal(x.to_physical.outputs, y.to_physical.outputs)) return false;
      }
      renamed_ = true;
    }
    buffers_[a.get()] = b.get();
    return true;
  }

  bool same(const Buffer& a, const Buffer& b) const {
    const auto found = buffers_.find(a.get());
    return found == buffers_.end() ? a == b : found->second == b.get();
  }

  bool equal(const std::vector<Expr>& a, const std::vector<Expr>& b) {
    if (a.size() != b.size()) return false;
    for (size_t i = 0; i < a.size(); ++i)
      if (!equal(a[i], b[i])) return false;
    return true;
  }

  bool equal(const std::vector<Region>& a, const std::vector<Region>& b) {
    if (a.size() != b.size()) return false;
    for (size_t i = 0; i < a.size(); ++i) {
      if (!same(a[i].buffer, b[i].buffer) || a[i].ranges.size() != b[i].ranges.size()) return false;
      for (size_t d = 0; d < a[i].ranges.size(); ++d)
        if (!equal(a[i].ranges[d].min, b[i].ranges[d].min) || !equal(a[i].ranges[d].extent, b[i].ranges[d].extent))
          return false;
    }
    return true;
  }

  bool equal(const Expr& a, const Expr& b);
  bool equal(const BlockNode& a, const BlockNode& b);

  std::unordered_map<const VarNode*, const VarNode*> vars_;
  std::unordered_map<const BufferNode*, const BufferNode*> buffers_;
  bool renamed_ = false;  // something bound differs in identity: one node on both sides may mean two things
  bool rename_blocks_;
};

bool Equality::equal(const Expr& a, const Expr& b) {
  if (!renamed_) return structural_equal(a, b);
  if (!a || !b) return a == b;
  if (a.kind() != b.kind() || a.dtype() != b.dtype()) return false;
  switch (a.kind()) {
    case ExprKind::kIntImm:
    case ExprKind::kFloatImm:
      return structural_equal(a, b);
    case ExprKind::kVar: {
      const auto found = vars_.find(a.as<VarNode>());
      return (found == vars_.end() ? a.as<VarNode>() : found->second) == b.as<VarNode>();
    }
    case ExprKind::kBinary: {
      const auto *x = a.as<BinaryNode>(), *y = b.as<BinaryNode>();
      return x->op == y->op && equal(x->a, y->a) && equal(x->b, y->b);
    }
    case ExprKind::kNot:
      return equal(a.as<NotNode>()->a, b.as<NotNode>()->a);
    case ExprKind::kSelect: {
      const auto *x = a.as<SelectNode>(), *y = b.as<SelectNode>();
      return equal(x->condition, y->condition) && equal(x->if_true, y->if_true) && equal(x->if_false, y->if_false);
    }
    case ExprKind::kCast:
      return equal(a.as<CastNode>()->a, b.as<CastNode>()->a);
    case ExprKind::kLoad: {
      const auto *x = a.as<LoadNode>(), *y = b.as<LoadNode>();
      return same(x->buffer, y->buffer) && equal(x->indices, y->indices) && equal(x->mask, y->mask);
    }
    case ExprKind::kAddress: {
      const auto *x = a.as<AddressNode>(), *y = b.as<AddressNode>();
      return same(x->buffer, y->buffer) && equal(x->indices, y->indices);
    }
    case ExprKind::kCall: {
      const auto *x = a.as<CallNode>(), *y = b.as<CallNode>();
      return x->name == y->name && equal(x->args, y->args);
    }
    case ExprKind::kRamp: {
      const auto *x = a.as<RampNode>(), *y = b.as<RampNode>();
      return equal(x->base, y->base) && equal(x->stride, y->stride);
    }
    case ExprKind::kBroadcast:
      return equal(a.as<BroadcastNode>()->value, b.as<BroadcastNode>()->value);
    case ExprKind::kShuffle: {
      const auto *x = a.as<ShuffleNode>(), *y = b.as<ShuffleNode>();
      return x->lanes == y->lanes && equal(x->vectors, y->vectors);
    }
  }
  FETTLE_UNREACHABLE();
}

bool Equality::equal(const BlockNode& a, const BlockNode& b) {
  if ((!rename_blocks_ && a.name != b.name) || a.iters.size() != b.iters.size() ||
      a.allocations.size() != b.allocations.size() || !(a.annotations == b.annotations) ||
      !equal(a.predicate, b.predicate))
    return false;
  for (size_t i = 0; i < a.iters.size(); ++i) {
    const IterVar &x = a.iters[i], &y = b.iters[i];
    if (x.kind != y.kind || !equal(x.extent, y.extent) || !equal(x.binding, y.binding)) return false;
  }
  for (size_t i = 0; i < a.iters.size(); ++i)
    if (!bind(a.iters[i].var, b.iters[i].var)) return false;
  for (size_t i = 0; i < a.allocations.size(); ++i)
    if (!bind(a.allocations[i], b.allocations[i])) return false;
  return equal(a.reads, b.reads) && equal(a.writes, b.writes) && equal(a.init, b.init) && equal(a.body, b.body);
}

bool Equality::equal(const Stmt& a, const Stmt& b) {
  if (!a || !b) return a == b;
  if (a == b && !renamed_) return true;
  if (a.kind() != b.kind()) return false;
  switch (a.kind()) {
    case StmtKind::kFor: {
      const auto *x = a.as<ForNode>(), *y = b.as<ForNode>();
      return x->loop_kind == y->loop_kind && x->tail == y->tail && x->thread_axis == y->thread_axis &&
             x->annotations == y->annotations && equal(x->min, y->min) && equal(x->extent, y->extent) &&
             bind(x->var, y->var) && equal(x->body, y->body);
    }
    case StmtKind::kSeq: {
      const auto *x = a.as<SeqNode>(), *y = b.as<SeqNode>();
      if (x->stmts.size() != y->stmts.size()) return false;
      for (size_t i = 0; i < x->stmts.size(); ++i)
        if (!equal(x->stmts[i], y->stmts[i])) return false;
      return true;
    }
    case StmtKind::kIf: {
      const auto *x = a.as<IfNode>(), *y = b.as<IfNode>();
      return equal(x->condition, y->condition) && equal(x->then_body, y->then_body) &&
             equal(x->else_body, y->else_body);
    }
    case StmtKind::kLet: {
      const auto *x = a.as<LetNode>(), *y = b.as<LetNode>();
      return equal(x->value, y->value) && bind(x->var, y->var) && equal(x->body, y->body);
    }
    case StmtKind::kStore: {
      const auto *x = a.as<StoreNode>(), *y = b.as<StoreNode>();
      return same(x->buffer, y->buffer) && equal(x->indices, y->indices) && equal(x->value, y->value) &&
             equal(x->mask, y->mask);
    }
    case StmtKind::kEvaluate:
      return equal(a.as<EvaluateNode>()->value, b.as<EvaluateNode>()->value);
    case StmtKind::kBlock:
      return equal(*a.as<BlockNode>(), *b.as<BlockNode>());
    case StmtKind::kAllocate: {
      const auto *x = a.as<AllocateNode>(), *y = b.as<AllocateNode>();
      return bind(x->buffer, y->buffer) && equal(x->body, y->body);
    }
    case StmtKind::kWhile: {
      const auto *x = a.as<WhileNode>(), *y = b.as<WhileNode>();
      return equal(x->condition, y->condition) && equal(x->body, y->body);
    }
    case StmtKind::kCallFunc: {
      const auto *x = a.as<CallFuncNode>(), *y = b.as<CallFuncNode>();
      return x->name == y->name && equal(x->args, y->args);
    }
    case StmtKind::kAsync: {
      const auto *x = a.as<AsyncNode>(), *y = b.as<AsyncNode>();
      return x->async_kind == y->async_kind && x->queue == y->queue && equal(x->pending, y->pending) &&
             equal(x->body, y->body);
    }
  }
  FETTLE_UNREACHABLE();
}

// Writes a program as bytes in which everything bound is a number, counted in the order of binding.
class Canonical {
 public:
  std::string write(const Func& func) && {
    number(func->int_params.size());
    for (const IntParam& param : func->int_params) {
      bind(param.var);
      number(static_cast<uint64_t>(param.min));
      number(static_cast<uint64_t>(param.max));
      number(static_cast<uint64_t>(param.multiple_of));
    }
    number(func->params.size());
    for (const Param& param : func->params) {
      byte(static_cast<uint8_t>(param.kind));
      byte(param.free_layout);
      bind(param.buffer);
    }
    annotations(func->annotations);
    stmt(func->body);
    flush();
    return std::move(bytes_);
  }

 private:
  void byte(uint8_t value) {
    if (filled_ == sizeof(buffer_)) flush();
    buffer_[filled_++] = static_cast<char>(value);
  }
  void flush() {
    bytes_.append(buffer_, filled_);
    filled_ = 0;
  }
  // Variable length, seven bits a byte: most numbers are small.
  void number(uint64_t value) {
    for (; value >= 128; value >>= 7) byte(static_cast<uint8_t>(value | 128));
    byte(static_cast<uint8_t>(value));
  }
  void string(std::string_view text) {
    number(text.size());
    for (const char c : text) byte(static_cast<uint8_t>(c));
  }
  void type(DType t) {
    byte(static_cast<uint8_t>(t.code));
    byte(t.bits);
    number(t.lanes);
  }
  void list(const std::vector<Expr>& exprs) {
    number(exprs.size());
    for (const Expr& e : exprs) expr(e);
  }
  void bind(const Var& var) {
    type(var->dtype);
    ids_.try_emplace(var.get(), ids_.size());
  }
  void bind(const Buffer& buffer) {
    type(buffer->dtype);
    string(buffer->scope);
    number(static_cast<uint64_t>(buffer->alignment_bytes));
    list(buffer->shape);
    list(buffer->strides);
    byte(buffer->layout ? 1 : 0);
    if (buffer->layout) {
      list(buffer->layout->logical_shape);
      number(buffer->layout->to_physical.inputs.size());
      for (const Var& input : buffer->layout->to_physical.inputs) bind(input);
      list(buffer->layout->to_physical.outputs);
    }
    ids_.try_emplace(buffer.get(), ids_.size());
  }
  // What is free goes by its name.
  void use(const void* node, const std::string& name) {
    const auto found = ids_.find(node);
    number(found == ids_.end() ? 0 : found->second + 1);
    if (found == ids_.end()) string(name);
  }

  void annotations(const Annotations& a) {
    number(a.entries.size());
    for (const auto& [key, value] : a.entries) {
      string(key);
      byte(static_cast<uint8_t>(value.index()));
      if (const auto* integer = std::get_if<int64_t>(&value))
        number(static_cast<uint64_t>(*integer));
      else if (const auto* real = std::get_if<double>(&value))
        number(std::bit_cast<uint64_t>(*real));
      else if (const auto* words = std::get_if<std::string>(&value))
        string(*words);
      else {
        const auto& integers = std::get<std::vector<int64_t>>(value);
        number(integers.size());
        for (int64_t i : integers) number(static_cast<uint64_t>(i));
      }
    }
  }

  void regions(const std::vector<Region>& list) {
    number(list.size());
    for (const Region& region : list) {
      use(region.buffer.get(), region.buffer->name);
      number(region.ranges.size());
      for (const Range& range : region.ranges) {
        expr(range.min);
        expr(range.extent);
      }
    }
  }

  void expr(const Expr& e);
  void stmt(const Stmt& s);

  std::string bytes_;
  char buffer_[2048];  // what comes next
  size_t filled_ = 0;
  PointerMap<const void*, uint64_t> ids_;
};

void Canonical::expr(const Expr& e) {
  if (!e) return byte(255);
  byte(static_cast<uint8_t>(e.kind()));
  switch (e.kind()) {
    case ExprKind::kIntImm:
      type(e.dtype());
      return number(static_cast<uint64_t>(e.as<IntImmNode>()->value));
    case ExprKind::kFloatImm:
      type(e.dtype());
      return number(std::bit_cast<uint64_t>(e.as<FloatImmNode>()->value));
    case ExprKind::kVar:
      return use(e.get(), e.as<VarNode>()->name);
    case ExprKind::kBinary: {
      const auto* n = e.as<BinaryNode>();
      byte(static_cast<uint8_t>(n->op));
      expr(n->a);
      return expr(n->b);
    }
    case ExprKind::kNot:
      return expr(e.as<NotNode>()->a);
    case ExprKind::kSelect: {
      const auto* n = e.as<SelectNode>();
      expr(n->condition);
      expr(n->if_true);
      return expr(n->if_false);
    }
    case ExprKind::kCast:
      type(e.dtype());
      return expr(e.as<CastNode>()->a);
    case ExprKind::kLoad: {
      const auto* n = e.as<LoadNode>();
      use(n->buffer.get(), n->buffer->name);
      list(n->indices);
      return expr(n->mask);
    }
    case ExprKind::kAddress: {
      const auto* n = e.as<AddressNode>();
      use(n->buffer.get(), n->buffer->name);
      return list(n->indices);
    }
    case ExprKind::kCall: {
      const auto* n = e.as<CallNode>();
      type(e.dtype());
      string(n->name);
      return list(n->args);
    }
    case ExprKind::kRamp: {
      const auto* n = e.as<RampNode>();
      number(e.dtype().lanes);
      expr(n->base);
      return expr(n->stride);
    }
    case ExprKind::kBroadcast:
      number(e.dtype().lanes);
      return expr(e.as<BroadcastNode>()->value);
    case ExprKind::kShuffle: {
      const auto* n = e.as<ShuffleNode>();
      list(n->vectors);
      number(n->lanes.size());
      for (int lane : n->lanes) number(static_cast<uint64_t>(lane));
      return;
    }
  }
}

void Canonical::stmt(const Stmt& s) {
  if (!s) return byte(255);
  byte(static_cast<uint8_t>(s.kind()));
  switch (s.kind()) {
    case StmtKind::kFor: {
      const auto* n = s.as<ForNode>();
      byte(static_cast<uint8_t>(n->loop_kind));
      byte(static_cast<uint8_t>(n->tail));
      string(n->thread_axis);
      annotations(n->annotations);
      expr(n->min);
      expr(n->extent);
      bind(n->var);
      return stmt(n->body);
    }
    case StmtKind::kSeq: {
      const auto& stmts = s.as<SeqNode>()->stmts;
      number(stmts.size());
      for (const Stmt& child : stmts) stmt(child);
      return;
    }
    case StmtKind::kIf: {
      const auto* n = s.as<IfNode>();
      expr(n->condition);
      stmt(n->then_body);
      return stmt(n->else_body);
    }
    case StmtKind::kLet: {
      const auto* n = s.as<LetNode>();
      expr(n->value);
      bind(n->var);
      return stmt(n->body);
    }
    case StmtKind::kStore: {
      const auto* n = s.as<StoreNode>();
      use(n->buffer.get(), n->buffer->name);
      list(n->indices);
      expr(n->value);
      return expr(n->mask);
    }
    case StmtKind::kEvaluate:
      return expr(s.as<EvaluateNode>()->value);
    case StmtKind::kBlock: {
      const auto* n = s.as<BlockNode>();
      annotations(n->annotations);
      expr(n->predicate);
      number(n->iters.size());
      for (const IterVar& iter : n->iters) {
        byte(static_cast<uint8_t>(iter.kind));
        expr(iter.extent);
        expr(iter.binding);
      }
      for (const IterVar& iter : n->iters) bind(iter.var);
      number(n->allocations.size());
      for (const Buffer& buffer : n->allocations) bind(buffer);
      regions(n->reads);
      regions(n->writes);
      stmt(n->init);
      return stmt(n->body);
    }
    case StmtKind::kAllocate:
      bind(s.as<AllocateNode>()->buffer);
      return stmt(s.as<AllocateNode>()->body);
    case StmtKind::kWhile:
      expr(s.as<WhileNode>()->condition);
      return stmt(s.as<WhileNode>()->body);
    case StmtKind::kCallFunc:
      string(s.as<CallFuncNode>()->name);
      return list(s.as<CallFuncNode>()->args);
    case StmtKind::kAsync: {
      const auto* n = s.as<AsyncNode>();
      byte(static_cast<uint8_t>(n->async_kind));
      string(n->queue);
      expr(n->pending);
      return stmt(n->body);
    }
  }
}

}  // namespace

bool structural_equal(const Stmt& a, const Stmt& b) { return Equality(false).equal(a, b); }
bool structural_equal(const Func& a, const Func& b) { return Equality(true).equal(a, b); }

std::string canonical_bytes(const Func& func) { return Canonical().write(func); }
Digest canonical_hash(const Func& func) { return digest_bytes(canonical_bytes(func)); }

}  // namespace fettle
