#include "schedule/primitives/loop_partition.h"

#include <algorithm>
#include <set>

#include "schedule/dataflow/dataflow.h"
#include "schedule/edit/nest.h"
#include "schedule/edit/steps.h"

namespace fettle {
namespace {

Result<std::vector<int64_t>> part_sizes(const Schedule& s, const LoopPartitionArgs& args, const ForNode& loop) {
  const int64_t* extent = as_int(loop.extent);
  if (!extent) return refused(ErrorCode::E221, s.func(), &loop, "of loop {}", loop.var->name);
  if (args.sizes.empty()) return refused(ErrorCode::E202, s.func(), &loop, "no sizes are given");
  std::vector<int64_t> sizes;
  int infer = -1;
  int64_t left = *extent;
  for (const IntRef& ref : args.sizes) {
    FETTLE_TRY(const int64_t size, s.value(ref));
    if (size == kInfer) {
      if (infer >= 0) return refused(ErrorCode::E203, s.func(), &loop, "");
      infer = static_cast<int>(sizes.size());
    } else if (size < 1) {
      return refused(ErrorCode::E202, s.func(), &loop, "size {}", std::to_string(size));
    } else if (size > left) {
      return refused(ErrorCode::E233, s.func(), &loop, "they exceed the extent {}", std::to_string(*extent));
    } else {
      left -= size;
    }
    sizes.push_back(size);
  }
  if (infer >= 0 ? left < 1 : left != 0)
    return refused(ErrorCode::E233, s.func(), &loop, "{} of {} iterations are left", std::to_string(left),
                   std::to_string(*extent));
  if (infer >= 0) sizes[static_cast<size_t>(infer)] = left;
  return sizes;
}

// Gives every block below a name that is not in `names`, and puts it there.
class BlockRenamer : public Mutator {
 public:
  explicit BlockRenamer(std::set<std::string>& names) : names_(names) {}
  using Mutator::rewrite;
  Stmt rewrite(const Stmt& s) override {
    Stmt inside = Mutator::rewrite(s);
    const auto* block = inside ? inside.as<BlockNode>() : nullptr;
    if (!block) return inside;
    std::string name;
    for (int n = 1; !names_.insert(name = block->name + "_" + std::to_string(n)).second;) ++n;
    return with(*block, [&](BlockNode& b) { b.name = name; });
  }

 private:
  std::set<std::string>& names_;
};

// Drops the init of the outermost blocks below whose reduction cannot be at its first instance. The update then reads
// what it writes from outside.
class InitDropper : public Mutator {
 public:
  explicit InitDropper(Analyzer& analyzer) : analyzer_(analyzer) {}
  using Mutator::rewrite;
  Stmt rewrite(const Stmt& s) override {
    if (const auto* loop = s.as<ForNode>()) {
      const auto scope = analyzer_.enter();
      analyzer_.bind(loop->var, loop->min, loop->extent);
      return Mutator::rewrite(s);
    }
    const auto* block = s.as<BlockNode>();
    if (!block) return Mutator::rewrite(s);
    const bool begun = block->init && std::ranges::any_of(block->iters, [&](const IterVar& iter) {
                         return iter.kind == IterKind::kReduce && analyzer_.can_prove(lt(0, iter.binding));
                       });
    if (!begun) return s;
    return with(*block, [](BlockNode& b) {
      b.init = nullptr;
      drop_unread(b);  // what the init alone read, a bias say
      for (const Region& write : b.writes)
        if (std::ranges::none_of(b.reads, [&](const Region& read) { return read.buffer == write.buffer; }))
          b.reads.push_back(write);
    });
  }

 private:
  Analyzer& analyzer_;
};

Result<Applied> apply_loop_partition(const Schedule& s, const LoopPartitionArgs& args) {
  FETTLE_TRY(const Stmt stmt, s.loop(args.loop));
  const ForNode& loop = *stmt.as<ForNode>();
  FETTLE_TRY_VOID(check_plain(s.func(), loop));
  FETTLE_TRY(const std::vector<int64_t> sizes, part_sizes(s, args, loop));
  if (sizes.size() == 1) return Applied{s.func(), {loop.var}};

  std::set<std::string> names;
  each_node<BlockNode>(s.func()->body, [&](const BlockNode& block) { names.insert(block.name); });
  const auto keeper = std::ranges::max_element(sizes) - sizes.begin();
  Analyzer analyzer = analyzer_at(s.func(), &loop);
  std::vector<Stmt> parts;
  Applied applied;
  int64_t begin = 0;
  for (size_t k = 0; k < sizes.size(); ++k) {
    const Var var = make_var(loop.var->name + "_" + std::to_string(k), loop.var->dtype);
    const Expr min = analyzer.simplify(loop.min + Expr(begin));
    const auto scope = analyzer.enter();
    analyzer.bind(var, min, sizes[k]);
    Stmt body = loop.body;
    if (static_cast<std::ptrdiff_t>(k) != keeper) body = BlockRenamer(names).rewrite(rename_bound(body));
    body = substitute_loops(body, {{loop.var.get(), var}}, analyzer);
    body = InitDropper(analyzer).rewrite(body);
    parts.push_back(with(loop, [&](ForNode& f) {
      f.var = var;
      f.min = min;
      f.extent = sizes[k];
      f.body = body;
    }));
    applied.outputs.emplace_back(var);
    begin += sizes[k];
  }
  applied.func = replace_in(s.func(), &loop, seq(std::move(parts)));
  return applied;
}

}  // namespace

extern constinit const PrimitiveDef loop_partition_def =
    define_primitive<LoopPartitionArgs, apply_loop_partition>("loop_partition", 1);

Result<std::vector<LoopRef>> loop_partition(Schedule& s, const LoopPartitionArgs& args) {
  return run<std::vector<LoopRef>>(s, loop_partition_def, args);
}

}  // namespace fettle
