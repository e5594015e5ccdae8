#include "schedule/primitives/reorder_block_iter_var.h"

#include "schedule/edit/steps.h"

namespace fettle {
namespace {

Result<Applied> apply_reorder_block_iter_var(const Schedule& s, const ReorderBlockIterVarArgs& args) {
  FETTLE_TRY(const Stmt stmt, s.block(args.block));
  const auto& block = *stmt.as<BlockNode>();
  std::vector<IterVar> iters;
  std::vector<bool> taken(block.iters.size(), false);
  for (const int64_t number : args.new_order) {
    const auto at = static_cast<size_t>(number);
    if (number < 0 || at >= taken.size() || taken[at])
      return refused(ErrorCode::E241, s.func(), &block, "iterator {} is not there, or is named twice",
                     std::to_string(number));
    taken[at] = true;
    iters.push_back(block.iters[at]);
  }
  if (iters.size() != block.iters.size())
    return refused(ErrorCode::E241, s.func(), &block, "block {} has {} iterators, the order {}", block.name,
                   std::to_string(block.iters.size()), std::to_string(iters.size()));
  const Stmt reordered = with(block, [&](BlockNode& b) { b.iters = std::move(iters); });
  return Applied{replace_in(s.func(), &block, reordered), {}};
}

}  // namespace

extern constinit const PrimitiveDef reorder_block_iter_var_def =
    define_primitive<ReorderBlockIterVarArgs, apply_reorder_block_iter_var>("reorder_block_iter_var", 1);

Result<> reorder_block_iter_var(Schedule& s, const ReorderBlockIterVarArgs& args) {
  return run<void>(s, reorder_block_iter_var_def, args);
}

}  // namespace fettle
