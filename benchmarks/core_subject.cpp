#include "core_subject.h"

#include <algorithm>
#include <chrono>
#include <memory>

#include "codegen/llvm/llvm_codegen.h"
#include "hand_schedules.h"
#include "lower/lower.h"
#include "measure/local_kernel.h"
#include "operators.h"
#include "target/target.h"
#include "tune/space/space.h"

namespace fettle::bench {
namespace {

// A schedule's kernel as the benchmark wants it. Parameters: source, weights, result.
Result<Kernel> kernel_of(const std::string& name, const Shape& shape, const Schedule& schedule, const Target& target,
                         int threads) {
  FETTLE_TRY(LocalKernel built, LocalKernel::build(schedule.func(), target, {.threads = threads}));
  auto kernel = std::make_shared<LocalKernel>(std::move(built));
  Kernel result;
  result.contender.name = name;
  result.contender.flops = shape.flops();
  result.contender.run = [kernel] { kernel->call(); };
  result.load = [kernel](std::span<const float> source, std::span<const float> weights) {
    kernel->set_logical<float>(0, source);
    kernel->set_logical<float>(1, weights);
    (void)kernel->run_prologue();
  };
  result.store = [kernel](std::span<float> destination) {
    const std::vector<float> values = kernel->logical<float>(2);
    std::copy(values.begin(), values.end(), destination.begin());
  };
  return result;
}

Func program_of(const Shape& shape) {
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

// Lowering and code generation of the hand schedule's nest, then of each of its atoms.
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
    if (nest) times.nest_ms = ms;
    else times.atom_ms.push_back(ms);
  }
  return times;
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
    FETTLE_TRY(Schedule schedule,
               default_schedule(program_of(shape), std::make_shared<const Target>(target), threads));
    return kernel_of("untuned", shape, schedule, target, threads);
  };
  subject.compile = compile_times;
  return subject;
}

}  // namespace fettle::bench
