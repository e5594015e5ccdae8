// States: tensors that outlive calls.

#include "rt/model_context.h"
#include "rt/tensor.h"

namespace fettle::rt {

bool is_open(const ModelContext& context, int32_t state, int32_t axis) {
  const FettleModelInfo& info = *context.model->info;
  return nth(info.inputs, nth(info.states, state)->input)->shape[axis] < 0;
}

void reset_state(ModelContext& context, int32_t state) {
  const FettleState& described = *nth(context.model->info->states, state);
  StateMemory& memory = context.states[state];
  if (described.length_axis >= 0)
    memory.shape[described.length_axis] = 0;
  else
    memset(memory.block.data, 0, static_cast<size_t>(memory.block.bytes));
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
  copy_elements(memory.block.data, memory.strides, taken.data, taken.strides, taken.shape, taken.rank, taken.dtype);
  memcpy(memory.shape, taken.shape, rank * sizeof(int64_t));
  return FETTLE_OK;
}

void show_state(const ModelContext& context, int32_t state, FettleTensor& tensor) {
  const FettleTensor& described = *nth(context.model->info->states, state)->tensor;
  const StateMemory& memory = context.states[state];
  tensor.name = described.name;
  tensor.dtype = described.dtype;
  tensor.rank = described.rank;
  tensor.device = FETTLE_CPU;
  tensor.shape = memory.shape;
  const bool is_given = tensor.data != nullptr && tensor.capacity_bytes >= 0;
  if (is_given) {
    tensor.strides = nullptr;
    copy_elements(tensor.data, nullptr, memory.block.data, memory.strides, memory.shape, tensor.rank, tensor.dtype);
  } else {
    tensor.strides = memory.strides;
    tensor.data = memory.block.data;
    tensor.capacity_bytes = -1;
  }
}

}  // namespace fettle::rt
