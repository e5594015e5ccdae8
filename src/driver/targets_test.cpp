// Models of several targets.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>

#include "base/testing.h"
#include "driver/bench.h"
#include "driver/open.h"
#include "graph/testing.h"
#include "rt/cpu.h"
#include "rt/targets.h"
#include "runtime/library.h"

namespace fettle {
namespace {

namespace fs = std::filesystem;

/// Weights of 3 MB: a convolution that Winograd's algorithm may compute, and products.
ImportedModel network() {
  GraphMaker m;
  Value* x = m.node("Relu", {m.conv(m.input("x", {1, 64, 10, 12}), 64, 3)});
  Value* flat = m.node("Reshape", {x}, with_ints("shape", {64, 120}));
  Value* wide = m.node("MatMul", {flat, m.weights("w1", {120, 1536}, 120)});
  Value* added = m.node("Add", {wide, m.weights("b", {1536}, 1)});
  m.graph.add_output("y", m.node("MatMul", {m.node("Relu", {added}), m.weights("w2", {1536, 256}, 1536)}));
  m.graph.sort();
  return {std::make_shared<const Graph>(std::move(m.graph)), "network", {}};
}

class Targets : public ::testing::Test {
 protected:
  /// The library's bytes.
  int64_t compile(const ImportedModel& model, const std::string& targets, const std::string& file) {
    const auto compiled = compile_source(model, {.threads = 2, .target = targets});
    if (!compiled) return ADD_FAILURE() << compiled.error().to_string(), 0;
    const auto written = compiled->write(folder / file);
    EXPECT_TRUE(written) << written.error().to_string();
    return static_cast<int64_t>(fs::file_size(folder / file));
  }

  testing::TempFolder made;
  const fs::path folder = made.path;
};

std::vector<float> run(const Model& model) {
  const auto inputs = random_inputs(model, 5);
  EXPECT_TRUE(inputs);
  const auto outputs = model.run(*inputs);
  if (!outputs) return ADD_FAILURE() << outputs.error().to_string(), std::vector<float>();
  const auto elems = (*outputs)[0].tensor.elems<float>();
  return {elems.begin(), elems.end()};
}

void expect_close(const std::vector<float>& expected, const std::vector<float>& got, const std::string& what) {
  ASSERT_EQ(expected.size(), got.size());
  float scale = 0, largest = 0;
  for (size_t i = 0; i < got.size(); ++i) {
    scale = std::max(scale, std::abs(expected[i]));
    largest = std::max(largest, std::abs(expected[i] - got[i]));
  }
  EXPECT_GT(scale, 0);
  EXPECT_LE(largest, 1e-5F * scale) << what;
}

bool runs_here(const FettleModelInfo& info) {
  char missing[32];
  return fettle_cpu_check(info.target_features, missing, sizeof missing) == 0;
}

TEST_F(Targets, GiveEqualResultsAndHaveTheirWeightsOnce) {
  const ImportedModel model = network();
  const auto plain = compile_source(model, {.threads = 1, .target = "host"}, true);
  ASSERT_TRUE(plain) << plain.error().to_string();
  const auto here = plain->instantiate();
  ASSERT_TRUE(here) << here.error().to_string();
  const std::vector<float> expected = run(*here);
  const int64_t alone = compile(model, "x86-64-v4", "one.so");
  for (const char* targets : {"x86-64-v3,x86-64-v4", "x86-64-v4,x86-64-v3,sapphirerapids"}) {
    EXPECT_LE(compile(model, targets, "model.so"), alone * 13 / 10) << targets;
    const auto best = load_library(folder / "model.so");
    ASSERT_TRUE(best) << best.error().to_string();
    int taken = 0;
    for (int32_t i = 0; i < (*best)->n_targets; ++i) {
      const FettleModelInfo& info = *(*best)->targets[i];
      const auto loaded = Model::load(folder / "model.so", {}, info.target);
      EXPECT_EQ(loaded.has_value(), runs_here(info)) << info.target;
      if (!loaded) {
        EXPECT_EQ(loaded.error().code, ErrorCode::E707);
        EXPECT_NE(loaded.error().message.find(std::string(", which ") + info.target + " needs"), std::string::npos);
        continue;
      }
      if (taken++ == 0) {
        EXPECT_EQ(best->get()->target, std::string(info.target)) << "the first is taken unasked";
      }
      expect_close(expected, run(*loaded), info.target);
    }
    EXPECT_GT(taken, 0);
  }
}

TEST_F(Targets, StandInTheOrderOfTheirInstructionSets) {
  const auto names = [](const std::string& text) {
    const auto targets = targets_of({.threads = 3, .target = text});
    std::string made;
    if (!targets) return targets.error().message;
    for (const NamedTarget& target : *targets) {
      made += (made.empty() ? "" : " ") + target.name;
      EXPECT_EQ(target.target.threads, 3);
    }
    return made;
  };
  EXPECT_EQ(names("x86-64-v3"), "x86-64-v3");
  EXPECT_EQ(names("x86-64-v3,sapphirerapids,x86-64-avx512"), "sapphirerapids x86-64-avx512 x86-64-v3");
  EXPECT_EQ(names("x86-64-v3,x86-64-v4,x86-64-avx2"), "x86-64-v4 x86-64-v3") << "one of two names";
  EXPECT_EQ(names("native,host"), "native");
  EXPECT_EQ(names("x86-64-v3,,x86-64-v4"), "a target of several has no name");
  EXPECT_EQ(names("x86-64-v3,"), "a target of several has no name");
  EXPECT_EQ(names(","), "a target of several has no name");
  EXPECT_EQ(names("x86-64-v3,cuda"),
            "cuda is no x86-64 processor: several targets are levels of one processor; compile a file for cuda alone");
  EXPECT_NE(names("x86-64-v4,aarch64-neon").find("aarch64-neon is no x86-64 processor"), std::string::npos);
  EXPECT_NE(names("x86-64-v3,x86-64-v9").find("there is no target 'x86-64-v9'"), std::string::npos);
  EXPECT_EQ(target_of({.target = "x86-64-v3,x86-64-v4"}).error().code, ErrorCode::E709);
}

TEST_F(Targets, OneThatThisProcessMayNotTakeIsRefusedByName) {
  const ImportedModel model = network();
  compile(model, "x86-64-v3,x86-64-v4", "model.so");
  ::setenv("FETTLE_TARGET", "x86-64-v2", 1);
  const auto loaded = Model::load(folder / "model.so");
  const auto compiled = compile_source(model, {.threads = 1, .target = "x86-64-v3,x86-64-v4"});
  const auto here = compiled->instantiate();
  ::unsetenv("FETTLE_TARGET");
  for (const auto& refused : {loaded, here}) {
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, ErrorCode::E707);
    EXPECT_EQ(refused.error().message,
              "the model has no target 'x86-64-v2', which FETTLE_TARGET asks for; it has x86-64-v4, x86-64-v3");
  }
  ASSERT_TRUE(compiled->instantiate());
}

// A machine compiles for another one, and runs none of that one's code.
TEST_F(Targets, PackingIsLeftToWhoOpensTheModel) {
  const auto compiled = compile_source(network(), {.threads = 1, .target = "x86-64-v3,x86-64-v4"});
  ASSERT_TRUE(compiled) << compiled.error().to_string();
  const auto info = compiled->load();
  ASSERT_TRUE(info) << info.error().to_string();
  EXPECT_GT((*info)->n_packings, 0);
  int late = 0;
  for (int32_t i = 0; i < (*info)->n_constants; ++i) late += (*info)->constants[i].data == nullptr;
  EXPECT_GT(late, 0);
  EXPECT_LE(compiled->constant_bytes(), compiled->weight_bytes() * 11 / 10) << "as they lie in the model, once";
  EXPECT_EQ(compiled->targets(), (std::vector<std::string>{"x86-64-v4", "x86-64-v3"}));
}

TEST_F(Targets, CodeForAnotherKindOfProcessorDoesNotRun) {
  const ImportedModel model = network();
  const auto library = compile_source(model, {.threads = 1, .target = "aarch64-neon"});
  ASSERT_FALSE(library);
  EXPECT_EQ(library.error().code, ErrorCode::E709);
  EXPECT_EQ(library.error().message,
            "libraries hold x86-64 code; `fettle inspect --task N --asm` shows that for aarch64");
  CompileOptions options;
  options.target = *parse_target("aarch64-neon");
  const auto here = compile_model(*model.graph, options);
  ASSERT_FALSE(here);
  EXPECT_EQ(here.error().code, ErrorCode::E707);
  options.target = *parse_target("x86-64-v3");
  options.target.features += ",+avx9000";
  EXPECT_EQ(check_runs_here(options.target).error().message, "this machine lacks avx9000, which the target needs");
  EXPECT_TRUE(check_runs_here(*parse_target("host")));
  EXPECT_TRUE(check_runs_here(*parse_target("cuda")));
}

}  // namespace
}  // namespace fettle
