#include "codegen/dae/dae_codegen.h"

#include "analysis/verify.h"
#include "codegen/dae/testing.h"
#include "lower/decoupled.h"
#include "schedule/primitives/double_buffer.h"
#include "schedule/primitives/software_pipeline.h"

namespace fettle::dae {
namespace {

using testing::schedule_from;

const Target kTarget = accelerator_target();

TEST(Dae, LowersVirtualThreadsToAlternatingTasks) {
  const auto s = scheduled_matmul(8, 4, 4, {.rows = 4, .columns = 2, .steps = 2, .threads = 2});
  EXPECT_GOLDEN(s.func());
  const auto lowered = lower_decoupled(s.func(), kTarget);
  ASSERT_OK(lowered);
  EXPECT_GOLDEN(*lowered);
  // Tasks in order mean what the program means.
  auto data = some_data(s.original);
  const auto args = views(data);
  ASSERT_OK(interpret(*lowered, args));
  EXPECT_EQ(data, expected_data(s.original));
}

TEST(Dae, StreamOfOneThread) {
  const auto s = scheduled_matmul(4, 2, 2, {.rows = 4, .columns = 1, .steps = 1});
  const auto program = compile(s.func(), kTarget);
  ASSERT_OK(program);
  EXPECT_GOLDEN(*program);
  EXPECT_OK(check_hazards(*program));
  EXPECT_TRUE(computes(*program, s.original));
}

TEST(Dae, StreamOfTwoThreads) {
  const auto s = scheduled_matmul(4, 2, 2, {.rows = 4, .columns = 1, .steps = 1, .threads = 2});
  const auto program = compile(s.func(), kTarget);
  ASSERT_OK(program);
  EXPECT_GOLDEN(*program);
  EXPECT_OK(check_hazards(*program));
  EXPECT_TRUE(computes(*program, s.original));
}

TEST(Dae, ComputesWhatTheProgramMeans) {
  for (const MatmulTiles tiles :
       {MatmulTiles{.rows = 2, .columns = 3, .steps = 1, .threads = 2},
        MatmulTiles{.rows = 12, .columns = 1, .steps = 5, .threads = 3},
        MatmulTiles{.rows = 5, .columns = 2, .steps = 5, .threads = 1, .tail = Tail::kGuard},
        MatmulTiles{.rows = 7, .columns = 1, .steps = 1, .threads = 6, .tail = Tail::kGuard}}) {
    SCOPED_TRACE(fmt::format("{} x {} x {}, {} threads", tiles.rows, tiles.columns, tiles.steps, tiles.threads));
    const auto s = scheduled_matmul(12, 6, 5, tiles);
    const auto program = compile(s.func(), kTarget);
    ASSERT_OK(program);
    EXPECT_OK(check_hazards(*program));
    EXPECT_TRUE(computes(*program, s.original));
    EXPECT_EQ(program->macs(), int64_t{12} * 6 * 5 * 256);
  }
}

TEST(Dae, VirtualThreadsHideLatency) {
  const auto timed = [](int64_t threads) {
    const auto s = scheduled_matmul(32, 8, 16, {.rows = 16, .columns = 2, .steps = 2, .threads = threads});
    const auto timing = count_cycles(compile(s.func(), kTarget).value(), *kTarget.accelerator);
    EXPECT_TRUE(timing);
    return *timing;
  };
  const Timing one = timed(1), two = timed(2);
  EXPECT_EQ(one.macs, two.macs);
  EXPECT_EQ(one.memory_bytes, two.memory_bytes);
  EXPECT_LT(two.cycles, one.cycles);
  // No faster than any of its units, nor than memory.
  for (const Timing& t : {one, two}) {
    EXPECT_GE(t.cycles, t.macs / 256);
    EXPECT_GE(t.cycles, t.memory_bytes / kTarget.accelerator->memory_bytes_per_cycle);
    EXPECT_GE(t.cycles, t.port_busy);
    for (const UnitTimes& unit : t.units) EXPECT_GE(t.cycles, unit.busy + unit.wait_token);
  }
}

// Two places that iterations of one thread take by turns do the same for what they hold.
TEST(Dae, DoubleBuffersHideLatencyToo) {
  const MatmulTiles tiles = {.rows = 16, .columns = 4, .steps = 2};
  const auto plain = scheduled_matmul(32, 8, 16, tiles);
  const auto before = count_cycles(compile(plain.func(), kTarget).value(), *kTarget.accelerator);
  ASSERT_OK(before);
  for (const bool pipelined : {false, true}) {
    auto s = scheduled_matmul(32, 8, 16, tiles);
    if (pipelined) {
      ASSERT_OK(software_pipeline(s, {s.loop("ko_0"), {0, 0, 1}, {0, 1, 2}}));
    } else {
      for (const char* copy : {"A_inp", "W_wgt"}) ASSERT_OK(double_buffer(s, {s.block(copy), 0}));
    }
    const auto program = compile(s.func(), kTarget);
    ASSERT_OK(program);
    EXPECT_OK(check_hazards(*program));
    EXPECT_TRUE(computes(*program, s.original));
    const auto after = count_cycles(*program, *kTarget.accelerator);
    ASSERT_OK(after);
    EXPECT_EQ(after->memory_bytes, before->memory_bytes);
    EXPECT_LT(after->cycles, before->cycles);
  }
}

TEST(Dae, ShortQueuesAreSlowerAndStillRun) {
  const auto s = scheduled_matmul(16, 4, 8, {.rows = 4, .columns = 1, .steps = 1, .threads = 2});
  const auto program = compile(s.func(), kTarget);
  ASSERT_OK(program);
  AcceleratorUnits shorter = *kTarget.accelerator;
  shorter.queue_depth = 1;
  const auto deep = count_cycles(*program, *kTarget.accelerator), shallow = count_cycles(*program, shorter);
  ASSERT_OK(deep);
  ASSERT_OK(shallow);
  EXPECT_GE(shallow->cycles, deep->cycles);
}

// D = i8(max(A + B - 3, A * 2) >> 1): sums from memory, numbers on either side, two sums in one operation.
TEST(Dae, SumsAreAddedAndComparedByTheAlu) {
  auto s = schedule_from(R"(func residual(A: i32[4, 16], B: i32[4, 16], D: i8[4, 16] output):
  alloc T: i32[4, 16] @acc
  alloc U: i32[4, 16] @acc
  for i in 4:
    for j in 16:
      block U(vi: spatial[4] = i, vj: spatial[16] = j):
        reads A[vi, vj]
        writes U[vi, vj]
        U[vi, vj] = 2i32 * A[vi, vj]
  for i in 4:
    for j in 16:
      block T(vi: spatial[4] = i, vj: spatial[16] = j):
        reads A[vi, vj], B[vi, vj], U[vi, vj]
        writes T[vi, vj]
        T[vi, vj] = max(A[vi, vj] + B[vi, vj] - 3i32, U[vi, vj]) >> 1i32
  for i in 4:
    for j in 16:
      block D(vi: spatial[4] = i, vj: spatial[16] = j):
        reads T[vi, vj]
        writes D[vi, vj]
        D[vi, vj] = i8(T[vi, vj])
)");
  s.set_target(std::make_shared<const Target>(kTarget));
  ASSERT_OK(cache_read(s, {s.block("U"), 0, "acc", {s.block("T")}}));
  ASSERT_OK(cache_read(s, {s.block("T"), 1, "acc"}));
  const auto program = compile(s.func(), kTarget);
  ASSERT_OK(program);
  EXPECT_GOLDEN(*program);
  EXPECT_OK(check_hazards(*program));
  EXPECT_TRUE(computes(*program, s.original));
  for (const Instruction& i : program->stream) EXPECT_NE(i.unit, Unit::kLoad);
}

TEST(Dae, E230PlacesThatAreNotAligned) {
  // Rows of eight bytes, densely: every second one begins inside of a vector.
  const auto lowered = parse_func(R"(lowered func odd(A: i8[64]):
  allocate P: i8[32] @inp
  issue "load":
    for i in 4:
      for j in 8:
        P[i * 8 + j] = A[i * 16 + j]
)");
  ASSERT_OK(lowered);
  EXPECT_ERROR(emit_stream(*lowered, kTarget), E230);
}

TEST(Dae, E230ScratchpadsAreTooSmall) {
  // 40 x 4 vectors of wgt squares: 40 KiB of 32.
  const auto wide = scheduled_matmul(4, 40, 4, {.rows = 4, .columns = 40, .steps = 4});
  EXPECT_ERROR(verify(wide.func(), kTarget), E230);
  EXPECT_ERROR(compile(wide.func(), kTarget), E230);
  // 20 x 4 of them fit, but not for two threads at once.
  const auto single = scheduled_matmul(4, 40, 4, {.rows = 4, .columns = 20, .steps = 4});
  EXPECT_OK(compile(single.func(), kTarget));
  const auto both = scheduled_matmul(4, 40, 4, {.rows = 4, .columns = 20, .steps = 4, .threads = 2});
  EXPECT_ERROR(verify(both.func(), kTarget), E230);
  const auto lowered = lower_decoupled(both.func(), kTarget);
  ASSERT_OK(lowered);
  EXPECT_ERROR(emit_stream(*lowered, kTarget), E230);
}

TEST(Dae, E301WhatNoUnitDoes) {
  // Memory to memory.
  EXPECT_ERROR(compile(parse_loops("for i in 16: B[i] = A[i] + 1.0").value(), kTarget), E301);
  // Sums of floats.
  const auto floats = schedule_from(R"(func floats(A: f32[16], C: f32[16] output):
  alloc B: f32[16] @acc
  for i in 16:
    block B(vi: spatial[16] = i):
      reads A[vi]
      writes B[vi]
      B[vi] = A[vi] * 2.0
  for i in 16:
    block C(vi: spatial[16] = i):
      reads B[vi]
      writes C[vi]
      C[vi] = B[vi]
)");
  EXPECT_ERROR(compile(floats.func(), kTarget), E301);
  // Threads of a GPU.
  auto s = schedule_from(matmul_text(4, 2, 2));
  ASSERT_OK(bind(s, {s.loop("i"), "threadIdx.x"}));
  EXPECT_ERROR(lower_decoupled(s.func(), kTarget), E301);
  // Another target.
  EXPECT_ERROR(emit_stream(parse_func("lowered func f(A: f32[1] output):\n  A[0] = 1.0\n").value(), Target()), E301);
}

TEST(Dae, E301TooManyInstructions) {
  const auto s = scheduled_matmul(8, 4, 4, {.rows = 1, .columns = 1, .steps = 1});
  EXPECT_ERROR(compile(s.func(), kTarget, {.max_instructions = 100}), E301);
}

}  // namespace
}  // namespace fettle::dae
