#include "tests/fuzz/steps.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "analysis/verify.h"
#include "base/check.h"
#include "ir/text.h"
#include "ir/visit.h"
#include "schedule/edit.h"
#include "schedule/reformulation.h"
#include "schedule/sampling.h"
#include "target/tensor_intrinsic.h"

namespace fettle::fuzz {
namespace {

/// One attempt: the schedule as it grows, and how each step went.
class Attempt {
 public:
  Attempt(Schedule s, RandomStream& r, const Tried& tried) : s(std::move(s)), r(r), tried_(tried) {}

  Schedule s;
  RandomStream& r;

  // --- choices ---
  int between(int low, int high) { return low + static_cast<int>(r.below(static_cast<uint64_t>(high - low + 1))); }
  bool chance(int percent) { return static_cast<int>(r.below(100)) < percent; }
  template <class T>
  const T& one_of(const std::vector<T>& list) {
    return list[r.below(list.size())];
  }
  template <class T>
  void shuffle(std::vector<T>& list) {
    for (size_t i = list.size(); i-- > 1;) std::swap(list[i], list[r.below(i + 1)]);
  }

  // --- steps ---
  struct Arg {
    Arg(std::string_view n, ArgValue v) : named{n, std::move(v)} {}
    template <class T>
    Arg(std::string_view n, const T& v) : named{n, to_arg(v)} {}
    Arg(std::string_view n, const char* v) : named{n, to_arg(std::string(v))} {}
    NamedArg named;
  };
  /// The step's number, or nothing if it was refused.
  std::optional<int> step(const char* name, const std::vector<Arg>& args) {
    const PrimitiveDef* def = find_primitive(name);
    FETTLE_CHECK_MSG(def, name);
    std::vector<NamedArg> named;
    for (const Arg& arg : args) named.push_back(arg.named);
    auto typed = def->from_args(named);
    FETTLE_CHECK_MSG(typed.has_value(), std::string(name) + ": " + (typed ? "" : typed.error().to_string()));
    const auto done = s.step_erased(*def, *typed);
    tried_(*def, done ? ErrorCode::kNone : done.error().code);
    if (!done) return std::nullopt;
    return *done;
  }

  // --- what there is ---
  std::vector<const BlockNode*> blocks() const {
    std::vector<const BlockNode*> all;
    walk(s.func()->body, [&](const Stmt& x) {
      if (const auto* b = x.as<BlockNode>(); b && b != &s.func().root()) all.push_back(b);
      return true;
    });
    return all;
  }
  const BlockNode* node(const BlockRef& ref) const {
    const auto found = s.block(ref);
    return found ? found->as<BlockNode>() : nullptr;
  }
  const ForNode* node(const LoopRef& ref) const {
    const auto found = s.loop(ref);
    return found ? found->as<ForNode>() : nullptr;
  }
  std::optional<BlockRef> block_named(const std::string& name) {
    const auto number = step("get_block", {{"name", name}});
    if (!number) return std::nullopt;
    return s.blocks_of(*number).at(0);
  }
  std::optional<BlockRef> any_block(const std::function<bool(const BlockNode&)>& fits = nullptr) {
    std::vector<std::string> names;
    for (const BlockNode* b : blocks())
      if (!fits || fits(*b)) names.push_back(b->name);
    if (names.empty()) return std::nullopt;
    return block_named(one_of(names));
  }
  std::vector<LoopRef> loops_of(const BlockRef& block) {
    const auto number = step("get_loops", {{"block", block}});
    return number ? s.loops_of(*number) : std::vector<LoopRef>{};
  }
  std::optional<LoopRef> any_loop(const std::function<bool(const ForNode&)>& fits = nullptr) {
    const auto block = any_block();
    if (!block) return std::nullopt;
    return loop_of(*block, fits);
  }
  std::optional<LoopRef> loop_of(const BlockRef& block, const std::function<bool(const ForNode&)>& fits = nullptr) {
    std::vector<LoopRef> fitting;
    for (const LoopRef& loop : loops_of(block))
      if (const ForNode* n = node(loop); n && (!fits || fits(*n))) fitting.push_back(loop);
    if (fitting.empty()) return std::nullopt;
    return one_of(fitting);
  }
  int64_t extent(const LoopRef& loop) {
    const ForNode* n = node(loop);
    const int64_t* value = n ? as_int(n->extent) : nullptr;
    return value ? *value : -1;
  }
  std::string scope() {
    if (chance(25)) return "register";
    if (s.target()->has_threads() && chance(60)) return chance(70) ? "shared" : "local";
    return chance(3) ? "nowhere" : "global";
  }
  Tail tail() { return static_cast<Tail>(between(0, 6)); }
  int64_t factor() { return one_of(std::vector<int64_t>{1, 2, 2, 3, 4, 4, 5, 6, 7, 8, 8, 16, 32}); }
  std::string fresh_name() { return fmt::format("d{}", s.trace().size()); }

 private:
  const Tried& tried_;
};

ArgValue loop_list(const std::vector<LoopRef>& loops) {
  return to_arg(std::vector<StepRef>(loops.begin(), loops.end()));
}
ArgValue factor_list(const std::vector<IntRef>& factors) { return to_arg(factors); }

using Action = bool (*)(Attempt&);  // true: the program changed, or a decision was made

bool is_serial(const ForNode& loop) { return loop.loop_kind == ForKind::kSerial; }

// --- loops ---

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

bool sampled_split(Attempt& a, const char* name, std::vector<Attempt::Arg> more, int parts, bool exact) {
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
  return a.step("vectorize", {{"loop", a.chance(75) ? loops.back() : a.one_of(loops)}}).has_value();
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

// --- staging ---

int64_t any_read(Attempt& a, const BlockRef& block) {
  const BlockNode* n = a.node(block);
  return n ? a.between(0, std::max(0, static_cast<int>(n->reads.size()) - (a.chance(95) ? 1 : 0))) : 0;
}

bool cache_read(Attempt& a) {
  const auto block = a.any_block([](const BlockNode& b) { return !b.reads.empty(); });
  if (!block) return false;
  std::vector<StepRef> others;
  if (a.chance(20))
    if (const auto other = a.any_block()) others.push_back(*other);
  return a
      .step("cache_read",
            {{"block", *block}, {"read_index", any_read(a, *block)}, {"scope", a.scope()}, {"consumer_blocks", others}})
      .has_value();
}
bool cache_write(Attempt& a) {
  const auto block = a.any_block();
  return block && a.step("cache_write", {{"block", *block}, {"scope", a.scope()}});
}
bool cache_inplace(Attempt& a) {
  const auto block = a.any_block([](const BlockNode& b) { return static_cast<bool>(b.init); });
  if (!block) return false;
  const auto loop = a.loop_of(*block);
  return loop && a.step("cache_inplace", {{"block", *block}, {"loop", *loop}, {"scope", a.scope()}});
}
bool cache_index(Attempt& a) {
  const auto block = a.any_block();
  return block && a.step("cache_index", {{"block", *block}, {"scope", a.scope()}});
}
bool reindex(Attempt& a) {
  const auto block = a.any_block();
  if (!block) return false;
  const bool read = a.chance(60);
  return a
      .step("reindex", {{"block", *block},
                        {"buffer_index", read ? any_read(a, *block) : int64_t{0}},
                        {"buffer_index_type", read ? "read" : "write"}})
      .has_value();
}

/// A permutation of the iterators that the region's accesses use.
std::optional<std::string> map_of_used(Attempt& a, const BlockNode& block, const std::vector<Region>& regions,
                                       int64_t index) {
  if (index < 0 || index >= static_cast<int64_t>(regions.size())) return std::nullopt;
  const BufferNode* buffer = regions[static_cast<size_t>(index)].buffer.get();
  std::vector<std::string> inputs, outputs;
  for (size_t i = 0; i < block.iters.size(); ++i) {
    inputs.push_back(fmt::format("x{}", i));
    bool used = false;
    const auto look = [&](const BufferNode* of, const std::vector<Expr>& at) {
      if (of != buffer) return;
      for (const Expr& e : at) used |= uses_var(e, block.iters[i].var.get());
    };
    walk(
        block.body,
        [&](const Stmt& x) {
          if (const auto* st = x.as<StoreNode>()) look(st->buffer.get(), st->indices);
          return true;
        },
        [&](const Expr& e) {
          if (const auto* l = e.as<LoadNode>()) look(l->buffer.get(), l->indices);
          return true;
        });
    if (used || a.chance(3)) outputs.push_back(inputs.back());
  }
  if (inputs.empty() || outputs.empty()) return std::nullopt;
  a.shuffle(outputs);
  if (outputs.size() >= 2 && a.chance(20)) {  // two in one
    for (size_t i = 0; i < block.iters.size(); ++i) {
      const int64_t* e = as_int(block.iters[i].extent);
      if (!e || inputs[i] != outputs[1]) continue;
      outputs[0] = fmt::format("{} * {} + {}", outputs[0], *e, outputs[1]);
      outputs.erase(outputs.begin() + 1);
      break;
    }
  }
  return fmt::format("({}) -> ({})", fmt::join(inputs, ", "), fmt::join(outputs, ", "));
}
bool reindex_cache_read(Attempt& a) {
  const auto block = a.any_block([](const BlockNode& b) { return !b.reads.empty(); });
  if (!block) return false;
  const int64_t index = any_read(a, *block);
  const BlockNode* n = a.node(*block);
  const auto map = n ? map_of_used(a, *n, n->reads, index) : std::nullopt;
  return map && a.step("reindex_cache_read",
                       {{"block", *block}, {"read_index", index}, {"scope", a.scope()}, {"index_map", *map}});
}
bool reindex_cache_write(Attempt& a) {
  const auto block = a.any_block();
  const BlockNode* n = block ? a.node(*block) : nullptr;
  const auto map = n ? map_of_used(a, *n, n->writes, 0) : std::nullopt;
  return map && a.step("reindex_cache_write",
                       {{"block", *block}, {"write_index", int64_t{0}}, {"scope", a.scope()}, {"index_map", *map}});
}
bool read_at(Attempt& a) {
  const auto block = a.any_block([](const BlockNode& b) { return !b.reads.empty(); });
  if (!block) return false;
  const auto loop = a.loop_of(*block);
  return loop &&
         a.step("read_at",
                {{"loop", *loop}, {"block", *block}, {"read_index", any_read(a, *block)}, {"scope", a.scope()}});
}
bool write_at(Attempt& a) {
  const auto block = a.any_block();
  if (!block) return false;
  const auto loop = a.loop_of(*block);
  return loop && a.step("write_at", {{"loop", *loop}, {"block", *block}, {"scope", a.scope()}});
}

// --- layout and storage ---

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

// --- moving ---

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

// --- latency, notes ---

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

/// The steps of a register kernel: tiles, accumulators, lanes; with or without blocking of the reduction.
bool register_kernel(Attempt& a) {
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

struct Entry {
  const char* primitive;  // that it is for; null: several in their order
  int weight;
  Action action;
};
constexpr Entry kEntries[] = {
    {"split", 12, split},
    {"tile", 4, tile},
    {"fuse", 6, fuse},
    {"merge", 4, merge},
    {"reorder", 8, reorder},
    {"loop_partition", 4, loop_partition},
    {"add_unit_loop", 2, add_unit_loop},
    {"reorder_block_iter_var", 2, reorder_block_iter_var},
    {"parallel", 5, parallel},
    {"vectorize", 8, vectorize},
    {"unroll", 6, unroll},
    {"bind", 3, bind},
    {"pragma", 2, pragma},
    {"prefetch", 2, prefetch},
    {"cache_read", 5, cache_read},
    {"cache_write", 5, cache_write},
    {"cache_inplace", 4, cache_inplace},
    {"cache_index", 3, cache_index},
    {"reindex", 3, reindex},
    {"reindex_cache_read", 3, reindex_cache_read},
    {"reindex_cache_write", 3, reindex_cache_write},
    {"read_at", 4, read_at},
    {"write_at", 4, write_at},
    {"transform_layout", 5, transform_layout},
    {"transform_block_layout", 4, transform_block_layout},
    {"set_scope", 3, set_scope},
    {"rolling_buffer", 2, rolling_buffer},
    {"sample_split", 2, sample_split},
    {"storage_align", 3, storage_align},
    {"set_axis_separator", 2, set_axis_separator},
    {"set_dtype", 2, set_dtype},
    {"blockize", 4, blockize},
    {"tensorize", 2, tensorize},
    {"pad_einsum", 4, pad_einsum},
    {"compute_at", 8, compute_at},
    {"reverse_compute_at", 8, reverse_compute_at},
    {"compute_inline", 5, compute_inline},
    {"reverse_compute_inline", 5, reverse_compute_inline},
    {"fuse_reduction_epilogue", 3, fuse_reduction_epilogue},
    {"decompose_reduction", 6, decompose_reduction},
    {"rfactor", 5, rfactor},
    {"decompose_padding", 4, decompose_padding},
    {"reformulate", 1, reformulate},
    {"software_pipeline", 2, software_pipeline},
    {"double_buffer", 3, double_buffer},
    {"annotate", 1, annotate},
    {"unannotate", 1, annotate},
    {"annotate_buffer_access", 3, annotate_buffer_access},
    {"sample_categorical", 2, sample_categorical},
    {"sample_perfect_tile", 3, sample_perfect_tile},
    {"sample_partitioned_tile", 2, sample_partitioned_tile},
    {"sample_tile", 3, sample_tile},
    {"sample_compute_location", 3, sample_compute_location},
    {"get_block", 0, queries},
    {"get_loops", 0, queries},
    {"get_child_blocks", 1, queries},
    {"get_producers", 0, queries},
    {"get_consumers", 0, queries},
    {"get_output_blocks", 0, queries},
    {nullptr, 8, register_kernel},
    {nullptr, 3, tensorize_product},
    {nullptr, 3, pipelined_reads},
    {nullptr, 4, rolled_producer},
};

/// Moves the references of an argument to the steps that are left; false if one is gone.
bool renumber(ArgValue& arg, const std::vector<int>& now) {
  const auto move = [&](StepRef& ref) {
    if (ref.step < 0 || static_cast<size_t>(ref.step) >= now.size() || now[static_cast<size_t>(ref.step)] < 0)
      return false;
    ref.step = now[static_cast<size_t>(ref.step)];
    return true;
  };
  if (auto* ref = std::get_if<StepRef>(&arg.value)) return move(*ref);
  if (auto* product = std::get_if<ArgValue::Product>(&arg.value)) {
    for (StepRef& ref : product->factors)
      if (!move(ref)) return false;
  }
  if (auto* list = std::get_if<std::vector<ArgValue>>(&arg.value)) {
    for (ArgValue& item : *list)
      if (!renumber(item, now)) return false;
  }
  return true;
}

}  // namespace

std::vector<std::string_view> generated_primitives() {
  std::vector<std::string_view> names;
  for (const Entry& entry : kEntries)
    if (entry.primitive) names.emplace_back(entry.primitive);
  return names;
}

Made random_schedule(const Func& func, const std::shared_ptr<const Target>& target, uint64_t seed, int actions,
                     const Tried& tried) {
  RandomStream r{seed, 0x73746570};
  Schedule start(func, seed);
  start.set_target(target);
  Made made{start, 0};
  int total = 0;
  for (const Entry& entry : kEntries) total += entry.weight;
  Schedule current = start;
  for (int i = 0; i < actions; ++i) {
    Attempt attempt(current, r, tried);
    bool done = false;
    if (i == 0 && r.below(100) < 15) {  // reformulations come first
      done = reformulate(attempt);
    } else if (target->has_threads() && attempt.chance(35)) {
      done = thread_kernel(attempt);
    } else {
      int at = static_cast<int>(r.below(static_cast<uint64_t>(total)));
      for (const Entry& entry : kEntries) {
        at -= entry.weight;
        if (at >= 0) continue;
        done = entry.action(attempt);
        break;
      }
    }
    if (!done) continue;
    current = std::move(attempt.s);
    if (!verify(current.func(), *target)) continue;
    made.schedule = current;
  }
  for (const auto& step : made.schedule.trace().steps) made.applied += !step->def->queries;
  return made;
}

Schedule replay_without(const Func& func, const std::shared_ptr<const Target>& target, const ParsedTrace& trace,
                        const std::vector<bool>& dropped) {
  Schedule s(func, 0);
  s.set_target(target);
  std::vector<int> now(trace.steps.size(), -1);
  for (size_t i = 0; i < trace.steps.size(); ++i) {
    if (dropped[i]) continue;
    const ParsedStep& step = trace.steps[i];
    std::vector<NamedArg> args = step.def->to_args(step.args.get());
    bool fine = true;
    for (NamedArg& arg : args) fine = fine && renumber(arg.value, now);
    if (!fine) continue;
    const auto typed = step.def->from_args(args);
    if (!typed) continue;
    const auto done = step.def->samples ? s.step_recorded(*step.def, *typed, step.address, step.decision)
                                        : s.step_erased(*step.def, *typed);
    if (done) now[i] = *done;
  }
  return s;
}

}  // namespace fettle::fuzz
