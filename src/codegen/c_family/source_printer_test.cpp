#include "codegen/c_family/source_printer.h"

#include <gtest/gtest.h>

#include "ir/text.h"

namespace fettle {
namespace {

using c_family::Dialect;

/// A language with two thread axes and one shared scope, for the parts that C does not use.
struct Toy : Dialect {
  Toy() {
    name = "Toy";
    scopes["shared"] = {.declaration = "__local ", .pointer = "__local ", .initializer = "", .at_top = true};
    scopes["global"] = {.declaration = "", .pointer = "__global ", .initializer = "", .at_top = false};
    thread_axes = {{"threadIdx.x", "get_local_id(0)"}, {"blockIdx.x", "get_group_id(0)"}};
    statements = {{"barrier", "barrier(CLK_LOCAL_MEM_FENCE);"}};
    unroll_hint = "#pragma unroll";
  }
};

std::string printed(const char* text, const Dialect& dialect = Dialect()) {
  auto module = parse_module(text);
  if (!module) return module.error().to_string();
  c_family::SourcePrinter printer(dialect, *module);
  for (const auto& [name, func] : module->funcs) printer.print_function(func, name);
  auto out = printer.finish();
  return out ? *out : std::string(error_info(out.error().code).name);
}

TEST(CFamily, Statements) {
  EXPECT_EQ(printed(R"(lowered func f(A: f32[64], `B'`: f32[64], C: f32[64] output, n: i64 in 0..):
  allocate t: f32[4]
  for i in n:
    if i < 8 && A[i] < 3.0:
      t[i % 4] = A[i] + `B'`[i // 2] * 3.0
    else:
      t[0] = min(A[i], -1.0)
    let int = A[i + 1]:
      C[i] = int - (int - t[0])
    C[i + n] = 0.0
)"),
            R"(static inline float min_f32(float a, float b) {
  return a < b || a != a ? a : b;
}

void f(const float *A, const float *B_, float *C, int64_t n) {
  float t[4];
  for (int64_t i = 0; i < n; ++i) {
    if (i < 8 && A[i] < 3.0f) {
      t[i % 4] = A[i] + B_[i / 2] * 3.0f;
    } else {
      t[0] = min_f32(-1.0f, A[i]);
    }
    {
      const float int_1 = A[i + 1];
      C[i] = int_1 - (int_1 - t[0]);
    }
    C[i + n] = 0.0f;
  }
}
)");
}

TEST(CFamily, HalvesAreCopiedAsTheyAreAndRoundedOnce) {
  Dialect dialect;
  dialect.helpers = {{"f32_from_f16", "float f32_from_f16(uint16_t h) { return native(h); }\n"},
                     {"f16_from_f32", "uint16_t f16_from_f32(float a) { return native(a); }\n"}};
  EXPECT_EQ(printed(R"(lowered func f(A: f16[64], B: f16[64] output, C: f16[64] output):
  B[0] = A[1]
  C[0] = f16(f32(A[1]) * 3.0)
)",
                    dialect),
            R"(static inline float f32_from_f16(uint16_t h) { return native(h); }

static inline uint16_t f16_from_f32(float a) { return native(a); }

void f(const uint16_t *A, uint16_t *B, uint16_t *C) {
  B[0] = A[1];
  C[0] = f16_from_f32(f32_from_f16(A[1]) * 3.0f);
}
)");
}

TEST(CFamily, ThreadsScopesAndBarriers) {
  EXPECT_EQ(printed(R"(lowered func f(A: f32[64], C: f32[64] output):
  for b in 4 thread axis("blockIdx.x"):
    allocate s: f32[16] @shared
    for t in 16 thread axis("threadIdx.x"):
      s[t] = A[b * 16 + t]
      barrier()
      for u in 2 unrolled:
        C[b * 16 + t] = s[15 - t]
)",
                    Toy()),
            R"(void f(__global const float *A, __global float *C) {
  __local float s[16];
  {
    const int64_t b = (int64_t)get_group_id(0);
    {
      const int64_t t = (int64_t)get_local_id(0);
      s[t] = A[b * 16 + t];
      barrier(CLK_LOCAL_MEM_FENCE);
#pragma unroll
      for (int64_t u = 0; u < 2; ++u) {
        C[b * 16 + t] = s[15 - t];
      }
    }
  }
}
)");
}

TEST(CFamily, RefusesWhatItDoesNotKnow) {
  const std::string head = "lowered func f(A: f32[64], C: f32[64] output, n: i64):\n  ";
  EXPECT_EQ(printed((head + "for i in 4 parallel:\n    C[i] = 0.0\n").c_str()), "E301");
  EXPECT_EQ(printed((head + "for i in 4 vectorized:\n    C[i] = 0.0\n").c_str()), "E301");
  EXPECT_EQ(printed((head + "for i in 4 thread axis(\"threadIdx.y\"):\n    C[i] = 0.0\n").c_str(), Toy()), "E301");
  EXPECT_EQ(printed((head + "C[ramp(0, 1, 4)] = A[ramp(0, 1, 4)]\n").c_str()), "E301");
  EXPECT_EQ(printed((head + "C[0] = mystery(A[0])\n").c_str()), "E301");
  EXPECT_EQ(printed((head + "barrier()\n").c_str()), "E301");
  EXPECT_EQ(printed((head + "allocate t: f32[n]\n  t[0] = 1.0\n  C[0] = t[0]\n").c_str()), "E301");
}

TEST(CFamily, NamesAreIdentifiersAndFree) {
  using c_family::identifier;
  EXPECT_EQ(identifier("A'"), "A_");
  EXPECT_EQ(identifier("a.b"), "a_b");
  EXPECT_EQ(identifier("0"), "v_0");
  EXPECT_EQ(identifier("_x"), "v_x");
  EXPECT_EQ(identifier("a__b"), "a_b");
  EXPECT_EQ(identifier(""), "v_");
  c_family::Names names({"mine"});
  EXPECT_EQ(names.take("i"), "i");
  EXPECT_EQ(names.take("i"), "i_1");
  names.release("i");
  EXPECT_EQ(names.take("i"), "i");
  EXPECT_EQ(names.take("while"), "while_1");
  EXPECT_EQ(names.take("mine"), "mine_1");
  EXPECT_EQ(names.take("expf"), "expf_1");
  EXPECT_EQ(names.take("min_f32"), "min_f32_v");
}

}  // namespace
}  // namespace fettle
