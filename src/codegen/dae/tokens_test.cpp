#include "codegen/dae/tokens.h"

#include "codegen/dae/testing.h"

namespace fettle::dae {
namespace {

using testing::schedule_from;

const Target kTarget = accelerator_target();

// Whether the simulator finds fault with the stream, and with the result in some order of units.
struct Verdict {
  bool hazard = false, wrong = false;
};
Verdict judge(const Program& program, const Func& func) {
  Verdict verdict;
  if (const auto checked = check_hazards(program); !checked) {
    EXPECT_EQ(checked.error().code, ErrorCode::E302);
    verdict.hazard = checked.error().message.starts_with("hazard: nothing makes instruction ");
  }
  verdict.wrong = !computes(program, func);
  return verdict;
}

int64_t count_tokens(const Program& program) {
  int64_t count = 0;
  for (const Instruction& i : program.stream)
    for (const bool wait : i.wait) count += wait;
  return count;
}

// Takes away one token after another: the wait, what gives it, or both.
void expect_all_needed(const Program& program) {
  std::array<std::array<std::vector<std::pair<size_t, size_t>>, kUnits>, kUnits> pairs;  // giver, taker
  std::array<std::array<std::vector<size_t>, kUnits>, kUnits> givers;
  for (size_t i = 0; i < program.stream.size(); ++i)
    for (size_t u = 0; u < kUnits; ++u)
      if (program.stream[i].signal[u]) givers[static_cast<size_t>(program.stream[i].unit)][u].push_back(i);
  int64_t seen = 0;
  for (size_t i = 0; i < program.stream.size(); ++i)
    for (size_t u = 0; u < kUnits; ++u) {
      if (!program.stream[i].wait[u]) continue;
      const auto own = static_cast<size_t>(program.stream[i].unit);
      auto& matched = pairs[u][own];
      ASSERT_LT(matched.size(), givers[u][own].size());
      matched.emplace_back(givers[u][own][matched.size()], i);
      ++seen;
      for (const int what : {1, 2, 3}) {
        Program less = program;
        if (what & 1) less.stream[i].wait[u] = false;
        if (what & 2) less.stream[matched.back().first].signal[own] = false;
        EXPECT_FALSE(check_hazards(less)) << "token " << what << " of\n" << to_text(program, program.stream[i]);
      }
    }
  EXPECT_EQ(seen, count_tokens(program));
  EXPECT_GT(seen, 0);
}

TEST(DaeTokens, EachIsNeeded) {
  for (const int64_t threads : {1, 2}) {
    const auto s = scheduled_matmul(8, 4, 4, {.rows = 4, .columns = 1, .steps = 1, .threads = threads});
    const auto program = compile(s.func(), kTarget);
    ASSERT_OK(program);
    EXPECT_OK(check_hazards(*program));
    expect_all_needed(*program);
  }
}

TEST(DaeTokens, WithoutThemResultsAreWrong) {
  const auto s = scheduled_matmul(8, 4, 4, {.rows = 4, .columns = 1, .steps = 1, .threads = 2});
  const auto program = compile(s.func(), kTarget, {.tokens = false});
  ASSERT_OK(program);
  EXPECT_EQ(count_tokens(*program), 0);
  const Verdict verdict = judge(*program, s.original);
  EXPECT_TRUE(verdict.hazard);
  EXPECT_TRUE(verdict.wrong);
}

TEST(DaeTokens, ATokenTooFewIsADeadlockThatSaysWhoWaits) {
  const auto s = scheduled_matmul(4, 2, 2, {.rows = 4, .columns = 1, .steps = 1});
  Program program = compile(s.func(), kTarget).value();
  for (Instruction& i : program.stream)
    if (i.unit == Unit::kLoad) i.signal = {};
  auto data = some_data(s.original);
  const auto args = views(data);
  const auto ran = run(program, args);
  ASSERT_FALSE(ran);
  EXPECT_EQ(ran.error().code, ErrorCode::E302);
  EXPECT_NE(ran.error().message.find("compute waits for load at instruction"), std::string::npos)
      << ran.error().message;
  EXPECT_ERROR(check_hazards(program), E302);
  EXPECT_ERROR(count_cycles(program, *kTarget.accelerator), E302);
}

// A load waits for a store, and the compute unit has nothing to wait for.
TEST(DaeTokens, ANopPassesATokenFromStoreToLoad) {
  Program program;
  program.name = "relay";
  program.memories = {{"B", false, 16, 1}, {"inp", true, 64, 16}, {"acc", true, 128, 64}};
  const auto at = [](int memory, DType type) { return Operand{memory, type, 0, {type.element_bytes()}}; };
  Instruction fill, store, load;
  fill.op = Opcode::kAlu;
  store.op = Opcode::kStore;
  load.op = Opcode::kLoad;
  store.unit = Unit::kStore;
  load.unit = Unit::kLoad;
  for (Instruction* i : {&fill, &store, &load}) i->extents = {16};
  fill.dst = at(2, kI32);
  store.dst = at(0, kI8);
  store.src[0] = at(2, kI32);
  load.dst = at(1, kI8);
  load.src[0] = at(0, kI8);
  program.stream = {fill, store, load, fill};
  insert_tokens(program);
  EXPECT_GOLDEN(program);
  EXPECT_OK(check_hazards(program));
  expect_all_needed(program);
}

// Streams of anything: units, places and lengths by chance, memory stored to and loaded from.
TEST(DaeTokens, AnyStreamIsOrderedAndNoneIsSuperfluous) {
  for (uint64_t seed = 0; seed < 40; ++seed) {
    SCOPED_TRACE(seed);
    RandomStream random({seed});
    Program program;
    program.name = "random";
    program.memories = {{"M", false, 64, 1}, {"inp", true, 64, 16}, {"acc", true, 256, 64}};
    const auto at = [&](int memory, DType type) {
      const int64_t granule = memory == 2 ? 64 : 16,
                    places = program.memories[static_cast<size_t>(memory)].bytes / granule;
      const auto place = static_cast<int64_t>(random.below(static_cast<uint64_t>(places)));
      return Operand{memory, type, place * granule, {type.element_bytes()}};
    };
    for (int n = 0; n < 30; ++n) {
      Instruction i;
      i.extents = {16};
      switch (random.below(4)) {
        case 0:
          i.op = Opcode::kLoad;
          i.unit = Unit::kLoad;
          i.dst = at(1, kI8);
          i.src[0] = at(0, kI8);
          break;
        case 1:
          i.op = Opcode::kStore;
          i.unit = Unit::kStore;
          i.dst = at(0, kI8);
          i.src[0] = at(2, kI32);
          break;
        case 2:  // what computes with operands, for the order of things
          i.op = Opcode::kAlu;
          i.alu = AluOp::kMove;
          i.dst = at(2, kI32);
          i.src[0] = at(1, kI8);
          break;
        default:
          i.op = Opcode::kAlu;
          i.alu = AluOp::kAdd;
          i.dst = at(2, kI32);
          i.src = {at(2, kI32), at(2, kI32)};
      }
      program.stream.push_back(i);
    }
    const Program bare = program;
    insert_tokens(program);
    EXPECT_OK(check_hazards(program));
    EXPECT_ERROR(check_hazards(bare), E302);
    expect_all_needed(program);
  }
}

// S = A @ W to memory as bytes, and from there T = S @ W.
TEST(DaeTokens, WhatIsStoredAndLoadedAgain) {
  auto s = schedule_from(R"(func chain(A: i8[2, 1, 16], W: i8[1, 1, 16, 16], D: i32[2, 1, 16] output):
  alloc S: i32[2, 1, 16]
  alloc B: i8[2, 1, 16]
  alloc T: i32[2, 1, 16]
  for i in 2:
    for j in 16:
      block S_init(vi: spatial[2] = i, vj: spatial[16] = j):
        writes S[vi, 0, vj]
        S[vi, 0, vj] = 0i32
    for j in 16:
      for k in 16:
        block S(vi: spatial[2] = i, vj: spatial[16] = j, vk: reduce[16] = k):
          reads A[vi, 0, vk], W[0, 0, vj, vk]
          writes S[vi, 0, vj]
          S[vi, 0, vj] = S[vi, 0, vj] + i32(A[vi, 0, vk]) * i32(W[0, 0, vj, vk])
    for j in 16:
      block B(vi: spatial[2] = i, vj: spatial[16] = j):
        reads S[vi, 0, vj]
        writes B[vi, 0, vj]
        B[vi, 0, vj] = i8(S[vi, 0, vj])
  for i in 2:
    for j in 16:
      block T_init(vi: spatial[2] = i, vj: spatial[16] = j):
        writes T[vi, 0, vj]
        T[vi, 0, vj] = 0i32
    for j in 16:
      for k in 16:
        block T(vi: spatial[2] = i, vj: spatial[16] = j, vk: reduce[16] = k):
          reads B[vi, 0, vk], W[0, 0, vj, vk]
          writes T[vi, 0, vj]
          T[vi, 0, vj] = T[vi, 0, vj] + i32(B[vi, 0, vk]) * i32(W[0, 0, vj, vk])
    for j in 16:
      block D(vi: spatial[2] = i, vj: spatial[16] = j):
        reads T[vi, 0, vj]
        writes D[vi, 0, vj]
        D[vi, 0, vj] = T[vi, 0, vj]
)");
  s.set_target(std::make_shared<const Target>(kTarget));
  for (const char* sums : {"S", "T"}) {
    ASSERT_OK(set_scope(s, {s.block(sums), 0, "acc"}));
    const auto loops = get_loops(s, {s.block(sums)}).value();
    const auto inp = cache_read(s, {s.block(sums), 0, "inp"});
    ASSERT_OK(inp);
    ASSERT_OK(compute_at(s, {*inp, loops[0]}));
    const auto wgt = cache_read(s, {s.block(sums), 1, "wgt"});
    ASSERT_OK(wgt);
    ASSERT_OK(compute_at(s, {*wgt, loops[0]}));
    ASSERT_OK(tensorize(s, {loops[1], "dae_gemm_16x16"}));
  }
  const auto program = compile(s.func(), kTarget);
  ASSERT_OK(program);
  EXPECT_GOLDEN(*program);
  EXPECT_OK(check_hazards(*program));
  EXPECT_TRUE(computes(*program, s.original));
  expect_all_needed(*program);
}

}  // namespace
}  // namespace fettle::dae
