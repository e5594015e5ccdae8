#include "schedule/edit/staging.h"

#include <algorithm>

#include "analysis/sites.h"
#include "schedule/dataflow/dataflow.h"

namespace fettle {

Buffer cache_buffer(const Func& func, const Buffer& buffer, const std::string& scope) {
  return edited(buffer, [&](BufferNode& b) {
    b.name = unique_buffer_name(func, buffer->name + "_" + scope);
    b.scope = scope;
    b.strides.clear();
    b.layout = nullptr;
  });
}

Stmt with_buffer(const BlockNode& block, const Buffer& from, const Buffer& to) {
  return substitute_buffers(Stmt(Ref<const BlockNode>(&block)), {{from.get(), to}});
}

void add_reads(std::vector<Range>& hull, const BlockNode& reader, const Buffer& buffer, Analyzer& analyzer,
               FunctionRef<Range(const Range& read, const Expr& whole)> reached) {
  const VarMap bindings = binding_map(reader);
  for (const Region& region : reader.reads)
    for (size_t d = 0; region.buffer == buffer && d < region.ranges.size(); ++d) {
      const Range range = reached(substitute(region.ranges[d], bindings), buffer->shape[d]);
      if (d >= hull.size())
        hull.push_back(range);
      else
        hull[d] = hull_of(hull[d], range, buffer->shape[d], analyzer);
    }
}

Range clipped(const Range& range, const Expr& whole) {
  const int64_t* min = as_int(range.min);
  const int64_t* extent = as_int(range.extent);
  const int64_t* limit = as_int(whole);
  if (!min || !extent || !limit) return range;
  const int64_t begin = std::clamp<int64_t>(*min, 0, *limit), end = std::clamp<int64_t>(*min + *extent, begin, *limit);
  return {int_imm(begin), int_imm(end - begin)};
}

Stmt copy_nest(const std::string& name, const Buffer& from, const Buffer& to, std::vector<Range> ranges,
               Analyzer& analyzer) {
  const auto scope = analyzer.enter();
  auto block = make_ref<BlockNode>();
  block->name = name;
  std::vector<std::pair<Var, Range>> loops;
  std::vector<Expr> indices;
  std::vector<Range> points;
  for (size_t d = 0; d < ranges.size(); ++d) {
    const Range& range = ranges[d];
    Var loop = make_var("ax" + std::to_string(d));
    Var iter = make_var("v" + std::to_string(d));
    analyzer.bind(loop, int_imm(0), range.extent);
    loops.push_back({loop, {int_imm(0), range.extent}});
    const Expr binding = analyzer.simplify(range.min + loop);
    block->iters.push_back({iter, from->shape[d], IterKind::kSpatial, binding});
    block->predicate = logical_and(block->predicate, bounds_predicate(analyzer, binding, from->shape[d]));
    indices.push_back(iter);
    points.push_back({iter, int_imm(1)});
  }
  if (is_true(block->predicate)) block->predicate = nullptr;
  block->reads = {{from, points}};
  block->writes = {{to, points}};
  block->body = store(to, indices, load(from, indices));
  return wrap_loops(loops, block);
}

}  // namespace fettle
