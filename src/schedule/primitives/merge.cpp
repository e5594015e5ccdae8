#include "schedule/primitives/merge.h"

#include <algorithm>

#include "analysis/dependence.h"
#include "schedule/dataflow/dataflow.h"
#include "schedule/edit/nest.h"
#include "schedule/edit/placement.h"
#include "schedule/edit/steps.h"

namespace fettle {
namespace {

using Chain = std::vector<const ForNode*>;

// The loops from below the sequence that holds all nests down to the given ones, and the sequence.
struct Nests {
  const SeqNode* sequence = nullptr;
  size_t first = 0;  // index of the first nest
  std::vector<Chain> chains;
};

Result<Nests> find_nests(const Schedule& s, const std::vector<LoopRef>& refs) {
  const Func& func = s.func();
  std::vector<std::vector<Stmt>> paths;
  for (const LoopRef& ref : refs) {
    FETTLE_TRY(const Stmt loop, s.loop(ref));
    paths.push_back(path_to(func->body, loop.get()));
  }
  const auto refuse = [&](std::string why) {
    return refused(ErrorCode::E207, func, paths.front().back().get(), "{}", why);
  };
  if (paths.size() < 2) return fail(ErrorCode::E207, "two or more loops are needed");
  size_t common = 0;
  while (std::ranges::all_of(paths, [&](const auto& p) { return common < p.size() && p[common] == paths[0][common]; }))
    ++common;
  if (common == 0) return refuse("they share nothing");
  Nests nests;
  nests.sequence = paths[0][common - 1].as<SeqNode>();
  if (!nests.sequence) return refuse("the loops do not follow one another");
  for (size_t n = 0; n < paths.size(); ++n) {
    Chain& chain = nests.chains.emplace_back();
    if (paths[n].size() <= common) return refuse("the loops do not follow one another");
    for (size_t d = common; d < paths[n].size(); ++d) {
      const auto* loop = paths[n][d].as<ForNode>();
      if (!loop) return refuse("something stands between the loops of a nest");
      FETTLE_TRY_VOID(check_plain(func, *loop));
      chain.push_back(loop);
    }
    if (chain.size() != nests.chains.front().size()) return refuse("the loops are not equally deep");
    const auto at = std::ranges::find(nests.sequence->stmts, paths[n][common]) - nests.sequence->stmts.begin();
    if (n == 0)
      nests.first = static_cast<size_t>(at);
    else if (static_cast<size_t>(at) != nests.first + n)
      return refuse("the nests do not stand next to one another, in that order");
  }
  return nests;
}

Result<Applied> apply_merge(const Schedule& s, const MergeArgs& args) {
  FETTLE_TRY(const Nests nests, find_nests(s, args.loops));
  const Func& func = s.func();
  const Chain& kept = nests.chains.front();
  Analyzer analyzer = analyzer_at(func, kept.front());
  bind_loops(analyzer, kept);
  std::vector<Stmt> bodies{kept.back()->body};
  std::vector<std::vector<std::string>> names;  // of the blocks of each nest
  for (const Chain& chain : nests.chains) {
    auto& list = names.emplace_back();
    for (const BlockNode* block : blocks_under(chain.back()->body)) list.push_back(block->name);
    if (&chain == &nests.chains.front()) continue;
    VarMap values;
    for (size_t d = 0; d < kept.size(); ++d) {
      if (!analyzer.can_prove_equal(kept[d]->min, substitute(chain[d]->min, values)) ||
          !analyzer.can_prove_equal(kept[d]->extent, substitute(chain[d]->extent, values)))
        return refused(ErrorCode::E207, func, chain[d], "loops {} and {} have different ranges", kept[d]->var->name,
                       chain[d]->var->name);
      values[chain[d]->var.get()] = kept[d]->var;
    }
    bodies.push_back(substitute_loops(chain.back()->body, values, analyzer));
  }
  Stmt merged = seq(std::move(bodies));
  for (size_t d = kept.size(); d-- > 0;) merged = with(*kept[d], [&](ForNode& f) { f.body = merged; });
  std::vector<Stmt> stmts = nests.sequence->stmts;
  const auto begin = stmts.begin() + static_cast<std::ptrdiff_t>(nests.first);
  stmts.erase(begin + 1, begin + static_cast<std::ptrdiff_t>(nests.chains.size()));
  stmts[nests.first] = merged;
  const Func result = replace_in(func, nests.sequence, seq(std::move(stmts)));

  // Where blocks of different nests meet in a buffer.
  const auto nest_of = [&](const std::string& block) {
    for (size_t n = 0; n < names.size(); ++n)
      if (std::ranges::find(names[n], block) != names[n].end()) return static_cast<int>(n);
    return -1;
  };
  const std::vector<BlockSite> sites = block_sites(func);
  const BlockSite* any = find_site(sites, names.front().front());
  for (const Dependence& d : dependences_in(func, sites, any->parent)) {
    const BlockNode *from = sites[static_cast<size_t>(d.from)].block, *to = sites[static_cast<size_t>(d.to)].block;
    const int a = nest_of(from->name), b = nest_of(to->name);
    if (a < 0 || b < 0 || a == b) continue;
    Result<> legal = d.kind == DependenceKind::kReadAfterWrite
                         ? check_made_in_iteration(result, *find_loop(result->body, kept.back()->var.get()), from->name,
                                                   to->name, d.buffer, /*in_order=*/true)
                         : fail(ErrorCode::E227, fmt::format("block {} overwrites {}", to->name, d.buffer->name));
    if (!legal) return refused(ErrorCode::E227, func, to, "{}", legal.error().message);
  }
  return Applied{result, {kept.back()->var}};
}

}  // namespace

extern constinit const PrimitiveDef merge_def = define_primitive<MergeArgs, apply_merge>("merge", 1);

Result<LoopRef> merge(Schedule& s, const MergeArgs& args) { return run<LoopRef>(s, merge_def, args); }

}  // namespace fettle
