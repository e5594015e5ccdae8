#include "graph/plan/shapes.h"

#include <gtest/gtest.h>

#include "ir/text.h"

namespace fettle {
namespace {

Func parsed(const std::string& text) {
  auto func = parse_func(text);
  EXPECT_TRUE(func.has_value()) << (func ? "" : func.error().to_string());
  return *func;
}

void expect_text(const Func& func, const std::string& expected) {
  EXPECT_EQ(to_text(func), expected);
  EXPECT_TRUE(check_well_formed(func));
}

constexpr const char* kPointwise =
    R"(func f(x: f32[1, 24, 160, 16], w: f32[32, 16, 1, 1] constant, y: f32[1, 24, 160, 32] output):
  alloc conv: f32[1, 24, 160, 32]
  for n in 1:
    for h in 24:
      for w_1 in 160:
        for oc in 32:
          for ic in 16:
            for kh in 1:
              block conv(vn: spatial[1] = n, vh: spatial[24] = h, vw: spatial[160] = w_1, voc: spatial[32] = oc, vic: reduce[16] = ic, vkh: reduce[1] = kh):
                reads x[vn, vh + vkh, vw, vic], w[voc, vic, vkh, 0]
                writes conv[vn, vh, vw, voc]
                init:
                  conv[vn, vh, vw, voc] = 0.0
                conv[vn, vh, vw, voc] = conv[vn, vh, vw, voc] + x[vn, vh + vkh, vw, vic] * w[voc, vic, vkh, 0]
  for n in 1:
    for h in 24:
      for w_1 in 160:
        for oc in 32:
          block y(vn: spatial[1] = n, vh: spatial[24] = h, vw: spatial[160] = w_1, voc: spatial[32] = oc):
            reads conv[0, vh, vw, voc]
            writes y[vn, vh, vw, voc]
            y[vn, vh, vw, voc] = max(conv[0, vh, vw, voc], 0.0)
)";

TEST(Shapes, APointwiseConvolutionIsAMatrixProduct) {
  expect_text(merge_dims(drop_unit_dims(parsed(kPointwise))),
              R"(func f(x: f32[3840, 16], w: f32[32, 16] constant, y: f32[3840, 32] output):
  alloc conv: f32[3840, 32]
  for h_w_1 in 3840:
    for oc in 32:
      for ic in 16:
        block conv(vh_vw: spatial[3840] = h_w_1, voc: spatial[32] = oc, vic: reduce[16] = ic):
          reads x[vh_vw, vic], w[voc, vic]
          writes conv[vh_vw, voc]
          init:
            conv[vh_vw, voc] = 0.0
          conv[vh_vw, voc] = conv[vh_vw, voc] + x[vh_vw, vic] * w[voc, vic]
  for h_w_1 in 3840:
    for oc in 32:
      block y(vh_vw: spatial[3840] = h_w_1, voc: spatial[32] = oc):
        reads conv[vh_vw, voc]
        writes y[vh_vw, voc]
        y[vh_vw, voc] = max(conv[vh_vw, voc], 0.0)
)");
}

TEST(Shapes, WindowsKeepTheirDimensions) {
  const char* text = R"(func f(x: f32[10, 12], y: f32[10, 10] output):
  for i in 10:
    for j in 10:
      block y(vi: spatial[10] = i, vj: spatial[10] = j):
        reads x[vi, vj + 1]
        writes y[vi, vj]
        y[vi, vj] = x[vi, vj + 1]
)";
  expect_text(merge_dims(drop_unit_dims(parsed(text))), text);
}

TEST(Shapes, GapsKeepDimensionsApart) {
  const char* text = R"(func f(x: f32[4, 3, 8] strides[100, 8, 1], y: f32[4, 3, 8] output):
  for i in 4:
    for j in 3:
      for k in 8:
        block y(vi: spatial[4] = i, vj: spatial[3] = j, vk: spatial[8] = k):
          reads x[vi, vj, vk]
          writes y[vi, vj, vk]
          y[vi, vj, vk] = x[vi, vj, vk] * 2.0
)";
  expect_text(merge_dims(parsed(text)), R"(func f(x: f32[4, 24] strides[100, 1], y: f32[4, 24] output):
  for i in 4:
    for j_k in 24:
      block y(vi: spatial[4] = i, vj_vk: spatial[24] = j_k):
        reads x[vi, vj_vk]
        writes y[vi, vj_vk]
        y[vi, vj_vk] = x[vi, vj_vk] * 2.0
)");
}

// A sum of everything, whose result a block without iterators hands out.
TEST(Shapes, SumsOfEverythingAreOneLoop) {
  expect_text(merge_dims(parsed(R"(func f(x: f32[4, 24], y: f32[] output):
  alloc s: f32[]
  for i in 4:
    for j in 24:
      block s(vi: reduce[4] = i, vj: reduce[24] = j):
        reads x[vi, vj]
        writes s[]
        init:
          s[] = 0.0
        s[] = s[] + x[vi, vj]
  block y():
    reads s[]
    writes y[]
    y[] = s[]
)")),
              R"(func f(x: f32[96], y: f32[] output):
  alloc s: f32[]
  for i_j in 96:
    block s(vi_vj: reduce[96] = i_j):
      reads x[vi_vj]
      writes s[]
      init:
        s[] = 0.0
      s[] = s[] + x[vi_vj]
  block y():
    reads s[]
    writes y[]
    y[] = s[]
)");
}

TEST(Shapes, ElementwiseIsOneLoop) {
  expect_text(merge_dims(drop_unit_dims(parsed(R"(func f(x: f32[1, 4, 3, 8], y: f32[1, 4, 3, 8] output):
  for n in 1:
    for i in 4:
      for j in 3:
        for k in 8:
          block y(vn: spatial[1] = n, vi: spatial[4] = i, vj: spatial[3] = j, vk: spatial[8] = k):
            reads x[vn, vi, vj, vk]
            writes y[vn, vi, vj, vk]
            y[vn, vi, vj, vk] = x[vn, vi, vj, vk] * 2.0
)"))),
              R"(func f(x: f32[96], y: f32[96] output):
  for i_j_k in 96:
    block y(vi_vj_vk: spatial[96] = i_j_k):
      reads x[vi_vj_vk]
      writes y[vi_vj_vk]
      y[vi_vj_vk] = x[vi_vj_vk] * 2.0
)");
}

TEST(Shapes, ScalarsStay) {
  expect_text(drop_unit_dims(parsed(R"(func f(x: f32[1, 1], y: f32[1, 1] output):
  for i in 1:
    for j in 1:
      block y(vi: spatial[1] = i, vj: spatial[1] = j):
        reads x[vi, vj]
        writes y[vi, vj]
        y[vi, vj] = x[vi, vj] * 2.0
)")),
              R"(func f(x: f32[], y: f32[] output):
  for j in 1:
    block y(vj: spatial[1] = j):
      reads x[]
      writes y[]
      y[] = x[] * 2.0
)");
}

}  // namespace
}  // namespace fettle
