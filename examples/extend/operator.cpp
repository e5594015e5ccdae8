// An operator of one's own: swish, x * sigmoid(x). What each element is suffices; a schedule is found for it.

#include <cmath>

#include "matmul.h"
#include "measure/local_kernel.h"
#include "tune/space/space.h"

using namespace fettle;

te::Tensor swish(const te::Tensor& x) {
  return te::compute(x.shape(), [&](const auto& i) { return x(i) * math("sigmoid", {x(i)}); }, "swish");
}

Result<std::string> example() {
  const te::Tensor x = te::placeholder({37, 129}, kF32, "X");
  const Func program = te::create_func("swish", {x}, {swish(x)});
  const auto target = std::make_shared<const Target>(detect_host(1));
  FETTLE_TRY(const Schedule schedule, default_schedule(program, target, 1));
  FETTLE_TRY(LocalKernel kernel, LocalKernel::build(schedule.func(), *target));
  FETTLE_TRY_VOID(kernel.run());
  const std::vector<float> in = kernel.logical<float>(0), out = kernel.logical<float>(1);
  for (size_t i = 0; i < in.size(); ++i)
    if (!(std::abs(out[i] - in[i] / (1 + std::exp(-in[i]))) < 1e-6f)) return fail(ErrorCode::E405, "swish is wrong");
  return to_text(schedule.trace());
}

int main() { return tell(example()); }
