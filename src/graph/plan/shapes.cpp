#include "graph/plan/shapes.h"

#include <algorithm>
#include <optional>
#include <set>
#include <tuple>
#include <unordered_map>

#include "graph/plan/access_rewriter.h"
#include "graph/plan/nest.h"
#include "ir/compare.h"
#include "ir/visit.h"

namespace fettle {
namespace {

/// Lets and stores alone: what a scan does whose steps say where they write.
bool only_stores(const Stmt& body) {
  bool only = true;
  walk(body, [&](const Stmt& s) {
    only = only && (s.kind() == StmtKind::kLet || s.kind() == StmtKind::kStore || s.kind() == StmtKind::kSeq);
    return only;
  });
  return only;
}

/// All blocks are plain nests with iterators, so that loops and iterators can change together.
bool is_simple(const Func& func) {
  for (const Stmt& stmt : nests_of(func)) {
    const Nest nest = open_nest(stmt);
    if (!is_plain(nest)) return false;
    for (const IterVar& iter : nest.block->iters)
      if (iter.kind == IterKind::kOpaque || (iter.kind == IterKind::kScan && !only_stores(nest.block->body)))
        return false;
  }
  for (const Param& param : func->params)
    if (param.buffer->layout) return false;
  return true;
}

std::vector<Buffer> buffers_of(const Func& func) {
  std::vector<Buffer> list;
  for (const Param& param : func->params) list.push_back(param.buffer);
  for (const Buffer& buffer : func.root().allocations) list.push_back(buffer);
  return list;
}

/// The whole program through a rewriter that replaces loops by those that `reshape` leaves of each nest.
template <class Reshape>
Func rewritten(const Func& func, AccessRewriter<Folder>& rewriter, Reshape reshape) {
  std::vector<Stmt> nests = nests_of(func);
  for (Stmt& stmt : nests) {
    Nest nest = open_nest(stmt);
    const Stmt block = with(*nest.block, [&](BlockNode& b) {
      reshape(nest, b);
      if (b.init) b.init = rewriter.rewrite(b.init);
      b.body = rewriter.rewrite(b.body);
      find_regions(b);
    });
    stmt = close_nest(nest, block);
  }
  std::vector<Buffer> allocations;
  for (const Buffer& buffer : func.root().allocations) allocations.push_back(rewriter.rewrite(buffer));
  const Func result = with_nests(func, std::move(nests), std::move(allocations));
  return with(result, [&](FuncNode& f) {
    for (Param& param : f.params) param.buffer = rewriter.rewrite(param.buffer);
  });
}

// --- dimensions of extent 1 -------------------------------------------------------------------------------------

class UnitDropper : public AccessRewriter<Folder> {
 public:
  std::vector<Expr> new_indices(const Buffer& buffer, std::vector<Expr> old) override {
    std::vector<Expr> left;
    for (size_t d = 0; d < old.size(); ++d)
      if (!is_one(buffer->shape[d])) left.push_back(std::move(old[d]));
    return left;
  }
};

// --- dimensions that belong together ----------------------------------------------------------------------------

/// Dimensions d and d+1 of a buffer.
using DimPair = std::pair<const BufferNode*, size_t>;
/// Two iterators of a block, outer and inner.
struct IterPair {
  const BlockNode* block;
  const VarNode* outer;
  const VarNode* inner;
  auto operator<=>(const IterPair&) const = default;
};

struct BlockAccess {
  const BlockNode* block;
  const BufferNode* buffer;
  const std::vector<Expr>* indices;
};

/// Finds pairs of dimensions, and the pairs of iterators that walk them, such that each only meets the other.
class PairFinder {
 public:
  PairFinder(const Func& func, const SizeVars& vars) : vars_(vars) {
    for (const Stmt& stmt : nests_of(func)) {
      const Nest nest = open_nest(stmt);
      blocks_.push_back(nest.block);
      const auto note = [&](const BufferNode* buffer, const std::vector<Expr>& indices) {
        accesses_.push_back({nest.block, buffer, &indices});
      };
      walk(
          stmt,
          [&](const Stmt& s) {
            if (const auto* n = s.as<StoreNode>()) note(n->buffer.get(), n->indices);
            return true;
          },
          [&](const Expr& e) {
            if (const auto* n = e.as<LoadNode>()) note(n->buffer.get(), n->indices);
            return true;
          });
      collect_loose_vars(nest.block);
    }
    for (const Buffer& buffer : buffers_of(func))
      for (size_t d = 0; d + 1 < buffer->shape.size(); ++d)
        if (is_dense(*buffer, d)) dims_.insert({buffer.get(), d});
    for (const BlockAccess& access : accesses_)
      for (size_t d = 0; d + 1 < access.indices->size(); ++d)
        if (const auto pair = pair_at(access, d)) iters_.insert(*pair);
    settle();
  }

  /// One set of pairs that go together; empty where there is none.
  std::pair<std::set<DimPair>, std::set<IterPair>> component() const {
    std::set<DimPair> dims;
    std::set<IterPair> iters;
    if (iters_.empty()) return {};
    iters.insert(*iters_.begin());
    for (size_t before = 0; before != dims.size() + iters.size();) {
      before = dims.size() + iters.size();
      for (const BlockAccess& access : accesses_)
        for (size_t d = 0; d + 1 < access.indices->size(); ++d) {
          const auto pair = pair_at(access, d);
          if (!pair || !dims_.contains({access.buffer, d})) continue;
          if (iters.contains(*pair)) dims.insert({access.buffer, d});
          if (dims.contains({access.buffer, d})) iters.insert(*pair);
        }
    }
    return {dims, iters};
  }

 private:
  bool is_dense(const BufferNode& buffer, size_t d) const {
    if (buffer.strides.empty()) return true;
    const auto outer = vars_.dim_of(buffer.strides[d]), inner = vars_.dim_of(buffer.strides[d + 1]),
               extent = vars_.dim_of(buffer.shape[d + 1]);
    return outer && inner && extent && *outer == *inner * *extent;
  }

  /// Iterators that occur outside of plain indices: in values, conditions, sums.
  void collect_loose_vars(const BlockNode* block) {
    std::function<void(const Expr&)> look = [&](const Expr& e) {
      walk(e, [&](const Expr& x) {
        if (const auto* n = x.as<LoadNode>()) {
          for (const Expr& index : n->indices)
            if (index.kind() != ExprKind::kVar) look(index);
          return false;
        }
        if (const auto* n = x.as<VarNode>()) loose_.insert({block, n});
        return true;
      });
    };
    const auto look_at = [&](const Stmt& body) {
      walk(body, [&](const Stmt& s) {
        if (const auto* n = s.as<StoreNode>()) {
          for (const Expr& index : n->indices)
            if (index.kind() != ExprKind::kVar) look(index);
          look(n->value);
        }
        if (const auto* n = s.as<LetNode>()) look(n->value);
        if (const auto* n = s.as<WhileNode>()) look(n->condition);
        if (const auto* n = s.as<ForNode>()) {
          look(n->min);
          look(n->extent);
        }
        if (const auto* n = s.as<IfNode>()) look(n->condition);
        return true;
      });
    };
    look_at(block->body);
    if (block->init) look_at(block->init);
  }

  static const IterVar* iter_of(const BlockNode* block, const Expr& e) {
    for (const IterVar& iter : block->iters)
      if (iter.var.get() == e.get()) return &iter;
    return nullptr;
  }

  static std::optional<IterPair> pair_at(const BlockAccess& access, size_t d) {
    const IterVar* outer = iter_of(access.block, (*access.indices)[d]);
    const IterVar* inner = iter_of(access.block, (*access.indices)[d + 1]);
    if (!outer || !inner || outer == inner || outer->kind != inner->kind) return {};
    if (!structural_equal(outer->extent, access.buffer->shape[d]) ||
        !structural_equal(inner->extent, access.buffer->shape[d + 1]))
      return {};
    return IterPair{access.block, outer->var.get(), inner->var.get()};
  }

  bool holds(const IterPair& pair) const {
    if (loose_.contains({pair.block, pair.outer}) || loose_.contains({pair.block, pair.inner})) return false;
    for (const BlockAccess& access : accesses_) {
      if (access.block != pair.block) continue;
      for (size_t d = 0; d < access.indices->size(); ++d) {
        const ExprNode* index = (*access.indices)[d].get();
        if (index == pair.outer) {
          if (d + 1 == access.indices->size() || (*access.indices)[d + 1].get() != pair.inner ||
              !dims_.contains({access.buffer, d}))
            return false;
          ++d;
        } else if (index == pair.inner) {
          return false;
        }
      }
    }
    return true;
  }

  void settle() {
    for (bool changed = true; changed;) {
      changed = false;
      for (const BlockAccess& access : accesses_)
        for (size_t d = 0; d + 1 < access.indices->size(); ++d) {
          if (!dims_.contains({access.buffer, d})) continue;
          const auto pair = pair_at(access, d);
          if (!pair || !iters_.contains(*pair)) changed |= dims_.erase({access.buffer, d}) > 0;
        }
      changed |= std::erase_if(iters_, [&](const IterPair& pair) { return !holds(pair); }) > 0;
    }
  }

  const SizeVars& vars_;
  std::vector<const BlockNode*> blocks_;
  std::vector<BlockAccess> accesses_;
  std::set<std::pair<const BlockNode*, const VarNode*>> loose_;
  std::set<DimPair> dims_;
  std::set<IterPair> iters_;
};

class PairMerger : public AccessRewriter<Folder> {
 public:
  std::vector<Expr> new_indices(const Buffer& buffer, std::vector<Expr> old) override {
    // The outer variable is replaced by the merged one already; the inner index goes.
    old.erase(old.begin() + static_cast<std::ptrdiff_t>(dims.at(buffer.get()) + 1));
    return old;
  }
  std::unordered_map<const BufferNode*, size_t> dims;
};

}  // namespace

Func drop_unit_dims(const Func& func) {
  if (!is_simple(func)) return func;
  UnitDropper rewriter;
  for (const Buffer& buffer : buffers_of(func)) {
    if (std::none_of(buffer->shape.begin(), buffer->shape.end(), [](const Expr& e) { return is_one(e); })) continue;
    rewriter.buffers[buffer.get()] = edited(buffer, [&](BufferNode& b) {
      b.shape.clear();
      b.strides.clear();
      for (size_t d = 0; d < buffer->shape.size(); ++d) {
        if (is_one(buffer->shape[d])) continue;
        b.shape.push_back(buffer->shape[d]);
        if (!buffer->strides.empty()) b.strides.push_back(buffer->strides[d]);
      }
    });
  }
  return rewritten(func, rewriter, [&](Nest& nest, BlockNode& block) {
    std::vector<const ForNode*> loops;
    std::vector<IterVar> iters;
    for (size_t i = 0; i < block.iters.size(); ++i) {
      const bool last_hope = i + 1 == block.iters.size() && iters.empty();  // a block keeps at least one iterator
      if (is_one(block.iters[i].extent) && !last_hope) {
        rewriter.vars[block.iters[i].var.get()] = int_imm(0, block.iters[i].var->dtype);
        continue;
      }
      loops.push_back(nest.loops[i]);
      iters.push_back(block.iters[i]);
    }
    nest.loops = std::move(loops);
    block.iters = std::move(iters);
  });
}

Func merge_dims(const Func& func, const SizeVars& vars) {
  Func result = func;
  while (is_simple(result)) {
    const auto [dims, iters] = PairFinder(result, vars).component();
    if (iters.empty()) break;
    PairMerger rewriter;
    bool once = true;  // of each buffer one pair at a time
    for (const auto& [buffer, d] : dims) once &= rewriter.dims.emplace(buffer, d).second;
    if (!once) break;
    for (const auto& [node, at] : dims) {
      const size_t d = at;
      rewriter.buffers[node] = edited(Buffer(node), [&, d](BufferNode& b) {
        b.shape[d] = canonical_size(b.shape[d] * b.shape[d + 1], vars);
        b.shape.erase(b.shape.begin() + static_cast<std::ptrdiff_t>(d + 1));
        if (!b.strides.empty()) b.strides.erase(b.strides.begin() + static_cast<std::ptrdiff_t>(d));
      });
    }
    std::vector<Stmt> keep;  // loops made anew live here until they are part of the program
    result = rewritten(result, rewriter, [&](Nest& nest, BlockNode& block) {
      for (const IterPair& pair : iters) {
        if (pair.block != nest.block) continue;
        const auto at = [&](const VarNode* var) {
          for (size_t i = 0; i < block.iters.size(); ++i)
            if (block.iters[i].var.get() == var) return i;
          return block.iters.size();
        };
        const size_t outer = at(pair.outer), inner = at(pair.inner);
        IterVar merged = block.iters[outer];
        merged.var = make_var(merged.var->name + "_" + block.iters[inner].var->name, merged.var->dtype);
        merged.extent = canonical_size(merged.extent * block.iters[inner].extent, vars);
        const Var loop = make_var(nest.loops[outer]->var->name + "_" + nest.loops[inner]->var->name, merged.var->dtype);
        merged.binding = loop;
        rewriter.vars[pair.outer] = merged.var;
        keep.push_back(with(*nest.loops[outer], [&](ForNode& f) {
          f.var = loop;
          f.extent = merged.extent;
        }));
        nest.loops[outer] = keep.back().as<ForNode>();
        nest.loops.erase(nest.loops.begin() + static_cast<std::ptrdiff_t>(inner));
        block.iters[outer] = merged;
        block.iters.erase(block.iters.begin() + static_cast<std::ptrdiff_t>(inner));
      }
    });
  }
  return result;
}

}  // namespace fettle
