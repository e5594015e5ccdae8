#include "schedule/primitives/annotate_buffer_access.h"

#include "ir/text.h"
#include "schedule/dataflow/dataflow.h"
#include "schedule/edit/inlining.h"
#include "schedule/edit/steps.h"

namespace fettle {
namespace {

Result<Applied> apply_annotate_buffer_access(const Schedule& s, const AnnotateBufferAccessArgs& args) {
  FETTLE_TRY(const Stmt stmt, s.block(args.block));
  const Func& func = s.func();
  const auto& block = *stmt.as<BlockNode>();
  const bool write = args.buffer_index_type == "write";
  if (!write && args.buffer_index_type != "read")
    return refused(ErrorCode::E241, func, &block, "buffer_index_type \"{}\"", args.buffer_index_type);
  FETTLE_TRY(const Buffer buffer,
             write ? write_buffer(block, args.buffer_index) : read_buffer(block, args.buffer_index));
  if (args.region.inputs.size() != block.iters.size() || args.region.outputs.size() != 2 * buffer->shape.size())
    return refused(ErrorCode::E241, func, &block,
                   "the region must map {} iterators to a first index and an end for each of {} dimensions",
                   block.iters.size(), buffer->shape.size());
  Analyzer analyzer = analyzer_in(func, block);
  std::vector<Expr> iters;
  for (const IterVar& iter : block.iters) iters.push_back(iter.var);
  const std::vector<Expr> ends = args.region.apply(iters);
  const auto index = static_cast<size_t>(args.buffer_index);  // other regions of the same buffer stay as they are
  const Region& known = (write ? block.writes : block.reads)[index];
  Region stated{buffer, {}};
  for (size_t d = 0; d < buffer->shape.size(); ++d) {
    const Expr first = analyzer.simplify(ends[2 * d]), end = analyzer.simplify(ends[2 * d + 1]);
    const Range& touched = known.ranges[d];
    if (!analyzer.can_prove(le(first, touched.min)) || !analyzer.can_prove(le(touched.min + touched.extent, end)))
      return refused(ErrorCode::E216, func, &block,
                     "dimension {}: {} to {} may not hold all that block {} touches, {} +: {}", d, to_text(first),
                     to_text(end), block.name, to_text(touched.min), to_text(touched.extent));
    if (write &&
        (!analyzer.can_prove_equal(first, touched.min) || !analyzer.can_prove_equal(end, touched.min + touched.extent)))
      return refused(ErrorCode::E216, func, &block, "dimension {}: block {} does not write all of {} to {}", d,
                     block.name, to_text(first), to_text(end));
    stated.ranges.push_back({first, analyzer.simplify(end - first)});
  }
  const Stmt annotated = with(block, [&](BlockNode& b) { (write ? b.writes : b.reads)[index] = stated; });
  return Applied{replace_in(func, &block, annotated), {}};
}

}  // namespace

extern constinit const PrimitiveDef annotate_buffer_access_def =
    define_primitive<AnnotateBufferAccessArgs, apply_annotate_buffer_access>("annotate_buffer_access", 1);

Result<> annotate_buffer_access(Schedule& s, const AnnotateBufferAccessArgs& args) {
  return run<void>(s, annotate_buffer_access_def, args);
}

}  // namespace fettle
