#include "ir/rewrite.h"

#include <algorithm>

#include "ir/compare.h"

namespace fettle {

void each_access(const Expr& e, AccessFn fn) {
  walk(e, [&](const Expr& x) {
    if (const auto* source = x.as<LoadNode>()) fn(source->buffer, source->indices, AccessKind::kRead);
    if (const auto* pointer = x.as<AddressNode>()) fn(pointer->buffer, pointer->indices, AccessKind::kAddress);
    return true;
  });
}

void each_access(const Stmt& s, AccessFn fn) {
  class Finder : public AccessVisitor {
   public:
    explicit Finder(AccessFn fn) : fn_(fn) {}

   private:
    void access(const Buffer& buffer, const std::vector<Expr>& indices, AccessKind kind) override {
      fn_(buffer, indices, kind);
    }
    AccessFn fn_;
  };
  Finder(fn).visit(s);
}

void AccessVisitor::visit(const Stmt& s) {
  if (!s) return;
  const auto* loop = s.as<ForNode>();
  if (loop) loops_.push_back(loop);
  if (const auto* target = s.as<StoreNode>()) access(target->buffer, target->indices, AccessKind::kWrite);
  Visitor::visit(s);
  if (loop) loops_.pop_back();
}

void AccessVisitor::visit(const Expr& e) {
  if (!e) return;
  if (const auto* source = e.as<LoadNode>()) access(source->buffer, source->indices, AccessKind::kRead);
  if (const auto* pointer = e.as<AddressNode>()) access(pointer->buffer, pointer->indices, AccessKind::kAddress);
  Visitor::visit(e);
}

Expr AccessMutator::rewrite(const Expr& e) {
  if (const auto* source = e.as<LoadNode>())
    if (auto to = moved(source->buffer, source->indices))
      return load(std::move(to->buffer), std::move(to->indices), rewrite(source->mask));
  if (const auto* pointer = e.as<AddressNode>())
    if (auto to = moved(pointer->buffer, pointer->indices))
      return address_of(std::move(to->buffer), std::move(to->indices));
  return Mutator::rewrite(e);
}

Stmt AccessMutator::rewrite(const Stmt& s) {
  if (const auto* target = s.as<StoreNode>())
    if (auto to = moved(target->buffer, target->indices))
      return store(std::move(to->buffer), std::move(to->indices), rewrite(target->value), rewrite(target->mask));
  return Mutator::rewrite(s);
}

std::vector<Stmt> parts_of(const Stmt& s) {
  const auto* several = s.as<SeqNode>();
  return several ? several->stmts : std::vector<Stmt>{s};
}

bool accesses(const Stmt& s, const BufferNode* buffer, std::initializer_list<AccessKind> kinds) {
  bool found = false;
  each_access(s, [&](const Buffer& accessed, const std::vector<Expr>&, AccessKind kind) {
    found = found || (accessed.get() == buffer && std::ranges::find(kinds, kind) != kinds.end());
  });
  return found;
}

Stmt allocate_all(const std::vector<Buffer>& buffers, Stmt body) {
  for (size_t i = buffers.size(); i-- > 0;) body = allocate(buffers[i], std::move(body));
  return body;
}

const CallNode* effect_of(const Stmt& s) {
  const auto* effect = s.as<EvaluateNode>();
  return effect ? effect->value.as<CallNode>() : nullptr;
}

}  // namespace fettle
