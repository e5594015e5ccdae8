// Steps that move work: under loops, into other blocks; parts of reductions, other algorithms.
#include "schedule/reformulation.h"
#include "tests/fuzz/actions.h"

namespace fettle::fuzz::actions {

bool compute_at(Attempt& a) {
  const auto producer = a.any_block();
  if (!producer) return false;
  const auto readers = a.step("get_consumers", {{"block", *producer}});
  if (!readers || a.s.blocks_of(*readers).empty()) return false;
  const auto loop = a.loop_of(a.one_of(a.s.blocks_of(*readers)));
  return loop && a.step("compute_at", {{"block", *producer}, {"loop", *loop}, {"preserve_unit_loops", a.chance(70)}});
}
bool reverse_compute_at(Attempt& a) {
  const auto consumer = a.any_block();
  if (!consumer) return false;
  const auto writers = a.step("get_producers", {{"block", *consumer}});
  if (!writers || a.s.blocks_of(*writers).empty()) return false;
  const auto loop = a.loop_of(a.one_of(a.s.blocks_of(*writers)));
  return loop &&
         a.step("reverse_compute_at", {{"block", *consumer}, {"loop", *loop}, {"preserve_unit_loops", a.chance(70)}});
}
/// A sum moves under a loop of a reader, and the reader into those that read it: iterations of the loop that need the
/// same element make it again, each anew. Then come steps that must not let them add to each other.
bool repeated_sum(Attempt& a) {
  const auto block = a.any_block([](const BlockNode& b) { return static_cast<bool>(b.init); });
  if (!block) return false;
  const auto readers = a.step("get_consumers", {{"block", *block}});
  if (!readers || a.s.blocks_of(*readers).empty()) return false;
  const BlockRef reader = a.one_of(a.s.blocks_of(*readers));
  const auto loops = a.loops_of(reader);
  if (loops.empty()) return false;
  if (!a.step("compute_at", {{"block", *block}, {"loop", a.chance(60) ? loops.back() : a.one_of(loops)}})) return false;
  a.step("compute_inline", {{"block", reader}});
  if (a.chance(50)) {  // part of a loop goes outside of all, or another loop does, and the others become a unit
    auto list = a.loops_of(*block);
    if (list.empty()) return true;
    if (a.chance(70))
      a.step("split", {{"loop", a.chance(60) ? list.back() : a.one_of(list)},
                       {"factors", factor_list({kInfer, a.factor()})},
                       {"tail", a.tail()}});
    list = a.loops_of(*block);
    const size_t first = a.chance(50) && list.size() > 1 ? list.size() - 2 : a.r.below(list.size());
    std::rotate(list.begin(), list.begin() + static_cast<long>(first), list.begin() + static_cast<long>(first) + 1);
    a.step("reorder", {{"loops", loop_list(list)}});
    if (list = a.loops_of(*block); list.size() > 1) a.step("blockize", {{"loop", list[1]}});
    return true;
  }
  for (int i = a.between(1, 3); i > 0; --i) {
    auto list = a.loops_of(*block);
    if (list.empty()) break;
    const LoopRef at = a.one_of(list);
    switch (a.between(0, 3)) {
      case 0:
        a.step("cache_inplace", {{"block", *block}, {"loop", at}, {"scope", a.scope()}});
        break;
      case 1:
        a.step("blockize", {{"loop", at}});
        break;
      case 2:
        a.step("decompose_reduction", {{"block", *block}, {"loop", at}});
        break;
      default:
        a.shuffle(list);
        a.step("reorder", {{"loops", loop_list(list)}});
        break;
    }
  }
  return true;
}
bool compute_inline(Attempt& a) {
  const auto block = a.any_block();
  return block && a.step("compute_inline", {{"block", *block}});
}
bool reverse_compute_inline(Attempt& a) {
  const auto block = a.any_block();
  return block && a.step("reverse_compute_inline", {{"block", *block}});
}
bool fuse_reduction_epilogue(Attempt& a) {
  const auto block = a.any_block([&a](const BlockNode& b) { return b.init || a.chance(10); });
  if (!block) return false;
  const auto readers = a.step("get_consumers", {{"block", *block}});
  if (!readers || a.s.blocks_of(*readers).empty()) return false;
  return a.step("fuse_reduction_epilogue", {{"block", *block}, {"epilogue_block", a.one_of(a.s.blocks_of(*readers))}})
      .has_value();
}

// --- reductions, padding ---

bool decompose_reduction(Attempt& a) {
  const auto block = a.any_block([&a](const BlockNode& b) { return b.init || a.chance(5); });
  if (!block) return false;
  const auto loop = a.loop_of(*block);
  return loop && a.step("decompose_reduction", {{"block", *block}, {"loop", *loop}});
}
bool rfactor(Attempt& a) {
  const auto block = a.any_block([&a](const BlockNode& b) { return b.init || a.chance(5); });
  if (!block) return false;
  const auto loop = a.loop_of(*block);
  return loop && a.step("rfactor", {{"block", *block}, {"loop", *loop}, {"factor_axis", int64_t{a.between(-1, 2)}}});
}
bool decompose_padding(Attempt& a) {
  const auto block = a.any_block();
  if (!block) return false;
  const auto loop = a.loop_of(*block);
  return loop && a.step("decompose_padding", {{"block", *block}, {"loop", *loop}});
}
/// What computes the same numbers; the approximate ones need a tolerance.
bool reformulate(Attempt& a) {
  std::vector<std::string> kinds;
  for (const ReformulationDef* def : reformulation_defs())
    if (def->numerics != Numerics::kApproximate) kinds.emplace_back(def->name);
  const auto block = a.any_block();
  if (!block) return false;
  std::vector<IntRef> numbers;
  for (int i = a.between(0, 2); i > 0; --i) numbers.push_back(IntRef(a.between(0, 5)));
  return a.step("reformulate", {{"block", *block}, {"kind", a.one_of(kinds)}, {"numbers", numbers}}).has_value();
}

}  // namespace fettle::fuzz::actions
