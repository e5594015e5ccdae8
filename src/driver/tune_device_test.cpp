// Tuning a model for a device, and compiling it with what was found: by OpenCL.
#include <gtest/gtest.h>

#include <cstdlib>

#include "codegen/device_def.h"
#include "database/database.h"
#include "driver/compile.h"
#include "driver/tune.h"
#include "generations/registry.h"
#include "graph/testing.h"

namespace fettle {
namespace {

class TuneOnOpenCl : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    setenv("POCL_CACHE_DIR", FETTLE_BINARY_DIR "/pocl-cache", 0);
    if (const auto stream = opencl_device.open_stream(1); !stream) GTEST_SKIP() << stream.error().to_string();
  }
};

TEST_P(TuneOnOpenCl, WhatIsFoundIsCompiled) {
  GraphMaker m;
  Value* hidden = m.node("Relu", {m.node("MatMul", {m.input("x", {48, 64}), m.weights("w", {64, 32}, 3)})});
  m.graph.add_output("y", hidden);
  m.graph.sort();
  const auto space = find_space(GetParam())->make();
  const std::shared_ptr<Database> database = make_memory_database();
  TuneModelOptions options;
  options.target = parse_target("opencl").value();
  options.trials = 5;
  options.search_threads = 1;
  options.space = space.get();
  options.worker_path = FETTLE_BINARY_DIR "/bin/fettle-worker";
  const auto tuned = tune_model(m.graph, database, options);
  ASSERT_TRUE(tuned) << tuned.error().to_string();
  ASSERT_EQ(tuned->report.tasks.size(), 1u);
  const TaskReport& task = tuned->report.tasks[0];
  EXPECT_GE(task.measured, 1);
  EXPECT_GT(task.default_s, 0);
  EXPECT_GT(task.best_s, 0);
  EXPECT_LE(task.best_s, task.default_s);
  EXPECT_TRUE(task.confirmed || task.best_trace == task.default_trace) << task.error.to_string();
  EXPECT_GT(tuned->tuned_ms, 0);
  const auto runs = database->runs();
  ASSERT_TRUE(runs && runs->size() == 1);
  EXPECT_EQ(runs->front().machine.find(opencl_device.name().value() + ": opencl"), 0u) << runs->front().machine;

  CompileOptions compile;
  compile.target = options.target;
  compile.threads = 1;
  compile.find_trace = best_traces(database, options.target, 1);
  const auto compiled = compile_model(m.graph, compile);
  ASSERT_TRUE(compiled) << compiled.error().to_string();
  EXPECT_TRUE(compiled->tasks()[0].tuned);
}

INSTANTIATE_TEST_SUITE_P(Spaces, TuneOnOpenCl, ::testing::Values("rules", "metaschedule"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace fettle
