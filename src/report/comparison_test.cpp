#include "report/comparison.h"

#include <gtest/gtest.h>

namespace fettle {
namespace {

ReportedTask task(const std::string& name, double weight, double best_s, double limit_s) {
  ReportedTask made;
  made.task.workload.hash = digest_bytes(name);
  made.task.label = name;
  made.task.weight = weight;
  made.best_s = best_s;
  made.limit.seconds = limit_s;
  return made;
}

TEST(Comparison, SharesOfTheGain) {
  RunReport before, after;
  before.tasks = {task("a", 2, 4, 1), task("b", 1, 5, 0), task("gone", 1, 1, 0), task("c", 1, 1, 0)};
  after.tasks = {task("c", 1, 2, 0), task("a", 2, 2, 1), task("b", 1, 4, 0), task("new", 1, 1, 0), task("d", 1, 1, 0)};
  const Comparison made = compare(before, after);
  EXPECT_EQ(made.only_before, 1);
  EXPECT_EQ(made.only_after, 2);
  ASSERT_EQ(made.tasks.size(), 3);
  EXPECT_EQ(made.tasks[0].label, "a");  // 4 s of the 4 s that all save: c loses what b gains
  EXPECT_EQ(made.tasks[0].saved_s, 4);
  EXPECT_EQ(made.tasks[0].share, 1);
  EXPECT_EQ(made.tasks[0].of_limit_before, 0.25);
  EXPECT_EQ(made.tasks[0].of_limit_after, 0.5);
  EXPECT_EQ(made.tasks[1].label, "c");
  EXPECT_EQ(made.tasks[1].share, -0.25);
  EXPECT_EQ(made.tasks[2].share, 0.25);
  EXPECT_EQ(made.tasks[2].of_limit_after, 0);
}

TEST(Comparison, WhatWasNotMeasuredSavesNothing) {
  RunReport before, after;
  before.tasks = {task("a", 1, 0, 1), task("b", 1, 1, 1)};
  after.tasks = {task("a", 1, 2, 1), task("b", 1, 2, 1)};
  const Comparison made = compare(before, after);
  ASSERT_EQ(made.tasks.size(), 2);
  EXPECT_EQ(made.tasks[0].label, "b");
  EXPECT_EQ(made.tasks[0].saved_s, -1);
  EXPECT_EQ(made.tasks[1].saved_s, 0);
  for (const ComparedTask& one : made.tasks) EXPECT_EQ(one.share, 0);
}

}  // namespace
}  // namespace fettle
