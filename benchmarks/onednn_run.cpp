// One operator by oneDNN, on arrays in files: what bench_numerics.py compares with.

#include <fmt/format.h>

#include <cstdio>
#include <string>

#include "harness/onednn.h"
#include "runtime/npy.h"

namespace fettle::bench {
namespace {

constexpr const char* kUsage =
    "usage: onednn-run matmul A.npy B.npy OUT.npy\n"
    "       onednn-run conv X.npy WEIGHTS.npy OUT.npy    stride 1, padded to the size of the input\n";

Result<Tensor> read_f32(const char* path, size_t rank) {
  FETTLE_TRY(Tensor tensor, read_npy(path));
  if (tensor.dtype() != FETTLE_F32 || tensor.shape().size() != rank)
    return fail(ErrorCode::E705, fmt::format("not f32 of rank {}", rank), path);
  return tensor;
}

Result<> run(char** arguments) {
  const std::string what = arguments[0];
  const bool conv = what == "conv";
  if (!conv && what != "matmul") return fail(ErrorCode::E709, "neither matmul nor conv", what);
  FETTLE_TRY(Tensor x, read_f32(arguments[1], conv ? 4 : 2));
  FETTLE_TRY(Tensor w, read_f32(arguments[2], conv ? 4 : 2));
  const auto &a = x.shape(), &b = w.shape();
  if (conv ? b[1] != a[1] || b[2] != b[3] || b[2] % 2 == 0 : a[1] != b[0])
    return fail(ErrorCode::E705, "the shapes do not fit each other", arguments[2]);
  const ConvProblem convolution{.batch = a[0],
                                .channels_in = a[1],
                                .height = conv ? a[2] : 1,
                                .width = conv ? a[3] : 1,
                                .channels_out = b[0],
                                .kernel = conv ? b[2] : 1,
                                .padding = conv ? b[2] / 2 : 0};
  FETTLE_TRY(OnednnOp op,
             conv ? OnednnOp::convolution(convolution) : OnednnOp::matmul({.m = a[0], .n = b[1], .k = a[1]}));
  FETTLE_TRY(Tensor y, Tensor::make(FETTLE_F32, conv ? std::vector<int64_t>{a[0], b[0], a[2], a[3]}
                                                     : std::vector<int64_t>{a[0], b[1]}));
  op.load(x.elems<float>(), w.elems<float>(), {});
  op.run();
  op.store(y.elems<float>());
  FETTLE_TRY_VOID(write_npy(arguments[3], y));
  fmt::print("oneDNN {} {}\n", onednn_version(), op.implementation());
  return {};
}

}  // namespace
}  // namespace fettle::bench

int main(int argc, char** argv) {
  if (argc != 5) {
    fmt::print(stderr, "{}", fettle::bench::kUsage);
    return 2;
  }
  if (const auto done = fettle::bench::run(argv + 1); !done) {
    fmt::print(stderr, "onednn-run: {}\n", done.error().to_string());
    return 1;
  }
  return 0;
}
