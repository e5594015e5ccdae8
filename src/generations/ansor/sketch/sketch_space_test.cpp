#include "generations/ansor/sketch/sketch_space.h"

#include <cmath>
#include <map>
#include <set>

#include "codegen/device/testing.h"
#include "generations/ansor/sketch/test_programs.h"
#include "lower/lower.h"
#include "schedule/dataflow/dataflow.h"
#include "schedule/edit/edit.h"
#include "schedule/primitives/sample_perfect_tile.h"
#include "schedule/testing.h"
#include "tune/space/test_workloads.h"

namespace fettle {
namespace {

std::shared_ptr<const Target> avx512() { return std::make_shared<const Target>(parse_target("x86-64-avx512").value()); }

TEST(SketchSpace, PointsComputeTheSame) {
  const auto target = avx512();
  const auto space = make_sketch_space();
  const Func programs[] = {testing::matmul_relu(12, 8, 20),
                           testing::relu_pad_matmul(),
                           testing::softmax_workload(5, 37),
                           testing::conv_workload({.h = 6, .w = 6, .ic = 3, .oc = 8, .epilogue = true}),
                           testing::matmul_workload(19, 37, 11, false, false, true, true),
                           testing::pool_workload(9, 9, 20, false, true)};
  for (const Func& func : programs)
    for (const int threads : {1, 2})
      for (uint64_t seed = 0; seed < 12; ++seed) {
        const auto point = space->generate(func, target, threads, seed, nullptr);
        ASSERT_OK(point) << func->name;
        const bool exact = func->name != "softmax";
        EXPECT_TRUE(exact ? testing::same_result(func, point->func()) : testing::near_result(func, point->func()))
            << to_text(point->trace());
        EXPECT_OK(lower(point->func(), *target)) << to_text(point->trace());
        // The same decisions make it again, whatever the seed.
        const auto again = space->generate(func, target, threads, seed + 1000,
                                           std::make_shared<const DecisionMap>(point->decisions()));
        ASSERT_OK(again);
        EXPECT_EQ(to_text(again->trace()), to_text(point->trace()));
      }
}

// The totals of a softmax's rows are made in lanes, where they are needed; in some points each row goes through all of
// it.
TEST(SketchSpace, RowsAreReducedInLanes) {
  const auto target = avx512();
  const auto space = make_sketch_space();
  const Func func = testing::softmax_workload(24, 128);
  size_t one_nest = 0;
  for (uint64_t seed = 0; seed < 200; ++seed) {
    const auto point = space->generate(func, target, 2, seed, nullptr);
    ASSERT_OK(point);
    const Func made = point->func();
    for (const char* name : {"M_partial", "S_partial", "M_8", "S_8"}) {
      const BlockNode* part = find_block(made->body, name);
      ASSERT_NE(part, nullptr) << to_text(made);
      EXPECT_EQ(part->writes[0].buffer->scope, kScopeRegister);
      EXPECT_EQ(loops_around(made, part).back()->loop_kind, ForKind::kVectorized);
    }
    const auto nest_of = [&](const char* name) { return loops_around(made, find_block(made->body, name)).front(); };
    EXPECT_EQ(nest_of("M_partial"), nest_of("M"));
    EXPECT_EQ(nest_of("S_partial"), nest_of("S"));
    one_nest += nest_of("M") == nest_of("Y") && nest_of("S") == nest_of("Y") ? 1 : 0;
  }
  EXPECT_GE(one_nest, 1u);
}

// What lanes would gather is copied before, into the order of the tiles.
TEST(SketchSpace, GatheredOperandsGetATransformStage) {
  const te::Tensor q = te::placeholder({32, 24}, kF32, "Q"), k = te::placeholder({48, 24}, kF32, "K");
  const te::ReduceAxis c = te::reduce_axis(24, "c");
  const te::Tensor product =
      te::compute({32, 48}, [&](const auto& v) { return te::sum(q(v[0], c) * k(v[1], c), {c}); }, "S");
  const Func func = te::create_func("scores", {q, k}, {product});
  const auto target = avx512();
  const auto space = make_sketch_space();
  size_t staged = 0;
  for (uint64_t seed = 0; seed < 20; ++seed) {
    const auto point = space->generate(func, target, 2, seed, nullptr);
    ASSERT_OK(point);
    const BlockNode* copy = find_block(point->func()->body, "K_global");
    if (!copy) continue;
    ++staged;
    EXPECT_EQ(find_block(point->func()->body, "Q_global"), nullptr);
    EXPECT_GT(copy->writes[0].buffer->rank(), 2u);
    const auto loops = loops_around(point->func(), copy);
    EXPECT_EQ(loops.front()->loop_kind, ForKind::kParallel);
    EXPECT_EQ(loops.back()->loop_kind, ForKind::kVectorized);
    EXPECT_TRUE(testing::same_result(func, point->func())) << to_text(point->trace());
  }
  EXPECT_GE(staged, 10u);
}

TEST(SketchSpace, PointsRunOnThreads) {
  const auto target = std::make_shared<const Target>(parse_target("opencl").value());
  const auto space = make_sketch_space();
  std::set<std::string> structures;
  for (const Func& func : {testing::matmul_relu(16, 8, 12), testing::reduction_workload(3, 7, 80, false),
                           testing::relu_workload(3, 7, 19)})
    for (uint64_t seed = 0; seed < 4; ++seed) {
      const auto point = space->generate(func, target, 1, seed, nullptr);
      ASSERT_OK(point) << func->name;
      EXPECT_TRUE(testing::same_on_devices(func, point->func())) << to_text(point->trace());
      const auto again =
          space->generate(func, target, 1, seed + 99, std::make_shared<const DecisionMap>(point->decisions()));
      ASSERT_OK(again);
      EXPECT_EQ(to_text(again->trace()), to_text(point->trace()));
      const std::string text = to_text(point->func());
      for (const char* part : {"shared", "vthread", "threadIdx.x"})
        if (text.find(part) != std::string::npos) structures.insert(part);
    }
  EXPECT_EQ(structures.size(), 3u);
}

// What stands beside tiles has neither lanes nor unrolling to choose: most points would differ in these alone.
TEST(SketchSpace, PaddingsAndConsumersOfTilesHaveNothingToDraw) {
  const Func func = testing::conv_workload({.h = 6, .w = 6, .ic = 12, .oc = 48, .kernel = 3, .epilogue = true});
  const auto space = make_sketch_space();
  std::set<int64_t> steps;
  int apart = 0;
  for (uint64_t seed = 0; seed < 60; ++seed) {
    const auto point = space->generate(func, avx512(), 2, seed, nullptr);
    ASSERT_OK(point);
    for (const auto& step : point->trace().steps) {
      if (step->address.starts_with("cut/")) ADD_FAILURE() << step->address;
      if (step->address == "unroll/O") steps.insert(step->decision.integer().value());
      if (step->address != "unroll/padded" && step->address != "unroll/Y") continue;
      EXPECT_EQ(step->decision, "0");
      ++apart;
    }
  }
  EXPECT_GT(apart, 20);
  EXPECT_EQ(steps.size(), 4u);
}

// Every complete program is equally likely: Pearson's test over all points of a small space, whose sketches and places
// differ in how many they have.
TEST(SketchSpace, EveryPointIsEquallyLikely) {
  const auto target = avx512();
  SketchSpaceOptions options{.unroll_steps = {0, 16}};
  options.derive.tiling.structure = "SRS";
  const auto space = make_sketch_space(options);
  const Func func = testing::matmul_relu(4, 12, 2);
  std::map<DecisionMap, int> counts;
  constexpr int kDraws = 20'000;
  for (int i = 0; i < kDraws; ++i) {
    const auto point = space->generate(func, target, 2, static_cast<uint64_t>(i), nullptr);
    ASSERT_OK(point);
    ++counts[point->decisions()];
  }
  const double expected = static_cast<double>(kDraws) / static_cast<double>(counts.size());
  ASSERT_GE(counts.size(), 100u);
  ASSERT_GE(expected, 5.0);
  double chi_square = 0;
  for (const auto& [point, count] : counts) chi_square += (count - expected) * (count - expected) / expected;
  // Its distribution at this size is nearly normal: mean n, variance 2n. The seeds are fixed, so the figure is, too.
  const double n = static_cast<double>(counts.size()) - 1;
  EXPECT_LT((chi_square - n) / std::sqrt(2 * n), 3.0) << counts.size() << " points";
}

// As Ansor draws: a sketch, then a place, however many programs each has.
TEST(SketchSpace, EverySketchIsEquallyLikelyWhereChoicesAre) {
  const auto target = avx512();
  const auto space = make_sketch_space({.equally_likely = EquallyLikely::kChoices});
  const Func func = testing::matmul_relu(16, 32, 16);
  std::map<Decision, int> counts;
  constexpr int kDraws = 400;
  for (int i = 0; i < kDraws; ++i) {
    const auto point = space->generate(func, target, 2, static_cast<uint64_t>(i), nullptr);
    ASSERT_OK(point);
    ++counts[point->decisions().at("sketch_space/sketch")];
  }
  ASSERT_EQ(counts.size(), 4u);
  for (const auto& [sketch, count] : counts) EXPECT_NEAR(count, kDraws / 4, 30) << to_text(sketch);
}

// A padding that a convolution reads is inlined, stays, or stands under a loop: each as likely.
TEST(SketchSpace, OperandsOfProductsHaveThreeKindsOfPlaces) {
  const auto space = make_sketch_space({.equally_likely = EquallyLikely::kChoices});
  const Func func = testing::conv_workload({.h = 8, .w = 8, .ic = 12, .oc = 48, .kernel = 5, .epilogue = true});
  int inlined = 0, alone = 0;
  constexpr int kDraws = 150;
  for (uint64_t seed = 0; seed < kDraws; ++seed) {
    const auto point = space->generate(func, avx512(), 2, seed, nullptr);
    ASSERT_OK(point);
    const BlockNode* padded = find_block(point->func()->body, "padded");
    if (!padded)
      ++inlined;
    else
      alone += blocks_under(Stmt(Ref<const StmtNode>(loops_around(point->func(), padded).front()))).size() == 1 ? 1 : 0;
  }
  // More of those that are inlined are not legal.
  EXPECT_GT(inlined, kDraws / 6);
  EXPECT_GT(alone, kDraws / 6);
  EXPECT_GT(kDraws - inlined - alone, kDraws / 6);
}

// Normalised rows that a product reads may be a block of their own, which the paper's rule 2 inlines; with their totals
// they may be one nest, however long the rows are.
TEST(SketchSpace, NormalisedRowsMayStayBeforeTheirProduct) {
  const te::Tensor x = te::placeholder({16, 96}, kF32, "X"), v = te::placeholder({96, 32}, kF32, "V");
  const te::ReduceAxis j = te::reduce_axis(96, "j"), k = te::reduce_axis(96, "k");
  const te::Tensor total = te::compute({16}, [&](const auto& i) { return te::sum(x(i[0], j), {j}); }, "T");
  const te::Tensor rows = te::compute({16, 96}, [&](const auto& i) { return x(i[0], i[1]) / total(i[0]); }, "P");
  const te::Tensor y =
      te::compute({16, 32}, [&](const auto& i) { return te::sum(rows(i[0], k) * v(k, i[1]), {k}); }, "Y");
  const Func func = te::create_func("normalised", {x, v}, {y});
  const auto space = make_sketch_space({.equally_likely = EquallyLikely::kChoices});
  int inlined = 0, one_nest = 0;
  for (uint64_t seed = 0; seed < 60; ++seed) {
    const auto point = space->generate(func, avx512(), 2, seed, nullptr);
    ASSERT_OK(point);
    if (seed < 20) {
      EXPECT_TRUE(testing::near_result(func, point->func())) << to_text(point->trace());
    }
    const BlockNode *p = find_block(point->func()->body, "P"), *t = find_block(point->func()->body, "T");
    inlined += p ? 0 : 1;
    one_nest += p && t && loops_around(point->func(), p).front() == loops_around(point->func(), t).front() ? 1 : 0;
  }
  EXPECT_GT(inlined, 5);
  EXPECT_GT(one_nest, 5);
  EXPECT_LT(inlined + one_nest, 60);
}

// What no rule tiled has whole vectors as lanes, where its extent has such.
TEST(SketchSpace, LanesOfWhatIsNotTiledAreWholeVectors) {
  const Func func = testing::relu_workload(3, 7, 48);
  const auto space = make_sketch_space();
  std::set<Decision> cuts;
  for (uint64_t seed = 0; seed < 20; ++seed) {
    const auto point = space->generate(func, avx512(), 2, seed, nullptr);
    ASSERT_OK(point);
    for (const auto& step : point->trace().steps)
      if (step->address.starts_with("cut/")) cuts.insert(step->decision);
    EXPECT_TRUE(testing::same_result(func, point->func())) << to_text(point->trace());
  }
  EXPECT_EQ(cuts, (std::set<Decision>{{1, 3}, {3, 1}}));
}

TEST(SketchSpace, CountsOfTilesAreThoseOfTheirLists) {
  EXPECT_EQ(perfect_tile_count(12, 2, 0), 6);
  EXPECT_EQ(perfect_tile_count(12, 2, 4), 4);  // innermost 1, 2, 3, 4
  EXPECT_EQ(perfect_tile_count(512, 4, 64), 210);
}

}  // namespace
}  // namespace fettle
