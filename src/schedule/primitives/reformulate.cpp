#include "schedule/primitives/reformulate.h"

#include <algorithm>

#include "ir/annotations.h"
#include "schedule/edit/steps.h"
#include "schedule/reformulation.h"

namespace fettle {
namespace {

Result<Applied> apply_reformulate(const Schedule& s, const ReformulateArgs& args) {
  FETTLE_TRY(const Stmt block, s.block(args.block));
  for (const auto& step : s.trace().steps)
    if (!step->def->samples && !step->def->queries && step->def != &reformulate_def)
      return fail(ErrorCode::E234, "step " + std::string(step->def->name) + " came before");
  const ReformulationDef* kind = find_reformulation(args.kind);
  if (!kind) return fail(ErrorCode::E228, "there is no kind named " + args.kind);
  std::vector<int64_t> numbers;
  for (const IntRef& ref : args.numbers) {
    FETTLE_TRY(const int64_t number, s.value(ref));
    numbers.push_back(number);
  }
  auto done = kind->apply(s.func(), *block.as<BlockNode>(), numbers);
  if (!done) return refused(done.error().code, s.func(), block.get(), "{}: {}", args.kind, done.error().message);

  Applied applied;
  const Numerics numerics = std::max(numerics_of(s.func()), kind->numerics);
  const double bound = error_bound_of(s.func()) + done->error_bound;
  applied.func = with(done->func, [&](FuncNode& f) {
    if (numerics != Numerics::kExact) f.annotations.set(kNumericsKey, std::string(numerics_name(numerics)));
    if (bound > 0) f.annotations.set(kErrorBoundKey, bound);
  });
  applied.outputs.assign(done->blocks.begin(), done->blocks.end());
  return applied;
}

}  // namespace

constinit const PrimitiveDef reformulate_def = define_primitive<ReformulateArgs, apply_reformulate>("reformulate", 1);

Result<std::vector<BlockRef>> reformulate(Schedule& s, const ReformulateArgs& args) {
  return run<std::vector<BlockRef>>(s, reformulate_def, args);
}

}  // namespace fettle
