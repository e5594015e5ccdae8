#include "generations/metaschedule/databases.h"

#include <fstream>

#include "cost/cost_model.h"
#include "database/test_util.h"
#include "generations/ansor/sketch/test_programs.h"
#include "generations/metaschedule/anchor_trace.h"
#include "generations/metaschedule/workload_equality.h"
#include "ir/text.h"
#include "schedule/dataflow/dataflow.h"
#include "schedule/primitives.h"
#include "schedule/testing.h"
#include "tune/space/test_workloads.h"
#include "tune/testing.h"

namespace fettle {
namespace {

using testing::record;
using testing::task;
using testing::TempFolder;

TEST(Databases, AMergedOneHasTheBestOfAll) {
  const std::shared_ptr<Database> a = make_memory_database(), b = make_memory_database();
  ASSERT_OK(a->add(record(8, "slow", 3)));
  ASSERT_OK(b->add(record(8, "fast", 1)));
  ASSERT_OK(b->add(record(8, "slow", 2)));
  const auto merged = make_merged_database({a, b});
  const auto best = merged->best(task(8), 5);
  ASSERT_OK(best);
  ASSERT_EQ(best->size(), 2u);
  EXPECT_EQ((*best)[0].trace, "fast");
  EXPECT_EQ((*best)[1].median_s, 2);
  EXPECT_EQ(make_union_database({a, b})->best(task(8), 1)->front().trace, "slow");  // the first that has an answer
  EXPECT_EQ(merged->records(task(8))->size(), 3u);
}

TEST(Databases, AScheduleFunctionAnswersForEveryTask) {
  const auto database = make_schedule_fn_database([](Schedule& s) -> Result<> {
    FETTLE_TRY(const BlockRef block, get_block(s, {"B"}));
    FETTLE_TRY(const auto loops, get_loops(s, {block}));
    return unroll(s, {.loop = loops.front()});
  });
  const auto best = database->best(task(8), 1);
  ASSERT_OK(best);
  ASSERT_EQ(best->size(), 1u);
  EXPECT_NE(best->front().trace.find("unroll"), std::string::npos);
  EXPECT_TRUE(*database->contains(task(8), best->front().trace));
  EXPECT_ERROR(database->add(record(8, "x", 1)), E505);
  const auto never = make_schedule_fn_database([](Schedule&) -> Result<> { return fail(ErrorCode::E206, "no"); });
  EXPECT_TRUE(never->best(task(8), 1)->empty());
}

TEST(Databases, CallbacksSeeEachRecord) {
  const std::shared_ptr<Database> own = make_memory_database(), further = make_memory_database();
  const auto model = std::make_shared<testing::CountingModel>();
  TempFolder folder;
  for (int i = 0; i < 5; ++i) std::ofstream(folder.path / std::to_string(i)) << "object";
  const auto features = [](const Func&) -> Result<CandidateFeatures> { return CandidateFeatures{{1, 2}, 1e-3}; };
  const auto observed = make_observed_database(own, {add_to_database(further), update_cost_model(model, features, 2),
                                                     remove_build_artefact(folder.path.string(), 2)});
  for (int i = 0; i < 4; ++i) {
    Record r = record(8, "b0 = get_block(name=\"B\")\n" + std::string(static_cast<size_t>(i), '\n'), 1 + i);
    r.generation = 1;
    ASSERT_OK(observed->add(r));
  }
  Record again = record(8, "", 1);
  again.generation = kConfirmationGeneration;
  ASSERT_OK(observed->add(again));
  EXPECT_EQ(further->records(task(8))->size(), 5u);
  EXPECT_EQ(model->updates, 2);
  EXPECT_EQ(model->rows, 4u);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path), {}), 2);
}

TEST(WorkloadEquality, ThreeModes) {
  const auto add = [](double value) {
    const te::Tensor a = te::placeholder({8}, kF32, "A");
    return te::create_func("add", {a}, {te::compute({8}, [&](const auto& i) { return a(i) + float_imm(value); }, "B")});
  };
  EXPECT_FALSE(equal_workloads(add(1), add(2), WorkloadEquality::kStructural));
  EXPECT_TRUE(equal_workloads(add(1), add(1), WorkloadEquality::kStructural));
  EXPECT_TRUE(equal_workloads(add(1), add(2), WorkloadEquality::kIgnoreConstants));
  const Func plain = testing::matmul_workload(8, 8, 8, false, false, false, false);
  const Func constant = testing::matmul_workload(8, 8, 8, false, false, true, false);
  EXPECT_FALSE(equal_workloads(plain, constant, WorkloadEquality::kStructural));
  EXPECT_TRUE(equal_workloads(plain, constant, WorkloadEquality::kIgnoreConstants));
  EXPECT_TRUE(equal_workloads(testing::matmul(8, 8, 8), testing::matmul_relu(8, 8, 8), WorkloadEquality::kAnchorBlock));
  EXPECT_FALSE(
      equal_workloads(testing::matmul(8, 8, 8), testing::matmul_relu(8, 8, 8), WorkloadEquality::kIgnoreConstants));
  EXPECT_FALSE(
      equal_workloads(testing::matmul(8, 8, 8), testing::matmul_relu(8, 8, 16), WorkloadEquality::kAnchorBlock));
}

constexpr const char* kTiled = R"(b0 = get_block(name="C")
b1 = cache_write@2(block=b0, write_index=0, scope="register")
l2, l3, l4 = get_loops(block=b0)
l5, l6 = split(loop=l2, factors=[-1, 4], tail="exact")
reorder(loops=[l5, l4, l6, l3])
vectorize(loop=l3)
reverse_compute_at@2(block=b1, loop=l5, preserve_unit_loops=true)
)";

TEST(WorkloadEquality, RecordsOfEqualWorkloadsAnswer) {
  const std::shared_ptr<Database> own = make_memory_database();
  const auto key = [](const Func& func) {
    return TaskKey{make_workload(func), "llvm x86-64 +avx", {1, 2}, 1, "lower 1"};
  };
  Record r = record(8, kTiled, 1);
  r.task = key(testing::matmul(8, 8, 8));
  ASSERT_OK(own->add(r));
  const Func relu = testing::matmul_relu(8, 8, 8);
  const TaskKey other = key(relu);
  EXPECT_TRUE(own->best(other, 1)->empty());
  EXPECT_TRUE(make_equality_database(own, WorkloadEquality::kStructural)->best(other, 1)->empty());
  const auto found = make_equality_database(own, WorkloadEquality::kAnchorBlock)->best(other, 1);
  ASSERT_OK(found);
  ASSERT_EQ(found->size(), 1u);
  Schedule s(relu);
  ASSERT_OK(replay(s, parse_trace(found->front().trace).value()));
  EXPECT_TRUE(testing::same_result(relu, s.func()));
  EXPECT_NE(to_text(s.func()).find("vectorize"), std::string::npos);
  // What is no schedule cannot be carried over.
  r.trace = "no trace";
  r.task = key(testing::matmul(8, 8, 12));
  ASSERT_OK(own->add(r));
  EXPECT_TRUE(make_equality_database(own, WorkloadEquality::kAnchorBlock)
                  ->best(key(testing::matmul_relu(8, 8, 12)), 1)
                  ->empty());
}

TEST(AnchorTrace, CarriesWhatIsDoneToTheAnchorAndInlinesTheRest) {
  const Func origin = testing::matmul(8, 8, 8), relu = testing::matmul_relu(8, 8, 8),
             padded = testing::relu_pad_matmul();
  const auto carried = replay_anchor(relu, origin, parse_trace(kTiled).value());
  ASSERT_OK(carried);
  EXPECT_TRUE(testing::same_result(relu, carried->func()));
  // C is accumulated in registers; the relu has become part of the copy that writes them back.
  EXPECT_EQ(blocks_of(carried->func().root()).size(), 2u) << to_text(carried->func());
  EXPECT_NE(to_text(carried->func()).find("register"), std::string::npos);
  // Other sizes: what does not fit is left out, and the program is right all the same.
  const auto other = replay_anchor(padded, origin, parse_trace(kTiled).value());
  ASSERT_OK(other);
  EXPECT_TRUE(testing::same_result(padded, other->func()));
}

}  // namespace
}  // namespace fettle
