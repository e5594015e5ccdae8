#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "rt/testing.h"

namespace fettle::rt {
namespace {

// A model with states: present is past with x appended, `seen` counts calls, and y is the sum of all rows.
const int64_t open_columns[] = {2, -1}, capacity_shape[] = {2, 4}, one_shape[] = {1};
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
  FettleModelInfo info = describe("rememberer", state_inputs, 3, state_outputs, 3, state_program);
  info.states = states;
  info.n_states = 2;
  info.n_sizes = 5;
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

}  // namespace
}  // namespace fettle::rt
