// States: tensors that outlive calls.

#include "rt/model_context.h"
#include "rt/tensor.h"

namespace fettle::rt {

bool is_open(const ModelContext& context, int32_t state, int32_t axis) {
  const FettleModelInfo& info = *context.model->info;
  return nth(info.inputs, nth(info.states, state)->input)->shape[axis] < 0;
}

namespace {

/// A state's memory as the host sees it: what lies on a device is copied for as long as this lives.
class HostView {
 public:
  HostView(ModelContext& context, Block& block) : context_(context), block_(block) {}
  HostView(const HostView&) = delete;
  HostView& operator=(const HostView&) = delete;
  ~HostView() { copy_.release(); }

  int32_t open() {
    if (context_.queue == nullptr) return FETTLE_OK;
    if (!copy_.reserve(block_.bytes)) return refuse(context_, FETTLE_OUT_OF_MEMORY, Text{} << "memory ran out");
    const int32_t status = context_.queue->copy(CopyKind::kToHost, copy_.data, block_.data, block_.bytes);
    return status == FETTLE_OK ? status : device_failed(context_, status);
  }
  void* data() const { return context_.queue == nullptr ? block_.data : copy_.data; }
  /// What was written to `data` becomes what the state holds.
  int32_t put_back() {
    if (context_.queue == nullptr) return FETTLE_OK;
    int32_t status = context_.queue->copy(CopyKind::kToDevice, block_.data, copy_.data, block_.bytes);
    if (status == FETTLE_OK) status = context_.queue->wait();
    return status == FETTLE_OK ? status : device_failed(context_, status);
  }

 private:
  ModelContext& context_;
  Block& block_;
  Block copy_;
};

/// A tensor of the device's memory as the host sees it, as long as `copy` lives.
int32_t bring_to_host(ModelContext& context, FettleTensor& tensor, Block& copy) {
  if (!is_dense(tensor.shape, tensor.strides, tensor.rank))
    return refuse(context, FETTLE_INVALID_ARGUMENT,
                  Text{} << "a tensor on the device that becomes a state has strides: make it dense");
  const int64_t bytes = dense_bytes(tensor.dtype, tensor.shape, tensor.rank);
  if (!copy.reserve(bytes)) return refuse(context, FETTLE_OUT_OF_MEMORY, Text{} << "memory ran out");
  if (const int32_t status = context.queue->copy(CopyKind::kToHost, copy.data, tensor.data, bytes))
    return device_failed(context, status);
  tensor.data = copy.data;
  return FETTLE_OK;
}

}  // namespace

int32_t reset_state(ModelContext& context, int32_t state) {
  const FettleState& described = *nth(context.model->info->states, state);
  StateMemory& memory = context.states[state];
  if (described.length_axis >= 0)
    memory.shape[described.length_axis] = 0;
  else if (context.queue == nullptr)
    memset(memory.block.data, 0, static_cast<size_t>(memory.block.bytes));
  else if (const int32_t status = context.queue->clear(memory.block.data, memory.block.bytes))
    return device_failed(context, status);
  return FETTLE_OK;
}

int32_t load_state(ModelContext& context, int32_t state, const FettleTensor* given, const char* what,
                   const char* name) {
  const FettleState& described = *nth(context.model->info->states, state);
  StateMemory& memory = context.states[state];
  FettleTensor expected = *described.tensor, taken{};
  expected.name = name;
  if (const int32_t status = check_tensor(context, what, expected, given, taken)) return status;
  int64_t shape[kMaxRank];
  memcpy(shape, expected.shape, static_cast<size_t>(expected.rank) * sizeof(int64_t));
  expected.shape = shape;
  const int32_t axis = described.length_axis;
  for (int32_t d = 0; d < expected.rank; ++d)
    if ((d == axis || is_open(context, state, d)) && taken.shape[d] >= 0 && taken.shape[d] <= shape[d])
      shape[d] = taken.shape[d];
  if (const int32_t status = check_extents(context, what, expected, taken)) return status;
  const auto rank = static_cast<size_t>(taken.rank);
  bool is_part = taken.data == memory.block.data && axis >= 0;  // where it lies already, or a part of it
  for (int32_t d = 0; d < taken.rank; ++d) is_part = is_part && taken.shape[d] <= memory.shape[d];
  if (is_part) {
    memcpy(memory.shape, taken.shape, rank * sizeof(int64_t));
    return FETTLE_OK;
  }
  if (taken.data == nullptr && dense_bytes(taken.dtype, taken.shape, taken.rank) != 0)
    return refuse(context, FETTLE_INVALID_ARGUMENT,
                  Text{} << what << " '" << name << "' has no data: it is a null pointer");
  Block brought;
  int32_t status = FETTLE_OK;
  if (taken.data != nullptr && context.queue != nullptr && taken.device == context.model->device_kind())
    status = bring_to_host(context, taken, brought);
  HostView view(context, memory.block);
  if (status == FETTLE_OK) status = view.open();
  if (status == FETTLE_OK) {
    copy_elements(view.data(), memory.strides, taken.data, taken.strides, taken.shape, taken.rank, taken.dtype);
    status = view.put_back();
  }
  brought.release();
  if (status != FETTLE_OK) return status;
  memcpy(memory.shape, taken.shape, rank * sizeof(int64_t));
  return FETTLE_OK;
}

int32_t show_state(ModelContext& context, int32_t state, FettleTensor& tensor) {
  const FettleTensor& described = *nth(context.model->info->states, state)->tensor;
  StateMemory& memory = context.states[state];
  tensor.name = described.name;
  tensor.dtype = described.dtype;
  tensor.rank = described.rank;
  tensor.shape = memory.shape;
  const bool is_given = tensor.data != nullptr && tensor.capacity_bytes >= 0;
  if (!is_given) {
    tensor.device = context.queue == nullptr ? static_cast<int32_t>(FETTLE_CPU) : context.model->device_kind();
    tensor.device_index = context.queue == nullptr ? 0 : context.model->device_index;
    tensor.strides = memory.strides;
    tensor.data = memory.block.data;
    tensor.capacity_bytes = -1;
    return FETTLE_OK;
  }
  tensor.strides = nullptr;
  HostView view(context, memory.block);
  if (const int32_t status = view.open()) return status;
  if (context.queue == nullptr || tensor.device != context.model->device_kind()) {
    tensor.device = FETTLE_CPU;
    copy_elements(tensor.data, nullptr, view.data(), memory.strides, memory.shape, tensor.rank, tensor.dtype);
    return FETTLE_OK;
  }
  Block dense;
  const int64_t bytes = dense_bytes(tensor.dtype, memory.shape, tensor.rank);
  if (!dense.reserve(bytes)) return refuse(context, FETTLE_OUT_OF_MEMORY, Text{} << "memory ran out");
  copy_elements(dense.data, nullptr, view.data(), memory.strides, memory.shape, tensor.rank, tensor.dtype);
  int32_t status = context.queue->copy(CopyKind::kToDevice, tensor.data, dense.data, bytes);
  if (status == FETTLE_OK) status = context.queue->wait();
  dense.release();
  return status == FETTLE_OK ? status : device_failed(context, status);
}

}  // namespace fettle::rt
