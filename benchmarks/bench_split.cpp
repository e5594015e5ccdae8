// Products of single precision by the tile unit, their operands split into parts of bf16: rates over the FMA peak,
// splitting included, and errors over those of one chain of fused multiply-adds.
//   bench-split [--only SUBSTRING] [--timing SECONDS]
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cmath>
#include <random>

#include "harness/paired.h"
#include "harness/report.h"
#include "measure/local_kernel.h"
#include "te/create_func.h"
#include "te/tensor.h"
#include "tune/parts/split_product.h"
#include "tune/space/space.h"

namespace {

using namespace fettle;
using namespace fettle::bench;

constexpr int64_t kBlock = 512;  // of the chains that errors are compared with

Func product(int64_t m, int64_t n, int64_t k) {
  const te::Tensor a = te::placeholder({m, k}, kF32, "A"), b = te::placeholder({k, n}, kF32, "B");
  const te::ReduceAxis r = te::reduce_axis(k, "k");
  const te::Tensor c = te::compute(
      {m, n}, [&](const std::vector<Var>& i) { return te::sum(a(i[0], r) * b(r, i[1]), {r}); }, "C", {"i", "j"});
  return te::create_func("product", {a, b}, {c}, {.input_kinds = {ParamKind::kInput, ParamKind::kConstant}});
}

/// By sums of so many products of parts; as it is written where `terms` is 0.
Result<LocalKernel> kernel_of(const Func& func, int64_t terms, int threads) {
  const auto target = std::make_shared<const Target>(detect_host(threads));
  const LocalKernelOptions options{.threads = threads, .huge_pages = true};
  if (terms == 0) {
    FETTLE_TRY(const Schedule s, default_schedule(func, target, threads, nullptr, 0));
    return LocalKernel::build(s.func(), *target, options);
  }
  if (!splittable_product(func, *target)) return fail(ErrorCode::E230, "this machine's unit does not take it");
  FETTLE_TRY(const Schedule s, default_neighbour(func, target, threads, {.values = {{"terms", terms}}}));
  return LocalKernel::build(s.func(), *target, options);
}

void add_rates(Report& report, int64_t n, int threads, double timing_s) {
  const Func func = product(n, n, n);
  std::vector<LocalKernel> kernels;
  for (const int64_t terms : {6, 3, 0}) {
    auto kernel = kernel_of(func, terms, threads);
    if (!kernel) {
      fmt::print(stderr, "{}\n", kernel.error().to_string());
      return;
    }
    kernels.push_back(std::move(*kernel));
  }
  std::vector<Contender> contenders;
  const char* names[] = {"six products", "three products", "as written"};
  for (size_t i = 0; i < kernels.size(); ++i)
    contenders.push_back({.name = names[i],
                          .run = [&kernels, i] { (void)kernels[i].call(); },
                          .flops = 2.0 * static_cast<double>(n * n * n)});
  PeakMeter peak(threads);
  const auto result = time_paired(contenders, peak, {.time_limit_s = timing_s});
  if (!result) return;
  const std::optional<Bound> bounds[] = {at_least(2), at_least(3.5), {}};
  for (size_t i = 0; i < kernels.size(); ++i)
    report.add(fmt::format("{0}x{0}x{0}, {1} thread{2}, {3}", n, threads, threads > 1 ? "s" : "", names[i]),
               result->of_peak(i).median, "of FMA peak", bounds[i]);
}

enum class Data { kNormal, kUniform, kLogNormal };

/// Largest |error| of 64 x 64 elements, of the largest of them: {by parts, by chains of at most kBlock multiply-adds}.
std::optional<std::pair<double, double>> errors_of(int64_t k, int64_t terms, Data data) {
  constexpr int64_t kSize = 64;
  auto kernel = kernel_of(product(kSize, kSize, k), terms, 1);
  if (!kernel) return {};
  std::mt19937 random(7);
  std::normal_distribution<float> normal;
  std::uniform_real_distribution<float> uniform(-1, 1);
  std::vector<std::vector<float>> values(2, std::vector<float>(static_cast<size_t>(kSize * k)));
  for (auto& operand : values)
    for (float& x : operand)
      x = data == Data::kNormal ? normal(random) : data == Data::kUniform ? uniform(random) : std::exp(normal(random));
  for (int p = 0; p < 2; ++p) kernel->set_logical(p, std::span<const float>(values[static_cast<size_t>(p)]));
  if (!kernel->run_prologue() || !kernel->run()) return {};
  const std::vector<float> computed = kernel->logical<float>(2);
  double split = 0, chains = 0, scale = 0;
  for (int64_t i = 0; i < kSize; ++i)
    for (int64_t j = 0; j < kSize; ++j) {
      double exact = 0;
      float sum = 0, chain = 0;
      for (int64_t l = 0; l < k; ++l) {
        const float a = values[0][static_cast<size_t>(i * k + l)], b = values[1][static_cast<size_t>(l * kSize + j)];
        if (l % kBlock == 0) sum += std::exchange(chain, 0.0f);
        exact += static_cast<double>(a) * b;
        chain = std::fma(a, b, chain);
      }
      sum += chain;
      scale = std::max(scale, std::abs(exact));
      split = std::max(split, std::abs(computed[static_cast<size_t>(i * kSize + j)] - exact));
      chains = std::max(chains, std::abs(sum - exact));
    }
  return std::pair{split / scale, chains / scale};
}

void add_errors(Report& report, int64_t k) {
  for (const auto& [data, name] :
       {std::pair{Data::kNormal, "normal"}, {Data::kUniform, "uniform"}, {Data::kLogNormal, "log-normal"}})
    for (const int64_t terms : {6, 3}) {
      const auto errors = errors_of(k, terms, data);
      if (!errors) continue;
      const std::string what = fmt::format("error, k = {}, {}, {} products", k, name, terms == 6 ? "six" : "three");
      report.add(what, errors->first, "of scale");
      if (terms == 6) report.add(what, errors->first / errors->second, "of chains of 512", at_most(1));
    }
}

}  // namespace

int main(int argc, char** argv) {
  std::string only, out = "build/bench";
  double timing_s = 3;
  CLI::App app("Products of single precision in parts of bf16, over the FMA peak. Exits with 1 if a bound is missed.");
  app.add_option("--only", only, "rates or errors");
  app.add_option("--timing", timing_s, "seconds for each comparison")->capture_default_str();
  app.add_option("--out", out, "folder of split.json")->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  if (!splittable_product(product(512, 512, 512), detect_host(1))) {
    fmt::print("this machine has no unit that multiplies bf16: nothing to measure\n");
    return 0;
  }
  Report report("split");
  if (only != "errors")
    for (const int threads : {1, 2})
      for (const int64_t n : {512, 1024, 2048}) add_rates(report, n, threads, timing_s);
  if (only != "rates")
    for (const int64_t k : {64, 512, 3072}) add_errors(report, k);
  fmt::print("{}", report.table());
  if (const auto written = report.write(out); !written) {
    fmt::print(stderr, "{}\n", written.error().to_string());
    return 1;
  }
  return report.all_hold() ? 0 : 1;
}
