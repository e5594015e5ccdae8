#include "analysis/footprint.h"

#include <gtest/gtest.h>

#include <functional>
#include <set>

#include "arith/test_util.h"
#include "ir/text.h"

namespace fettle {
namespace {

Func parsed(std::string_view text) {
  Result<Func> func = parse_func(text);
  EXPECT_TRUE(func.has_value()) << (func ? "" : func.error().to_string());
  return func ? *func : Func();
}

std::vector<AccessFootprint> all_footprints(const Func& func) {
  std::vector<Buffer> buffers;
  for (const Param& param : func->params) buffers.push_back(param.buffer);
  return access_footprints_of(func, block_sites(func), buffers);
}

TEST(Footprint, TiledMatmul) {
  const Func f = parsed(R"(func matmul(A: f32[64, 128], B: f32[128, 96], C: f32[64, 96] output):
  for i in 4:
    for j in 3:
      for k in 128:
        for ii in 16:
          for jj in 32:
            block C(vi: spatial[64] = i * 16 + ii, vj: spatial[96] = j * 32 + jj, vk: reduce[128] = k):
              reads A[vi, vk], B[vk, vj]
              writes C[vi, vj]
              init:
                C[vi, vj] = 0.0
              C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]
)");
  const auto all = all_footprints(f);
  ASSERT_EQ(all.size(), 3u);
  const AccessFootprint &a = all[0], &b = all[1], &c = all[2];
  EXPECT_EQ(a.stride_elems, (std::vector<int64_t>{16 * 128, 0, 1, 128, 0}));
  EXPECT_EQ(b.stride_elems, (std::vector<int64_t>{0, 32, 96, 0, 1}));
  EXPECT_EQ(c.stride_elems, (std::vector<int64_t>{16 * 96, 32, 0, 96, 1}));
  EXPECT_EQ(a.elems, (std::vector<int64_t>{64 * 128, 16 * 128, 16 * 128, 16, 1, 1}));
  EXPECT_EQ(b.elems, (std::vector<int64_t>{128 * 96, 128 * 96, 128 * 32, 32, 32, 1}));
  EXPECT_EQ(c.elems, (std::vector<int64_t>{64 * 96, 16 * 96, 16 * 32, 16 * 32, 32, 1}));
  EXPECT_EQ(c.bytes(2), 16 * 32 * 4);
  EXPECT_TRUE(c.is_write);
}

TEST(Footprint, ConvolutionHaloAndTails) {
  const Func f = parsed(R"(func f(X: f32[30, 30], Y: f32[28, 28] output):
  for h in 4:
    for hh in 8:
      for w in 28:
        for kh in 3:
          for kw in 3:
            block Y(vh: spatial[28] = h * 8 + hh, vw: spatial[28] = w, rh: reduce[3] = kh, rw: reduce[3] = kw) where h * 8 + hh < 28:
              reads X[vh + rh, vw + rw]
              writes Y[vh, vw]
              init:
                Y[vh, vw] = 0.0
              Y[vh, vw] = Y[vh, vw] + X[vh + rh, vw + rw]
)");
  const auto all = all_footprints(f);
  EXPECT_EQ(all[0].elems[0], 900);
  EXPECT_EQ(all[0].elems[1], 10 * 30);
  EXPECT_EQ(all[0].elems[2], 3 * 30);
  EXPECT_EQ(all[0].elems[3], 9);
  EXPECT_EQ(all[0].elems[5], 1);
  EXPECT_EQ(all[1].elems[0], 28 * 28);
}

TEST(Footprint, NeverLessThanWhatIsTouched) {
  // Fused and split loops, counted by running them.
  const Func f = parsed(R"(func f(X: f32[12, 10], Y: f32[12, 10] output):
  for o in 18:
    for i in 7:
      block Y(a: spatial[12] = (o * 7 + i) // 10, b: spatial[10] = (o * 7 + i) % 10) where o * 7 + i < 120:
        reads X[a, b]
        writes Y[a, b]
        Y[a, b] = X[a, b]
)");
  const auto all = all_footprints(f);
  for (int64_t o = 0; o < 18; ++o) {
    std::set<int64_t> touched;
    for (int64_t i = 0; i < 7; ++i)
      if (o * 7 + i < 120) touched.insert(o * 7 + i);
    EXPECT_GE(all[0].elems[1], static_cast<int64_t>(touched.size()));
  }
  EXPECT_EQ(all[0].elems[0], 120);
  EXPECT_EQ(all[0].elems[1], 7);
  EXPECT_EQ(all[0].elems[2], 1);
  EXPECT_EQ(all[0].stride_elems[1], AccessFootprint::kIrregular);
}

}  // namespace
}  // namespace fettle
