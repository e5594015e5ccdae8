// Products of bf16 and of bytes by the tile unit (Intel's AMX) against what the unit does from the first-level cache,
// and oneDNN, in turn.

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cmath>
#include <memory>

#include "harness/report.h"
#include "measure/local_kernel.h"
#include "te/create_func.h"
#include "te/tensor.h"
#include "tiles/onednn_product.h"
#include "tiles/tile_loop.h"
#include "tune/space/space.h"

using namespace fettle;
using namespace fettle::bench;

namespace {

using Type = TileProblem::Type;

Func program_of(const TileProblem& p) {
  const bool bytes = p.type == Type::kBytes;
  const DType sum = bytes ? kI32 : kF32;
  te::Tensor a = te::placeholder({p.m, p.k}, bytes ? kU8 : kBF16, "A");
  te::Tensor b = te::placeholder({p.k, p.n}, bytes ? kI8 : kBF16, "B");
  te::ReduceAxis k = te::reduce_axis(p.k, "k");
  te::Tensor c = te::compute(
      {p.m, p.n},
      [&](const std::vector<Var>& i) { return te::sum(cast(sum, a(i[0], k)) * cast(sum, b(k, i[1])), {k}); }, "C");
  const te::FuncOptions options{.input_kinds = {ParamKind::kInput, ParamKind::kConstant}};
  if (p.type != Type::kBf16) return te::create_func("product", {a, b}, {c}, options);
  te::Tensor y = te::compute(c.shape(), [&](const std::vector<Var>& i) { return cast(kBF16, c(i)); }, "Y");
  return te::create_func("product", {a, b}, {y}, options);
}

Result<Contender> fettle_product(const TileProblem& p, int threads, bool print_trace) {
  const Target target = detect_host(threads);
  FETTLE_TRY(const Schedule schedule, default_schedule(program_of(p), std::make_shared<const Target>(target), threads));
  if (print_trace) fmt::print("{}\n", to_text(schedule.trace()));
  FETTLE_TRY(LocalKernel built, LocalKernel::build(schedule.func(), target, {.threads = threads, .huge_pages = true}));
  const auto kernel = std::make_shared<LocalKernel>(std::move(built));
  return Contender{.name = "fettle", .run = [kernel] { kernel->call(); }, .flops = p.flops()};
}

// Squares, layers of transformers and of networks of pixels, and sizes that nothing divides.
constexpr std::int64_t kShapes[][3] = {
    {512, 512, 512},    {1024, 1024, 1024}, {2048, 2048, 2048}, {197, 768, 768},   {197, 3072, 768},  {197, 768, 3072},
    {128, 768, 768},    {128, 3072, 768},   {384, 768, 3072},   {384, 1024, 1024}, {384, 4096, 1024}, {77, 512, 512},
    {77, 2048, 512},    {16, 1024, 1024},   {32, 4096, 4096},   {8, 768, 768},     {1, 1000, 2048},   {49, 768, 768},
    {49, 2048, 512},    {196, 512, 256},    {196, 256, 1024},   {784, 512, 128},   {784, 128, 512},   {3136, 256, 64},
    {3136, 64, 256},    {3136, 64, 64},     {12544, 32, 32},    {100, 100, 100},   {65, 130, 257},    {333, 444, 555},
    {1000, 1000, 1000}, {511, 513, 515},    {240, 240, 240},    {60, 1920, 640},   {1500, 384, 384},  {1500, 1536, 384},
    {1500, 384, 1536},  {2000, 80, 128},    {96, 96, 9216},     {64, 8192, 64},    {300, 17, 300},    {17, 300, 300},
    {4096, 128, 128},
};

// Of the rate of the loop: squares, by their side.
std::optional<Bound> share_bound(const TileProblem& p) {
  if (p.m != p.n || p.m != p.k) return {};
  if (p.m == 512 || p.m == 1024) return at_least(0.9);
  return p.m == 2048 ? std::optional(at_least(0.7)) : std::nullopt;
}

}  // namespace

int main(int argc, char** argv) {
  int threads = 1;
  double seconds = 1;
  std::string only, type, out = "build/bench";
  bool trace = false;
  CLI::App app("Products of bf16 and bytes by the tile unit, against tiles from the first-level cache and oneDNN.");
  app.add_option("--threads", threads, "threads of each")->capture_default_str();
  app.add_option("--timing", seconds, "seconds for each comparison")->capture_default_str();
  app.add_option("--only", only, "only shapes whose name is this, e.g. 512x512x512");
  app.add_option("--type", type, "only this type: bf16, bf16->f32 or u8*i8");
  app.add_flag("--trace", trace, "print the schedules");
  app.add_option("--out", out, "folder of tiles.json")->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  const Target host = detect_host(threads);
  if (!host.find_scope("tile")) {
    fmt::print("this machine has no tile unit\n");
    return 0;
  }
  Report report("tiles");
  PeakMeter peak(threads);
  for (const Type t : {Type::kBf16, Type::kBf16ToFloat, Type::kBytes}) {
    double log_sum = 0;
    int n = 0, faster = 0;
    for (const auto& [m, columns, k] : kShapes) {
      const TileProblem p{t, m, columns, k};
      const std::string name = p.name();
      if ((!type.empty() && name.substr(0, name.find(' ')) != type) ||
          (!only.empty() && name.substr(name.find(' ') + 1) != only))
        continue;
      auto ours = fettle_product(p, threads, trace);
      auto theirs = onednn_product(p, threads);
      if (!ours || !theirs) {
        fmt::print("{:<26} {}\n", name, (ours ? theirs.error() : ours.error()).to_string());
        continue;
      }
      const std::vector<Contender> contenders = {*ours, *theirs, tile_loop(t == Type::kBytes, threads)};
      const auto result = time_paired(contenders, peak, {.time_limit_s = seconds});
      if (!result) {
        fmt::print("{:<26} {}\n", name, result.error().to_string());
        continue;
      }
      const double ratio = 1 / result->speed_over(0, 1).median, share = result->gflops(0) / result->gflops(2);
      fmt::print(stderr, "{}{}\n", name, result->disturbed ? " (disturbed)" : "");
      report.add(name, result->gflops(0), "G(FL)OP/s");
      report.add(name, share, "of tiles from L1", share_bound(p));
      report.add(name, ratio, "of oneDNN's time");
      log_sum += std::log(ratio);
      faster += ratio < 1 ? 1 : 0;
      ++n;
    }
    if (n < 2) continue;
    const std::string of = TileProblem{t, 0, 0, 0}.name();
    const std::string kind = of.substr(0, of.find(' '));
    report.add(kind + ", geometric mean", std::exp(log_sum / n), "of oneDNN's time");
    report.add(kind + ", faster than oneDNN", static_cast<double>(faster) / n, "of the shapes", at_least(0.8));
  }
  fmt::print("{}", report.table());
  if (const auto written = report.write(out); !written) {
    fmt::print(stderr, "{}\n", written.error().to_string());
    return 1;
  }
  return report.all_hold() ? 0 : 1;
}
