#include "runtime/model.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <fstream>
#include <numeric>

#include "runtime/library.h"
#include "runtime/profiler.h"

namespace fettle {
namespace {

namespace fs = std::filesystem;

fs::path fixture(const char* variant) {
  return fs::path(FETTLE_BINARY_DIR) / "fixtures" / (std::string("fettle_fixture_") + variant + ".so");
}

Tensor tensor(FettleDtype dtype, std::vector<int64_t> shape) {
  auto made = Tensor::make(dtype, std::move(shape));
  EXPECT_TRUE(made);
  return std::move(*made);
}

std::vector<NamedTensor> input_x() {
  std::vector<NamedTensor> inputs;
  inputs.push_back({"x", tensor(FETTLE_F32, {2, 3})});
  const auto elems = inputs[0].tensor.elems<float>();
  std::iota(elems.begin(), elems.end(), 1.0f);
  return inputs;
}

Model doubler() {
  auto model = Model::load(fixture("good"));
  EXPECT_TRUE(model) << model.error().to_string();
  return std::move(*model);
}

TEST(Model, RunsByName) {
  Model model = doubler();
  EXPECT_STREQ(model.info().name, "doubler");
  const auto outputs = model.run(input_x());
  ASSERT_TRUE(outputs) << outputs.error().to_string();
  ASSERT_EQ(outputs->size(), 1u);
  EXPECT_EQ((*outputs)[0].name, "y");
  const auto y = (*outputs)[0].tensor.elems<float>();
  EXPECT_EQ(std::vector<float>(y.begin(), y.end()), (std::vector<float>{2, 4, 6, 8, 10, 12}));
}

TEST(Model, StaysUsableAfterMove) {
  Model first = doubler();
  Model second = std::move(first);
  EXPECT_TRUE(second.run(input_x()));
}

TEST(Model, NamesMustFit) {
  Model model = doubler();
  auto missing = model.run({});
  EXPECT_EQ(missing.error().code, ErrorCode::E704);
  EXPECT_EQ(missing.error().message, "input 'x' f32[2, 3] is missing");

  auto inputs = input_x();
  inputs.push_back({"z", Tensor()});
  auto unknown = model.run(inputs);
  EXPECT_EQ(unknown.error().code, ErrorCode::E704);
  EXPECT_EQ(unknown.error().message, "the model has no input 'z'; it has 'x' f32[2, 3]");

  inputs[1] = std::move(input_x()[0]);
  auto twice = model.run(inputs);
  EXPECT_EQ(twice.error().code, ErrorCode::E704);
  EXPECT_EQ(twice.error().message, "input 'x' is given twice");
}

TEST(Model, TypesMustFit) {
  Model model = doubler();
  std::vector<NamedTensor> inputs;
  inputs.push_back({"x", tensor(FETTLE_F32, {3, 2})});
  EXPECT_EQ(model.run(inputs).error().message, "input 'x' is f32[3, 2], expected f32[2, 3]");
  inputs[0].tensor = tensor(FETTLE_F64, {2, 3});
  EXPECT_EQ(model.run(inputs).error().code, ErrorCode::E705);
  auto outputs = model.make_outputs();
  ASSERT_TRUE(outputs);
  (*outputs)[0].tensor = tensor(FETTLE_I32, {2, 3});
  EXPECT_EQ(model.run_into(input_x(), *outputs).error().message, "output 'y' is i32[2, 3], expected f32[2, 3]");
}

TEST(Model, FailureWhileRunningIsReported) {
  Model model = doubler();
  auto inputs = input_x();
  inputs[0].tensor.elems<float>()[2] = NAN;
  const auto outputs = model.run(inputs);
  ASSERT_FALSE(outputs);
  EXPECT_EQ(outputs.error().code, ErrorCode::E710);
  EXPECT_EQ(outputs.error().message,
            "running 'doubler' failed: compiled code failed in kernel 1 'double', from Mul twice, Identity y");
  EXPECT_TRUE(model.run(input_x())) << "and the next run works";
}

TEST(Model, BadOptionsAreReported) {
  FettleOptions options{};
  options.threads = -1;
  EXPECT_EQ(Model::load(fixture("good"), options).error().code, ErrorCode::E710);
}

TEST(Profiler, CountsCallsByKernel) {
  Model model = doubler();
  {
    const Profiler profiler(model);
    ASSERT_TRUE(model.run(input_x()));
    ASSERT_TRUE(model.run(input_x()));
    ASSERT_EQ(profiler.times().size(), 2u);
    EXPECT_EQ(profiler.times()[0].calls, 0);
    EXPECT_EQ(profiler.times()[1].calls, 2);
    EXPECT_GE(profiler.times()[1].total_ns, 2 * profiler.times()[1].min_ns);
    const std::string text = profiler.to_string();
    EXPECT_NE(text.find("100.0%"), std::string::npos) << text;
    EXPECT_NE(text.find("double (Mul twice, Identity y)"), std::string::npos) << text;
    EXPECT_EQ(text.find("idle"), std::string::npos) << text;
  }
  EXPECT_TRUE(model.run(input_x()));
}

TEST(Library, RefusesWhatIsNoArtefact) {
  const fs::path path = fs::path(testing::TempDir()) / ("fettle_not_elf_" + std::to_string(::getpid()) + ".so");
  EXPECT_EQ(load_library(path).error().code, ErrorCode::E701);
  EXPECT_EQ(load_library(path.parent_path()).error().code, ErrorCode::E701);
  std::ofstream(path) << "#!/bin/sh\n";
  EXPECT_EQ(load_library(path).error().message, "the file is not a shared library");
  std::ofstream(path) << "\177ELF and then nothing";
  EXPECT_EQ(load_library(path).error().code, ErrorCode::E706);
  std::ofstream(path) << "";
  EXPECT_EQ(load_library(path).error().code, ErrorCode::E706);
  fs::remove(path);
  EXPECT_EQ(load_library(fixture("other")).error().message, "the library holds no compiled model");
}

TEST(Library, RefusesAnotherVersion) {
  const auto info = load_library(fixture("version"));
  ASSERT_FALSE(info);
  EXPECT_EQ(info.error().code, ErrorCode::E706);
  EXPECT_EQ(info.error().message, "its interface has version 99, this Fettle's is 2");
}

TEST(Library, RefusesAnotherProcessor) {
  const auto info = load_library(fixture("feature"));
  ASSERT_FALSE(info);
  EXPECT_EQ(info.error().code, ErrorCode::E707);
  EXPECT_EQ(info.error().message, "this machine lacks avx9000; the model was compiled for any");
}

TEST(Library, RelativePathsAreNotLookedUpInTheSystem) {
  const fs::path before = fs::current_path();
  fs::current_path(fixture("good").parent_path());
  EXPECT_TRUE(load_library("fettle_fixture_good.so"));
  fs::current_path(before);
}

}  // namespace
}  // namespace fettle
