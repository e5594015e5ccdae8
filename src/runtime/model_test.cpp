#include "runtime/model.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <fstream>
#include <numeric>
#include <thread>

#include "rt/model.h"
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

ModelContext context_of(const Model& model) {
  auto context = model.make_context();
  EXPECT_TRUE(context) << context.error().to_string();
  return std::move(*context);
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
  EXPECT_EQ(model.run(inputs).error().message, "input 'x' is f32[3, 2], expected f32[2, 3]: axis 0 is 3, not 2");
  inputs[0].tensor = tensor(FETTLE_F64, {2, 3});
  EXPECT_EQ(model.run(inputs).error().code, ErrorCode::E705);
  ModelContext context = context_of(model);
  auto outputs = context.make_outputs(input_x());
  ASSERT_TRUE(outputs);
  (*outputs)[0].tensor = tensor(FETTLE_I32, {2, 3});
  EXPECT_EQ(context.run_into(input_x(), *outputs).error().message, "output 'y' is i32[2, 3], expected f32[2, 3]");
  (*outputs)[0].tensor = Tensor();
  EXPECT_EQ(context.run_into(input_x(), *outputs).error().code, ErrorCode::E705);
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

TEST(Model, RunsOnAnyNumberOfThreads) {
  const Model model = doubler();
  std::atomic<int> right{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([&, copy = model, t] {
      for (int i = 0; i < 100; ++i) {
        auto inputs = input_x();
        inputs[0].tensor.elems<float>()[0] = static_cast<float>(100 * t + i);
        const auto outputs = copy.run(inputs);
        right += outputs && (*outputs)[0].tensor.elems<float>()[0] == static_cast<float>(2 * (100 * t + i));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(right, 300);
}

// A model by hand whose sizes are open and that remembers: y = x + the sum of all x before, and the positive of y.
FettleTensor described(const char* name, int32_t rank, const int64_t* shape) {
  FettleTensor made{};
  made.struct_bytes = sizeof made;
  made.name = name;
  made.dtype = FETTLE_F32;
  made.rank = rank;
  made.shape = shape;
  return made;
}

constexpr int64_t kOpen[] = {-1}, kOne[] = {1};
std::atomic<int> resized{0};
std::atomic<bool> is_held{false}, has_begun{false};  // in the kernel

int32_t resize(FettleContext*, void** buffers, const int64_t* ints) {
  ++resized;
  auto* table = static_cast<int64_t*>(buffers[0]);
  table[0] = ints[0] == 13 ? -1 : 0;
  table[1] = table[2] = ints[0];  // x[N], before[1] → y[N], positive[P], after[1]
  table[3] = 1;
  return FETTLE_OK;
}

int32_t accumulate(FettleContext*, void** buffers, const int64_t* ints) {
  has_begun = true;
  while (is_held) std::this_thread::yield();
  const auto* x = static_cast<const float*>(buffers[0]);
  auto *y = static_cast<float*>(buffers[2]), *positive = static_cast<float*>(buffers[3]);
  auto* sum = static_cast<float*>(buffers[5]);
  auto* table = static_cast<int64_t*>(buffers[7]);
  int64_t found = 0;
  const float before = *sum;
  for (int64_t i = 0; i < ints[1]; ++i) {
    y[i] = x[i] + before;
    *sum += x[i];
    if (y[i] > 0) positive[found++] = y[i];
  }
  table[2] = found;
  return FETTLE_OK;
}

int32_t accumulate_program(FettleContext* context, void** buffers, const int64_t* ints) {
  const int32_t status = fettle_call_kernel(context, 0, accumulate, buffers, ints);
  const int32_t idle = fettle_call_kernel(
      context, 0, [](FettleContext*, void**, const int64_t*) -> int32_t { return FETTLE_OK; }, buffers, ints);
  return status != FETTLE_OK ? status : idle;
}

Model accumulator() {
  static const FettleTensor inputs[] = {described("x", 1, kOpen), described("before", 1, kOne)};
  static const FettleTensor outputs[] = {described("y", 1, kOpen), described("positive", 1, kOpen),
                                         described("after", 1, kOne)};
  static const FettleTensor sum = described("sum", 1, kOne);
  static const FettleState state = {sizeof(FettleState), 1, 2, -1, &sum};
  static const char* const errors[] = {"input 'x' (axis 0) cannot be 13"};
  static const char* const names[] = {"accumulate"};
  static const char* const origins[] = {""};
  auto info = std::make_shared<FettleModelInfo>();
  info->magic = FETTLE_MAGIC;
  info->abi_version = FETTLE_ABI_VERSION;
  info->struct_bytes = sizeof *info;
  info->name = "accumulator";
  info->target_features = "";
  info->inputs = inputs;
  info->outputs = outputs;
  info->states = &state;
  info->size_errors = errors;
  info->kernel_names = names;
  info->kernel_origins = origins;
  info->n_inputs = 2;
  info->n_outputs = 3;
  info->n_states = info->n_size_errors = info->n_kernels = 1;
  info->n_sizes = 4;
  info->default_threads = 1;
  info->entry = accumulate_program;
  info->resize = resize;
  info->functions = &fettle_rt_functions;
  resized = 0;
  auto model = Model::make(info);
  EXPECT_TRUE(model) << model.error().to_string();
  return std::move(*model);
}

std::vector<NamedTensor> vector_x(const std::vector<float>& values) {
  std::vector<NamedTensor> inputs;
  inputs.push_back({"x", tensor(FETTLE_F32, {static_cast<int64_t>(values.size())})});
  std::ranges::copy(values, inputs[0].tensor.elems<float>().begin());
  return inputs;
}

std::vector<float> elems_of(const Tensor& from) {
  const auto elems = from.elems<float>();
  return {elems.begin(), elems.end()};
}

TEST(ModelContext, SizesAreThoseOfTheInputs) {
  const Model model = accumulator();
  ModelContext context = context_of(model);
  const auto first = context.run(vector_x({1, -2, 3}));
  ASSERT_TRUE(first) << first.error().to_string();
  ASSERT_EQ(first->size(), 2u) << "what a state takes is not returned";
  EXPECT_EQ(elems_of((*first)[0].tensor), (std::vector<float>{1, -2, 3}));
  EXPECT_EQ((*first)[1].tensor.shape(), std::vector<int64_t>{2});
  EXPECT_EQ(elems_of((*first)[1].tensor), (std::vector<float>{1, 3}));
  EXPECT_EQ(resized, 1) << "one for the outputs' shapes and the run";
  auto outputs = context.make_outputs(vector_x({1, 1, 1, 1, 1}));
  ASSERT_TRUE(outputs);
  EXPECT_EQ((*outputs)[1].tensor.shape(), std::vector<int64_t>{5}) << "at most";
  for (int i = 0; i < 2; ++i) ASSERT_TRUE(context.run_into(vector_x({-9, 1, 1, 1, 1}), *outputs));
  EXPECT_EQ((*outputs)[1].tensor.shape(), std::vector<int64_t>{0});
  EXPECT_EQ(resized, 2);
  const auto small = context.run_into(vector_x(std::vector<float>(6, 1)), *outputs);
  EXPECT_EQ(small.error().code, ErrorCode::E705);
  EXPECT_EQ(small.error().message, "output 'y' takes 24 bytes, as f32[6], and has room for 20");
  const auto wrong = context.run(vector_x(std::vector<float>(13, 1)));
  EXPECT_EQ(wrong.error().code, ErrorCode::E705);
  EXPECT_EQ(wrong.error().message, "input 'x' (axis 0) cannot be 13");
}

TEST(ModelContext, StatesBelongToIt) {
  const Model model = accumulator();
  ModelContext one = context_of(model), two = context_of(model);
  ASSERT_TRUE(one.run(vector_x({1, 2})));
  ASSERT_TRUE(one.run(vector_x({10})));
  EXPECT_EQ(elems_of(*one.state("sum")), std::vector<float>{13});
  EXPECT_EQ(elems_of(*two.state("sum")), std::vector<float>{0});
  const Tensor sum = std::move(*one.state("sum"));
  ASSERT_TRUE(two.set_state("sum", view_of("", sum)));
  EXPECT_EQ(elems_of((*two.run(vector_x({1})))[0].tensor), std::vector<float>{14});
  ASSERT_TRUE(one.reset_states());
  EXPECT_EQ(elems_of((*one.run(vector_x({1})))[0].tensor), std::vector<float>{1});
  EXPECT_EQ(one.state("some").error().message, "the model has no state 'some'; it has 'sum'");
  EXPECT_EQ(one.set_state("sum", view_of("", tensor(FETTLE_F32, {2}))).error().code, ErrorCode::E705);
  auto inputs = vector_x({1});
  inputs.push_back({"before", tensor(FETTLE_F32, {1})});
  inputs[1].tensor.elems<float>()[0] = 100;
  EXPECT_EQ(elems_of((*one.run(inputs))[0].tensor), std::vector<float>{101});
  for (int i = 0; i < 2; ++i) EXPECT_EQ(elems_of((*model.run(vector_x({1})))[0].tensor), std::vector<float>{1});
}

TEST(ModelContext, CallsAreBegunAwaitedAndCancelled) {
  const Model model = accumulator();
  ModelContext context = context_of(model);
  const auto inputs = vector_x({1, 2});
  const FettleTensor x = view_of("x", inputs[0].tensor);
  std::vector<FettleTensor> outputs(model.outputs().begin(), model.outputs().end());
  EXPECT_EQ(context.wait().error().message, "no call was begun");
  ASSERT_TRUE(context.begin({&x, 1}, outputs));
  ASSERT_TRUE(context.wait());
  EXPECT_EQ(static_cast<const float*>(outputs[0].data)[1], 2);
  has_begun = false;
  is_held = true;
  ASSERT_TRUE(context.begin({&x, 1}, outputs));
  while (!has_begun) std::this_thread::yield();
  EXPECT_EQ(context.run(inputs).error().message, "the context is being used by another call; make one for each thread");
  context.cancel();
  is_held = false;
  const auto cancelled = context.wait();
  EXPECT_EQ(cancelled.error().code, ErrorCode::E710);
  EXPECT_EQ(cancelled.error().message, "running 'accumulator' was cancelled");
}

TEST(Profiler, CountsCallsByKernel) {
  ModelContext context = context_of(doubler());
  {
    const Profiler profiler(context);
    ASSERT_TRUE(context.run(input_x()));
    ASSERT_TRUE(context.run(input_x()));
    ASSERT_EQ(profiler.times().size(), 2u);
    EXPECT_EQ(profiler.times()[0].calls, 0);
    EXPECT_EQ(profiler.times()[1].calls, 2);
    EXPECT_GE(profiler.times()[1].total_ns, 2 * profiler.times()[1].min_ns);
    const std::string text = profiler.to_string();
    EXPECT_NE(text.find("100.0%"), std::string::npos) << text;
    EXPECT_NE(text.find("double (Mul twice, Identity y)"), std::string::npos) << text;
    EXPECT_EQ(text.find("idle"), std::string::npos) << text;
  }
  EXPECT_TRUE(context.run(input_x()));
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
  for (const char* other : {"old", "version"}) {
    const auto info = load_library(fixture(other));
    ASSERT_FALSE(info);
    EXPECT_EQ(info.error().code, ErrorCode::E706);
    EXPECT_EQ(info.error().message,
              fmt::format("its interface has version {}, this Fettle's is 3", other == std::string("old") ? 2 : 99));
  }
}

TEST(Library, RefusesAnotherProcessor) {
  const auto info = load_library(fixture("feature"));
  ASSERT_FALSE(info);
  EXPECT_EQ(info.error().code, ErrorCode::E707);
  EXPECT_EQ(info.error().message, "this machine lacks avx9000, which any needs");
}

TEST(Library, RelativePathsAreNotLookedUpInTheSystem) {
  const fs::path before = fs::current_path();
  fs::current_path(fixture("good").parent_path());
  EXPECT_TRUE(load_library("fettle_fixture_good.so"));
  fs::current_path(before);
}

}  // namespace
}  // namespace fettle
