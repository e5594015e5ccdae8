#include "schedule/primitives/transform_layout.h"

#include <algorithm>

#include "analysis/block_checks.h"
#include "arith/affine_map.h"
#include "ir/annotations.h"
#include "schedule/arguments.h"
#include "schedule/dataflow/dataflow.h"
#include "schedule/dataflow/footprint.h"
#include "schedule/dataflow/leaf.h"
#include "schedule/edit/steps.h"

namespace fettle {
namespace {

// Rewrites all accesses and regions of `from`.
class LayoutRewriter : public Mutator {
 public:
  LayoutRewriter(const Func& func, Buffer from, Buffer to, const IndexMap& map)
      : func_(func), from_(std::move(from)), to_(std::move(to)), map_(map) {
    analyzer_.bind_params(func);
  }
  using Mutator::rewrite;

  Buffer rewrite(const Buffer& buffer) override { return buffer == from_ ? to_ : buffer; }

  Expr rewrite(const Expr& e) override {
    if (!e || e.kind() == ExprKind::kIntImm || e.kind() == ExprKind::kVar) return e;
    const auto* source = e.as<LoadNode>();
    if (source && source->buffer == from_) return load(to_, mapped(source->indices), rewrite(source->mask));
    const auto* pointer = e.as<AddressNode>();
    if (pointer && pointer->buffer == from_) return address_of(to_, mapped(pointer->indices));
    return Mutator::rewrite(e);
  }

  Stmt rewrite(const Stmt& s) override {
    const auto* target = s.as<StoreNode>();
    if (target && target->buffer == from_)
      return store(to_, mapped(target->indices), rewrite(target->value), rewrite(target->mask));
    const auto* block = s.as<BlockNode>();
    if (!block) return Mutator::rewrite(s);
    if (is_leaf(*block) && !names_buffer(*block, from_.get()) && !names_in_bindings(*block)) return s;
    const auto scope = analyzer_.enter();
    for (const IterVar& iter : block->iters) analyzer_.bind(iter.var, int_imm(0), iter.extent);
    if (!names_buffer(*block, from_.get())) return Mutator::rewrite(s);
    // Regions need the old ones: their dimensions become others.
    std::vector<Region> reads = mapped_regions(block->reads), writes = mapped_regions(block->writes);
    const Stmt plain = with(*block, [](BlockNode& b) { b.reads = b.writes = {}; });
    const Stmt result = Mutator::rewrite(plain);
    const auto mentions = [&](const Region& region) { return region.buffer == from_; };
    if (result == plain && std::ranges::none_of(block->reads, mentions) &&
        std::ranges::none_of(block->writes, mentions))
      return s;
    return with(*result.as<BlockNode>(), [&](BlockNode& b) {
      b.reads = std::move(reads);
      b.writes = std::move(writes);
      drop_unread(b);  // an index that was worked out ahead may have been simplified away
    });
  }

 private:
  // A binding may depend on memory that a block around reads.
  bool names_in_bindings(const BlockNode& block) const {
    return std::ranges::any_of(block.iters, [](const IterVar& iter) { return reads_memory(iter.binding); }) ||
           (block.predicate && reads_memory(block.predicate));
  }

  std::vector<Expr> mapped(const std::vector<Expr>& indices) {
    std::vector<Expr> fresh = indices;
    for (Expr& index : fresh) index = rewrite(index);
    fresh = map_.apply(fresh);
    for (Expr& index : fresh) index = analyzer_.simplify(index);
    return fresh;
  }

  std::vector<Region> mapped_regions(std::vector<Region> regions) {
    for (Region& region : regions) {
      if (!(region.buffer == from_)) continue;
      // min + a variable for the extent, whose range through the map is the new range.
      std::vector<Expr> indices;
      std::vector<Stmt> keep;
      std::vector<const ForNode*> within;
      for (const Range& range : region.ranges) {
        if (is_one(range.extent)) {
          indices.push_back(range.min);
          continue;
        }
        Var offset = make_var("offset");
        keep.push_back(make_for(offset, int_imm(0), range.extent, nullptr));
        within.push_back(keep.back().as<ForNode>());
        indices.push_back(range.min + offset);
      }
      Footprint footprint(func_, {}, within);
      std::vector<Range> ranges;
      const std::vector<Expr> outputs = map_.apply(indices);
      for (size_t d = 0; d < outputs.size(); ++d) {
        const Expr index = analyzer_.simplify(outputs[d]);
        if (!footprint.is_inner(index))
          ranges.push_back({index, int_imm(1)});
        else if (auto found = footprint.of(index))
          ranges.push_back(*found);
        else
          ranges.push_back({int_imm(0), to_->shape[d]});
      }
      region = {to_, std::move(ranges)};
    }
    return regions;
  }

  const Func& func_;
  Buffer from_, to_;
  const IndexMap& map_;
  Analyzer analyzer_;
};

// The loops of a block that fills `buffer` element by element in a nest of its own, plainly: serial loops from 0, each
// bound to one iterator, and a store at the iterators. Null otherwise; else the outermost statement of the nest.
const StmtNode* plain_fill(const BlockNode& scope, const BlockNode& block, const BufferNode* buffer) {
  const StoreNode* target = single_store(block);
  if (!target || target->buffer.get() != buffer || target->mask || !is_complete(block, scope)) return nullptr;
  if (block.predicate || block.writes.size() != 1) return nullptr;
  const std::vector<Stmt> path = path_to(scope.body, &block);
  size_t first = path.size() - 1;
  while (first > 0 && path[first - 1].kind() == StmtKind::kFor) --first;
  if (path.size() - 1 - first != block.iters.size() || target->indices.size() != block.iters.size()) return nullptr;
  for (size_t i = 0; i < block.iters.size(); ++i) {
    const auto* loop = path[first + i].as<ForNode>();
    const IterVar& iter = block.iters[i];
    const bool plain = loop->loop_kind == ForKind::kSerial && loop->annotations.entries.empty() && is_zero(loop->min) &&
                       structural_equal(loop->extent, iter.extent) && iter.binding.get() == loop->var.get() &&
                       structural_equal(iter.extent, buffer->shape[i]) && target->indices[i].get() == iter.var.get();
    if (!plain) return nullptr;
  }
  return path[first].get();
}

// The same fill, over the elements of the new layout in order.
Stmt fill_in_order(const BlockNode& block, const Buffer& to, const IndexMapInverse& inverse, Analyzer& analyzer) {
  const auto scope = analyzer.enter();
  const auto* target = block.body.as<StoreNode>();
  auto fresh = make_ref<BlockNode>(block);
  fresh->iters.clear();
  std::vector<std::pair<Var, Range>> loops;
  std::vector<Expr> physical;
  for (size_t d = 0; d < inverse.physical_shape.size(); ++d) {
    const Expr& extent = inverse.physical_shape[d];
    Var loop = make_var("ax" + std::to_string(d)), iter = make_var("v" + std::to_string(d));
    loops.push_back({loop, {int_imm(0), extent}});
    fresh->iters.push_back({iter, extent, IterKind::kSpatial, loop});
    analyzer.bind(iter, int_imm(0), extent);
    physical.push_back(iter);
  }
  const std::vector<Expr> logical = inverse.inverse.apply(physical);
  VarMap values;
  for (size_t i = 0; i < logical.size(); ++i) values[block.iters[i].var.get()] = analyzer.simplify(logical[i]);
  Expr value = substitute(target->value, values);
  Expr valid;
  if (inverse.valid) {
    VarMap inputs;
    for (size_t d = 0; d < physical.size(); ++d) inputs[inverse.inverse.inputs[d].get()] = physical[d];
    valid = analyzer.simplify(substitute(inverse.valid, inputs));
  }
  {
    const auto known = analyzer.assume(valid);
    value = analyzer.simplify(value);
  }
  if (!is_true(valid)) value = select(valid, value, constant(0, to->dtype));
  fresh->body = store(to, physical, value);
  infer_regions(*fresh, analyzer);
  return wrap_loops(loops, fresh);
}

// Nests that clear the pad lanes, one for each input whose extent was rounded up.
Stmt clear_pad_lanes(const Func& func, const Buffer& to, const IndexMap& map, const std::vector<Expr>& shape,
                     const IndexMapInverse& inverse, Analyzer& analyzer) {
  const auto scope = analyzer.enter();
  for (size_t d = 0; d < inverse.physical_shape.size(); ++d)
    analyzer.bind(inverse.inverse.inputs[d], int_imm(0), inverse.physical_shape[d]);
  std::vector<Expr> padded;
  for (size_t i = 0; i < shape.size(); ++i) {
    const Interval bounds = analyzer.int_bounds(inverse.inverse.outputs[i]);
    const int64_t* extent = as_int(shape[i]);
    padded.push_back(extent && bounds.is_bounded() && bounds.max >= *extent ? int_imm(bounds.max + 1) : shape[i]);
  }
  std::vector<Stmt> nests;
  for (size_t p = 0; p < shape.size(); ++p) {
    if (structural_equal(padded[p], shape[p])) continue;
    auto block = make_ref<BlockNode>();
    block->name =
        unique_block_name(func, fmt::format("{}_pad{}", to->name, nests.empty() ? "" : "_" + std::to_string(p)));
    block->annotations.set(kClearsPadLanesKey, int64_t{1});
    std::vector<std::pair<Var, Range>> loops;
    std::vector<Expr> logical;
    for (size_t i = 0; i < shape.size(); ++i) {
      const Expr extent = i == p ? analyzer.simplify(padded[i] - shape[i]) : padded[i];
      Var loop = make_var("ax" + std::to_string(i)), iter = make_var("v" + std::to_string(i));
      analyzer.bind(iter, int_imm(0), extent);
      loops.push_back({loop, {int_imm(0), extent}});
      block->iters.push_back({iter, extent, IterKind::kSpatial, loop});
      logical.push_back(i == p ? shape[i] + iter : Expr(iter));
    }
    std::vector<Expr> physical = map.apply(logical);
    for (Expr& index : physical) index = analyzer.simplify(index);
    block->body = store(to, physical, constant(0, to->dtype));
    infer_regions(*block, analyzer);
    nests.push_back(wrap_loops(loops, block));
  }
  return seq(std::move(nests));
}

Ref<const Layout> composed_layout(const Buffer& buffer, const IndexMap& map, Analyzer& analyzer) {
  auto layout = make_ref<Layout>();
  if (!buffer->layout) {
    layout->logical_shape = buffer->shape;
    layout->to_physical = map;
    return layout;
  }
  layout->logical_shape = buffer->layout->logical_shape;
  layout->to_physical.inputs = buffer->layout->to_physical.inputs;
  const auto scope = analyzer.enter();
  for (size_t i = 0; i < layout->logical_shape.size(); ++i)
    analyzer.bind(layout->to_physical.inputs[i], int_imm(0), layout->logical_shape[i]);
  layout->to_physical.outputs = map.apply(buffer->layout->to_physical.outputs);
  for (Expr& output : layout->to_physical.outputs) output = analyzer.simplify(output);
  return layout;
}

Result<Applied> apply_transform_layout(const Schedule& s, const TransformLayoutArgs& args) {
  FETTLE_TRY(const Stmt stmt, s.block(args.block));
  const Func& func = s.func();
  const auto* block = stmt.as<BlockNode>();
  FETTLE_TRY(const Buffer buffer, accessed_buffer(func, *block, args.buffer_index_type, args.buffer_index));
  const Param* param = func.find_param(buffer.get());
  if (param && param->kind != ParamKind::kConstant && !param->free_layout)
    return refused(ErrorCode::E218, func, block, "parameter {}", buffer->name);
  if (!buffer->strides.empty()) return refused(ErrorCode::E218, func, block, "{} has strides of its own", buffer->name);

  Analyzer analyzer;
  analyzer.bind_params(func);
  if (args.index_map.inputs.size() != buffer->shape.size())
    return refused(ErrorCode::E217, func, block, "{} has {} dimensions, the map takes {}", buffer->name,
                   buffer->shape.size(), args.index_map.inputs.size());
  auto inverse = invert_rounded(args.index_map, buffer->shape, analyzer);
  if (!inverse) return refused(inverse.error().code, func, block, "{}", inverse.error().message);
  const bool pads = !is_true(inverse->valid);
  if (pads && !args.pad)
    return refused(ErrorCode::E217, func, block, "the map pads {}, and pad is false", buffer->name);

  const Buffer fresh = edited(buffer, [&](BufferNode& b) {
    b.shape = inverse->physical_shape;
    b.layout = composed_layout(buffer, args.index_map, analyzer);
  });

  // Blocks that must write pad lanes: a plain fill does so itself.
  Func result = func;
  const BlockNode* scope = enclosing_block(func, block);
  const std::vector<const BlockNode*> producers = producers_of(*scope, buffer.get());
  const StmtNode* plain =
      producers.size() == 1 && !param ? plain_fill(*scope, *producers.front(), buffer.get()) : nullptr;
  const bool written = !param || param->kind == ParamKind::kOutput;
  if (plain) {
    result = replace_in(func, plain, fill_in_order(*producers.front(), fresh, *inverse, analyzer));
  } else if (pads && written && !producers.empty()) {
    const Stmt clear = clear_pad_lanes(func, fresh, args.index_map, buffer->shape, *inverse, analyzer);
    const StmtNode* anchor = anchor_of(*scope, producers.front(), {});
    result = edit_scope(func, scope->name, {.anchor = anchor, .before = clear});
  }
  return Applied{LayoutRewriter(func, buffer, fresh, args.index_map).Mutator::rewrite(result), {}};
}

}  // namespace

extern constinit const PrimitiveDef transform_layout_def =
    define_primitive<TransformLayoutArgs, apply_transform_layout>("transform_layout", 1);

Result<> transform_layout(Schedule& s, const TransformLayoutArgs& args) {
  return run<void>(s, transform_layout_def, args);
}

}  // namespace fettle
