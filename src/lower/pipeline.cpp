// Lowering, pass by pass: this file is the table of contents.
#include "lower/pipeline.h"

#include <algorithm>
#include <array>
#include <type_traits>

#include "ir/annotations.h"
#include "ir/rewrite.h"
#include "lower/passes/decoupled_passes.h"
#include "lower/passes/passes.h"

namespace fettle {
namespace {

// --- passes as entries of the lists -------------------------------------------------------------------------------

Result<Func> become(const Func&, Result<Func> made) { return made; }
Result<Func> become(const Func& func, Result<Stmt> made) {
  FETTLE_TRY(const Stmt body, std::move(made));
  return with_body(func, body);
}

/// `pass` on each Func: from Func to Func or from body to body, perhaps for a target; it may fail.
template <auto pass>
Result<> each(LoweredKernel& lowered, const LoweringContext& context) {
  using Pass = decltype(pass);
  const auto apply = [&](const Func& func) {
    if constexpr (std::is_invocable_v<Pass, const Func&>)
      return pass(func);
    else if constexpr (std::is_invocable_v<Pass, const Func&, const Target&>)
      return pass(func, context.target);
    else if constexpr (std::is_invocable_v<Pass, const Stmt&>)
      return pass(func->body);
    else
      return pass(func->body, context.target);
  };
  for (IrModule* module : {&lowered.kernel, &lowered.prologue})
    for (auto& [name, func] : module->funcs) {
      FETTLE_TRY(func, become(func, apply(func)));
    }
  return {};
}

Result<> check_axes(LoweredKernel& lowered, const LoweringContext& context) {
  return check_thread_axes(lowered.kernel.funcs.at(lowered.kernel.entry), context.target);
}

Result<> split(LoweredKernel& lowered, const LoweringContext& context) {
  Func& kernel = lowered.kernel.funcs.at(lowered.kernel.entry);
  const PrologueSplit split = split_prologue(kernel);
  kernel = split.main;
  lowered.kernel_params = split.main->params;
  if (!split.prologue || !context.options.prologue) return {};
  lowered.prologue.entry = split.prologue->name;
  lowered.prologue.funcs[split.prologue->name] = split.prologue;
  lowered.prologue_params = split.prologue->params;
  return {};
}

Result<> outline(LoweredKernel& lowered, const LoweringContext&) {
  for (IrModule* module : {&lowered.kernel, &lowered.prologue})
    if (!module->entry.empty()) *module = outline_micro_kernels(module->funcs.at(module->entry));
  return {};
}

Result<> place(LoweredKernel& lowered, const LoweringContext& context) {
  for (IrModule* module : {&lowered.kernel, &lowered.prologue}) {
    FETTLE_TRY(*module, place_tiles(*module, context.target));
  }
  return {};
}

/// The prologue runs once, forwards.
Result<> alternate(LoweredKernel& lowered, const LoweringContext&) {
  Func& kernel = lowered.kernel.funcs.at(lowered.kernel.entry);
  kernel = alternate_loops(kernel);
  lowered.int_params = kernel->int_params;
  return {};
}

Func compact(const Func& func) { return compact_buffers(func); }

Func cascade(const Func& func) { return cascade_sums(func); }

Func tighten(const Func& func) { return with_body(func, tighten_loops(func->body, func->int_params)); }

// Zen 3 stores under a mask of AVX2 in some twenty cycles; other instruction sets have no such store at all.
Func dispatch(const Func& func, const Target& target) {
  return dispatch_micro_kernels(func, /*lanes_too=*/!target.has_feature("avx512f"));
}

// Of programs that run in order: no others have recurrences.
template <Stmt (*pass)(const Stmt&)>
Func in_order(const Func& func) {
  return func->annotations.get_int(kInOrderKey, 0) != 0 ? with_body(func, pass(func->body)) : func;
}

// --- the lists ----------------------------------------------------------------------------------------------------

using Pass = LoweringPass;

template <size_t... n>
constexpr auto concatenated(const std::array<Pass, n>&... parts) {
  std::array<Pass, (n + ...)> all{};
  auto* at = all.data();
  ((at = std::copy(parts.begin(), parts.end(), at)), ...);
  return all;
}

/// Blocks, and what the schedule asked of loops, become loops with flat accesses and as few guards as can be.
constexpr std::array kBegin = std::to_array<Pass>({
    {"bind_threads", each<bind_threads>},
    {"split_prologue", split},
    {"mark_pipelines", each<mark_pipelines>},
    {"note_carried_buffers", each<note_carried_buffers>},
    {"note_scans", each<note_scans>},
    {"flatten_blocks", each<flatten_blocks>},
});
constexpr std::array kAccesses = std::to_array<Pass>({
    {"compact_buffers", each<compact>},
    {"pipeline_loops", each<pipeline_loops>},
    {"drop_private_guards", each<drop_private_guards>},  // tails only: the guards of values come next
    {"annihilate_guards", each<annihilate_guards>},
    {"tighten_loops", each<tighten>},
    {"hoist_updates", each<hoist_updates>},
    {"flatten_accesses", each<flatten_accesses>},
    {"peel_tails", each<peel_tails>},
    {"cascade_sums", each<cascade>},
});
/// Micro-kernels become functions of their own.
constexpr std::array kMicroKernels = std::to_array<Pass>({
    {"dispatch_micro_kernels", each<dispatch>},
    {"tighten_loops", each<tighten>},
    {"split_turns", each<split_turns>},
    {"fold_control", each<fold_control>},
    {"alternate_loops", alternate},
    {"insert_prefetches", each<insert_prefetches>},
    {"prefetch_epilogues", each<prefetch_epilogues>},
    {"outline_micro_kernels", outline},
});
constexpr std::array kPrefetches = std::to_array<Pass>({
    {"insert_prefetches", each<insert_prefetches>},
    {"prefetch_epilogues", each<prefetch_epilogues>},
});
/// Lanes, copies, and the tiles of tensor units.
constexpr std::array kCode = std::to_array<Pass>({
    {"substitute_tensor_intrinsics", each<substitute_tensor_intrinsics>},
    {"transpose_tiles", each<transpose_tiles>},
    {"vectorize_loops", each<vectorize_loops>},
    {"unroll_loops", each<unroll_loops>},
    {"carry_vectors", each<in_order<carry_vectors>>},
    {"transpose_turns", each<in_order<transpose_turns>>},
    {"prefetch_columns", each<prefetch_columns>},
    {"relax_lane_masks", each<relax_lane_masks>},
    {"place_tiles", place},
    {"collapse_parallel", each<collapse_parallel>},
});
/// As they are for those who read the loops themselves.
constexpr std::array kLoops = std::to_array<Pass>({
    {"expand_tensor_tiles", each<expand_tensor_tiles>},
    {"transpose_tiles", each<transpose_tiles>},
    {"place_tiles", place},
});

constexpr auto kFull = concatenated(kBegin, kAccesses, kMicroKernels, kCode);
constexpr auto kWhole = concatenated(kBegin, kAccesses, kPrefetches, kCode);
constexpr auto kUnexpanded = concatenated(kBegin, kAccesses, kMicroKernels, kLoops);
constexpr auto kUnexpandedWhole = concatenated(kBegin, kAccesses, kPrefetches, kLoops);
constexpr auto kScalar =
    concatenated(kBegin, std::to_array<Pass>({{"serialize_lanes", each<serialize_lanes>}}), kAccesses,
                 std::to_array<Pass>({
                     {"substitute_tensor_intrinsics", each<substitute_tensor_intrinsics>},
                     {"vectorize_loops", each<vectorize_loops>},
                     {"fold_control", each<fold_control>},
                 }));
constexpr std::array kPlain = std::to_array<Pass>({
    {"note_carried_buffers", each<note_carried_buffers>},
    {"flatten_blocks", each<flatten_blocks>},
    {"forget_annotations", each<forget_annotations>},
    {"compact_buffers", each<compact>},
    {"annihilate_guards", each<annihilate_guards>},
    {"tighten_loops", each<tighten>},
    {"flatten_accesses", each<flatten_accesses>},
    {"cascade_sums", each<cascade>},
    {"vectorize_loops", each<vectorize_loops>},
    {"unroll_loops", each<unroll_loops>},
    {"relax_lane_masks", each<relax_lane_masks>},
});

constexpr std::array kDecoupled = std::to_array<Pass>({
    {"check_axes", check_axes},
    {"mark_pipelines", each<mark_pipelines>},
    {"flatten_blocks", each<flatten_blocks>},
    {"serialize_loops", each<serialize_loops>},
    {"compact_buffers", each<compact>},
    {"pipeline_loops", each<pipeline_loops>},
    {"tighten_loops", each<tighten>},
    {"flatten_accesses", each<flatten_accesses>},
    {"fold_control", each<fold_control>},
    {"issue_tasks", each<issue_tasks>},
    {"interleave_virtual_threads", each<interleave_virtual_threads>},
    {"flatten_accesses", each<flatten_accesses>},  // what the copies of virtual threads made constant
});

Pipeline without_micro_kernels(Pipeline pipeline) {
  if (pipeline == Pipeline::kFull) return Pipeline::kWhole;
  return pipeline == Pipeline::kUnexpanded ? Pipeline::kUnexpandedWhole : pipeline;
}

Result<> run(std::span<const Pass> passes, LoweredKernel& lowered, const LoweringContext& context) {
  for (const Pass& pass : passes) {
    FETTLE_TRY_VOID(pass.run(lowered, context));
    if (context.options.after) context.options.after(pass.name, lowered);
  }
  return {};
}

}  // namespace

std::span<const LoweringPass> lowering_passes(Pipeline pipeline) {
  static constexpr std::span<const Pass> lists[] = {kFull,   kWhole, kUnexpanded, kUnexpandedWhole,
                                                    kScalar, kPlain, kDecoupled};
  return lists[static_cast<size_t>(pipeline)];
}

Result<LoweredKernel> lower(const Func& scheduled, const Target& target, const LowerOptions& options) {
  const LoweringContext context{target, options};
  LoweredKernel lowered;
  lowered.kernel.entry = scheduled->name;
  lowered.kernel.funcs[scheduled->name] = scheduled;
  lowered.kernel_params = scheduled->params;
  lowered.int_params = scheduled->int_params;
  std::span<const Pass> passes = lowering_passes(options.pipeline);
  if (options.whole) {
    // What both lists begin with is done once.
    const auto apart = lowering_passes(without_micro_kernels(options.pipeline));
    const auto same = [](const Pass& a, const Pass& b) { return a.run == b.run; };
    const auto n = static_cast<size_t>(std::ranges::mismatch(passes, apart, same).in1 - passes.begin());
    FETTLE_TRY_VOID(run(passes.first(n), lowered, context));
    passes = passes.subspan(n);
    LoweredKernel whole;
    whole.kernel = lowered.kernel;
    FETTLE_TRY_VOID(run(apart.subspan(n), whole, context));
    lowered.whole = whole.kernel.funcs.at(whole.kernel.entry);
  }
  FETTLE_TRY_VOID(run(passes, lowered, context));
  return lowered;
}

}  // namespace fettle
