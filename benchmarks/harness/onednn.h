#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "base/result.h"
#include "harness/paired.h"

namespace fettle::bench {

/// C[m,n] = A[m,k] B[k,n], then bias[n] added and max(., 0) taken where asked for. fp32, row-major outside.
struct MatmulProblem {
  std::int64_t m = 1;
  std::int64_t n = 1;
  std::int64_t k = 1;
  bool bias = false;
  bool relu = false;
};

/// 2-d convolution, fp32; outside, activations are NCHW, weights OIHW (O, I/groups, H, W), bias is by output channel.
/// Padding is the same at both ends of an axis.
struct ConvProblem {
  std::int64_t batch = 1;
  std::int64_t channels_in = 1;
  std::int64_t height = 1;
  std::int64_t width = 1;
  std::int64_t channels_out = 1;
  std::int64_t kernel = 1;
  std::int64_t stride = 1;
  std::int64_t padding = 0;
  std::int64_t groups = 1;
  bool bias = false;
  bool relu = false;

  std::int64_t height_out() const { return (height + 2 * padding - kernel) / stride + 1; }
  std::int64_t width_out() const { return (width + 2 * padding - kernel) / stride + 1; }
};

/// Multiply-adds times two, taps in the padding counted (nominal), bias and relu not.
double flops(const MatmulProblem& problem);
double flops(const ConvProblem& problem);

/// One operator of oneDNN, ready to run. oneDNN chooses every layout (`format_tag::any`); what brings the plain tensors
/// into its layouts and back happens in `load` and `store` and is not part of a run. Weights are constant: reordered
/// once.
class OnednnOp {
 public:
  /// threads: of OpenMP; each run sets the number, so operators of different counts can live together.
  /// Errors: E708 where oneDNN refuses.
  static Result<OnednnOp> matmul(const MatmulProblem& problem, int threads = 1);
  static Result<OnednnOp> convolution(const ConvProblem& problem, int threads = 1);

  OnednnOp(OnednnOp&&) noexcept;
  OnednnOp& operator=(OnednnOp&&) noexcept;
  ~OnednnOp();

  /// Sets the operands from plain tensors. bias is empty where the problem has none. Before the first call, they hold
  /// reproducible values in [-1, 1).
  void load(std::span<const float> source, std::span<const float> weights, std::span<const float> bias);

  /// Does the work once and waits for its end.
  void run();

  /// Copies the result of the last run into a plain tensor.
  void store(std::span<float> destination);

  double flops() const;
  /// oneDNN's name of the kernel it chose, e.g. "brg:avx512_core".
  std::string implementation() const;
  /// The operator as a contender, which keeps what it needs of it.
  Contender contender(std::string name = "oneDNN");

 private:
  struct State;
  explicit OnednnOp(std::unique_ptr<State> state);
  std::shared_ptr<State> state_;
};

/// "3.2.0".
std::string onednn_version();

}  // namespace fettle::bench
