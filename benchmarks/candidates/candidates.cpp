#include <chrono>
#include <cmath>
#include <fstream>
#include <functional>
#include <limits>
#include <optional>

#include <fmt/format.h>

#include "analysis/verify.h"
#include "base/random.h"
#include "candidates/subjects.h"
#include "cost/predict/predict.h"
#include "generations/ansor/sketch/sketch_space.h"
#include "generations/registry.h"
#include "ir/compare.h"
#include "lower/lower.h"
#include "tune/describe.h"
#include "tune/search/moves.h"
#include "tune/search/workbench.h"
#include "tune/space/test_workloads.h"

namespace fettle::bench {
namespace {

using Clock = std::chrono::steady_clock;
using testing::NamedWorkload;

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
constexpr size_t kStepsOfACandidate = 25;
constexpr int kThreads = 2;         // that the programs are for; they are made on one
constexpr size_t kConvolution = 8;  // of subjects(): the one of the bounds
constexpr size_t kRanked = 256;
constexpr size_t kAtOnce = 64;         // points that several search threads are asked for
constexpr int64_t kLongSearch = 2000;  // candidates of a search in which memory is measured

// Both spaces verify each program that they hand out, but for races.
constexpr VerifyOptions kLeftToVerify{.races = true, .others = false};

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
  return [target, &parts](const Schedule& schedule) -> Result<Description> {
    const Func& scheduled = schedule.func();
    ++parts.asked;
    auto start = Clock::now();
    FETTLE_TRY_VOID(verify(scheduled, *target, kLeftToVerify));
    parts.verify += seconds_since(std::exchange(start, Clock::now()));
    FETTLE_TRY(const LoweredKernel kernel,
               lower(scheduled, *target, {.pipeline = Pipeline::kUnexpanded, .prologue = false}));
    parts.lower += seconds_since(std::exchange(start, Clock::now()));
    Description description{extract_features(kernel, *target, kThreads, nullptr),
                            kernel.kernel.funcs.at(kernel.kernel.entry)};
    parts.features += seconds_since(start);
    return description;
  };
}

/// As a learned cost model wants them described: all of it counts as features.
DescribeFn describe_for(const CostModelDef& model, const std::shared_ptr<const Target>& target, Parts& parts) {
  return [describe = model.describe(target, kThreads, nullptr), &parts](const Schedule& schedule) {
    ++parts.asked;
    const auto start = Clock::now();
    auto description = describe(schedule);
    parts.features += seconds_since(start);
    return description;
  };
}

DescribeFn describe_verified(const std::shared_ptr<const Target>& target) {
  return [target, describe = describe_by_lowering(target, kThreads)](const Schedule& schedule) -> Result<Description> {
    FETTLE_TRY_VOID(verify(schedule.func(), *target, kLeftToVerify));
    return describe(schedule);
  };
}

/// Points as an evolutionary search asks for them: at random at first, then one decision away from what is known.
class Points {
 public:
  explicit Points(Workbench& bench) : bench_(bench) {}

  /// Makes one point; the candidate if it is new, else null.
  const Candidate* next() {
    const PointRequest request = ask();
    return noted(bench_.make(request.decisions, request.key));
  }
  /// Makes several at once; those that are new.
  std::vector<const Candidate*> next(size_t n) {
    std::vector<PointRequest> requests(n);
    for (PointRequest& request : requests) request = ask();
    std::vector<const Candidate*> fresh;
    for (const Candidate* candidate : bench_.make_all(requests))
      if (noted(candidate)) fresh.push_back(candidate);
    return fresh;
  }

 private:
  PointRequest ask() {
    const bool random = known_.size() < 64 || stream_.uniform() < 0.25;
    DecisionMap decisions;
    if (!random) decisions = mutated(bench_, known_[stream_.below(known_.size())]->decisions, stream_);
    return {std::move(decisions), stream_.next()};
  }
  const Candidate* noted(const Candidate* candidate) {
    if (!candidate || candidate->number < next_number_) return nullptr;
    next_number_ = candidate->number + 1;
    known_.push_back(candidate);
    return candidate;
  }

  Workbench& bench_;
  RandomStream stream_{1};
  std::vector<const Candidate*> known_;
  int64_t next_number_ = 0;
};

/// Is told of each candidate made.
using ListFn = std::function<void(const Candidate&)>;

/// All that is known of a candidate, floats bit for bit.
std::string line_of(const Candidate& candidate) {
  std::string line = fmt::format("{} {} {} {:a} {}", candidate.number, candidate.steps, candidate.program.hex(),
                                 candidate.features.predicted_seconds, candidate.decisions.size());
  for (const auto& [address, decision] : candidate.decisions) line += fmt::format(" {}={}", address, to_text(decision));
  for (const float value : candidate.features.values) line += fmt::format(" {:a}", value);
  return line + "\n";
}

/// What making candidates took, over several searches that know nothing of each other.
struct Made {
  double seconds = 0, predict = 0, steps = 0;
  int64_t distinct = 0, counted = 0, points = 0, searches = 0;
  Parts parts;
};

/// What ends a search, beside points that bring nothing new: small spaces are exhausted within milliseconds.
struct Limits {
  Clock::time_point end;
  int64_t most = std::numeric_limits<int64_t>::max();  // candidates
};

void make_candidates(const Space& space, const Func& func, const std::shared_ptr<const Target>& target,
                     const Limits& limits, Made& all, const ListFn& list = {},
                     const CostModelDef* described_for = nullptr) {
  constexpr int kExhausted = 200;
  auto model = make_prediction_only();
  Workbench bench(
      space, func, target, kThreads, *model,
      described_for ? describe_for(*described_for, target, all.parts) : describe_in_parts(target, all.parts));
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
  for (int nothing_new = 0; nothing_new < kExhausted && Clock::now() < limits.end; ++nothing_new) {
    if (static_cast<int64_t>(made.size()) >= limits.most) break;
    const Candidate* candidate = points.next();
    if (!candidate) continue;
    nothing_new = 0;
    made.push_back(candidate);
    if (list) list(*candidate);
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

Clock::time_point after(double seconds) {
  return Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
}

void add_rate(Report& report, const Subject& subject, const Space& space, const CandidateBenchOptions& options,
              const ListFn& list) {
  const auto& [plain_name, func] = subject.workload;
  const std::string name = plain_name + " (" + space.name() + ")";
  const auto target = std::make_shared<const Target>(detect_host(kThreads));
  const CostModelDef* described_for = options.cost_model.empty() ? nullptr : find_cost_model(options.cost_model);
  Made all;
  Limits limits{after(options.seconds)};
  if (options.most > 0) limits = {Clock::time_point::max(), options.most};
  do {
    make_candidates(space, func, target, limits, all, list, described_for);
  } while (options.most == 0 && Clock::now() < limits.end);
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

/// As add_rate, on search threads that make several points at once.
void add_threaded_rate(Report& report, const Subject& subject, const Space& space, double seconds) {
  const auto target = std::make_shared<const Target>(detect_host(kThreads));
  auto model = make_prediction_only();
  Workbench bench(space, subject.workload.func, target, kThreads, *model, describe_verified(target), kThreads);
  Points points(bench);
  int64_t counted = 0;
  const auto start = Clock::now(), end = after(seconds);
  while (Clock::now() < end) {
    const std::vector<const Candidate*> fresh = points.next(kAtOnce);
    for (const Candidate* candidate : fresh) counted += candidate->steps >= kStepsOfACandidate;
    (void)bench.predict(fresh);
  }
  const std::string name = fmt::format("{} ({}), {} search threads: ", subject.workload.name, space.name(), kThreads);
  const double rate = static_cast<double>(counted) / seconds_since(start);
  report.add(name + "distinct candidates a second", rate, "1/s");
  report.add(name + "a second and thread", rate / kThreads, "1/s");
}

// What the process has written to, and files do not back.
double anonymous_mib() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with("RssAnon:")) return std::stod(line.substr(std::string("RssAnon:").size())) / 1024;
  return kNone;
}

// Searches one after the other, of products of all shapes: in the space of the rules each until it is exhausted, then
// among sketches. What is remembered from one to the next has its bounds.
void add_memory(Report& report, int64_t many) {
  constexpr int64_t kParts = 5;
  const auto target = std::make_shared<const Target>(detect_host(kThreads));
  Made all;
  RandomStream shapes{3};
  std::vector<double> after;  // each part
  for (int64_t searches = 0; all.distinct < many; ++searches) {
    const auto extent = [&] { return static_cast<int64_t>(16 * (1 + shapes.below(63))); };
    const Func func = testing::matmul_workload(extent(), extent(), extent(), false, false, true, searches % 2 == 1);
    make_candidates(rule_space(), func, target, {Clock::time_point::max()}, all);
    make_candidates(*make_sketch_space(), func, target, {Clock::time_point::max(), kLongSearch}, all);
    while (static_cast<int64_t>(after.size()) < kParts &&
           all.distinct >= many / kParts * (static_cast<int64_t>(after.size()) + 1))
      after.push_back(anonymous_mib());
  }
  const std::string made = fmt::format("{} candidates made: anonymous memory", all.distinct);
  for (size_t part = 0; part < after.size(); ++part)
    report.add(fmt::format("{} after {} of {} parts", made, part + 1, kParts), after[part], "MiB");
  report.add(made + ", of what it was after the first part", after.back() / after.front(), "x", at_most(1.1));
}

}  // namespace

Result<> add_candidates(Report& report, const CandidateBenchOptions& options, const std::function<Result<>()>& save) {
  const auto sketches = make_sketch_space();
  std::ofstream out;
  ListFn list;
  if (!options.list.empty()) {
    out.open(options.list);
    if (!out) return fail(ErrorCode::E702, "cannot write " + options.list);
    list = [&](const Candidate& candidate) { out << line_of(candidate); };
  }
  const std::vector<Subject> all = subjects();
  const auto wanted = [&](const std::string& name) { return name.find(options.only) != std::string::npos; };
  for (const Subject& subject : all) {
    if (!wanted(subject.workload.name)) continue;
    for (const Space* space : {&rule_space(), static_cast<const Space*>(sketches.get())}) {
      if (!options.space.empty() && options.space != space->name()) continue;
      add_rate(report, subject, *space, options, list);
      FETTLE_TRY_VOID(save());
    }
  }
  const bool threads = options.most == 0 && (options.space.empty() || options.space == sketches->name());
  for (const size_t i : {size_t{0}, kConvolution}) {
    if (!threads || !wanted(all[i].workload.name)) continue;
    add_threaded_rate(report, all[i], *sketches, options.seconds);
    FETTLE_TRY_VOID(save());
  }
  if (options.many > 0 && std::string("memory").find(options.only) != std::string::npos) {
    add_memory(report, options.many);
    FETTLE_TRY_VOID(save());
  }
  return {};
}

}  // namespace fettle::bench
