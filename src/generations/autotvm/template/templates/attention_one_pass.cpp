// Attention in one pass over keys and values (tune/parts/attention.h): scores never are in memory as a whole. The
// tile is a knob. Approximate.

#include "generations/autotvm/template/knob_decider.h"
#include "generations/autotvm/template/template_def.h"
#include "generations/autotvm/template/tiling_knobs.h"
#include "tune/parts/attention.h"

namespace fettle {
namespace {

/// Fewer queries do not fill the lanes of some target.
constexpr int64_t kFewestQueries = 16;

bool matches(const Func& workload) {
  if (!workload->body.as<BlockNode>()) return false;
  const auto parts = attention_parts(workload);
  return parts && parts->queries >= kFewestQueries;
}

Result<> body(TemplateContext& t) {
  Schedule& s = t.schedule();
  const auto parts = attention_parts(s.func());
  if (!parts) return fail(ErrorCode::E230, "no products with a softmax between them");
  const std::shared_ptr<const Target> target = target_or_usual(s);
  KnobDecider knobs(t);
  FETTLE_TRY_VOID(attention_in_one_pass(s, *target, knobs, *parts, target->threads));
  return {};
}

}  // namespace

extern constinit const TemplateDef attention_one_pass_template{
    "attention_one_pass", "the same in one pass over keys and values, block by block", 19, matches, body};

}  // namespace fettle
