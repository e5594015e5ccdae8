#pragma once
// Names of the threads that loops can be bound to.

#include <string_view>

#include "target/target.h"

namespace fettle {

/// "blockIdx.x", ".y", ".z"; "threadIdx.x", ".y", ".z"; "vthread", "vthread.x", ".y", ".z".
bool is_thread_axis(std::string_view axis);
/// Virtual threads: interleaved in one thread of the machine, so every target has them.
bool is_virtual_thread(std::string_view axis);
/// Whether code for the target can bind a loop to the axis: what it declares, and virtual threads.
bool has_thread_axis(const Target& target, std::string_view axis);

/// Which blocks of threads ("blockIdx.x" …), or which of the threads of one block ("threadIdx.x" …).
bool is_block_axis(std::string_view axis);
bool is_block_thread_axis(std::string_view axis);
/// 0, 1, 2 for .x, .y, .z.
int axis_dimension(std::string_view axis);

}  // namespace fettle
