#pragma once
// For tests of the accelerator: programs, and runs of them against the interpreter.

#include <gtest/gtest.h>

#include <fmt/format.h>

#include "codegen/dae/dae_codegen.h"
#include "codegen/dae/queues.h"
#include "codegen/dae/simulator.h"
#include "codegen/dae/tokens.h"
#include "schedule/primitives/bind.h"
#include "schedule/primitives/cache_read.h"
#include "schedule/primitives/compute_at.h"
#include "schedule/primitives/decompose_reduction.h"
#include "schedule/primitives/reorder.h"
#include "schedule/primitives/reverse_compute_at.h"
#include "schedule/primitives/set_scope.h"
#include "schedule/primitives/split.h"
#include "schedule/primitives/tensorize.h"
#include "schedule/testing.h"
#include "target/accelerator.h"

namespace fettle::dae {

/// Whether tokens order every two instructions of different units that touch the same granule of memory, of which one
/// writes, as the stream has them. What the tokens of a stream say does not depend on how long anything takes: the n-th
/// token that a unit takes from another is the n-th that was given. Errors: E302 two that are not ordered ("hazard"),
/// units wait for each other for ever, or tokens are left over
inline Result<> check_hazards(const Program& program) {
  // What is done for sure when an instruction starts: by unit the position of its last.
  using Done = std::array<int64_t, kUnits>;
  std::vector<Done> starts(program.stream.size(), Done{-1, -1, -1});
  Done last = {-1, -1, -1};
  const auto learn = [&](Done& done, size_t unit, int64_t position) {
    for (size_t u = 0; u < kUnits; ++u) done[u] = std::max(done[u], starts[static_cast<size_t>(position)][u]);
    done[unit] = std::max(done[unit], position);
  };
  Queues queues(program);
  while (!queues.done()) {
    size_t own = 0;
    while (own < kUnits && !queues.can_run(static_cast<Unit>(own))) ++own;
    if (own == kUnits) return queues.stuck();
    const Unit unit = static_cast<Unit>(own);
    const auto position = queues.head(unit);
    Done& done = starts[static_cast<size_t>(position)];
    if (last[own] >= 0) learn(done, own, last[own]);
    for (size_t u = 0; u < kUnits; ++u)
      if (program.stream[static_cast<size_t>(position)].wait[u])
        learn(done, u, queues.giver(static_cast<Unit>(u), unit));
    last[own] = position;
    queues.pop(unit);
  }
  ConflictFinder finder(program);
  for (size_t i = 0; i < program.stream.size(); ++i) {
    const Instruction& instruction = program.stream[i];
    const Conflicts conflicts = finder.next(instruction);
    for (size_t u = 0; u < kUnits; ++u)
      if (u != static_cast<size_t>(instruction.unit) && conflicts[u] > starts[i][u])
        return fail(ErrorCode::E302,
                    fmt::format("hazard: nothing makes instruction {} wait for {}\n{:>5} {}\n{:>5} {}", i, conflicts[u],
                                conflicts[u], to_text(program, program.stream[static_cast<size_t>(conflicts[u])]), i,
                                to_text(program, instruction)),
                    program.name);
  }
  if (queues.tokens_left() > 0)
    return fail(ErrorCode::E302, fmt::format("{} tokens are left over", queues.tokens_left()), program.name);
  return {};
}

}  // namespace fettle::dae

namespace fettle::dae {

/// C = clip(A @ W >> 4) in 8-bit integers: m rows, n and k in vectors of 16.
inline std::string matmul_text(int64_t m, int64_t n, int64_t k) {
  return fmt::format(R"(func matmul(A: i8[{m}, {k}, 16], W: i8[{n}, {k}, 16, 16], C: i8[{m}, {n}, 16] output):
  alloc S: i32[{m}, {n}, 16]
  alloc Q: i32[{m}, {n}, 16]
  for i in {m}:
    for n in {n}:
      for j in 16:
        for ko in {k}:
          for k in 16:
            block S(vi: spatial[{m}] = i, vn: spatial[{n}] = n, vj: spatial[16] = j, vo: reduce[{k}] = ko, vk: reduce[16] = k):
              reads A[vi, vo, vk], W[vn, vo, vj, vk]
              writes S[vi, vn, vj]
              init:
                S[vi, vn, vj] = 0i32
              S[vi, vn, vj] = S[vi, vn, vj] + i32(A[vi, vo, vk]) * i32(W[vn, vo, vj, vk])
  for i in {m}:
    for n in {n}:
      for j in 16:
        block Q(vi: spatial[{m}] = i, vn: spatial[{n}] = n, vj: spatial[16] = j):
          reads S[vi, vn, vj]
          writes Q[vi, vn, vj]
          Q[vi, vn, vj] = min(max(S[vi, vn, vj] >> 4i32, -128i32), 127i32)
  for i in {m}:
    for n in {n}:
      for j in 16:
        block C(vi: spatial[{m}] = i, vn: spatial[{n}] = n, vj: spatial[16] = j):
          reads Q[vi, vn, vj]
          writes C[vi, vn, vj]
          C[vi, vn, vj] = i8(Q[vi, vn, vj])
)",
                     fmt::arg("m", m), fmt::arg("n", n), fmt::arg("k", k));
}

struct MatmulTiles {
  int64_t rows = 4, columns = 1, steps = 1;  // of one thread's tile
  int64_t threads = 1;                       // virtual, side by side in n
  Tail tail = Tail::kExact;
};

/// Sums and what follows them in acc, operands loaded for each step of the reduction.
inline Result<> schedule_matmul(Schedule& s, BlockRef sums, BlockRef clip, BlockRef back, const MatmulTiles& t) {
  FETTLE_TRY_VOID(set_scope(s, {sums, 0, "acc"}));
  FETTLE_TRY_VOID(set_scope(s, {clip, 0, "acc"}));
  FETTLE_TRY(const auto loops, get_loops(s, {sums}));
  FETTLE_TRY(const auto i, split(s, {loops[0], {kInfer, t.rows}, t.tail}));
  FETTLE_TRY(const auto n, split(s, {loops[1], {kInfer, t.threads, t.columns}}));
  FETTLE_TRY(const auto k, split(s, {loops[3], {kInfer, t.steps}}));
  FETTLE_TRY_VOID(reorder(s, {{i[0], n[0], n[1], k[0], k[1], i[1], n[2], loops[2], loops[4]}}));
  FETTLE_TRY_VOID(reverse_compute_at(s, {clip, n[1]}));
  FETTLE_TRY_VOID(reverse_compute_at(s, {back, n[1]}));
  FETTLE_TRY(const auto inp, cache_read(s, {sums, 0, "inp"}));
  FETTLE_TRY_VOID(compute_at(s, {inp, k[0]}));
  FETTLE_TRY(const auto wgt, cache_read(s, {sums, 1, "wgt"}));
  FETTLE_TRY_VOID(compute_at(s, {wgt, k[0]}));
  FETTLE_TRY_VOID(decompose_reduction(s, {sums, k[0]}));
  FETTLE_TRY_VOID(tensorize(s, {loops[2], "dae_gemm_16x16"}));
  if (t.threads > 1) FETTLE_TRY_VOID(bind(s, {n[1], "vthread"}));
  return {};
}

inline testing::TestSchedule scheduled_matmul(int64_t m, int64_t n, int64_t k, const MatmulTiles& tiles) {
  testing::TestSchedule s = testing::schedule_from(matmul_text(m, n, k));
  s.set_target(std::make_shared<const Target>(accelerator_target()));
  const auto done = schedule_matmul(s, s.block("S"), s.block("Q"), s.block("C"), tiles);
  FETTLE_CHECK_MSG(done.has_value(), testing::error_text(done.error()));
  return s;
}

/// Bytes of each parameter; outputs are filled with a value that no program leaves.
inline std::vector<std::vector<uint8_t>> some_data(const Func& func) {
  std::vector<std::vector<uint8_t>> data;
  RandomStream random({11});
  for (const Param& param : func->params) {
    int64_t bytes = param.buffer->dtype.element_bytes();
    for (const Expr& extent : param.buffer->shape) bytes *= *as_int(extent);
    auto& own = data.emplace_back(static_cast<size_t>(bytes), uint8_t{0x77});
    if (param.kind != ParamKind::kOutput)
      for (uint8_t& byte : own) byte = static_cast<uint8_t>(random.below(256));
  }
  return data;
}

inline std::vector<BufferArg> views(std::vector<std::vector<uint8_t>>& data) {
  std::vector<BufferArg> args;
  for (auto& d : data) args.push_back({d.data(), static_cast<int64_t>(d.size())});
  return args;
}

/// Runs the unscheduled program in the interpreter.
inline std::vector<std::vector<uint8_t>> expected_data(const Func& func) {
  auto data = some_data(func);
  const auto args = views(data);
  const auto done = interpret(func, args);
  FETTLE_CHECK_MSG(done.has_value(), testing::error_text(done.error()));
  return data;
}

/// Whether the stream computes the same as the program, bit by bit, in every order of its units.
inline ::testing::AssertionResult computes(const Program& program, const Func& func) {
  const auto expected = expected_data(func);
  struct Run {
    Order order;
    uint64_t seed;
  };
  for (const Run r : {Run{Order::kStream, 0}, Run{Order::kEagerLoads, 0}, Run{Order::kLateLoads, 0},
                      Run{Order::kRandom, 1}, Run{Order::kRandom, 2}, Run{Order::kRandom, 3}}) {
    auto data = some_data(func);
    const auto args = views(data);
    if (const auto done = run(program, args, r.order, r.seed); !done)
      return ::testing::AssertionFailure() << testing::error_text(done.error());
    if (data != expected)
      return ::testing::AssertionFailure() << "another result in order " << static_cast<int>(r.order);
  }
  return ::testing::AssertionSuccess();
}

}  // namespace fettle::dae
