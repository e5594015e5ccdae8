// Figure 5 of Zheng et al.: Ansor, OSDI 2020: two inputs, three sketches derived rule by rule, four sampled programs.
// The figure's loop i.0 is i_0 here; the loops of a consumer that joined a tile, i.4 and j.4 there, are ax0 and ax1.

#include "generations/ansor/sketch/sketch.h"
#include "generations/ansor/sketch/test_programs.h"
#include "schedule/primitives/compute_at.h"
#include "schedule/primitives/fuse.h"
#include "schedule/primitives/parallel.h"
#include "schedule/primitives/unroll.h"
#include "schedule/primitives/vectorize.h"
#include "schedule/testing.h"

namespace fettle {
namespace {

using testing::TestSchedule;

// The last of the sketches with that derivation: of those that fuse, the one that does so at the innermost level.
Sketch derived_by(const Func& func, const std::vector<std::string>& rules, int cores = 16) {
  DeriveOptions options{.cores = cores};
  options.tiling.max_innermost = 0;  // the second program's innermost k is 512
  const auto derived = derive_sketches(func, options);
  FETTLE_CHECK(derived.has_value() && derived->refused.empty());
  const Sketch* found = nullptr;
  for (const Sketch& sketch : derived->sketches)
    if (sketch.derivation == rules) found = &sketch;
  FETTLE_CHECK_MSG(found, "no sketch is derived so");
  return *found;
}

const std::vector<std::string> kSketch1 = {"skip", "multi_level_tiling_with_fusion", "skip", "skip"};
const std::vector<std::string> kSketch2 = {
    "add_cache_stage", "multi_level_tiling_with_fusion", "skip", "skip", "always_inline", "skip"};

// A point of the sketch whose loops can be asked for by name.
TestSchedule point_of(const Sketch& sketch, const DecisionMap& sizes) {
  TestSchedule s(sketch.workload);
  auto point = instantiate(sketch, 0, std::make_shared<DecisionMap>(sizes));
  FETTLE_CHECK(point.has_value());
  FETTLE_CHECK_MSG(point->decisions() == sizes, "some size did not fit");
  static_cast<Schedule&>(s) = std::move(*point);
  return s;
}

void parallelize_fused(TestSchedule& s, const std::vector<std::string>& names) {
  std::vector<LoopRef> loops;
  for (const std::string& name : names) loops.push_back(s.loop(name));
  const auto fused = fuse(s, {loops});
  ASSERT_OK(fused);
  ASSERT_OK(parallel(s, {*fused}));
}

// Loops around the block, by name; several nests may use one.
LoopRef loop_of(TestSchedule& s, const std::string& block, const std::string& name) {
  const auto loops = *get_loops(s, {s.block(block)});
  for (const LoopRef& loop : loops)
    if (s.loop_var(loop).value()->name == name) return loop;
  FETTLE_UNREACHABLE();
}

TEST(WorkedAnsor, Sketch1) {
  const Sketch sketch = derived_by(testing::matmul_relu(512, 512, 512), kSketch1);
  EXPECT_GOLDEN(to_text(sketch));
  for (uint64_t seed = 0; seed < 3; ++seed) {
    const Sketch small = derived_by(testing::matmul_relu(24, 16, 20), kSketch1);
    EXPECT_TRUE(testing::same_result(small.workload, instantiate(small, seed)->func()));
  }
}

void annotate_as_program_1(TestSchedule& s) {
  ASSERT_OK(unroll(s, {s.loop("k_1")}));
  ASSERT_OK(unroll(s, {s.loop("i_3")}));
  ASSERT_OK(vectorize(s, {s.loop("j_3")}));
  ASSERT_OK(vectorize(s, {loop_of(s, "D", "ax1")}));
  parallelize_fused(s, {"i_0", "j_0", "i_1", "j_1"});
}

TEST(WorkedAnsor, SampledProgram1) {
  TestSchedule s =
      point_of(derived_by(testing::matmul_relu(512, 512, 512), kSketch1), {{"multi_level_tiling/C/i", {4, 2, 16, 4}},
                                                                           {"multi_level_tiling/C/j", {8, 4, 1, 16}},
                                                                           {"multi_level_tiling/C/k", {32, 16}}});
  annotate_as_program_1(s);
  EXPECT_GOLDEN(loops_text(s.func()));
  EXPECT_GOLDEN(s.trace());
  EXPECT_REPLAYS(s);

  TestSchedule small =
      point_of(derived_by(testing::matmul_relu(24, 16, 20), kSketch1), {{"multi_level_tiling/C/i", {2, 1, 3, 4}},
                                                                        {"multi_level_tiling/C/j", {1, 2, 1, 8}},
                                                                        {"multi_level_tiling/C/k", {5, 4}}});
  annotate_as_program_1(small);
  EXPECT_SAME_RESULT(small);
}

// The same sketch with outer tiles of one: the consumer's nest stands by itself and has its own parallel loop of 512.
void annotate_as_program_2(TestSchedule& s) {
  ASSERT_OK(vectorize(s, {s.loop("j_3")}));
  ASSERT_OK(parallel(s, {s.loop("i_2")}));
  ASSERT_OK(parallel(s, {loop_of(s, "D", "ax0")}));
}

TEST(WorkedAnsor, SampledProgram2) {
  TestSchedule s =
      point_of(derived_by(testing::matmul_relu(512, 512, 512), kSketch1), {{"multi_level_tiling/C/i", {1, 1, 16, 32}},
                                                                           {"multi_level_tiling/C/j", {1, 1, 128, 4}},
                                                                           {"multi_level_tiling/C/k", {1, 512}}});
  annotate_as_program_2(s);
  EXPECT_GOLDEN(loops_text(s.func()));
  EXPECT_REPLAYS(s);
  TestSchedule small =
      point_of(derived_by(testing::matmul_relu(24, 16, 20), kSketch1), {{"multi_level_tiling/C/i", {1, 1, 6, 4}},
                                                                        {"multi_level_tiling/C/j", {1, 1, 4, 4}},
                                                                        {"multi_level_tiling/C/k", {1, 20}}});
  annotate_as_program_2(small);
  EXPECT_SAME_RESULT(small);
}

TEST(WorkedAnsor, Sketch2) {
  const Sketch sketch = derived_by(testing::relu_pad_matmul(), kSketch2);
  EXPECT_GOLDEN(to_text(sketch));  // the padding is kept, with the relu in it
  for (uint64_t seed = 0; seed < 3; ++seed)
    EXPECT_TRUE(testing::same_result(sketch.workload, instantiate(sketch, seed)->func()));
}

TEST(WorkedAnsor, SampledProgram3) {
  TestSchedule s = point_of(derived_by(testing::relu_pad_matmul(), kSketch2), {{"multi_level_tiling/E/i", {8, 1, 1, 1}},
                                                                               {"multi_level_tiling/E/j", {1, 1, 1, 4}},
                                                                               {"multi_level_tiling/E/k", {512, 1}}});
  // The padding moves to where a row of it is needed.
  ASSERT_OK(compute_at(s, {s.block("C"), s.loop("i_0"), false}));
  ASSERT_OK(vectorize(s, {s.loop("j_3")}));
  ASSERT_OK(vectorize(s, {loop_of(s, "E_global", "ax1")}));
  ASSERT_OK(parallel(s, {s.loop("i_0")}));
  EXPECT_GOLDEN(loops_text(s.func()));
  EXPECT_REPLAYS(s);
  EXPECT_SAME_RESULT(s);
}

TEST(WorkedAnsor, Sketch3) {
  const auto derived = derive_sketches(testing::relu_pad_matmul(), {.cores = 16});
  ASSERT_OK(derived);
  const std::vector<std::string> rules = {"add_rfactor", "skip", "skip", "always_inline", "skip"};
  const auto sketch = std::ranges::find(derived->sketches, rules, &Sketch::derivation);  // along the inner part
  ASSERT_NE(sketch, derived->sketches.end());
  EXPECT_GOLDEN(to_text(*sketch));

  TestSchedule s = point_of(*sketch, {{"add_rfactor/E/k", {32, 16}}});
  ASSERT_OK(compute_at(s, {s.block("C"), loop_of(s, "E_rf", "i"), false}));
  ASSERT_OK(unroll(s, {loop_of(s, "E_rf", "k_0")}));
  ASSERT_OK(vectorize(s, {loop_of(s, "E_rf", "k_1")}));
  ASSERT_OK(parallel(s, {loop_of(s, "E_rf", "i")}));
  const auto sums = *get_loops(s, {s.block("E")});
  ASSERT_EQ(sums.size(), 3u);
  ASSERT_OK(unroll(s, {sums[2]}));
  ASSERT_OK(parallel(s, {sums[0]}));
  EXPECT_GOLDEN(loops_text(s.func()));  // the figure's sampled program 4
  EXPECT_REPLAYS(s);
  EXPECT_SAME_RESULT(s);
}

}  // namespace
}  // namespace fettle
