#include "schedule/primitives/software_pipeline.h"

#include <fmt/format.h>

#include "analysis/dependence.h"
#include "ir/visit.h"
#include "schedule/dataflow.h"
#include "schedule/nest.h"

namespace fettle {
namespace {

// The part of the loop's body that holds the block, by number.
int part_of(const std::vector<Stmt>& parts, const BlockNode* block) {
  for (size_t p = 0; p < parts.size(); ++p)
    if (!path_to(parts[p], block).empty()) return static_cast<int>(p);
  return -1;
}

Result<Applied> apply_software_pipeline(const Schedule& s, const SoftwarePipelineArgs& args) {
  FETTLE_TRY(const Stmt stmt, s.loop(args.loop));
  const Func& func = s.func();
  const auto& loop = *stmt.as<ForNode>();
  FETTLE_TRY_VOID(check_plain(func, loop));
  const auto* body = loop.body.as<SeqNode>();
  const std::vector<Stmt> parts = body ? body->stmts : std::vector<Stmt>{loop.body};
  const auto wrong = [&](std::string why) { return fail_at(ErrorCode::E224, func, &loop, std::move(why), {}); };
  if (args.stages.size() != parts.size() || args.order.size() != parts.size())
    return wrong(fmt::format("the body has {} parts; {} stages and {} places are given", parts.size(),
                             args.stages.size(), args.order.size()));
  std::vector<bool> taken(parts.size(), false);
  for (const int64_t place : args.order) {
    if (place < 0 || static_cast<size_t>(place) >= parts.size() || taken[static_cast<size_t>(place)])
      return wrong("order is no permutation of the parts");
    taken[static_cast<size_t>(place)] = true;
  }
  for (const int64_t stage : args.stages)
    if (stage < 0) return wrong("a stage is negative");

  if (auto apart = check_iterations_apart(func, loop); !apart)
    return fail_at(ErrorCode::E227, func, &loop, apart.error().message, {});
  const std::vector<BlockSite> sites = block_sites(func);
  const std::vector<const BlockNode*> inside = blocks_under(loop.body);
  const BlockSite* first = find_site(sites, inside.front()->name);
  for (const Dependence& d : dependences_in(func, sites, first->parent)) {
    const BlockNode *from = sites[static_cast<size_t>(d.from)].block, *to = sites[static_cast<size_t>(d.to)].block;
    const int a = part_of(parts, from), b = part_of(parts, to);
    if (a < 0 || b < 0 || a == b) continue;
    const auto x = static_cast<size_t>(a), y = static_cast<size_t>(b);
    if (args.stages[x] < args.stages[y] || (args.stages[x] == args.stages[y] && args.order[x] < args.order[y]))
      continue;
    return fail_at(ErrorCode::E227, func, to,
                   fmt::format("block {} would run before block {}, which makes or uses {} first", to->name, from->name,
                               d.buffer->name),
                   {});
  }
  const Stmt noted = with(loop, [&](ForNode& f) {
    f.annotations.set(kPipelineStagesKey, args.stages);
    f.annotations.set(kPipelineOrderKey, args.order);
  });
  return Applied{replace_in(func, &loop, noted), {}};
}

}  // namespace

constinit const PrimitiveDef software_pipeline_def =
    define_primitive<SoftwarePipelineArgs, apply_software_pipeline>("software_pipeline", 1);

Result<> software_pipeline(Schedule& s, const SoftwarePipelineArgs& args) {
  FETTLE_TRY_VOID(s.step(software_pipeline_def, args));
  return {};
}

}  // namespace fettle
