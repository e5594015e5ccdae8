#include <fmt/format.h>

#include "base/check.h"
#include "cuda/schedules.h"
#include "cuda/steps.h"
#include "ir/text.h"

namespace fettle::bench {
namespace {

Func parsed(const std::string& text) {
  const auto made = parse_func(text);
  FETTLE_CHECK_MSG(made.has_value(), made ? "" : made.error().to_string());
  return *made;
}

}  // namespace

Func softmax_program(int64_t rows, int64_t columns) {
  return parsed(fmt::format(R"(func softmax(X: f32[{0}, {1}], Y: f32[{0}, {1}] output):
  alloc M: f32[{0}]
  alloc E: f32[{0}, {1}]
  alloc S: f32[{0}]
  for i in {0}:
    for k in {1}:
      block M(vi: spatial[{0}] = i, vk: reduce[{1}] = k):
        reads X[vi, vk]
        writes M[vi]
        init:
          M[vi] = -inf
        M[vi] = max(M[vi], X[vi, vk])
  for i in {0}:
    for j in {1}:
      block E(vi: spatial[{0}] = i, vj: spatial[{1}] = j):
        reads X[vi, vj], M[vi]
        writes E[vi, vj]
        E[vi, vj] = exp(X[vi, vj] - M[vi])
  for i in {0}:
    for k in {1}:
      block S(vi: spatial[{0}] = i, vk: reduce[{1}] = k):
        reads E[vi, vk]
        writes S[vi]
        init:
          S[vi] = 0.0
        S[vi] = S[vi] + E[vi, vk]
  for i in {0}:
    for j in {1}:
      block Y(vi: spatial[{0}] = i, vj: spatial[{1}] = j):
        reads E[vi, vj], S[vi]
        writes Y[vi, vj]
        Y[vi, vj] = E[vi, vj] / S[vi]
)",
                            rows, columns));
}

Func layer_norm_program(int64_t rows, int64_t columns) {
  return parsed(fmt::format(R"(func layer_norm(X: f32[{0}, {1}], Y: f32[{0}, {1}] output):
  alloc M: f32[{0}]
  alloc E: f32[{0}, {1}]
  alloc S: f32[{0}]
  for i in {0}:
    for k in {1}:
      block M(vi: spatial[{0}] = i, vk: reduce[{1}] = k):
        reads X[vi, vk]
        writes M[vi]
        init:
          M[vi] = 0.0
        M[vi] = M[vi] + X[vi, vk]
  for i in {0}:
    for j in {1}:
      block E(vi: spatial[{0}] = i, vj: spatial[{1}] = j):
        reads X[vi, vj], M[vi]
        writes E[vi, vj]
        E[vi, vj] = X[vi, vj] - M[vi] * {2:.17g}
  for i in {0}:
    for k in {1}:
      block S(vi: spatial[{0}] = i, vk: reduce[{1}] = k):
        reads E[vi, vk]
        writes S[vi]
        init:
          S[vi] = 0.0
        S[vi] = S[vi] + E[vi, vk] * E[vi, vk]
  for i in {0}:
    for j in {1}:
      block Y(vi: spatial[{0}] = i, vj: spatial[{1}] = j):
        reads E[vi, vj], S[vi]
        writes Y[vi, vj]
        Y[vi, vj] = E[vi, vj] / sqrt(S[vi] * {2:.17g} + 0.00001)
)",
                            rows, columns, 1.0 / static_cast<double>(columns)));
}

Result<> schedule_rows(Schedule& s, int64_t threads) {
  FETTLE_TRY(const BlockRef y, get_block(s, {.name = "Y"}));
  FETTLE_TRY(const BlockRef e, get_block(s, {.name = "E"}));
  // A row of X in the registers of the block's threads; all that follows is there, too.
  FETTLE_TRY(const BlockRef m, get_block(s, {.name = "M"}));
  FETTLE_TRY(const BlockRef sum, get_block(s, {.name = "S"}));
  FETTLE_TRY(const BlockRef x, cache_read(s, {.block = m, .read_index = 0, .scope = "local", .consumer_blocks = {e}}));
  FETTLE_TRY(const BlockRef back, cache_write(s, {.block = y, .scope = "local"}));
  FETTLE_TRY_VOID(set_scope(s, {.block = e, .index = 0, .scope = "local"}));
  FETTLE_TRY(const Loops rows, get_loops(s, {.block = back}));
  FETTLE_TRY_VOID(bind(s, {.loop = rows[0], .thread_axis = "blockIdx.x"}));
  for (const BlockRef block : {m, sum}) FETTLE_TRY_VOID(set_scope(s, {.block = block, .index = 0, .scope = "local"}));
  const auto by_threads = [&](BlockRef block) -> Result<Loops> {
    FETTLE_TRY(const Loops own, get_loops(s, {.block = block}));
    return split(s, {.loop = own.back(), .factors = {kInfer, threads, 4}});  // turns, threads, lanes
  };
  // Each thread reduces what it has, 16 of them 16 parts each (of 256 threads), and then every thread those 16.
  const int64_t groups = 16;
  Blocks parts_of_m, parts_of_sum;
  for (const BlockRef block : {m, sum}) {
    FETTLE_TRY(const Loops parts, by_threads(block));
    FETTLE_TRY(const BlockRef of_thread, rfactor(s, {.block = block, .loop = parts[1], .factor_axis = 0}));
    FETTLE_TRY(const Loops own, get_loops(s, {.block = block}));
    FETTLE_TRY(const Loops halves, split(s, {.loop = own.back(), .factors = {groups, kInfer}}));
    FETTLE_TRY(const BlockRef of_group, rfactor(s, {.block = block, .loop = halves[0], .factor_axis = 0}));
    (block == m ? parts_of_m : parts_of_sum) = {of_thread, of_group};
  }
  for (const BlockRef block : {y, sum, parts_of_sum[1], parts_of_sum[0], e, m, parts_of_m[1], parts_of_m[0], x})
    FETTLE_TRY_VOID(compute_at(s, {.block = block, .loop = rows[0]}));
  for (const BlockRef block : {x, e, y, back}) {
    FETTLE_TRY(const Loops parts, by_threads(block));
    FETTLE_TRY_VOID(reorder(s, {.loops = {parts[1], parts[0], parts[2]}}));
    FETTLE_TRY_VOID(bind(s, {.loop = parts[1], .thread_axis = "threadIdx.x"}));
    FETTLE_TRY_VOID(unroll(s, {.loop = parts[0]}));
    if (block == x || block == back) {
      FETTLE_TRY_VOID(vectorize(s, {.loop = parts[2]}));
    } else {
      FETTLE_TRY_VOID(unroll(s, {.loop = parts[2]}));
    }
  }
  for (const Blocks& parts : {parts_of_m, parts_of_sum})
    for (const BlockRef block : parts) {
      FETTLE_TRY(const Loops own, get_loops(s, {.block = block}));
      const size_t first = own.size() - (block == parts[0] ? 3 : 2);
      FETTLE_TRY_VOID(bind(s, {.loop = own[first], .thread_axis = "threadIdx.x"}));
      for (size_t d = first + 1; d < own.size(); ++d) FETTLE_TRY_VOID(unroll(s, {.loop = own[d]}));
    }
  return {};
}

}  // namespace fettle::bench
