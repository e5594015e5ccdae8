#include "driver/untuned.h"

#include "tune/space/space.h"

namespace fettle {

Result<Schedule> untuned_schedule(const Func& workload, std::shared_ptr<const Target> target, int threads,
                                  double max_error_bound) {
  auto made = default_schedule(workload, target, threads, nullptr, max_error_bound);
  if (made) return made;
  // What the rules cannot handle runs as plain loops.
  Schedule plain(workload);
  plain.set_target(std::move(target));
  return plain;
}

}  // namespace fettle
