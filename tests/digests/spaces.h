#pragma once
// Spaces: what a workload becomes on a target, point by point.

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "schedule/schedule.h"
#include "target/target.h"

namespace fettle::digests {

/// Points of a space, by number. Which decision a point takes depends on the number of the point, on how many decisions
/// came before it and on the choices, never on the name of its address.
struct PointMaker {
  std::string space;   // "default", "rules", "template/conv2d", "sketches", "metaschedule"
  int64_t points = 0;  // that there are at most; 0: as many as one likes
  std::function<Result<Schedule>(uint64_t point)> make;
};

struct NamedTarget {
  std::string name;  // in tables: "avx512"
  std::string text;  // as parse_target takes it
};
const std::vector<NamedTarget>& named_targets();

/// Threads of the kernels that are made.
inline constexpr int kThreads = 2;

/// The constructed default (without a micro-kernel table), the rules, each template that matches, Ansor's sketches and
/// MetaSchedule's space; of a target with threads the last two. They belong to one thread.
std::vector<PointMaker> point_makers(const Func& workload, const std::shared_ptr<const Target>& target);

}  // namespace fettle::digests
