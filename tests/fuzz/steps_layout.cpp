// Steps on buffers: layout, scope, type; and on tiles as units.
#include <fmt/format.h>

#include "ir/text.h"
#include "target/tensor_intrinsic.h"
#include "tests/fuzz/actions.h"

namespace fettle::fuzz::actions {

/// A random map of indices with these extents (-1: unknown): an order, and perhaps an index in two, or two in one.
std::string random_map(Attempt& a, const std::vector<int64_t>& extents) {
  std::vector<std::string> inputs, outputs;
  for (size_t i = 0; i < extents.size(); ++i) {
    inputs.push_back(fmt::format("x{}", i));
    outputs.push_back(inputs.back());
  }
  if (!outputs.empty() && a.chance(60)) {
    const size_t d = a.r.below(outputs.size());
    const int64_t f = a.one_of(std::vector<int64_t>{2, 3, 4, 5, 8});
    outputs.push_back(fmt::format("x{} % {}", d, f));
    outputs[d] = fmt::format("x{} // {}", d, f);
  } else if (outputs.size() >= 2 && a.chance(50)) {
    const size_t d = a.r.below(outputs.size() - 1);
    if (extents[d + 1] > 0) {
      outputs[d] = fmt::format("x{} * {} + x{}", d, extents[d + 1], d + 1);
      outputs.erase(outputs.begin() + static_cast<long>(d) + 1);
    }
  }
  if (a.chance(50)) a.shuffle(outputs);
  if (a.chance(3) && !outputs.empty()) outputs[0] = fmt::format("{} // 2", inputs[0]);  // no bijection
  return fmt::format("({}) -> ({})", fmt::join(inputs, ", "), fmt::join(outputs, ", "));
}

bool transform_layout(Attempt& a) {
  const auto block = a.any_block();
  const BlockNode* n = block ? a.node(*block) : nullptr;
  if (!n) return false;
  const bool read = !n->reads.empty() && a.chance(50);
  const int64_t index = read ? any_read(a, *block) : 0;
  const auto& regions = read ? n->reads : n->writes;
  if (index >= static_cast<int64_t>(regions.size())) return false;
  std::vector<int64_t> extents;
  for (const Expr& e : regions[static_cast<size_t>(index)].buffer->shape)
    extents.push_back(as_int(e) ? *as_int(e) : -1);
  return a
      .step("transform_layout", {{"block", *block},
                                 {"buffer_index", index},
                                 {"buffer_index_type", read ? "read" : "write"},
                                 {"index_map", random_map(a, extents)},
                                 {"pad", a.chance(80)}})
      .has_value();
}
bool transform_block_layout(Attempt& a) {
  const auto block = a.any_block();
  const BlockNode* n = block ? a.node(*block) : nullptr;
  if (!n || n->iters.empty()) return false;
  std::vector<int64_t> extents;
  for (const IterVar& iter : n->iters) extents.push_back(as_int(iter.extent) ? *as_int(iter.extent) : -1);
  return a.step("transform_block_layout", {{"block", *block}, {"index_map", random_map(a, extents)}}).has_value();
}
bool set_scope(Attempt& a) {
  const auto block = a.any_block();
  return block && a.step("set_scope", {{"block", *block}, {"scope", a.scope()}});
}
bool storage_align(Attempt& a) {
  const auto block = a.any_block();
  if (!block) return false;
  const int f = a.between(1, 16);
  return a
      .step("storage_align", {{"block", *block},
                              {"axis", int64_t{a.between(-1, 2)}},
                              {"factor", int64_t{f}},
                              {"offset", int64_t{a.between(0, f - 1)}}})
      .has_value();
}
bool set_axis_separator(Attempt& a) {
  const auto block = a.any_block();
  return block &&
         a.step("set_axis_separator", {{"block", *block}, {"axis_separators", std::vector<int64_t>{a.between(0, 2)}}});
}
/// Types that hold all that the narrower one holds.
bool set_dtype(Attempt& a) {
  const auto block = a.any_block();
  const BlockNode* n = block ? a.node(*block) : nullptr;
  if (!n || n->writes.empty()) return false;
  const DType t = n->writes[0].buffer->dtype;
  const char* wider = t == kF16 || t == kBF16 ? "f32"
                      : t == kF32             ? "f64"
                      : t == kI8              ? "i16"
                      : t == kI16             ? "i32"
                      : t == kI32             ? "i64"
                      : t == kU8              ? "u32"
                                              : nullptr;
  return wider && a.step("set_dtype", {{"block", *block}, {"dtype", wider}});
}

// --- tensor units ---

bool blockize(Attempt& a) {
  const auto loop = a.any_loop();
  return loop && a.step("blockize", {{"loop", *loop}});
}
bool tensorize(Attempt& a) {
  const auto block = a.any_block();
  if (!block) return false;
  const auto intrinsics = tensor_intrinsics();
  const std::string name(intrinsics[a.r.below(intrinsics.size())]->name);
  if (a.chance(20)) return a.step("tensorize", {{"target", StepRef(*block)}, {"intrinsic", name}}).has_value();
  const auto loop = a.loop_of(*block);
  return loop && a.step("tensorize", {{"target", StepRef(*loop)}, {"intrinsic", name}});
}
/// A product in tiles of 2 x 4 x 4, which the scalar intrinsic of tests computes.
bool tensorize_product(Attempt& a) {
  const auto block = a.any_block([](const BlockNode& b) { return b.init && b.iters.size() == 3; });
  const BlockNode* n = block ? a.node(*block) : nullptr;
  if (!n || n->iters[2].kind != IterKind::kReduce) return false;
  if (!a.step("pad_einsum", {{"block", *block}, {"padding", std::vector<int64_t>{2, 4, 4}}})) return false;
  const auto loops = a.loops_of(*block);
  if (loops.size() != 3) return true;
  std::vector<LoopRef> outer, inner;
  for (size_t i = 0; i < 3; ++i) {
    const auto parts = a.step(
        "split", {{"loop", loops[i]}, {"factors", factor_list({kInfer, i == 0 ? 2 : 4})}, {"tail", Tail::kGuard}});
    if (!parts) return true;
    outer.push_back(a.s.loops_of(*parts)[0]);
    inner.push_back(a.s.loops_of(*parts)[1]);
  }
  outer.insert(outer.end(), inner.begin(), inner.end());
  if (!a.step("reorder", {{"loops", loop_list(outer)}})) return true;
  a.step("decompose_reduction", {{"block", *block}, {"loop", outer[2]}});
  a.step("tensorize", {{"target", StepRef(inner[0])}, {"intrinsic", "scalar_matmul_f32"}});
  return true;
}
bool pad_einsum(Attempt& a) {
  const auto block = a.any_block([&a](const BlockNode& b) { return b.init || a.chance(10); });
  const BlockNode* n = block ? a.node(*block) : nullptr;
  if (!n) return false;
  std::vector<int64_t> padding;
  for (size_t i = 0; i < n->iters.size(); ++i) padding.push_back(a.one_of(std::vector<int64_t>{1, 2, 4, 8, 16}));
  return a.step("pad_einsum", {{"block", *block}, {"padding", padding}}).has_value();
}

}  // namespace fettle::fuzz::actions
