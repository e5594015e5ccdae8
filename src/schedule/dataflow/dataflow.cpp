#include "schedule/dataflow/dataflow.h"

#include <algorithm>

#include "analysis/block_checks.h"
#include "analysis/touched_regions.h"
#include "base/check.h"
#include "base/checks.h"
#include "ir/annotations.h"
#include "ir/path.h"
#include "schedule/dataflow/leaf.h"
#include "schedule/dataflow/plain_nest.h"
#include "schedule/edit/steps.h"

namespace fettle {

namespace {

// By hand: steps ask this again and again.
void collect_blocks(const Stmt& s, std::vector<const BlockNode*>& blocks) {
  const Stmt* at = &s;
  while (*at && at->kind() == StmtKind::kFor) at = &at->as<ForNode>()->body;
  if (!*at) return;
  if (const auto* block = at->as<BlockNode>()) {
    blocks.push_back(block);
  } else if (const auto* sequence = at->as<SeqNode>()) {
    for (const Stmt& child : sequence->stmts) collect_blocks(child, blocks);
  } else if (at->kind() != StmtKind::kStore) {
    walk(*at, [&](const Stmt& x) {
      const auto* below = x.as<BlockNode>();
      if (below) blocks.push_back(below);
      return below == nullptr;
    });
  }
}

}  // namespace

std::vector<const BlockNode*> blocks_under(const Stmt& s) {
  std::vector<const BlockNode*> blocks;
  collect_blocks(s, blocks);
  return blocks;
}

std::vector<const BlockNode*> blocks_of(const BlockNode& scope) { return blocks_under(scope.body); }

const Region* read_region(const BlockNode& block, const BufferNode* buffer) { return region_of(block.reads, buffer); }
const Region* write_region(const BlockNode& block, const BufferNode* buffer) { return region_of(block.writes, buffer); }

bool names_buffer(const BlockNode& block, const BufferNode* buffer) {
  return read_region(block, buffer) || write_region(block, buffer);
}

bool is_leaf(const BlockNode& block) {
  return block.body.kind() == StmtKind::kStore && (!block.init || block.init.kind() == StmtKind::kStore) &&
         block.allocations.empty();
}

std::vector<const BlockNode*> producers_of(const BlockNode& scope, const BufferNode* buffer) {
  std::vector<const BlockNode*> found = blocks_of(scope);
  std::erase_if(
      found, [&](const BlockNode* b) { return !write_region(*b, buffer) || b->annotations.find(kClearsPadLanesKey); });
  return found;
}

std::vector<const BlockNode*> consumers_of(const BlockNode& scope, const BufferNode* buffer) {
  std::vector<const BlockNode*> found = blocks_of(scope);
  std::erase_if(found, [&](const BlockNode* b) { return write_region(*b, buffer) || !read_region(*b, buffer); });
  return found;
}

const BlockNode* reader_ahead(const BlockNode& block, const BlockNode& scope) {
  for (const BlockNode* other : blocks_of(scope)) {
    if (other == &block) break;
    for (const Region& write : block.writes)
      if (read_region(*other, write.buffer.get())) return other;
  }
  return nullptr;
}

std::string why_not_complete(const BlockNode& block, const BlockNode& scope, bool reduction_too) {
  if (block.init && !reduction_too) return "it has a reduction that is not closed";
  for (const IterVar& iter : block.iters) {
    if (iter.kind == IterKind::kSpatial || (reduction_too && block.init && iter.kind == IterKind::kReduce)) continue;
    return fmt::format("iterator {} is not spatial", iter.var->name);
  }
  if (block.writes.empty()) return "it writes nothing";
  const BlockNode* reader = nullptr;  // ahead of it
  bool ahead = true;
  for (const BlockNode* other : blocks_of(scope)) {
    if (other == &block) {
      ahead = false;
      continue;
    }
    for (const Region& region : block.writes) {
      if (write_region(*other, region.buffer.get()) && !other->annotations.find(kClearsPadLanesKey))
        return fmt::format("it is not alone in writing {}", region.buffer->name);
      if (ahead && !reader && read_region(*other, region.buffer.get())) reader = other;
    }
  }
  if (!block.init)
    for (const Region& region : block.writes)
      if (read_region(block, region.buffer.get()))
        return fmt::format("it reads {}, which it writes", region.buffer->name);
  if (reader && checks("complete.readers"))
    return fmt::format("block {} ahead of it reads what it writes", reader->name);
  return {};
}

bool is_complete(const BlockNode& block, const BlockNode& scope) {
  return why_not_complete(block, scope, false).empty();
}

bool is_reduction(const BlockNode& block, const BlockNode& scope) {
  return block.init && why_not_complete(block, scope, true).empty();
}

bool is_param(const Func& func, const BufferNode* buffer) { return func.find_param(buffer) != nullptr; }

std::vector<std::vector<Expr>> loads_of(const Stmt& s, const BufferNode* buffer) {
  std::vector<std::vector<Expr>> found;
  each_node<LoadNode>(s, [&](const LoadNode& access) {
    if (access.buffer.get() == buffer) found.push_back(access.indices);
  });
  return found;
}

std::vector<std::vector<Expr>> stores_of(const Stmt& s, const BufferNode* buffer) {
  std::vector<std::vector<Expr>> found;
  each_node<StoreNode>(s, [&](const StoreNode& access) {
    if (access.buffer.get() == buffer) found.push_back(access.indices);
  });
  return found;
}

const StoreNode* single_store(const BlockNode& block) { return block.body.as<StoreNode>(); }

Range hull_of(const Range& a, const Range& b, const Expr& whole, Analyzer& analyzer) {
  LinearForm apart = analyzer.linear(b.min);
  apart.add(analyzer.linear(a.min), -1);
  if (apart.is_zero() && structural_equal(a.extent, b.extent)) return a;
  const int64_t* a_extent = as_int(a.extent);
  const int64_t* b_extent = as_int(b.extent);
  if (!apart.is_constant() || !a_extent || !b_extent) return {int_imm(0), whole};
  const int64_t shift = apart.constant;
  const int64_t end = std::max(*a_extent, shift + *b_extent);
  if (shift >= 0) return {a.min, int_imm(end)};
  return {b.min, int_imm(std::max(*b_extent, *a_extent - shift))};
}

bool depends_on_memory(const Expr& index) { return reads_memory(index); }

namespace {

struct Accesses {
  std::vector<Region> regions;
  void add(const Buffer& buffer, const std::vector<Expr>& indices, Analyzer& analyzer) {
    for (Region& region : regions) {
      if (!(region.buffer == buffer)) continue;
      for (size_t d = 0; d < indices.size(); ++d)
        region.ranges[d] = reads_memory(indices[d])
                               ? Range{int_imm(0), buffer->shape[d]}
                               : hull_of(region.ranges[d], {indices[d], int_imm(1)}, buffer->shape[d], analyzer);
      return;
    }
    regions.push_back(point_region(buffer, indices));
    for (Range& range : regions.back().ranges) range.min = analyzer.simplify(range.min);
  }
};

// Those buffers that `before` lists come in its order, then the others.
std::vector<Region> in_order_of(const std::vector<Region>& before, std::vector<Region> now) {
  std::vector<Region> result;
  for (const Region& old : before)
    for (Region& region : now)
      if (region.buffer && region.buffer == old.buffer) result.push_back(std::exchange(region, Region{}));
  for (Region& region : now)
    if (region.buffer) result.push_back(std::move(region));
  return result;
}

}  // namespace

void infer_regions(BlockNode& block, Analyzer& analyzer) {
  Accesses reads, writes;
  for (const Stmt& s : {block.init, block.body}) {
    each_node<StoreNode>(s, [&](const StoreNode& n) { writes.add(n.buffer, n.indices, analyzer); });
    each_node<LoadNode>(s, [&](const LoadNode& n) { reads.add(n.buffer, n.indices, analyzer); });
  }
  std::erase_if(reads.regions, [&](const Region& region) {
    if (read_region(block, region.buffer.get())) return false;
    const Region* written = region_of(writes.regions, region.buffer.get());
    return written && same_ranges(region, *written);
  });
  block.reads = in_order_of(block.reads, std::move(reads.regions));
  block.writes = in_order_of(block.writes, std::move(writes.regions));
}

bool is_in_init(const BlockNode& scope, const BlockNode* block) {
  return scope.init && walk_up(scope.init, block, [](const Stmt&) {});
}

void drop_unread(BlockNode& block) {
  std::erase_if(block.reads, [&](const Region& region) {
    const auto is_of = [&](const auto& access) { return access.buffer == region.buffer; };
    return std::ranges::none_of(std::initializer_list<Stmt>{block.init, block.body}, [&](const Stmt& s) {
      return find_node<LoadNode>(s, is_of) || find_node<AddressNode>(s, is_of);
    });
  });
}

void init_regions(BlockNode& init, const BlockNode& block, const VarMap& iters) {
  init.body = substitute(block.init, iters);
  if (blocks_under(block.init).empty()) {
    Analyzer analyzer;
    infer_regions(init, analyzer);
    return;
  }
  init.writes = substitute(block.writes, iters);
  init.reads = substitute(block.reads, iters);
  drop_unread(init);
  init.body = rename_bound(init.body);
}

const BlockNode* makes_for_init(const Stmt& s, const BlockNode& block) {
  for (const BlockNode* other : blocks_under(s)) {
    if (other == &block) continue;
    for (const Region& write : other->writes)
      if (!loads_of(block.init, write.buffer.get()).empty()) return other;
  }
  return nullptr;
}

const StmtNode* anchor_of(const BlockNode& scope, const BlockNode* block, const std::vector<const BlockNode*>& others) {
  const std::vector<Stmt> path = path_to(scope.body, block);
  FETTLE_CHECK(!path.empty());
  // Index of the first statement on the path that no other block is below.
  size_t first = path.size() > 1 && path[0].kind() == StmtKind::kSeq ? 1 : 0;
  for (const BlockNode* other : others) {
    if (other == block) continue;
    const std::vector<Stmt> other_path = path_to(scope.body, other);
    size_t common = 0;
    while (common < path.size() && common < other_path.size() && path[common] == other_path[common]) ++common;
    first = std::max(first, common);
  }
  FETTLE_CHECK(first < path.size());
  return path[first].get();
}

Func edit_scope(const Func& func, const std::string& scope, const ScopeEdit& edit) {
  Stmt body = func->body;
  if (edit.anchor) {
    const std::vector<Stmt> path = path_to(body, edit.anchor);
    FETTLE_CHECK(!path.empty());
    const Stmt middle = edit.replacement ? edit.replacement : path.back();
    body = replace_stmt(body, edit.anchor, seq({edit.before, middle, edit.after}));
  }
  if (!edit.allocate.empty() || !edit.release.empty()) {
    const BlockNode* block = find_block(body, scope);
    FETTLE_CHECK(block);
    body = replace_stmt(body, block, with(*block, [&](BlockNode& b) {
                          std::erase_if(b.allocations, [&](const Buffer& buffer) {
                            return std::ranges::find(edit.release, buffer.get()) != edit.release.end();
                          });
                          b.allocations.insert(b.allocations.end(), edit.allocate.begin(), edit.allocate.end());
                        }));
  }
  for (const BufferNode* released : edit.release) {
    std::vector<std::string> clears;
    for (const BlockNode* other : blocks_under(find_block(body, scope)->body))
      if (write_region(*other, released) && other->annotations.find(kClearsPadLanesKey)) clears.push_back(other->name);
    for (const std::string& name : clears) body = replace_stmt(body, find_block(body, name), nullptr);
  }
  return with_body(func, body);
}

std::vector<const ForNode*> loops_between(const Stmt& top, const StmtNode* node) {
  std::vector<const ForNode*> loops;
  walk_up(top, node, [&](const Stmt& s) {
    if (const auto* loop = s.as<ForNode>(); loop && loop != node) loops.push_back(loop);
  });
  std::ranges::reverse(loops);
  return loops;
}

Result<> check_scope(const Schedule& schedule, const std::string& memory_scope, const BlockNode* block) {
  if (memory_scope == kScopeGlobal || memory_scope == kScopeRegister) return {};
  if (schedule.target() && schedule.target()->find_scope(memory_scope)) return {};
  return refused(ErrorCode::E219, schedule.func(), block, "scope \"{}\"", memory_scope);
}

std::vector<Expr> conjuncts(const Expr& condition) {
  if (is_true(condition)) return {};
  if (const auto* both = condition.as<BinaryNode>(); both && both->op == BinaryOp::kAnd) {
    std::vector<Expr> left = conjuncts(both->a), right = conjuncts(both->b);
    left.insert(left.end(), right.begin(), right.end());
    return left;
  }
  return {condition};
}

}  // namespace fettle
