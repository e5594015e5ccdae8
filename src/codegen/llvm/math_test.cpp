// The functions of lower/passes/math_functions.h as machine code, against the mathematics library in double precision.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <functional>
#include <limits>
#include <numbers>

#include "codegen/llvm/jit_module.h"
#include "codegen/llvm/llvm_codegen.h"

namespace fettle {
namespace {

/// func f(A, B, C, n): for i in n: C[16 i … ] = name(A[16 i …][, B[16 i …]]); exp2 is exp(A[…] * ln(2)).
IrModule elementwise(const std::string& name, DType type, int lanes, int args) {
  auto a = make_buffer("A", {1 << 24}, type), b = make_buffer("B", {1 << 24}, type),
       c = make_buffer("C", {1 << 24}, type);
  auto n = make_var("n"), i = make_var("i");
  const Expr at = lanes == 1 ? Expr(i) : ramp(Expr(i) * lanes, 1, lanes);
  std::vector<Expr> in{load(a, {at})};
  if (args == 2) in.push_back(load(b, {at}));
  auto func = make_ref<FuncNode>();
  func->name = "f";
  func->params = {{a}, {b}, {c, ParamKind::kOutput}};
  func->int_params = {{.var = n}};
  const bool is_exp2 = name.starts_with("exp2");
  if (name == "exp2 of at most 0")
    in[0] = select(lt(constant(0, in[0].dtype()), in[0]), constant(0, in[0].dtype()), in[0]);
  if (is_exp2) in[0] = in[0] * constant(std::numbers::ln2, in[0].dtype());
  func->body = make_for(i, 0, n, store(c, {at}, math(is_exp2 ? "exp" : name, in)));
  IrModule module;
  module.funcs["f"] = Func(func);
  return module;
}

template <class T>
struct Bits;
template <>
struct Bits<float> {
  using Int = int32_t;
};
template <>
struct Bits<double> {
  using Int = int64_t;
};

template <class T>
void run(const std::string& name, DType type, int lanes, const std::vector<T>& x, const std::vector<T>& y,
         std::vector<T>& out, const char* target_name) {
  const auto target = parse_target(target_name);
  ASSERT_TRUE(target);
  const auto object = compile_object(elementwise(name, type, lanes, y.empty() ? 1 : 2), *target);
  ASSERT_TRUE(object) << object.error().to_string();
  const auto code = JitModule::load(*object);
  ASSERT_TRUE(code) << code.error().to_string();
  ASSERT_EQ(x.size() % static_cast<size_t>(lanes), 0u);
  out.assign(x.size(), T{});
  auto* f = code->template function<void(const T*, const T*, T*, int64_t)>("f");
  ASSERT_NE(f, nullptr);
  f(x.data(), y.empty() ? x.data() : y.data(), out.data(), static_cast<int64_t>(x.size()) / lanes);
}

/// Distance from the exact value, in units of the last place of a T at that value.
template <class T>
double ulps(T got, long double exact) {
  if (std::isnan(static_cast<double>(exact))) return std::isnan(got) ? 0 : 1e9;
  if (std::isnan(got)) return 1e9;
  const T nearest = static_cast<T>(exact);
  if (std::isinf(nearest) || std::isinf(got)) return nearest == got ? 0 : 1e9;
  const T magnitude = std::max(std::fabs(nearest), std::numeric_limits<T>::min());
  const long double unit =
      static_cast<long double>(std::nextafter(magnitude, std::numeric_limits<T>::infinity())) - magnitude;
  return static_cast<double>(std::fabs(static_cast<long double>(got) - exact) / unit);
}

struct Function {
  const char* name;
  std::function<long double(long double)> exact;
  double limit_f32, limit_f64;
  double flush_below = 0;  // results smaller than this may be zero
  double domain = 1e300;   // of |x|, for sin and cos
};

const std::vector<Function>& functions() {
  static const std::vector<Function> all = {
      {"exp", [](long double x) { return std::exp(x); }, 1, 1.5},
      {"log", [](long double x) { return std::log(x); }, 1, 1.5},
      {"sigmoid", [](long double x) { return 1 / (1 + std::exp(-x)); }, 2.5, 3, 1.5e-38},
      {"tanh", [](long double x) { return std::tanh(x); }, 2.5, 3},
      {"erf", [](long double x) { return std::erf(x); }, 2, 8},
      {"rsqrt", [](long double x) { return 1 / std::sqrt(x); }, 1.5, 1.5},
      {"sin", [](long double x) { return std::sin(x); }, 1, 2, 0, 1e6},
      {"cos", [](long double x) { return std::cos(x); }, 1, 2, 0, 1e6},
  };
  return all;
}

class MathFunction : public testing::TestWithParam<size_t> {};

TEST_P(MathFunction, F32OverAllOfItsRange) {
  const Function& function = functions()[GetParam()];
  // Every 1,021st bit pattern: 4.2 million, zeros, denormals, infinities and NaNs among them.
  std::vector<float> x, out;
  for (uint64_t pattern = 0; pattern < (uint64_t{1} << 32); pattern += 1021)
    x.push_back(std::bit_cast<float>(static_cast<uint32_t>(pattern)));
  for (const float special :
       {0.0f, -0.0f, 1.0f, -1.0f, INFINITY, -INFINITY, NAN, 88.72f, 88.73f, 89.5f, -87.33f, -103.9f, -104.1f,
        std::numeric_limits<float>::min(), std::numeric_limits<float>::denorm_min()})
    x.push_back(special);
  while (x.size() % 16) x.push_back(0.5f);
  run<float>(function.name, kF32, 16, x, {}, out, "host");
  double worst = 0;
  float at = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    if (std::fabs(x[i]) > function.domain && !std::isinf(x[i])) continue;
    // long double functions are slow; doubles are exact enough here.
    const double exact = static_cast<double>(function.exact(static_cast<long double>(x[i])));
    if (out[i] == 0 && std::fabs(exact) < function.flush_below) continue;
    const double error = ulps(out[i], static_cast<long double>(exact));
    if (error > worst) {
      worst = error;
      at = x[i];
    }
  }
  RecordProperty("worst_ulp", std::to_string(worst));
  std::printf("%s f32: %.3f ulp at %a\n", function.name, worst, at);
  EXPECT_LE(worst, function.limit_f32) << function.name << " at " << at;
}

TEST_P(MathFunction, F64OnSamples) {
  const Function& function = functions()[GetParam()];
  std::vector<double> x, out;
  for (int i = 0; i < 200'000; ++i) {
    const double step = i / 200'000.0;
    x.push_back((step - 0.5) * 60);
    x.push_back(std::exp((step - 0.5) * 60) * (i % 2 ? 1 : -1));
    x.push_back((step - 0.5) * 1500);
  }
  for (const double special : {0.0, -0.0, double{INFINITY}, -double{INFINITY}, double{NAN}}) x.push_back(special);
  while (x.size() % 8) x.push_back(0.5);
  run<double>(function.name, kF64, 8, x, {}, out, "host");
  double worst = 0, at = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    if (std::fabs(x[i]) > function.domain && !std::isinf(x[i])) continue;
    const long double exact = function.exact(static_cast<long double>(x[i]));
    if (out[i] == 0 && function.flush_below > 0 && std::fabs(exact) < 1e-307L) continue;
    const double error = ulps(out[i], exact);
    if (error > worst) {
      worst = error;
      at = x[i];
    }
  }
  std::printf("%s f64: %.3f ulp at %a\n", function.name, worst, at);
  EXPECT_LE(worst, function.limit_f64) << function.name << " at " << at;
}

// All widths of a target agree. So do targets, but for exp, which takes a table where the machine has AVX-512.
TEST_P(MathFunction, EveryWidthAndTargetAgrees) {
  const Function& function = functions()[GetParam()];
  std::vector<float> x, wide, of_others, out;
  for (int i = 0; i < 4096; ++i) x.push_back(static_cast<float>((i - 2048) * 0.01));
  run<float>(function.name, kF32, 16, x, {}, wide, "host");
  run<float>(function.name, kF32, 8, x, {}, of_others, "x86-64-avx2");
  const auto expect_same = [&](const std::vector<float>& wanted, const std::string& what) {
    for (size_t i = 0; i < x.size(); ++i) {
      if (std::isnan(wanted[i]) && std::isnan(out[i])) continue;
      ASSERT_EQ(std::bit_cast<int32_t>(wanted[i]), std::bit_cast<int32_t>(out[i]))
          << function.name << ' ' << x[i] << ' ' << what;
    }
  };
  for (const int lanes : {1, 4, 8}) {
    run<float>(function.name, kF32, lanes, x, {}, out, "host");
    expect_same(wide, fmt::format("{} lanes", lanes));
    run<float>(function.name, kF32, lanes, x, {}, out, "x86-64-avx2");
    expect_same(of_others, fmt::format("{} lanes of AVX2", lanes));
  }
  if (function.name == std::string("exp")) return;
  out = of_others;
  expect_same(wide, "of AVX2");
}

INSTANTIATE_TEST_SUITE_P(All, MathFunction, testing::Range(size_t{0}, functions().size()),
                         [](const auto& info) { return std::string(functions()[info.param].name); });

TEST(MathFunctions, PowersOfTwo) {
  std::vector<float> x, wide, out;
  for (uint64_t pattern = 0; pattern < (uint64_t{1} << 32); pattern += 4093)
    x.push_back(std::bit_cast<float>(static_cast<uint32_t>(pattern)));
  for (int i = -160; i <= 130; ++i) x.push_back(static_cast<float>(i));
  for (const float special : {0.0f, -0.0f, INFINITY, -INFINITY, NAN, 127.99999f, 128.0f, -126.00001f, -149.5f, -151.0f})
    x.push_back(special);
  for (const uint32_t nan : {0x7fffffffU, 0xffffffffU, 0x7f800001U}) x.push_back(std::bit_cast<float>(nan));
  while (x.size() % 16) x.push_back(0.5f);
  for (const char* target : {"host", "x86-64-avx2"}) {
    run<float>("exp2", kF32, target == std::string("host") ? 16 : 8, x, {}, wide, target);
    for (size_t i = 0; i < x.size(); ++i) {
      const double exact = std::exp2(static_cast<double>(x[i]));
      ASSERT_LE(ulps(wide[i], static_cast<long double>(exact)), 3) << x[i] << ' ' << target;
      if (x[i] == std::floor(x[i])) {
        ASSERT_EQ(wide[i], static_cast<float>(exact)) << x[i] << ' ' << target;
      }
    }
    run<float>("exp2 of at most 0", kF32, 8, x, {}, out, target);
    for (size_t i = 0; i < x.size(); ++i) {
      const double exact = std::exp2(x[i] > 0 ? 0.0 : static_cast<double>(x[i]));
      if (exact < std::numeric_limits<float>::min())
        ASSERT_LT(out[i], std::numeric_limits<float>::min()) << x[i] << ' ' << target;
      else
        ASSERT_LE(ulps(out[i], static_cast<long double>(exact)), 3) << x[i] << ' ' << target;
    }
    for (const int lanes : {1, 4, 8}) {
      run<float>("exp2", kF32, lanes, x, {}, out, target);
      for (size_t i = 0; i < x.size(); ++i) ASSERT_TRUE(wide[i] == out[i] || std::isnan(wide[i])) << x[i];
    }
  }
}

TEST(MathFunctions, SignOfZero) {
  std::vector<float> x(16, -0.0f), out;
  for (const char* odd : {"tanh", "erf", "sin"}) {
    run<float>(odd, kF32, 16, x, {}, out, "host");
    EXPECT_TRUE(out[3] == 0 && std::signbit(out[3])) << odd;
  }
}

TEST(MathFunctions, PowerAgainstTheLibrary) {
  const std::vector<float> values = {0.0f,     -0.0f,     1.0f,  -1.0f, 2.0f,  -2.0f,  0.5f,   3.0f,
                                     -3.0f,    2.5f,      -2.5f, 7.0f,  1e30f, 1e-30f, 100.0f, -0.75f,
                                     INFINITY, -INFINITY, NAN,   0.1f,  33.0f, -1e-20f};
  std::vector<float> x, y, out;
  for (const float a : values)
    for (const float b : values) {
      x.push_back(a);
      y.push_back(b);
    }
  for (int i = 0; i < 200'000; ++i) {
    x.push_back(static_cast<float>(i % 1013) * 0.037f);
    y.push_back(static_cast<float>(i % 907) * 0.05f - 20);
  }
  while (x.size() % 16) {
    x.push_back(1);
    y.push_back(1);
  }
  run<float>("pow", kF32, 16, x, y, out, "host");
  for (size_t i = 0; i < x.size(); ++i) {
    const double exact = std::pow(static_cast<double>(x[i]), static_cast<double>(y[i]));
    ASSERT_LE(ulps(out[i], static_cast<long double>(exact)), 1) << x[i] << " ^ " << y[i] << " = " << out[i];
  }
}

TEST(MathFunctions, HalfPrecisionIsRoundedFromF32) {
  std::vector<uint16_t> x(65536), out;
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<uint16_t>(i);
  run<uint16_t>("exp", kBF16, 16, x, {}, out, "host");
  for (size_t i = 0; i < x.size(); ++i) {
    const auto in = std::bit_cast<float>(static_cast<uint32_t>(x[i]) << 16);
    const auto got = std::bit_cast<float>(static_cast<uint32_t>(out[i]) << 16);
    const double exact = std::exp(static_cast<double>(in));
    if (std::isnan(exact)) {
      ASSERT_TRUE(std::isnan(got));
    } else if (exact > 3.3e38) {
      ASSERT_TRUE(std::isinf(got) || got > 3.3e38f) << in;
    } else {
      ASSERT_LE(std::fabs(got - exact), 0.501 * std::ldexp(1.0, std::ilogb(std::max(exact, 1.2e-38)) - 7)) << in;
    }
  }
}

}  // namespace
}  // namespace fettle
