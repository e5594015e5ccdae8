#include "schedules/steps.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <memory>

#include <fmt/format.h>

#include "base/check.h"
#include "harness/peak.h"
#include "measure/local_kernel.h"
#include "target/target.h"

namespace fettle::examples {

int64_t lanes_of(const Schedule& s) { return s.target()->vector_lanes(4); }

IndexMap index_map(const std::string& text) {
  IndexMap map;
  FETTLE_CHECK_MSG(from_arg(ArgValue{text}, map), text);
  return map;
}

Result<> unroll_all(Schedule& s, const Loops& loops) {
  for (const LoopRef& loop : loops) FETTLE_TRY_VOID(unroll(s, {.loop = loop}));
  return {};
}

Result<> as_vectors(Schedule& s, LoopRef loop, Tail tail) {
  FETTLE_TRY(const Loops parts, split(s, {.loop = loop, .factors = {kInfer, lanes_of(s)}, .tail = tail}));
  FETTLE_TRY_VOID(unroll(s, {.loop = parts[0]}));
  return vectorize(s, {.loop = parts[1]});
}

Result<> in_order(Schedule& s, const Loops& loops) {
  if (loops.size() < 2) return {};
  return reorder(s, {.loops = loops});
}

Result<> in_registers(Schedule& s, BlockRef block) { return set_scope(s, {.block = block, .scope = kScopeRegister}); }

Result<> all_at(Schedule& s, const std::vector<std::string>& names, LoopRef loop) {
  for (auto name = names.rbegin(); name != names.rend(); ++name) {
    FETTLE_TRY(const BlockRef block, get_block(s, {.name = *name}));
    FETTLE_TRY_VOID(compute_at(s, {.block = block, .loop = loop, .preserve_unit_loops = false}));
  }
  return {};
}

namespace {

double now_s() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

// The largest difference of all outputs, relative to the largest value.
double difference(LocalKernel& a, LocalKernel& b) {
  double largest = 0, scale = 0;
  for (int p = 0; p < a.n_params(); ++p) {
    if (a.param(p).kind != ParamKind::kOutput) continue;
    const std::vector<float> x = a.logical<float>(p), y = b.logical<float>(p);
    for (size_t i = 0; i < x.size(); ++i) {
      const double error = std::abs(static_cast<double>(x[i]) - y[i]);
      largest = error <= largest ? largest : error;  // NaN stays
      scale = std::max(scale, std::abs(static_cast<double>(x[i])));
    }
  }
  return largest / scale;
}

// The least time of a call, in seconds; at least one.
Result<double> best_time(LocalKernel& kernel, double seconds) {
  double best = 1e9;
  const double end = now_s() + seconds;
  do {
    const double start = now_s();
    FETTLE_TRY_VOID(kernel.run());
    best = std::min(best, now_s() - start);
  } while (now_s() < end);
  return best;
}

}  // namespace

bool run_steps(const Subject& subject, double seconds) {
  const auto target = std::make_shared<const Target>(detect_host(1));
  fmt::print("{}: {}\n", subject.name, subject.what);
  auto plain = LocalKernel::build(subject.func, *target, {.plain = true});
  const Result<double> plain_time = plain ? best_time(*plain, 0) : Result<double>(tl::unexpected(plain.error()));
  if (!plain_time) {
    fmt::print("  as written: {}\n", plain_time.error().to_string());
    return false;
  }
  bench::PeakMeter peak(1);
  for (int i = 0; i < 4; ++i) peak.slice(5e5);
  // The peak is that of the moment: clocks follow what has been running.
  const auto print = [&](const std::string& title, double time, size_t steps) {
    const double now = std::max(peak.slice(1e6), peak.slice(1e6));
    fmt::print("  {:<28} {:10.4f} ms", title, time * 1e3);
    if (subject.flops > 0) fmt::print("  {:6.1f} % of peak", 100 * subject.flops / time * 1e-9 / now);
    fmt::print("  {:3} steps", steps);
  };
  print("as written", *plain_time, 0);
  fmt::print("\n");
  bool right = true;
  for (const Step& step : subject.steps) {
    Schedule s(subject.func);
    s.set_target(target);
    if (const auto done = step.apply(s); !done) {
      fmt::print("  {}: {}\n", step.title, explain(done.error()));
      return false;
    }
    auto kernel = LocalKernel::build(s.func(), *target, {.huge_pages = true});
    Result<double> time = kernel ? best_time(*kernel, 0) : Result<double>(tl::unexpected(kernel.error()));
    if (time && seconds > 0) time = best_time(*kernel, seconds);
    if (!time) {
      fmt::print("  {}: {}\n", step.title, time.error().to_string());
      return false;
    }
    const double error = difference(*plain, *kernel);
    const bool fits = error <= subject.tolerance;
    right &= fits;
    print(step.title, *time, s.trace().size());
    fmt::print("  off by {:.1e} of scale{}\n", error, fits ? "" : ": WRONG");
  }
  return right;
}

std::vector<Subject> all_subjects() {
  return {gemm(), convolution(), depthwise(), softmax(), layer_norm(), attention()};
}

}  // namespace fettle::examples
