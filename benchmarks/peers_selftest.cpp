// How fast the peers are here, timed as the benchmarks time them: oneDNN on each operator of the core benchmark against
// this machine's peak, or, given a model, ONNX Runtime and OpenVINO on it.

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>

#include "driver/model_peers.h"
#include "harness/onednn.h"
#include "harness/paired.h"
#include "harness/shapes.h"

using namespace fettle;
using namespace fettle::bench;

namespace {

bool time_operators(int threads, double seconds) {
  PeakMeter peak(threads);
  fmt::print("oneDNN {}, {} thread(s), vectors of {}\n", onednn_version(), threads, peak_isa());
  fmt::print("{:<22} {:>9} {:>8} {:>7} {:>6} {:>7} {:>7}  kernel\n", "shape", "ms", "GFLOP/s", "% peak", "+-%", "peak",
             "rounds");
  bool all = true;
  for (const Shape& shape : core_shapes()) {
    auto op = shape.conv ? OnednnOp::convolution(*shape.conv, threads) : OnednnOp::matmul(*shape.matmul, threads);
    if (!op) {
      fmt::print("{:<22} {}\n", shape.name, op.error().to_string());
      all = false;
      continue;
    }
    const Contender contenders[] = {op->contender()};
    const auto result = time_paired(contenders, peak, {.time_limit_s = seconds});
    if (!result) {
      fmt::print("{:<22} {}\n", shape.name, result.error().to_string());
      all = false;
      continue;
    }
    const Estimate share = result->of_peak(0);
    fmt::print("{:<22} {:>9.4f} {:>8.1f} {:>7.1f} {:>6.2f} {:>7.1f} {:>3}/{:<3}  {}{}\n", shape.name,
               result->time_ns(0).median * 1e-6, result->gflops(0), 100 * share.median, 100 * share.half_width,
               result->peak_gflops().median, result->rounds.size(), result->rounds.size() + result->discarded,
               op->implementation(), result->disturbed ? "  (disturbed)" : "");
    std::fflush(stdout);
  }
  return all;
}

Result<void> time_model(const PeerModel& model, double seconds) {
  std::vector<ModelPeer> peers;
  for (const char* name : {"onnxruntime", "openvino"}) {
    FETTLE_TRY(ModelPeer peer, ModelPeer::start(name));
    FETTLE_TRY(const PeerLoaded loaded, peer.load(model));
    fmt::print("{} {}: loaded in {:.2f} s, first run {:.1f} ms\n", name, peer.version(), loaded.load_s,
               1e3 * loaded.first_run_s);
    peers.push_back(std::move(peer));
  }
  std::vector<Contender> contenders;
  for (ModelPeer& peer : peers) {
    contenders.push_back(
        {.name = peer.name(), .run = {}, .timed = [&peer](int runs) { return peer.mean_time_ns(runs); }});
  }
  PeakMeter peak(model.threads);
  FETTLE_TRY(const PairedResult result, time_paired(contenders, peak, {.time_limit_s = seconds}));
  for (std::size_t i = 0; i < peers.size(); ++i) {
    const Estimate time = result.time_ns(i);
    FETTLE_TRY(const PeerMemory memory, peers[i].memory());
    fmt::print("{:<12} min {:.3f} ms, median {:.3f} ms +- {:.1f} %, {:.3f} of the first's speed, peak memory {} MiB\n",
               result.names[i], time.min * 1e-6, time.median * 1e-6, 100 * time.half_width,
               result.speed_over(i, 0).median, memory.peak_rss_bytes >> 20);
  }
  fmt::print("{} rounds, {} more discarded{}\n", result.rounds.size(), result.discarded,
             result.disturbed ? ", disturbed" : "");
  return {};
}

}  // namespace

int main(int argc, char** argv) {
  PeerModel model;
  double seconds = 1;
  std::vector<std::string> shapes;
  CLI::App app("How fast the peers are on this machine.");
  app.add_option("--threads", model.threads)->capture_default_str();
  app.add_option("--seconds", seconds, "for each comparison")->capture_default_str();
  app.add_option("--model", model.file, "an ONNX file, in place of the operators of the core benchmark");
  app.add_option("--shape", shapes, "NAME=D0,D1,... of an input");
  CLI11_PARSE(app, argc, argv);
  for (const std::string& shape : shapes) {
    const auto equals = shape.find('=');
    if (equals == std::string::npos) return app.exit(CLI::ValidationError("--shape", "is NAME=D0,D1,..."));
    auto& dims = model.shapes[shape.substr(0, equals)];
    for (const std::string& dim : CLI::detail::split(shape.substr(equals + 1), ','))
      dims.push_back(std::atoll(dim.c_str()));
  }
  if (model.file.empty()) return time_operators(model.threads, seconds) ? 0 : 1;
  if (const auto done = time_model(model, seconds); !done) {
    fmt::print(stderr, "{}\n", done.error().to_string());
    return 1;
  }
  return 0;
}
