// Steps on loops: their shapes, orders and kinds; decisions.
#include "tests/fuzz/actions.h"

namespace fettle::fuzz::actions {

bool split(Attempt& a) {
  const auto loop = a.any_loop(is_serial);
  if (!loop) return false;
  std::vector<IntRef> factors;
  const int parts = a.between(2, 3);
  const int64_t extent = a.extent(*loop);
  factors.push_back(a.chance(80) ? kInfer : a.factor());
  for (int i = 1; i < parts; ++i) factors.push_back(a.factor());
  if (a.chance(20)) std::swap(factors[0], factors.back());
  if (a.chance(10) && extent > 0) factors = {IntRef(extent), IntRef(1)};
  return a.step("split", {{"loop", *loop}, {"factors", factor_list(factors)}, {"tail", a.tail()}}).has_value();
}

static bool sampled_split(Attempt& a, const char* name, std::vector<Attempt::Arg> more, int parts, bool exact) {
  const auto loop = a.any_loop(is_serial);
  if (!loop) return false;
  std::vector<Attempt::Arg> args{{"loop", *loop}, {"n", int64_t{parts}}, {"name", a.fresh_name()}};
  for (auto& arg : more) args.push_back(std::move(arg));
  const auto drawn = a.step(name, args);
  if (!drawn) return false;
  std::vector<IntRef> factors;
  for (const ValueRef& v : a.s.values_of(*drawn)) factors.push_back(v);
  a.step(
      "split",
      {{"loop", *loop}, {"factors", factor_list(factors)}, {"tail", exact && a.chance(60) ? Tail::kExact : a.tail()}});
  return true;
}
bool sample_perfect_tile(Attempt& a) {
  return sampled_split(a, "sample_perfect_tile", {{"max_innermost", int64_t{a.between(0, 16)}}}, a.between(1, 3), true);
}
bool sample_partitioned_tile(Attempt& a) {
  const int n = a.between(1, 3);
  return sampled_split(a, "sample_partitioned_tile",
                       {{"partition_pos", int64_t{a.between(0, n)}}, {"innerpart_factor", a.factor()}}, n, true);
}
bool sample_tile(Attempt& a) {
  const auto position = static_cast<TilePosition>(a.between(0, 3));
  return sampled_split(a, "sample_tile", {{"innermost", position}, {"element_bytes", 4}}, a.between(1, 3), false);
}
bool sample_categorical(Attempt& a) {
  const auto drawn = a.step("sample_categorical", {{"candidates", std::vector<int64_t>{2, 3, 4, 8}},
                                                   {"probabilities", std::vector<double>{0.2, 0.3, 0.3, 0.2}},
                                                   {"name", a.fresh_name()}});
  if (!drawn) return false;
  const auto loop = a.any_loop(is_serial);
  if (loop)
    a.step("split",
           {{"loop", *loop}, {"factors", factor_list({kInfer, a.s.values_of(*drawn).at(0)})}, {"tail", a.tail()}});
  return true;
}
bool sample_compute_location(Attempt& a) {
  const auto block = a.any_block();
  if (!block) return false;
  const auto drawn = a.step("sample_compute_location", {{"block", *block}, {"name", a.fresh_name()}});
  if (!drawn) return false;
  const auto where = a.s.value(a.s.values_of(*drawn).at(0));
  if (where && *where == -2) a.step("compute_inline", {{"block", *block}});
  if (where && *where >= 0) {
    const auto readers = a.step("get_consumers", {{"block", *block}});
    if (readers && !a.s.blocks_of(*readers).empty()) {
      const auto loops = a.loops_of(a.s.blocks_of(*readers)[0]);
      if (*where < static_cast<int64_t>(loops.size()))
        a.step("compute_at", {{"block", *block}, {"loop", loops[static_cast<size_t>(*where)]}});
    }
  }
  return true;
}

bool sample_split(Attempt& a) {
  static const std::vector<std::string> kPolicies = {"factors", "power2", "verbose"};
  return sampled_split(a, "sample_split", {{"policy", a.one_of(kPolicies)}, {"max_factor", int64_t{a.between(0, 8)}}},
                       a.between(1, 3), false);
}

bool tile(Attempt& a) {
  const auto block = a.any_block();
  if (!block) return false;
  auto loops = a.loops_of(*block);
  if (loops.size() < 2) return false;
  const size_t first = a.r.below(loops.size() - 1);
  std::vector<LoopRef> two{loops[first], loops[first + 1]};
  if (a.chance(20)) std::swap(two[0], two[1]);
  return a
      .step("tile", {{"loops", loop_list(two)}, {"factors", factor_list({a.factor(), a.factor()})}, {"tail", a.tail()}})
      .has_value();
}

bool fuse(Attempt& a) {
  const auto block = a.any_block();
  if (!block) return false;
  const auto loops = a.loops_of(*block);
  if (loops.size() < 2) return false;
  const size_t first = a.r.below(loops.size() - 1);
  const size_t count = std::min<size_t>(loops.size() - first, static_cast<size_t>(a.between(2, 3)));
  return a
      .step("fuse", {{"loops", loop_list({loops.begin() + static_cast<long>(first),
                                          loops.begin() + static_cast<long>(first + count)})}})
      .has_value();
}

bool merge(Attempt& a) {
  const auto one = a.any_block(), two = a.any_block();
  if (!one || !two) return false;
  const auto p = a.loops_of(*one), q = a.loops_of(*two);
  const size_t depth = std::min(p.size(), q.size());
  if (depth == 0) return false;
  const size_t level = a.r.below(depth);
  return a.step("merge", {{"loops", loop_list({p[level], q[level]})}}).has_value();
}

bool reorder(Attempt& a) {
  const auto block = a.any_block();
  if (!block) return false;
  auto loops = a.loops_of(*block);
  if (loops.size() < 2) return false;
  a.shuffle(loops);
  loops.resize(static_cast<size_t>(a.between(2, static_cast<int>(loops.size()))));
  return a.step("reorder", {{"loops", loop_list(loops)}}).has_value();
}

bool loop_partition(Attempt& a) {
  const auto loop = a.any_loop();
  if (!loop) return false;
  std::vector<IntRef> sizes{IntRef(a.between(1, 4)), IntRef(kInfer)};
  if (a.chance(40)) sizes.push_back(IntRef(a.between(1, 3)));
  a.shuffle(sizes);
  return a.step("loop_partition", {{"loop", *loop}, {"sizes", factor_list(sizes)}}).has_value();
}

bool add_unit_loop(Attempt& a) {
  const auto block = a.any_block();
  if (!block) return false;
  if (a.chance(50)) return a.step("add_unit_loop", {{"target", StepRef(*block)}}).has_value();
  const auto loop = a.loop_of(*block);
  return loop && a.step("add_unit_loop", {{"target", StepRef(*loop)}});
}

bool reorder_block_iter_var(Attempt& a) {
  const auto block = a.any_block();
  const BlockNode* n = block ? a.node(*block) : nullptr;
  if (!n) return false;
  std::vector<int64_t> order;
  for (size_t i = 0; i < n->iters.size(); ++i) order.push_back(static_cast<int64_t>(i));
  a.shuffle(order);
  if (a.chance(5) && !order.empty()) order[0] = order.back();
  return a.step("reorder_block_iter_var", {{"block", *block}, {"new_order", order}}).has_value();
}

bool parallel(Attempt& a) {
  const auto block = a.any_block();
  if (!block) return false;
  const auto loops = a.loops_of(*block);
  if (loops.empty()) return false;
  return a.step("parallel", {{"loop", a.chance(70) ? loops[0] : a.one_of(loops)}}).has_value();
}
bool vectorize(Attempt& a) {
  const auto block = a.any_block();
  if (!block) return false;
  const auto loops = a.loops_of(*block);
  if (loops.empty()) return false;
  const LoopRef loop = a.chance(75) ? loops.back() : a.one_of(loops);
  if (!a.step("vectorize", {{"loop", loop}})) return false;
  if (a.s.target()->kind == "cuda" && a.chance(50))
    a.step("annotate", {{"target", loop}, {"key", "async_copy"}, {"value", Attribute(int64_t{1})}});
  return true;
}
bool unroll(Attempt& a) {
  const auto loop = a.any_loop([](const ForNode& n) { return as_int(n.extent) && *as_int(n.extent) <= 16; });
  return loop && a.step("unroll", {{"loop", *loop}});
}
bool bind(Attempt& a) {
  static const std::vector<std::string> kAxes = {"vthread",   "vthread.x",   "vthread.y",   "vthread.x",  "vthread.y",
                                                 "vthread.z", "threadIdx.x", "threadIdx.y", "blockIdx.x", "nowhere.x"};
  const auto loop = a.any_loop();
  return loop && a.step("bind", {{"loop", *loop}, {"thread_axis", a.one_of(kAxes)}});
}
bool pragma(Attempt& a) {
  const auto loop = a.any_loop();
  return loop && a.step("pragma", {{"loop", *loop},
                                   {"name", a.chance(95) ? "auto_unroll_max_step" : "no_such"},
                                   {"value", int64_t{a.between(0, 24)}}});
}
bool prefetch(Attempt& a) {
  const auto loop = a.any_loop();
  return loop && a.step("prefetch", {{"loop", *loop}, {"distance", int64_t{a.between(1, 3)}}});
}

}  // namespace fettle::fuzz::actions
