#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <random>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "analysis/verify.h"
#include "ir/text.h"
#include "lower/lower.h"
#include "measure/local_kernel.h"
#include "schedule/testing.h"
#include "te/create_func.h"
#include "te/tensor.h"
#include "tune/space/open_workloads.h"
#include "tune/space/space.h"

namespace fettle {
namespace {

using Indices = std::vector<Var>;

struct Types {
  DType a, b, sum;
};
constexpr Types kBytes{kU8, kI8, kI32}, kSignedBytes{kI8, kI8, kI32}, kBrain{kBF16, kBF16, kF32};
constexpr Types kUnsignedBytes{kU8, kU8, kI32}, kSwappedBytes{kI8, kU8, kI32};

struct MatmulSpec {
  Expr m;
  int64_t n, k;
  Types types = kBytes;
  bool transpose_a = false, transpose_b = false;
  bool constant = true;
  bool relu = false;
  int64_t batch = 0;
  std::vector<IntParam> sizes = {};
};

Func matmul(const MatmulSpec& p) {
  const auto shape = [&](const Expr& x, const Expr& y, bool swap) {
    std::vector<Expr> extents = {swap ? y : x, swap ? x : y};
    if (p.batch > 0) extents.insert(extents.begin(), Expr(p.batch));
    return extents;
  };
  const auto at = [&](const Indices& i, Expr x, Expr y, bool swap) {
    std::vector<Expr> index = {swap ? y : x, swap ? x : y};
    if (p.batch > 0) index.insert(index.begin(), Expr(i[0]));
    return index;
  };
  te::Tensor a = te::placeholder(shape(p.m, p.k, p.transpose_a), p.types.a, "A");
  te::Tensor b = te::placeholder(shape(p.k, p.n, p.transpose_b), p.types.b, "B");
  te::ReduceAxis k = te::reduce_axis(p.k, "k");
  te::Tensor c = te::compute(
      shape(p.m, p.n, false),
      [&](const Indices& i) {
        const Expr row = i[i.size() - 2], column = i[i.size() - 1];
        return te::sum(cast(p.types.sum, a.at(at(i, row, k, p.transpose_a))) *
                           cast(p.types.sum, b.at(at(i, k, column, p.transpose_b))),
                       {k});
      },
      "C");
  const te::FuncOptions options{
      .input_kinds = {ParamKind::kInput, p.constant ? ParamKind::kConstant : ParamKind::kInput}, .int_params = p.sizes};
  if (!p.relu) return te::create_func("matmul", {a, b}, {c}, options);
  te::Tensor y = te::compute(
      c.shape(), [&](const Indices& i) { return max(c(i), constant(0, p.types.sum)) + constant(1, p.types.sum); }, "Y");
  return te::create_func("matmul_relu", {a, b}, {y}, options);
}

struct ConvSpec {
  Expr n = 1, h = 7, w = 9;
  int64_t ic = 8, oc = 16, kernel = 3, stride = 1, padding = 1;
  Types types = kBytes;
  bool channels_last = true;
  std::vector<IntParam> sizes = {};
};

Func conv(const ConvSpec& p) {
  const auto image = [&](Expr n, Expr c, Expr h, Expr w) {
    return p.channels_last ? std::vector<Expr>{n, h, w, c} : std::vector<Expr>{n, c, h, w};
  };
  const auto out = [&](const Expr& x) {
    return simplify(floordiv(x + (2 * p.padding - p.kernel), Expr(p.stride)) + 1);
  };
  te::Tensor x = te::placeholder(image(p.n, p.ic, p.h, p.w), p.types.a, "X");
  te::Tensor w = te::placeholder({p.oc, p.ic, p.kernel, p.kernel}, p.types.b, "W");
  te::Tensor padded = x;
  const std::vector<Expr> around = image(0, 0, p.padding, p.padding);
  if (p.padding > 0) padded = te::pad(x, around, around, constant(0, p.types.a), "padded");
  te::ReduceAxis c = te::reduce_axis(p.ic, "ic"), kh = te::reduce_axis(p.kernel, "kh"),
                 kw = te::reduce_axis(p.kernel, "kw");
  te::Tensor o = te::compute(
      image(p.n, p.oc, out(p.h), out(p.w)),
      [&](const Indices& i) {
        const Expr oc = p.channels_last ? i[3] : i[1], oh = p.channels_last ? i[1] : i[2],
                   ow = p.channels_last ? i[2] : i[3];
        return te::sum(cast(p.types.sum, padded.at(image(i[0], c, oh * p.stride + kh, ow * p.stride + kw))) *
                           cast(p.types.sum, w(oc, c, kh, kw)),
                       {c, kh, kw});
      },
      "O");
  return te::create_func("conv", {x, w}, {o},
                         {.input_kinds = {ParamKind::kInput, ParamKind::kConstant}, .int_params = p.sizes});
}

// A machine like the one of the psABI's level, with what the intrinsics need.
std::shared_ptr<const Target> with_features(const char* name, const char* features) {
  Target target = parse_target(name).value();
  target.features += features;
  return std::make_shared<const Target>(target);
}
std::shared_ptr<const Target> vnni() { return with_features("x86-64-avx512", ",+avx512bf16,+avx512vnni"); }

bool has_all(const Target& target) {
  const Target host = detect_host(1);
  for (const char* feature : {"avx2", "avxvnni", "avx512vnni", "avx512bf16", "amx-tile"})
    if (target.has_feature(feature) && !host.has_feature(feature)) return false;
  return target.arch == host.arch && host.vector_bits >= target.vector_bits;
}

// Random content: all bytes there are; small integers where numbers are bf16, so that every sum is exact.
std::vector<std::byte> content(const LocalKernel& kernel, int param, std::mt19937& random) {
  const DType type = kernel.param(param).buffer->dtype;
  std::vector<std::byte> bytes(static_cast<size_t>(kernel.logical_elems(param) * type.element_bytes()));
  if (type == kBF16) {
    for (size_t i = 0; i < bytes.size(); i += 2) {
      const auto bits = static_cast<uint16_t>(
          std::bit_cast<uint32_t>(static_cast<float>(static_cast<int>(random() % 31) - 15)) >> 16);
      std::memcpy(bytes.data() + i, &bits, 2);
    }
  } else {
    for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
  }
  return bytes;
}

std::vector<std::byte> result_of(const Func& func, const Target& target, bool plain,
                                 const std::vector<int64_t>& sizes = {}) {
  auto kernel = LocalKernel::build(func, target, {.ints = sizes, .plain = plain});
  EXPECT_TRUE(kernel) << testing::error_text(kernel.error());
  if (!kernel) return {};
  std::mt19937 random(11);
  int output = -1;
  for (int p = 0; p < kernel->n_params(); ++p) {
    if (kernel->param(p).kind == ParamKind::kOutput)
      output = p;
    else
      kernel->set_logical_bytes(p, content(*kernel, p, random));
  }
  EXPECT_TRUE(kernel->run_prologue());
  EXPECT_TRUE(kernel->run());
  return kernel->logical_bytes(output);
}

// The default uses the intrinsic, means the same, and computes the same.
void expect_tensorized(const Func& func, const std::shared_ptr<const Target>& target, const std::string& intrinsic,
                       bool interpret = true) {
  const auto s = default_schedule(func, target, 1);
  ASSERT_TRUE(s) << testing::error_text(s.error());
  const std::string text = to_text(s->func());
  EXPECT_NE(text.find("tensorize = \"" + intrinsic), std::string::npos) << text;
  const auto verified = verify(s->func(), *target);
  ASSERT_TRUE(verified) << testing::error_text(verified.error());
  const auto lowered = lower(s->func(), *target);
  ASSERT_TRUE(lowered) << testing::error_text(lowered.error());
  const std::string code = to_text(lowered->kernel);
  EXPECT_NE(code.find("llvm."), std::string::npos) << code;
  if (interpret) {
    EXPECT_TRUE(testing::same_result(func, s->func()));
  }
  if (has_all(*target)) {
    EXPECT_EQ(result_of(s->func(), *target, false), result_of(func, *target, true)) << code;
  }
}

TEST(MultiLevelTilingWithIntrin, Matmul) {
  expect_tensorized(matmul({.m = 24, .n = 64, .k = 32}), vnni(), "vpdpbusd_512");
  expect_tensorized(matmul({.m = 24, .n = 64, .k = 32, .relu = true}), vnni(), "vpdpbusd_512");
  expect_tensorized(matmul({.m = 24, .n = 64, .k = 32, .types = kSignedBytes}), vnni(), "vpdpbusd_s8_512");
  expect_tensorized(matmul({.m = 24, .n = 64, .k = 32, .types = kBrain}), vnni(), "vdpbf16ps_512");
}

TEST(MultiLevelTilingWithIntrin, PadsWhatDoesNotDivide) {
  for (const Types& types : {kBytes, kSignedBytes, kBrain}) {
    const char* intrinsic = types.b == kBF16 ? "vdpbf16ps_512" : types.a == kU8 ? "vpdpbusd_512" : "vpdpbusd_s8_512";
    expect_tensorized(matmul({.m = 19, .n = 37, .k = 11, .types = types}), vnni(), intrinsic);
    expect_tensorized(matmul({.m = 1, .n = 70, .k = 33, .types = types, .relu = true}), vnni(), intrinsic);
    expect_tensorized(matmul({.m = 13, .n = 17, .k = 5, .types = types, .constant = false}), vnni(), intrinsic);
  }
}

TEST(MultiLevelTilingWithIntrin, EveryOrderOfTheOperands) {
  for (const bool transpose_a : {false, true})
    for (const bool transpose_b : {false, true})
      for (const bool constant : {false, true})
        for (const int64_t k : {16, 13})
          expect_tensorized(matmul({.m = 10,
                                    .n = 32,
                                    .k = k,
                                    .transpose_a = transpose_a,
                                    .transpose_b = transpose_b,
                                    .constant = constant}),
                            vnni(), "vpdpbusd_512");
}

TEST(MultiLevelTilingWithIntrin, BatchedMatmul) {
  for (const bool transpose_b : {false, true})
    for (const int64_t n : {32, 21})
      expect_tensorized(matmul({.m = 10, .n = n, .k = 16, .transpose_b = transpose_b, .constant = false, .batch = 3}),
                        vnni(), "vpdpbusd_512");
  expect_tensorized(matmul({.m = 7, .n = 19, .k = 9, .types = kBrain, .constant = false, .batch = 2}), vnni(),
                    "vdpbf16ps_512");
}

TEST(MultiLevelTilingWithIntrin, Convolution) {
  expect_tensorized(conv({}), vnni(), "vpdpbusd_512");
  expect_tensorized(conv({.h = 9, .w = 10, .stride = 2}), vnni(), "vpdpbusd_512");
  expect_tensorized(conv({.ic = 3, .oc = 20}), vnni(), "vpdpbusd_512");
  expect_tensorized(conv({.n = 2, .ic = 6, .oc = 18, .kernel = 1, .padding = 0, .types = kBrain}), vnni(),
                    "vdpbf16ps_512");
}

// One kernel for any number of rows.
TEST(MultiLevelTilingWithIntrin, OpenRows) {
  const IntParam n = testing::size("n", 1, 128, 1, 64);
  for (const Types& types : {kBytes, kSignedBytes, kBrain})
    for (const int64_t depth : {32, 30}) {
      const auto of = [&](const Expr& m, const std::vector<IntParam>& sizes) {
        return matmul({.m = m, .n = 40, .k = depth, .types = types, .relu = true, .sizes = sizes});
      };
      const auto s = default_schedule(of(n.var, {n}), vnni(), 1);
      ASSERT_OK(s);
      EXPECT_NE(to_text(s->func()).find("tensorize = "), std::string::npos) << to_text(s->func());
      EXPECT_OK(verify(s->func(), *vnni()));
      if (!has_all(*vnni())) continue;
      for (const int64_t rows : {1, 2, 3, 7, 8, 13, 16, 17, 31, 64, 100})
        EXPECT_EQ(result_of(s->func(), *vnni(), false, {rows}), result_of(of(rows, {}), *vnni(), true)) << rows;
    }
}

// Of an image's pixels, too.
TEST(MultiLevelTilingWithIntrin, OpenImages) {
  const std::vector<IntParam> sizes = {testing::size("h", 1, 128, 1, 16), testing::size("w", 1, 128, 1, 16)};
  const auto of = [&](const Expr& h, const Expr& w, const std::vector<IntParam>& open) {
    return conv({.h = h, .w = w, .ic = 16, .oc = 32, .kernel = 1, .padding = 0, .sizes = open});
  };
  const auto s = default_schedule(of(sizes[0].var, sizes[1].var, sizes), vnni(), 1);
  ASSERT_OK(s);
  EXPECT_NE(to_text(s->func()).find("tensorize = "), std::string::npos) << to_text(s->func());
  if (!has_all(*vnni())) return;
  for (const auto& [h, w] : {std::pair<int64_t, int64_t>{1, 1}, {2, 17}, {13, 7}, {31, 8}, {3, 64}})
    EXPECT_EQ(result_of(s->func(), *vnni(), false, {h, w}), result_of(of(h, w, {}), *vnni(), true)) << h << " " << w;
}

TEST(MultiLevelTilingWithIntrin, OtherMachines) {
  const auto avx_vnni = with_features("x86-64-avx2", ",+avxvnni");
  expect_tensorized(matmul({.m = 19, .n = 37, .k = 11}), avx_vnni, "vpdpbusd_256");
  expect_tensorized(matmul({.m = 19, .n = 40, .k = 12, .types = kSignedBytes}), avx_vnni, "vpmaddwd_s8_256");
  const auto avx512 = with_features("x86-64-avx512", "");
  expect_tensorized(matmul({.m = 19, .n = 37, .k = 11}), avx512, "vpmaddwd_s16s8_512");
  expect_tensorized(conv({.types = kUnsignedBytes}), avx512, "vpmaddwd_s16u8_512");
  const auto dotprod = with_features("aarch64-dotprod", "");
  expect_tensorized(matmul({.m = 19, .n = 37, .k = 11}), dotprod, "neon_usdot");
  expect_tensorized(matmul({.m = 19, .n = 37, .k = 11, .types = kSignedBytes}), dotprod, "neon_sdot");
  expect_tensorized(matmul({.m = 19, .n = 37, .k = 11, .types = kSignedBytes}), with_features("aarch64-neon", ""),
                    "neon_smull");
}

// Without a dot product of bytes the rows' operand becomes numbers of 16 bits, once for all columns.
TEST(MultiLevelTilingWithIntrin, PairsOf16Bits) {
  const auto avx2 = with_features("x86-64-avx2", "");
  for (const Types& types : {kBytes, kSignedBytes, kUnsignedBytes, kSwappedBytes}) {
    const char* intrinsic = types.b == kI8 ? "vpmaddwd_s16s8_256" : "vpmaddwd_s16u8_256";
    SCOPED_TRACE(intrinsic);
    expect_tensorized(matmul({.m = 24, .n = 64, .k = 32, .types = types, .relu = true}), avx2, intrinsic);
    for (const bool constant : {false, true}) {
      expect_tensorized(matmul({.m = 19, .n = 37, .k = 11, .types = types, .constant = constant}), avx2, intrinsic);
      expect_tensorized(
          matmul({.m = 10, .n = 21, .k = 16, .types = types, .transpose_a = true, .constant = constant, .batch = 3}),
          avx2, intrinsic);
    }
    expect_tensorized(matmul({.m = 1, .n = 70, .k = 33, .types = types}), avx2, intrinsic);
    expect_tensorized(conv({.types = types}), avx2, intrinsic);
    expect_tensorized(conv({.n = 2, .h = 9, .w = 10, .ic = 5, .oc = 20, .stride = 2, .types = types}), avx2, intrinsic);
  }
  // Largest sums: 255 * 127 twice does not fit into 16 bits.
  expect_tensorized(matmul({.m = 130, .n = 200, .k = 1024}), avx2, "vpmaddwd_s16s8_256", false);
  expect_tensorized(conv({.h = 28, .w = 28, .ic = 64, .oc = 64}), avx2, "vpmaddwd_s16s8_256", false);
  // What lies pixel beside pixel has its weights as rows.
  expect_tensorized(conv({.ic = 16, .oc = 24, .kernel = 1, .padding = 0, .channels_last = false}), avx2,
                    "vpmaddwd_s16u8_256");

  const auto s = default_schedule(matmul({.m = 120, .n = 128, .k = 256}), avx2, 1);
  ASSERT_OK(s);
  const std::string trace = to_text(s->trace());
  EXPECT_NE(trace.find("set_dtype"), std::string::npos) << trace;
  EXPECT_NE(trace.find("tile: 6x2"), std::string::npos) << trace;
}

// One kernel for any number of rows, whose copies have as many.
TEST(MultiLevelTilingWithIntrin, OpenRowsOf16Bits) {
  const auto avx2 = with_features("x86-64-avx2", "");
  const IntParam n = testing::size("n", 1, 128, 1, 64);
  for (const int64_t depth : {32, 29}) {
    const auto of = [&](const Expr& m, const std::vector<IntParam>& sizes) {
      return matmul({.m = m, .n = 40, .k = depth, .relu = true, .sizes = sizes});
    };
    const auto s = default_schedule(of(n.var, {n}), avx2, 1);
    ASSERT_OK(s);
    EXPECT_NE(to_text(s->func()).find("tensorize = "), std::string::npos) << to_text(s->func());
    EXPECT_OK(verify(s->func(), *avx2));
    if (!has_all(*avx2)) continue;
    for (const int64_t rows : {1, 2, 3, 7, 16, 31, 100})
      EXPECT_EQ(result_of(s->func(), *avx2, false, {rows}), result_of(of(rows, {}), *avx2, true)) << rows;
  }
}

// Against plain code, where the interpreter would take too long.
TEST(MultiLevelTilingWithIntrin, LargeOnes) {
  expect_tensorized(matmul({.m = 197, .n = 300, .k = 770}), vnni(), "vpdpbusd_512", false);
  expect_tensorized(matmul({.m = 130, .n = 500, .k = 258, .types = kBrain}), vnni(), "vdpbf16ps_512", false);
  expect_tensorized(conv({.h = 28, .w = 28, .ic = 64, .oc = 64}), vnni(), "vpdpbusd_512", false);
}

TEST(MultiLevelTilingWithIntrin, PointsOfTheSpaceComputeTheSame) {
  const auto target = vnni();
  const Func func = matmul({.m = 19, .n = 70, .k = 27, .relu = true});
  for (uint64_t seed = 0; seed < 12; ++seed) {
    const auto s = rule_space().generate(func, target, 1, seed, nullptr);
    ASSERT_TRUE(s) << testing::error_text(s.error());
    EXPECT_TRUE(testing::same_result(func, s->func())) << seed;
    if (has_all(*target)) {
      EXPECT_EQ(result_of(s->func(), *target, false), result_of(func, *target, true)) << seed;
    }
  }
}

// The tile unit: sums of whole grids of tiles stay in its registers.
TEST(MultiLevelTilingWithIntrin, MatricesByTheTileUnit) {
  const auto amx = with_features("x86-64-amx", "");
  for (const Types& types : {kBytes, kSignedBytes, kBrain, Types{kI8, kU8, kI32}, Types{kU8, kU8, kI32}}) {
    const std::string name = types.b == kBF16 ? "amx_bf16"
                             : types.a == kU8 ? (types.b == kU8 ? "amx_u8u8" : "amx_u8s8")
                             : types.b == kU8 ? "amx_s8u8"
                                              : "amx_s8s8";
    SCOPED_TRACE(name);
    expect_tensorized(matmul({.m = 32, .n = 64, .k = 128, .types = types}), amx, name + "_stream_b");
    expect_tensorized(matmul({.m = 64, .n = 32, .k = 128, .types = types, .relu = true}), amx, name + "_stream_a");
  }
  // Sums and results pass through the first-level cache where something is done with them.
  const auto s = default_schedule(matmul({.m = 64, .n = 64, .k = 64, .relu = true}), amx, 1);
  ASSERT_OK(s);
  const std::string code = to_text(lower(s->func(), *amx).value().kernel);
  EXPECT_NE(code.find("llvm.x86.tdpbusd"), std::string::npos) << code;
  EXPECT_NE(code.find("llvm.x86.tileloaddt164"), std::string::npos) << code;
}

TEST(MultiLevelTilingWithIntrin, TilesOfEveryShape) {
  const auto amx = with_features("x86-64-amx", "");
  for (const Types& types : {kBytes, kBrain})
    for (const auto& [m, n, k] : {std::array<int64_t, 3>{17, 33, 70},
                                  {12, 19, 65},
                                  {48, 16, 64},
                                  {16, 48, 96},
                                  {80, 80, 33},
                                  {33, 100, 130},
                                  {100, 9, 100}}) {
      SCOPED_TRACE(fmt::format("{}x{}x{}", m, n, k));
      for (const bool relu : {false, true})
        for (const bool constant : {false, true})
          expect_tensorized(matmul({.m = m, .n = n, .k = k, .types = types, .constant = constant, .relu = relu}), amx,
                            types.b == kBF16 ? "amx_bf16" : "amx_u8s8", m * n * k < 40000);
    }
  for (const bool transpose_a : {false, true})
    for (const bool transpose_b : {false, true})
      expect_tensorized(
          matmul({.m = 40, .n = 30, .k = 50, .transpose_a = transpose_a, .transpose_b = transpose_b, .batch = 2}), amx,
          "amx_u8s8", false);
}

// Windows are copied into a matrix, but for few columns: dot products read those in place.
TEST(MultiLevelTilingWithIntrin, ConvolutionsByTheTileUnit) {
  const auto amx = with_features("x86-64-amx", "");
  expect_tensorized(conv({.h = 5, .w = 18, .ic = 64, .oc = 40}), amx, "amx_u8s8", false);
  expect_tensorized(conv({.n = 2, .h = 6, .w = 20, .ic = 64, .oc = 32, .kernel = 1, .padding = 0}), amx, "amx_u8s8",
                    false);
  expect_tensorized(conv({.n = 2, .h = 9, .w = 7, .ic = 40, .oc = 33, .stride = 2}), amx, "amx_u8s8", false);
  expect_tensorized(conv({.h = 7, .w = 7, .ic = 33, .oc = 32, .kernel = 2, .padding = 0}), amx, "amx_u8s8");
  expect_tensorized(conv({.h = 6, .w = 8, .ic = 36, .oc = 48, .kernel = 2, .types = kBrain}), amx, "amx_bf16", false);
  expect_tensorized(conv({.h = 5, .w = 18, .ic = 64, .oc = 24}), amx, "vpdpbusd_", false);
}

TEST(MultiLevelTilingWithIntrin, LargeOnesByTheTileUnit) {
  const auto amx = with_features("x86-64-amx", "");
  expect_tensorized(matmul({.m = 197, .n = 300, .k = 770}), amx, "amx_u8s8", false);
  expect_tensorized(matmul({.m = 130, .n = 500, .k = 1258, .types = kBrain, .relu = true}), amx, "amx_bf16", false);
}

TEST(MultiLevelTilingWithIntrin, PointsOfTheTileUnitsSpaceComputeTheSame) {
  const auto amx = with_features("x86-64-amx", "");
  const Func func = matmul({.m = 90, .n = 70, .k = 150, .types = kBrain, .relu = true});
  for (uint64_t seed = 0; seed < 16; ++seed) {
    const auto s = rule_space().generate(func, amx, 1, seed, nullptr);
    ASSERT_TRUE(s) << testing::error_text(s.error());
    EXPECT_OK(verify(s->func(), *amx)) << seed;
    if (has_all(*amx)) {
      EXPECT_EQ(result_of(s->func(), *amx, false), result_of(func, *amx, true)) << seed;
    }
  }
}

TEST(MultiLevelTilingWithIntrin, LeavesOthersAlone) {
  const auto uses_none = [](const Func& func, const std::shared_ptr<const Target>& target) {
    const auto s = default_schedule(func, target, 1);
    return s && to_text(s->func()).find("tensorize") == std::string::npos;
  };
  EXPECT_TRUE(uses_none(matmul({.m = 24, .n = 64, .k = 32, .types = {kF32, kF32, kF32}}), vnni()));
  EXPECT_TRUE(uses_none(matmul({.m = 24, .n = 64, .k = 1}), vnni()));
  EXPECT_TRUE(uses_none(matmul({.m = 24, .n = 3, .k = 64}), vnni()));
}

}  // namespace
}  // namespace fettle
