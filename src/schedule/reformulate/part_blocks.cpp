#include "schedule/reformulate/part_blocks.h"

#include <algorithm>

#include "analysis/sites.h"
#include "base/check.h"
#include "ir/annotations.h"
#include "schedule/dataflow/dataflow.h"

namespace fettle {

Buffer PartBlocks::add(const std::string& suffix, std::string_view role, const std::vector<IterVar>& iters,
                       const std::vector<Expr>& at, const Expr& value, std::optional<Reduces> reduces) {
  std::vector<Expr> shape;
  for (const Expr& index : at) {
    const auto iter = std::ranges::find_if(iters, [&](const IterVar& i) { return i.var.get() == index.get(); });
    FETTLE_CHECK(iter != iters.end());
    shape.push_back(iter->extent);
  }
  const Buffer buffer = make_buffer(unique_buffer_name(func_, block_.name + suffix), shape, value.dtype());
  allocated_.push_back(buffer);
  finish(unique_block_name(func_, block_.name + suffix), iters, role,
         reduces ? store(buffer, at, constant(0, value.dtype())) : Stmt(),
         store(buffer, at, reduces ? accumulated(reduces->op, load(buffer, at), value) : value), {});
  return buffer;
}

void PartBlocks::finish(const std::string& name, const std::vector<IterVar>& iters, std::string_view role,
                        const Stmt& init, const Stmt& body, Annotations annotations) {
  auto fresh = make_ref<BlockNode>();
  fresh->name = name;
  fresh->iters = iters;
  fresh->init = init;
  fresh->body = body;
  fresh->annotations = std::move(annotations);
  if (!role.empty()) {
    fresh->annotations.set(kPartOfKey, std::string(block_.name));
    fresh->annotations.set(kRoleKey, std::string(role));
  }
  Analyzer analyzer = analyzer_in(func_, *fresh);
  infer_regions(*fresh, analyzer);
  names_.push_back(name);
  nests_.push_back(fresh_nest(fresh));
}

Func PartBlocks::result(const PlainNest& nest) const {
  const BlockNode* scope = enclosing_block(func_, &block_);
  return edit_scope(func_, scope->name, {.anchor = nest.top, .replacement = seq(nests_), .allocate = allocated_});
}

}  // namespace fettle
