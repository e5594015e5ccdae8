#include "tune/parts/gpu_attention.h"

#include <fmt/format.h>

#include "analysis/verify.h"
#include "codegen/cuda/cuda_codegen.h"
#include "codegen/cuda/cuda_compile.h"
#include "lower/device/device.h"
#include "schedule/testing.h"
#include "tune/parts/gpu_grid.h"

namespace fettle {
namespace {

using testing::TestSchedule;

struct Problem {
  int64_t heads = 2, queries = 128, keys = 128, width = 64, value_width = 64;
  std::string type = "f16";
  bool causal = false;
};

Func attention(const Problem& p) {
  const std::string x = p.causal ? "select(vj <= vi, X[vh, vi, vj] * f32(W[]), -inf)" : "X[vh, vi, vj] * f32(W[])";
  const std::string text = fmt::format(
      R"(func attention(Q: {5}[{0}, {1}, {3}], K: {5}[{0}, {2}, {3}], W: {5}[] constant, V: {5}[{0}, {2}, {4}], R: {5}[{0}, {1}, {4}] output):
  alloc X: f32[{0}, {1}, {2}]
  alloc M: f32[{0}, {1}]
  alloc E: f32[{0}, {1}, {2}]
  alloc S: f32[{0}, {1}]
  alloc P: f32[{0}, {1}, {2}]
  alloc O: f32[{0}, {1}, {4}]
  for h in {0}:
    for i in {1}:
      for j in {2}:
        for k in {3}:
          block X(vh: spatial[{0}] = h, vi: spatial[{1}] = i, vj: spatial[{2}] = j, vk: reduce[{3}] = k):
            reads Q[vh, vi, vk], K[vh, vj, vk]
            writes X[vh, vi, vj]
            init:
              X[vh, vi, vj] = 0.0
            X[vh, vi, vj] = X[vh, vi, vj] + f32(Q[vh, vi, vk]) * f32(K[vh, vj, vk])
  for h in {0}:
    for i in {1}:
      for j in {2}:
        block M(vh: spatial[{0}] = h, vi: spatial[{1}] = i, vj: reduce[{2}] = j):
          reads X[vh, vi, vj], W[]
          writes M[vh, vi]
          init:
            M[vh, vi] = -inf
          M[vh, vi] = ordered_max({6}, M[vh, vi])
  for h in {0}:
    for i in {1}:
      for j in {2}:
        block E(vh: spatial[{0}] = h, vi: spatial[{1}] = i, vj: spatial[{2}] = j):
          reads X[vh, vi, vj], W[], M[vh, vi]
          writes E[vh, vi, vj]
          E[vh, vi, vj] = exp({6} - M[vh, vi])
  for h in {0}:
    for i in {1}:
      for j in {2}:
        block S(vh: spatial[{0}] = h, vi: spatial[{1}] = i, vj: reduce[{2}] = j):
          reads E[vh, vi, vj]
          writes S[vh, vi]
          init:
            S[vh, vi] = 0.0
          S[vh, vi] = S[vh, vi] + E[vh, vi, vj]
  for h in {0}:
    for i in {1}:
      for j in {2}:
        block P(vh: spatial[{0}] = h, vi: spatial[{1}] = i, vj: spatial[{2}] = j):
          reads E[vh, vi, vj], S[vh, vi]
          writes P[vh, vi, vj]
          P[vh, vi, vj] = E[vh, vi, vj] / S[vh, vi]
  for h in {0}:
    for i in {1}:
      for e in {4}:
        for j in {2}:
          block O(vh: spatial[{0}] = h, vi: spatial[{1}] = i, ve: spatial[{4}] = e, vj: reduce[{2}] = j):
            reads P[vh, vi, vj], V[vh, vj, ve]
            writes O[vh, vi, ve]
            init:
              O[vh, vi, ve] = 0.0
            O[vh, vi, ve] = O[vh, vi, ve] + P[vh, vi, vj] * f32(V[vh, vj, ve])
  for h in {0}:
    for i in {1}:
      for e in {4}:
        block R(vh: spatial[{0}] = h, vi: spatial[{1}] = i, ve: spatial[{4}] = e):
          reads O[vh, vi, ve]
          writes R[vh, vi, ve]
          R[vh, vi, ve] = {5}(O[vh, vi, ve])
)",
      p.heads, p.queries, p.keys, p.width, p.value_width, p.type, x);
  const auto made = parse_func(text);
  FETTLE_CHECK_MSG(made.has_value(), made ? "" : made.error().to_string());
  return *made;
}

TEST(GpuAttention, Works) {
  TestSchedule s(attention({}), 0);
  s.set_target(std::make_shared<Target>(*parse_target("cuda -arch sm_80")));
  const auto parts = attention_parts(s.func());
  ASSERT_TRUE(parts);
  const auto done = gpu_attention(s, *s.target(), sampling_decider(), *parts);
  if (getenv("SHOW")) puts(to_text(s.func()).c_str());
  ASSERT_OK(done);
  EXPECT_OK(verify(s.func(), *s.target(), {.races = false}));
  const auto program = lower_for_device(s.func(), *s.target());
  ASSERT_OK(program);
  if (getenv("SHOW")) puts(to_text(*program).c_str());
  const auto source = emit_cuda(*program);
  ASSERT_OK(source);
  if (getenv("SHOW")) puts(source->c_str());
  EXPECT_OK(compile_cuda(*source, "sm_80"));
}

}  // namespace
}  // namespace fettle
