// What open sizes cost: kernels whose sizes are integer parameters beside those that were made for one size, both by
// the constructed default, on the same memory; then whole models, beside the same models compiled for each size, and
// beside other engines.
//   bench-sizes [--only SUBSTRING] [--seconds S] [--target NAME] [--threads N] [--print] [--kernels | --models]
//               [--sizes N] [--from M]
// `--print` shows the programs of what was chosen, scheduled and lowered. `--sizes` is how many each model has, of
// which `--from` leaves out the first: what takes minutes can be run in pieces.
#include <fmt/format.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "harness/paired.h"
#include "harness/report.h"
#include "ir/text.h"
#include "lower/lower.h"
#include "measure/local_kernel.h"
#include "sizes/open_models.h"
#include "tune/space/open_workloads.h"
#include "tune/space/space.h"

namespace {

using namespace fettle;
using testing::OpenConv;
using testing::OpenProduct;
using testing::OpenWorkload;
using testing::Sizes;
using Ints = std::vector<IntParam>;

struct Case {
  OpenWorkload workload;
  std::vector<std::vector<int64_t>> sizes;
  double max_error_bound = 0;
};

OpenWorkload product(const std::string& name, Ints sizes, const std::function<OpenProduct(const Sizes&)>& of) {
  return {name, std::move(sizes),
          [of](const Sizes& s, const Ints& ints) { return testing::open_product(of(s), ints); }};
}

std::vector<Case> cases() {
  std::vector<Case> all;
  const auto rows = [] { return testing::size("rows", 1, 512, 1, 128); };
  const std::vector<std::vector<int64_t>> lengths = {{16}, {64}, {128}, {384}};
  const auto add = [&](const std::string& name, Ints sizes, std::function<Func(const Sizes&, const Ints&)> make,
                       std::vector<std::vector<int64_t>> values) {
    all.push_back({{name, std::move(sizes), std::move(make)}, std::move(values)});
  };
  const auto dense = [&](int64_t columns, int64_t terms) {
    all.push_back({product(fmt::format("dense {}x{}", terms, columns), {rows()},
                           [=](const Sizes& s) {
                             return OpenProduct{
                                 .m = s[0], .n = columns, .k = terms, .constant_b = true, .epilogue = true};
                           }),
                   lengths});
  };
  dense(768, 768);
  dense(3072, 768);
  dense(768, 3072);
  all.push_back({product("attention scores", {rows()},
                         [](const Sizes& s) {
                           return OpenProduct{.batch = {12}, .m = s[0], .n = s[0], .k = 64, .scale = float_imm(0.125)};
                         }),
                 lengths});
  all.push_back({product("attention values", {rows()},
                         [](const Sizes& s) { return OpenProduct{.batch = {12}, .m = s[0], .n = 64, .k = s[0]}; }),
                 lengths});
  add(
      "softmax", {rows()}, [](const Sizes& s, const Ints& i) { return testing::open_softmax({12, s[0], s[0]}, i); },
      lengths);
  // In one pass.
  const auto tokens = [] { return testing::size("tokens", 1, 4096, 1, 512); };
  add("attention", {tokens()},
      [](const Sizes& s, const Ints& i) {
        return testing::open_attention({.heads = 12, .queries = s[0], .keys = s[0], .width = 64, .value_width = 64}, i);
      },
      {{384}, {512}, {1500}});
  all.back().max_error_bound = std::numeric_limits<double>::infinity();
  add("causal attention of groups", {tokens()},
      [](const Sizes& s, const Ints& i) {
        return testing::open_attention({.heads = 8,
                                        .queries = s[0],
                                        .keys = s[0],
                                        .width = 128,
                                        .value_width = 128,
                                        .group = 4,
                                        .before = Expr(0)},
                                       i);
      },
      {{512}, {2048}});
  all.back().max_error_bound = std::numeric_limits<double>::infinity();
  add(
      "layer norm", {rows()}, [](const Sizes& s, const Ints& i) { return testing::open_layer_norm({s[0], 768}, i); },
      lengths);
  add(
      "gelu", {rows()}, [](const Sizes& s, const Ints& i) { return testing::open_elementwise({s[0], 3072}, i, true); },
      lengths);
  add(
      "add", {rows()}, [](const Sizes& s, const Ints& i) { return testing::open_elementwise({s[0] * 768}, i); },
      lengths);
  add(
      "transpose heads", {rows()},
      [](const Sizes& s, const Ints& i) { return testing::open_transpose({1, s[0], 12, 64}, {0, 2, 1, 3}, i); },
      lengths);
  add(
      "transpose keys", {rows()},
      [](const Sizes& s, const Ints& i) { return testing::open_transpose({1, s[0], 12, 64}, {0, 2, 3, 1}, i); },
      lengths);
  const auto image = [] { return Ints{testing::size("h", 1, 256, 1, 56), testing::size("w", 1, 256, 1, 56)}; };
  const std::vector<std::vector<int64_t>> pictures = {{28, 28}, {56, 56}};
  add(
      "conv 3x3 64", image(),
      [](const Sizes& s, const Ints& i) { return testing::open_conv({.h = s[0], .w = s[1], .ic = 64, .oc = 64}, i); },
      pictures);
  add(
      "conv 1x1 64", image(),
      [](const Sizes& s, const Ints& i) {
        return testing::open_conv({.h = s[0], .w = s[1], .ic = 64, .oc = 64, .kernel = 1, .padding = 0}, i);
      },
      pictures);
  add(
      "depthwise 3x3 96", image(),
      [](const Sizes& s, const Ints& i) {
        return testing::open_conv({.h = s[0], .w = s[1], .ic = 96, .oc = 96, .depthwise = true}, i);
      },
      pictures);
  add("depthwise 5x5 240", image(),
      [](const Sizes& s, const Ints& i) {
        return testing::open_conv(
            {.h = s[0], .w = s[1], .ic = 240, .oc = 240, .kernel = 5, .padding = 2, .depthwise = true}, i);
      },
      {{12, 59}, {12, 141}});
  add(
      "max pool 64", image(),
      [](const Sizes& s, const Ints& i) { return testing::open_pool(s[0], s[1], 64, false, 2, i); }, pictures);
  return all;
}

Result<Schedule> scheduled(const Func& func, const std::shared_ptr<const Target>& target, int threads,
                           double max_error_bound, bool print) {
  FETTLE_TRY(Schedule made, default_schedule(func, target, threads, nullptr, max_error_bound));
  if (print) {
    fmt::print("{}\n", to_text(made.func()));
    if (const auto lowered = lower(made.func(), *target)) fmt::print("{}\n", to_text(lowered->kernel));
  }
  return made;
}

// Time of the open kernel over that of the static one.
Result<double> compare(const Case& c, const std::vector<int64_t>& sizes, const std::shared_ptr<const Target>& target,
                       int threads, double seconds, bool print, bench::PeakMeter& peak, double times_us[2]) {
  FETTLE_TRY(const Schedule open, scheduled(c.workload.open(), target, threads, c.max_error_bound, print));
  FETTLE_TRY(const Schedule fixed, scheduled(c.workload.with_sizes(sizes), target, threads, c.max_error_bound, print));
  const auto memory = std::make_shared<SharedMemory>(true);
  FETTLE_TRY(LocalKernel a,
             LocalKernel::build(open.func(), *target,
                                {.threads = threads, .ints = sizes, .huge_pages = true, .memory = memory}));
  FETTLE_TRY(LocalKernel b,
             LocalKernel::build(fixed.func(), *target, {.threads = threads, .huge_pages = true, .memory = memory}));
  const std::vector<bench::Contender> contenders = {{"open", [&] { a.call(); }}, {"fixed", [&] { b.call(); }}};
  FETTLE_TRY(const bench::PairedResult result,
             bench::time_paired(contenders, peak, {.batch_ns = 3e5, .min_rounds = 9, .time_limit_s = seconds}));
  times_us[0] = result.time_ns(0).median * 1e-3;
  times_us[1] = result.time_ns(1).median * 1e-3;
  return 1 / result.speed_over(0, 1).median;
}

}  // namespace

int main(int argc, char** argv) {
  std::string only, target_name = "host";
  double seconds = 0.5;
  int threads = 1;
  bool print = false, with_kernels = true, with_models = true;
  bench::OpenModelOptions models;
  for (int i = 1; i < argc; ++i) {
    const auto value = [&](const char* option) { return !std::strcmp(argv[i], option) && i + 1 < argc; };
    if (value("--only"))
      only = argv[++i];
    else if (value("--target"))
      target_name = argv[++i];
    else if (value("--seconds"))
      seconds = models.seconds = std::atof(argv[++i]);
    else if (value("--threads"))
      threads = models.threads = std::atoi(argv[++i]);
    else if (value("--sizes"))
      models.sizes = std::atoi(argv[++i]);
    else if (value("--from"))
      models.from = std::atoi(argv[++i]);
    else if (!std::strcmp(argv[i], "--kernels"))
      with_models = false;
    else if (!std::strcmp(argv[i], "--models"))
      with_kernels = false;
    else if (!std::strcmp(argv[i], "--print"))
      print = true;
  }
  const auto parsed = parse_target(target_name);
  if (!parsed) {
    fmt::print("{}\n", parsed.error().to_string());
    return 2;
  }
  const auto target = std::make_shared<const Target>(*parsed);
  bench::PeakMeter peak;
  bench::Report report("sizes");
  double logs = 0, worst = 0;
  int n = 0;
  for (const Case& c : with_kernels ? cases() : std::vector<Case>()) {
    for (const std::vector<int64_t>& sizes : c.sizes) {
      std::string name = c.workload.name + ",";
      for (const int64_t size : sizes) name += fmt::format(" {}", size);
      if (name.find(only) == std::string::npos) continue;
      double times_us[2];
      const auto ratio = compare(c, sizes, target, threads, seconds, print, peak, times_us);
      if (!ratio) {
        fmt::print("{}: {}\n", name, ratio.error().to_string());
        return 1;
      }
      fmt::print("{:28} {:10.1f} us, fixed {:10.1f} us: {:.3f}\n", name, times_us[0], times_us[1], *ratio);
      std::fflush(stdout);
      report.add(name, *ratio, "x");
      logs += std::log(*ratio);
      worst = std::max(worst, *ratio);
      ++n;
    }
  }
  if (n > 0) {
    report.add("kernels: open over fixed sizes, geometric mean", std::exp(logs / n), "x", bench::at_most(1.05));
    report.add("kernels: open over fixed sizes, worst", worst, "x", bench::at_most(1.2));
  }
  models.only = only;
  if (with_models)
    if (const auto done = bench::bench_open_models(report, models); !done) {
      fmt::print("{}\n", done.error().to_string());
      return 1;
    }
  fmt::print("{}", report.table());
  if (only.empty() && models.from == 0)
    if (const auto written = report.write(); !written) {
      fmt::print("{}\n", written.error().to_string());
      return 1;
    }
  return report.all_hold() ? 0 : 1;
}
