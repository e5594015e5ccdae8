#pragma once
// Checks the points of a space by their kernels: what these compute on this machine, and what they keep of constants.

#include <algorithm>
#include <cmath>
#include <vector>

#include "lower/lower.h"
#include "measure/local_kernel.h"
#include "tune/space/testing.h"

namespace fettle::testing {

/// The first output, of f32.
inline std::vector<float> computed_by(const Func& scheduled, const Target& target, LocalKernelOptions options) {
  auto kernel = LocalKernel::build(scheduled, target, options);
  EXPECT_TRUE(kernel) << (kernel ? "" : error_text(kernel.error()));
  if (!kernel) return {};
  EXPECT_OK(kernel->run());
  for (int p = 0; p < kernel->n_params(); ++p)
    if (kernel->param(p).kind == ParamKind::kOutput) return kernel->logical<float>(p);
  return {};
}

/// As the program as it was written, but for the order of sums. `ints`: the program's integer parameters.
inline void expect_same_kernel(const Func& func, const Schedule& s, const Target& target, int threads,
                               const std::vector<int64_t>& ints) {
  const std::vector<float> expected = computed_by(func, target, {.ints = ints, .plain = true});
  const std::vector<float> computed = computed_by(s.func(), target, {.threads = threads, .ints = ints});
  float scale = 0;
  for (const float x : expected) scale = std::max(scale, std::abs(x));
  ASSERT_EQ(expected.size(), computed.size());
  for (size_t i = 0; i < expected.size(); ++i)
    ASSERT_NEAR(expected[i], computed[i], 2e-5 * scale) << i << "\n" << to_text(func) << to_text(s.trace());
}

/// Of what the prologue makes of the program's constants.
inline int64_t bytes_of_constants(const Schedule& made, const Target& target) {
  const auto lowered = lower(made.func(), target);
  EXPECT_OK(lowered);
  int64_t bytes = 0;
  for (size_t p = made.func()->params.size(); p < lowered->kernel_params.size(); ++p) {
    const BufferNode& buffer = *lowered->kernel_params[p].buffer;
    bytes += elements(buffer) * buffer.dtype.element_bytes();
  }
  return bytes;
}

}  // namespace fettle::testing
