#include "rt/model.h"

#include <stddef.h>
#include <string.h>

#include <new>

#include "rt/cpu.h"
#include "rt/memory.h"
#include "rt/model_context.h"
#include "rt/onednn.h"
#include "rt/sys.h"
#include "rt/team.h"
#include "rt/tensor.h"
#include "rt/thread.h"

namespace fettle::rt {
namespace {

// Why the last creation failed. Writers take the lock; a reader that races with a failing creation may see a mixed
// sentence, never an unended one: the last byte stays zero.
char create_error[kMaxText];
std::atomic<uint32_t> create_error_lock{0};

/// Keeps why a creation failed; null, for it to return.
std::nullptr_t creation_failed(const Text& text) {
  while (create_error_lock.exchange(1, std::memory_order_acquire) != 0) cpu_relax();
  memcpy(create_error, text.chars, kMaxText - 1);
  create_error_lock.store(0, std::memory_order_release);
  return nullptr;
}

constexpr int32_t kMostStreams = 1024;

/// A team for each stream; one where that is the host program's, or of the calling thread alone. False: there is no
/// memory.
bool make_teams(FettleModel& model, const FettleModelInfo& info, const FettleOptions& options) {
  FettleTeamOptions team{};
  team.threads = options.threads;
  if (team.threads == 0) {
    const int32_t usable = fettle_usable_cpus();
    team.threads = info.default_threads > 0 && info.default_threads < usable ? info.default_threads : usable;
  }
  team.pin = options.pin;
  team.spin_us = options.spin_us;
  int32_t streams = options.streams > 0 ? options.streams : info.default_streams;
  if (streams < 1 || team.threads == 1 || options.host_team != nullptr) streams = 1;
  if (streams > kMostStreams) streams = kMostStreams;
  model.teams = static_cast<FettleTeam**>(fettle_pages_alloc(streams * int64_t{sizeof(FettleTeam*)}, 0));
  if (model.teams == nullptr) return false;
  model.n_teams = streams;
  for (int32_t i = 0; i < streams; ++i) {
    team.first = i * team.threads;
    model.teams[i] = options.host_team != nullptr ? fettle_team_wrap(options.host_team) : fettle_team_create(&team);
    if (model.teams[i] == nullptr) return false;
  }
  return true;
}

int64_t constants_bytes(const FettleModelInfo& info) { return info.n_constants * int64_t{sizeof(void*)}; }

/// Packings that are run at once.
struct Packings {
  const FettleModel* model;
  FettleContext context;
  std::atomic<int32_t> status{FETTLE_OK};
  std::atomic<int32_t> has_no_memory{0};
};

void run_packing(void* closure, int64_t i) {
  auto& all = *static_cast<Packings*>(closure);
  const FettlePacking& packing = all.model->info->packings[i];
  const int64_t bytes = packing.n_constants * int64_t{sizeof(void*)};
  auto** buffers = static_cast<void**>(fettle_scratch_acquire(&all.context, bytes));
  if (buffers == nullptr) {
    all.has_no_memory.store(1, std::memory_order_relaxed);
    return;
  }
  for (int64_t k = 0; k < packing.n_constants; ++k) buffers[k] = all.model->constants[packing.constants[k]];
  FettleContext alone = all.context;  // a packing is one thread's
  alone.team = nullptr;
  if (const int32_t status = packing.run(&alone, buffers, nullptr)) all.status.store(status, std::memory_order_relaxed);
  fettle_scratch_release(&all.context, buffers);
}

/// Makes the constants that the description has no data of. FETTLE_OK, or what `why` says.
int32_t pack_constants(FettleModel& model, Reason& why) {
  const FettleModelInfo& info = *model.info;
  if (info.n_packings == 0) return FETTLE_OK;
  constexpr int64_t kPage = 4096, kLarge = 64 << 10, kLine = 64;
  const auto place = [&](int64_t end, int64_t bytes) {
    const int64_t alignment = bytes >= kLarge ? kPage : kLine;
    return (end + alignment - 1) / alignment * alignment;
  };
  int64_t total = 0;
  for (int32_t i = 0; i < info.n_constants; ++i) {
    const FettleTensor& constant = *nth(info.constants, i);
    if (constant.data == nullptr) total = place(total, fettle_tensor_bytes(&constant)) + fettle_tensor_bytes(&constant);
  }
  model.constants = static_cast<void**>(fettle_pages_alloc(constants_bytes(info), 0));
  if (model.constants == nullptr || !model.constant_memory.reserve(total > 0 ? total : 1, model.huge_pages)) {
    why << "memory ran out: its packed constants take " << total << " bytes";
    return FETTLE_OUT_OF_MEMORY;
  }
  int64_t end = 0;
  for (int32_t i = 0; i < info.n_constants; ++i) {
    const FettleTensor& constant = *nth(info.constants, i);
    model.constants[i] = constant.data;
    if (constant.data != nullptr) continue;
    end = place(end, fettle_tensor_bytes(&constant));
    model.constants[i] = static_cast<char*>(model.constant_memory.data) + end;
    end += fettle_tensor_bytes(&constant);
  }
  Packings all{&model, {}};
  all.context.scratch = model.scratch;
  // As when a model is compiled: no number of the weights is lost.
  const FloatScope exactly(kKeepsDenormals);
  fettle_parallel_for(model.teams[0], info.n_packings, run_packing, &all);
  if (all.has_no_memory.load() != 0) {
    why << "memory ran out";
    return FETTLE_OUT_OF_MEMORY;
  }
  if (const int32_t status = all.status.load()) {
    why << "packing its constants failed with " << status;
    return status;
  }
  return FETTLE_OK;
}

/// Opens the device that kernels run on, and copies the constants there. FETTLE_OK, or what `why` says.
int32_t open_device(FettleModel& model, Reason& why) {
  const FettleModelInfo& info = *model.info;
  if (info.driver == nullptr) return FETTLE_OK;
  if (!model.device.open(info.driver, model.device_index, why)) return FETTLE_DEVICE_FAILED;
  constexpr int64_t kAlignment = 256;
  const auto rounded = [](int64_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; };
  int64_t total = 0;
  const auto bytes_of = [&](int32_t i) { return fettle_tensor_bytes(nth(info.constants, i)); };
  for (int32_t i = 0; i < info.n_constants; ++i) total += rounded(bytes_of(i));
  model.constants = static_cast<void**>(fettle_pages_alloc(constants_bytes(info), 0));
  FettleQueue queue{};
  if (!queue.open(&model.device, nullptr)) {
    why = queue.why;
    return FETTLE_DEVICE_FAILED;
  }
  model.constant_memory.queue = &queue;
  int32_t status =
      model.constants != nullptr && model.constant_memory.reserve(total) ? FETTLE_OK : FETTLE_OUT_OF_MEMORY;
  if (status != FETTLE_OK) {
    why.clear();
    why << "memory ran out: its constants take " << total << " bytes";
  } else {
    auto* at = static_cast<char*>(model.constant_memory.data);
    for (int32_t i = 0; i < info.n_constants && status == FETTLE_OK; at += rounded(bytes_of(i)), ++i) {
      model.constants[i] = at;
      status = queue.copy(CopyKind::kToDevice, at, nth(info.constants, i)->data, bytes_of(i));
    }
    if (status == FETTLE_OK) status = queue.wait();
    if (status != FETTLE_OK) why = queue.why;
  }
  model.constant_memory.queue = nullptr;
  queue.close();
  return status;
}

/// One user of the model less; the last ends it.
void release(FettleModel* model) {
  if (model->users.fetch_sub(1, std::memory_order_acq_rel) > 1) return;
  if (model->device.is_open()) {
    Reason ignored;
    model->device.driver->enter(model->device.handle, ignored);
    if (model->constant_memory.data != nullptr)
      model->device.driver->free(model->device.handle, model->constant_memory.data);
    model->constant_memory.data = nullptr;
    model->device.close();
  }
  model->constant_memory.release();
  fettle_pages_free(model->constants, constants_bytes(*model->info), 0);
  for (int32_t i = 0; i < model->n_teams; ++i) fettle_team_destroy(model->teams[i]);
  fettle_pages_free(model->teams, model->n_teams * int64_t{sizeof(FettleTeam*)}, 0);
  fettle_scratch_destroy(model->scratch);
  model->strings.release();
  fettle_pages_free(model, sizeof(FettleModel), 0);
}

/// Numbers the strings of the model's constants. False: there is no memory.
bool number_constants(const FettleModelInfo& info, FettleStrings& strings) {
  int64_t begin = 0;
  for (int64_t i = 0; i < info.n_strings; begin = info.string_ends[i++])
    if (strings.number_of(info.string_bytes + begin, info.string_ends[i] - begin) != i + 1) return false;
  return true;
}

/// Hands out parts of a block of memory, or, without one, counts what they take.
struct Parts {
  char* begin;
  int64_t bytes = 0;

  template <class T>
  T* take(int64_t count) {
    T* made = nullptr;
    if (begin != nullptr) {
      made = reinterpret_cast<T*>(begin + bytes);
      for (int64_t i = 0; i < count; ++i) new (made + i) T{};
    }
    bytes += (count * static_cast<int64_t>(sizeof(T)) + 7) / 8 * 8;
    return made;
  }
};

template <class Tensors>
int64_t count_extents(Tensors* tensors, int32_t count) {
  int64_t extents = 0;
  for (int32_t i = 0; i < count; ++i) extents += nth(tensors, i)->rank;
  return extents;
}

/// The arrays of a context, behind it.
void lay_out(Parts& parts, const FettleModelInfo& info, ModelContext& context) {
  const int64_t input_extents = count_extents(info.inputs, info.n_inputs);
  const int64_t output_extents = count_extents(info.outputs, info.n_outputs);
  context.input_bytes = input_extents * static_cast<int64_t>(sizeof(int64_t));
  context.output_bytes = output_extents * static_cast<int64_t>(sizeof(int64_t));
  context.buffers = parts.take<void*>(int64_t{info.n_inputs} + info.n_outputs + info.n_states + 1 + info.n_constants +
                                      1 + info.n_stages);
  context.given = parts.take<int64_t>(input_extents);
  context.input_extents = parts.take<int64_t>(input_extents);
  context.bounds = parts.take<int64_t>(output_extents);
  context.output_at = parts.take<int64_t>(info.n_outputs);
  context.table = parts.take<int64_t>(info.n_sizes);
  context.staged = parts.take<Block>(info.n_inputs);
  context.owned = parts.take<Block>(info.n_outputs);
  context.stage_arenas = parts.take<Block>(info.n_stages);
  context.input_state = parts.take<int32_t>(info.n_inputs);
  context.output_state = parts.take<int32_t>(info.n_outputs);
  context.states = parts.take<StateMemory>(info.n_states);
  for (int32_t s = 0; s < info.n_states; ++s) {
    const int32_t rank = nth(info.states, s)->tensor->rank;
    auto* shape = parts.take<int64_t>(rank);
    auto* strides = parts.take<int64_t>(rank);
    if (parts.begin != nullptr) context.states[s] = {{}, shape, strides};
  }
  if (info.driver == nullptr) return;
  context.queue = parts.take<FettleQueue>(1);
  context.dense = parts.take<Block>(info.n_inputs);
  context.made = parts.take<Block>(info.n_outputs);
  context.taken_to = parts.take<void*>(info.n_outputs);
  context.key_words =
      info.n_inputs + info.n_outputs + info.n_states + 1 + info.n_constants + 1 + info.n_stages + info.n_sizes;
  context.last_key = parts.take<void*>(context.key_words);
  for (CallGraph& graph : context.graphs) graph.key = parts.take<void*>(context.key_words);
}

/// Memory that a context has from the beginning, and what `entry` is given in every call. False: there is none.
bool fill(ModelContext& context, const FettleModelInfo& info) {
  if (context.queue != nullptr) {
    if (!context.queue->open(&context.model->device, context.model->stream)) return false;
    context.arena.queue = context.queue;
    for (int32_t i = 0; i < info.n_inputs; ++i) context.staged[i].queue = context.queue;
    for (int32_t i = 0; i < info.n_outputs; ++i) context.made[i].queue = context.queue;
    for (int32_t k = 0; k < info.n_stages; ++k) context.stage_arenas[k].queue = context.queue;
    for (int32_t s = 0; s < info.n_states; ++s) context.states[s].block.queue = context.queue;
  }
  if (info.n_sizes == 0) {
    context.table = nullptr;
    context.output_extents = context.bounds;
    int64_t* extents = context.bounds;
    for (int32_t i = 0; i < info.n_outputs; ++i) {
      const FettleTensor& output = *nth(info.outputs, i);
      memcpy(extents, output.shape, static_cast<size_t>(output.rank) * sizeof(int64_t));
      extents += output.rank;
    }
    if (!context.arena.reserve(info.arena_bytes, context.model->huge_pages)) return false;
  } else {
    context.output_extents = context.table + 1;
  }
  for (int32_t i = 0; i < info.n_inputs; ++i) context.input_state[i] = -1;
  for (int32_t i = 0; i < info.n_outputs; ++i) {
    context.output_state[i] = -1;
    context.output_at[i] = i == 0 ? 0 : context.output_at[i - 1] + nth(info.outputs, i - 1)->rank;
  }
  void** at = context.buffers + info.n_inputs + info.n_outputs;
  for (int32_t s = 0; s < info.n_states; ++s) {
    const FettleState& state = *nth(info.states, s);
    const FettleTensor& tensor = *state.tensor;
    StateMemory& memory = context.states[s];
    if (!memory.block.reserve(dense_bytes(tensor.dtype, tensor.shape, tensor.rank), context.model->huge_pages))
      return false;
    // Pages of the host's are zero.
    if (context.queue != nullptr && context.queue->clear(memory.block.data, memory.block.bytes) != FETTLE_OK)
      return false;
    memcpy(memory.shape, tensor.shape, static_cast<size_t>(tensor.rank) * sizeof(int64_t));
    if (state.length_axis >= 0) memory.shape[state.length_axis] = 0;
    dense_strides(tensor.shape, tensor.rank, memory.strides);
    context.input_state[state.input] = context.output_state[state.output] = s;
    context.buffers[state.input] = context.buffers[info.n_inputs + state.output] = memory.block.data;
    *at++ = memory.block.data;
  }
  *at++ = context.arena.data;
  for (int32_t i = 0; i < info.n_constants; ++i)
    *at++ = context.model->constants != nullptr ? context.model->constants[i] : nth(info.constants, i)->data;
  *at++ = context.table;
  context.stage_addresses = at;
  return true;
}

/// Runs what is begun, until the context ends.
void* context_main(void* argument) {
  auto* context = static_cast<ModelContext*>(argument);
  while (true) {
    const uint32_t phase = context->phase.load(std::memory_order_acquire);
    if (phase == kEnded) return nullptr;
    if (phase != kBegun) {
      futex_wait(&context->phase, phase);
      continue;
    }
    context->begun_status = execute(*context);
    context->phase.store(kDone, std::memory_order_release);
    futex_wake_all(&context->phase);
  }
}

/// Takes an idle context for a call; the one before counts no more.
bool use(ModelContext& context) {
  uint32_t idle = kIdle;
  if (!context.phase.compare_exchange_strong(idle, kUsed, std::memory_order_acquire)) return false;
  context.error.clear();
  __atomic_store_n(&context.cancelled, 0, __ATOMIC_RELAXED);
  return true;
}

int32_t leave(ModelContext& context, int32_t status) {
  context.phase.store(kIdle, std::memory_order_release);
  return status;
}

int32_t no_outputs(ModelContext& context) {
  return refuse(context, FETTLE_INVALID_ARGUMENT, Text{} << "the array of outputs is a null pointer");
}

/// Waits until the context's thread is done with what was begun.
void await_thread(ModelContext& context) {
  while (context.phase.load(std::memory_order_acquire) == kBegun) futex_wait(&context.phase, kBegun);
}

/// The state of this name; -1: there is none, which the context's sentence says.
int32_t find_state(ModelContext& context, const char* name) {
  const FettleModelInfo& info = *context.model->info;
  Text text;
  text << "the model has no state '" << (name == nullptr ? "" : name) << "'; it has ";
  for (int32_t s = 0; s < info.n_states; ++s) {
    const char* known = nth(info.states, s)->tensor->name;
    if (name != nullptr && strcmp(known, name) == 0) return s;
    text << (s == 0 ? "'" : ", '") << known << "'";
  }
  refuse(context, FETTLE_INVALID_ARGUMENT, info.n_states == 0 ? text << "none" : text);
  return -1;
}

int32_t get_state(ModelContext& context, const char* name, FettleTensor* tensor) {
  if (context.queue != nullptr)
    if (const int32_t status = context.queue->enter()) return device_failed(context, status);
  const int32_t state = find_state(context, name);
  if (state < 0) return FETTLE_INVALID_ARGUMENT;
  FettleTensor expected = *nth(context.model->info->states, state)->tensor, taken{};
  expected.shape = context.states[state].shape;
  if (tensor == nullptr)
    return refuse(context, FETTLE_INVALID_ARGUMENT,
                  Text{} << "the tensor for state '" << name << "' is a null pointer");
  if (!take_struct(tensor, taken) || (taken.data != nullptr && taken.capacity_bytes >= 0)) {
    if (const int32_t status = check_tensor(context, "state", expected, tensor, taken)) return status;
    const int64_t bytes = dense_bytes(expected.dtype, expected.shape, expected.rank);
    if (taken.strides != nullptr || taken.capacity_bytes < bytes)
      return refuse(context, FETTLE_WRONG_SHAPE,
                    Text{} << "state '" << name << "' takes " << bytes << " bytes, as " << expected
                           << ", dense, and capacity_bytes is " << taken.capacity_bytes);
  }
  return show_state(context, state, *tensor);
}

int32_t set_state(ModelContext& context, const char* name, const FettleTensor* tensor) {
  if (context.queue != nullptr)
    if (const int32_t status = context.queue->enter()) return device_failed(context, status);
  if (name == nullptr && tensor == nullptr) {
    int32_t status = FETTLE_OK;
    for (int32_t s = 0; s < context.model->info->n_states && status == FETTLE_OK; ++s) status = reset_state(context, s);
    return status;
  }
  const int32_t state = find_state(context, name);
  if (state < 0) return FETTLE_INVALID_ARGUMENT;
  if (tensor != nullptr) return load_state(context, state, tensor, "state", name);
  return reset_state(context, state);
}

}  // namespace
}  // namespace fettle::rt

using namespace fettle::rt;

extern "C" {

FettleModel* fettle_rt_open(const FettleModelInfo* info, uint32_t abi_version, const FettleOptions* given) {
  Text text;
  text << "cannot open '" << info->name << "': ";
  if (abi_version != FETTLE_ABI_VERSION) {
    return creation_failed(text << "the program was compiled for version " << int64_t{abi_version}
                                << " of its interface, and it has version " << int64_t{FETTLE_ABI_VERSION}
                                << ": compile the program again with the header that lies beside the model");
  }
  FettleOptions options{};
  if (given != nullptr && !take_struct(given, options, offsetof(FettleOptions, stream))) {
    return creation_failed(text << "struct_bytes of the options is " << int64_t{given->struct_bytes}
                                << "; set it to sizeof(FettleOptions), and what this version does not know to zero");
  }
  char missing[32];
  if (fettle_cpu_check(info->target_features, missing, sizeof missing) != 0) {
    return creation_failed(text << "it was compiled for a processor with " << missing
                                << ", which this one lacks; compile it again on this machine");
  }
  if (options.threads < 0) return creation_failed(text << "the number of threads is negative");
  if (options.streams < 0) return creation_failed(text << "the number of streams is negative");
  FettleHostTeam host{};
  if (options.host_team != nullptr) {
    if (!take_struct(options.host_team, host))
      return creation_failed(text << "struct_bytes of the host's team is " << int64_t{options.host_team->struct_bytes}
                                  << "; set it to sizeof(FettleHostTeam)");
    if (host.size == nullptr || host.parallel_for == nullptr)
      return creation_failed(text << "a callback of the host's team is a null pointer");
    options.host_team = &host;
  }
  FettleHostCalls host_calls{};
  if (options.host_calls != nullptr && !take_struct(options.host_calls, host_calls))
    return creation_failed(text << "struct_bytes of the host's functions is "
                                << int64_t{options.host_calls->struct_bytes} << "; set it to sizeof(FettleHostCalls)");
  void* place = fettle_pages_alloc(sizeof(FettleModel), 0);
  if (place == nullptr) return creation_failed(text << "memory ran out");
  auto* model = new (place) FettleModel;
  model->host_calls = host_calls;
  model->info = info;
  model->float_mode = options.keep_denormals != 0 ? kKeepsDenormals : kFlushesDenormals;
  model->huge_pages = options.huge_pages;
  model->scratch = fettle_scratch_create();
  const bool has_teams = make_teams(*model, *info, options);
  model->stream = options.stream;
  model->device_index = options.device_index;
  model->no_graphs = options.no_graphs;
  Reason why{};
  if (open_device(*model, why) != FETTLE_OK) {
    release(model);
    return creation_failed(text << why.chars);
  }
  if (model->scratch == nullptr || !has_teams || !number_constants(*info, model->strings)) {
    release(model);
    return creation_failed(text << "memory ran out");
  }
  if (pack_constants(*model, why) != FETTLE_OK) {
    release(model);
    return creation_failed(text << why.chars);
  }
  return model;
}

FettleModel* fettle_rt_refuse(const FettleModelInfo* info, const char* why) {
  return creation_failed(Text{} << "cannot open '" << info->name << "': " << why);
}

void fettle_rt_close(FettleModel* model) {
  if (model != nullptr) release(model);
}

FettleContext* fettle_rt_create_context(FettleModel* model) {
  if (model == nullptr) return nullptr;  // fettle_rt_open has said why
  const FettleModelInfo& info = *model->info;
  Text text;
  text << "cannot make a context of '" << info.name << "': ";
  ModelContext counted;
  Parts parts{nullptr};
  parts.take<ModelContext>(1);
  lay_out(parts, info, counted);
  void* place = fettle_pages_alloc(parts.bytes, 0);
  if (place == nullptr) return creation_failed(text << "memory ran out");
  const int64_t bytes = parts.bytes;
  parts = {static_cast<char*>(place)};
  auto* context = parts.take<ModelContext>(1);
  lay_out(parts, info, *context);
  context->block_bytes = bytes;
  context->model = model;
  context->team =
      model->teams[model->next_team.fetch_add(1, std::memory_order_relaxed) % static_cast<uint32_t>(model->n_teams)];
  context->scratch = model->scratch;
  context->host_calls = model->host_calls.call == nullptr ? nullptr : &model->host_calls;
  model->users.fetch_add(1, std::memory_order_relaxed);
  if (fill(*context, info)) return context;
  if (context->queue != nullptr && context->queue->why.length > 0)
    text << context->queue->why.chars;
  else
    text << "memory ran out; its arena takes " << info.arena_bytes << " bytes";
  fettle_rt_destroy_context(context);
  return creation_failed(text);
}

void fettle_rt_destroy_context(FettleContext* handle) {
  if (handle == nullptr) return;
  ModelContext& context = *of(handle);
  fettle_rt_cancel(handle);
  await_thread(context);
  if (context.has_thread) {
    context.phase.store(kEnded, std::memory_order_release);
    futex_wake_all(&context.phase);
    pthread_join(context.thread, nullptr);
  }
  FettleModel* model = context.model;
  const FettleModelInfo& info = *model->info;
  if (context.queue != nullptr && context.queue->device != nullptr) {
    context.queue->enter();
    context.queue->wait();
    drop_graphs(context);
  }
  context.arena.release();
  for (int32_t i = 0; i < info.n_inputs; ++i) context.staged[i].release();
  for (int32_t i = 0; i < info.n_outputs; ++i) context.owned[i].release();
  for (int32_t k = 0; k < info.n_stages; ++k) context.stage_arenas[k].release();
  for (int32_t s = 0; s < info.n_states; ++s) context.states[s].block.release();
  if (context.queue != nullptr) {
    for (int32_t i = 0; i < info.n_inputs; ++i) context.dense[i].release();
    for (int32_t i = 0; i < info.n_outputs; ++i) context.made[i].release();
    context.queue->close();
  }
  for (FettleStrings& strings : context.call_strings) strings.release();
  fettle_pages_free(&context, context.block_bytes, 0);
  release(model);
}

int32_t fettle_rt_run(FettleContext* handle, const FettleTensor* inputs, FettleTensor* outputs) {
  if (handle == nullptr) return FETTLE_INVALID_ARGUMENT;
  ModelContext& context = *of(handle);
  if (!use(context)) return FETTLE_BUSY;
  if (outputs == nullptr) return leave(context, no_outputs(context));
  int32_t status = prepare(context, inputs, outputs);
  if (status == FETTLE_OK) status = execute(context);
  if (status == FETTLE_OK) status = finish(context, outputs);
  return leave(context, status);
}

int32_t fettle_rt_begin(FettleContext* handle, const FettleTensor* inputs, FettleTensor* outputs) {
  if (handle == nullptr) return FETTLE_INVALID_ARGUMENT;
  ModelContext& context = *of(handle);
  if (!use(context)) return FETTLE_BUSY;
  if (outputs == nullptr) return leave(context, no_outputs(context));
  if (const int32_t status = prepare(context, inputs, outputs); status != FETTLE_OK) return leave(context, status);
  if (!context.has_thread) {
    context.has_thread = start_thread(&context.thread, context_main, &context);
    if (!context.has_thread)
      return leave(context, refuse(context, FETTLE_OUT_OF_MEMORY, Text{} << "the system refuses another thread"));
  }
  context.begun_outputs = outputs;
  context.phase.store(kBegun, std::memory_order_release);
  futex_wake_all(&context.phase);
  return FETTLE_OK;
}

int32_t fettle_rt_wait(FettleContext* handle) {
  if (handle == nullptr) return FETTLE_INVALID_ARGUMENT;
  ModelContext& context = *of(handle);
  await_thread(context);
  uint32_t done = kDone;
  if (!context.phase.compare_exchange_strong(done, kUsed, std::memory_order_acquire)) {
    if (done != kIdle || !use(context)) return FETTLE_BUSY;
    return leave(context, refuse(context, FETTLE_INVALID_ARGUMENT, Text{} << "no call was begun"));
  }
  int32_t status = context.begun_status;
  if (status == FETTLE_OK) status = finish(context, context.begun_outputs);
  return leave(context, status);
}

int32_t fettle_rt_cancel(FettleContext* handle) {
  if (handle == nullptr) return FETTLE_INVALID_ARGUMENT;
  __atomic_store_n(&handle->cancelled, 1, __ATOMIC_RELAXED);  // the next call begins with 0
  return FETTLE_OK;
}

int32_t fettle_rt_output_shapes(FettleContext* handle, const FettleTensor* inputs, FettleTensor* outputs) {
  if (handle == nullptr) return FETTLE_INVALID_ARGUMENT;
  ModelContext& context = *of(handle);
  if (!use(context)) return FETTLE_BUSY;
  if (outputs == nullptr) return leave(context, no_outputs(context));
  const int32_t status = prepare(context, inputs, nullptr);
  for (int32_t i = 0; status == FETTLE_OK && i < context.model->info->n_outputs; ++i) {
    FettleTensor taken{};
    if (!take_struct(nth(outputs, i), taken)) {
      const FettleTensor& output = *nth(context.model->info->outputs, i);
      return leave(context, check_tensor(context, "output", output, nth(outputs, i), taken));
    }
    describe_output(context, i, *nth(outputs, i));
  }
  return leave(context, status);
}

int32_t fettle_rt_get_state(FettleContext* handle, const char* name, FettleTensor* tensor) {
  if (handle == nullptr) return FETTLE_INVALID_ARGUMENT;
  if (!use(*of(handle))) return FETTLE_BUSY;
  return leave(*of(handle), get_state(*of(handle), name, tensor));
}

int32_t fettle_rt_set_state(FettleContext* handle, const char* name, const FettleTensor* tensor) {
  if (handle == nullptr) return FETTLE_INVALID_ARGUMENT;
  if (!use(*of(handle))) return FETTLE_BUSY;
  return leave(*of(handle), set_state(*of(handle), name, tensor));
}

void fettle_rt_allocate_with(FettleContext* context, FettleAllocate allocate, void* user) {
  of(context)->allocate = allocate;
  of(context)->allocate_user = user;
}

void fettle_rt_profile(FettleContext* context, FettleKernelHook hook, void* user) {
  context->on_kernel = hook;
  context->on_kernel_user = user;
}

void fettle_rt_trace(FettleContext* context, const FettleTracer* tracer) { context->tracer = tracer; }

const char* fettle_rt_error(const FettleContext* context) {
  return context == nullptr ? create_error : static_cast<const ModelContext*>(context)->error.chars;
}

const FettleFunctions fettle_rt_functions = {
    sizeof(FettleFunctions),
    0,
    fettle_rt_open,
    fettle_rt_close,
    fettle_rt_create_context,
    fettle_rt_destroy_context,
    fettle_rt_run,
    fettle_rt_begin,
    fettle_rt_wait,
    fettle_rt_cancel,
    fettle_rt_output_shapes,
    fettle_rt_get_state,
    fettle_rt_set_state,
    fettle_rt_allocate_with,
    fettle_rt_profile,
    fettle_rt_error,
    fettle_rt_trace,
};

int32_t fettle_call_kernel(FettleContext* context, int32_t index, FettleKernel kernel, void** buffers,
                           const int64_t* ints) {
  if (__atomic_load_n(&context->cancelled, __ATOMIC_RELAXED) != 0) return FETTLE_CANCELLED;
  if (__atomic_load_n(&context->failed_kernel, __ATOMIC_RELAXED) != 0) return FETTLE_KERNEL_FAILED;
  const FettleKernelHook hook = context->on_kernel;
  // A kernel that is launched has run when its queue is done.
  const bool waits = hook != nullptr && context->queue != nullptr;
  if (waits) context->queue->wait();
  const int64_t begin = hook == nullptr ? 0 : now_ns();
  int32_t status = kernel(context, buffers, ints);
  if (waits && status == FETTLE_OK) {
    status = context->queue->wait();
    if (status != FETTLE_OK) context->reason = context->queue->why.chars;
  }
  if (hook != nullptr) hook(context->on_kernel_user, index, begin, now_ns());
  if (status != FETTLE_OK) __atomic_store_n(&context->failed_kernel, index + 1, __ATOMIC_RELAXED);
  return status;
}

void fettle_run_sections(FettleContext* context, int64_t n, FettleBody body, void* closure) {
  const bool is_observed = context->on_kernel != nullptr || context->tracer != nullptr;
  if (!is_observed) return fettle_parallel_for(context->team, n, body, closure);
  for (int64_t i = 0; i < n; ++i) body(closure, i);
}

void fettle_mark_step(FettleContext* context, int32_t step, int32_t event) {
  const FettleTracer* tracer = context->tracer;
  if (tracer != nullptr && tracer->on_step != nullptr) tracer->on_step(tracer->user, step, event, now_ns());
}

const FettleSymbol* fettle_rt_symbols(void) {
  static const FettleSymbol symbols[] = {
      {"fettle_parallel_for", reinterpret_cast<void*>(&fettle_parallel_for)},
      {"fettle_run_sections", reinterpret_cast<void*>(&fettle_run_sections)},
      {"fettle_team_size", reinterpret_cast<void*>(&fettle_team_size)},
      {"fettle_call_kernel", reinterpret_cast<void*>(&fettle_call_kernel)},
      {"fettle_reach_stage", reinterpret_cast<void*>(&fettle_reach_stage)},
      {"fettle_mark_step", reinterpret_cast<void*>(&fettle_mark_step)},
      {"fettle_scratch_acquire", reinterpret_cast<void*>(&fettle_scratch_acquire)},
      {"fettle_scratch_release", reinterpret_cast<void*>(&fettle_scratch_release)},
      {"fettle_tiles_begin", reinterpret_cast<void*>(&fettle_tiles_begin)},
      {"fettle_tiles_end", reinterpret_cast<void*>(&fettle_tiles_end)},
      {"fettle_onednn_run", reinterpret_cast<void*>(&fettle_onednn_run)},
      {"fettle_onednn_pack", reinterpret_cast<void*>(&fettle_onednn_pack)},
      {"fettle_device_launch", reinterpret_cast<void*>(&fettle_device_launch)},
      {"fettle_device_acquire", reinterpret_cast<void*>(&fettle_device_acquire)},
      {"fettle_device_release", reinterpret_cast<void*>(&fettle_device_release)},
      {"fettle_device_fetch", reinterpret_cast<void*>(&fettle_device_fetch)},
      {"fettle_device_put", reinterpret_cast<void*>(&fettle_device_put)},
      {"fettle_device_call_host", reinterpret_cast<void*>(&fettle_device_call_host)},
      {nullptr, nullptr},
  };
  return symbols;
}
}
