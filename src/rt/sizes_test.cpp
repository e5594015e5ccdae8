// Sizes that each call decides.

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "rt/testing.h"

namespace fettle::rt {
namespace {

// A model of open sizes: y = a + b by way of the arena, and those of its elements that are positive.
int resizes = 0;

int32_t open_resize(FettleContext*, void** buffers, const int64_t* ints) {
  ++resizes;
  auto* table = static_cast<int64_t*>(buffers[0]);
  if (ints[0] != ints[2]) {
    table[0] = -1;
    return FETTLE_OK;
  }
  if (ints[0] > 1000000) {
    table[0] = -2;
    return FETTLE_OK;
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
  FettleModelInfo info = describe("open", open_inputs, 2, open_outputs, 2, open_program);
  info.n_sizes = 5;
  info.size_errors = open_errors;
  info.n_size_errors = 2;
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

}  // namespace
}  // namespace fettle::rt
