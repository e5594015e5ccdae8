// Elements of another type.

#include "generations/autotvm/template/template_def.h"
#include "generations/autotvm/template/tiling_knobs.h"
#include "schedule/dataflow/dataflow.h"

namespace fettle {
namespace {

bool matches(const Func& workload) {
  if (!workload->body.as<BlockNode>()) return false;
  const std::vector<const BlockNode*> blocks = blocks_of(workload.root());
  const StoreNode* store = blocks.size() == 1 && !blocks[0]->init ? single_store(*blocks[0]) : nullptr;
  return store && store->value.as<CastNode>();
}

Result<> body(TemplateContext& t) { return nests_of_others(t, {}); }

}  // namespace

extern constinit const TemplateDef conversion_template{"conversion", "elements of another type", 20, matches, body};

}  // namespace fettle
