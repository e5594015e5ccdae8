#include <cmath>
#include <vector>

#include <gtest/gtest.h>

#include "ir/interpret.h"
#include "ir/text.h"
#include "lower/passes/passes.h"

namespace fettle {
namespace {

Func lowered(const std::string& text) {
  const Result<Func> func = parse_func(text);
  EXPECT_TRUE(func) << (func ? "" : func.error().to_string());
  return func ? *func : Func();
}

// What `func` makes of `inputs`, each an array; the last parameter is the result.
std::vector<float> result_of(const Func& func, std::vector<std::vector<float>> arrays) {
  std::vector<BufferArg> args;
  for (auto& array : arrays) args.push_back({array.data(), static_cast<int64_t>(array.size() * sizeof(float))});
  const Result<> done = interpret(func, args);
  EXPECT_TRUE(done) << (done ? "" : done.error().to_string());
  return arrays.back();
}

// Small integers: all sums are exact, in whatever order.
std::vector<float> integers(size_t n) {
  std::vector<float> values(n);
  for (size_t i = 0; i < n; ++i) values[i] = static_cast<float>((i * 7919 + i / 3) % 13) - 4.0f;
  return values;
}

struct Shape {
  const char* name;
  const char* text;
  std::vector<size_t> sizes;  // of the parameters
};

const Shape kSums[] = {
    {"one element",
     "lowered func f(A: f32[30000], C: f32[1] output):\n"
     "  C[0] = 0.0\n"
     "  for k in 30000:\n"
     "    C[0] = C[0] + A[k]\n",
     {30000, 1}},
    {"a loop without turns inside",
     "lowered func f(A: f32[5000], C: f32[1] output):\n"
     "  C[0] = 0.0\n"
     "  for k in 5000:\n"
     "    for l in 0:\n"
     "      C[0] = C[0] + A[k + l]\n"
     "    C[0] = C[0] + A[k]\n",
     {5000, 1}},
    {"begins inside the loop",
     "lowered func f(A: f32[5000], C: f32[1] output):\n"
     "  for k in 5000:\n"
     "    if k == 0:\n"
     "      C[0] = 0.0\n"
     "    C[0] = C[0] + A[k]\n",
     {5000, 1}},
    {"a tile in registers, with a tail of lanes",
     "lowered func f(A: f32[34000], C: f32[34] output):\n"
     "  for b in 2:\n"
     "    allocate R: f32[32] @register\n"
     "    for r in 2 unrolled:\n"
     "      for l in 16 vectorized:\n"
     "        R[r * 16 + l] = 0.0\n"
     "    for k in 1000:\n"
     "      for r in 2 unrolled:\n"
     "        for l in 16 vectorized:\n"
     "          if b * 32 + r * 16 + l < 34:\n"
     "            R[r * 16 + l] = A[k * 34 + b * 32 + r * 16 + l] + R[r * 16 + l]\n"
     "    for r in 2 unrolled:\n"
     "      for l in 16 vectorized:\n"
     "        if b * 32 + r * 16 + l < 34:\n"
     "          C[b * 32 + r * 16 + l] = R[r * 16 + l]\n",
     {34000, 34}},
    {"two loops, rows in memory",
     "lowered func f(A: f32[49000], C: f32[10] output):\n"
     "  for j in 10:\n"
     "    C[j] = 0.0\n"
     "  for y in 70:\n"
     "    for x in 70:\n"
     "      for j in 10:\n"
     "        C[j] = C[j] + A[y * 700 + x * 10 + j]\n",
     {49000, 10}},
    {"a window that padding cuts, in lanes",
     "lowered func f(A: f32[40], C: f32[8] output):\n"
     "  for j in 8:\n"
     "    C[j] = 0.0\n"
     "  for k in 97:\n"
     "    for j in 8 vectorized:\n"
     "      if 48 <= j * 5 + k && j * 5 + k < 88:\n"
     "        C[j] = C[j] + A[j * 5 + k - 48]\n",
     {40, 8}},
    {"a triangle",
     "lowered func f(A: f32[300], C: f32[300] output):\n"
     "  for i in 300:\n"
     "    C[i] = 0.0\n"
     "    for k in i + 1:\n"
     "      C[i] = C[i] + A[k]\n",
     {300, 300}},
    {"squares, and a scale",
     "lowered func f(A: f32[3000], S: f32[3], C: f32[3] output):\n"
     "  for i in 3:\n"
     "    C[i] = 0.0\n"
     "    for k in 1000:\n"
     "      C[i] = C[i] + A[i * 1000 + k] * A[i * 1000 + k] * S[i]\n",
     {3000, 3, 3}},
    {"several updates of one buffer",
     "lowered func f(A: f32[3000], C: f32[2] output):\n"
     "  C[0] = 0.0\n"
     "  C[1] = 0.0\n"
     "  for k in 1000:\n"
     "    C[0] = C[0] + A[k]\n"
     "    C[1] = C[1] + A[k + 1000]\n"
     "    C[0] = C[0] + A[k + 2000]\n",
     {3000, 2}},
    {"unrolled",
     "lowered func f(A: f32[200], C: f32[1] output):\n"
     "  allocate R: f32[1] @register\n"
     "  R[0] = 0.0\n"
     "  for k in 200 unrolled:\n"
     "    R[0] = R[0] + A[k]\n"
     "  C[0] = R[0]\n",
     {200, 1}},
};

TEST(CascadeSums, ComputesTheSame) {
  for (const Shape& shape : kSums) {
    SCOPED_TRACE(shape.name);
    std::vector<std::vector<float>> arrays;
    for (const size_t size : shape.sizes) arrays.push_back(integers(size));
    arrays.back().assign(shape.sizes.back(), -1.0f);
    const Func func = lowered(shape.text), cut = cascade_sums(func);
    EXPECT_NE(to_text(cut).find("_part"), std::string::npos) << to_text(cut);
    EXPECT_EQ(result_of(func, arrays), result_of(cut, arrays)) << to_text(cut);
    EXPECT_EQ(to_text(cascade_sums(cut)), to_text(cut)) << "nothing is left to cut";
  }
}

// A term that is so small that an accumulator of more than this many others loses it shows how long the sums are.
TEST(CascadeSums, NoAccumulatorTakesManyTerms) {
  for (const int64_t n : {65, 1000, 25600, 307200, 1 << 20}) {
    const std::string size = std::to_string(n);
    const Func cut =
        cascade_sums(lowered("lowered func f(A: f32[" + size + "], C: f32[1] output):\n  C[0] = 0.0\n  for k in " +
                             size + ":\n    C[0] = C[0] + A[k]\n"));
    std::vector<float> terms(static_cast<size_t>(n));
    double exact = 0;
    for (size_t i = 0; i < terms.size(); ++i) {
      terms[i] = 1000.0f + static_cast<float>(i * 2654435761u % 100003) / 100003.0f;
      exact += terms[i];
    }
    const double sum = result_of(cut, {terms, {0.0f}})[0];
    EXPECT_LE(std::abs(sum - exact) / exact, 2e-7) << n;
  }
}

TEST(CascadeSums, LoopsWithoutTurnsAreLeft) {
  const Func func = lowered(
      "lowered func f(A: f32[1], C: f32[1] output):\n"
      "  C[0] = 0.0\n"
      "  for k in 0:\n"
      "    for l in 0:\n"
      "      C[0] = C[0] + A[k + l]\n");
  EXPECT_EQ(to_text(cascade_sums(func)), to_text(func));
}

TEST(CascadeSums, LeavesProductsAndShortSums) {
  for (const char* body : {"for k in 4000: C[0] = C[0] + A[k] * B[k]", "for k in 64: C[0] = C[0] + A[k]",
                           "for k in 4000: C[0] = max(C[0], A[k])", "for k in 4000: C[k] = C[k] + A[k]",
                           "for k in 4000: C[0] = C[0] + select(k < 30, A[k], 0.0) * B[k]"}) {
    std::string text = "lowered func f(A: f32[4000], B: f32[4000], C: f32[4000] output):\n  ";
    const std::string line = body;
    const size_t colon = line.find(": ");
    text += line.substr(0, colon) + ":\n    " + line.substr(colon + 2) + "\n";
    const Func func = lowered(text);
    EXPECT_EQ(to_text(cascade_sums(func)), to_text(func));
  }
}

// What the loop also reads, or sets anew in each turn, is no sum over the loop.
TEST(CascadeSums, LeavesWhatIsReadInBetween) {
  for (const char* rest : {"    D[k] = C[0]\n", "    if k < 10:\n      D[k] = C[0] * 2.0\n"}) {
    const Func func =
        lowered(std::string("lowered func f(A: f32[1000], C: f32[1], D: f32[1000] output):\n  for k in 1000:\n"
                            "    C[0] = C[0] + A[k]\n") +
                rest);
    EXPECT_EQ(to_text(cascade_sums(func)), to_text(func));
  }
}

}  // namespace
}  // namespace fettle
