#include "rt/model.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "rt/cpu.h"
#include "rt/testing.h"

namespace fettle::rt {
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

const FettleTensor input = tensor("x", FETTLE_F32, shape, 1);
const FettleTensor output = tensor("y", FETTLE_F32, shape, 1);
const FettleTensor constant = tensor("offset", FETTLE_F32, shape, 1, offset);
const char* const kernel_names[] = {"add"};
const char* const kernel_origins[] = {"Add sum\nRelu cut"};

FettleModelInfo make_info() {
  FettleModelInfo info = describe("adder", &input, 1, &output, 1, host_program);
  info.constants = &constant;
  info.kernel_names = kernel_names;
  info.kernel_origins = kernel_origins;
  info.n_constants = info.n_kernels = 1;
  info.arena_bytes = 4096;
  return info;
}

const float x1234[] = {1, 2, 3, 4};
const std::vector<float> kSum = {11, 22, 33, 44};

TEST(Model, RunsWithArenaAndConstants) {
  const FettleModelInfo info = make_info();
  for (const int threads : {0, 1, 3}) {
    const Running running(info, threads);
    FettleTensor x = input, y = output;
    float memory[4] = {};
    x.data = const_cast<float*>(x1234);
    y.data = memory;
    EXPECT_EQ(fettle_rt_run(running.context, &x, &y), FETTLE_OK);
    EXPECT_EQ(std::vector<float>(memory, memory + 4), kSum);
    EXPECT_STREQ(fettle_rt_error(running.context), "");
  }
}

TEST(Model, EachStreamHasThreadsOfItsOwn) {
  FettleModelInfo info = make_info();
  info.default_streams = 2;
  const auto teams = [&](const FettleOptions& options) {
    FettleModel* model = fettle_rt_open(&info, FETTLE_ABI_VERSION, &options);
    std::vector<FettleContext*> contexts;
    for (int i = 0; i < 4; ++i) contexts.push_back(fettle_rt_create_context(model));
    std::set<FettleTeam*> distinct;
    for (FettleContext* context : contexts) distinct.insert(context->team);
    EXPECT_EQ(contexts[0]->team, contexts[distinct.size() % 4]->team) << "they take turns";
    for (FettleContext* context : contexts) fettle_rt_destroy_context(context);
    fettle_rt_close(model);
    return distinct.size();
  };
  FettleOptions options = make_options(2);
  EXPECT_EQ(teams(options), 2u) << "what it was compiled for";
  options.streams = 3;
  EXPECT_EQ(teams(options), 3u);
  options.threads = 1;
  EXPECT_EQ(teams(options), 1u) << "each call has its caller's thread alone";
  options.streams = -1;
  EXPECT_EQ(fettle_rt_open(&info, FETTLE_ABI_VERSION, &options), nullptr);
  EXPECT_STREQ(fettle_rt_error(nullptr), "cannot open 'adder': the number of streams is negative");
}

TEST(Model, OwnsOutputsThatHaveNoData) {
  const FettleModelInfo info = make_info();
  const Running running(info);
  FettleTensor x = input, y = {};
  y.struct_bytes = sizeof y;
  x.data = const_cast<float*>(x1234);
  for (int i = 0; i < 2; ++i) {  // the second time with what the first has put in
    ASSERT_EQ(fettle_rt_run(running.context, &x, &y), FETTLE_OK) << running.error();
    EXPECT_STREQ(y.name, "y");
    EXPECT_EQ(y.rank, 1);
    EXPECT_EQ(floats(y), kSum);
  }
}

TEST(Model, TellsWhatFailed) {
  const FettleModelInfo info = make_info();
  const Running running(info);
  float bad[] = {-100, 2, 3, 4}, memory[4];
  FettleTensor x = input, y = output;
  x.data = bad;
  y.data = memory;
  EXPECT_EQ(fettle_rt_run(running.context, &x, &y), FETTLE_KERNEL_FAILED);
  EXPECT_EQ(running.error(), "running 'adder' failed: compiled code failed");
  const auto refused = [&](int32_t status, const char* text) {
    EXPECT_EQ(fettle_rt_run(running.context, &x, &y), status);
    EXPECT_EQ(running.error(), text);
    x = input;
    x.data = bad;
    y = output;
    y.data = memory;
  };
  x.data = nullptr;
  refused(FETTLE_INVALID_ARGUMENT, "input 'x' has no data: it is a null pointer");
  const int64_t five[] = {5};
  x.shape = five;
  refused(FETTLE_WRONG_SHAPE, "input 'x' is f32[5], expected f32[4]: axis 0 is 5, not 4");
  x.dtype = FETTLE_F64;
  refused(FETTLE_INVALID_ARGUMENT, "input 'x' is f64[4], expected f32[4]");
  x.rank = 0;
  refused(FETTLE_WRONG_SHAPE, "input 'x' is f32[], expected f32[4]");
  x.shape = nullptr;
  refused(FETTLE_INVALID_ARGUMENT, "input 'x' is f32 of rank 1, expected f32[4]: its shape is a null pointer");
  x.device = 2;
  refused(FETTLE_INVALID_ARGUMENT,
          "input 'x' lies on a device of kind 2; this model reads the memory of the CPU (kind 1): copy it there");
  x.struct_bytes = 0;
  refused(FETTLE_INVALID_ARGUMENT,
          "input 'x' has struct_bytes 0; set it to sizeof(FettleTensor), and what this version does not know to zero");
  y.dtype = FETTLE_I32;
  refused(FETTLE_INVALID_ARGUMENT, "output 'y' is i32[4], expected f32[4]");
  y.capacity_bytes = 8;
  refused(FETTLE_WRONG_SHAPE, "output 'y' takes 16 bytes, as f32[4], and has room for 8");
  const int64_t two[] = {2};
  y.strides = two;
  refused(FETTLE_INVALID_ARGUMENT, "output 'y' has strides; outputs are written densely");
  EXPECT_EQ(fettle_rt_run(running.context, nullptr, &y), FETTLE_INVALID_ARGUMENT);
  EXPECT_EQ(running.error(), "the array of inputs is a null pointer");
  EXPECT_EQ(fettle_rt_run(running.context, &x, nullptr), FETTLE_INVALID_ARGUMENT);
  EXPECT_EQ(running.error(), "the array of outputs is a null pointer");
  EXPECT_EQ(fettle_rt_run(nullptr, &x, &y), FETTLE_INVALID_ARGUMENT);
  fettle_rt_close(nullptr);
  fettle_rt_destroy_context(nullptr);
  EXPECT_EQ(fettle_rt_create_context(nullptr), nullptr);
}

TEST(Model, StructsOfLaterVersionsAreTakenWhereTheyAskForNothingNew) {
  struct Later {
    FettleTensor now;
    int64_t field;
  };
  const FettleModelInfo info = make_info();
  const Running running(info);
  Later x{input, 0}, y{output, 0};
  x.now.struct_bytes = y.now.struct_bytes = sizeof(Later);
  x.now.data = const_cast<float*>(x1234);
  EXPECT_EQ(fettle_rt_run(running.context, &x.now, &y.now), FETTLE_OK) << running.error();
  x.field = 1;
  EXPECT_EQ(fettle_rt_run(running.context, &x.now, &y.now), FETTLE_INVALID_ARGUMENT);
  EXPECT_NE(running.error().find("struct_bytes"), std::string::npos);
}

TEST(Model, StridedInputsAreCopied) {
  const FettleModelInfo info = make_info();
  const Running running(info);
  const float every_other[] = {1, -1, 2, -1, 3, -1, 4};
  const int64_t two[] = {2}, back[] = {-2}, none[] = {0};
  FettleTensor x = input, y = output;
  x.data = const_cast<float*>(every_other);
  x.strides = two;
  ASSERT_EQ(fettle_rt_run(running.context, &x, &y), FETTLE_OK) << running.error();
  EXPECT_EQ(floats(y), kSum);
  x.data = const_cast<float*>(every_other + 6);
  x.strides = back;
  ASSERT_EQ(fettle_rt_run(running.context, &x, &y), FETTLE_OK) << running.error();
  EXPECT_EQ(floats(y), (std::vector<float>{14, 23, 32, 41}));
  x.strides = none;
  ASSERT_EQ(fettle_rt_run(running.context, &x, &y), FETTLE_OK) << running.error();
  EXPECT_EQ(floats(y), (std::vector<float>{14, 24, 34, 44}));
}

int32_t reverse_program(FettleContext*, void** buffers, const int64_t*) {
  for (int i = 0; i < 4; ++i) static_cast<float*>(buffers[1])[i] = static_cast<const float*>(buffers[0])[3 - i];
  return FETTLE_OK;
}

TEST(Model, WhatACallGaveMayBeAnInputOfTheNext) {
  FettleModelInfo info = make_info();
  info.entry = reverse_program;
  const Running running(info);
  FettleTensor x = input, y = output;
  x.data = const_cast<float*>(x1234);
  ASSERT_EQ(fettle_rt_run(running.context, &x, &y), FETTLE_OK) << running.error();
  FettleTensor again = y;
  ASSERT_EQ(fettle_rt_run(running.context, &again, &y), FETTLE_OK) << running.error();
  EXPECT_EQ(floats(y), (std::vector<float>{1, 2, 3, 4}));
}

TEST(Model, AsksForMemoryOfOutputs) {
  const FettleModelInfo info = make_info();
  const Running running(info);
  struct Asked {
    int64_t bytes = 0;
    float memory[4] = {};
    bool empty = false;
  } asked;
  const auto allocate = [](void* user, int32_t, int64_t bytes) -> void* {
    auto* a = static_cast<Asked*>(user);
    a->bytes += bytes;
    return a->empty ? nullptr : a->memory;
  };
  fettle_rt_allocate_with(running.context, allocate, &asked);
  FettleTensor x = input, y = output;
  x.data = const_cast<float*>(x1234);
  ASSERT_EQ(fettle_rt_run(running.context, &x, &y), FETTLE_OK) << running.error();
  EXPECT_EQ(y.data, asked.memory);
  EXPECT_EQ(floats(y), kSum);
  ASSERT_EQ(fettle_rt_run(running.context, &x, &y), FETTLE_OK) << running.error();
  EXPECT_EQ(asked.bytes, 16) << "what was made is used again";
  asked.empty = true;
  y.data = nullptr;
  EXPECT_EQ(fettle_rt_run(running.context, &x, &y), FETTLE_OUT_OF_MEMORY);
  EXPECT_EQ(running.error(), "output 'y' takes 16 bytes, which cannot be had");
}

TEST(Model, RefusesAProcessorThatLacksAFeature) {
  FettleModelInfo info = make_info();
  info.target_features = "sse2,avx9000,avx2";
  EXPECT_EQ(fettle_rt_open(&info, FETTLE_ABI_VERSION, nullptr), nullptr);
  EXPECT_NE(std::string(fettle_rt_error(nullptr)).find("a processor with avx9000"), std::string::npos);
}

TEST(Model, RefusesAProgramOfAnotherVersion) {
  const FettleModelInfo info = make_info();
  EXPECT_EQ(fettle_rt_open(&info, 2, nullptr), nullptr);
  EXPECT_EQ(
      std::string(fettle_rt_error(nullptr)),
      "cannot open 'adder': the program was compiled for version 2 of its interface, and it has version 3: compile "
      "the program again with the header that lies beside the model");
  EXPECT_EQ(fettle_rt_create_context(nullptr), nullptr);
  EXPECT_NE(std::string(fettle_rt_error(nullptr)).find("version 2"), std::string::npos) << "it still says so";
}

TEST(Model, RefusesBadOptionsAndArenas) {
  FettleModelInfo info = make_info();
  FettleOptions options = make_options(-2);
  EXPECT_EQ(fettle_rt_open(&info, FETTLE_ABI_VERSION, &options), nullptr);
  EXPECT_NE(std::string(fettle_rt_error(nullptr)).find("threads is negative"), std::string::npos);
  options = {};
  EXPECT_EQ(fettle_rt_open(&info, FETTLE_ABI_VERSION, &options), nullptr);
  EXPECT_NE(std::string(fettle_rt_error(nullptr)).find("set it to sizeof(FettleOptions)"), std::string::npos);
  options = make_options(1);
  FettleHostTeam host{};
  options.host_team = &host;
  EXPECT_EQ(fettle_rt_open(&info, FETTLE_ABI_VERSION, &options), nullptr);
  EXPECT_NE(std::string(fettle_rt_error(nullptr)).find("set it to sizeof(FettleHostTeam)"), std::string::npos);
  host.struct_bytes = sizeof host;
  EXPECT_EQ(fettle_rt_open(&info, FETTLE_ABI_VERSION, &options), nullptr);
  EXPECT_NE(std::string(fettle_rt_error(nullptr)).find("callback of the host's team"), std::string::npos);
  info.arena_bytes = int64_t{1} << 60;
  FettleModel* model = fettle_rt_open(&info, FETTLE_ABI_VERSION, nullptr);
  EXPECT_EQ(fettle_rt_create_context(model), nullptr);
  EXPECT_NE(std::string(fettle_rt_error(nullptr)).find("memory ran out"), std::string::npos);
  fettle_rt_close(model);
}

TEST(Model, ReportsKernelTimes) {
  const FettleModelInfo info = make_info();
  const Running running(info);
  struct Seen {
    std::vector<int32_t> kernels;
    int64_t total_ns = 0;
  } seen;
  auto hook = [](void* user, int32_t kernel, int64_t begin_ns, int64_t end_ns) {
    static_cast<Seen*>(user)->kernels.push_back(kernel);
    static_cast<Seen*>(user)->total_ns += end_ns - begin_ns;
  };
  FettleTensor x = input, y = output;
  x.data = const_cast<float*>(x1234);
  fettle_rt_profile(running.context, hook, &seen);
  EXPECT_EQ(fettle_rt_run(running.context, &x, &y), FETTLE_OK);
  fettle_rt_profile(running.context, nullptr, nullptr);
  EXPECT_EQ(fettle_rt_run(running.context, &x, &y), FETTLE_OK);
  EXPECT_EQ(seen.kernels, std::vector<int32_t>{0});
  EXPECT_GT(seen.total_ns, 0);
}

/// output[i] = input[i] + offset[i], each element in a section of its own.
int32_t program_of_sections(FettleContext* context, void** buffers, const int64_t*) {
  struct Closure {
    FettleContext* context;
    void** buffers;
  } closure{context, buffers};
  fettle_run_sections(
      context, 4,
      [](void* c, int64_t i) {
        const auto& given = *static_cast<Closure*>(c);
        const int64_t at = i * static_cast<int64_t>(sizeof(float));
        void* one[] = {static_cast<char*>(given.buffers[0]) + at, static_cast<char*>(given.buffers[1]) + at,
                       static_cast<char*>(given.buffers[3]) + at};
        fettle_call_kernel(
            given.context, static_cast<int32_t>(i),
            [](FettleContext*, void** b, const int64_t*) {
              *static_cast<float*>(b[1]) = *static_cast<const float*>(b[0]) + *static_cast<const float*>(b[2]);
              return *static_cast<const float*>(b[1]) < 0 ? int32_t{FETTLE_KERNEL_FAILED} : int32_t{FETTLE_OK};
            },
            one, nullptr);
      },
      &closure);
  return context->failed_kernel == 0 ? FETTLE_OK : FETTLE_KERNEL_FAILED;
}

TEST(Model, RunsSections) {
  FettleModelInfo info = make_info();
  info.entry = program_of_sections;
  const char *const names[] = {"a", "b", "c", "d"}, *const origins[] = {"", "", "", ""};
  info.kernel_names = names;
  info.kernel_origins = origins;
  info.n_kernels = 4;
  for (const int threads : {1, 2, 4}) {
    const Running running(info, threads);
    FettleTensor x = input, y = {};
    y.struct_bytes = sizeof y;
    x.data = const_cast<float*>(x1234);
    for (int repeat = 0; repeat < 100; ++repeat) {
      ASSERT_EQ(fettle_rt_run(running.context, &x, &y), FETTLE_OK) << running.error();
      EXPECT_EQ(floats(y), kSum);
    }
    // A hook is told of them one after the other.
    std::vector<int32_t> seen;
    const auto hook = [](void* user, int32_t kernel, int64_t, int64_t) {
      static_cast<std::vector<int32_t>*>(user)->push_back(kernel);
    };
    fettle_rt_profile(running.context, hook, &seen);
    ASSERT_EQ(fettle_rt_run(running.context, &x, &y), FETTLE_OK) << running.error();
    fettle_rt_profile(running.context, nullptr, nullptr);
    EXPECT_EQ(seen, (std::vector<int32_t>{0, 1, 2, 3}));
    float bad[] = {1, 2, -100, 4};
    x.data = bad;
    EXPECT_EQ(fettle_rt_run(running.context, &x, &y), FETTLE_KERNEL_FAILED);
    EXPECT_NE(running.error().find("'c'"), std::string::npos) << running.error();
    x.data = const_cast<float*>(x1234);
    EXPECT_EQ(fettle_rt_run(running.context, &x, &y), FETTLE_OK) << running.error();
  }
}

TEST(Contexts, RunAtOnceOnOneModel) {
  const FettleModelInfo info = make_info();
  const FettleOptions options = make_options(2);
  FettleModel* model = fettle_rt_open(&info, FETTLE_ABI_VERSION, &options);
  ASSERT_NE(model, nullptr);
  std::vector<std::thread> threads;
  std::atomic<int> right{0};
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      FettleContext* context = fettle_rt_create_context(model);
      for (int i = 0; i < 200; ++i) {
        const auto k = static_cast<float>(1000 * t + i);
        const float given[] = {k, k, k, k};
        FettleTensor x = input, y = output;
        x.data = const_cast<float*>(given);
        if (fettle_rt_run(context, &x, &y) == FETTLE_OK &&
            floats(y) == std::vector<float>{k + 10, k + 20, k + 30, k + 40})
          ++right;
      }
      fettle_rt_destroy_context(context);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(right, 800);
  fettle_rt_close(model);
}

// A model of two kernels, of which the first waits until it may go on.
std::atomic<int> kernels_run{0};
std::atomic<bool> has_begun{false}, may_end{false};

int32_t waiting_kernel(FettleContext*, void** buffers, const int64_t*) {
  ++kernels_run;
  has_begun = true;
  while (!may_end) std::this_thread::yield();
  static_cast<float*>(buffers[1])[0] = static_cast<float*>(buffers[0])[0] + 1;
  return FETTLE_OK;
}
int32_t second_kernel(FettleContext*, void** buffers, const int64_t*) {
  ++kernels_run;
  static_cast<float*>(buffers[1])[0] *= 2;
  return FETTLE_OK;
}
int32_t waiting_program(FettleContext* context, void** buffers, const int64_t*) {
  const int32_t first = fettle_call_kernel(context, 0, waiting_kernel, buffers, nullptr);
  const int32_t second = fettle_call_kernel(context, 1, second_kernel, buffers, nullptr);
  return first != FETTLE_OK ? first : second;
}

FettleModelInfo waiting_info() {
  FettleModelInfo info = make_info();
  info.name = "waiter";
  info.entry = waiting_program;
  kernels_run = 0;
  has_begun = may_end = false;
  return info;
}

TEST(Contexts, CallsAreBegunAndAwaited) {
  const FettleModelInfo info = waiting_info();
  const Running running(info, 1);
  FettleTensor x = input, y = output;
  x.data = const_cast<float*>(x1234);
  EXPECT_EQ(fettle_rt_wait(running.context), FETTLE_INVALID_ARGUMENT);
  EXPECT_EQ(running.error(), "no call was begun");
  for (int i = 0; i < 2; ++i) {
    has_begun = may_end = false;
    ASSERT_EQ(fettle_rt_begin(running.context, &x, &y), FETTLE_OK) << running.error();
    while (!has_begun) std::this_thread::yield();
    EXPECT_EQ(fettle_rt_run(running.context, &x, &y), FETTLE_BUSY);
    EXPECT_EQ(fettle_rt_begin(running.context, &x, &y), FETTLE_BUSY);
    EXPECT_EQ(fettle_rt_output_shapes(running.context, &x, &y), FETTLE_BUSY);
    EXPECT_EQ(fettle_rt_set_state(running.context, nullptr, nullptr), FETTLE_BUSY);
    may_end = true;
    EXPECT_EQ(fettle_rt_wait(running.context), FETTLE_OK);
    EXPECT_EQ(floats(y)[0], 4);
  }
  x.data = nullptr;
  EXPECT_EQ(fettle_rt_begin(running.context, &x, &y), FETTLE_INVALID_ARGUMENT) << "told at once";
}

TEST(Contexts, CallsAreCancelled) {
  const FettleModelInfo info = waiting_info();
  const Running running(info, 1);
  FettleTensor x = input, y = output;
  x.data = const_cast<float*>(x1234);
  int32_t status = FETTLE_OK;
  std::thread caller([&] { status = fettle_rt_run(running.context, &x, &y); });
  while (!has_begun) std::this_thread::yield();
  EXPECT_EQ(fettle_rt_cancel(running.context), FETTLE_OK);
  may_end = true;
  caller.join();
  EXPECT_EQ(status, FETTLE_CANCELLED);
  EXPECT_EQ(running.error(), "running 'waiter' was cancelled");
  EXPECT_EQ(kernels_run, 1);
  EXPECT_EQ(fettle_rt_cancel(running.context), FETTLE_OK) << "nothing is under way";
  EXPECT_EQ(fettle_rt_run(running.context, &x, &y), FETTLE_OK) << "and the next call runs";
  EXPECT_EQ(kernels_run, 3);
}

TEST(Contexts, EndWithWhatTheyHaveBegun) {
  const FettleModelInfo info = waiting_info();
  FettleTensor x = input, y = output;
  x.data = const_cast<float*>(x1234);
  std::thread opener;
  {
    const Running running(info, 1);
    ASSERT_EQ(fettle_rt_begin(running.context, &x, &y), FETTLE_OK);
    while (!has_begun) std::this_thread::yield();
    opener = std::thread([] {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
      may_end = true;
    });
  }
  EXPECT_EQ(kernels_run, 1);
  opener.join();
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
  EXPECT_EQ(count, 18);
}

}  // namespace
}  // namespace fettle::rt
