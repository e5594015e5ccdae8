// One call of a model: what is checked and made ready before compiled code runs, and what is told afterwards.

#include "rt/memory.h"
#include "rt/model_context.h"
#include "rt/sys.h"
#include "rt/tensor.h"

namespace fettle::rt {
namespace {

const char* status_text(int32_t status) {
  switch (status) {
    case FETTLE_INVALID_ARGUMENT:
      return "an argument is invalid";
    case FETTLE_OUT_OF_MEMORY:
      return "memory ran out";
    case FETTLE_UNSUPPORTED_CPU:
      return "the processor is not supported";
    case FETTLE_WRONG_SHAPE:
      return "a size does not fit";
    case FETTLE_DEVICE_FAILED:
      return "the device failed";
    default:
      return "compiled code failed";
  }
}

/// "input 'x'"
Text subject(const char* what, const char* name) {
  Text text;
  text << what << " '" << name << "'";
  return text;
}

}  // namespace

int32_t refuse(ModelContext& context, int32_t status, const Text& text) {
  context.error = text;
  return status;
}

int32_t check_tensor(ModelContext& context, const char* what, const FettleTensor& expected, const FettleTensor* given,
                     FettleTensor& taken) {
  if (!take_struct(given, taken)) {
    return refuse(context, FETTLE_INVALID_ARGUMENT,
                  subject(what, expected.name)
                      << " has struct_bytes " << int64_t{given->struct_bytes}
                      << "; set it to sizeof(FettleTensor), and what this version does not know to zero");
  }
  const int32_t own = context.model->device_kind();
  if (taken.device != 0 && taken.device != FETTLE_CPU && taken.device != FETTLE_CUDA_HOST && taken.device != own) {
    Text text = subject(what, expected.name);
    text << " lies on a device of kind " << taken.device << "; this model reads the memory of the CPU (kind 1)";
    if (own != 0) text << " and of devices of kind " << own;
    return refuse(context, FETTLE_INVALID_ARGUMENT, text << ": copy it there");
  }
  if (own != 0 && taken.device == own && taken.device_index != context.model->device_index)
    return refuse(context, FETTLE_INVALID_ARGUMENT,
                  subject(what, expected.name) << " lies on device number " << taken.device_index
                                               << ", and the model runs on number " << context.model->device_index);
  if (taken.dtype == expected.dtype && taken.rank == expected.rank && (taken.rank == 0 || taken.shape != nullptr))
    return FETTLE_OK;
  const int32_t status =
      taken.dtype == expected.dtype && taken.rank != expected.rank ? FETTLE_WRONG_SHAPE : FETTLE_INVALID_ARGUMENT;
  Text text = subject(what, expected.name);
  text << " is " << taken << ", expected " << expected;
  if (status == FETTLE_INVALID_ARGUMENT && taken.dtype == expected.dtype) text << ": its shape is a null pointer";
  return refuse(context, status, text);
}

int32_t check_extents(ModelContext& context, const char* what, const FettleTensor& expected,
                      const FettleTensor& given) {
  for (int32_t d = 0; d < expected.rank; ++d) {
    const int64_t extent = given.shape[d], wanted = expected.shape[d];
    if (extent >= 0 && (wanted < 0 || extent == wanted)) continue;
    Text text = subject(what, expected.name);
    text << " is " << given << ", expected " << expected << ": axis " << d << " is " << extent << ", ";
    return refuse(context, FETTLE_WRONG_SHAPE, wanted < 0 ? text << "and must be given" : text << "not " << wanted);
  }
  return FETTLE_OK;
}

bool is_ours(const ModelContext& context, const void* data) {
  const FettleModelInfo& info = *context.model->info;
  for (int32_t i = 0; i < info.n_outputs; ++i)
    if (context.owned[i].holds(data) || (context.made != nullptr && context.made[i].holds(data))) return true;
  for (int32_t s = 0; s < info.n_states; ++s)
    if (context.states[s].block.holds(data)) return true;
  return false;
}

namespace {

int32_t no_memory_for_strings(ModelContext& context, const char* what, const FettleTensor& tensor) {
  return refuse(context, FETTLE_OUT_OF_MEMORY, subject(what, tensor.name) << ": there is no memory for its strings");
}

}  // namespace

int32_t number_strings(ModelContext& context, const FettleTensor& expected, const FettleTensor& given, void* data) {
  const int64_t count = dense_bytes(FETTLE_I64, given.shape, given.rank) / static_cast<int64_t>(sizeof(int64_t));
  for (int64_t i = 0; i < count; ++i) {
    FettleString string;
    memcpy(&string, static_cast<const char*>(data) + i * static_cast<int64_t>(sizeof string), sizeof string);
    if (string.bytes < 0 || (string.data == nullptr && string.bytes > 0))
      return refuse(context, FETTLE_INVALID_ARGUMENT,
                    subject("input", expected.name)
                        << ": string " << i << " has " << string.bytes << " bytes"
                        << (string.data == nullptr ? ", and its data are a null pointer" : ""));
    const int64_t number = context.strings->number_of(string);
    if (number < 0) return no_memory_for_strings(context, "input", expected);
    memcpy(static_cast<char*>(data) + i * static_cast<int64_t>(sizeof number), &number, sizeof number);
  }
  return FETTLE_OK;
}

namespace {

/// The other way round, in the place of the numbers.
int32_t show_strings(ModelContext& context, const FettleTensor& output) {
  const int64_t count = dense_bytes(FETTLE_I64, output.shape, output.rank) / static_cast<int64_t>(sizeof(int64_t));
  for (int64_t i = count; i-- > 0;) {
    int64_t number = 0;
    memcpy(&number, static_cast<const char*>(output.data) + i * static_cast<int64_t>(sizeof number), sizeof number);
    const FettleString string = context.strings->at(number);
    if (string.bytes < 0)
      return refuse(context, FETTLE_KERNEL_FAILED,
                    subject("output", output.name) << ": element " << i << " is no string that there is");
    memcpy(static_cast<char*>(output.data) + i * static_cast<int64_t>(sizeof string), &string, sizeof string);
  }
  return FETTLE_OK;
}

/// Where the elements of input i lie, densely; *at is what `entry` is given.
int32_t place_input(ModelContext& context, int32_t i, const FettleTensor& expected, const FettleTensor& given,
                    void** at) {
  const int64_t bytes = dense_bytes(given.dtype, given.shape, given.rank);
  if (given.data == nullptr && bytes != 0)
    return refuse(context, FETTLE_INVALID_ARGUMENT,
                  subject("input", expected.name) << " has no data: it is a null pointer");
  if (context.queue != nullptr) return place_input_on_device(context, i, expected, given, at);
  *at = bytes == 0 ? &context : given.data;
  const bool is_string = given.dtype == FETTLE_STRING;
  if (bytes == 0 || (is_dense(given.shape, given.strides, given.rank) && !is_ours(context, given.data) && !is_string))
    return FETTLE_OK;
  Block& staged = context.staged[i];
  if (given.rank > kMaxRank)
    return refuse(context, FETTLE_INVALID_ARGUMENT,
                  subject("input", expected.name) << " has too many axes to be copied");
  if (!staged.reserve(bytes)) {
    return refuse(context, FETTLE_OUT_OF_MEMORY,
                  subject("input", expected.name)
                      << " needs a dense copy, for which there is no memory: " << bytes << " bytes");
  }
  copy_elements(staged.data, nullptr, given.data, given.strides, given.shape, given.rank, given.dtype);
  *at = staged.data;
  return is_string ? number_strings(context, expected, given, staged.data) : FETTLE_OK;
}

int32_t take_inputs(ModelContext& context, const FettleTensor* inputs, bool shapes_only) {
  const FettleModelInfo& info = *context.model->info;
  if (inputs == nullptr && info.n_inputs > 0)
    return refuse(context, FETTLE_INVALID_ARGUMENT, Text{} << "the array of inputs is a null pointer");
  int64_t* extents = context.given;
  for (int32_t i = 0; i < info.n_inputs; extents += nth(info.inputs, i)->rank, ++i) {
    const FettleTensor &expected = *nth(info.inputs, i), *given = nth(inputs, i);
    const int32_t state = context.input_state[i];
    FettleTensor taken{};
    if (!take_struct(given, taken)) return check_tensor(context, "input", expected, given, taken);
    if (state >= 0) {
      if (given->data != nullptr && !shapes_only)
        if (const int32_t status = load_state(context, state, given, "input", expected.name)) return status;
      taken.shape = context.states[state].shape;
    }
    if (state < 0 || (given->data != nullptr && shapes_only)) {
      if (const int32_t status = check_tensor(context, "input", expected, given, taken)) return status;
      if (const int32_t status = check_extents(context, "input", expected, taken)) return status;
      if (!shapes_only)
        if (const int32_t status = place_input(context, i, expected, taken, &context.buffers[i])) return status;
    }
    memcpy(extents, taken.shape, static_cast<size_t>(expected.rank) * sizeof(int64_t));
    // An empty state takes what else is open of it from the call.
    const int32_t axis = state < 0 ? -1 : nth(info.states, state)->length_axis;
    if (axis >= 0 && taken.shape[axis] == 0)
      for (int32_t d = 0; d < expected.rank; ++d)
        if (d != axis && is_open(context, state, d)) extents[d] = -1;
  }
  return FETTLE_OK;
}

int32_t sizes_not_computed(ModelContext& context, int32_t status) {
  return refuse(
      context, status,
      Text{} << "the sizes of '" << context.model->info->name << "' cannot be computed: " << status_text(status));
}
int32_t rule_broken(ModelContext& context, int64_t rule) {
  const FettleModelInfo& info = *context.model->info;
  return refuse(context, FETTLE_WRONG_SHAPE,
                Text{} << (rule < info.n_size_errors ? info.size_errors[rule] : "a size does not fit"));
}
int32_t no_arena(ModelContext& context, int64_t bytes) {
  return refuse(
      context, FETTLE_OUT_OF_MEMORY,
      Text{} << "memory ran out; the arena of '" << context.model->info->name << "' takes " << bytes << " bytes");
}

/// Fills the table of sizes, where extents are others than those of the call before.
int32_t compute_sizes(ModelContext& context) {
  const FettleModelInfo& info = *context.model->info;
  if (context.table == nullptr) return FETTLE_OK;
  const auto input_bytes = static_cast<size_t>(context.input_bytes);
  if (context.sized && memcmp(context.given, context.input_extents, input_bytes) == 0) return FETTLE_OK;
  context.sized = false;
  void* buffers[] = {context.table};
  const int32_t status = info.resize(&context, buffers, context.given);
  if (status != FETTLE_OK) return sizes_not_computed(context, status);
  if (const int64_t wrong = -1 - context.table[0]; wrong >= 0) return rule_broken(context, wrong);
  memcpy(context.input_extents, context.given, input_bytes);
  memcpy(context.bounds, context.output_extents, static_cast<size_t>(context.output_bytes));
  context.sized = true;
  return FETTLE_OK;
}

/// Room for output i on the device, from where it is copied to `taken_to` when it is made; null: it is not.
int32_t make_on_device(ModelContext& context, int32_t i, int64_t bytes, void* taken_to) {
  const FettleModelInfo& info = *context.model->info;
  if (context.output_state[i] >= 0) {  // made where the state lies
    context.taken_to[i] = nullptr;
    context.has_host_tensors |= taken_to != nullptr ? 1 : 0;
    return FETTLE_OK;
  }
  if (!context.made[i].reserve(bytes))
    return refuse(context, FETTLE_OUT_OF_MEMORY,
                  subject("output", nth(info.outputs, i)->name)
                      << " takes " << bytes << " bytes of the device's memory, which cannot be had");
  context.buffers[info.n_inputs + i] = context.made[i].data;
  context.taken_to[i] = taken_to;
  context.has_host_tensors |= taken_to != nullptr ? 1 : 0;
  return FETTLE_OK;
}

/// Room for output i, `bytes` of them.
int32_t place_output(ModelContext& context, int32_t i, const FettleTensor& expected, FettleTensor* output) {
  const FettleModelInfo& info = *context.model->info;
  FettleTensor taken{};
  if (!take_struct(output, taken) || (taken.data != nullptr && taken.capacity_bytes >= 0)) {
    if (const int32_t status = check_tensor(context, "output", expected, output, taken)) return status;
  }
  const bool is_given = taken.data != nullptr && taken.capacity_bytes >= 0;
  // Where kernels run on a device, an output is made there, and copied here where the caller wants it here.
  const bool is_made_elsewhere = context.queue != nullptr && taken.device != context.model->device_kind();
  if (context.queue != nullptr) context.taken_to[i] = nullptr;
  if (is_given && !is_dense(taken.shape, taken.strides, taken.rank))
    return refuse(context, FETTLE_INVALID_ARGUMENT,
                  subject("output", expected.name) << " has strides; outputs are written densely");
  FettleTensor bound{};
  describe_output(context, i, bound);
  const int64_t bytes = dense_bytes(bound.dtype, bound.shape, bound.rank);
  if (is_given) {
    // A shape that a call before put in says nothing of what the caller has room for.
    const int32_t state = context.output_state[i];
    const bool is_told = taken.shape == bound.shape || (state >= 0 && taken.shape == context.states[state].shape);
    int64_t room = taken.capacity_bytes;
    if (room == 0 && !is_told) room = dense_bytes(taken.dtype, taken.shape, taken.rank);
    if (bytes < 0 || room < bytes) {
      Text text = subject("output", expected.name);
      text << " takes " << bytes << " bytes, as " << bound;
      return refuse(context, FETTLE_WRONG_SHAPE,
                    room < 0 ? text << ", and has neither capacity_bytes nor a shape without open extents"
                             : text << ", and has room for " << room);
    }
    output->capacity_bytes = room;
    if (context.output_state[i] < 0) context.buffers[info.n_inputs + i] = output->data;
    return is_made_elsewhere ? make_on_device(context, i, bytes, output->data) : FETTLE_OK;
  }
  if (context.output_state[i] >= 0) return FETTLE_OK;  // shown where it lies
  if (context.queue != nullptr && !is_made_elsewhere) {
    if (const int32_t status = make_on_device(context, i, bytes, nullptr)) return status;
    output->data = context.made[i].data;
    output->capacity_bytes = -1;
    return FETTLE_OK;
  }
  if (context.allocate != nullptr && bytes >= 0) {
    output->data = context.allocate(context.allocate_user, i, bytes);
    output->capacity_bytes = bytes;
  } else {
    output->data = context.owned[i].reserve(bytes) ? context.owned[i].data : nullptr;
    output->capacity_bytes = -1;
  }
  if (output->data == nullptr)
    return refuse(context, FETTLE_OUT_OF_MEMORY,
                  subject("output", expected.name) << " takes " << bytes << " bytes, which cannot be had");
  context.buffers[info.n_inputs + i] = output->data;
  return is_made_elsewhere ? make_on_device(context, i, bytes, output->data) : FETTLE_OK;
}

/// Room for the outputs whose sizes are known from this stage on.
int32_t place_outputs(ModelContext& context, int32_t stage) {
  const FettleModelInfo& info = *context.model->info;
  for (int32_t i = 0; i < info.n_outputs; ++i) {
    if ((info.n_stages == 0 ? 0 : info.output_stages[i]) != stage) continue;
    if (const int32_t status = place_output(context, i, *nth(info.outputs, i), nth(context.outputs, i))) return status;
  }
  return FETTLE_OK;
}

/// Whether what states will hold after the call has room.
int32_t check_states(ModelContext& context) {
  const FettleModelInfo& info = *context.model->info;
  for (int32_t s = 0; s < info.n_states; ++s) {
    const FettleState& state = *nth(info.states, s);
    if (state.length_axis < 0) continue;
    FettleTensor after{};
    describe_output(context, state.output, after);
    for (int32_t d = 0; d < after.rank; ++d) {
      const int64_t length = after.shape[d], most = state.tensor->shape[d];
      if (length <= most) continue;
      return refuse(context, FETTLE_WRONG_SHAPE,
                    subject("state", state.tensor->name)
                        << " holds at most " << most << " along axis " << d << ", and the call makes it " << length
                        << ": set it anew with less, or reset it");
    }
  }
  return FETTLE_OK;
}

/// Tells the tracer what the context holds.
void tell_memory(const ModelContext& context) {
  const FettleTracer* tracer = context.tracer;
  if (tracer == nullptr || tracer->on_memory == nullptr) return;
  const FettleModelInfo& info = *context.model->info;
  int64_t bytes = context.block_bytes + context.arena.bytes;
  for (int32_t i = 0; context.queue != nullptr && i < info.n_inputs; ++i) bytes += context.dense[i].bytes;
  for (int32_t i = 0; context.queue != nullptr && i < info.n_outputs; ++i) bytes += context.made[i].bytes;
  for (int32_t i = 0; i < info.n_inputs; ++i) bytes += context.staged[i].bytes;
  for (int32_t i = 0; i < info.n_outputs; ++i) bytes += context.owned[i].bytes;
  for (int32_t k = 0; k < info.n_stages; ++k) bytes += context.stage_arenas[k].bytes;
  for (int32_t s = 0; s < info.n_states; ++s) bytes += context.states[s].block.bytes;
  tracer->on_memory(tracer->user, bytes, now_ns());
}

}  // namespace

void describe_output(const ModelContext& context, int32_t i, FettleTensor& output) {
  const FettleModelInfo& info = *context.model->info;
  const FettleTensor& described = *nth(info.outputs, i);
  output.name = described.name;
  output.dtype = described.dtype;
  output.rank = described.rank;
  output.shape = context.output_extents + context.output_at[i];
  output.strides = nullptr;
  if (context.queue == nullptr || output.device != context.model->device_kind()) output.device = FETTLE_CPU;
}

int32_t prepare(ModelContext& context, const FettleTensor* inputs, FettleTensor* outputs) {
  const FettleModelInfo& info = *context.model->info;
  if (context.queue != nullptr) {
    context.has_host_tensors = 0;
    if (const int32_t status = context.queue->enter()) return device_failed(context, status);
  }
  if (outputs != nullptr) {
    context.strings = context.strings == context.call_strings ? context.call_strings + 1 : context.call_strings;
    context.strings->clear(&context.model->strings);
  }
  if (const int32_t status = take_inputs(context, inputs, outputs == nullptr)) return status;
  if (const int32_t status = compute_sizes(context)) return status;
  // The call before may have written what its outputs came to.
  memmove(context.output_extents, context.bounds, static_cast<size_t>(context.output_bytes));
  if (const int32_t status = check_states(context)) return status;
  if (outputs == nullptr) return FETTLE_OK;
  const int64_t arena_bytes = context.table == nullptr ? info.arena_bytes : context.table[0];
  if (!context.arena.reserve(arena_bytes, context.model->huge_pages)) return no_arena(context, arena_bytes);
  context.buffers[info.n_inputs + info.n_outputs + info.n_states] = context.arena.data;
  context.outputs = outputs;
  if (const int32_t status = place_outputs(context, 0)) return status;
  tell_memory(context);
  return FETTLE_OK;
}

int32_t execute(ModelContext& context) {
  const FettleModelInfo& info = *context.model->info;
  context.failed_kernel = 0;
  context.reason = nullptr;
  int32_t status;
  {
    const FloatScope scope(context.model->float_mode);
    status = context.queue != nullptr ? run_entry(context) : info.entry(&context, context.buffers, context.table);
  }
  if (status == FETTLE_OK) return status;
  if (context.failed_kernel < 0) return status;  // the sentence is there
  Text text{};
  text << "running '" << info.name;
  if (status == FETTLE_CANCELLED) return refuse(context, status, text << "' was cancelled");
  text << "' failed: " << status_text(status);
  if (const int32_t kernel = context.failed_kernel - 1; kernel >= 0 && kernel < info.n_kernels) {
    text << " in kernel " << kernel << " '" << info.kernel_names[kernel] << "'";
    if (info.kernel_origins[kernel][0] != 0) text << ", from " << Lines{info.kernel_origins[kernel]};
  }
  if (context.reason != nullptr) text << ": " << context.reason;
  return refuse(context, status, text);
}

int32_t finish(ModelContext& context, FettleTensor* outputs) {
  const FettleModelInfo& info = *context.model->info;
  if (context.queue != nullptr)
    if (const int32_t status = take_from_device(context)) return status;
  for (int32_t i = 0; i < info.n_outputs; ++i) {
    FettleTensor& output = *nth(outputs, i);
    const int32_t state = context.output_state[i];
    describe_output(context, i, output);
    if (output.dtype == FETTLE_STRING && output.device == FETTLE_CPU)
      if (const int32_t status = show_strings(context, output)) return status;
    if (state < 0) continue;
    memcpy(context.states[state].shape, output.shape, static_cast<size_t>(output.rank) * sizeof(int64_t));
    if (const int32_t status = show_state(context, state, output)) return status;
  }
  return FETTLE_OK;
}

int32_t reach_stage(ModelContext& context, int32_t stage, int64_t* table, const int64_t* ints) {
  const FettleModelInfo& info = *context.model->info;
  const FettleStage& reached = info.stages[stage - 1];
  void* buffers[] = {table};
  const int32_t status = reached.resize(&context, buffers, ints);
  if (status != FETTLE_OK) return sizes_not_computed(context, status);
  const int64_t bytes = table[reached.arena_bytes_at];
  if (bytes < 0) return rule_broken(context, -1 - bytes);
  Block& arena = context.stage_arenas[stage - 1];
  if (!arena.grow(bytes, reached.keeps != 0, context.model->huge_pages)) return no_arena(context, bytes);
  context.stage_addresses[stage - 1] = arena.data;
  if (const int32_t placed = place_outputs(context, stage)) return placed;
  tell_memory(context);
  return check_states(context);
}

}  // namespace fettle::rt

extern "C" int32_t fettle_reach_stage(FettleContext* given, int32_t stage, int64_t* table, const int64_t* ints) {
  fettle::rt::ModelContext& context = *fettle::rt::of(given);
  if (__atomic_load_n(&context.cancelled, __ATOMIC_RELAXED) != 0) return FETTLE_CANCELLED;
  if (context.failed_kernel != 0) return FETTLE_KERNEL_FAILED;
  const int32_t status = fettle::rt::reach_stage(context, stage, table, ints);
  if (status != FETTLE_OK) context.failed_kernel = -1;
  return status;
}
