#pragma once
// Names of the threads that loops can be bound to.

#include <string_view>

#include "target/target.h"

namespace fettle {

/// "blockIdx.x", ".y", ".z"; "threadIdx.x", ".y", ".z"; "vthread", "vthread.x", ".y", ".z".
bool is_thread_axis(std::string_view axis);
/// Virtual threads: interleaved in one thread of the machine, so every target has them.
bool is_virtual_thread(std::string_view axis);
/// Whether code for the target can bind a loop to the axis: GPUs ("opencl", "cuda") have all, others virtual threads only.
bool has_thread_axis(const Target& target, std::string_view axis);

}  // namespace fettle
