// Steps that overlap, and annotations; queries.
#include <fmt/format.h>

#include "ir/text.h"
#include "ir/visit.h"
#include "tests/fuzz/actions.h"

namespace fettle::fuzz::actions {

bool software_pipeline(Attempt& a) {
  const auto loop = a.any_loop();
  const ForNode* n = loop ? a.node(*loop) : nullptr;
  if (!n) return false;
  const size_t parts = n->body.as<SeqNode>() ? n->body.as<SeqNode>()->stmts.size() : 1;
  if (parts == 1 && a.chance(80)) return false;
  std::vector<int64_t> stages, order;
  for (size_t i = 0; i < parts; ++i) {
    stages.push_back(stages.empty() ? 0 : stages.back() + a.between(0, 1));
    order.push_back(static_cast<int64_t>(i));
  }
  if (a.chance(30)) a.shuffle(order);
  if (a.chance(10)) a.shuffle(stages);
  return a.step("software_pipeline", {{"loop", *loop}, {"stages", stages}, {"order", order}}).has_value();
}
bool double_buffer(Attempt& a) {
  const auto block = a.any_block();
  return block && a.step("double_buffer", {{"block", *block}});
}
/// Copies of what a loop reads, in the loop, then overlapped.
bool pipelined_reads(Attempt& a) {
  const auto block = a.any_block([](const BlockNode& b) { return b.init && !b.reads.empty(); });
  if (!block) return false;
  const auto loop = a.loop_of(*block);
  if (!loop) return false;
  const auto copy =
      a.step("read_at", {{"loop", *loop}, {"block", *block}, {"read_index", any_read(a, *block)}, {"scope", "global"}});
  if (!copy) return false;
  if (a.chance(40)) a.step("double_buffer", {{"block", a.s.blocks_of(*copy).at(0)}});
  a.step("software_pipeline",
         {{"loop", *loop}, {"stages", std::vector<int64_t>{0, 1}}, {"order", std::vector<int64_t>{0, 1}}});
  return true;
}
bool rolling_buffer(Attempt& a) {
  const auto block = a.any_block();
  return block && a.step("rolling_buffer", {{"block", *block}});
}
/// A producer under a loop of its stencil, and then only its new rows.
bool rolled_producer(Attempt& a) {
  const auto producer = a.any_block([](const BlockNode& b) { return !b.init; });
  if (!producer) return false;
  const auto readers = a.step("get_consumers", {{"block", *producer}});
  if (!readers || a.s.blocks_of(*readers).empty()) return false;
  const auto loops = a.loops_of(a.s.blocks_of(*readers)[0]);
  if (loops.empty() ||
      !a.step("compute_at", {{"block", *producer}, {"loop", loops[a.r.below(std::min<size_t>(loops.size(), 2))]}}))
    return false;
  a.step("rolling_buffer", {{"block", *producer}});
  return true;
}

bool annotate(Attempt& a) {
  const auto block = a.any_block();
  if (!block) return false;
  StepRef target = *block;
  if (a.chance(50)) {
    const auto loop = a.loop_of(*block);
    if (!loop) return false;
    target = *loop;
  }
  if (!a.step("annotate", {{"target", target}, {"key", "note"}, {"value", Attribute(int64_t{a.between(0, 9)})}}))
    return false;
  if (a.chance(50)) a.step("unannotate", {{"target", target}, {"key", a.chance(90) ? "note" : "none"}});
  return true;
}
bool annotate_buffer_access(Attempt& a) {
  const auto block = a.any_block();
  const BlockNode* n = block ? a.node(*block) : nullptr;
  if (!n) return false;
  const bool read = !n->reads.empty() && a.chance(60);
  const auto& regions = read ? n->reads : n->writes;
  if (regions.empty()) return false;
  const size_t index = a.r.below(regions.size());
  std::vector<std::string> inputs, outputs;
  VarMap names;
  for (size_t i = 0; i < n->iters.size(); ++i) {
    inputs.push_back(fmt::format("x{}", i));
    names[n->iters[i].var.get()] = Expr(make_var(inputs.back()));
  }
  for (const Range& range : regions[index].ranges) {
    const int more = read && a.chance(40) ? a.between(0, 2) : 0, less = a.chance(5) ? 1 : 0;
    outputs.push_back(to_text(substitute(range.min, names)) + (more ? fmt::format(" - {}", more) : "") +
                      (less ? " + 1" : ""));
    outputs.push_back(to_text(substitute(range.min + range.extent, names)) + (more ? " + 1" : ""));
  }
  if (inputs.empty()) return false;
  IndexMap map;
  const std::string text = fmt::format("({}) -> ({})", fmt::join(inputs, ", "), fmt::join(outputs, ", "));
  if (!from_arg(to_arg(text), map)) return false;  // integer parameters
  return a
      .step("annotate_buffer_access", {{"block", *block},
                                       {"buffer_index", static_cast<int64_t>(index)},
                                       {"buffer_index_type", read ? "read" : "write"},
                                       {"region", text}})
      .has_value();
}

bool queries(Attempt& a) {
  const auto block = a.any_block();
  if (!block) return false;
  a.step("get_output_blocks", {});
  a.step("get_producers", {{"block", *block}});
  a.step("get_consumers", {{"block", *block}});
  const auto loop = a.loop_of(*block);
  if (loop) a.step("get_child_blocks", {{"parent", StepRef(*loop)}});
  return true;
}

}  // namespace fettle::fuzz::actions
