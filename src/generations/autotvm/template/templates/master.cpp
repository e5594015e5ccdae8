// Any program of plain nests: the knobs are what its tensor expressions have. (Chen et al.: TVM, OSDI 2018,
// section 5.1.)
//   for each block: a cut of each loop, an order of the parts, lanes or unrolling of the innermost, threads of the
//   outermost
// What is computed element by element joins its readers.

#include <algorithm>

#include "generations/autotvm/template/template_def.h"
#include "schedule/dataflow/dataflow.h"
#include "schedule/primitives.h"
#include "tune/parts/inline.h"
#include "tune/parts/structure.h"
#include "tune/parts/tile_steps.h"

namespace fettle {
namespace {

using Loops = std::vector<LoopRef>;

std::vector<std::string> nests_of(const Func& func) {
  std::vector<std::string> names;
  for (const BlockNode* block : blocks_of(func.root()))
    if (block_structure(func, *block)) names.push_back(block->name);
  return names;
}

bool matches(const Func& workload) { return workload->body.as<BlockNode>() && !nests_of(workload).empty(); }

// A step that is not legal for this choice is left out: the program is then one that another choice gives.
template <class Step>
void perhaps(Schedule& s, const Step& step) {
  Schedule trial = s;
  if (step(trial)) s = std::move(trial);
}

Result<> schedule_nest(TemplateContext& t, const std::string& name) {
  Schedule& s = t.schedule();
  FETTLE_TRY(const BlockRef block, get_block(s, {.name = name}));
  FETTLE_TRY(const Stmt stmt, s.block(block));
  const auto structure = block_structure(s.func(), *stmt.as<BlockNode>());
  if (!structure) return fail(ErrorCode::E230, "block " + name + " is no plain nest");
  FETTLE_TRY(const Loops loops, get_loops(s, {.block = block}));
  if (loops.empty()) return {};
  Loops spatial[2], reduce[2];
  for (size_t i = 0; i < loops.size(); ++i) {
    Loops* parts = structure->reduce[i] ? reduce : spatial;
    if (structure->extents[i] == 1) {
      parts[0].push_back(loops[i]);
      continue;
    }
    FETTLE_TRY(const Var var, s.loop_var(loops[i]));
    FETTLE_TRY(const Loops cut, t.define_split("loops/" + name + "/tile_" + var->name, loops[i],
                                               {.n = 2, .policy = SplitPolicy::kFactors, .max_factor = 64}));
    parts[0].push_back(cut[0]);
    parts[1].push_back(cut[1]);
  }
  Loops order = concatenated({spatial[0], reduce[0], reduce[1], spatial[1]});
  if (!reduce[0].empty()) {
    FETTLE_TRY(const int64_t which, t.define_knob("loops/" + name + "/order", {0, 1, 2}));
    if (which == 1) order = concatenated({spatial[0], reduce[0], spatial[1], reduce[1]});
    if (which == 2) order = concatenated({spatial[0], spatial[1], reduce[0], reduce[1]});
  }
  if (order.size() > 1) FETTLE_TRY_VOID(reorder(s, {.loops = order}));
  FETTLE_TRY(const int64_t innermost, t.define_knob("loops/" + name + "/innermost", {0, 1, 2}));
  if (innermost == 1) perhaps(s, [&](Schedule& trial) { return vectorize(trial, {.loop = order.back()}).has_value(); });
  if (innermost == 2) perhaps(s, [&](Schedule& trial) { return unroll(trial, {.loop = order.back()}).has_value(); });
  FETTLE_TRY(const int64_t threads, t.define_knob("loops/" + name + "/parallel", {0, 1}));
  if (threads && !spatial[0].empty())
    perhaps(s, [&](Schedule& trial) {
      LoopRef loop = spatial[0].front();
      if (spatial[0].size() > 1) {
        auto fused = fuse(trial, {.loops = spatial[0]});
        if (!fused) return false;
        loop = *fused;
      }
      return parallel(trial, {.loop = loop}).has_value();
    });
  return {};
}

Result<> body(TemplateContext& t) {
  const std::vector<const BlockNode*> blocks = blocks_of(t.schedule().func().root());
  if (!blocks.empty()) inline_producers(t.schedule(), std::string(blocks.back()->name));
  for (const std::string& name : nests_of(t.schedule().func())) FETTLE_TRY_VOID(schedule_nest(t, name));
  return {};
}

}  // namespace

extern constinit const TemplateDef master_template{"master", "any program: knobs from its loops", 0, matches, body};

}  // namespace fettle
