#include "runtime/profiler.h"

#include <fmt/format.h>

#include <algorithm>

#include "runtime/origins.h"

namespace fettle {
namespace {

constexpr size_t kShownOrigins = 4;  // of a kernel, in the table

}  // namespace

Profiler::Profiler(ModelContext& context) : context_(context) {
  const FettleModelInfo& info = context.model().info();
  for (int32_t i = 0; i < info.n_kernels; ++i)
    times_.push_back({.name = info.kernel_names[i], .origins = info.kernel_origins[i]});
  context_.set_kernel_hook(record, this);
}

Profiler::~Profiler() { context_.set_kernel_hook(nullptr, nullptr); }

void Profiler::record(void* self, int32_t kernel, int64_t begin_ns, int64_t end_ns) {
  KernelTime& time = static_cast<Profiler*>(self)->times_.at(static_cast<size_t>(kernel));
  const int64_t ns = end_ns - begin_ns;
  time.min_ns = time.calls == 0 ? ns : std::min(time.min_ns, ns);
  time.total_ns += ns;
  ++time.calls;
}

std::string Profiler::to_string() const {
  std::vector<const KernelTime*> order;
  int64_t total_ns = 0;
  for (const KernelTime& time : times_) {
    if (time.calls > 0) order.push_back(&time);
    total_ns += time.total_ns;
  }
  std::ranges::stable_sort(order, std::greater{}, &KernelTime::total_ns);
  std::string text = fmt::format("{:>6} {:>12} {:>8} {:>12}  {}\n", "share", "total us", "calls", "fastest us",
                                 "kernel, and the nodes it does the work of");
  for (const KernelTime* time : order) {
    const std::string origins = origins_to_string(time->origins, kShownOrigins);
    text +=
        fmt::format("{:>5.1f}% {:>12.1f} {:>8} {:>12.2f}  {}{}\n",
                    100.0 * static_cast<double>(time->total_ns) / static_cast<double>(std::max<int64_t>(total_ns, 1)),
                    static_cast<double>(time->total_ns) / 1e3, time->calls, static_cast<double>(time->min_ns) / 1e3,
                    time->name, origins.empty() ? "" : " (" + origins + ")");
  }
  return text;
}

}  // namespace fettle
