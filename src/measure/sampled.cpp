#include "measure/sampled.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <vector>

#include "ir/fields.h"
#include "ir/rewrite.h"

namespace fettle {
namespace {

/// Iterations kept of a loop: not fewer, and as many of these at either end.
constexpr int64_t kFewest = 12, kAtEnds = 4;

double instances(const Stmt& s) {
  double sum = 0;
  with_node(s, Overloaded{
                   [&](const ForNode& loop) {
                     const int64_t* extent = as_int(loop.extent);
                     sum = (extent ? static_cast<double>(*extent) : 1) * instances(loop.body);
                   },
                   [&](const BlockNode& block) { sum = instances(block.body); },
                   [&](const auto& n) {
                     each_below(n, Overloaded{[](const Expr&) {},
                                              [&](const Stmt& below) {
                                                if (below) sum += instances(below);
                                              }});
                     sum = std::max(sum, 1.0);
                   },
               });
  return sum;
}

/// Loops around one block, outermost first, as te makes them: each block iterator is bound to one loop.
struct Nest {
  std::vector<const ForNode*> loops;
  const BlockNode* block = nullptr;
};

Nest nest_of(const Stmt& top) {
  Nest nest;
  const Stmt* s = &top;
  for (const ForNode* loop = s->as<ForNode>(); loop; loop = s->as<ForNode>()) {
    nest.loops.push_back(loop);
    s = &loop->body;
  }
  nest.block = s->as<BlockNode>();
  return nest;
}

bool is_spatial(const BlockNode& block, const VarNode* loop) {
  bool bound = false;
  for (const IterVar& iter : block.iters) {
    if (!uses_var(iter.binding, loop)) continue;
    const auto* var = iter.binding.as<VarNode>();
    if (var != loop || iter.kind != IterKind::kSpatial) return false;
    bound = true;
  }
  return bound;
}

// Iteration i of n stands for this one of `extent`.
Expr at(const Expr& i, int64_t n, int64_t extent) {
  const int64_t inner = n - 2 * kAtEnds, span = extent - 2 * kAtEnds;
  return select(lt(i, kAtEnds), i,
                select(ge(i, n - kAtEnds), i + (extent - n), floordiv((i - kAtEnds) * span, inner) + kAtEnds));
}

Stmt filled(const Buffer& buffer, double value) {
  auto block = make_ref<BlockNode>();
  block->name = buffer->name + "_unknown";
  std::vector<Var> loops;
  std::vector<Expr> indices;
  Region region{buffer, {}};
  for (size_t d = 0; d < buffer->shape.size(); ++d) {
    loops.push_back(make_var("u" + std::to_string(d)));
    IterVar iter;
    iter.var = make_var("vu" + std::to_string(d));
    iter.extent = buffer->shape[d];
    iter.binding = loops.back();
    indices.push_back(iter.var);
    region.ranges.push_back({iter.var, 1});
    block->iters.push_back(std::move(iter));
  }
  block->writes.push_back(region);
  block->body = store(buffer, indices, constant(buffer->dtype.is_float() ? value : std::floor(value), buffer->dtype));
  Stmt s{block};
  for (size_t d = loops.size(); d-- > 0;) s = make_for(loops[d], 0, buffer->shape[d], s);
  return s;
}

// The nest cut down to `max_instances`, behind what fills its outputs.
Result<Stmt> sampled_nest(const Stmt& top, double max_instances, double unknown) {
  const Nest nest = nest_of(top);
  const auto cannot = [] { return fail(ErrorCode::E301, "no loop can be cut down to a sample"); };
  if (!nest.block) return cannot();
  std::vector<int64_t> counts(nest.loops.size()), extents(nest.loops.size());
  for (size_t l = 0; l < nest.loops.size(); ++l) {
    const int64_t* extent = as_int(nest.loops[l]->extent);
    const int64_t* min = as_int(nest.loops[l]->min);
    if (!extent || !min || *min != 0) return cannot();
    counts[l] = extents[l] = *extent;
  }
  double work = instances(top);
  while (work > max_instances) {
    size_t longest = nest.loops.size();
    for (size_t l = 0; l < nest.loops.size(); ++l)
      if (counts[l] > kFewest && is_spatial(*nest.block, nest.loops[l]->var.get()) &&
          (longest == nest.loops.size() || counts[l] > counts[longest]))
        longest = l;
    if (longest == nest.loops.size()) return cannot();
    const int64_t fewer = std::max(kFewest, counts[longest] * 3 / 4);
    work *= static_cast<double>(fewer) / static_cast<double>(counts[longest]);
    counts[longest] = fewer;
  }
  // Distances between iterations that share no factor with the span hit every place in a tile.
  VarMap places;
  for (size_t l = 0; l < counts.size(); ++l) {
    if (counts[l] == extents[l]) continue;
    while (std::gcd(extents[l] - 2 * kAtEnds, counts[l] - 2 * kAtEnds) != 1) --counts[l];
    places[nest.loops[l]->var.get()] = at(nest.loops[l]->var, counts[l], extents[l]);
  }
  const Stmt body{Ref<const BlockNode>(nest.block)};
  Stmt s = substitute(body, places);
  for (size_t l = counts.size(); l-- > 0;) s = make_for(nest.loops[l]->var, 0, counts[l], s);
  std::vector<Stmt> result;
  for (const Region& write : nest.block->writes) result.push_back(filled(write.buffer, unknown));
  result.push_back(s);
  return seq(std::move(result));
}

}  // namespace

double count_instances(const Func& workload) { return instances(workload->body); }

Result<Func> sampled_program(const Func& workload, double max_instances, double unknown) {
  const auto& root = workload.root();
  const std::vector<Stmt> nests = parts_of(root.body);
  const double each = max_instances / static_cast<double>(nests.size());
  std::map<const BufferNode*, int> writers;
  for (const Stmt& nest : nests)
    if (const BlockNode* block = nest_of(nest).block)
      for (const Region& write : block->writes) ++writers[write.buffer.get()];
  std::vector<Stmt> stmts;
  for (const Stmt& nest : nests) {
    if (instances(nest) <= each) {
      stmts.push_back(nest);
      continue;
    }
    if (const BlockNode* block = nest_of(nest).block)
      for (const Region& write : block->writes)
        if (writers[write.buffer.get()] > 1)
          return fail(ErrorCode::E301, write.buffer->name + " is made by several blocks");
    FETTLE_TRY(Stmt sampled, sampled_nest(nest, each, unknown));
    stmts.push_back(std::move(sampled));
  }
  return with_body(workload, with(root, [&](BlockNode& block) { block.body = seq(std::move(stmts)); }));
}

}  // namespace fettle
