#include <chrono>
#include <cmath>
#include <fstream>
#include <limits>
#include <optional>

#include <fmt/format.h>

#include "analysis/verify.h"
#include "base/random.h"
#include "candidates/subjects.h"
#include "cost/predict.h"
#include "ir/compare.h"
#include "lower/lower.h"
#include "tune/search/moves.h"
#include "tune/search/workbench.h"
#include "tune/sketch/sketch_space.h"
#include "tune/space/test_workloads.h"

namespace fettle::bench {
namespace {

using Clock = std::chrono::steady_clock;
using testing::NamedWorkload;

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
constexpr size_t kStepsOfACandidate = 25;
constexpr int kThreads = 2;  // that the programs are for; they are made on one
constexpr size_t kRanked = 256;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

struct Subject {
  NamedWorkload workload;
  std::optional<Bound> rate;
};

std::vector<Subject> subjects() {
  using namespace testing;
  const auto matmul = [](int64_t m, int64_t n, int64_t k, bool epilogue = false) {
    return NamedWorkload{fmt::format("matmul {}x{}x{}{}", m, n, k, epilogue ? " + epilogue" : ""),
                         matmul_workload(m, n, k, false, false, true, epilogue)};
  };
  const Bound product = at_least(10'000), convolution = at_least(3'000);
  return {
      {matmul(512, 512, 512), product},
      {matmul(1024, 1024, 1024), product},
      {matmul(197, 768, 768), product},
      {matmul(77, 768, 3072), product},
      {matmul(40, 6625, 120), product},
      {matmul(197, 768, 768, true), {}},
      {{"matmul 197x768x768, B transposed and variable", matmul_workload(197, 768, 768, false, true, false, false)},
       {}},
      {{"batched matmul 12x512x64x512", batched_matmul_workload(12, 512, 512, 64, true)}, {}},
      {{"conv 3x3 56² 64→64 + bias + relu", conv_workload({.h = 56, .w = 56, .ic = 64, .oc = 64, .epilogue = true})},
       convolution},
      {{"conv 3x3 27x35 60→77 + bias + relu", conv_workload({.h = 27, .w = 35, .ic = 60, .oc = 77, .epilogue = true})},
       convolution},
      {{"conv 3x3/2 56² 64→128 + bias + relu",
        conv_workload({.h = 56, .w = 56, .ic = 64, .oc = 128, .stride = 2, .epilogue = true})},
       convolution},
      {{"conv 1x1 14² 256→512 + bias + relu",
        conv_workload({.h = 14, .w = 14, .ic = 256, .oc = 512, .kernel = 1, .padding = 0, .epilogue = true})},
       convolution},
      {{"depthwise 3x3 112² 96",
        conv_workload({.h = 112, .w = 112, .ic = 96, .oc = 96, .groups = 96, .epilogue = true})},
       {}},
      {{"max pool 112² 64", pool_workload(112, 112, 64, false, true)}, {}},
      {{"softmax 1536x128", softmax_workload(1536, 128)}, {}},
      {{"layer norm 128x768", layer_norm_workload(128, 768)}, {}},
  };
}

/// Seconds spent in parts of the pipeline.
struct Parts {
  double verify = 0, lower = 0, features = 0;
  int64_t asked = 0;
};

DescribeFn describe_in_parts(const std::shared_ptr<const Target>& target, Parts& parts) {
  // As describe_by_lowering, with clocks between.
  return [target, &parts](const Func& scheduled) -> Result<Description> {
    ++parts.asked;
    auto start = Clock::now();
    FETTLE_TRY_VOID(verify(scheduled, *target));
    parts.verify += seconds_since(std::exchange(start, Clock::now()));
    FETTLE_TRY(const LoweredKernel kernel, lower(scheduled, *target, {.prologue = false, .expand = false}));
    parts.lower += seconds_since(std::exchange(start, Clock::now()));
    Description description{extract_features(kernel, *target, kThreads, nullptr),
                            kernel.kernel.funcs.at(kernel.kernel.entry)};
    parts.features += seconds_since(start);
    return description;
  };
}

/// Points as an evolutionary search asks for them: at random at first, then one decision away from what is known.
class Points {
 public:
  explicit Points(Workbench& bench) : bench_(bench) {}
  const Candidate* next() {
    const bool random = known_.size() < 64 || stream_.uniform() < 0.25;
    DecisionMap decisions;
    if (!random) decisions = mutated(bench_, known_[stream_.below(known_.size())]->decisions, stream_);
    const Candidate* candidate = bench_.make(decisions, stream_.next());
    if (candidate && candidate->number >= next_number_) {
      next_number_ = candidate->number + 1;
      known_.push_back(candidate);
      return candidate;
    }
    return nullptr;
  }

 private:
  Workbench& bench_;
  RandomStream stream_{1};
  std::vector<const Candidate*> known_;
  int64_t next_number_ = 0;
};

/// What making candidates took, over several searches that know nothing of each other.
struct Made {
  double seconds = 0, predict = 0, steps = 0;
  int64_t distinct = 0, counted = 0, points = 0, searches = 0;
  Parts parts;
};

/// One search, until `end` or until points bring nothing new: small spaces are exhausted within milliseconds.
void make_candidates(const Space& space, const Func& func, const std::shared_ptr<const Target>& target,
                     Clock::time_point end, Made& all) {
  constexpr int kExhausted = 200;
  auto model = make_prediction_only();
  Workbench bench(space, func, target, kThreads, *model, describe_in_parts(target, all.parts));
  Points points(bench);
  std::vector<const Candidate*> made;
  size_t ranked_from = 0;
  const auto rank = [&] {
    const auto start = Clock::now();
    (void)bench.predict(std::span(made).subspan(ranked_from));
    ranked_from = made.size();
    all.predict += seconds_since(start);
  };
  const auto start = Clock::now();
  for (int nothing_new = 0; nothing_new < kExhausted && Clock::now() < end; ++nothing_new) {
    const Candidate* candidate = points.next();
    if (!candidate) continue;
    nothing_new = 0;
    made.push_back(candidate);
    all.steps += static_cast<double>(candidate->steps);
    all.counted += candidate->steps >= kStepsOfACandidate;
    if (made.size() - ranked_from >= kRanked) rank();
  }
  rank();
  all.seconds += seconds_since(start);
  all.distinct += static_cast<int64_t>(made.size());
  all.points += bench.points();
  ++all.searches;
}

void add_rate(Report& report, const Subject& subject, const Space& space, double seconds) {
  const auto& [plain_name, func] = subject.workload;
  const std::string name = plain_name + " (" + space.name() + ")";
  const auto target = std::make_shared<const Target>(detect_host(kThreads));
  Made all;
  const auto end = Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
  while (Clock::now() < end) make_candidates(space, func, target, end, all);
  const auto n = static_cast<double>(all.distinct);
  // The spaces of the rules have some hundred points: made in a moment, most of which is what comes first.
  report.add(name + ": distinct candidates a second", static_cast<double>(all.counted) / all.seconds, "1/s",
             space.name() == "rules" ? std::nullopt : subject.rate);
  report.add(name + ": candidates of a search", n / static_cast<double>(all.searches), "");
  report.add(name + ": steps", all.steps / n, "");
  report.add(name + ": points for each", static_cast<double>(all.points) / n, "");
  const auto each = [&](const char* part, double s) { report.add(name + ": " + part, s / n * 1e6, "us"); };
  each("all", all.seconds);
  each("verify", all.parts.verify);
  each("lower", all.parts.lower);
  each("features", all.parts.features);
  each("score", all.predict);
  each("space, hashes and the rest",
       all.seconds - all.parts.verify - all.parts.lower - all.parts.features - all.predict);
}

double resident_mib() {
  std::ifstream statm("/proc/self/statm");
  double size = 0, resident = kNone;
  statm >> size >> resident;
  return resident * 4096 / (1 << 20);
}

// Searches one after the other, of products of all shapes, each until it is exhausted.
void add_memory(Report& report, int64_t many) {
  const auto target = std::make_shared<const Target>(detect_host(kThreads));
  Made all;
  RandomStream shapes{3};
  double after_a_tenth = kNone;
  for (int64_t searches = 0; all.distinct < many; ++searches) {
    const auto extent = [&] { return static_cast<int64_t>(16 + shapes.below(1000)); };
    const Func func = testing::matmul_workload(extent(), extent(), extent(), false, false, true, searches % 2 == 1);
    make_candidates(rule_space(), func, target, Clock::now() + std::chrono::minutes(1), all);
    if (std::isnan(after_a_tenth) && all.distinct >= many / 10) after_a_tenth = resident_mib();
  }
  const std::string made = fmt::format("{} candidates made: ", all.distinct);
  report.add(made + "memory", resident_mib(), "MiB");
  report.add(made + "memory over that after a tenth", resident_mib() / after_a_tenth, "x", at_most(1.1));
}

}  // namespace

void add_candidates(Report& report, const CandidateBenchOptions& options) {
  const auto sketches = make_sketch_space();
  for (const Subject& subject : subjects()) {
    if (subject.workload.name.find(options.only) == std::string::npos) continue;
    for (const Space* space : {&rule_space(), static_cast<const Space*>(sketches.get())})
      if (options.space.empty() || options.space == space->name()) add_rate(report, subject, *space, options.seconds);
  }
  if (options.many > 0 && std::string("memory").find(options.only) != std::string::npos)
    add_memory(report, options.many);
}

}  // namespace fettle::bench
