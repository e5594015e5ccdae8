#include "rt/model.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "rt/cpu.h"

namespace {

const int64_t shape[] = {4};
const float offset[] = {10, 20, 30, 40};

int32_t add_kernel(FettleContext* context, void** buffers, const int64_t*) {
  struct Closure {
    void** buffers;
  } closure{buffers};
  fettle_parallel_for(
      context->team, 4,
      [](void* c, int64_t i) {
        void** b = static_cast<Closure*>(c)->buffers;
        static_cast<float*>(b[1])[i] = static_cast<const float*>(b[0])[i] + static_cast<const float*>(b[2])[i];
      },
      &closure);
  return FETTLE_OK;
}

/// output = input + offset, by way of the arena
int32_t host_program(FettleContext* context, void** buffers, const int64_t*) {
  void* first[] = {buffers[0], buffers[2], buffers[3]};
  if (const int32_t status = fettle_call_kernel(context, 0, add_kernel, first, nullptr); status != 0) return status;
  for (int i = 0; i < 4; ++i) static_cast<float*>(buffers[1])[i] = static_cast<float*>(buffers[2])[i];
  return static_cast<float*>(buffers[1])[0] < 0 ? FETTLE_KERNEL_FAILED : FETTLE_OK;
}

const FettleTensor input = {"x", nullptr, shape, 1, FETTLE_F32};
const FettleTensor output = {"y", nullptr, shape, 1, FETTLE_F32};
const FettleTensor constant = {"offset", const_cast<float*>(offset), shape, 1, FETTLE_F32};
const char* const kernel_names[] = {"add"};
const char* const kernel_origins[] = {"Add sum\nRelu cut"};

FettleModelInfo make_info() {
  FettleModelInfo info{};
  info.magic = FETTLE_MAGIC;
  info.abi_version = FETTLE_ABI_VERSION;
  info.name = "adder";
  info.target_features = "sse2";
  info.inputs = &input;
  info.outputs = &output;
  info.constants = &constant;
  info.kernel_names = kernel_names;
  info.kernel_origins = kernel_origins;
  info.n_inputs = info.n_outputs = info.n_constants = info.n_kernels = 1;
  info.default_threads = 2;
  info.arena_bytes = 4096;
  info.entry = host_program;
  return info;
}

TEST(Model, RunsWithArenaAndConstants) {
  const FettleModelInfo info = make_info();
  for (const int threads : {0, 1, 3}) {
    FettleOptions options{};
    options.threads = threads;
    FettleModel* model = fettle_rt_model_create(&info, &options);
    ASSERT_NE(model, nullptr) << fettle_rt_model_error(nullptr);
    const float x[] = {1, 2, 3, 4};
    float y[4] = {};
    const void* inputs[] = {x};
    void* outputs[] = {y};
    EXPECT_EQ(fettle_rt_model_run(model, inputs, outputs), FETTLE_OK);
    EXPECT_EQ(std::vector<float>(y, y + 4), (std::vector<float>{11, 22, 33, 44}));
    EXPECT_STREQ(fettle_rt_model_error(model), "");
    fettle_rt_model_destroy(model);
  }
}

TEST(Model, TellsWhatFailed) {
  const FettleModelInfo info = make_info();
  FettleModel* model = fettle_rt_model_create(&info, nullptr);
  ASSERT_NE(model, nullptr);
  const float x[] = {-100, 2, 3, 4};
  float y[4];
  const void* inputs[] = {x};
  void* outputs[] = {y};
  EXPECT_EQ(fettle_rt_model_run(model, inputs, outputs), FETTLE_KERNEL_FAILED);
  EXPECT_STREQ(fettle_rt_model_error(model), "running 'adder' failed: compiled code failed");
  outputs[0] = nullptr;
  EXPECT_EQ(fettle_rt_model_run(model, inputs, outputs), FETTLE_INVALID_ARGUMENT);
  EXPECT_STREQ(fettle_rt_model_error(model), "output 0 ('y') is a null pointer");
  EXPECT_EQ(fettle_rt_model_run(model, nullptr, outputs), FETTLE_INVALID_ARGUMENT);
  EXPECT_STREQ(fettle_rt_model_error(model), "input 0 ('x') is a null pointer");
  EXPECT_EQ(fettle_rt_model_run(nullptr, inputs, outputs), FETTLE_INVALID_ARGUMENT);
  fettle_rt_model_destroy(model);
  fettle_rt_model_destroy(nullptr);
}

TEST(Model, RefusesAProcessorThatLacksAFeature) {
  FettleModelInfo info = make_info();
  info.target_features = "sse2,avx9000,avx2";
  EXPECT_EQ(fettle_rt_model_create(&info, nullptr), nullptr);
  EXPECT_NE(std::string(fettle_rt_model_error(nullptr)).find("a processor with avx9000"), std::string::npos);
}

TEST(Model, RefusesBadOptionsAndArenas) {
  FettleModelInfo info = make_info();
  FettleOptions options{};
  options.threads = -2;
  EXPECT_EQ(fettle_rt_model_create(&info, &options), nullptr);
  EXPECT_NE(std::string(fettle_rt_model_error(nullptr)).find("threads is negative"), std::string::npos);
  info.arena_bytes = int64_t{1} << 60;
  EXPECT_EQ(fettle_rt_model_create(&info, nullptr), nullptr);
  EXPECT_NE(std::string(fettle_rt_model_error(nullptr)).find("memory ran out"), std::string::npos);
}

TEST(Model, ReportsKernelTimes) {
  const FettleModelInfo info = make_info();
  FettleModel* model = fettle_rt_model_create(&info, nullptr);
  ASSERT_NE(model, nullptr);
  struct Seen {
    std::vector<int32_t> kernels;
    int64_t total_ns = 0;
  } seen;
  auto hook = [](void* user, int32_t kernel, int64_t begin_ns, int64_t end_ns) {
    static_cast<Seen*>(user)->kernels.push_back(kernel);
    static_cast<Seen*>(user)->total_ns += end_ns - begin_ns;
  };
  const float x[] = {1, 2, 3, 4};
  float y[4];
  const void* inputs[] = {x};
  void* outputs[] = {y};
  fettle_rt_model_profile(model, hook, &seen);
  EXPECT_EQ(fettle_rt_model_run(model, inputs, outputs), FETTLE_OK);
  fettle_rt_model_profile(model, nullptr, nullptr);
  EXPECT_EQ(fettle_rt_model_run(model, inputs, outputs), FETTLE_OK);
  EXPECT_EQ(seen.kernels, std::vector<int32_t>{0});
  EXPECT_GT(seen.total_ns, 0);
  fettle_rt_model_destroy(model);
}

TEST(Cpu, ChecksLists) {
  char missing[8] = "?";
  EXPECT_EQ(fettle_cpu_check("", missing, sizeof missing), 0);
  EXPECT_EQ(fettle_cpu_check("+sse2,sse3", missing, sizeof missing), 0);
  EXPECT_STREQ(missing, "?");
  EXPECT_EQ(fettle_cpu_check("sse2,nothing-like-it", missing, sizeof missing), 2);
  EXPECT_STREQ(missing, "nothing");
}

TEST(Cpu, AgreesWithTheCompilersOwnDetection) {
  char missing[32];
  __builtin_cpu_init();
  EXPECT_EQ(fettle_cpu_check("avx2", missing, sizeof missing) == 0, __builtin_cpu_supports("avx2") != 0);
  EXPECT_EQ(fettle_cpu_check("fma", missing, sizeof missing) == 0, __builtin_cpu_supports("fma") != 0);
  EXPECT_EQ(fettle_cpu_check("bmi2", missing, sizeof missing) == 0, __builtin_cpu_supports("bmi2") != 0);
  EXPECT_EQ(fettle_cpu_check("avx512f", missing, sizeof missing) == 0, __builtin_cpu_supports("avx512f") != 0);
  EXPECT_EQ(fettle_cpu_check("avx512bw", missing, sizeof missing) == 0, __builtin_cpu_supports("avx512bw") != 0);
  EXPECT_EQ(fettle_cpu_check("avx512vnni", missing, sizeof missing) == 0, __builtin_cpu_supports("avx512vnni") != 0);
  EXPECT_EQ(fettle_cpu_check("avx512bf16", missing, sizeof missing) == 0, __builtin_cpu_supports("avx512bf16") != 0);
}

TEST(Symbols, AreNamedAndSet) {
  int count = 0;
  for (const FettleSymbol* symbol = fettle_rt_symbols(); symbol->name != nullptr; ++symbol, ++count)
    EXPECT_NE(symbol->address, nullptr) << symbol->name;
  EXPECT_EQ(count, 5);
}

}  // namespace
