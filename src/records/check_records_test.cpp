#include "records/check_records.h"

#include <gtest/gtest.h>

#include "codegen/build.h"
#include "ir/text.h"
#include "target/target.h"

namespace fettle {
namespace {

constexpr const char* kDouble = R"(func twice(A: f32[64], B: f32[64] output):
  for i in 64:
    block B(vi: spatial[64] = i):
      reads A[vi]
      writes B[vi]
      B[vi] = A[vi] + A[vi]
)";

// A task of this machine with the plain program as a record, and one more trace that claims to be as good.
struct Recorded {
  std::unique_ptr<Database> database = make_memory_database();
  TaskKey task = make_task_key(parse_func(kDouble).value(), detect_host(1), 1, program_versions());

  void add(const std::string& trace, double seconds) {
    Record record;
    record.task = task;
    record.trace = trace;
    record.median_s = record.min_s = seconds;
    record.repeats = 1;
    record.checked = true;
    ASSERT_TRUE(database->add(record).has_value());
  }
};

TEST(CheckRecords, WhatIsRightStays) {
  Recorded r;
  r.add("", 1e-3);
  const auto report = check_records(*r.database, {});
  ASSERT_TRUE(report.has_value()) << report.error().to_string();
  ASSERT_EQ(report->checked.size(), 1u);
  EXPECT_TRUE(report->checked[0].now.ok()) << report->checked[0].now.message;
  EXPECT_TRUE(report->checked[0].now.checked);
  EXPECT_EQ(report->wrong, 0);
  EXPECT_EQ(best_checked(*r.database, r.task).value()->trace, "");
}

TEST(CheckRecords, WhatIsWrongIsNotUsedAgain) {
  Recorded r;
  r.add("", 1e-3);
  r.add("b0 = get_block(name=\"nowhere\")\n", 1e-6);
  ASSERT_NE(best_checked(*r.database, r.task).value()->trace, "");
  const auto report = check_records(*r.database, {.top = 2});
  ASSERT_TRUE(report.has_value()) << report.error().to_string();
  ASSERT_EQ(report->checked.size(), 2u);
  EXPECT_EQ(report->wrong, 1);
  EXPECT_EQ(report->checked[0].now.error, ErrorCode::E401);
  EXPECT_EQ(best_checked(*r.database, r.task).value()->trace, "");
}

TEST(CheckRecords, OfOtherMachinesAndVersionsAreLeftAlone) {
  Recorded r;
  r.task.fingerprint = {};
  r.add("", 1e-3);
  r.task.fingerprint = detect_host(1).fingerprint();
  r.task.versions = "of another time";
  r.add("", 1e-3);
  const auto report = check_records(*r.database, {});
  ASSERT_TRUE(report.has_value()) << report.error().to_string();
  EXPECT_TRUE(report->checked.empty());
  EXPECT_EQ(report->elsewhere, 1);
  EXPECT_EQ(report->outdated, 1);
}

}  // namespace
}  // namespace fettle
