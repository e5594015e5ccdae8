#include "tour_example.h"

#include "base/check.h"
#include "schedule/primitives/cache_read.h"
#include "schedule/primitives/cache_write.h"
#include "schedule/primitives/decompose_reduction.h"
#include "schedule/primitives/get_block.h"
#include "schedule/primitives/get_loops.h"
#include "schedule/primitives/parallel.h"
#include "schedule/primitives/reorder.h"
#include "schedule/primitives/reverse_compute_at.h"
#include "schedule/primitives/split.h"
#include "schedule/primitives/transform_layout.h"
#include "schedule/primitives/unroll.h"
#include "schedule/primitives/vectorize.h"
#include "te/create_func.h"
#include "te/tensor.h"

namespace fettle::docs {
namespace {

using Loops = std::vector<LoopRef>;

IndexMap index_map(const std::string& text) {
  IndexMap map;
  FETTLE_CHECK_MSG(from_arg(ArgValue{text}, map), text);
  return map;
}

}  // namespace

Func tour_program() { return tour_program(197, 768, 768); }

Func tour_program(int64_t m, int64_t n, int64_t k_extent) {
  // [te]
  te::Tensor a = te::placeholder({m, k_extent}, kF32, "A");
  te::Tensor b = te::placeholder({k_extent, n}, kF32, "B");
  te::ReduceAxis k = te::reduce_axis(k_extent, "k");
  te::Tensor c = te::compute({m, n}, [&](const std::vector<Var>& i) { return te::sum(a(i[0], k) * b(k, i[1]), {k}); },
                             "C", {"i", "j"});
  return te::create_func("matmul", {a, b}, {c}, {.input_kinds = {ParamKind::kInput, ParamKind::kConstant}});
  // [end]
}

Result<> tour_schedule(Schedule& s, int64_t rows) {
  // [schedule]
  FETTLE_TRY(BlockRef c, get_block(s, {.name = "C"}));
  // B in panels of 32 columns. B is constant, so this happens when the program is compiled.
  FETTLE_TRY(BlockRef panels, cache_read(s, {.block = c, .read_index = 1}));
  FETTLE_TRY_VOID(transform_layout(s, {.block = panels,
                                       .buffer_index = 0,
                                       .buffer_index_type = "write",
                                       .index_map = index_map("(k, n) -> (n // 32, k, n % 32)")}));
  // The sums live in registers; `back` copies them to C.
  FETTLE_TRY(BlockRef back, cache_write(s, {.block = c, .write_index = 0, .scope = kScopeRegister}));
  // A register tile of `rows` rows and 2 vectors of 16 lanes.
  FETTLE_TRY(Loops loops, get_loops(s, {.block = c}));
  FETTLE_TRY(Loops i, split(s, {.loop = loops[0], .factors = {kInfer, rows}, .tail = Tail::kBalance}));
  FETTLE_TRY(Loops j, split(s, {.loop = loops[1], .factors = {kInfer, 2, 16}}));
  FETTLE_TRY_VOID(reorder(s, {.loops = {j[0], i[0], loops[2], i[1], j[1], j[2]}}));
  FETTLE_TRY_VOID(unroll(s, {.loop = i[1]}));
  FETTLE_TRY_VOID(unroll(s, {.loop = j[1]}));
  FETTLE_TRY_VOID(vectorize(s, {.loop = j[2]}));
  // The copy back follows each tile.
  FETTLE_TRY_VOID(reverse_compute_at(s, {.block = back, .loop = i[0]}));
  FETTLE_TRY(Loops own, get_loops(s, {.block = back}));
  FETTLE_TRY(Loops columns, split(s, {.loop = own.back(), .factors = {kInfer, 16}}));
  FETTLE_TRY_VOID(unroll(s, {.loop = own[own.size() - 2]}));
  FETTLE_TRY_VOID(unroll(s, {.loop = columns[0]}));
  FETTLE_TRY_VOID(vectorize(s, {.loop = columns[1]}));
  // Zeros first, then the sum over k; threads share the panels.
  FETTLE_TRY_VOID(decompose_reduction(s, {.block = c, .loop = loops[2]}).map([](BlockRef) {}));
  FETTLE_TRY_VOID(parallel(s, {.loop = j[0]}));
  // [end]
  return {};
}

}  // namespace fettle::docs
