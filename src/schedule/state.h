#pragma once
// A schedule as a whole. Copying it (`Schedule b = a;`) is free, and Schedule::seed() is its seed.

#include <cstdint>
#include <string>

#include "schedule/schedule.h"

namespace fettle {

/// The program as it is now, and the steps that led to it.
std::string show(const Schedule& schedule);

/// A seed for the fork of that number. Forks of different numbers sample independently of each other, and of the
/// schedule itself. The same number gives the same seed at the same step.
uint64_t fork_seed(const Schedule& schedule, uint64_t number);

/// A schedule with the same steps and decisions, which samples from here on with fork_seed(schedule, number).
/// `original` is the program before the first step. Errors: those of the steps, if it is another program.
Result<Schedule> fork(const Schedule& schedule, const Func& original, uint64_t number);

}  // namespace fettle
