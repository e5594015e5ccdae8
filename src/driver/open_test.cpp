#include "driver/open.h"

#include <gtest/gtest.h>

#include "codegen/build.h"
#include "schedule/reformulation.h"
#include "tune/space/space.h"
#include "tune/space/test_workloads.h"

namespace fettle {
namespace {

TEST(IsLibraryPath, ALibraryEndsInItsVersion) {
  for (const char* library : {"model.so", "a.b/model.so", "libmodel.so.1", "model.so.1.20.3"})
    EXPECT_TRUE(is_library_path(library)) << library;
  for (const char* model : {"model.onnx", "model.so.onnx", "model.so/model.onnx", "so", "1.2", "model.so.old", ""})
    EXPECT_FALSE(is_library_path(model)) << model;
}

TEST(PlanSource, LooksAtTheModelBeforeTheDatabase) {
  const auto planned = plan_source("/no such/model.onnx", {.database = "/no such/records.db"});
  ASSERT_FALSE(planned.has_value());
  EXPECT_EQ(planned.error().code, ErrorCode::E601);
}

TEST(BestTraces, WithinAnErrorBound) {
  const Func workload = testing::conv_workload({.h = 8, .w = 8, .ic = 16, .oc = 16});
  const Target target = parse_target("x86-64-avx512").value();
  const auto shared = std::make_shared<const Target>(target);
  const std::shared_ptr<Database> database = make_memory_database();
  double bound = 0;
  const auto add = [&](const char* outputs, double seconds) {
    const DecisionMap decisions = {{"winograd/O/outputs", outputs}};
    const auto s = rule_space().generate(workload, shared, 1, 1, std::make_shared<const DecisionMap>(decisions));
    ASSERT_TRUE(s) << s.error().to_string();
    bound = error_bound_of(s->func());
    Record record;
    record.task = make_task_key(workload, target, 1, program_versions());
    record.trace = to_text(s->trace());
    record.median_s = record.min_s = seconds;
    record.checked = true;
    ASSERT_TRUE(database->add(record));
  };
  add("4", 1e-3);
  const double large = bound;
  ASSERT_GT(large, 100);
  const auto uses_winograd = [&](double max_error_bound) -> std::optional<bool> {
    const auto trace = best_traces(database, target, 1, max_error_bound)(workload);
    if (!trace) return std::nullopt;
    return trace->find("reformulate") != std::string::npos;
  };
  EXPECT_EQ(uses_winograd(std::numeric_limits<double>::infinity()), true);
  EXPECT_EQ(uses_winograd(large), true);
  EXPECT_EQ(uses_winograd(100), std::nullopt);  // the default then
  add("0", 2e-3);
  EXPECT_EQ(uses_winograd(std::numeric_limits<double>::infinity()), true);
  EXPECT_EQ(uses_winograd(100), false);
}

constinit const KernelSourceDef kFast = {.name = "fast",
                                         .device = "llvm",
                                         .library = "a library",
                                         .description = "everything",
                                         .version = [] { return Result<std::string>("2.0"); },
                                         .offer = [](const Func&, int) -> Result<KernelOffer> {
                                           return KernelOffer{
                                               .version = "2.0", .kernel = "fast", .packing = {}, .description = {}};
                                         },
                                         .build = nullptr};

TEST(BestTraces, KernelsOfOthersWhereTheyAreAllowed) {
  const AddedKernelSource added(kFast);
  const Func workload = testing::conv_workload({.h = 8, .w = 8, .ic = 16, .oc = 16});
  const Target target = detect_host(1);
  const auto shared = std::make_shared<const Target>(target);
  const std::shared_ptr<Database> database = make_memory_database();
  const auto add = [&](const Schedule& s, double seconds) {
    Record record;
    record.task = make_task_key(workload, target, 1, program_versions());
    record.trace = to_text(s.trace());
    record.median_s = record.min_s = seconds;
    record.checked = true;
    ASSERT_TRUE(database->add(record));
  };
  const auto offered = offered_schedule(kFast, workload, shared, 1);
  ASSERT_TRUE(offered) << offered.error().to_string();
  add(offered->schedule, 1e-3);
  const auto best = [&](const KernelSources& sources) {
    return best_traces(database, target, 1, std::numeric_limits<double>::infinity(), sources)(workload);
  };
  EXPECT_EQ(best({}), std::nullopt) << "the default, since nobody allowed it";
  ASSERT_TRUE(best({&kFast}));
  EXPECT_EQ(kernel_source_of_trace(*best({&kFast})), "fast 2.0");
  add(*rule_space().generate(workload, shared, 1, 1, nullptr), 2e-3);
  ASSERT_TRUE(best({}));
  EXPECT_EQ(kernel_source_of_trace(*best({})), "");
}

}  // namespace
}  // namespace fettle
