// What learned models see: logarithms of counts, seconds and bytes, and a few ratios.

#include <cmath>

#include "cost/predict/estimate.h"
#include "cost/predict/predict.h"

namespace fettle {
namespace {

struct Builder {
  std::vector<float>* values;
  std::vector<std::string>* names;

  void plain(const char* name, double value) {
    if (values) values->push_back(static_cast<float>(value));
    if (names) names->push_back(name);
  }
  void log(const char* name, double value) { plain(name, std::log2(1 + std::max(0.0, value))); }
  /// Seconds in units of a nanosecond.
  void time(const char* name, double seconds) { log(name, seconds * 1e9); }
  void share(const char* name, double part, double whole) { plain(name, whole > 0 ? part / whole : 0); }
};

void build(const Estimate& e, int threads, Builder b) {
  const double total = e.seconds();
  static constexpr const char* kFrom[kSources] = {"l2", "l3", "memory"};
  b.time("predicted_time", total);
  b.time("step_time", e.step_s);
  b.time("edge_time", e.edge_s);
  b.time("plain_time", e.plain_s);
  b.time("fork_time", e.fork_s);
  b.share("step_share", e.step_s, total);
  b.share("edge_share", e.edge_s, total);
  b.share("plain_share", e.plain_s, total);
  for (size_t i = 0; i < kSources; ++i) {
    const std::string from = kFrom[i];
    b.time(("stall_time_" + from).c_str(), e.stall_s[i]);
    b.share(("stall_share_" + from).c_str(), e.stall_s[i], total);
    b.log(("read_lines_" + from).c_str(), e.read_lines[i]);
    b.log(("written_lines_" + from).c_str(), e.written_lines[i]);
    b.log(("edge_lines_" + from).c_str(), e.edge_lines[i]);
    b.share(("flops_a_read_line_" + from).c_str(), std::log2(1 + e.flops), std::log2(2 + e.read_lines[i]));
  }
  b.log("flops", e.flops);
  b.log("plain_flops", e.plain_flops);
  b.log("fma", e.fma);
  b.log("arithmetic", e.arithmetic);
  b.log("loads", e.loads);
  b.log("broadcasts", e.broadcasts);
  b.log("stores", e.stores);
  b.log("gathers", e.gathers);
  b.log("divisions", e.divisions);
  b.share("flops_an_fma", e.flops, 2 * e.fma);
  b.share("loads_an_fma", e.loads, e.fma);
  b.share("broadcasts_a_load", e.broadcasts, e.loads);
  b.share("stores_a_load", e.stores, e.loads);
  b.share("gathers_a_load", e.gathers, e.loads);
  b.log("calls", e.calls);
  b.log("steps", e.steps);
  b.share("steps_a_call", std::log2(1 + e.steps), std::log2(2 + e.calls));
  b.share("rows", e.step_rows, e.steps);
  b.share("vectors", e.step_vectors, e.steps);
  b.share("tile", e.step_rows * e.step_vectors, e.steps * e.steps);
  b.share("conflict_steps", e.steps_conflict, e.steps);
  b.share("packed_steps", e.steps_packed, e.steps);
  b.share("in_place_steps", e.steps_in_place, e.steps);
  b.share("latency_bound_steps", e.latency_bound, e.steps);
  b.share("spilled_registers", e.spilled, e.steps);
  b.log("loops", e.loops);
  b.log("iterations", e.iterations);
  b.share("iterations_a_loop", std::log2(1 + e.iterations), std::log2(2 + e.loops));
  b.log("plain_runs", e.scalar_runs);
  b.log("code_bytes", e.code_bytes);
  b.log("footprint_bytes", e.footprint_bytes);
  b.log("parameter_bytes", e.parameter_bytes);
  b.log("scratch_bytes", e.scratch_bytes);
  b.share("flops_a_byte", e.flops, e.footprint_bytes);
  b.log("parallel_extent", e.parallel_extent);
  b.plain("parallel_loops", e.parallel_loops);
  b.plain("parallel_waste", e.parallel_waste);
  b.plain("threads", threads);
  b.plain("nests", e.nests);
  b.plain("micro_kernels", e.micro_kernels);
  b.plain("variants", e.variants);
  b.plain("depth", e.depth);
}

}  // namespace

CandidateFeatures extract_features(const LoweredKernel& kernel, const Target& target, int threads,
                                   const MicroKernelTable* micro_kernels) {
  const LoopTree tree = make_loop_tree(kernel.kernel, target);
  const Estimate e = estimate(tree, costs_of(target, micro_kernels), threads, micro_kernels);
  CandidateFeatures features;
  build(e, threads, {&features.values, nullptr});
  features.predicted_seconds = e.seconds();
  return features;
}

const std::vector<std::string>& feature_names() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> result;
    build(Estimate{}, 1, {nullptr, &result});
    return result;
  }();
  return names;
}

}  // namespace fettle
