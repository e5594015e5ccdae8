// Products of bf16 and of bytes by the tile unit (Intel's AMX) against what the unit does from the first-level cache,
// and oneDNN, in turn.

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cmath>
#include <memory>

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

}  // namespace

int main(int argc, char** argv) {
  int threads = 1;
  double seconds = 1;
  std::string only, type;
  bool trace = false;
  CLI::App app("Products of bf16 and bytes by the tile unit, against tiles from the first-level cache and oneDNN.");
  app.add_option("--threads", threads, "threads of each")->capture_default_str();
  app.add_option("--timing", seconds, "seconds for each comparison")->capture_default_str();
  app.add_option("--only", only, "only shapes whose name is this, e.g. 512x512x512");
  app.add_option("--type", type, "only this type: bf16, bf16->f32 or u8*i8");
  app.add_flag("--trace", trace, "print the schedules");
  CLI11_PARSE(app, argc, argv);
  const Target host = detect_host(threads);
  if (!host.find_scope("tile")) {
    fmt::print("this machine has no tile unit\n");
    return 0;
  }
  fmt::print("{:<26} {:>10} {:>8} {:>8} {:>10} {:>8}\n", "shape", "G(FL)OP/s", "of tiles", "oneDNN", "time ratio",
             "peak");
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
      const double ratio = 1 / result->speed_over(0, 1).median;
      fmt::print("{:<26} {:>10.0f} {:>8.2f} {:>8.0f} {:>10.3f} {:>8.0f}{}\n", name, result->gflops(0),
                 result->gflops(0) / result->gflops(2), result->gflops(1), ratio, result->gflops(2),
                 result->disturbed ? "  (disturbed)" : "");
      std::fflush(stdout);
      log_sum += std::log(ratio);
      faster += ratio < 1 ? 1 : 0;
      ++n;
    }
    if (n > 1)
      fmt::print("{} of {} faster than oneDNN, geometric mean of the time ratio {:.3f}\n", faster, n,
                 std::exp(log_sum / n));
  }
  return 0;
}
