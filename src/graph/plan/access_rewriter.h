#pragma once
// Accesses to buffers that change their shapes.

#include "ir/fold.h"
#include "ir/visit.h"

namespace fettle {

/// Gives accesses new buffers and indices; else as Base, a Mutator, does.
template <class Base>
class AccessRewriter : public Base {
 public:
  using Base::rewrite;
  Expr rewrite(const Expr& e) override {
    if (const auto* n = e.as<LoadNode>(); n && changes(n->buffer))
      return load(rewrite(n->buffer), indices(n->buffer, n->indices));
    if (const auto* n = e.as<AddressNode>(); n && changes(n->buffer))
      return address_of(rewrite(n->buffer), indices(n->buffer, n->indices));
    if (const auto* n = e.as<VarNode>())
      if (const auto found = vars.find(n); found != vars.end()) return found->second;
    return Base::rewrite(e);
  }
  Stmt rewrite(const Stmt& s) override {
    if (const auto* n = s.as<StoreNode>(); n && changes(n->buffer))
      return store(rewrite(n->buffer), indices(n->buffer, n->indices), rewrite(n->value));
    return Base::rewrite(s);
  }
  Buffer rewrite(const Buffer& buffer) override {
    const auto found = buffers.find(buffer.get());
    return found == buffers.end() ? buffer : found->second;
  }
  virtual std::vector<Expr> new_indices(const Buffer& buffer, std::vector<Expr> old) = 0;

  BufferMap buffers;
  VarMap vars;

 private:
  bool changes(const Buffer& buffer) const { return buffers.contains(buffer.get()); }
  std::vector<Expr> indices(const Buffer& buffer, const std::vector<Expr>& old) {
    std::vector<Expr> fresh;
    for (const Expr& index : old) fresh.push_back(rewrite(index));
    return new_indices(buffer, std::move(fresh));
  }
};

}  // namespace fettle
