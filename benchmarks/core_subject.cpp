#include "core_subject.h"

#include <memory>

#include "hand_schedules.h"
#include "measure/local_kernel.h"
#include "target/target.h"

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

}  // namespace

CoreSubject fettle_subject() {
  CoreSubject subject;
  subject.hand = [](const Shape& shape, int threads) -> Result<Kernel> {
    const Target target = detect_host(threads);
    FETTLE_TRY(Schedule schedule, hand_schedule(shape, target, threads));
    return kernel_of("hand", shape, schedule, target, threads);
  };
  return subject;
}

}  // namespace fettle::bench
