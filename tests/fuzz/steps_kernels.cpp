// Several steps in their order: micro-kernels, kernels of threads.
#include "ir/visit.h"
#include "tests/fuzz/actions.h"

namespace fettle::fuzz::actions {

/// The steps of a micro-kernel: tiles, accumulators, lanes; with or without blocking of the reduction.
bool micro_kernel(Attempt& a) {
  const auto block = a.any_block([](const BlockNode& b) { return static_cast<bool>(b.init); });
  const BlockNode* n = block ? a.node(*block) : nullptr;
  if (!n) return false;
  const auto loops = a.loops_of(*block);
  std::vector<LoopRef> outer, reduce, inner;
  for (const LoopRef& loop : loops) {
    const ForNode* f = a.node(loop);
    if (!f || f->loop_kind != ForKind::kSerial) return false;
    bool reduces = false;
    for (const IterVar& iter : n->iters)
      reduces |= iter.kind != IterKind::kSpatial && uses_var(iter.binding, f->var.get());
    if (reduces) {
      reduce.push_back(loop);
      continue;
    }
    const auto parts =
        a.step("split", {{"loop", loop},
                         {"factors", factor_list({kInfer, a.one_of(std::vector<int64_t>{1, 2, 3, 4, 6, 8, 16})})},
                         {"tail", a.tail()}});
    if (!parts) return true;
    outer.push_back(a.s.loops_of(*parts)[0]);
    inner.push_back(a.s.loops_of(*parts)[1]);
    n = a.node(*block);
    if (!n) return true;
  }
  if (outer.empty() || reduce.empty()) return false;
  std::vector<LoopRef> order = outer;
  order.insert(order.end(), reduce.begin(), reduce.end());
  order.insert(order.end(), inner.begin(), inner.end());
  if (!a.step("reorder", {{"loops", loop_list(order)}})) return true;
  std::vector<BlockRef> tiles;
  if (a.chance(40)) {
    const LoopRef at = a.chance(50) ? outer.back() : a.one_of(reduce);
    const auto both = a.step("cache_inplace", {{"block", *block}, {"loop", at}, {"scope", "register"}});
    if (both) tiles = a.s.blocks_of(*both);
  } else {
    const auto copy = a.step("cache_write", {{"block", *block}, {"scope", "register"}});
    if (copy && a.step("reverse_compute_at", {{"block", a.s.blocks_of(*copy)[0]}, {"loop", outer.back()}}))
      tiles = a.s.blocks_of(*copy);
  }
  if (a.chance(70)) {
    const auto init = a.step("decompose_reduction", {{"block", *block}, {"loop", reduce[0]}});
    (void)init;
  }
  const auto finish = [&](const std::vector<LoopRef>& list) {
    for (size_t i = 0; i < list.size(); ++i)
      a.step(i + 1 == list.size() && a.chance(80) ? "vectorize" : "unroll", {{"loop", list[i]}});
  };
  for (const BlockNode* b : a.blocks()) {
    // Every tile moves through registers alike: the innermost loops, as many as there are inner ones.
    bool registers = false;
    for (const auto* regions : {&b->reads, &b->writes})
      for (const Region& region : *regions) registers |= region.buffer->scope == kScopeRegister;
    if (!registers) continue;
    const auto ref = a.block_named(b->name);
    if (!ref) continue;
    auto list = a.loops_of(*ref);
    if (list.size() < inner.size()) continue;
    finish({list.end() - static_cast<long>(inner.size()), list.end()});
  }
  if (a.chance(40)) a.step("parallel", {{"loop", outer[0]}});
  if (a.chance(40) && !tiles.empty()) {  // an epilogue joins the last store
    const auto readers = a.step("get_consumers", {{"block", tiles.back()}});
    if (readers && !a.s.blocks_of(*readers).empty())
      a.step("reverse_compute_inline", {{"block", a.s.blocks_of(*readers)[0]}});
  }
  if (a.chance(30)) {  // and an operand is packed
    const auto packed =
        a.step("cache_read", {{"block", *block}, {"read_index", any_read(a, *block)}, {"scope", "global"}});
    const BlockNode* copy = packed ? a.node(a.s.blocks_of(*packed)[0]) : nullptr;
    if (copy) {
      std::vector<int64_t> extents;
      for (const Expr& e : copy->writes[0].buffer->shape) extents.push_back(as_int(e) ? *as_int(e) : -1);
      a.step("transform_layout", {{"block", a.s.blocks_of(*packed)[0]}, {"index_map", random_map(a, extents)}});
    }
  }
  return true;
}

/// A kernel: an outer loop over blocks, and under it, in every nest, loops over threads; some buffers are filled there.
bool thread_kernel(Attempt& a) {
  const auto block = a.any_block();
  if (!block) return false;
  const auto loops = a.loops_of(*block);
  if (loops.empty()) return false;
  const size_t at = loops.size() > 1 && a.chance(30) ? 1 : 0;
  if (a.chance(40))
    a.step("read_at",
           {{"loop", a.one_of(loops)}, {"block", *block}, {"read_index", any_read(a, *block)}, {"scope", a.scope()}});
  const ForNode* outer = a.node(loops[at]);
  if (!outer) return true;
  std::vector<std::string> names;
  walk(outer->body, [&](const Stmt& x) {
    if (const auto* b = x.as<BlockNode>()) names.push_back(b->name);
    return true;
  });
  const bool blocks = a.chance(80);
  if (blocks) a.step("bind", {{"loop", loops[at]}, {"thread_axis", a.chance(80) ? "blockIdx.x" : "blockIdx.y"}});
  const int threads = a.one_of(std::vector<int>{2, 3, 4, 5, 8});
  for (const std::string& name : names) {
    const auto under = a.block_named(name);
    if (!under) continue;
    auto list = a.loops_of(*under);
    const size_t first = blocks ? at + 1 : at;
    if (list.size() <= first || a.chance(15)) continue;
    list.erase(list.begin(), list.begin() + static_cast<long>(first));
    const LoopRef loop = a.chance(70) ? list.back() : a.one_of(list);
    const int width = a.chance(85) ? threads : a.between(1, 9);
    const auto parts =
        a.step("split", {{"loop", loop}, {"factors", factor_list({kInfer, width})}, {"tail", Tail::kGuard}});
    const LoopRef bound = parts ? a.s.loops_of(*parts)[1] : loop;
    a.step("bind", {{"loop", bound},
                    {"thread_axis", a.chance(75)   ? "threadIdx.x"
                                    : a.chance(70) ? "threadIdx.y"
                                                   : "vthread"}});
    if (parts && a.chance(25))
      a.step("bind", {{"loop", a.s.loops_of(*parts)[0]}, {"thread_axis", a.chance(50) ? "vthread" : "threadIdx.y"}});
  }
  if (a.chance(25)) software_pipeline(a);
  if (a.chance(25)) double_buffer(a);
  return true;
}

}  // namespace fettle::fuzz::actions
