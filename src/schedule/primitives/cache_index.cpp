#include "schedule/primitives/cache_index.h"

#include <algorithm>

#include "schedule/dataflow/dataflow.h"
#include "schedule/dataflow/plain_nest.h"
#include "schedule/edit/steps.h"

namespace fettle {
namespace {

bool divides(const Expr& e) {
  return find_node<BinaryNode>(
      e, [](const BinaryNode& n) { return n.op == BinaryOp::kFloorDiv || n.op == BinaryOp::kFloorMod; });
}

// An index expression and the buffer that holds its values.
struct Cached {
  Expr index;
  Buffer buffer;
  std::vector<size_t> used;  // numbers of the iterators that it depends on
};

// Loads take their costly indices from the buffers.
class IndexLoader : public Mutator {
 public:
  IndexLoader(const BlockNode& block, const std::vector<Cached>& cached) : block_(block), cached_(cached) {}
  using Mutator::rewrite;
  Expr rewrite(const Expr& e) override {
    const auto* source = e.as<LoadNode>();
    if (!source) return Mutator::rewrite(e);
    std::vector<Expr> indices = source->indices;
    for (size_t d = 0; d < indices.size(); ++d) {
      const auto at =
          std::ranges::find_if(cached_, [&](const Cached& c) { return structural_equal(c.index, indices[d]); });
      if (at == cached_.end()) {
        indices[d] = rewrite(indices[d]);
        continue;
      }
      std::vector<Expr> point;
      for (const size_t i : at->used) point.push_back(block_.iters[i].var);
      // Within the buffer, as whoever looks at the access alone must see.
      indices[d] = max(min(load(at->buffer, point), source->buffer->shape[d] - 1), Expr(0));
    }
    return load(source->buffer, indices, rewrite(source->mask));
  }

 private:
  const BlockNode& block_;
  const std::vector<Cached>& cached_;
};

// The costly indices of the block's loads, each once.
std::vector<Expr> costly_indices(const BlockNode& block) {
  std::vector<Expr> found;
  for (const Stmt& s : {block.init, block.body})
    each_node<LoadNode>(s, [&](const LoadNode& source) {
      for (const Expr& index : source.indices)
        if (divides(index) && std::ranges::none_of(found, [&](const Expr& f) { return structural_equal(f, index); }))
          found.push_back(index);
    });
  std::erase_if(found, [&](const Expr& index) {
    bool only_iters = true;
    for (const Var& var : collect_vars(index))
      only_iters &= std::ranges::any_of(block.iters, [&](const IterVar& i) { return i.var == var; });
    return !only_iters || collect_vars(index).empty();
  });
  return found;
}

Result<Applied> apply_cache_index(const Schedule& s, const CacheIndexArgs& args) {
  FETTLE_TRY(const Stmt stmt, s.block(args.block));
  const Func& func = s.func();
  const auto& block = *stmt.as<BlockNode>();
  const BlockNode* scope = enclosing_block(func, &block);
  FETTLE_TRY_VOID(check_scope(s, args.scope, &block));
  if (!scope || !blocks_under(block.body).empty())
    return refused(ErrorCode::E214, func, &block, "there are blocks inside block {}", block.name);
  const std::vector<Expr> indices = costly_indices(block);
  if (indices.empty())
    return refused(ErrorCode::E220, func, &block, "no load of block {} has an index with // or %", block.name);
  Applied applied;
  std::vector<Cached> cached;
  std::vector<Stmt> nests;
  std::vector<Buffer> allocate;
  for (const Expr& index : indices) {
    Cached& c = cached.emplace_back(Cached{index, {}, {}});
    auto fill = make_ref<BlockNode>();
    const std::string name =
        fmt::format("{}_index{}", block.name, cached.size() == 1 ? "" : std::to_string(cached.size() - 1));
    fill->name = unique_block_name(func, name);
    VarMap renamed;
    std::vector<Expr> shape, point;
    for (size_t i = 0; i < block.iters.size(); ++i) {
      const IterVar& iter = block.iters[i];
      if (!uses_var(index, iter.var.get())) continue;
      c.used.push_back(i);
      const Var var = make_var(iter.var->name);
      renamed[iter.var.get()] = var;
      fill->iters.push_back({var, iter.extent, IterKind::kSpatial, nullptr});
      shape.push_back(iter.extent);
      point.push_back(var);
    }
    c.buffer = make_buffer(unique_buffer_name(func, name), shape, kI64, args.scope);
    fill->body = store(c.buffer, point, substitute(index, renamed));
    fill->writes = {point_region(c.buffer, point)};
    Analyzer known;
    infer_regions(*fill, known);  // an index may come from memory, too
    applied.outputs.emplace_back(fill->name);
    allocate.push_back(c.buffer);
    nests.push_back(fresh_nest(fill));
  }
  if (is_in_init(*scope, &block))
    return refused(ErrorCode::E214, func, &block, "block {} is part of an init", block.name);
  // Indices may come from memory, too: what is there has to be written before the nests that read it.
  const StmtNode* anchor = anchor_of(*scope, &block, {});
  for (const Stmt& nest : nests)
    for (const BlockNode* fill : blocks_under(nest))
      for (const Region& read : fill->reads)
        for (const BlockNode* writer : blocks_of(*scope))
          if (write_region(*writer, read.buffer.get()) && anchor_of(*scope, writer, {}) == anchor)
            return refused(ErrorCode::E215, func, writer,
                           "an index of block {} reads {}, which block {} writes in the same nest", block.name,
                           read.buffer->name, writer->name);
  IndexLoader loader(block, cached);
  auto fresh = make_ref<BlockNode>(block);
  fresh->init = block.init ? loader.rewrite(block.init) : Stmt();
  fresh->body = loader.rewrite(block.body);
  for (const Cached& c : cached) {
    std::vector<Expr> point;
    for (const size_t i : c.used) point.push_back(block.iters[i].var);
    fresh->reads.push_back(point_region(c.buffer, point));
  }
  drop_unread(*fresh);
  applied.func =
      edit_scope(func, scope->name, {.anchor = anchor, .before = seq(std::move(nests)), .allocate = allocate});
  applied.func = replace_in(applied.func, find_block(applied.func->body, block.name), fresh);
  return applied;
}

}  // namespace

extern constinit const PrimitiveDef cache_index_def =
    define_primitive<CacheIndexArgs, apply_cache_index>("cache_index", 1);

Result<std::vector<BlockRef>> cache_index(Schedule& s, const CacheIndexArgs& args) {
  return run<std::vector<BlockRef>>(s, cache_index_def, args);
}

}  // namespace fettle
