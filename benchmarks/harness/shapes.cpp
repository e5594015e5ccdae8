#include "harness/shapes.h"

#include <fmt/format.h>

namespace fettle::bench {
namespace {

Shape matmul(std::int64_t m, std::int64_t n, std::int64_t k, double hand_of_peak) {
  const bool cube = m == n && n == k;
  return {.name = cube ? fmt::format("GEMM {}^3", m) : fmt::format("GEMM {}x{}x{}", m, n, k),
          .matmul = MatmulProblem{.m = m, .n = n, .k = k},
          .conv = {},
          .hand_of_peak = hand_of_peak};
}

/// A square image with the padding that keeps its size but for the stride.
Shape conv(std::int64_t size, std::int64_t channels_in, std::int64_t channels_out, std::int64_t kernel,
           std::int64_t stride) {
  const std::string strided = stride == 1 ? "" : fmt::format("/{}", stride);
  return {.name = fmt::format("conv {}x{}{} {}^2 {}->{}", kernel, kernel, strided, size, channels_in, channels_out),
          .matmul = {},
          .conv = ConvProblem{.channels_in = channels_in,
                              .height = size,
                              .width = size,
                              .channels_out = channels_out,
                              .kernel = kernel,
                              .stride = stride,
                              .padding = kernel / 2}};
}

/// One filter a channel.
Shape depthwise(std::int64_t height, std::int64_t width, std::int64_t channels, std::int64_t kernel) {
  const std::string size = height == width ? fmt::format("{}^2", height) : fmt::format("{}x{}", height, width);
  return {.name = fmt::format("depthwise {}x{} {} {}", kernel, kernel, size, channels),
          .matmul = {},
          .conv = ConvProblem{.channels_in = channels,
                              .height = height,
                              .width = width,
                              .channels_out = channels,
                              .kernel = kernel,
                              .padding = kernel / 2,
                              .groups = channels}};
}

}  // namespace

double Shape::flops() const { return matmul ? bench::flops(*matmul) : bench::flops(*conv); }

const std::vector<Shape>& core_shapes() {
  static const std::vector<Shape> shapes = {
      matmul(512, 512, 512, 97), matmul(1024, 1024, 1024, 97), matmul(2048, 2048, 2048, 95), matmul(197, 768, 768, 96),
      matmul(40, 6625, 120, 96), matmul(77, 768, 3072, 96),    conv(56, 64, 64, 3, 1),       conv(28, 128, 128, 3, 1),
      conv(14, 256, 256, 3, 1),  conv(7, 512, 512, 3, 1),      conv(56, 64, 256, 1, 1),      conv(224, 3, 64, 7, 2),
  };
  return shapes;
}

const std::vector<Shape>& depthwise_shapes() {
  static const std::vector<Shape> shapes = {depthwise(112, 112, 96, 3), depthwise(14, 14, 384, 3),
                                            depthwise(24, 160, 48, 5), depthwise(12, 80, 240, 5)};
  return shapes;
}

}  // namespace fettle::bench
