#include "rt/model.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "rt/cpu.h"
#include "rt/tensor.h"

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

/// A description, or, with data, a tensor to be given.
FettleTensor tensor(const char* name, FettleDtype dtype, const int64_t* of_shape, int32_t rank,
                    const void* data = nullptr) {
  FettleTensor made{};
  made.struct_bytes = sizeof made;
  made.name = name;
  made.dtype = dtype;
  made.rank = rank;
  made.shape = of_shape;
  made.data = const_cast<void*>(data);
  return made;
}

const FettleTensor input = tensor("x", FETTLE_F32, shape, 1);
const FettleTensor output = tensor("y", FETTLE_F32, shape, 1);
const FettleTensor constant = tensor("offset", FETTLE_F32, shape, 1, offset);
const char* const kernel_names[] = {"add"};
const char* const kernel_origins[] = {"Add sum\nRelu cut"};

FettleModelInfo make_info() {
  FettleModelInfo info{};
  info.magic = FETTLE_MAGIC;
  info.abi_version = FETTLE_ABI_VERSION;
  info.struct_bytes = sizeof info;
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
  info.functions = &fettle_rt_functions;
  return info;
}

FettleOptions make_options(int32_t threads) {
  FettleOptions options{};
  options.struct_bytes = sizeof options;
  options.threads = threads;
  return options;
}

/// A model and a context of it.
struct Running {
  FettleModel* model;
  FettleContext* context;

  explicit Running(const FettleModelInfo& info, int32_t threads = 0) {
    const FettleOptions options = make_options(threads);
    model = fettle_rt_create(&info, &options);
    context = fettle_rt_create_context(model);
    EXPECT_NE(context, nullptr) << fettle_rt_error(nullptr);
  }
  Running(const Running&) = delete;
  Running& operator=(const Running&) = delete;
  ~Running() {
    fettle_rt_destroy(model);  // in any order
    fettle_rt_destroy_context(context);
  }

  std::string error() const { return fettle_rt_error(context); }
};

const float x1234[] = {1, 2, 3, 4};
const std::vector<float> kSum = {11, 22, 33, 44};

std::vector<float> floats(const FettleTensor& y) {
  const auto* data = static_cast<const float*>(y.data);
  return {data, data + fettle_tensor_bytes(&y) / 4};
}

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
  fettle_rt_destroy(nullptr);
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
  EXPECT_EQ(fettle_rt_create(&info, nullptr), nullptr);
  EXPECT_NE(std::string(fettle_rt_error(nullptr)).find("a processor with avx9000"), std::string::npos);
}

TEST(Model, RefusesBadOptionsAndArenas) {
  FettleModelInfo info = make_info();
  FettleOptions options = make_options(-2);
  EXPECT_EQ(fettle_rt_create(&info, &options), nullptr);
  EXPECT_NE(std::string(fettle_rt_error(nullptr)).find("threads is negative"), std::string::npos);
  options = {};
  EXPECT_EQ(fettle_rt_create(&info, &options), nullptr);
  EXPECT_NE(std::string(fettle_rt_error(nullptr)).find("set it to sizeof(FettleOptions)"), std::string::npos);
  options = make_options(1);
  FettleHostTeam host{};
  options.host_team = &host;
  EXPECT_EQ(fettle_rt_create(&info, &options), nullptr);
  EXPECT_NE(std::string(fettle_rt_error(nullptr)).find("set it to sizeof(FettleHostTeam)"), std::string::npos);
  host.struct_bytes = sizeof host;
  EXPECT_EQ(fettle_rt_create(&info, &options), nullptr);
  EXPECT_NE(std::string(fettle_rt_error(nullptr)).find("callback of the host's team"), std::string::npos);
  info.arena_bytes = int64_t{1} << 60;
  FettleModel* model = fettle_rt_create(&info, nullptr);
  EXPECT_EQ(fettle_rt_create_context(model), nullptr);
  EXPECT_NE(std::string(fettle_rt_error(nullptr)).find("memory ran out"), std::string::npos);
  fettle_rt_destroy(model);
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

TEST(Contexts, RunAtOnceOnOneModel) {
  const FettleModelInfo info = make_info();
  const FettleOptions options = make_options(2);
  FettleModel* model = fettle_rt_create(&info, &options);
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
  fettle_rt_destroy(model);
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

// A model of open sizes: y = a + b by way of the arena, and those of its elements that are positive.
int resizes = 0;

int32_t open_resize(FettleContext*, void** buffers, const int64_t* ints) {
  ++resizes;
  auto* table = static_cast<int64_t*>(buffers[0]);
  if (ints[0] != ints[2]) {
    table[0] = 0;
    return FETTLE_WRONG_SHAPE;
  }
  if (ints[0] > 1000000) {
    table[0] = 1;
    return FETTLE_WRONG_SHAPE;
  }
  const int64_t count = 2 * ints[0];
  table[0] = count * 4;
  table[1] = ints[0];
  table[2] = 2;
  table[3] = count;  // at most
  table[4] = count;
  return FETTLE_OK;
}

int32_t open_program(FettleContext*, void** buffers, const int64_t* ints) {
  const auto *a = static_cast<const float*>(buffers[0]), *b = static_cast<const float*>(buffers[1]);
  auto *y = static_cast<float*>(buffers[2]), *positive = static_cast<float*>(buffers[3]);
  auto* arena = static_cast<float*>(buffers[4]);
  auto* table = static_cast<int64_t*>(buffers[5]);
  if (table != ints) return FETTLE_KERNEL_FAILED;
  int64_t found = 0;
  for (int64_t i = 0; i < ints[4]; ++i) arena[i] = a[i] + b[i];
  for (int64_t i = 0; i < ints[4]; ++i) y[i] = arena[i];
  for (int64_t i = 0; i < ints[4]; ++i)
    if (y[i] > 0) positive[found++] = y[i];
  table[3] = found;
  return FETTLE_OK;
}

const int64_t open_matrix[] = {-1, 2}, open_vector[] = {-1};
const char* const matrix_names[] = {"N", nullptr};
const char* const vector_names[] = {"P"};
const char* const open_errors[] = {"inputs 'a' (axis 0) and 'b' (axis 0) must have the same extent",
                                   "input 'a' (axis 0) has an extent of at most 1000000"};

FettleTensor open_tensor(const char* name, bool is_matrix = true) {
  FettleTensor made = tensor(name, FETTLE_F32, is_matrix ? open_matrix : open_vector, is_matrix ? 2 : 1);
  made.axis_names = is_matrix ? matrix_names : vector_names;
  return made;
}
const FettleTensor open_inputs[] = {open_tensor("a"), open_tensor("b")};
const FettleTensor open_outputs[] = {open_tensor("y"), open_tensor("positive", false)};

FettleModelInfo open_info() {
  FettleModelInfo info = make_info();
  info.name = "open";
  info.inputs = open_inputs;
  info.outputs = open_outputs;
  info.n_inputs = info.n_outputs = 2;
  info.n_constants = info.n_kernels = 0;
  info.n_sizes = 5;
  info.size_errors = open_errors;
  info.n_size_errors = 2;
  info.arena_bytes = 0;
  info.entry = open_program;
  info.resize = open_resize;
  resizes = 0;
  return info;
}

/// a and b of these numbers of rows, all of the same values.
struct OpenCall {
  std::vector<float> a, b;
  int64_t shapes[2][2];
  FettleTensor inputs[2] = {open_inputs[0], open_inputs[1]}, outputs[2] = {open_outputs[0], open_outputs[1]};

  OpenCall(int64_t rows, float of_a, float of_b, int64_t rows_of_b)
      : a(static_cast<size_t>(2 * rows), of_a),
        b(static_cast<size_t>(2 * rows_of_b), of_b),
        shapes{{rows, 2}, {rows_of_b, 2}} {
    inputs[0].data = a.data();
    inputs[1].data = b.data();
    for (int i : {0, 1}) inputs[i].shape = shapes[i];
  }
  OpenCall(int64_t rows, float of_a, float of_b) : OpenCall(rows, of_a, of_b, rows) {}
};

TEST(OpenSizes, AreComputedWhenTheyChange) {
  const FettleModelInfo info = open_info();
  const Running running(info, 1);
  OpenCall call(3, 1, 2);
  FettleTensor shapes[2] = {open_outputs[0], open_outputs[1]};
  ASSERT_EQ(fettle_rt_output_shapes(running.context, call.inputs, shapes), FETTLE_OK) << running.error();
  EXPECT_EQ(shapes[0].shape[0], 3);
  EXPECT_EQ(shapes[1].shape[0], 6) << "at most";
  EXPECT_EQ(resizes, 1);
  for (int i = 0; i < 3; ++i) {
    ASSERT_EQ(fettle_rt_run(running.context, call.inputs, call.outputs), FETTLE_OK) << running.error();
    EXPECT_EQ(floats(call.outputs[0]), std::vector<float>(6, 3));
    EXPECT_EQ(floats(call.outputs[1]), std::vector<float>(6, 3));
  }
  EXPECT_EQ(resizes, 1);
  OpenCall larger(5000, 2, 2);
  ASSERT_EQ(fettle_rt_run(running.context, larger.inputs, larger.outputs), FETTLE_OK) << running.error();
  EXPECT_EQ(floats(larger.outputs[0]), std::vector<float>(10000, 4));
  EXPECT_EQ(resizes, 2);
  OpenCall none(0, 0, 0);
  none.inputs[0].data = none.inputs[1].data = nullptr;
  ASSERT_EQ(fettle_rt_run(running.context, none.inputs, none.outputs), FETTLE_OK) << running.error();
  EXPECT_EQ(none.outputs[0].shape[0], 0);
  ASSERT_EQ(fettle_rt_run(running.context, call.inputs, call.outputs), FETTLE_OK) << running.error();
  EXPECT_EQ(floats(call.outputs[0]), std::vector<float>(6, 3));
  EXPECT_EQ(resizes, 4);
}

TEST(OpenSizes, OfResultsMayDependOnData) {
  const FettleModelInfo info = open_info();
  const Running running(info, 1);
  OpenCall call(2, 1, 1);
  call.a = {1, -5, 2, -5};
  call.inputs[0].data = call.a.data();
  for (int i = 0; i < 2; ++i) {  // the bound holds again in the second call
    ASSERT_EQ(fettle_rt_run(running.context, call.inputs, call.outputs), FETTLE_OK) << running.error();
    EXPECT_EQ(floats(call.outputs[1]), (std::vector<float>{2, 3}));
    float room[4];
    FettleTensor given[2] = {open_outputs[0], open_outputs[1]};
    given[1].data = room;
    given[1].capacity_bytes = 12;
    EXPECT_EQ(fettle_rt_run(running.context, call.inputs, given), FETTLE_WRONG_SHAPE);
    EXPECT_EQ(running.error(), "output 'positive' takes 16 bytes, as f32[4], and has room for 12");
    given[1].capacity_bytes = 16;
    ASSERT_EQ(fettle_rt_run(running.context, call.inputs, given), FETTLE_OK) << running.error();
    EXPECT_EQ(given[1].shape[0], 2);
    EXPECT_EQ(room[1], 3);
  }
  EXPECT_EQ(resizes, 1);
}

TEST(OpenSizes, RoomIsWhatTheCallerSaidNotWhatTheLastCallTold) {
  const FettleModelInfo info = open_info();
  const Running running(info, 1);
  OpenCall small(2, 1, 2), large(50, 1, 2);
  for (const int64_t rows : {2, 0}) {
    const int64_t extents[] = {rows, 2};
    float room[4];
    FettleTensor given[2] = {open_outputs[0], open_outputs[1]};
    given[0].data = room;
    given[0].shape = extents;
    OpenCall fitting(rows, 1, 2);
    ASSERT_EQ(fettle_rt_run(running.context, fitting.inputs, given), FETTLE_OK) << running.error();
    EXPECT_EQ(fettle_rt_run(running.context, large.inputs, given), FETTLE_WRONG_SHAPE);
    EXPECT_NE(running.error().find("output 'y' takes 400 bytes, as f32[50, 2]"), std::string::npos) << running.error();
  }
  FettleTensor given[2] = {open_outputs[0], open_outputs[1]};
  float room[4];
  given[0].data = room;
  EXPECT_EQ(fettle_rt_run(running.context, small.inputs, given), FETTLE_WRONG_SHAPE);
  EXPECT_EQ(running.error(),
            "output 'y' takes 16 bytes, as f32[2, 2], and has neither capacity_bytes nor a shape without open extents");
}

TEST(OpenSizes, ThatAreWrongAreNamed) {
  const FettleModelInfo info = open_info();
  const Running running(info, 1);
  OpenCall call(3, 1, 2, 4);
  EXPECT_EQ(fettle_rt_run(running.context, call.inputs, call.outputs), FETTLE_WRONG_SHAPE);
  EXPECT_EQ(running.error(), open_errors[0]);
  EXPECT_EQ(fettle_rt_run(running.context, call.inputs, call.outputs), FETTLE_WRONG_SHAPE) << "it is asked again";
  EXPECT_EQ(resizes, 2);
  OpenCall many(1000001, 1, 2);
  EXPECT_EQ(fettle_rt_output_shapes(running.context, many.inputs, many.outputs), FETTLE_WRONG_SHAPE);
  EXPECT_EQ(running.error(), open_errors[1]);
  OpenCall wide(3, 1, 2);
  wide.shapes[1][1] = 3;
  EXPECT_EQ(fettle_rt_run(running.context, wide.inputs, wide.outputs), FETTLE_WRONG_SHAPE);
  EXPECT_EQ(running.error(), "input 'b' is f32[3, 3], expected f32[N, 2]: axis 1 is 3, not 2");
  wide.inputs[1] = open_inputs[1];
  wide.inputs[1].data = wide.b.data();
  EXPECT_EQ(fettle_rt_run(running.context, wide.inputs, wide.outputs), FETTLE_WRONG_SHAPE);
  EXPECT_EQ(running.error(), "input 'b' is f32[N, 2], expected f32[N, 2]: axis 0 is -1, and must be given");
  OpenCall right(3, 1, 2);
  EXPECT_EQ(fettle_rt_run(running.context, right.inputs, right.outputs), FETTLE_OK) << running.error();
}

// A model with states: present is past with x appended, `seen` counts calls, and y is the sum of all rows.
const int64_t row_shape[] = {1, 2}, open_columns[] = {2, -1}, capacity_shape[] = {2, 4}, one_shape[] = {1};
const FettleTensor state_inputs[] = {tensor("x", FETTLE_F32, one_shape, 1), tensor("past", FETTLE_F32, open_columns, 2),
                                     tensor("seen", FETTLE_I32, one_shape, 1)};
const FettleTensor state_outputs[] = {tensor("present", FETTLE_F32, open_columns, 2),
                                      tensor("seen_now", FETTLE_I32, one_shape, 1),
                                      tensor("y", FETTLE_F32, one_shape, 1)};
const FettleTensor cache = tensor("cache", FETTLE_F32, capacity_shape, 2);
const FettleTensor seen = tensor("seen", FETTLE_I32, one_shape, 1);

FettleState make_state(int32_t in, int32_t out, int32_t axis, const FettleTensor& of) {
  FettleState state{};
  state.struct_bytes = sizeof state;
  state.input = in;
  state.output = out;
  state.length_axis = axis;
  state.tensor = &of;
  return state;
}
const FettleState states[] = {make_state(1, 0, 1, cache), make_state(2, 1, -1, seen)};

int32_t state_resize(FettleContext*, void** buffers, const int64_t* ints) {
  auto* table = static_cast<int64_t*>(buffers[0]);
  table[0] = 0;  // x[1], past[2, length], seen[1] → present[2, length + 1], seen_now[1], y[1]
  table[1] = 2;
  table[2] = ints[2] + 1;
  table[3] = table[4] = 1;
  return FETTLE_OK;
}

int32_t state_program(FettleContext*, void** buffers, const int64_t* ints) {
  const float x = *static_cast<const float*>(buffers[0]);
  auto* rows = static_cast<float*>(buffers[6]);
  auto* count = static_cast<int32_t*>(buffers[7]);
  if (buffers[1] != rows || buffers[3] != rows || buffers[2] != count || buffers[4] != count)
    return FETTLE_KERNEL_FAILED;
  const int64_t length = ints[2];
  rows[length - 1] = x;
  rows[4 + length - 1] = 10 * x;
  float sum = 0;
  for (int64_t i = 0; i < length; ++i) sum += rows[i] + rows[4 + i];
  *static_cast<float*>(buffers[5]) = sum;
  ++*count;
  return FETTLE_OK;
}

FettleModelInfo state_info() {
  FettleModelInfo info = make_info();
  info.name = "rememberer";
  info.inputs = state_inputs;
  info.outputs = state_outputs;
  info.states = states;
  info.n_inputs = info.n_outputs = 3;
  info.n_states = 2;
  info.n_constants = info.n_kernels = 0;
  info.n_sizes = 5;
  info.entry = state_program;
  info.resize = state_resize;
  return info;
}

/// Runs with the state's inputs and outputs left to the context.
int32_t step(FettleContext* context, float x, FettleTensor (&outputs)[3]) {
  FettleTensor inputs[] = {state_inputs[0], state_inputs[1], state_inputs[2]};
  inputs[0].data = &x;
  return fettle_rt_run(context, inputs, outputs);
}
float step(FettleContext* context, float x) {
  FettleTensor outputs[] = {state_outputs[0], state_outputs[1], state_outputs[2]};
  const int32_t status = step(context, x, outputs);
  EXPECT_EQ(status, FETTLE_OK) << fettle_rt_error(context);
  return status == FETTLE_OK ? *static_cast<const float*>(outputs[2].data) : 0;
}

int64_t length_of(FettleContext* context) {
  FettleTensor view = cache;
  EXPECT_EQ(fettle_rt_get_state(context, "cache", &view), FETTLE_OK) << fettle_rt_error(context);
  return view.shape[1];
}

TEST(States, OutliveCalls) {
  const FettleModelInfo info = state_info();
  const Running running(info, 1);
  EXPECT_EQ(length_of(running.context), 0);
  EXPECT_EQ(step(running.context, 1), 11);
  EXPECT_EQ(step(running.context, 2), 33);
  FettleTensor outputs[] = {state_outputs[0], state_outputs[1], state_outputs[2]};
  ASSERT_EQ(step(running.context, 3, outputs), FETTLE_OK);
  EXPECT_EQ(outputs[0].shape[1], 3);
  ASSERT_NE(outputs[0].strides, nullptr);
  EXPECT_EQ(outputs[0].strides[0], 4) << "it is shown where it lies";
  EXPECT_EQ(static_cast<const float*>(outputs[0].data)[4 + 2], 30);
  EXPECT_EQ(*static_cast<const int32_t*>(outputs[1].data), 3);
  EXPECT_EQ(length_of(running.context), 3);
  EXPECT_EQ(step(running.context, 4), 110);
  FettleTensor more[] = {state_outputs[0], state_outputs[1], state_outputs[2]};
  EXPECT_EQ(step(running.context, 5, more), FETTLE_WRONG_SHAPE);
  EXPECT_EQ(running.error(),
            "state 'cache' holds at most 4 along axis 1, and the call makes it 5: set it anew with less, or reset it");
  EXPECT_EQ(length_of(running.context), 4);
  ASSERT_EQ(fettle_rt_set_state(running.context, nullptr, nullptr), FETTLE_OK);
  EXPECT_EQ(length_of(running.context), 0);
  EXPECT_EQ(step(running.context, 1), 11);
  FettleTensor count = seen;
  ASSERT_EQ(fettle_rt_get_state(running.context, "seen", &count), FETTLE_OK);
  EXPECT_EQ(*static_cast<const int32_t*>(count.data), 1);
}

TEST(States, AreSavedLoadedAndCopied) {
  const FettleModelInfo info = state_info();
  const Running first(info, 1);
  FettleContext* second = fettle_rt_create_context(first.model);
  step(first.context, 1);
  step(first.context, 2);
  float saved[4];
  FettleTensor dense = cache;
  dense.data = saved;
  dense.capacity_bytes = sizeof saved;
  ASSERT_EQ(fettle_rt_get_state(first.context, "cache", &dense), FETTLE_OK) << first.error();
  EXPECT_EQ(std::vector<float>(saved, saved + 4), (std::vector<float>{1, 2, 10, 20}));
  dense.capacity_bytes = 12;
  EXPECT_EQ(fettle_rt_get_state(first.context, "cache", &dense), FETTLE_WRONG_SHAPE);
  EXPECT_EQ(first.error(), "state 'cache' takes 16 bytes, as f32[2, 2], dense, and capacity_bytes is 12");

  ASSERT_EQ(fettle_rt_set_state(second, "cache", &dense), FETTLE_OK) << fettle_rt_error(second);
  EXPECT_EQ(step(second, 3), 66);
  FettleTensor view = cache;
  ASSERT_EQ(fettle_rt_get_state(second, "cache", &view), FETTLE_OK);
  ASSERT_EQ(fettle_rt_set_state(first.context, "cache", &view), FETTLE_OK) << "from one context to another";
  EXPECT_EQ(step(first.context, 4), 110);
  fettle_rt_destroy_context(second);

  const int64_t shorter[] = {2, 1}, longer[] = {2, 5};
  FettleTensor own = cache;
  ASSERT_EQ(fettle_rt_get_state(first.context, "cache", &own), FETTLE_OK);
  own.shape = shorter;
  ASSERT_EQ(fettle_rt_set_state(first.context, "cache", &own), FETTLE_OK) << "cut where it lies";
  EXPECT_EQ(step(first.context, 2), 33);
  float many[10] = {};
  FettleTensor too_long = cache;
  too_long.data = many;
  too_long.shape = longer;
  EXPECT_EQ(fettle_rt_set_state(first.context, "cache", &too_long), FETTLE_WRONG_SHAPE);
  EXPECT_EQ(first.error(), "state 'cache' is f32[2, 5], expected f32[2, 4]: axis 1 is 5, not 4");
  EXPECT_EQ(fettle_rt_set_state(first.context, "cash", &too_long), FETTLE_INVALID_ARGUMENT);
  EXPECT_EQ(first.error(), "the model has no state 'cash'; it has 'cache', 'seen'");
}

TEST(States, MayBeGivenAndTakenAsTensors) {
  const FettleModelInfo info = state_info();
  const Running running(info, 1);
  step(running.context, 9);
  const int64_t past_shape[] = {2, 2};
  float past[] = {1, 2, 10, 20}, present[6] = {}, x = 3;
  int32_t count = 41;
  FettleTensor inputs[] = {state_inputs[0], state_inputs[1], state_inputs[2]};
  FettleTensor outputs[] = {state_outputs[0], state_outputs[1], state_outputs[2]};
  inputs[0].data = &x;
  inputs[1].data = past;
  inputs[1].shape = past_shape;
  inputs[2].data = &count;
  outputs[0].data = present;
  outputs[0].capacity_bytes = sizeof present;
  ASSERT_EQ(fettle_rt_run(running.context, inputs, outputs), FETTLE_OK) << running.error();
  EXPECT_EQ(std::vector<float>(present, present + 6), (std::vector<float>{1, 2, 3, 10, 20, 30}));
  EXPECT_EQ(outputs[0].strides, nullptr);
  EXPECT_EQ(*static_cast<const int32_t*>(outputs[1].data), 42);
  EXPECT_EQ(length_of(running.context), 3);
}

TEST(Tensors, AreCopiedWithAnyStrides) {
  const int32_t from[] = {0, 1, 2, 3, 4, 5};
  const int64_t extents[] = {2, 3}, transposed[] = {1, 2};
  int32_t to[6] = {};
  fettle::rt::copy_elements(to, transposed, from, nullptr, extents, 2, FETTLE_I32);
  EXPECT_EQ(std::vector<int32_t>(to, to + 6), (std::vector<int32_t>{0, 3, 1, 4, 2, 5}));
  int32_t back[6] = {};
  fettle::rt::copy_elements(back, nullptr, to, transposed, extents, 2, FETTLE_I32);
  EXPECT_EQ(std::vector<int32_t>(back, back + 6), std::vector<int32_t>(from, from + 6));
  const int64_t wide[] = {4, 1};
  int32_t rows[8] = {};
  fettle::rt::copy_elements(rows, wide, from, nullptr, extents, 2, FETTLE_I32);
  EXPECT_EQ(std::vector<int32_t>(rows, rows + 8), (std::vector<int32_t>{0, 1, 2, 0, 3, 4, 5, 0}));
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
