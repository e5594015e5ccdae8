#include "models/timing.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <optional>

#include "driver/bench.h"
#include "harness/paired.h"
#include "runtime/npy.h"
#include "runtime/profiler.h"

namespace fettle::bench {
namespace {

int64_t anonymous_bytes() {
  std::ifstream lines("/proc/self/smaps_rollup");
  for (std::string line; std::getline(lines, line);)
    if (line.starts_with("Anonymous:")) return std::atoll(line.substr(10).c_str()) * 1024;
  return -1;
}

/// A library with outputs to write into.
struct Loaded {
  ModelContext context;
  std::vector<NamedTensor> outputs;
  double extra_bytes = 0;  // anonymous memory that loading it and one run took, beyond its arena
};

Result<Loaded> load(const std::string& path, const std::vector<NamedTensor>& inputs, int threads) {
  FettleOptions options{};
  options.threads = threads;
  const int64_t before = anonymous_bytes();
  FETTLE_TRY(const Model model, Model::load(path, options));
  FETTLE_TRY(ModelContext context, model.make_context());
  FETTLE_TRY(std::vector<NamedTensor> outputs, context.make_outputs(inputs));
  FETTLE_TRY_VOID(context.run_into(inputs, outputs));
  const auto extra = static_cast<double>(anonymous_bytes() - before - model.info().arena_bytes);
  return Loaded{std::move(context), std::move(outputs), extra};
}

/// The share of a run's time in which no kernel runs, by the median over runs; clocks are read around each kernel.
Result<double> outside_kernels(Loaded& loaded, const std::vector<NamedTensor>& inputs, double seconds) {
  Profiler profiler(loaded.context);
  const auto in_kernels = [&] {
    int64_t sum = 0;
    for (const KernelTime& kernel : profiler.times()) sum += kernel.total_ns;
    return sum;
  };
  std::vector<double> shares;
  const auto start = std::chrono::steady_clock::now();
  while (shares.size() < 20 || (std::chrono::steady_clock::now() - start).count() < seconds * 1e9) {
    const int64_t before = in_kernels();
    const auto begin = std::chrono::steady_clock::now();
    FETTLE_TRY_VOID(loaded.context.run_into(inputs, loaded.outputs));
    const auto run = static_cast<double>((std::chrono::steady_clock::now() - begin).count());
    shares.push_back(1 - static_cast<double>(in_kernels() - before) / run);
  }
  return quantile(shares, 0.5);
}

}  // namespace

Result<ModelTimes> time_libraries(const ModelLibraries& libraries, const std::vector<NamedTensor>& inputs,
                                  double seconds, const std::string& folder) {
  ModelTimes times;
  std::vector<Loaded> loaded;
  for (const std::string& path : {libraries.untuned, libraries.tuned}) {
    if (path.empty()) continue;
    FETTLE_TRY(Loaded library, load(path, inputs, libraries.threads));
    times.extra_bytes = library.extra_bytes;
    loaded.push_back(std::move(library));
  }
  FETTLE_TRY(times.outside_kernels, outside_kernels(loaded.back(), inputs, seconds / 10));

  FETTLE_TRY(ModelPeer onnxruntime, start_peer("onnxruntime", libraries.model, libraries.threads, inputs, folder));
  FETTLE_TRY(ModelPeer openvino, start_peer("openvino", libraries.model, libraries.threads, inputs, folder));
  FETTLE_TRY(const std::vector<PeerTensor> expected, onnxruntime.outputs(folder));
  times.difference = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    FETTLE_TRY(const Tensor reference, read_npy(expected[i].file));
    for (const Loaded& library : loaded)
      times.difference = std::max(times.difference, difference_of_scale(library.outputs[i].tensor, reference));
  }

  std::vector<Contender> contenders;
  for (Loaded& library : loaded)
    contenders.push_back({.name = contenders.empty() ? "untuned" : "tuned",
                          .run = [&library, &inputs] { (void)library.context.run_into(inputs, library.outputs); }});
  for (ModelPeer* engine : {&onnxruntime, &openvino})
    contenders.push_back(
        {.name = engine->name(), .run = {}, .timed = [engine](int runs) { return engine->mean_time_ns(runs); }});
  PeakMeter peak(libraries.threads);
  FETTLE_TRY(const PairedResult result, time_paired(contenders, peak, {.batch_ns = 3e7, .time_limit_s = seconds}));
  const size_t engines = loaded.size();
  times.untuned = result.time_ns(0);
  times.onnxruntime = result.time_ns(engines);
  times.openvino = result.time_ns(engines + 1);
  const size_t best = times.onnxruntime.median < times.openvino.median ? engines : engines + 1;
  times.untuned_over_best = result.speed_over(best, 0).median;
  if (!libraries.tuned.empty()) {
    times.tuned = result.time_ns(1);
    times.tuned_over_best = result.speed_over(best, 1).median;
    times.tuned_over_untuned = result.speed_over(0, 1);
  }
  return times;
}

}  // namespace fettle::bench
