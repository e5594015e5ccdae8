#include "core_subject.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <set>

#include "codegen/llvm/llvm_codegen.h"
#include "cost/predict/canonical_micro_kernels.h"
#include "cost/predict/micro_kernel_table.h"
#include "cost/predict/predict.h"
#include "database/database.h"
#include "hand_schedules.h"
#include "ir/compare.h"
#include "lower/lower.h"
#include "measure/local_kernel.h"
#include "measure/local_measurer.h"
#include "operators.h"
#include "target/target.h"
#include "tune/describe.h"
#include "tune/space/space.h"
#include "tune/tuner.h"

namespace fettle::bench {
namespace {

using LocalKernels = std::shared_ptr<std::vector<LocalKernel>>;

Kernel kernel_of(const std::string& name, const Shape& shape, LocalKernels places) {
  std::vector<Contender> contenders;
  for (LocalKernel& kernel : *places)
    contenders.push_back({.name = name, .run = [places, &kernel] { kernel.call(); }, .flops = shape.flops()});
  Kernel result;
  result.contender = in_turn(std::move(contenders));
  result.load = [places](std::span<const float> source, std::span<const float> weights) {
    for (LocalKernel& kernel : *places) {
      kernel.set_logical<float>(0, source);
      kernel.set_logical<float>(1, weights);
      (void)kernel.run_prologue();
    }
  };
  result.store = [places](std::span<float> destination) {
    const std::vector<float> values = places->front().logical<float>(2);
    std::copy(values.begin(), values.end(), destination.begin());
  };
  return result;
}

// A schedule's kernel as the benchmark wants it. Parameters: source, weights, result.
Result<Kernel> kernel_of(const std::string& name, const Shape& shape, const Schedule& schedule, const Target& target,
                         int threads) {
  const auto places = std::make_shared<std::vector<LocalKernel>>();
  LocalKernelOptions options = {.threads = threads, .huge_pages = true, .cache = std::make_shared<ObjectCache>()};
  for (int i = 0; i < kPlaces; ++i) {
    FETTLE_TRY(LocalKernel built, LocalKernel::build(schedule.func(), target, options));
    places->push_back(std::move(built));
  }
  return kernel_of(name, shape, places);
}

// [rows, columns] → [columns, rows]
std::vector<float> transposed(std::span<const float> from, std::int64_t rows) {
  const auto n = static_cast<std::int64_t>(from.size()), columns = n / rows;
  std::vector<float> to(from.size());
  for (std::int64_t i = 0; i < n; ++i)
    to[static_cast<std::size_t>(i % columns * rows + i / columns)] = from[static_cast<std::size_t>(i)];
  return to;
}

// The same for images that the program has channels last, and the benchmark channels first.
Kernel channels_last(Kernel kernel, const ConvProblem& p) {
  kernel.load = [load = kernel.load, p](std::span<const float> source, std::span<const float> weights) {
    load(transposed(source, p.channels_in), weights);
  };
  kernel.store = [store = kernel.store, p](std::span<float> destination) {
    std::vector<float> own(destination.size());
    store(own);
    const std::vector<float> values = transposed(own, p.height_out() * p.width_out());
    std::copy(values.begin(), values.end(), destination.begin());
  };
  return kernel;
}

bool is_depthwise(const Shape& shape) { return shape.conv && shape.conv->groups > 1; }

Func program_of(const Shape& shape) {
  if (is_depthwise(shape)) return depthwise_func(*shape.conv);
  return shape.matmul ? matmul_func(*shape.matmul) : convolution_func(*shape.conv);
}

double milliseconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
}

// Best of a few compilations of one module: the machine is shared.
Result<double> compile_ms(const IrModule& module, const Target& target, double plus_ms) {
  double best = 1e9;
  for (int i = 0; i < 5; ++i) {
    const auto start = std::chrono::steady_clock::now();
    FETTLE_TRY(const std::vector<uint8_t> object, compile_object(module, target));
    best = std::min(best, milliseconds_since(start));
  }
  return best + plus_ms;
}

// Lowering and code generation of the hand schedule's nest, then of each of its micro-kernels.
Result<CompileTimes> compile_times(const Shape& shape) {
  const Target target = detect_host(1);
  FETTLE_TRY(const Schedule schedule, hand_schedule(shape, target, 1));
  double lower_ms = 1e9;
  LoweredKernel lowered;
  for (int i = 0; i < 5; ++i) {
    const auto start = std::chrono::steady_clock::now();
    FETTLE_TRY(lowered, lower(schedule.func(), target));
    lower_ms = std::min(lower_ms, milliseconds_since(start));
  }
  CompileTimes times;
  for (const auto& [name, func] : lowered.kernel.funcs) {
    const bool nest = name == lowered.kernel.entry;
    const IrModule one{{{name, func}}, nest ? name : ""};
    FETTLE_TRY(const double ms, compile_ms(one, target, nest ? lower_ms : 0));
    if (nest)
      times.nest_ms = ms;
    else
      times.micro_kernel_ms.push_back(ms);
  }
  return times;
}

// The micro-kernel table of this machine, measured when it is first needed; tuning and prediction may take it for
// granted.
const MicroKernelTable* micro_kernel_table(const Target& target) {
  static const Result<MicroKernelTable> table = MicroKernelTable::load_or_measure(
      target, (default_cache_folder() / ("micro-kernels-" + target.fingerprint().hex().substr(0, 16))).string());
  return table ? &*table : nullptr;
}

Result<Schedule> replayed(const Func& program, const std::string& trace_text, const Target& target) {
  FETTLE_TRY(const ParsedTrace trace, parse_trace(trace_text));
  Schedule schedule(program);
  schedule.set_target(std::make_shared<const Target>(target));
  FETTLE_TRY_VOID(replay(schedule, trace));
  return schedule;
}

Result<Tuned> tuned(const Shape& shape, int threads, double limit_s) {
  const Target target = detect_host(threads);
  const MicroKernelTable* micro_kernels = micro_kernel_table(target);
  const auto start = std::chrono::steady_clock::now();
  LocalMeasurerOptions measuring;
  measuring.target = target;
  measuring.threads = threads;
  FETTLE_TRY(const auto runner, LocalMeasurer::start(std::move(measuring)));
  const auto database = make_memory_database();
  const auto model = make_boosted_trees(0);
  TuneOptions options;
  options.max_seconds = 0.98 * limit_s - milliseconds_since(start) / 1e3;  // ending takes a moment
  options.scheduler.patience = 10;  // there is time: look longer before giving up
  options.describe = describe_by_lowering(std::make_shared<const Target>(target), threads, micro_kernels);
  options.micro_kernels = micro_kernels;
  FETTLE_TRY(const TaskReport report,
             tune_task(program_of(shape), target, threads, *database, *runner, *model, options));
  Tuned result;
  result.seconds = milliseconds_since(start) / 1e3;
  result.measured = static_cast<int>(report.measured);
  FETTLE_TRY(const Schedule best, replayed(program_of(shape), report.best_trace, target));
  FETTLE_TRY(result.kernel, kernel_of("tuned", shape, best, target, threads));
  return result;
}

// Random points of the rules' space, distinct in what they become. All use the same memory, one after the other.
Result<std::vector<RandomCandidate>> random_candidates(const Shape& shape, int count, std::uint64_t seed) {
  const auto target = std::make_shared<const Target>(detect_host(1));
  const MicroKernelTable* micro_kernels = micro_kernel_table(*target);
  const Func program = program_of(shape);
  std::vector<RandomCandidate> candidates;
  std::set<Digest> seen;
  const auto memory = std::make_shared<SharedMemory>(true);
  for (int draw = 0; draw < 20 * count && static_cast<int>(candidates.size()) < count; ++draw) {
    auto schedule = rule_space().generate(program, target, 1, hash_combine(seed, draw), nullptr);
    if (!schedule || !seen.insert(canonical_hash(schedule->func())).second) continue;
    const Result<LoweredKernel> lowered = lower(schedule->func(), *target);
    if (!lowered) continue;
    candidates.push_back({predict_seconds(*lowered, *target, 1, micro_kernels) * 1e9,
                          [shape, target, memory, made = *schedule]() -> Result<Kernel> {
                            FETTLE_TRY(LocalKernel built, LocalKernel::build(made.func(), *target, {.memory = memory}));
                            const auto places = std::make_shared<std::vector<LocalKernel>>();
                            places->push_back(std::move(built));
                            return kernel_of("random", shape, places);
                          }});
  }
  return candidates;
}

Result<std::vector<Contender>> cached_micro_kernels() {
  const Target target = detect_host(1);
  const int64_t lanes = target.vector_lanes(4);
  std::vector<Contender> kernels;
  for (const auto& [rows, vectors] : {std::pair{14, 2}, {8, 3}, {6, 4}, {6, 2}}) {
    if (rows * vectors + vectors + 1 > target.vector_registers) continue;
    const CanonicalMicroKernel micro_kernel{
        .rows = rows, .vectors = vectors, .depth = 128, .repeats = 64, .mode = RowMode::kPacked};
    FETTLE_TRY(const Func func, canonical_micro_kernel(micro_kernel, lanes));
    FETTLE_TRY(LocalKernel built, LocalKernel::build(func, target, {}));
    auto kernel = std::make_shared<LocalKernel>(std::move(built));
    const double multiplies = micro_kernel.calls() * static_cast<double>(micro_kernel.depth * rows * vectors * lanes);
    kernels.push_back({fmt::format("{}x{}", rows, vectors), [kernel] { kernel->call(); }, 2 * multiplies});
  }
  return kernels;
}

Result<double> measure_micro_kernels() {
  const auto start = std::chrono::steady_clock::now();
  FETTLE_TRY_VOID(MicroKernelTable::measure(detect_host(1)).map([](const MicroKernelTable&) {}));
  return milliseconds_since(start) / 1e3;
}

}  // namespace

CoreSubject fettle_subject() {
  CoreSubject subject;
  subject.hand = [](const Shape& shape, int threads) -> Result<Kernel> {
    const Target target = detect_host(threads);
    FETTLE_TRY(Schedule schedule, hand_schedule(shape, target, threads));
    return kernel_of("hand", shape, schedule, target, threads);
  };
  subject.untuned = [](const Shape& shape, int threads) -> Result<Kernel> {
    const Target target = detect_host(threads);
    FETTLE_TRY(Schedule schedule, default_schedule(program_of(shape), std::make_shared<const Target>(target), threads,
                                                   is_depthwise(shape) ? micro_kernel_table(target) : nullptr));
    FETTLE_TRY(Kernel kernel, kernel_of("untuned", shape, schedule, target, threads));
    return is_depthwise(shape) ? channels_last(std::move(kernel), *shape.conv) : std::move(kernel);
  };
  subject.tune = tuned;
  subject.candidates = random_candidates;
  subject.compile = compile_times;
  subject.cached_micro_kernels = cached_micro_kernels;
  subject.measure_micro_kernels = measure_micro_kernels;
  return subject;
}

}  // namespace fettle::bench
