#pragma once

#include "schedule/schedule.h"

namespace fettle {

/// Gives each iteration of a loop to a thread of its own.
///   for i in e: S   →   for i in e thread axis("threadIdx.x"): S
/// The iterations must be independent, as for parallel. Run in order they mean the same, and so the interpreter does.
/// thread_axis: "blockIdx.x", "threadIdx.x" (also .y, .z), or a virtual thread: "vthread", "vthread.x" …, whose
///              iterations are interleaved in one thread of the machine
/// Loops of one nest bound to the same axis share the threads. They stand side by side, or a nest that fills a buffer
/// stands inside and does not depend on the outer loop. Then each thread does its share of it for all (cooperative
/// fetching):
///   for t in 8 threadIdx.x: for k: [for u in 8 threadIdx.x: A_shared[u] = A[k, u]; C[t] += A_shared[…]]
/// Virtual threads may be nested. A CPU has virtual threads only, where they are ordinary loops: E301 when the program
/// is lowered. What GPUs make of it: lower/device/device.h.
/// Returns nothing; the reference stays good. Costs nothing.
/// Errors: E201 not serial · E206 no such loop · E207 inside, or around, a loop bound to the same axis, where
///         the inner one depends on the outer one or fills what each thread has of its own
///         E210 iterations depend on one another · E241 no such axis
struct BindArgs {
  LoopRef loop;
  std::string thread_axis;
  static constexpr auto fields =
      std::tuple{field("loop", &BindArgs::loop), field("thread_axis", &BindArgs::thread_axis)};
};
Result<> bind(Schedule& s, const BindArgs& args);

}  // namespace fettle
