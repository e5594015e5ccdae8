#pragma once
// What an attempt at a random schedule is made with, and all actions: each is one step with random arguments, or
// several steps that belong together. steps.cpp says how often each is tried.

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "base/random.h"
#include "ir/visit.h"
#include "schedule/sampling.h"
#include "schedule/schedule.h"
#include "target/target.h"
#include "tests/fuzz/steps.h"

namespace fettle::fuzz {

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

namespace actions {

inline ArgValue loop_list(const std::vector<LoopRef>& loops) {
  return to_arg(std::vector<StepRef>(loops.begin(), loops.end()));
}
inline ArgValue factor_list(const std::vector<IntRef>& factors) { return to_arg(factors); }

inline bool is_serial(const ForNode& loop) { return loop.loop_kind == ForKind::kSerial; }

/// One of the block's reads, now and then one too many.
int64_t any_read(Attempt& a, const BlockRef& block);
/// A random map of indices with these extents (-1: unknown): an order, and perhaps an index in two, or two in one.
std::string random_map(Attempt& a, const std::vector<int64_t>& extents);

// True: the program changed, or a decision was made.
bool split(Attempt& a);
bool sample_perfect_tile(Attempt& a);
bool sample_partitioned_tile(Attempt& a);
bool sample_tile(Attempt& a);
bool sample_categorical(Attempt& a);
bool sample_compute_location(Attempt& a);
bool sample_split(Attempt& a);
bool tile(Attempt& a);
bool fuse(Attempt& a);
bool merge(Attempt& a);
bool reschedule(Attempt& a);
bool reorder(Attempt& a);
bool loop_partition(Attempt& a);
bool add_unit_loop(Attempt& a);
bool reorder_block_iter_var(Attempt& a);
bool parallel(Attempt& a);
bool vectorize(Attempt& a);
bool unroll(Attempt& a);
bool bind(Attempt& a);
bool pragma(Attempt& a);
bool prefetch(Attempt& a);
bool cache_read(Attempt& a);
bool cache_write(Attempt& a);
bool cache_inplace(Attempt& a);
bool cache_index(Attempt& a);
bool reindex(Attempt& a);
bool reindex_cache_read(Attempt& a);
bool reindex_cache_write(Attempt& a);
bool read_at(Attempt& a);
bool write_at(Attempt& a);
bool transform_layout(Attempt& a);
bool transform_block_layout(Attempt& a);
bool set_scope(Attempt& a);
bool storage_align(Attempt& a);
bool set_axis_separator(Attempt& a);
bool set_dtype(Attempt& a);
bool blockize(Attempt& a);
bool tensorize(Attempt& a);
bool tensorize_product(Attempt& a);
bool pad_einsum(Attempt& a);
bool compute_at(Attempt& a);
bool reverse_compute_at(Attempt& a);
bool repeated_sum(Attempt& a);
bool compute_inline(Attempt& a);
bool reverse_compute_inline(Attempt& a);
bool fuse_reduction_epilogue(Attempt& a);
bool decompose_reduction(Attempt& a);
bool rfactor(Attempt& a);
bool decompose_padding(Attempt& a);
bool reformulate(Attempt& a);
bool software_pipeline(Attempt& a);
bool double_buffer(Attempt& a);
bool pipelined_reads(Attempt& a);
bool rolling_buffer(Attempt& a);
bool rolled_producer(Attempt& a);
bool annotate(Attempt& a);
bool annotate_buffer_access(Attempt& a);
bool queries(Attempt& a);
bool micro_kernel(Attempt& a);
bool thread_kernel(Attempt& a);
bool tensor_kernel(Attempt& a);

}  // namespace actions
}  // namespace fettle::fuzz
