#include "graph/plan/canonical.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <optional>
#include <unordered_set>

#include "base/check.h"
#include "graph/op.h"
#include "graph/plan/access_rewriter.h"
#include "graph/plan/nest.h"
#include "ir/compare.h"
#include "ir/fold.h"
#include "ir/query.h"

namespace fettle {
namespace {

// --- scalars ---------------------------------------------------------------------------------------------------

class ScalarFolder : public Folder {
 public:
  explicit ScalarFolder(const std::unordered_map<const BufferNode*, double>& values) : values_(values) {}
  using Folder::rewrite;
  Expr rewrite(const Expr& e) override {
    const auto* widened = e.as<CastNode>();  // of a half, to a type that has all its values
    const bool exact = widened && computed_dtype(widened->a.dtype()) == e.dtype();
    if (const auto* read = (exact ? widened->a : e).as<LoadNode>())
      if (const auto found = values_.find(read->buffer.get()); found != values_.end())
        return constant(found->second, e.dtype());
    return Folder::rewrite(e);
  }
  Stmt rewrite(const Stmt& s) override {
    const Stmt result = Folder::rewrite(s);
    const auto* block = result.as<BlockNode>();
    if (!block || block->name == "root") return result;
    return with(*block, [&](BlockNode& b) {
      std::erase_if(b.reads, [&](const Region& region) { return values_.contains(region.buffer.get()); });
    });
  }

 private:
  const std::unordered_map<const BufferNode*, double>& values_;
};

// --- inlining --------------------------------------------------------------------------------------------------

/// No program grows beyond this many expression nodes in one block by inlining.
constexpr int64_t kMaxNodes = 400;

/// The same of what is read more than once, where all blocks work on the same elements: they share a loop, and it is
/// computed once.
constexpr int64_t kMaxNodesTogether = 48;

/// buffer[vars] = value, everywhere.
struct Definition {
  Buffer buffer;
  std::vector<Var> vars;
  Expr value;
};

int64_t count_nodes(const Expr& e) {
  int64_t count = 0;
  walk(e, [&](const Expr&) { return ++count, true; });
  return count;
}

bool is_costly(const Expr& e) {
  static constexpr std::array<std::string_view, 9> kCostly = {"exp", "log", "sin",     "cos", "tanh",
                                                              "erf", "pow", "sigmoid", "sqrt"};
  bool found = false;
  walk(e, [&](const Expr& x) {
    if (const auto* n = x.as<CallNode>()) found |= std::find(kCostly.begin(), kCostly.end(), n->name) != kCostly.end();
    return !found;
  });
  return found;
}

bool has_padding(const Expr& e) {
  bool found = false;
  walk(e, [&](const Expr& x) {
    if (const auto* n = x.as<CallNode>()) found |= n->name == "likely";
    return !found;
  });
  return found;
}

std::optional<Definition> definition_of(const Nest& nest) {
  const BlockNode* block = nest.block;
  if (!block || block->init || block->predicate || block->iters.empty()) return {};
  const auto* write = block->body.as<StoreNode>();
  if (!write || write->mask || has_padding(write->value)) return {};
  Definition made{write->buffer, {}, write->value};
  if (write->indices.size() != block->iters.size()) return {};
  std::unordered_set<const VarNode*> seen;
  for (size_t d = 0; d < write->indices.size(); ++d) {
    if (write->indices[d].kind() != ExprKind::kVar) return {};
    const auto* var = write->indices[d].as<VarNode>();
    if (!seen.insert(var).second) return {};
    const auto iter =
        std::find_if(block->iters.begin(), block->iters.end(), [&](const IterVar& i) { return i.var.get() == var; });
    if (iter == block->iters.end() || iter->kind != IterKind::kSpatial ||
        !structural_equal(iter->extent, write->buffer->shape[d]))
      return {};
    made.vars.push_back(iter->var);
  }
  return made;
}

/// How often blocks read a buffer, and how many points the widest of these blocks has.
struct Uses {
  int64_t loads = 0;
  int64_t points = 0;
  bool by_reduction = false;
  bool odd = false;  // read by an opaque block, in its loops, or by address
  int writers = 0;
};

int64_t points_of(const BlockNode& block) {
  int64_t points = 1;
  for (const IterVar& iter : block.iters)
    if (const int64_t* extent = as_int(iter.extent)) points *= *extent;
  return points;
}

Uses uses_of(const BufferNode* buffer, const std::vector<Stmt>& nests) {
  Uses uses;
  for (const Stmt& stmt : nests) {
    const Nest nest = open_nest(stmt);
    int64_t here = 0;
    bool writes = false;
    walk(
        stmt,
        [&](const Stmt& s) {
          if (const auto* n = s.as<StoreNode>()) writes |= n->buffer.get() == buffer;
          return true;
        },
        [&](const Expr& e) {
          if (const auto* n = e.as<LoadNode>()) here += n->buffer.get() == buffer;
          if (const auto* n = e.as<AddressNode>()) uses.odd |= n->buffer.get() == buffer;
          return true;
        });
    uses.writers += writes;
    if (here == 0) continue;
    if (nest.block)
      walk(nest.block->body, [&](const Stmt& s) {
        uses.odd |= s.kind() == StmtKind::kFor || s.kind() == StmtKind::kWhile;
        return !uses.odd;
      });
    uses.loads += here;
    if (!nest.block || nest.block->iters.empty())
      uses.odd = true;
    else {
      uses.points = std::max(uses.points, points_of(*nest.block));
      uses.by_reduction |= static_cast<bool>(nest.block->init);
    }
  }
  return uses;
}

/// Whether all blocks are elementwise, over equal loops.
bool works_on_same_elements(const std::vector<Stmt>& nests) {
  const BlockNode* first = nullptr;
  for (const Stmt& stmt : nests) {
    const BlockNode* block = open_nest(stmt).block;
    if (!block || block->init || block->iters.empty() || !block->body.as<StoreNode>()) return false;
    if (!first) first = block;
    if (!std::ranges::equal(block->iters, first->iters, [](const IterVar& a, const IterVar& b) {
          return a.kind == IterKind::kSpatial && b.kind == IterKind::kSpatial && structural_equal(a.extent, b.extent);
        }))
      return false;
  }
  return true;
}

bool worth_inlining(const Definition& made, const Uses& uses, bool together) {
  if (uses.odd || uses.loads == 0 || uses.writers > 1) return false;
  int64_t elems = 1;
  for (const Expr& extent : made.buffer->shape) {
    const int64_t* value = as_int(extent);
    if (!value) return false;
    elems *= *value;
  }
  const int64_t nodes = count_nodes(made.value);
  if (nodes * uses.loads > (together && uses.loads > 1 ? kMaxNodesTogether : kMaxNodes)) return false;
  if (nodes <= 1 && !uses.by_reduction) return true;  // a copy under another name
  if (uses.points > 2 * elems) return false;          // each element would be computed many times
  if (!is_costly(made.value)) return true;
  return uses.loads == 1 && !uses.by_reduction;
}

/// By other nests than the one that defines it: a state has a beginning, and steps.
bool is_written_by_several(const BufferNode* buffer, const std::vector<Stmt>& nests) {
  return std::ranges::count_if(nests, [&](const Stmt& stmt) {
           const Nest nest = open_nest(stmt);
           return nest.block &&
                  std::ranges::any_of(nest.block->writes, [&](const Region& r) { return r.buffer.get() == buffer; });
         }) > 1;
}

class Inliner : public Folder {
 public:
  explicit Inliner(const Definition& made) : made_(made) {}
  using Folder::rewrite;
  Expr rewrite(const Expr& e) override {
    const Expr result = Folder::rewrite(e);
    const auto* read = result.as<LoadNode>();
    if (!read || read->buffer != made_.buffer) return result;
    VarMap values;
    for (size_t d = 0; d < made_.vars.size(); ++d) values[made_.vars[d].get()] = read->indices[d];
    return substitute(made_.value, values);
  }

 private:
  const Definition& made_;
};

Stmt inline_into(const Stmt& stmt, const Definition& made) {
  bool reads = false;
  walk(
      stmt, [](const Stmt&) { return true; },
      [&](const Expr& e) {
        if (const auto* n = e.as<LoadNode>()) reads |= n->buffer == made.buffer;
        return !reads;
      });
  if (!reads) return stmt;
  const Nest nest = open_nest(stmt);
  Inliner inliner(made);
  return close_nest(nest, with(*nest.block, [&](BlockNode& b) {
                      if (b.init) b.init = inliner.rewrite(b.init);
                      b.body = inliner.rewrite(b.body);
                      find_regions(b);
                    }));
}

// --- layouts ---------------------------------------------------------------------------------------------------

template <class T>
std::vector<T> permuted(const std::vector<T>& list, const std::vector<int>& order) {
  std::vector<T> result;
  result.reserve(list.size());
  for (int d : order) result.push_back(list[static_cast<size_t>(d)]);
  return result;
}

class Reorderer : public AccessRewriter<Mutator> {
 public:
  explicit Reorderer(const std::unordered_map<const BufferNode*, BufferOrder>& orders) : orders_(orders) {
    for (const auto& [buffer, order] : orders)
      buffers[buffer] = edited(Buffer(buffer), [&](BufferNode& b) {
        b.shape = permuted(b.shape, order.order);
        b.strides = order.strides;
      });
  }
  using AccessRewriter<Mutator>::rewrite;

  Stmt rewrite(const Stmt& s) override {
    const auto* n = s.as<BlockNode>();
    if (!n) return AccessRewriter<Mutator>::rewrite(s);
    const auto reorder = [&](std::vector<Region>& regions) {
      for (Region& region : regions)
        if (const auto found = orders_.find(region.buffer.get()); found != orders_.end())
          region.ranges = permuted(region.ranges, found->second.order);
    };
    return AccessRewriter<Mutator>::rewrite(with(*n, [&](BlockNode& b) {
      reorder(b.reads);
      reorder(b.writes);
    }));
  }
  std::vector<Expr> new_indices(const Buffer& buffer, std::vector<Expr> old) override {
    return permuted(old, orders_.at(buffer.get()).order);
  }

 private:
  const std::unordered_map<const BufferNode*, BufferOrder>& orders_;
};

}  // namespace

bool is_round_number(double value) {
  if (!std::isfinite(value) || value == 0) return true;
  const double scaled = value * 1024;
  if (std::abs(value) <= 65536 && scaled == std::nearbyint(scaled)) return true;
  const auto as_f32 = static_cast<float>(value);
  const double inverse = std::nearbyint(1 / value);
  if (std::abs(inverse) >= 1 && std::abs(inverse) <= 4096 && static_cast<float>(1 / inverse) == as_f32) return true;
  return std::strtof(fmt::format("{:.3g}", value).c_str(), nullptr) == as_f32;
}

Func fold_scalars(const Func& func, const std::unordered_map<const BufferNode*, double>& values) {
  if (values.empty()) return func;
  const Func folded = ScalarFolder(values).Mutator::rewrite(func);
  return with(folded, [&](FuncNode& f) {
    std::erase_if(f.params, [&](const Param& param) { return values.contains(param.buffer.get()); });
  });
}

Func inline_blocks(const Func& func) {
  std::vector<Stmt> nests = nests_of(func);
  std::vector<Buffer> allocations = func.root().allocations;
  const bool together = works_on_same_elements(nests);
  for (size_t i = 0; i < nests.size();) {
    const std::optional<Definition> made = definition_of(open_nest(nests[i]));
    const auto internal = made ? std::find(allocations.begin(), allocations.end(), made->buffer) : allocations.end();
    if (internal == allocations.end() || is_written_by_several(made->buffer.get(), nests) ||
        !worth_inlining(*made, uses_of(made->buffer.get(), nests), together)) {
      ++i;
      continue;
    }
    allocations.erase(internal);
    nests.erase(nests.begin() + static_cast<std::ptrdiff_t>(i));
    for (Stmt& nest : nests) nest = inline_into(nest, *made);
  }
  return with_nests(func, std::move(nests), std::move(allocations));
}

Func apply_orders(const Func& func, const std::unordered_map<const BufferNode*, BufferOrder>& orders) {
  return Reorderer(orders).Mutator::rewrite(func);
}

Func order_loops(const Func& func) {
  std::vector<Stmt> nests = nests_of(func);
  for (Stmt& stmt : nests) {
    const Nest nest = open_nest(stmt);
    if (!is_plain(nest) || nest.block->iters.empty()) continue;
    const auto& iters = nest.block->iters;
    const StoreNode* write = nullptr;
    walk(nest.block->body, [&](const Stmt& s) {
      if (const auto* n = s.as<StoreNode>(); n && !write) write = n;
      return !write;
    });
    if (!write) continue;
    // Spatial iterators that no index is, those that are one in its order, the rest.
    std::vector<size_t> order;
    std::vector<bool> placed(iters.size(), false);
    std::vector<size_t> by_index;
    for (const Expr& index : write->indices)
      for (size_t i = 0; i < iters.size(); ++i)
        if (iters[i].var.get() == index.get() && iters[i].kind == IterKind::kSpatial && !placed[i]) {
          by_index.push_back(i);
          placed[i] = true;
        }
    for (size_t i = 0; i < iters.size(); ++i)
      if (!placed[i] && iters[i].kind == IterKind::kSpatial) order.push_back(i), placed[i] = true;
    order.insert(order.end(), by_index.begin(), by_index.end());
    if (std::any_of(iters.begin(), iters.end(),
                    [](const IterVar& i) { return i.kind != IterKind::kSpatial && i.kind != IterKind::kReduce; }))
      continue;
    for (size_t i = 0; i < iters.size(); ++i)
      if (!placed[i]) order.push_back(i);

    Nest ordered;
    for (size_t i : order) ordered.loops.push_back(nest.loops[i]);
    stmt = close_nest(ordered, with(*nest.block, [&](BlockNode& b) {
                        b.iters.clear();
                        for (size_t i : order) b.iters.push_back(iters[i]);
                      }));
  }
  return with_nests(func, std::move(nests), func.root().allocations);
}

}  // namespace fettle
