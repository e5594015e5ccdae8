#include <algorithm>
#include <set>

#include "codegen/device/testing.h"
#include "generations/ansor/sketch/loop_annotation.h"
#include "generations/ansor/sketch/sketch.h"
#include "generations/ansor/sketch/test_programs.h"
#include "generations/metaschedule/presets.h"
#include "generations/metaschedule/space_generators.h"
#include "lower/lower.h"
#include "schedule/dataflow/dataflow.h"
#include "schedule/edit/edit.h"
#include "schedule/primitives.h"
#include "schedule/testing.h"
#include "tune/space/test_workloads.h"

namespace fettle {
namespace {

TuneContext context(const char* target, int threads = 2) {
  return {std::make_shared<const Target>(parse_target(target).value()), threads};
}

Schedule start(const Func& func, const TuneContext& c, uint64_t seed = 0) {
  Schedule s(func, seed);
  s.set_target(c.target);
  return s;
}

std::vector<std::string> kinds(const Func& func, ForKind kind) {
  std::vector<std::string> result;
  walk(func->body, [&](const Stmt& s) {
    if (const auto* loop = s.as<ForNode>(); loop && loop->loop_kind == kind) result.push_back(loop->thread_axis);
    return true;
  });
  return result;
}

// --- schedule rules ----------------------------------------------------------------------------------------------

TEST(ScheduleRules, AutoInlineLeavesWhatIsCostlyUnlessToldOtherwise) {
  const auto c = context("x86-64-avx512");
  const Func func = testing::softmax_workload(5, 37);  // M, E = exp(…), S, Y
  const auto strict = auto_inline().apply(c, start(func, c), "E");
  ASSERT_OK(strict);
  EXPECT_NE(find_block(strict->front().func()->body, "E"), nullptr);
  const auto loose = auto_inline({.strict = false}).apply(c, start(func, c), "E");
  ASSERT_OK(loose);
  EXPECT_EQ(find_block(loose->front().func()->body, "E"), nullptr);
  EXPECT_TRUE(testing::same_result(func, loose->front().func()));
  const Func relu = testing::relu_pad_matmul();
  const auto inlined = auto_inline().apply(c, start(relu, c), "B");
  ASSERT_OK(inlined);
  EXPECT_EQ(find_block(inlined->front().func()->body, "B"), nullptr);
}

TEST(ScheduleRules, AutoInlineKeepsAPaddingOrInlinesIt) {
  const auto c = context("x86-64-avx512");
  const Func func = testing::conv_workload({.epilogue = true});
  const auto kept = auto_inline().apply(c, start(func, c), "padded");
  ASSERT_OK(kept);
  ASSERT_EQ(kept->size(), 1u);
  EXPECT_NE(find_block(kept->front().func()->body, "padded"), nullptr);
  const auto both = auto_inline({.operands = true}).apply(c, start(func, c), "padded");
  ASSERT_OK(both);
  ASSERT_EQ(both->size(), 2u);
  EXPECT_NE((*both)[0].func()->body.get(), (*both)[1].func()->body.get());
  EXPECT_NE(find_block((*both)[0].func()->body, "padded"), nullptr);
  EXPECT_EQ(find_block((*both)[1].func()->body, "padded"), nullptr);
  EXPECT_TRUE(testing::same_result(func, (*both)[1].func()));
  const auto other = auto_inline({.operands = true}).apply(c, start(func, c), "O");
  ASSERT_OK(other);
  EXPECT_EQ(other->size(), 1u);
}

TEST(ScheduleRules, InlineConstantScalars) {
  const auto func = parse_func(R"(func f(A: f32[8], B: f32[8] output):
  alloc S: f32[1]
  for i in 1:
    block S(v: spatial[1] = i):
      writes S[v]
      S[v] = 3.0
  for i in 8:
    block B(v: spatial[8] = i):
      reads A[v], S[0]
      writes B[v]
      B[v] = A[v] * S[0]
)");
  ASSERT_TRUE(func) << func.error().to_string();
  const auto c = context("x86-64-avx512");
  const auto next = inline_constant_scalars().apply(c, start(*func, c), "S");
  ASSERT_OK(next);
  EXPECT_EQ(find_block(next->front().func()->body, "S"), nullptr);
  EXPECT_TRUE(testing::same_result(*func, next->front().func()));
  const auto other = inline_constant_scalars().apply(c, start(*func, c), "B");
  ASSERT_OK(other);
  EXPECT_TRUE(other->front().trace().steps.empty());
}

TEST(ScheduleRules, AddRFactorOffersBothParts) {
  const auto c = context("x86-64-avx512", 16);
  const Func func = testing::matmul(2, 2, 512);
  const auto next = add_rfactor().apply(c, start(func, c, 3), "C");
  ASSERT_OK(next);
  EXPECT_EQ(next->size(), 3u);  // as it was, and factored along either part
  for (const Schedule& s : *next) EXPECT_TRUE(testing::same_result(func, s.func()));
  const auto large = add_rfactor().apply(c, start(testing::matmul(64, 64, 64), c), "C");
  ASSERT_OK(large);
  EXPECT_EQ(large->size(), 1u);
}

TEST(ScheduleRules, ReductionsMoveToTheirReadersAsWell) {
  const auto c = context("x86-64-avx512");
  const Func func = testing::softmax_workload(5, 37);  // M, E = exp(…), S, Y
  std::set<int64_t> places;
  for (uint64_t seed = 0; seed < 20; ++seed) {
    const auto next = random_compute_location().apply(c, start(func, c, seed), "M");
    ASSERT_OK(next);
    places.insert(next->front().decisions().begin()->second.list().front());
    EXPECT_TRUE(testing::same_result(func, next->front().func()));
  }
  EXPECT_TRUE(places.contains(0));  // below the loop over the rows of E
}

TEST(Postprocessors, LanesOfAPoolingStandInsideItsWindow) {
  const auto c = context("x86-64-avx512");
  const Func func = testing::pool_workload(9, 9, 40, false, true);
  const auto noted = parallelize_vectorize_unroll().apply(c, start(func, c), blocks_of(func.root()).back()->name);
  ASSERT_OK(noted);
  Schedule s = noted->front();
  ASSERT_OK(rewrite_parallel_vectorize_unroll().apply(c, s));
  ASSERT_OK(rewrite_accumulators().apply(c, s));
  EXPECT_GOLDEN(loops_text(s.func()));
  EXPECT_TRUE(testing::same_result(func, s.func()));
}

TEST(Postprocessors, ProgramsThatAreMostlyCodeAreRefused) {
  const auto c = context("x86-64-avx512");
  Schedule s = start(testing::matmul(16, 16, 16), c);
  const BlockRef block = *get_block(s, {"C"});
  const auto loops = get_loops(s, {block});
  ASSERT_OK(loops);
  EXPECT_OK(verify_code_size().apply(c, s));
  for (const LoopRef& loop : *loops) ASSERT_OK(unroll(s, {.loop = loop}));
  EXPECT_ERROR(verify_code_size().apply(c, s), E230);
}

TEST(ScheduleRules, ApplyCustomRuleGoesByTheNote) {
  const auto c = context("x86-64-avx512");
  const Func func = testing::matmul(8, 8, 8);
  int called = 0;
  ScheduleRule own{"own",
                   [&](const TuneContext&, const Schedule& s, const std::string&) -> Result<std::vector<Schedule>> {
                     ++called;
                     return std::vector{s, s};
                   }};
  const ScheduleRule rule = apply_custom_rule({{"mine", own}});
  Schedule s = start(func, c);
  EXPECT_EQ(rule.apply(c, s, "C")->size(), 1u);
  const BlockRef block = *get_block(s, {"C"});
  ASSERT_OK(annotate(s, {.target = block, .key = "schedule_rule", .value = std::string("mine")}));
  EXPECT_EQ(rule.apply(c, s, "C")->size(), 2u);
  EXPECT_EQ(called, 1);
  ASSERT_OK(annotate(s, {.target = block, .key = "schedule_rule", .value = std::string("other")}));
  EXPECT_ERROR(rule.apply(c, s, "C"), E241);
}

TEST(ScheduleRules, MultiLevelTilingWithAndWithoutWriteReuse) {
  const auto c = context("x86-64-avx512");
  for (const Func& func : {testing::matmul(16, 12, 8), testing::matmul_relu(16, 12, 8)}) {
    const auto next = multi_level_tiling().apply(c, start(func, c, 7), "C");
    ASSERT_OK(next);
    EXPECT_EQ(next->size(), 3u);
    for (const Schedule& s : *next) EXPECT_TRUE(testing::same_result(func, s.func()));
  }
  // A tiled block stays.
  const auto once = multi_level_tiling().apply(c, start(testing::matmul(8, 8, 8), c), "C");
  EXPECT_EQ(multi_level_tiling().apply(c, once->front(), "C")->size(), 1u);
}

TEST(ScheduleRules, MultiLevelTilingWithIntrinThenTensorize) {
  const auto c = context("x86-64-avx512");
  const Func func = testing::matmul(8, 16, 16);
  const auto next = multi_level_tiling_with_intrin("scalar_matmul_f32").apply(c, start(func, c, 5), "C");
  ASSERT_OK(next);
  for (Schedule s : *next) {
    ASSERT_OK(rewrite_reduction_block().apply(c, s));
    ASSERT_OK(rewrite_tensorize().apply(c, s));
    bool tensorized = false;
    walk(s.func()->body, [&](const Stmt& stmt) {
      const auto* block = stmt.as<BlockNode>();
      tensorized |= block && block->annotations.find("tensorize");
      EXPECT_FALSE(block && block->annotations.find(keys::kTensorize));
      return true;
    });
    EXPECT_TRUE(tensorized);
    EXPECT_TRUE(testing::same_result(func, s.func()));
    EXPECT_OK(lower(s.func(), *c.target));
  }
  // Extents that are no multiples: no tile of the intrinsic.
  const auto odd =
      multi_level_tiling_with_intrin("scalar_matmul_f32").apply(c, start(testing::matmul(7, 9, 11), c), "C");
  ASSERT_OK(odd);
  EXPECT_EQ(odd->size(), 1u);
}

TEST(ScheduleRules, WideVectorsAreNeverCut) {
  const auto c = context("x86-64-avx512");
  const Func func = testing::matmul(4, 64, 8);
  const auto next = multi_level_tiling_wide_vector(1024).apply(c, start(func, c, 5), "C");
  ASSERT_OK(next);
  for (const Schedule& s : *next) {
    bool wide = false;
    walk(s.func()->body, [&](const Stmt& stmt) {
      const auto* loop = stmt.as<ForNode>();
      wide |= loop && loop->loop_kind == ForKind::kVectorized && *as_int(loop->extent) == 32;
      return true;
    });
    EXPECT_TRUE(wide);
    EXPECT_TRUE(testing::same_result(func, s.func()));
  }
}

TEST(ScheduleRules, ParallelizeVectorizeUnrollNotesAndThePostprocessorActs) {
  const auto c = context("x86-64-avx512");
  const Func func = testing::matmul(64, 32, 16);
  auto tiled = multi_level_tiling().apply(c, start(func, c, 11), "C");
  ASSERT_OK(tiled);
  const auto noted = parallelize_vectorize_unroll().apply(c, tiled->front(), "C");
  ASSERT_OK(noted);
  Schedule s = noted->front();
  EXPECT_EQ(s.func().root().annotations.get_int(keys::kParallel, 0), 32);
  ASSERT_OK(rewrite_parallel_vectorize_unroll().apply(c, s));
  EXPECT_EQ(s.func().root().annotations.find(keys::kParallel), nullptr);
  EXPECT_EQ(kinds(s.func(), ForKind::kParallel).size(), 1u);
  EXPECT_EQ(kinds(s.func(), ForKind::kVectorized).size(), 1u);
  ASSERT_OK(rewrite_reduction_block().apply(c, s));
  EXPECT_NE(find_block(s.func()->body, "C_init"), nullptr);
  EXPECT_TRUE(testing::same_result(func, s.func()));
}

TEST(ScheduleRules, RandomComputeLocationFindsSeveralPlaces) {
  const auto c = context("x86-64-avx512");
  const Func func = testing::relu_pad_matmul();  // C is a padding
  std::set<std::string> programs;
  for (uint64_t seed = 0; seed < 12; ++seed) {
    const auto next = random_compute_location().apply(c, start(func, c, seed), "C");
    ASSERT_OK(next);
    EXPECT_TRUE(testing::same_result(func, next->front().func()));
    programs.insert(to_text(next->front().func()));
  }
  EXPECT_GE(programs.size(), 3u);
}

TEST(ScheduleRules, ThreadsOnOpenCl) {
  const auto c = context("opencl");
  const Func relu = testing::relu_workload(3, 7, 19);
  const auto bound = auto_bind().apply(c, start(relu, c, 1), nest_blocks(relu).front());
  ASSERT_OK(bound);
  EXPECT_EQ(kinds(bound->front().func(), ForKind::kThreadBinding),
            (std::vector<std::string>{"blockIdx.x", "threadIdx.x"}));
  EXPECT_TRUE(testing::same_on_devices(relu, bound->front().func()));

  const Func sum = testing::reduction_workload(3, 7, 80, false);
  bool across = false;
  for (const std::string& block : nest_blocks(sum)) {
    const auto next = cross_thread_reduction().apply(c, start(sum, c, 2), block);
    ASSERT_OK(next);
    for (size_t i = 1; i < next->size(); ++i) {
      across = true;
      Schedule s = (*next)[i];
      ASSERT_OK(rewrite_unbound_block().apply(c, s));
      ASSERT_OK(verify_gpu_code().apply(c, s));
      EXPECT_TRUE(testing::same_on_devices(sum, s.func()));
    }
  }
  EXPECT_TRUE(across);
}

TEST(ScheduleRules, TensorCoresOnCuda) {
  const auto c = context("cuda");
  const te::Tensor a = te::placeholder({64, 48}, kF16, "A"), b = te::placeholder({48, 32}, kF16, "B");
  const te::ReduceAxis k = te::reduce_axis(48, "k");
  const te::Tensor product = te::compute(
      {64, 32}, [&](const auto& i) { return te::sum(cast(kF32, a(i[0], k)) * cast(kF32, b(k, i[1])), {k}); }, "C",
      {"i", "j"});
  const Func func = te::create_func("product", {a, b}, {product});
  const auto next = multi_level_tiling_tensor_core().apply(c, start(func, c, 1), "C");
  ASSERT_OK(next);
  const Func made = next->front().func();
  EXPECT_NE(to_text(made).find("mma_m16n8k16_f16"), std::string::npos);
  EXPECT_OK(lower_for_device(made, *c.target));
  // fp32 is left alone.
  const auto plain = multi_level_tiling_tensor_core().apply(c, start(testing::matmul(64, 32, 48), c), "C");
  ASSERT_OK(plain);
  EXPECT_TRUE(plain->front().trace().steps.empty());
}

// --- post-processors ---------------------------------------------------------------------------------------------

TEST(Postprocessors, RewriteLayoutStoresConstantsInTheOrderOfTheTiles) {
  const auto c = context("x86-64-avx512");
  const Func func = testing::matmul_workload(8, 32, 16, false, false, /*constant_b=*/true, false);
  Schedule s = start(func, c);
  const BlockRef block = *get_block(s, {"C"});
  const auto loops = *get_loops(s, {block});
  const auto j = *split(s, {.loop = loops[1], .factors = {kInfer, 16}});
  ASSERT_OK(reorder(s, {.loops = {j[0], loops[0], loops[2], j[1]}}));
  ASSERT_OK(rewrite_layout().apply(c, s));
  const Buffer b = s.func()->params[1].buffer;
  ASSERT_EQ(b->rank(), 3);  // (k, j) → (j // 16, k, j % 16)
  EXPECT_EQ(*as_int(b->shape[0]), 2);
  EXPECT_EQ(*as_int(b->shape[1]), 16);
  EXPECT_EQ(*as_int(b->shape[2]), 16);
  EXPECT_TRUE(testing::same_result(func, s.func()));
  // Inputs keep their layouts.
  Schedule input = start(testing::matmul(8, 32, 16), c);
  ASSERT_OK(rewrite_layout().apply(c, input));
  EXPECT_TRUE(input.trace().steps.empty());
}

TEST(Postprocessors, RefuseWhatTheyAreFor) {
  const auto c = context("x86-64-avx512");
  const auto dynamic = parse_func(R"(func f(n: i64 in 1..64, A: f32[n], B: f32[n] output):
  for i in n:
    block B(v: spatial[n] = i):
      reads A[v]
      writes B[v]
      B[v] = A[v]
)");
  if (dynamic) {
    Schedule s = start(*dynamic, c);
    EXPECT_ERROR(disallow_dynamic_loop().apply(c, s), E221);
  }
  Schedule constant = start(testing::matmul(8, 8, 8), c);
  EXPECT_OK(disallow_dynamic_loop().apply(c, constant));
  EXPECT_ERROR(verify_gpu_code().apply(c, constant), E301);
  EXPECT_OK(verify_scratchpad_limit().apply(c, constant));
}

TEST(Postprocessors, DisallowAsyncStridedMemCopy) {
  const auto c = context("x86-64-avx512");
  const auto make = [&](bool strided) {
    auto s =
        testing::schedule_from(std::string("for i in 8: for j in 16: B[i, j] = ") + (strided ? "A[j, i]" : "A[i, j]"));
    s.set_target(c.target);
    EXPECT_OK(annotate(s, {.target = s.loop("i"), .key = "software_pipeline_stage", .value = std::vector<int64_t>{0}}));
    return s;
  };
  Schedule rows = make(false), columns = make(true);
  EXPECT_OK(disallow_async_strided_mem_copy().apply(c, rows));
  EXPECT_ERROR(disallow_async_strided_mem_copy().apply(c, columns), E230);
}

TEST(Postprocessors, VerifyScratchpadLimitTakesAnotherCapacity) {
  const auto c = context("opencl");
  const Func func = testing::matmul(16, 16, 16);
  const auto preset = find_preset("cuda");
  ASSERT_OK(preset);
  MultiLevelTilingOptions options;
  options.tiling.structure = "SSSRRSRS";
  options.tiling.tile_binds = {"blockIdx.x", "vthread.x", "threadIdx.x"};
  options.read = {Reuse::When::kMust, {4}, "shared"};
  options.write = {Reuse::When::kMust, {3}, "local"};
  const auto next = multi_level_tiling(options).apply(c, start(func, c, 3), "C");
  ASSERT_OK(next);
  Schedule s = next->front();
  ASSERT_OK(rewrite_cooperative_fetch().apply(c, s));
  EXPECT_OK(verify_scratchpad_limit("shared", 1 << 20).apply(c, s));
  EXPECT_ERROR(verify_scratchpad_limit("shared", 8).apply(c, s), E230);
}

// Parts of a row's reduction go where random_compute_location puts the total; other rules leave them alone.
TEST(ScheduleRules, RowsInLanesAreMovedAsOne) {
  const auto c = context("x86-64-avx512");
  const Func func = testing::softmax_workload(24, 128);
  const auto split = rows_in_lanes().apply(c, start(func, c), "Y");
  ASSERT_OK(split);
  ASSERT_NE(find_block(split->front().func()->body, "S_partial"), nullptr);
  for (const ScheduleRule& rule : {auto_inline(), add_rfactor(), multi_level_tiling(), random_compute_location()})
    for (const char* part : {"S_partial", "S_8"}) {
      const auto next = rule.apply(c, split->front(), part);
      ASSERT_OK(next);
      ASSERT_EQ(next->size(), 1u) << rule.name;
      EXPECT_EQ(to_text(next->front().func()), to_text(split->front().func())) << rule.name;
    }
  const auto moved = random_compute_location().apply(c, split->front(), "S");
  ASSERT_OK(moved);
  const Func after = moved->front().func();
  const auto nest_of = [&](const char* name) { return loops_around(after, find_block(after->body, name)).front(); };
  EXPECT_EQ(nest_of("S_partial"), nest_of("S"));
  EXPECT_EQ(find_block(after->body, "S_partial")->writes[0].buffer->scope, kScopeRegister);
  EXPECT_TRUE(testing::near_result(func, after));
}

// --- spaces ------------------------------------------------------------------------------------------------------

TEST(SpaceGenerators, PresetsMakeProgramsThatComputeTheSame) {
  const auto space = make_metaschedule_space();
  const Func programs[] = {testing::matmul_relu(12, 8, 20), testing::relu_pad_matmul(),
                           testing::softmax_workload(5, 37),
                           testing::matmul_workload(8, 32, 16, false, false, true, true),
                           testing::conv_workload({.h = 6, .w = 6, .ic = 3, .oc = 8, .epilogue = true})};
  for (const Func& func : programs)
    for (uint64_t seed = 0; seed < 6; ++seed) {
      const auto target = context("x86-64-avx512").target;
      const auto point = space->generate(func, target, 2, seed, nullptr);
      ASSERT_OK(point);
      const bool exact = func->name != "softmax";
      EXPECT_TRUE(exact ? testing::same_result(func, point->func()) : testing::near_result(func, point->func()))
          << to_text(point->trace());
      EXPECT_OK(lower(point->func(), *target));
      const auto again =
          space->generate(func, target, 2, seed + 99, std::make_shared<const DecisionMap>(point->decisions()));
      ASSERT_OK(again);
      EXPECT_EQ(to_text(again->trace()), to_text(point->trace()));
    }
}

TEST(SpaceGenerators, TheGpuPresetRunsOnOpenCl) {
  const auto space = make_metaschedule_space();
  const auto target = context("opencl").target;
  for (const Func& func :
       {testing::matmul_relu(16, 8, 12), testing::row_means_workload(5, 70), testing::relu_workload(3, 7, 19)})
    for (uint64_t seed = 0; seed < 3; ++seed) {
      const auto point = space->generate(func, target, 1, seed, nullptr);
      ASSERT_OK(point) << func->name;
      EXPECT_TRUE(testing::same_on_devices(func, point->func())) << to_text(point->trace());
    }
}

TEST(SpaceGenerators, EveryPresetMakesAMatmul) {
  for (const std::string_view name : preset_names()) {
    const auto preset = find_preset(name);
    ASSERT_OK(preset) << name;
    const bool gpu = name.starts_with("cuda");
    const auto c = context(gpu ? "opencl" : name == "arm" ? "aarch64-dotprod" : "x86-64-avx512");
    const Func func = testing::matmul_relu(16, 64, 8);
    const auto point = post_order_apply(preset->rules, preset->postprocessors)->generate(func, c.target, 2, 1, nullptr);
    ASSERT_OK(point) << name;
    EXPECT_TRUE(testing::same_result(func, point->func())) << name;
  }
  EXPECT_ERROR(find_preset("abacus"), E241);
}

/// Every program that the rules lead to, sizes drawn with the schedule's seed: rule by rule, each on all blocks from
/// the last to the first. At most `most`, those found first. Errors: those of the rules
Result<std::vector<Schedule>> design_space(const TuneContext& context, const Schedule& start,
                                           const std::vector<ScheduleRule>& rules, size_t most = 1000) {
  std::vector<Schedule> all = {start};
  for (const ScheduleRule& rule : rules) {
    std::vector<Schedule> after;
    for (const Schedule& s : all) {
      std::vector<Schedule> states = {s};
      const auto blocks = blocks_of(s.func().root());
      for (auto node = blocks.rbegin(); node != blocks.rend(); ++node) {
        const std::string block = (*node)->name;
        std::vector<Schedule> next;
        for (const Schedule& state : states) {
          if (!find_block(state.func()->body, block)) {
            next.push_back(state);
            continue;
          }
          FETTLE_TRY(const std::vector<Schedule> made, rule.apply(context, state, block));
          for (const Schedule& one : made)
            if (next.size() < most) next.push_back(one);
        }
        states = std::move(next);
      }
      for (Schedule& state : states)
        if (after.size() < most) after.push_back(std::move(state));
    }
    all = std::move(after);
  }
  return all;
}

TEST(SpaceGenerators, TracesOfAllAlternativesReplay) {
  const auto c = context("x86-64-avx512");
  const Func func = testing::matmul_relu(16, 16, 16);
  const auto designs = design_space(c, start(func, c), {auto_inline(), multi_level_tiling()});
  ASSERT_OK(designs);
  EXPECT_EQ(designs->size(), 3u);
  std::vector<ParsedTrace> traces;
  for (const Schedule& s : *designs) traces.push_back(as_parsed(s.trace()));
  const auto space = replay_trace(traces);
  std::set<std::string> programs;
  std::set<Decision> chosen;
  for (uint64_t seed = 0; seed < 20; ++seed) {
    const auto point = space->generate(func, c.target, 2, seed, nullptr);
    ASSERT_OK(point);
    EXPECT_TRUE(testing::same_result(func, point->func()));
    programs.insert(to_text(point->func()));
    chosen.insert(point->decisions().at("replay_trace/trace"));
  }
  EXPECT_GE(programs.size(), 15u);
  EXPECT_EQ(chosen.size(), 3u);
}

TEST(SpaceGenerators, ScheduleFnAndUnion) {
  const auto c = context("x86-64-avx512");
  const Func func = testing::matmul(8, 16, 4);
  const auto by_hand = schedule_fn([](Schedule& s) -> Result<> {
    FETTLE_TRY(const BlockRef block, get_block(s, {"C"}));
    FETTLE_TRY_VOID(MultiLevelTiling("SRS").apply(s, block));
    return {};
  });
  std::vector<std::shared_ptr<const Space>> spaces = {
      std::shared_ptr<const Space>(schedule_fn([](Schedule&) -> Result<> { return {}; })),
      std::shared_ptr<const Space>(schedule_fn([](Schedule& s) -> Result<> {
        FETTLE_TRY(const BlockRef block, get_block(s, {"C"}));
        FETTLE_TRY_VOID(MultiLevelTiling("SRS").apply(s, block));
        return {};
      }))};
  const auto all = space_union(spaces);
  std::set<Decision> chosen;
  for (uint64_t seed = 0; seed < 20; ++seed) {
    const auto point = all->generate(func, c.target, 1, seed, nullptr);
    ASSERT_OK(point);
    EXPECT_TRUE(testing::same_result(func, point->func()));
    chosen.insert(point->decisions().at("union/space"));
    const auto again = all->generate(func, c.target, 1, 77, std::make_shared<const DecisionMap>(point->decisions()));
    ASSERT_OK(again);
    EXPECT_EQ(to_text(again->trace()), to_text(point->trace()));
  }
  EXPECT_EQ(chosen.size(), 2u);
  EXPECT_OK(by_hand->generate(func, c.target, 1, 3, nullptr));
  EXPECT_ERROR(space_union({})->generate(func, c.target, 1, 3, nullptr), E235);
}

}  // namespace
}  // namespace fettle
