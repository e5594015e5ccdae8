#include "cost/predict/predict.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <set>

#include "cost/loop_tree/loop_tree.h"
#include "cost/predict/canonical_micro_kernels.h"
#include "cost/predict/estimate.h"
#include "ir/text.h"
#include "schedule/primitives.h"
#include "schedule/schedule.h"

namespace fettle {
namespace {

Target plain_target() {
  auto target = parse_target("x86-64-avx512");
  EXPECT_TRUE(target.has_value());
  return *target;
}

LoweredKernel lowered(const Result<Func>& func) {
  EXPECT_TRUE(func.has_value()) << (func ? "" : func.error().to_string());
  auto kernel = lower(*func, plain_target());
  EXPECT_TRUE(kernel.has_value());
  return *kernel;
}

double predicted(const CanonicalMicroKernel& micro_kernel, const MicroKernelTable* table = nullptr) {
  return predict_seconds(lowered(canonical_micro_kernel(micro_kernel, 16)), plain_target(), 1, table);
}

// As if 14x2 took 15 cycles a step, and 17 where rows conflict.
MicroKernelTable made_up_table(const Target& target) {
  MachineCosts costs = describe_costs(target);
  TileCosts wide{.rows = 14, .vectors = 2, .step_cycles = {15, 15, 17}, .call_cycles = 10, .add_cycles = 5};
  TileCosts tall{.rows = 14, .vectors = 1, .step_cycles = {8, 8, 12}, .call_cycles = 10, .add_cycles = 5};
  return MicroKernelTable(costs, {wide, tall}, target.fingerprint().hex());
}

TEST(Predict, MoreWorkCostsMore) {
  const CanonicalMicroKernel micro_kernel{.rows = 14, .vectors = 2, .depth = 128, .panels = 4, .repeats = 8};
  const double base = predicted(micro_kernel);
  EXPECT_GT(base, 0);
  CanonicalMicroKernel deeper = micro_kernel, wider = micro_kernel, often = micro_kernel, phases = micro_kernel;
  deeper.depth *= 2;
  wider.panels *= 2;
  often.repeats *= 2;
  phases.phases = 4;
  EXPECT_GT(predicted(deeper), 1.5 * base);
  EXPECT_GT(predicted(wider), 1.5 * base);
  EXPECT_GT(predicted(often), 1.5 * base);
  EXPECT_GT(predicted(phases), base);
}

// A sum of a program in order: along memory its steps become lanes.
TEST(Predict, PlainSumsAlongMemoryAreLanes) {
  const auto sums = [](const char* factor) {
    const std::string text =
        std::string("func f(A: f64[32, 32], B: f64[32, 32], C: f64[32] output):\n  for i in 32:\n    for k in i:\n") +
        "      block S(vi: spatial[32] = i, vk: scan[32] = k):\n        reads C[vi], A[vi, vk], " + factor +
        "\n        writes C[vi]\n        C[vi] = C[vi] + A[vi, vk] * " + factor + "\n";
    const auto func = parse_func(text);
    EXPECT_TRUE(func.has_value()) << (func ? "" : func.error().to_string());
    const auto kernel = lower(*func, plain_target(), {.pipeline = Pipeline::kUnexpanded, .prologue = false});
    EXPECT_TRUE(kernel.has_value()) << (kernel ? "" : kernel.error().to_string());
    return predict_seconds(*kernel, plain_target(), 1, nullptr);
  };
  EXPECT_LT(sums("B[vi, vk]"), 0.7 * sums("B[vk, vi]"));
}

// What has left the near caches comes from the third level if that has room for others, too, else from memory.
TEST(Predict, ColdDataComeFromAsFarAsTheyFit) {
  Target target = plain_target();
  target.caches = {{.size_bytes = 32 << 10}, {.size_bytes = 1 << 20}, {.size_bytes = 32 << 20}};
  const LoweredKernel kernel =
      lowered(canonical_micro_kernel({.rows = 4, .vectors = 2, .depth = 128, .panels = 64}, 16));
  const double near = predict_cold_seconds(kernel, target, 1, nullptr);
  EXPECT_GT(near, predict_seconds(kernel, target, 1, nullptr));
  target.caches[2].size_bytes = 2 << 20;
  EXPECT_GT(predict_cold_seconds(kernel, target, 1, nullptr), near);
}

TEST(Predict, ATileThatSpillsOrWaitsIsSlower) {
  // The same multiplications: 24 rows.
  const auto seconds = [](int rows, int64_t repeats, int vectors) {
    return predicted({.rows = rows, .vectors = vectors, .depth = 256, .repeats = repeats});
  };
  EXPECT_GT(seconds(24, 1, 2), seconds(12, 2, 2));  // 48 accumulators
  EXPECT_GT(seconds(2, 12, 1), seconds(12, 2, 1));  // 2 accumulators wait for themselves
}

TEST(Predict, SumsOfShortMicroKernelsDoNotWaitForEachOther) {
  // One accumulator: each step of a long sum waits for the one before. Many short sums are under way at once.
  const CanonicalMicroKernel sum{.rows = 1, .vectors = 1, .depth = 512, .repeats = 1};
  CanonicalMicroKernel short_sums = sum;
  short_sums.depth = 8;
  short_sums.repeats = 64;
  const Target target = plain_target();
  const double steps = 512, cycles_a_second = target.frequency_ghz * 1e9;
  EXPECT_GE(predicted(sum) * cycles_a_second, steps * target.fma_latency_cycles);
  const auto step_s = [&](const CanonicalMicroKernel& micro_kernel) {
    return estimate(make_loop_tree(lowered(canonical_micro_kernel(micro_kernel, 16)).kernel, target),
                    describe_costs(target), 1, nullptr)
        .step_s;
  };
  EXPECT_NEAR(step_s(sum) * cycles_a_second, steps * target.fma_latency_cycles, 0.01 * steps);
  EXPECT_LT(step_s(short_sums), 0.7 * step_s(sum));
}

TEST(Predict, StepsThatDoNotFitReadForThemselves) {
  // Seven taps of 14 pixels, which read 29 between them.
  CostNode taps, loop, call;
  taps.kind = CostNode::Kind::kBody;
  taps.work.fma = 98;
  taps.work.accumulators = taps.work.live_registers = taps.work.touched_registers = 14;
  taps.work.broadcasts = 29;
  taps.work.loads = 36;
  loop.kind = CostNode::Kind::kLoop;
  loop.extent = 100;
  loop.children = {taps};
  call.kind = CostNode::Kind::kCall;
  call.variants = {{.name = "micro_kernel", .share = 1}};
  call.shares = {1};
  call.children = {loop};
  const LoopTree tree{.root = call};
  MachineCosts costs = describe_costs(plain_target());
  costs.registers = 64;
  EXPECT_EQ(estimate(tree, costs, 1, nullptr).broadcasts, 2900);
  costs.registers = 16;
  EXPECT_EQ(estimate(tree, costs, 1, nullptr).broadcasts, 9800);
}

TEST(Predict, NotFasterThanThePeak) {
  const Target target = plain_target();
  const CanonicalMicroKernel micro_kernel{.rows = 14, .vectors = 2, .depth = 256};
  const double flops = 2.0 * 14 * 32 * 256 * micro_kernel.calls();
  EXPECT_GE(predicted(micro_kernel), flops / (target.frequency_ghz * 1e9 * target.fma_per_cycle * 32));
}

TEST(Predict, TheTableReplacesTheAnalyticStep) {
  const Target target = plain_target();
  const MicroKernelTable table = made_up_table(target);
  CanonicalMicroKernel micro_kernel{.rows = 14, .vectors = 2, .depth = 192, .repeats = 16};
  const double steps = micro_kernel.calls() * static_cast<double>(micro_kernel.depth);
  const double with_table = predicted(micro_kernel, &table), without = predicted(micro_kernel);
  EXPECT_NEAR((with_table - without) * target.frequency_ghz * 1e9, steps * (15 - 14), 0.02 * steps);
  micro_kernel.mode = RowMode::kConflict;
  EXPECT_NEAR((predicted(micro_kernel, &table) - with_table) * target.frequency_ghz * 1e9, steps * 2, 0.25 * steps);
}

TEST(Predict, StreamsShareCachesAndMemory) {
  Target machine = plain_target();
  machine.threads = 8;
  machine.caches = {{32 << 10, 8, 64, 1}, {1 << 20, 16, 64, 1}, {32 << 20, 16, 64, 8}};
  const Target shared = *share_of(machine, 8);
  const auto seconds = [](int64_t elems, const Target& target, const MicroKernelTable* table) {
    return predict_seconds(lowered(canonical_copy(elems, 16)), target, 1, table);
  };
  const MicroKernelTable table = made_up_table(machine);
  for (const MicroKernelTable* known : {static_cast<const MicroKernelTable*>(nullptr), &table}) {
    EXPECT_GT(seconds(32 << 20, shared, known), 1.5 * seconds(32 << 20, machine, known)) << "from memory";
    EXPECT_EQ(seconds(16 << 10, shared, known), seconds(16 << 10, machine, known)) << "from a core's own caches";
  }
  EXPECT_GT(seconds(2 << 20, shared, nullptr), seconds(2 << 20, machine, nullptr)) << "no longer from the third level";
}

TEST(Predict, ThreadsShareTheWork) {
  const auto func = canonical_micro_kernel({.rows = 14, .vectors = 2, .depth = 512, .repeats = 64}, 16);
  ASSERT_TRUE(func.has_value());
  Schedule s(*func);
  const auto block = get_block(s, {.name = "C"});
  ASSERT_TRUE(block.has_value());
  const auto loops = get_loops(s, {.block = *block});
  ASSERT_TRUE(loops.has_value());
  ASSERT_TRUE(parallel(s, {.loop = loops->front()}).has_value());
  const LoweredKernel kernel = lowered(s.func());
  const Target target = plain_target();
  const double one = predict_seconds(kernel, target, 1, nullptr), two = predict_seconds(kernel, target, 2, nullptr),
               three = predict_seconds(kernel, target, 3, nullptr);
  EXPECT_LT(two, 0.7 * one);
  EXPECT_LT(three, two);
  EXPECT_GT(three, one * 22 / 64);  // the thread that has most to do
}

// What comes from memory takes longer while others ask for something, too; what is at hand does not.
TEST(Predict, OtherKernelsCrowdOnMemoryAlone) {
  const Target target = plain_target();
  const auto slower = [&](int64_t elems) {
    const LoweredKernel kernel = lowered(canonical_copy(elems, 16, 1));
    return predict_crowded_seconds(kernel, target, 4) / predict_seconds(kernel, target, 1, nullptr);
  };
  EXPECT_DOUBLE_EQ(slower(1 << 10), 1);
  EXPECT_GT(slower(1 << 26), 1.5);
}

TEST(Features, NamesFitValuesAndNothingIsOdd) {
  const LoweredKernel kernel =
      lowered(canonical_micro_kernel({.rows = 8, .vectors = 3, .depth = 100, .panels = 3}, 16));
  const CandidateFeatures features = extract_features(kernel, plain_target(), 2, nullptr);
  ASSERT_EQ(features.values.size(), feature_names().size());
  EXPECT_GE(features.values.size(), 60u);
  for (const float value : features.values) EXPECT_TRUE(std::isfinite(value));
  EXPECT_EQ(std::set<std::string>(feature_names().begin(), feature_names().end()).size(), feature_names().size());
  EXPECT_EQ(features.predicted_seconds, predict_seconds(kernel, plain_target(), 2, nullptr));
  EXPECT_EQ(features.values, extract_features(kernel, plain_target(), 2, nullptr).values);
}

TEST(Features, ACopyHasNoMicroKernels) {
  const CandidateFeatures features = extract_features(lowered(canonical_copy(1 << 16, 16)), plain_target(), 1, nullptr);
  const auto value = [&](const std::string& name) {
    for (size_t i = 0; i < feature_names().size(); ++i)
      if (feature_names()[i] == name) return features.values[i];
    ADD_FAILURE() << name;
    return 0.0f;
  };
  EXPECT_EQ(value("calls"), 0);
  EXPECT_GT(value("read_lines_l2"), 0);
  EXPECT_EQ(value("read_lines_memory"), 0);
  EXPECT_GT(features.predicted_seconds, 0);
}

struct TempFile {
  TempFile()
      : path((std::filesystem::temp_directory_path() / ("fettle_micro_kernels_" + std::to_string(::getpid())))
                 .string()) {}
  ~TempFile() { std::filesystem::remove(path); }
  std::string path;
};

TEST(MicroKernelTable, KeptAsItWas) {
  const TempFile file;
  const Target target = plain_target();
  const MicroKernelTable table = made_up_table(target);
  EXPECT_EQ(MicroKernelTable::load(file.path, target).error().code, ErrorCode::E701);
  ASSERT_TRUE(table.save(file.path).has_value());
  const auto again = MicroKernelTable::load(file.path, target);
  ASSERT_TRUE(again.has_value());
  EXPECT_EQ(again->to_numbers(), table.to_numbers());
  const auto found = MicroKernelTable::load_or_measure(target, file.path);
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->to_numbers(), table.to_numbers());
}

TEST(MicroKernelTable, DamageAndOtherMachinesAreNoticed) {
  const TempFile file;
  Target target = plain_target();
  ASSERT_TRUE(made_up_table(target).save(file.path).has_value());
  Target other = target;
  other.caches[0].size_bytes *= 2;
  EXPECT_EQ(MicroKernelTable::load(file.path, other).error().code, ErrorCode::E503);
  {
    std::fstream middle(file.path, std::ios::in | std::ios::out | std::ios::binary);
    middle.seekp(static_cast<std::streamoff>(std::filesystem::file_size(file.path) / 2));
    middle.put('7');
    middle.put('7');
  }
  EXPECT_EQ(MicroKernelTable::load(file.path, target).error().code, ErrorCode::E503);
  std::filesystem::resize_file(file.path, 10);
  EXPECT_EQ(MicroKernelTable::load(file.path, target).error().code, ErrorCode::E503);
  EXPECT_EQ(made_up_table(target).save("/proc/no_such_folder/micro_kernels").error().code, ErrorCode::E702);
}

TEST(MicroKernelTable, NumbersThatMakeNoSenseAreRefused) {
  const std::vector<double> good = made_up_table(plain_target()).to_numbers();
  EXPECT_TRUE(MicroKernelTable::from_numbers(good).has_value());
  for (size_t i = 0; i < good.size(); ++i) {
    std::vector<double> bad = good;
    bad[i] = NAN;
    EXPECT_FALSE(MicroKernelTable::from_numbers(bad).has_value()) << i;
  }
  EXPECT_FALSE(MicroKernelTable::from_numbers({good.begin(), good.end() - 1}).has_value());
  EXPECT_FALSE(MicroKernelTable::from_numbers({}).has_value());
}

// A piece that uses few of the registers around it spills no more than these.
TEST(MachineCosts, APieceSpillsWhatItTouches) {
  const MachineCosts costs = describe_costs(plain_target());
  Work work{.stores = 1, .live_registers = 80, .touched_registers = 1};
  const double one = work_cycles(work, costs, false);
  work.touched_registers = 80;
  EXPECT_LT(10 * one, work_cycles(work, costs, false));
}

TEST(MachineCosts, RegistersHoldOneStepOfSeveral) {
  // Nine steps of six accumulators, each with three vectors and two broadcasts of its own: 12 registers at a time.
  const MachineCosts costs = describe_costs(plain_target());
  Work step, nine;
  step.fma = step.accumulators = step.live_registers = step.touched_registers = 6;
  step.loads = 5;
  step.broadcasts = 2;
  nine = step;
  nine.fma *= 9;
  nine.loads *= 9;
  nine.broadcasts *= 9;
  MachineCosts few = costs;
  few.registers = 16;
  EXPECT_DOUBLE_EQ(work_cycles(nine, few, false), work_cycles(nine, costs, false));
  EXPECT_LE(work_cycles(nine, few, false), 9 * work_cycles(step, few, false));
}

TEST(MicroKernelTable, TheNearestTileServesOthers) {
  const MicroKernelTable table = made_up_table(plain_target());
  Work work;
  work.fma = work.accumulators = work.live_registers = work.touched_registers = 24;
  work.broadcasts = 12;
  work.loads = 14;
  EXPECT_EQ(table.nearest(work)->vectors, 2);
  EXPECT_DOUBLE_EQ(table.step_cycles(work, RowMode::kInPlace), 12 * 15.0 / 14);
  work.loads = 13;
  EXPECT_EQ(table.nearest(work)->vectors, 1);
  EXPECT_EQ(MicroKernelTable().nearest(work), nullptr);
  // Steps that share broadcasts are of the tile that they compute.
  work.fma = work.accumulators = 28;
  work.broadcasts = 5;
  work.loads = 7;
  EXPECT_EQ(table.nearest(work), table.nearest(14, 2));
}

TEST(MicroKernelTable, MeasuredOnThisMachine) {
  const Target target = detect_host(1);
  const auto table = MicroKernelTable::measure(target, 0.01);  // one tile at least
  ASSERT_TRUE(table.has_value()) << table.error().to_string();
  ASSERT_FALSE(table->tiles().empty());
  for (const TileCosts& tile : table->tiles())
    for (const double cycles : tile.step_cycles) EXPECT_TRUE(std::isfinite(cycles) && cycles > 0);
  EXPECT_TRUE(MicroKernelTable::from_numbers(table->to_numbers()).has_value());
  EXPECT_GT(predicted({.rows = 6, .vectors = 2, .depth = 64}, &*table), 0);
}

}  // namespace
}  // namespace fettle
