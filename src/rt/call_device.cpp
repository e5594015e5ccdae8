// Calls of models whose kernels run on a device with memory of its own: tensors are brought there and back, and calls
// that are given what others were given run as graphs.

#include <string.h>

#include "rt/model_context.h"
#include "rt/tensor.h"

namespace fettle::rt {

int32_t device_failed(ModelContext& context, int32_t status) {
  return refuse(context, status, Text{} << "the device failed: " << context.queue->why.chars);
}

int32_t place_input_on_device(ModelContext& context, int32_t i, const FettleTensor& expected, const FettleTensor& given,
                              void** at) {
  const auto refused = [&](int32_t status, const char* why) {
    return refuse(context, status, Text{} << "input '" << expected.name << "' " << why);
  };
  const int64_t bytes = dense_bytes(given.dtype, given.shape, given.rank);
  if (bytes == 0) {
    if (!context.staged[i].reserve(1)) return refused(FETTLE_OUT_OF_MEMORY, "cannot have the device's memory");
    *at = context.staged[i].data;
    return FETTLE_OK;
  }
  const bool is_there = given.device == context.model->device_kind();
  const bool is_dense_already = is_dense(given.shape, given.strides, given.rank);
  if (is_there && !is_dense_already)
    return refused(FETTLE_INVALID_ARGUMENT, "lies on the device with strides, which are not read there: make it dense");
  if (is_there && given.dtype == FETTLE_STRING)
    return refused(FETTLE_INVALID_ARGUMENT, "is of strings, which devices do not have: give it in the CPU's memory");
  if (is_there && !is_ours(context, given.data)) {
    *at = given.data;
    return FETTLE_OK;
  }
  const void* from = given.data;
  if (!is_there && (!is_dense_already || given.dtype == FETTLE_STRING)) {
    if (given.rank > kMaxRank) return refused(FETTLE_INVALID_ARGUMENT, "has too many axes to be copied");
    Block& dense = context.dense[i];
    if (!dense.reserve(bytes)) return refused(FETTLE_OUT_OF_MEMORY, "needs a dense copy, for which there is no memory");
    copy_elements(dense.data, nullptr, given.data, given.strides, given.shape, given.rank, given.dtype);
    from = dense.data;
    if (given.dtype == FETTLE_STRING)
      if (const int32_t status = number_strings(context, expected, given, dense.data)) return status;
  }
  Block& staged = context.staged[i];
  if (!staged.reserve(bytes)) return refused(FETTLE_OUT_OF_MEMORY, "is too large for the memory of the device");
  if (!is_there) context.has_host_tensors = 1;
  if (const int32_t status =
          context.queue->copy(is_there ? CopyKind::kWithin : CopyKind::kToDevice, staged.data, from, bytes))
    return device_failed(context, status);
  *at = staged.data;
  return FETTLE_OK;
}

int32_t take_from_device(ModelContext& context) {
  FettleQueue& queue = *context.queue;
  if (const int32_t status = queue.enter()) return device_failed(context, status);
  const FettleModelInfo& info = *context.model->info;
  for (int32_t i = 0; i < info.n_outputs; ++i) {
    if (context.taken_to[i] == nullptr) continue;
    FettleTensor made{};
    describe_output(context, i, made);
    // Strings are numbers there.
    const int32_t dtype = made.dtype == FETTLE_STRING ? static_cast<int32_t>(FETTLE_I64) : made.dtype;
    if (const int32_t status = queue.copy(CopyKind::kToHost, context.taken_to[i], context.made[i].data,
                                          dense_bytes(dtype, made.shape, made.rank)))
      return device_failed(context, status);
  }
  if (context.has_host_tensors == 0 && queue.own_stream == nullptr) return FETTLE_OK;
  const int32_t status = queue.wait();
  return status == FETTLE_OK ? status : device_failed(context, status);
}

namespace {

int32_t launch_all(ModelContext& context) {
  return context.model->info->entry(&context, context.buffers, context.table);
}

/// What the launches of a call depend on.
void write_key(const ModelContext& context, void** key) {
  const int32_t n_sizes = context.model->info->n_sizes;
  const auto n_buffers = static_cast<size_t>(context.key_words - n_sizes);
  memcpy(key, context.buffers, n_buffers * sizeof(void*));
  if (n_sizes > 0) memcpy(key + n_buffers, context.table, static_cast<size_t>(n_sizes) * sizeof(int64_t));
}
bool is_key(const ModelContext& context, void* const* key) {
  const int32_t n_sizes = context.model->info->n_sizes;
  const auto n_buffers = static_cast<size_t>(context.key_words - n_sizes);
  return memcmp(key, context.buffers, n_buffers * sizeof(void*)) == 0 &&
         (n_sizes == 0 || memcmp(key + n_buffers, context.table, static_cast<size_t>(n_sizes) * sizeof(int64_t)) == 0);
}

/// Records what the call launches, in the place of the graph that was made first. FETTLE_OK without a graph: there can
/// be none.
int32_t record(ModelContext& context, CallGraph*& made) {
  FettleQueue& queue = *context.queue;
  const FettleDriver& driver = *queue.device->driver;
  void* const handle = queue.device->handle;
  void* const recorder = driver.begin_graph(handle, queue.why);
  if (recorder == nullptr) return FETTLE_OK;
  void* const stream = queue.stream;
  queue.stream = recorder;
  const int32_t status = launch_all(context);
  queue.stream = stream;
  void* const graph = driver.end_graph(handle, recorder, queue.why);
  if (graph != nullptr && status == FETTLE_OK) {
    made = &context.graphs[context.next_graph];
    context.next_graph = (context.next_graph + 1) % kMostGraphs;
    if (made->graph != nullptr) driver.drop_graph(handle, made->graph);
    made->graph = graph;
    write_key(context, made->key);
  } else if (graph != nullptr) {
    driver.drop_graph(handle, graph);
  }
  return status;
}

}  // namespace

void drop_graphs(ModelContext& context) {
  FettleQueue& queue = *context.queue;
  for (CallGraph& graph : context.graphs) {
    if (graph.graph != nullptr) queue.device->driver->drop_graph(queue.device->handle, graph.graph);
    graph.graph = nullptr;
  }
}

/// The first call of its kind launches kernels one by one: it loads code and takes memory. Where the host has read
/// nothing of the device's memory meanwhile, the next call that is given the same records a graph, which all later ones
/// run.
int32_t run_entry(ModelContext& context) {
  FettleQueue& queue = *context.queue;
  if (const int32_t status = queue.enter()) return device_failed(context, status);
  const FettleDriver& driver = *queue.device->driver;
  const bool may_be_graph = driver.begin_graph != nullptr && context.model->no_graphs == 0 &&
                            context.on_kernel == nullptr && context.tracer == nullptr;
  if (!may_be_graph) return launch_all(context);
  CallGraph* found = nullptr;
  for (CallGraph& graph : context.graphs)
    if (graph.graph != nullptr && is_key(context, graph.key)) found = &graph;
  const bool is_same = is_key(context, context.last_key);
  if (found == nullptr && is_same && context.last_call == LastCall::kRepeats) {
    if (const int32_t status = record(context, found)) return status;
    if (found == nullptr) context.last_call = LastCall::kCannotRepeat;
  }
  if (found != nullptr) {
    const int32_t status = driver.run_graph(queue.device->handle, found->graph, queue.stream, queue.why);
    if (status != FETTLE_OK) context.reason = queue.why.chars;
    return status;
  }
  const int64_t reads = queue.n_reads;
  const int32_t status = launch_all(context);
  if (!is_same || context.last_call == LastCall::kNone)
    context.last_call = status == FETTLE_OK && queue.n_reads == reads ? LastCall::kRepeats : LastCall::kCannotRepeat;
  write_key(context, context.last_key);
  return status;
}

}  // namespace fettle::rt
