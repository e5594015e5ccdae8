#include <fmt/format.h>

#include "base/check.h"
#include "cuda/schedules.h"
#include "cuda/steps.h"
#include "ir/text.h"

namespace fettle::bench {

Func stencil_program(int64_t rows, int64_t columns) {
  const auto made = parse_loops(fmt::format(
      "A: f32[{}, {}]\nfor i in {}: for j in {}: B[i, j] = (A[i, j + 4] + A[i + 1, j + 3] + A[i + 1, j + 4] + "
      "A[i + 1, j + 5] + A[i + 2, j + 4]) * 0.25",
      rows + 2, columns + 8, rows, columns));
  FETTLE_CHECK_MSG(made.has_value(), made ? "" : made.error().to_string());
  return *made;
}

Result<> schedule_stencil(Schedule& s, int64_t rows) {
  FETTLE_TRY(const BlockRef b, get_block(s, {.name = "B"}));
  FETTLE_TRY(const BlockRef back, cache_write(s, {.block = b, .scope = "local"}));
  FETTLE_TRY(const Loops l, get_loops(s, {.block = back}));
  FETTLE_TRY(const Loops i, split(s, {.loop = l[0], .factors = {kInfer, rows}}));
  FETTLE_TRY(const Loops j, split(s, {.loop = l[1], .factors = {kInfer, 128, 4}}));
  FETTLE_TRY_VOID(reorder(s, {.loops = {i[0], j[0], j[1], i[1], j[2]}}));
  FETTLE_TRY_VOID(bind(s, {.loop = i[0], .thread_axis = "blockIdx.y"}));
  FETTLE_TRY_VOID(bind(s, {.loop = j[0], .thread_axis = "blockIdx.x"}));
  FETTLE_TRY_VOID(bind(s, {.loop = j[1], .thread_axis = "threadIdx.x"}));
  FETTLE_TRY_VOID(unroll(s, {.loop = i[1]}));
  FETTLE_TRY_VOID(vectorize(s, {.loop = j[2]}));
  FETTLE_TRY_VOID(compute_at(s, {.block = b, .loop = i[1]}));
  FETTLE_TRY(const Loops points, get_loops(s, {.block = b}));
  FETTLE_TRY_VOID(unroll(s, {.loop = points.back()}));
  // What the thread's rows read: three vectors of 4 for each row.
  FETTLE_TRY(const BlockRef a, cache_read(s, {.block = b, .read_index = 0, .scope = "local"}));
  FETTLE_TRY_VOID(transform_layout(s, {.block = a, .index_map = index_map("(i, j) -> (i, j // 4, j % 4)")}));
  FETTLE_TRY_VOID(compute_at(s, {.block = a, .loop = j[1]}));
  FETTLE_TRY(const Loops own, get_loops(s, {.block = a}));
  for (size_t d = 3; d + 1 < own.size(); ++d) FETTLE_TRY_VOID(unroll(s, {.loop = own[d]}));
  FETTLE_TRY_VOID(vectorize(s, {.loop = own.back()}));
  return {};
}

}  // namespace fettle::bench
