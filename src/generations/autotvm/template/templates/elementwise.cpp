// What reduces nothing: one pass over the elements, in vectors.

#include <algorithm>

#include "generations/autotvm/template/template_def.h"
#include "generations/autotvm/template/tiling_knobs.h"
#include "ir/visit.h"
#include "schedule/dataflow/dataflow.h"
#include "tune/parts/structure.h"

namespace fettle {
namespace {

bool matches(const Func& workload) {
  if (!workload->body.as<BlockNode>()) return false;
  const std::vector<const BlockNode*> blocks = blocks_of(workload.root());
  return !blocks.empty() && std::ranges::all_of(blocks, [&](const BlockNode* block) {
    return !block->init && block_structure(workload, *block).has_value();
  });
}

Result<> body(TemplateContext& t) {
  const std::string last = blocks_of(t.schedule().func().root()).back()->name;
  inline_producers(t.schedule(), last);
  return nests_of_others(t, {});
}

}  // namespace

extern constinit const TemplateDef elementwise_template{"elementwise", "what is computed element by element", 10,
                                                        matches, body};

}  // namespace fettle
