#include "schedule/primitives/transform_block_layout.h"

#include "arith/affine_map.h"
#include "schedule/dataflow/dataflow.h"
#include "schedule/dataflow/plain_nest.h"
#include "schedule/edit/steps.h"

namespace fettle {
namespace {

// Every expression in canonical form: v0 // 4 * 4 + v0 % 4 is v0.
class Canonical : public Mutator {
 public:
  explicit Canonical(Analyzer& analyzer) : analyzer_(analyzer) {}
  using Mutator::rewrite;
  Expr rewrite(const Expr& e) override { return e ? analyzer_.simplify(e) : e; }

 private:
  Analyzer& analyzer_;
};

Result<Applied> apply_transform_block_layout(const Schedule& s, const TransformBlockLayoutArgs& args) {
  FETTLE_TRY(const Stmt stmt, s.block(args.block));
  const Func& func = s.func();
  const auto& block = *stmt.as<BlockNode>();
  FETTLE_TRY(const PlainNest nest, plain_nest(func, block));
  const auto refuse = [&](std::string why) { return refused(ErrorCode::E217, func, &block, "{}", why); };
  const IndexMap& map = args.index_map;
  if (map.inputs.size() != block.iters.size())
    return refuse(
        fmt::format("block {} has {} iterators, the map takes {}", block.name, block.iters.size(), map.inputs.size()));
  Analyzer analyzer;
  analyzer.bind_params(func);
  std::vector<Expr> extents;
  for (const IterVar& iter : block.iters) extents.push_back(iter.extent);
  auto inverse = invert(map, extents, analyzer);
  if (!inverse) return refuse(inverse.error().message);
  if (!is_true(inverse->valid)) return refuse("the map pads");

  auto fresh = make_ref<BlockNode>(block);
  fresh->iters.clear();
  std::vector<Expr> vars;
  for (size_t k = 0; k < map.outputs.size(); ++k) {
    IterKind kind = IterKind::kSpatial;
    bool any = false;
    for (size_t i = 0; i < map.inputs.size(); ++i) {
      if (!uses_var(map.outputs[k], map.inputs[i].get())) continue;
      if (any && kind != block.iters[i].kind) return refuse("the map mixes iterators of different kinds");
      kind = block.iters[i].kind;
      any = true;
    }
    if (kind == IterKind::kScan || kind == IterKind::kOpaque)
      if (map.outputs[k].kind() != ExprKind::kVar) return refuse("the order of a scan would change");
    const Var var = make_var("v" + std::to_string(k));
    fresh->iters.push_back({var, inverse->physical_shape[k], kind, nullptr});
    analyzer.bind(var, 0, inverse->physical_shape[k]);
    vars.push_back(var);
  }
  const std::vector<Expr> old = inverse->inverse.apply(vars);
  VarMap values;
  for (size_t i = 0; i < old.size(); ++i) values[block.iters[i].var.get()] = analyzer.simplify(old[i]);
  Canonical canonical(analyzer);
  fresh->init = block.init ? canonical.rewrite(substitute(block.init, values)) : Stmt();
  fresh->body = canonical.rewrite(substitute(block.body, values));
  for (auto* regions : {&fresh->reads, &fresh->writes})
    for (Region& region : *regions)
      for (Range& range : region.ranges)
        range = {analyzer.simplify(substitute(range.min, values)), analyzer.simplify(substitute(range.extent, values))};
  drop_unread(*fresh);
  return Applied{replace_in(func, nest.top, fresh_nest(fresh)), {}};
}

}  // namespace

extern constinit const PrimitiveDef transform_block_layout_def =
    define_primitive<TransformBlockLayoutArgs, apply_transform_block_layout>("transform_block_layout", 1);

Result<> transform_block_layout(Schedule& s, const TransformBlockLayoutArgs& args) {
  return run<void>(s, transform_block_layout_def, args);
}

}  // namespace fettle
