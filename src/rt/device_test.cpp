// Models whose kernels run on a device: what the run-time system asks of a driver. This one's device is memory of the
// test's own, which only the driver may touch; its graphs are lists of launches.

#include "rt/device.h"

#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "rt/host.h"
#include "rt/testing.h"

namespace fettle::rt {
namespace {

using Function = void (*)(void** buffers, const int64_t* ints);

struct Launched {
  Function function;
  std::vector<void*> buffers;
  std::vector<int64_t> ints;
};
using Graph = std::vector<Launched>;

/// What the driver was asked for.
struct Log {
  std::map<char*, int64_t> blocks;  // of the device's memory
  int64_t most_bytes = int64_t{1} << 40;
  int launches = 0, graphs = 0, graph_runs = 0, loads = 0, queues = 0, waits = 0;
  bool fails = false;
  Graph* recording = nullptr;

  bool holds(const void* at) const {
    for (const auto& [begin, bytes] : blocks)
      if (at >= begin && at < begin + bytes) return true;
    return false;
  }
} device_log;

void double_all(void** buffers, const int64_t* ints) {
  const auto* from = static_cast<const float*>(buffers[0]);
  auto* to = static_cast<float*>(buffers[1]);
  for (int64_t i = 0; i < ints[0]; ++i) to[i] = 2 * from[i];
}
void add_constant(void** buffers, const int64_t*) {
  for (int i = 0; i < 4; ++i)
    static_cast<float*>(buffers[2])[i] =
        static_cast<const float*>(buffers[0])[i] + static_cast<const float*>(buffers[1])[i];
}
void add_number(void** buffers, const int64_t*) {
  for (int i = 0; i < 4; ++i)
    static_cast<float*>(buffers[0])[i] += static_cast<float>(*static_cast<const int64_t*>(buffers[1]));
}

constexpr const char* kFunctionNames[] = {"double_all", "add_constant", "add_number"};
constexpr Function kFunctions[] = {double_all, add_constant, add_number};

int32_t of_memory(const void* at, Reason& why) {
  if (device_log.holds(at)) return FETTLE_OK;
  why.clear();
  why << "the address is none of the device's";
  return FETTLE_DEVICE_FAILED;
}

const FettleDriver fake_driver = {
    .device = FETTLE_CUDA,
    .name = "fake",
    .open = [](int32_t index, Reason& why) -> void* {
      if (index == 0) return &device_log;
      why.clear();
      why << "there is no fake device number " << index;
      return nullptr;
    },
    .describe = [](void*) -> const char* { return "memory"; },
    .enter = [](void*, Reason&) -> int32_t { return FETTLE_OK; },
    .open_queue = [](void*, Reason&) -> void* {
      ++device_log.queues;
      return &device_log.queues;
    },
    .close_queue = [](void*, void*) { --device_log.queues; },
    .allocate = [](void*, int64_t bytes) -> void* {
      if (bytes > device_log.most_bytes) return nullptr;
      auto* made = new char[static_cast<size_t>(bytes)];
      device_log.blocks[made] = bytes;
      return made;
    },
    .free =
        [](void*, void* at) {
          EXPECT_EQ(device_log.blocks.erase(static_cast<char*>(at)), 1U);
          delete[] static_cast<char*>(at);
        },
    .copy = [](void*, void*, CopyKind kind, void* to, const void* from, int64_t bytes, Reason& why) -> int32_t {
      if (kind != CopyKind::kToHost)
        if (const int32_t status = of_memory(to, why)) return status;
      if (kind != CopyKind::kToDevice)
        if (const int32_t status = of_memory(from, why)) return status;
      std::memcpy(to, from, static_cast<size_t>(bytes));
      return FETTLE_OK;
    },
    .fill = [](void*, void*, void* at, uint32_t word, int64_t words, Reason& why) -> int32_t {
      if (const int32_t status = of_memory(at, why)) return status;
      for (int64_t i = 0; i < words; ++i) std::memcpy(static_cast<char*>(at) + 4 * i, &word, 4);
      return FETTLE_OK;
    },
    .load = [](void*, const DeviceCode& code, void** functions, Reason& why) -> void* {
      ++device_log.loads;
      for (int32_t k = 0; k < code.n_kernels; ++k) {
        functions[k] = nullptr;
        for (size_t f = 0; f < std::size(kFunctions); ++f)
          if (std::string(code.at(code.kernels()[k].name_at)) == kFunctionNames[f])
            functions[k] = reinterpret_cast<void*>(kFunctions[f]);
        if (functions[k]) continue;
        why.clear();
        why << "there is no function " << code.at(code.kernels()[k].name_at);
        return nullptr;
      }
      return &device_log.loads;
    },
    .unload = [](void*, void*, void**, int32_t) { --device_log.loads; },
    .launch = [](void*, void*, const DeviceCode& code, int32_t number, void* function, const int64_t*, void** buffers,
                 const int64_t* ints, Reason& why) -> int32_t {
      const DeviceKernel& kernel = code.kernels()[number];
      if (device_log.fails) {
        why.clear();
        why << "the launch is refused";
        return FETTLE_DEVICE_FAILED;
      }
      for (int32_t i = 0; i < kernel.n_buffers; ++i)
        if (const int32_t status = of_memory(buffers[i], why)) return status;
      const auto run = reinterpret_cast<Function>(function);
      if (device_log.recording) {
        device_log.recording->push_back(
            {run, std::vector<void*>(buffers, buffers + kernel.n_buffers), {ints, ints + kernel.n_ints}});
        return FETTLE_OK;
      }
      ++device_log.launches;
      run(buffers, ints);
      return FETTLE_OK;
    },
    .wait = [](void*, void*, Reason&) -> int32_t {
      ++device_log.waits;
      return FETTLE_OK;
    },
    .begin_graph = [](void*, Reason&) -> void* { return device_log.recording = new Graph; },
    .end_graph = [](void*, void*, Reason&) -> void* {
      ++device_log.graphs;
      return std::exchange(device_log.recording, nullptr);
    },
    .run_graph = [](void*, void* graph, void*, Reason&) -> int32_t {
      ++device_log.graph_runs;
      for (Launched& launched : *static_cast<Graph*>(graph))
        launched.function(launched.buffers.data(), launched.ints.data());
      return FETTLE_OK;
    },
    .drop_graph = [](void*, void* graph) { delete static_cast<Graph*>(graph); },
};

/// One code with the three functions, as the compiler lays it out.
struct Code {
  DeviceCode head{1, 3};
  DeviceImage image{};
  DeviceKernel kernels[3] = {{.n_buffers = 2, .n_ints = 1}, {.n_buffers = 3}, {.n_buffers = 2}};
  char names[3][16] = {"double_all", "add_constant", "add_number"};

  Code() {
    for (int k = 0; k < 3; ++k) kernels[k].name_at = names[k] - reinterpret_cast<char*>(this);
  }
};
const Code code;

int32_t launch(FettleContext* context, int32_t kernel, std::vector<void*> buffers, int64_t n = 4) {
  const int64_t grid[] = {1, 1, 1};
  return fettle_device_launch(context, &code.head, kernel, grid, buffers.data(), &n);
}

/// y = 2 * x + offset, by way of a block of memory of its own.
int32_t doubler(FettleContext* context, void** buffers, const int64_t*) {
  void* block = fettle_device_acquire(context, 16);
  if (!block) return FETTLE_OUT_OF_MEMORY;
  int32_t status = launch(context, 0, {buffers[0], block});
  if (status == FETTLE_OK) status = launch(context, 1, {block, buffers[2], buffers[1]});
  fettle_device_release(context, block);
  return status;
}
/// Inputs, outputs, states, the arena, constants.
int32_t host_program(FettleContext* context, void** buffers, const int64_t*) {
  void* arguments[] = {buffers[0], buffers[1], buffers[3]};
  return fettle_call_kernel(context, 0, doubler, arguments, nullptr);
}

const int64_t shape[] = {4};
const float offset[] = {10, 20, 30, 40};
const FettleTensor input = tensor("x", FETTLE_F32, shape, 1);
const FettleTensor output = tensor("y", FETTLE_F32, shape, 1);
const FettleTensor constant = tensor("offset", FETTLE_F32, shape, 1, offset);
const char* const kernel_names[] = {"double"};
const char* const kernel_origins[] = {"Mul double"};

FettleModelInfo make_info(FettleKernel entry = host_program) {
  FettleModelInfo info = describe("doubler", &input, 1, &output, 1, entry);
  info.constants = &constant;
  info.kernel_names = kernel_names;
  info.kernel_origins = kernel_origins;
  info.n_constants = info.n_kernels = 1;
  info.arena_bytes = 256;
  info.driver = &fake_driver;
  info.device = FETTLE_CUDA;
  return info;
}

class DeviceModel : public ::testing::Test {
 protected:
  void SetUp() override { device_log = {}; }
  void TearDown() override {
    EXPECT_TRUE(device_log.blocks.empty()) << "memory of the device is left";
    EXPECT_EQ(device_log.loads, 0);
    EXPECT_EQ(device_log.queues, 0);
  }
  const float x_[4] = {1, 2, 3, 4};
  const std::vector<float> expected_ = {12, 24, 36, 48};
};

FettleTensor with_data(FettleTensor made, const void* data, int32_t device = FETTLE_CPU) {
  made.data = const_cast<void*>(data);
  made.device = device;
  return made;
}

TEST_F(DeviceModel, TensorsOfTheHostGoThereAndBack) {
  const FettleModelInfo info = make_info();
  const Running running(info);
  for (int i = 0; i < 5; ++i) {
    const FettleTensor x = with_data(input, x_);
    FettleTensor y = output;
    ASSERT_EQ(fettle_rt_run(running.context, &x, &y), FETTLE_OK) << running.error();
    EXPECT_EQ(floats(y), expected_);
    EXPECT_EQ(y.device, FETTLE_CPU);
  }
  // The first call launches two kernels; the second records them; it and all that follow run the graph.
  EXPECT_EQ(device_log.launches, 2);
  EXPECT_EQ(device_log.graphs, 1);
  EXPECT_EQ(device_log.graph_runs, 4);
  EXPECT_EQ(device_log.loads, 1);
}

TEST_F(DeviceModel, StridedInputsBecomeDenseHere) {
  const FettleModelInfo info = make_info();
  const Running running(info);
  const float spread[] = {1, 0, 2, 0, 3, 0, 4};
  const int64_t two[] = {2};
  FettleTensor x = with_data(input, spread), y = output;
  x.strides = two;
  ASSERT_EQ(fettle_rt_run(running.context, &x, &y), FETTLE_OK) << running.error();
  EXPECT_EQ(floats(y), expected_);
}

TEST_F(DeviceModel, TensorsOfTheDeviceAreUsedWhereTheyAre) {
  const FettleModelInfo info = make_info();
  const Running running(info);
  auto* const memory = static_cast<float*>(fake_driver.allocate(nullptr, 32));
  std::memcpy(memory, x_, sizeof x_);
  for (int i = 0; i < 3; ++i) {
    const FettleTensor x = with_data(input, memory, FETTLE_CUDA);
    FettleTensor y = with_data(output, memory + 4, FETTLE_CUDA);
    ASSERT_EQ(fettle_rt_run(running.context, &x, &y), FETTLE_OK) << running.error();
    EXPECT_EQ(y.data, memory + 4);
    EXPECT_EQ(std::vector<float>(memory + 4, memory + 8), expected_);
    // In memory of the context's, on the device.
    FettleTensor z = with_data(output, nullptr, FETTLE_CUDA);
    ASSERT_EQ(fettle_rt_run(running.context, &x, &z), FETTLE_OK) << running.error();
    EXPECT_TRUE(device_log.holds(z.data));
    EXPECT_EQ(z.device, FETTLE_CUDA);
    EXPECT_EQ(std::vector<float>(static_cast<float*>(z.data), static_cast<float*>(z.data) + 4), expected_);
    // What a call gave may be what the next one is given.
    const FettleTensor again = with_data(input, z.data, FETTLE_CUDA);
    ASSERT_EQ(fettle_rt_run(running.context, &again, &z), FETTLE_OK) << running.error();
    EXPECT_EQ(static_cast<float*>(z.data)[0], 34);
  }
  const int64_t two[] = {2};
  FettleTensor strided = with_data(input, memory, FETTLE_CUDA), y = output;
  strided.strides = two;
  EXPECT_EQ(fettle_rt_run(running.context, &strided, &y), FETTLE_INVALID_ARGUMENT);
  EXPECT_EQ(running.error(), "input 'x' lies on the device with strides, which are not read there: make it dense");
  FettleTensor other = with_data(input, memory, FETTLE_OPENCL);
  EXPECT_EQ(fettle_rt_run(running.context, &other, &y), FETTLE_INVALID_ARGUMENT);
  other = with_data(input, memory, FETTLE_CUDA);
  other.device_index = 1;
  EXPECT_EQ(fettle_rt_run(running.context, &other, &y), FETTLE_INVALID_ARGUMENT);
  EXPECT_EQ(running.error(), "input 'x' lies on device number 1, and the model runs on number 0");
  fake_driver.free(nullptr, memory);
}

TEST_F(DeviceModel, GraphsAreOfTheAddressesThatTheyWereMadeOf) {
  const FettleModelInfo info = make_info();
  const Running running(info);
  auto* const memory = static_cast<float*>(fake_driver.allocate(nullptr, 64));
  for (int turn = 0; turn < 4; ++turn)
    for (int place = 0; place < 2; ++place)
      for (int repeat = 0; repeat < 2; ++repeat) {
        float* const at = memory + 8 * place;
        for (int i = 0; i < 4; ++i) at[i] = static_cast<float>(turn + place + repeat);
        const FettleTensor x = with_data(input, at, FETTLE_CUDA);
        FettleTensor y = with_data(output, at + 4, FETTLE_CUDA);
        ASSERT_EQ(fettle_rt_run(running.context, &x, &y), FETTLE_OK) << running.error();
        EXPECT_EQ(at[4], 2 * static_cast<float>(turn + place + repeat) + 10);
      }
  EXPECT_EQ(device_log.graphs, 2);
  EXPECT_EQ(device_log.launches, 4);
  fake_driver.free(nullptr, memory);
}

TEST_F(DeviceModel, WithoutGraphsOrWithAHookKernelsAreLaunched) {
  const FettleModelInfo info = make_info();
  FettleOptions options = make_options(1);
  options.no_graphs = 1;
  FettleModel* model = fettle_rt_open(&info, FETTLE_ABI_VERSION, &options);
  FettleContext* context = fettle_rt_create_context(model);
  const FettleTensor x = with_data(input, x_);
  FettleTensor y = output;
  for (int i = 0; i < 3; ++i) ASSERT_EQ(fettle_rt_run(context, &x, &y), FETTLE_OK);
  EXPECT_EQ(device_log.launches, 6);
  fettle_rt_close(model);
  fettle_rt_destroy_context(context);
  const Running running(info);
  int told = 0;
  fettle_rt_profile(running.context, [](void* user, int32_t, int64_t, int64_t) { ++*static_cast<int*>(user); }, &told);
  for (int i = 0; i < 3; ++i) ASSERT_EQ(fettle_rt_run(running.context, &x, &y), FETTLE_OK);
  EXPECT_EQ(told, 3);
  EXPECT_EQ(device_log.graphs, 0);
}

/// An older program knows fewer options.
TEST_F(DeviceModel, OptionsMayEndEarlier) {
  const FettleModelInfo info = make_info();
  FettleOptions options = make_options(1);
  options.struct_bytes = offsetof(FettleOptions, stream);
  options.device_index = 7;  // what the program does not know is not looked at
  FettleModel* model = fettle_rt_open(&info, FETTLE_ABI_VERSION, &options);
  EXPECT_NE(model, nullptr) << fettle_rt_error(nullptr);
  fettle_rt_close(model);
}

TEST_F(DeviceModel, WhatFailsIsTold) {
  const FettleModelInfo info = make_info();
  FettleOptions options = make_options(1);
  options.device_index = 1;
  EXPECT_EQ(fettle_rt_open(&info, FETTLE_ABI_VERSION, &options), nullptr);
  EXPECT_STREQ(fettle_rt_error(nullptr), "cannot open 'doubler': there is no fake device number 1");
  device_log.most_bytes = 64;
  EXPECT_EQ(fettle_rt_open(&info, FETTLE_ABI_VERSION, nullptr), nullptr);
  EXPECT_STREQ(fettle_rt_error(nullptr), "cannot open 'doubler': memory ran out: its constants take 256 bytes");
  device_log.most_bytes = int64_t{1} << 40;
  const Running running(info);
  const FettleTensor x = with_data(input, x_);
  FettleTensor y = output;
  device_log.most_bytes = 8;
  EXPECT_EQ(fettle_rt_run(running.context, &x, &y), FETTLE_OUT_OF_MEMORY);
  EXPECT_EQ(running.error(), "input 'x' is too large for the memory of the device");
  device_log.most_bytes = int64_t{1} << 40;
  device_log.fails = true;
  EXPECT_EQ(fettle_rt_run(running.context, &x, &y), FETTLE_DEVICE_FAILED);
  EXPECT_EQ(running.error(),
            "running 'doubler' failed: the device failed in kernel 0 'double', from Mul double: the launch is refused");
  device_log.fails = false;
  EXPECT_EQ(fettle_rt_run(running.context, &x, &y), FETTLE_OK) << running.error();
  EXPECT_EQ(floats(y), expected_);
}

/// Counts in the arena, of which a kernel is given the address, until what it has made is 8 or more.
int32_t looping_program(FettleContext* context, void** buffers, const int64_t*) {
  int32_t status = launch(context, 0, {buffers[0], buffers[1]});
  float first = 0;
  for (int64_t i = 0; status == FETTLE_OK; ++i) {
    status = fettle_device_fetch(context, &first, buffers[1], sizeof first);
    if (first >= 8) break;
    if (status == FETTLE_OK) status = fettle_device_put(context, buffers[2], i);
    if (status == FETTLE_OK) status = launch(context, 2, {buffers[1], buffers[2]});
  }
  return status;
}

TEST_F(DeviceModel, WhatTheHostReadsIsNoGraph) {
  const FettleModelInfo info = make_info(looping_program);
  const Running running(info);
  const FettleTensor x = with_data(input, x_);
  FettleTensor y = output;
  for (int i = 0; i < 4; ++i) {
    ASSERT_EQ(fettle_rt_run(running.context, &x, &y), FETTLE_OK) << running.error();
    EXPECT_EQ(floats(y), (std::vector<float>{8, 10, 12, 14}));  // 2 + 0 + 1 + 2 + 3
  }
  EXPECT_EQ(device_log.graphs, 0);
}

/// A host function: the second tensor becomes the first, backwards.
int32_t reverse(FettleContext*, void** buffers, const int64_t* ints) {
  const HostArguments given(buffers, ints);
  const auto* from = given.tensor(0).as<float>();
  for (int64_t i = 0; i < given.tensor(0).count; ++i)
    given.tensor(1).as<float>()[i] = from[given.tensor(0).count - 1 - i];
  return FETTLE_OK;
}
int32_t reversing_program(FettleContext* context, void** buffers, const int64_t*) {
  const int64_t ints[] = {2, FETTLE_F32, 1, 4, FETTLE_F32, 1, 4};
  return fettle_device_call_host(context, 0, reverse, buffers, ints);
}

TEST_F(DeviceModel, HostFunctionsWorkOnCopies) {
  const FettleModelInfo info = make_info(reversing_program);
  const Running running(info);
  const FettleTensor x = with_data(input, x_);
  FettleTensor y = output;
  for (int i = 0; i < 3; ++i) {
    ASSERT_EQ(fettle_rt_run(running.context, &x, &y), FETTLE_OK) << running.error();
    EXPECT_EQ(floats(y), (std::vector<float>{4, 3, 2, 1}));
  }
  EXPECT_EQ(device_log.graphs, 0);
}

/// The output is the state, to which the input is added.
int32_t state_program(FettleContext* context, void** buffers, const int64_t*) {
  return launch(context, 1, {buffers[0], buffers[1], buffers[1]});
}

TEST_F(DeviceModel, StatesLieOnTheDevice) {
  const FettleTensor inputs[] = {tensor("x", FETTLE_F32, shape, 1), tensor("past", FETTLE_F32, shape, 1)};
  FettleModelInfo info = describe("sums", inputs, 2, &output, 1, state_program);
  const FettleState state = {sizeof(FettleState), 1, 0, -1, &inputs[1]};
  info.states = &state;
  info.n_states = 1;
  info.driver = &fake_driver;
  info.device = FETTLE_CUDA;
  const Running running(info);
  FettleTensor given[] = {with_data(inputs[0], x_), inputs[1]};
  for (int i = 1; i < 4; ++i) {
    float memory[4] = {};
    FettleTensor y = with_data(output, memory);
    ASSERT_EQ(fettle_rt_run(running.context, given, &y), FETTLE_OK) << running.error();
    EXPECT_EQ(memory[3], 4.0F * static_cast<float>(i));
  }
  float kept[4] = {};
  FettleTensor shown = with_data(inputs[1], kept);
  shown.capacity_bytes = sizeof kept;
  ASSERT_EQ(fettle_rt_get_state(running.context, "past", &shown), FETTLE_OK) << running.error();
  EXPECT_EQ(kept[1], 6);
  FettleTensor place{};
  place.struct_bytes = sizeof place;
  ASSERT_EQ(fettle_rt_get_state(running.context, "past", &place), FETTLE_OK) << running.error();
  EXPECT_EQ(place.device, FETTLE_CUDA);
  EXPECT_TRUE(device_log.holds(place.data));
  const FettleTensor set = with_data(inputs[1], x_);
  ASSERT_EQ(fettle_rt_set_state(running.context, "past", &set), FETTLE_OK) << running.error();
  FettleTensor y = output;
  ASSERT_EQ(fettle_rt_run(running.context, given, &y), FETTLE_OK) << running.error();
  EXPECT_EQ(y.device, FETTLE_CUDA);  // where the state lies
  EXPECT_EQ(static_cast<float*>(y.data)[2], 6);
  ASSERT_EQ(fettle_rt_set_state(running.context, nullptr, nullptr), FETTLE_OK) << running.error();
  ASSERT_EQ(fettle_rt_get_state(running.context, "past", &shown), FETTLE_OK) << running.error();
  EXPECT_EQ(kept[1], 0);
}

}  // namespace
}  // namespace fettle::rt
