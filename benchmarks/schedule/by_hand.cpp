// The schedules of examples/schedules at their last step: against other engines on the same ONNX subgraph, and Winograd
// against the direct convolution.

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <memory>

#include <fmt/format.h>

#include "driver/model_peers.h"
#include "harness/paired.h"
#include "measure/local_kernel.h"
#include "schedule/subjects.h"
#include "schedules/steps.h"
#include "target/target.h"

namespace fettle::bench {
namespace {

constexpr double kNothing = std::numeric_limits<double>::quiet_NaN();

Result<LocalKernel> kernel_of(const examples::Subject& subject, const examples::Step& step) {
  const auto target = std::make_shared<const Target>(detect_host(1));
  Schedule s(subject.func);
  s.set_target(target);
  FETTLE_TRY_VOID(step.apply(s));
  return LocalKernel::build(s.func(), *target, {.huge_pages = true});
}

// How many times faster the last step is than ONNX Runtime and OpenVINO, one thread each.
Result<std::vector<double>> against_engines(const examples::Subject& subject, const std::string& folder,
                                            const ScheduleBenchOptions& options) {
  FETTLE_TRY(LocalKernel kernel, kernel_of(subject, subject.steps.back()));
  std::vector<Contender> contenders(1);
  contenders[0] = {.name = subject.name, .run = [&] { kernel.call(); }, .flops = subject.flops};
  std::vector<std::unique_ptr<ModelPeer>> engines;
  for (const char* name : {"onnxruntime", "openvino"}) {
    FETTLE_TRY(ModelPeer peer, ModelPeer::start(name));
    engines.push_back(std::make_unique<ModelPeer>(std::move(peer)));
    FETTLE_TRY_VOID(
        engines.back()->load({.file = folder + "/" + subject.name + ".onnx"}).map([](const PeerLoaded&) {}));
    contenders.push_back(
        {.name = name, .timed = [engine = engines.back().get()](int runs) { return engine->mean_time_ns(runs); }});
  }
  PeakMeter meter(1);
  FETTLE_TRY(const PairedResult timed, time_paired(contenders, meter, {.time_limit_s = options.seconds}));
  fmt::print("{}: {:.4f} ms, ONNX Runtime {:.4f}, OpenVINO {:.4f}\n", subject.name, timed.time_ns(0).median * 1e-6,
             timed.time_ns(1).median * 1e-6, timed.time_ns(2).median * 1e-6);
  return std::vector<double>{timed.speed_over(0, 1).median, timed.speed_over(0, 2).median};
}

Result<std::string> subgraphs() {
  FETTLE_TRY(const PeerPaths paths, find_peer_paths());
  const std::string folder = FETTLE_BINARY_DIR "/bench/subgraphs";
  const std::string command =
      fmt::format("'{}' '{}' '{}'", paths.python, FETTLE_SOURCE_DIR "/benchmarks/schedule/subgraphs.py", folder);
  if (std::system(command.c_str()) != 0) return fail(ErrorCode::E708, "subgraphs.py failed");
  return folder;
}

}  // namespace

void add_hand_schedules(Report& report, const ScheduleBenchOptions& options) {
  const auto folder = subgraphs();
  for (const auto& subject :
       {examples::attention(), examples::depthwise(), examples::softmax(), examples::layer_norm()}) {
    std::vector<double> faster = {kNothing, kNothing};
    const auto result = folder ? against_engines(subject, *folder, options)
                               : Result<std::vector<double>>(tl::unexpected(folder.error()));
    if (result)
      faster = *result;
    else
      fmt::print(stderr, "{}: {}\n", subject.name, result.error().to_string());
    report.add(subject.name + " by hand over ONNX Runtime", faster[0], "x", at_least(1));
    report.add(subject.name + " by hand over OpenVINO", faster[1], "x", at_least(1));
  }
}

void add_winograd(Report& report, const ScheduleBenchOptions& options) {
  const examples::Subject subject = examples::convolution();
  double faster = kNothing, error = kNothing;
  auto direct = kernel_of(subject, subject.steps[1]), winograd = kernel_of(subject, subject.steps.back());
  if (direct && winograd) {
    direct->call();
    winograd->call();
    // Inputs are eighths: the direct sum is exact.
    const std::vector<float> exact = direct->logical<float>(2), computed = winograd->logical<float>(2);
    double scale = 0;
    error = 0;
    for (size_t i = 0; i < exact.size(); ++i) {
      error = std::max(error, std::abs(static_cast<double>(exact[i]) - computed[i]));
      scale = std::max(scale, std::abs(static_cast<double>(exact[i])));
    }
    error /= scale;
    const std::vector<Contender> contenders = {
        {.name = "winograd", .run = [&] { winograd->call(); }, .flops = subject.flops},
        {.name = "direct", .run = [&] { direct->call(); }, .flops = subject.flops}};
    PeakMeter meter(1);
    if (const auto timed = time_paired(contenders, meter, {.time_limit_s = options.seconds})) {
      faster = timed->speed_over(0, 1).median;
      fmt::print("convolution: F(4x4, 3x3) {:.4f} ms, {:.0f} % of peak; direct {:.4f} ms, {:.0f} %\n",
                 timed->time_ns(0).median * 1e-6, 100 * timed->of_peak(0).median, timed->time_ns(1).median * 1e-6,
                 100 * timed->of_peak(1).median);
    }
  }
  report.add("conv 56² 64→64: Winograd F(4x4, 3x3) over direct", faster, "x", at_least(1));
  report.add("conv 56² 64→64: error of F(4x4, 3x3), of scale", error * 1e6, "e-6", at_most(20));
}

}  // namespace fettle::bench
